"""Layers of others beside the built-in ones: what they need, what they get, and what their faults cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from conversation import LATER, MIRA, NOW, SAID, SKEW, block, entry, looked, opened, settings, tool, turn
from foreign_layers import Saying

from casenotes import Context, EpisodicSettings, Scope, Settings, Tool
from casenotes.config import JobSettings, StorageSettings
from casenotes.errors import SettingsError, StateConflict, UsageError
from casenotes.events import Event
from casenotes.layers.base import (
    BaseLayer,
    CompleteRequest,
    LearnRequest,
    Recalled,
    RecallRequest,
    TokenRange,
    ToolRequest,
)
from casenotes.stores.base import Shown
from casenotes.testing import ScriptedModel

PATIENCE = 20.0
DEADLINE = 0.2


def quick(**jobs: Any) -> Settings:
    """Short deadlines and pauses."""
    given = {"first_retry_seconds": 0.02, "longest_retry_seconds": 0.1, "poll_seconds": 0.05, **jobs}
    return replace(
        settings(),
        recall_deadline_seconds=DEADLINE,
        jobs=JobSettings(**given),
        storage=StorageSettings(close_timeout_seconds=2),
    )


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def failed(events: Sequence[Event], name: str = "layer.failed") -> list[tuple[str, str]]:
    return [(event.data["source"], event.data["error"]) for event in events if event.name == name]


def names(context: Context) -> list[str]:
    return [found.name for found in context.blocks]


class Notes(BaseLayer):
    """Keeps what it is told, and fails as often as it shall."""

    def __init__(self, name: str = "notes", failures: float = 0, **attributes: Any) -> None:
        self.name = name
        self.failures = failures
        self.learned: list[LearnRequest] = []
        self.tried: list[float] = []
        self.completed: list[CompleteRequest] = []
        self.calls: list[str] = []
        vars(self).update(attributes)

    async def init(self) -> None:
        self.calls.append("init")

    async def recall(self, request: RecallRequest) -> Recalled:
        self.calls.append("recall")
        assert request.state is not None
        kept = (await request.state.read()).value
        return Recalled(f"<notes>{kept['text']}</notes>" if kept else "")

    async def learn(self, request: LearnRequest) -> None:
        self.calls.append("learn")
        self.tried.append(time.monotonic())
        if len(self.tried) <= self.failures:
            raise RuntimeError(f"{self.name} is out of order")
        self.learned.append(request)

    async def complete(self, request: CompleteRequest) -> None:
        self.calls.append("complete")
        self.completed.append(request)


class TestRegistration:
    async def test_r10_01_a_name_and_recall_are_enough(self, shared_url: str, scope: Scope) -> None:
        class Weather:
            name = "weather"

            async def recall(self, request: RecallRequest) -> str:
                return f"It rains on {request.scope.resource_id}."

        async with opened(shared_url, layers=[Weather()]) as memory:
            under_way = await memory.begin(scope, "hello")
            assert block(under_way.context, "weather") == "It rains on mira."
            (found,) = under_way.context.blocks
            assert (found.stable, found.tokens) == (False, memory.count_tokens(found.text))
            await memory.complete(under_way, "Hello!", sync=True)
            await memory.finish(scope)
            elsewhere = await memory.begin(Scope(scope.agent_id, None, "nobody"), "hello")
            assert elsewhere.context.blocks == (), "its default scope is the resource"

    @pytest.mark.parametrize(
        ("attributes", "told"),
        [
            ({"name": None}, "is named None; give it a `name`"),
            ({"name": ""}, "is named ''"),
            ({"name": "two words"}, "is named 'two words'"),
            ({"name": "a,b"}, "is named 'a,b'"),
            ({"name": "x" * 65}, "is named 'xxx"),
            ({"slot": "300"}, "layer 'notes': slot is '300'"),
            ({"slot": 1.5}, "layer 'notes': slot is 1.5"),
            ({"slot": True}, "layer 'notes': slot is True"),
            ({"scope": "user"}, "layer 'notes': scope is 'user'; it must be 'thread' or 'resource'"),
            ({"scope": None}, "layer 'notes': scope is None"),
            ({"budget": 500}, "layer 'notes': budget is 500"),
            ({"budget": (1, 2, 3)}, r"layer 'notes': budget is \(1, 2, 3\)"),
            ({"budget": (50, 10)}, r"layer 'notes': budget is \(50, 10\).*min <= max"),
            ({"budget": (-1, 10)}, r"layer 'notes': budget is \(-1, 10\)"),
            ({"budget": ("a", "b")}, "layer 'notes': budget is"),
            ({"budget": TokenRange(0, None)}, "layer 'notes': budget is"),
            ({"stable": "no"}, "layer 'notes': stable is 'no'; it must be True or False"),
            ({"every_step": None}, "layer 'notes': every_step is None"),
            ({"learns_from": ("win",), "learn": len}, r"layer 'notes': learns_from has \['win'\]"),
            ({"learns_from": "success", "learn": len}, "layer 'notes': learns_from is 'success'"),
            ({"learns_from": None, "learn": len}, "layer 'notes': learns_from is None"),
            ({"recall": "text"}, "layer 'notes': recall is 'text'; it must be a function"),
            ({"learn": 5}, "layer 'notes': learn is 5"),
            ({"tools": []}, r"layer 'notes': tools is \[\]"),
            ({"complete": None}, "layer 'notes': complete is None"),
            ({"init": True}, "layer 'notes': init is True"),
        ],
    )
    async def test_r10_02_what_is_wrong_is_named(
        self, shared_sqlite_url: str, attributes: dict[str, Any], told: str
    ) -> None:
        layer = Saying(**{"name": "notes", **attributes})
        with pytest.raises(SettingsError, match=told):
            async with opened(shared_sqlite_url, layers=[layer]):
                pass

    async def test_r10_04_init_comes_first_and_once(self, shared_url: str, scope: Scope) -> None:
        notes = Notes("first-init", learns_from=("success",))
        async with opened(shared_url, layers=[notes]) as memory:
            assert notes.calls == ["init"]
            await turn(memory, scope, "hello")
            await turn(memory, scope, "and again")
            await memory.finish(scope)
        assert notes.calls == ["init", "recall", "learn", "recall", "learn", "complete"]

    async def test_a_failing_init_fails_the_opening_and_closes_the_store(self, sqlite_url: str) -> None:
        class Broken(Saying):
            async def init(self) -> None:
                raise RuntimeError("no disk")

        with pytest.raises(RuntimeError, match="no disk"):
            async with opened(sqlite_url, layers=[Broken("broken")]):
                pass
        async with opened(sqlite_url) as memory:
            assert (await memory.stats()).messages == 0

    async def test_r10_11_each_layer_has_its_own_state_in_each_scope(
        self, shared_url: str, scope: Scope
    ) -> None:
        seen: dict[tuple[str, str | None, str | None], Any] = {}

        class Keeping(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                assert request.state is not None
                current = await request.state.read()
                seen[self.name, request.scope.resource_id, request.scope.thread_id] = current.value
                await request.state.write({"by": [self.name, request.scope.thread_id]}, current.version, "me")
                return Recalled()

        layers = [Keeping("of-user"), Keeping("of-thread", scope="thread")]
        jonas, tuesday = replace(scope, resource_id="jonas"), replace(scope, thread_id="tuesday")
        async with opened(shared_url, layers=layers) as memory:
            for place in (scope, tuesday, jonas):
                await memory.begin(place, "hello")
            assert seen == {
                ("of-user", "mira", "monday"): {},
                ("of-user", "mira", "tuesday"): {"by": ["of-user", "monday"]},
                ("of-user", "jonas", "monday"): {},
                ("of-thread", "mira", "monday"): {},
                ("of-thread", "mira", "tuesday"): {},
                ("of-thread", "jonas", "monday"): {},
            }
            await memory.begin(tuesday, "again")
            assert seen["of-thread", "mira", "tuesday"] == {"by": ["of-thread", "tuesday"]}

    async def test_r10_11_whoever_has_not_seen_the_newest_state_writes_nothing(
        self, shared_url: str, scope: Scope
    ) -> None:
        conflicts: list[str] = []

        class Racing(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                assert request.state is not None
                await request.state.write({"n": 1}, 0, "first")
                try:
                    await request.state.write({"n": 2}, 0, "late")
                except StateConflict as error:
                    conflicts.append(str(error))
                with pytest.raises(UsageError, match="characters; the limit"):
                    await request.state.write({"n": "x" * 1_000_001}, 1)
                (newest,) = await request.state.history()
                return Recalled(f"{newest.value} {newest.version} {newest.author}")

        async with opened(shared_url, layers=[Racing("racing")]) as memory:
            context = (await memory.begin(scope, "hello")).context
        assert block(context, "racing") == "{'n': 1} 1 first"
        assert conflicts == ["the state of layer 'racing' is not at version 0 any more; read it again"]


def raises(error: BaseException) -> Callable[[RecallRequest], Awaitable[Any]]:
    async def recall(_request: RecallRequest) -> Any:
        raise error

    return recall


class TestFaults:
    """One bad layer between two good ones."""

    async def begun(self, url: str, scope: Scope, bad: Any) -> tuple[Context, list[tuple[str, str]], float]:
        events: list[Event] = []
        layers = [Saying("before", slot=340), bad, Saying("after", slot=360)]
        async with opened(url, layers=layers, config=quick(), on_event=events.append) as memory:
            started = time.monotonic()
            under_way = await memory.begin(scope, "hello")
            seconds = time.monotonic() - started
            assert [found for found in names(under_way.context) if found != bad.name] == ["before", "after"]
            context = await memory.step(under_way, looked(1, "found"))
            assert names(context) == names(under_way.context)
            await memory.complete(under_way, "Hello!", sync=True)
            await memory.finish(scope)
            assert len(await memory.history(scope)) == 4
        assert all(event.scope == scope for event in events if event.name == "layer.failed")
        ours = {layer.name for layer in layers}  # built-in ones may be late on a busy machine
        return under_way.context, [fault for fault in failed(events) if fault[0] in ours], seconds

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (
                RuntimeError("no key sk-ant-api03-abcdefghijklmnopqrstuv"),
                "RuntimeError: no key [secret",
            ),
            (ExceptionGroup("several", [ValueError("x")]), "ExceptionGroup: several"),
            (KeyError("gone"), "KeyError: 'gone'"),
            (asyncio.CancelledError(), ""),
            (TimeoutError(), "TimeoutError"),
        ],
    )
    async def test_r03_03_a_layer_that_fails_costs_its_block(
        self, shared_url: str, scope: Scope, error: BaseException, told: str
    ) -> None:
        context, failures, _seconds = await self.begun(shared_url, scope, Saying("bad", recall=raises(error)))
        assert [source for source, _told in failures] == ["bad"]
        assert failures[0][1].startswith(told)
        (reason,) = context.trace["layers"]["bad"]["left_out"]
        assert reason == f"failed: {failures[0][1]}"
        assert "sk-ant" not in str(failures) + str(context.trace)

    async def test_r03_04_a_layer_that_hangs_costs_its_block_and_the_deadline(
        self, shared_url: str, scope: Scope
    ) -> None:
        ended: list[str] = []

        class Hanging(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                try:
                    await asyncio.sleep(3_600)
                finally:
                    ended.append("finally")
                return Recalled("too late")

        context, failures, seconds = await self.begun(shared_url, scope, Hanging("bad"))
        assert failures == [("bad", "late")]
        assert ended == ["finally"], "it was really cancelled"
        assert DEADLINE <= seconds < PATIENCE
        assert context.trace["layers"]["bad"] == {
            "tokens": 0,
            "seconds": DEADLINE,
            "left_out": ["failed: late"],
        }

    async def test_r03_05_a_layer_that_does_not_let_itself_be_cancelled_is_left_behind(
        self, shared_url: str, scope: Scope
    ) -> None:
        going_on, ended = asyncio.Event(), asyncio.Event()

        class Stubborn(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                while not going_on.is_set():
                    try:
                        await going_on.wait()
                    except asyncio.CancelledError:
                        continue
                ended.set()
                return Recalled("I have an answer now")

        context, failures, seconds = await self.begun(shared_url, scope, Stubborn("bad"))
        assert failures == [("bad", "late")]
        assert "bad" not in names(context)
        assert seconds < PATIENCE
        going_on.set()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()

    async def test_r03_05_an_error_of_a_cancelled_layer_is_told_once(
        self, shared_url: str, scope: Scope
    ) -> None:
        class Rude(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                try:
                    await asyncio.sleep(3_600)
                except asyncio.CancelledError:
                    raise RuntimeError("how rude") from None
                return Recalled()

        _context, failures, _seconds = await self.begun(shared_url, scope, Rude("bad"))
        assert failures == [("bad", "late")]

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (None, "TypeError: recall must give text or Recalled, not NoneType"),
            (42, "TypeError: recall must give text or Recalled, not int"),
            ({"text": "a"}, "TypeError: recall must give text or Recalled, not dict"),
            (Recalled(b"bytes"), "TypeError: text of Recalled is b'bytes'"),
            (Recalled(None), "TypeError: text of Recalled is None"),
            (Recalled("a", left_out=None), "TypeError: left_out of Recalled is None"),
            (Recalled("a", left_out="why"), "TypeError: left_out of Recalled is 'why'"),
            (Recalled("a", left_out=(1,)), "TypeError: left_out of Recalled is (1,)"),
            (Recalled("a", shown=("id",)), "TypeError: shown of Recalled is ('id',)"),
        ],
    )
    async def test_r10_21_nonsense_costs_its_block(
        self, shared_sqlite_url: str, scope: Scope, answer: Any, told: str
    ) -> None:
        context, failures, _seconds = await self.begun(shared_sqlite_url, scope, Saying("bad", answer))
        assert failures == [("bad", told)]
        assert context.trace["layers"]["bad"]["left_out"] == [f"failed: {told}"]

    @pytest.mark.parametrize(
        ("fit", "told"),
        [
            (lambda _room: 1 / 0, "ZeroDivisionError"),
            (lambda _room: None, "TypeError: recall must give text or Recalled"),
            ("shorter", "TypeError: 'str' object is not callable"),
        ],
    )
    async def test_r10_21_a_shortening_that_fails_costs_its_block(
        self, shared_sqlite_url: str, scope: Scope, fit: Any, told: str
    ) -> None:
        long = Saying("bad", Recalled("word " * 100, fit=fit), budget=(0, 50))
        context, failures, _seconds = await self.begun(shared_sqlite_url, scope, long)
        assert [source for source, _told in failures] == ["bad"]
        assert failures[0][1].startswith(told)
        assert context.trace["layers"]["bad"]["left_out"] == [f"failed: {failures[0][1]}"]

    async def test_r10_21_items_that_nobody_has_do_no_harm(self, shared_url: str, scope: Scope) -> None:
        odd = Saying("odd", Recalled("text", shown=(Shown("entry", "nobody has it"),)))
        context, failures, _seconds = await self.begun(shared_url, scope, odd)
        assert (names(context), failures) == (["before", "odd", "after"], [])

    async def test_cancelling_a_turn_cancels_its_layers(self, shared_url: str, scope: Scope) -> None:
        asked, ended = asyncio.Event(), asyncio.Event()

        class Hanging(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                asked.set()
                try:
                    await asyncio.sleep(3_600)
                finally:
                    ended.set()
                return Recalled()

        config = replace(quick(), recall_deadline_seconds=3_600)
        async with opened(shared_url, layers=[Hanging("hanging")], config=config) as memory:
            beginning = asyncio.create_task(memory.begin(scope, "hello"))
            async with asyncio.timeout(PATIENCE):
                await asked.wait()
                beginning.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await beginning
                await ended.wait()
            assert [m.text for m in await memory.history(scope)] == ["hello"]


class TestTools:
    async def test_r10_09_a_layer_may_offer_tools(self, shared_url: str, scope: Scope) -> None:
        class Pad(Notes):
            def tools(self, request: ToolRequest) -> Sequence[Tool]:
                async def note(text: str) -> str:
                    seen = await request.state.read()
                    await request.state.write({"text": text}, seen.version)
                    return f"{text} for {request.scope.resource_id} in {request.turn_id}"

                return [Tool("note", "Note something.", {"type": "object", "properties": {}}, note)]

        async with opened(shared_url, layers=[Pad("pad", learns_from=())]) as memory:
            under_way = await memory.begin(scope, "note that it rains")
            assert [offered.name for offered in under_way.tools] == [
                "recall_memory",
                "update_profile",
                "plan",
                "note",
            ]
            answer = await tool(under_way, "note").call(text="it rains")
            assert answer == f"it rains for mira in {under_way.id}"
            later = await memory.begin(replace(scope, thread_id="tuesday"), "what did I note?")
            assert block(later.context, "pad") == "<notes>it rains</notes>"
            nobody = await memory.begin(Scope(scope.agent_id, None, "t"), "hello")
            assert [offered.name for offered in nobody.tools] == ["plan"]

    @pytest.mark.parametrize(
        "given",
        [
            None,
            5,
            RuntimeError("no tools today"),
            ["hammer"],
            [Tool("good", "", {}, print), None],
            [Tool("recall_memory", "A second one.", {}, print)],
            [Tool("plan", "A second one.", {}, print)],
        ],
    )
    async def test_r10_09_a_layer_that_fails_to_offer_its_tools_offers_none(
        self, shared_sqlite_url: str, scope: Scope, given: Any
    ) -> None:
        events: list[Event] = []

        class Broken(Saying):
            def tools(self, _request: ToolRequest) -> Any:
                if isinstance(given, Exception):
                    raise given
                return given

        async with opened(shared_sqlite_url, layers=[Broken("broken")], on_event=events.append) as memory:
            under_way = await memory.begin(scope, "hello")
            assert [offered.name for offered in under_way.tools] == ["recall_memory", "update_profile", "plan"]
            assert names(under_way.context) == ["broken"]
        assert [source for source, _told in failed(events)] == ["broken"]


class TestLearning:
    async def test_r10_05_learn_gets_every_turn_once(self, shared_url: str, scope: Scope) -> None:
        notes = Notes("once-notes")
        async with opened(shared_url, layers=[notes], config=quick()) as memory:
            under_way = await memory.begin(scope, "It rains.")
            await memory.step(under_way, looked(1, "wet"))
            receipt = await memory.complete(under_way, "So it does.", sync=True)
            assert receipt.reason == "no model is configured", "receipts tell of entries"
            await turn(memory, scope, "Oh no.", "Sorry.", outcome="failure")
            await turn(memory, scope, "Stop.", "Ok.", outcome="aborted")
            await memory.flush(scope)
            await memory.work(once=True)
            assert [request.outcome for request in notes.learned] == ["success", "failure", "aborted"]
            first = notes.learned[0]
            assert (first.scope, first.turn_id) == (scope, under_way.id)
            assert [m.id for m in first.messages] == list(receipt.message_ids)
            assert [m.role for m in first.messages] == ["user", "assistant", "tool", "assistant"]
            assert first.messages[2].parts[0].content == "wet"
            assert first.state is not None
            await first.state.write({"text": "it rained"}, 0, "notes")
            context = (await memory.begin(replace(scope, thread_id="tuesday"), "hello")).context
            assert block(context, "once-notes") == "<notes>it rained</notes>"
        assert len(notes.tried) == 3

    async def test_r10_05_learn_gets_only_the_outcomes_it_wants(self, shared_url: str, scope: Scope) -> None:
        layers = [
            Notes("win-notes", learns_from=("success",)),
            Notes("loss-notes", learns_from=["failure", "aborted"]),
            Notes("thread-notes", scope="thread", learns_from=("success",)),
            Notes("no-notes", learns_from=()),
        ]
        nobody = Scope(scope.agent_id, None, "nobody")
        async with opened(shared_url, layers=layers, config=quick()) as memory:
            for place in (scope, nobody):
                for outcome in ("success", "failure", "aborted"):
                    await turn(memory, place, "hello", outcome=outcome)
        got = [[(request.scope.resource_id, request.outcome) for request in one.learned] for one in layers]
        assert got == [
            [("mira", "success")],
            [("mira", "failure"), ("mira", "aborted")],
            [("mira", "success"), (None, "success")],
            [],
        ]

    async def test_r10_07_turns_of_sub_agents_are_nobodys_lesson(self, shared_url: str, scope: Scope) -> None:
        layers = [Notes("adult-notes"), Notes("adult-thread-notes", scope="thread")]
        async with opened(shared_url, layers=layers, config=quick()) as memory:
            await turn(memory, scope, "hello")
            for outcome in ("success", "failure"):
                under_way = await memory.begin(scope.child("helper"), "look it up")
                await memory.complete(under_way, "done", outcome=outcome, sync=True)
            shared = await memory.begin(scope.child("partner", shares_memory=True), "look it up too")
            await memory.complete(shared, "done", sync=True)
        assert [[r.messages[0].text for r in one.learned] for one in layers] == [
            ["hello", "look it up too"]
        ] * 2

    async def test_r10_06_what_failed_is_tried_again_after_growing_pauses(
        self, store_url: str, scope: Scope
    ) -> None:
        events: list[Event] = []
        notes = Notes(failures=3)
        config = quick(first_retry_seconds=0.1, longest_retry_seconds=10, attempts=5)
        async with opened(store_url, layers=[notes], config=config, on_event=events.append) as memory:
            await turn(memory, scope, "It rains.")

            async def done() -> bool:
                return bool(notes.learned)

            await until(done)
            await memory.flush(scope)
            assert await memory.dead_letters() == []
            assert (await memory.stats()).queued_turns == 0
        assert failed(events, "learning.failed") == [("notes", "RuntimeError: notes is out of order")] * 3
        pauses = [later - earlier for earlier, later in zip(notes.tried, notes.tried[1:], strict=False)]
        assert all(pause >= least for pause, least in zip(pauses, (0.075, 0.15, 0.3), strict=True))

    async def test_r03_11_what_always_fails_becomes_a_dead_letter(self, store_url: str, scope: Scope) -> None:
        events: list[Event] = []
        notes = Notes(failures=10**6)
        good = Notes("good")
        model = ScriptedModel(lambda _request: {"entries": [entry(SKEW, SAID)]})
        config = quick(attempts=3)
        async with opened(
            store_url, model, layers=[notes, good], config=config, on_event=events.append
        ) as memory:
            receipt = await turn(memory, MIRA, SAID)
            assert [candidate.status for candidate in receipt] == ["stored"], "entries are kept all the same"

            async def given_up() -> bool:
                return bool(await memory.dead_letters())

            await until(given_up)
            (dead,) = await memory.dead_letters()
            assert (dead.turn_id, dead.attempts, dead.pending) == (receipt.turn_id, 3, ("notes",))
            assert "notes is out of order" in str(dead.error)
            told = [event for event in events if event.name == "learning.failed"]
            assert [event.data["source"] for event in told] == ["notes"] * 3
            assert [event.data["given_up"] for event in told] == [False, False, True]
            assert len(good.learned) == 1
            assert SKEW in block((await memory.begin(LATER, "The webhook answered 401.")).context, "memory")
            notes.failures = 0
            assert await memory.retry_dead_letters() == 1
            await memory.work(once=True)
            assert [request.turn_id for request in notes.learned] == [receipt.turn_id]
            assert len(good.learned) == 1
            assert len([request for request in model.requests if request.task == "extract"]) == 1

    async def test_r03_12_every_layer_that_fails_is_told_and_keeps_no_other_from_learning(
        self, store_url: str, scope: Scope
    ) -> None:
        events: list[Event] = []

        def respond(_request: Any) -> Any:
            raise RuntimeError("no model today")

        layers = [Notes("one", failures=1), Notes("two", failures=1), Notes("three")]
        async with opened(
            store_url, ScriptedModel(respond), layers=layers, config=quick(attempts=2), on_event=events.append
        ) as memory:
            receipt = await turn(memory, scope, SAID)
            assert receipt.status == "failed"

            async def given_up() -> bool:
                return bool(await memory.dead_letters())

            await until(given_up)
            (dead,) = await memory.dead_letters()
            assert dead.pending == ("memory",)
        sources = [source for source, _told in failed(events, "learning.failed")]
        assert sorted(sources[:3]) == ["episodic-memory", "one", "two"]
        assert sources[3:] == ["episodic-memory"]
        assert [len(layer.learned) for layer in layers] == [1, 1, 1]

    async def test_r03_07_complete_does_not_wait_for_learning(self, shared_url: str, scope: Scope) -> None:
        gate = asyncio.Event()

        class Slow(Notes):
            async def learn(self, request: LearnRequest) -> None:
                await gate.wait()
                await super().learn(request)

        slow = Slow("slow-notes")
        async with opened(shared_url, layers=[slow], config=quick()) as memory:
            under_way = await memory.begin(scope, "hello")
            await memory.complete(under_way, "Hello!")
            assert [m.text for m in await memory.history(scope)] == ["hello", "Hello!"]
            assert slow.learned == []
            gate.set()
            await memory.flush(scope)
            assert [request.messages[0].text for request in slow.learned] == ["hello"]

    async def test_r03_08_with_sync_complete_waits_for_learning(self, shared_url: str, scope: Scope) -> None:
        gate = asyncio.Event()

        class Slow(Notes):
            async def learn(self, request: LearnRequest) -> None:
                await gate.wait()
                await super().learn(request)

        slow = Slow("waiting-notes")
        always = replace(quick(), episodic=EpisodicSettings(sync=True))
        for config, given in ((quick(), {"sync": True}), (always, {})):
            gate.clear()
            async with opened(shared_url, layers=[slow], config=config) as memory:
                under_way = await memory.begin(scope, "hello")
                waiting = asyncio.create_task(memory.complete(under_way, "Hello!", **given))
                done, _pending = await asyncio.wait([waiting], timeout=0.1)
                assert not done
                gate.set()
                async with asyncio.timeout(PATIENCE):
                    await waiting
                assert slow.learned[-1].turn_id == under_way.id

    async def test_r10_22_two_memories_on_one_store_learn_once_and_share_states(
        self, shared_url: str, scope: Scope
    ) -> None:
        class Counting(Notes):
            async def learn(self, request: LearnRequest) -> None:
                await super().learn(request)
                assert request.state is not None
                seen = await request.state.read()
                turns = [*seen.value.get("turns", []), request.turn_id]
                await request.state.write({"text": len(turns), "turns": turns}, seen.version)

        one, two = (Counting("pair-notes", scope="thread") for _ in range(2))
        config = quick()
        async with (
            opened(shared_url, layers=[one], config=config) as first,
            opened(shared_url, layers=[two], config=config) as second,
            opened(shared_url, config=config) as without,
        ):
            ids = []
            for number in range(6):
                memory = (first, second)[number % 2]
                under_way = await memory.begin(scope, f"turn {number}")
                await memory.complete(under_way, "ok")
                ids.append(under_way.id)
            for memory in (first, without, second):
                await memory.flush(scope)
            learned = [request.turn_id for layer in (one, two) for request in layer.learned]
            assert sorted(learned) == sorted(ids)
            assert block((await second.begin(scope, "now")).context, "pair-notes") == "<notes>6</notes>"

    async def test_r10_22_what_a_process_left_is_learned_by_the_next(
        self, store_url: str, scope: Scope
    ) -> None:
        config = quick()
        away = replace(settings(enabled=False), jobs=replace(config.jobs, in_process=False))
        first, second = Notes(), Notes()
        async with opened(store_url, layers=[first], config=away) as memory:
            await memory.complete(await memory.begin(scope, "hello"), "Hello!")
        async with opened(store_url, config=config) as memory:
            await memory.flush()
            assert (await memory.stats()).queued_turns == 1, "a memory without the layer leaves it alone"
        async with opened(store_url, layers=[second], config=config) as memory:
            await memory.begin(scope, "here again")
            await memory.flush(scope)
            assert (await memory.stats()).queued_turns == 0
        assert (len(first.learned), len(second.learned)) == (0, 1)


class TestEnd:
    async def test_r10_08_the_end_of_a_run_is_told_with_its_outcome(
        self, shared_url: str, scope: Scope
    ) -> None:
        of_user, of_thread = Notes("end-notes"), Notes("end-thread-notes", scope="thread")
        nobody = Scope(scope.agent_id, None, "nobody")
        async with opened(shared_url, layers=[of_user, of_thread]) as memory:
            await turn(memory, scope, "hello")
            await turn(memory, nobody, "hello")
            for outcome in ("success", "failure", "aborted"):
                await memory.finish(scope, outcome)
            await memory.finish(nobody)
        assert [request.outcome for request in of_user.completed] == ["success", "failure", "aborted"]
        assert [request.scope for request in of_user.completed] == [scope] * 3
        assert [request.scope for request in of_thread.completed] == [scope] * 3 + [nobody]
        request = of_user.completed[0]
        assert request.state is not None
        assert request.now == NOW

    async def test_r03_13_a_run_ends_when_its_turns_were_learned_from(
        self, shared_url: str, scope: Scope
    ) -> None:
        notes = Notes("order-notes")
        async with opened(shared_url, layers=[notes], config=quick()) as memory:
            for number in range(3):
                await memory.complete(await memory.begin(scope, f"turn {number}"), "ok")
            await memory.finish(scope)
        assert notes.calls.count("learn") == 3
        assert notes.calls[-1] == "complete"

    async def test_r03_14_a_layer_that_fails_at_the_end_keeps_no_other_from_it(
        self, shared_url: str, scope: Scope
    ) -> None:
        events: list[Event] = []

        class Broken(Saying):
            async def complete(self, _request: CompleteRequest) -> None:
                raise RuntimeError("not now")

        last = Notes("last-notes")
        async with opened(shared_url, layers=[Broken("broken"), last], on_event=events.append) as memory:
            await turn(memory, scope, "hello")
            await memory.finish(scope)
            assert len(await memory.episodes(scope)) == 1
        assert failed(events) == [("broken", "RuntimeError: not now")]
        assert len(last.completed) == 1
        assert [event.data["outcome"] for event in events if event.name == "run.finished"] == ["success"]

    async def test_r03_09_there_are_three_outcomes(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            under_way = await memory.begin(scope, "hello")
            with pytest.raises(UsageError, match="outcome is 'great'; it must be one of success"):
                await memory.complete(under_way, "Hello!", outcome="great")
            with pytest.raises(UsageError, match="outcome is 'great'"):
                await memory.finish(scope, "great")
            assert len(await memory.history(scope)) == 1
            for outcome in ("success", "failure", "aborted"):
                receipt = await turn(memory, scope, "hello", outcome=outcome)
                assert receipt.outcome == outcome

    async def test_a_turn_that_is_completed_again_is_learned_from_once(
        self, shared_url: str, scope: Scope
    ) -> None:
        notes = Notes("twice-notes")
        async with opened(shared_url, layers=[notes], config=quick()) as memory:
            under_way = await memory.begin(scope, "hello")
            for _ in range(2):
                await memory.complete(under_way, "Hello!", sync=True)
            assert [m.text for m in await memory.history(scope)] == ["hello", "Hello!"]
        assert len(notes.learned) == 1

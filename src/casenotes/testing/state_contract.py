"""What every store must do for layers: states by compare-and-set, run summaries, messages with neighbours."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from casenotes.errors import InvalidScope
from casenotes.stores.base import Store, TurnMark
from casenotes.stores.revisions import ItemChange, NewRevision
from casenotes.stores.states import EventRow, OfTurn, StateVersion
from casenotes.testing.values import ANN, BOB, NOON, STRANGERS, ids, refused, said
from casenotes.types import Episode, Message, Scope, ToolCall, ToolResult

USER = ANN.owner


def version(number: int, author: str = "agent", **value: Any) -> StateVersion:
    """A version ready to be written."""
    return StateVersion(value, number, author, NOON)


def episode(name: str, hours: int = 0, thread: str = "t1", summary: str = "All went well.") -> Episode:
    """A summary ready to be saved."""
    return Episode(name, summary, NOON + timedelta(hours=hours), "success", 4, thread)


def last(name: str, seq: int) -> Message:
    """The message that a run ended with."""
    return replace(said(name), seq=seq)


class StateContract:
    """One behaviour a test."""

    async def test_a_state_that_was_never_written_is_empty(self, store: Store) -> None:
        assert await store.states.read(USER, "notes") == StateVersion({}, 0)
        assert await store.states.history(ANN, "notes", 5) == []

    async def test_a_state_comes_back_with_its_history(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        first, second = (
            version(1, text="tab\t, emoji 🦊, 東京, ' \" \\ %s :x", n=[1, None]),
            version(2, "host", text="b"),
        )
        for new in (first, second):
            assert await store.states.write(USER, "notes", new, keep=10)
        assert await store.states.read(USER, "notes") == second
        assert await store.states.history(USER, "notes", 10) == [second, first]
        assert await store.states.history(USER, "notes", 1) == [second]

    async def test_who_has_only_a_state_is_listed(self, store: Store) -> None:
        await store.append(BOB, [said("b")])
        assert await store.states.write(USER, "notes", version(1, text="x"), keep=10, create=True)
        sizes = {size.resource_id: (size.threads, size.messages) for size in await store.scopes()}
        assert sizes == {USER.resource_id: (0, 0), BOB.resource_id: (1, 1)}

    async def test_whoever_has_not_seen_the_newest_version_writes_nothing(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        assert await store.states.write(USER, "notes", version(1, text="first"), keep=10)
        assert not await store.states.write(USER, "notes", version(1, text="late"), keep=10)
        assert not await store.states.write(USER, "notes", version(3, text="early"), keep=10)
        assert (await store.states.read(USER, "notes")).value == {"text": "first"}

    async def test_of_many_writers_at_once_one_wins(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        writes = [store.states.write(USER, "notes", version(1, by=n), keep=10) for n in range(8)]
        assert sorted(await asyncio.gather(*writes)) == [False] * 7 + [True]
        assert len(await store.states.history(USER, "notes", 10)) == 1

    async def test_only_so_many_versions_are_kept(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        for number in range(1, 6):
            assert await store.states.write(USER, "notes", version(number, n=number), keep=2)
        assert [kept.version for kept in await store.states.history(USER, "notes", 10)] == [5, 4]

    async def test_states_of_layers_threads_and_users_are_apart(self, store: Store) -> None:
        for scope in (ANN, *STRANGERS):
            await store.append(scope, [said("a")])
        assert await store.states.write(USER, "notes", version(1, text="mine"), keep=10)
        others = [(USER, "other"), (ANN, "notes"), *((scope.owner, "notes") for scope in STRANGERS)]
        for scope, layer in others:
            assert await store.states.read(scope, layer) == StateVersion(), (scope, layer)
            assert await store.states.write(scope, layer, version(1, text="theirs"), keep=10)
        assert (await store.states.read(USER, "notes")).value == {"text": "mine"}

    async def test_nothing_is_kept_for_what_does_not_exist(self, store: Store) -> None:
        with refused(InvalidScope, "ann"):
            await store.states.write(USER, "notes", version(1), keep=10)
        await store.append(ANN, [said("a")])
        with refused(InvalidScope, "t9"):
            await store.states.write(replace(ANN, thread_id="t9"), "notes", version(1), keep=10)
        assert await store.states.write(BOB.owner, "notes", version(1), keep=10, create=True)
        assert (await store.states.read(BOB.owner, "notes")).version == 1

    async def test_erasing_a_resource_takes_its_states_and_summaries(self, store: Store) -> None:
        for scope in (ANN, BOB):
            await store.append(scope, [said("a")])
            assert await store.states.write(scope.owner, "notes", version(1, text="secret word"), keep=10)
            assert await store.states.write(scope, "plan", version(1, text="secret plan"), keep=10)
            assert await store.episodes.add(scope, episode("run", summary="secret run"), last("a", 1), 20)
        traces = await store.erasure.traces(USER)
        assert {b"secret run", b"secret word", b"secret plan"} <= set(traces)
        erased = await store.erasure.erase(USER)
        assert (erased["layer_states"], erased["episodes"]) == (2, 1)
        assert await store.states.read(USER, "notes") == StateVersion()
        assert await store.states.read(ANN, "plan") == StateVersion()
        assert await store.episodes.newest(USER, 10) == []
        assert (await store.states.read(BOB.owner, "notes")).version == 1
        assert len(await store.episodes.newest(BOB, 10)) == 1
        assert await store.erasure.still_there([b"secret run", b"secret plan", b"never said"]) == {
            b"secret run",
            b"secret plan",
        }

    async def test_erasing_a_thread_takes_what_it_gave_to_the_state_of_its_user(self, store: Store) -> None:
        tuesday = replace(ANN, thread_id="t2")
        for scope in (ANN, tuesday):
            await store.append(scope, [said(f"a-{scope.thread_id}")])
            assert await store.states.write(scope, "plan", version(1, text=scope.thread_id), keep=10)
            assert await store.episodes.add(
                scope,
                episode(f"run-{scope.thread_id}", thread=str(scope.thread_id)),
                last(f"a-{scope.thread_id}", 1),
                20,
            )
        mine = {"thread_id": "t1", "value": "from Monday"}
        other = {"thread_id": "t2", "value": "from Tuesday"}
        assert await store.states.write(USER, "notes", version(1, items=[mine]), keep=10)
        assert await store.states.write(USER, "notes", version(2, items=[mine, "loose", other], n=1), keep=10)
        assert b"from Monday" in await store.erasure.traces(ANN)
        await store.erasure.erase(ANN)
        kept = [(found.version, found.value) for found in await store.states.history(USER, "notes", 10)]
        assert kept == [(3, {"items": ["loose", other], "n": 1}), (1, {"items": []})]
        assert (await store.states.read(ANN, "plan")).version == 0
        assert (await store.states.read(tuesday, "plan")).version == 1
        assert [found.id for found in await store.episodes.newest(USER, 10)] == ["run-t2"]

    async def test_whoever_decided_before_a_thread_was_erased_decides_again(self, store: Store) -> None:
        for thread in ("t1", "t2"):
            await store.append(replace(ANN, thread_id=thread), [said(f"a-{thread}")])
        old: dict[str, Any] = {"items": [{"thread_id": "t1", "value": "from Monday"}]}
        assert await store.states.write(USER, "notes", version(1, **old), keep=10)
        assert await store.states.write(USER, "notes", version(2, items=[]), keep=10)
        assert await store.states.write(USER, "other", version(1, items=[]), keep=10)
        await store.erasure.erase(ANN)
        assert not await store.states.write(USER, "notes", version(3, "undo:1", **old), keep=10)
        assert await store.states.write(USER, "notes", version(4, items=[]), keep=10)
        assert await store.states.write(USER, "other", version(2, items=["untouched"]), keep=10)

    async def test_nothing_is_written_on_behalf_of_a_turn_that_was_erased(self, store: Store) -> None:
        turn = OfTurn("t1", "turn-1")
        for _ in range(2):  # a thread of the same name may come back, the turn does not
            await store.append(ANN, [said("a")])
            with refused(InvalidScope, "turn-1"):
                await store.states.write(USER, "notes", version(1), keep=10, turn=turn)
            with refused(InvalidScope, "turn-1"):
                await store.states.write(ANN, "plan", version(1), keep=10, turn=turn)
            await store.append(ANN, [said("b")], TurnMark("turn-1", "open", NOON))
            assert await store.states.write(USER, "notes", version(1), keep=10, turn=turn)
            assert await store.states.write(ANN, "plan", version(1), keep=10, turn=turn)
            await store.erasure.erase(USER)

    async def test_a_late_writer_does_not_bring_back_a_scope(self, store: Store) -> None:
        assert await store.states.write(USER, "notes", version(1), keep=10, create=True)
        await store.erasure.erase(USER)
        assert not await store.states.write(USER, "notes", version(2), keep=10, create=True)
        assert (await store.stats()).scopes == 0
        assert await store.states.write(USER, "notes", version(1), keep=10, create=True)

    async def test_a_run_is_summarised_once(self, store: Store) -> None:
        for scope in (ANN, *STRANGERS):
            await store.append(scope, [said("a"), said("b")])
        assert await store.episodes.run_start(ANN) == 0
        assert await store.episodes.add(ANN, episode("one"), last("b", 2), 20)
        assert not await store.episodes.add(ANN, episode("again"), last("b", 2), 20)
        assert await store.episodes.run_start(ANN) == 2
        for stranger in STRANGERS:
            assert await store.episodes.run_start(stranger) == 0
        await store.append(ANN, [said("c")])
        assert await store.episodes.add(ANN, episode("two", 1), last("c", 3), 20)
        assert await store.episodes.newest(ANN, 10) == [episode("two", 1), episode("one")]
        assert not await store.episodes.add(replace(ANN, thread_id="t9"), episode("none"), last("c", 3), 20)

    async def test_a_summary_of_what_was_erased_is_not_saved(self, store: Store) -> None:
        await store.append(ANN, [said("a"), said("b")])
        await store.erasure.erase(ANN)
        assert not await store.episodes.add(ANN, episode("late"), last("b", 2), 20)
        await store.append(ANN, [said("c"), said("d"), said("e")])
        assert not await store.episodes.add(ANN, episode("late"), last("b", 2), 20)
        assert await store.episodes.newest(ANN, 10) == []
        assert await store.episodes.run_start(ANN) == 0

    async def test_a_thread_is_named_once_and_by_a_turn_that_is_there(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        assert not await store.name_thread(ANN, "turn-1", "of what was erased")
        await store.append(ANN, [said("b")], TurnMark("turn-1", "open", NOON))
        assert not await store.name_thread(replace(ANN, thread_id="t9"), "turn-1", "elsewhere")
        assert not await store.name_thread(BOB, "turn-1", "elsewhere")
        assert await store.name_thread(ANN, "turn-1", "a broken fan")
        assert not await store.name_thread(ANN, "turn-1", "again")
        assert await store.title(ANN) == "a broken fan"

    async def test_only_so_many_summaries_are_kept_and_runs_go_on_where_they_ended(self, store: Store) -> None:
        for number in range(1, 5):
            await store.append(ANN, [said(f"m{number}")])
            assert await store.episodes.add(ANN, episode(f"e{number}", number), last(f"m{number}", number), 2)
        assert [found.id for found in await store.episodes.newest(ANN, 10)] == ["e4", "e3"]
        other = replace(ANN, thread_id="t2")
        for number in range(1, 4):
            await store.append(other, [said(f"o{number}")])
            run = episode(f"o{number}", 10 + number, "t2")
            assert await store.episodes.add(other, run, last(f"o{number}", number), 2)
        assert await store.episodes.run_start(ANN) == 4

    async def test_summaries_of_all_users_are_read_only_on_demand(self, store: Store) -> None:
        for number, scope in enumerate((ANN, *STRANGERS)):
            await store.append(scope, [said("a")])
            assert await store.episodes.add(scope, episode(f"e{number}", number), last("a", 1), 20)
        assert [found.id for found in await store.episodes.newest(ANN, 10)] == ["e0"]
        shared = await store.episodes.newest(ANN, 10, of_all_users=True)
        assert [found.id for found in shared] == ["e1", "e0"], "no other agent, and nobody without a resource"
        then = NOON + timedelta(hours=1)
        earlier = await store.episodes.newest(ANN, 1, of_all_users=True, before=then)
        assert [found.id for found in earlier] == ["e0"]
        assert await store.episodes.newest(ANN, 1, before=NOON) == []

    async def test_events_of_a_thread_are_kept_in_order_and_only_so_many(self, store: Store) -> None:
        for scope in (ANN, BOB):
            await store.append(scope, [said("a")])
            await store.events.add(scope, [EventRow(f"n{n}", NOON, {"by": n}) for n in range(4)], 10)
        await store.events.add(ANN, [EventRow("last", NOON, {"text": "🦊 ' %s"})], 3)
        kept = await store.events.newest(ANN, 10)
        assert [row.name for row in kept] == ["last", "n3", "n2"]
        assert kept[0] == EventRow("last", NOON, {"text": "🦊 ' %s"})
        assert len(await store.events.newest(BOB, 10)) == 4
        assert len(await store.events.newest(BOB, 2)) == 2
        assert await store.events.newest(replace(ANN, thread_id="t9"), 10) == []

    async def test_events_of_what_was_erased_are_gone_and_late_ones_not_kept(self, store: Store) -> None:
        for scope in (ANN, BOB):
            await store.append(scope, [said("a")])
            await store.events.add(scope, [EventRow("turn.started", NOON, {"about": "secret event"})], 10)
        assert b"secret event" in await store.erasure.traces(ANN)
        assert (await store.erasure.erase(USER))["events"] == 1
        await store.events.add(ANN, [EventRow("turn.finished", NOON)], 10)
        assert await store.events.newest(ANN, 10) == []
        assert len(await store.events.newest(BOB, 10)) == 1
        assert await store.erasure.still_there([b"secret event"]) == {b"secret event"}

    async def test_messages_come_with_those_around_them(self, store: Store) -> None:
        await store.append(ANN, [said(f"m{n}") for n in range(10)])
        await store.append(replace(ANN, thread_id="t2"), [said("x0"), said("x1")])
        await store.append(BOB, [said("b0"), said("b1")])
        found = await store.passages(ANN, ["m5", "m6", "x1", "b0", "none"], 2, 1)
        assert ids(found) == ["m3", "m4", "m5", "m6", "m7", "x0", "x1"]
        assert await store.passages(BOB, ["m5"], 2, 1) == []

    async def test_a_thread_knows_for_which_other_one_a_sub_agent_works_in_it(self, store: Store) -> None:
        child = replace(ANN, thread_id="child")
        mark = TurnMark("u", "open", NOON, hidden=True, parent="t1")
        for stranger in STRANGERS:
            await store.append(replace(stranger, thread_id="child"), [said("task")])
        await store.append(child, [said("task")], mark)
        await store.append(child, [said("late")])
        for stranger in STRANGERS:
            theirs = await store.threads(stranger)
            assert [(t.thread_id, t.parent_id, t.apart) for t in theirs] == [("child", None, False)]
        threads = {thread.thread_id: thread for thread in await store.threads(USER)}
        assert (threads["child"].parent_id, threads["child"].apart) == ("t1", True)
        assert (threads["t1"].parent_id, threads["t1"].apart, threads["t1"].message_count) == (None, False, 0)
        assert ids(await store.recent(child, 10)) == ["task", "late"], "in its own thread all is said"
        assert await store.entries.hidden(USER, ["task", "late"]) == {"task", "late"}
        await store.append(replace(ANN, thread_id="shares"), [said("s")], replace(mark, hidden=False))
        assert await store.entries.hidden(USER, ["s"]) == set()
        spoken = replace(ANN, thread_id="spoken")
        await store.append(spoken, [said("before")])
        await store.append(spoken, [said("secret")], mark)
        await store.append(spoken, [said("after")])
        assert await store.entries.hidden(USER, ["before", "secret", "after"]) == {"secret"}

    async def test_what_stems_from_a_thread_goes_from_states_of_others(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        items = [{"thread_id": "child", "text": "the words of a child"}, {"thread_id": "", "text": "my own"}]
        assert await store.states.write(ANN, "notes", version(1, items=items), keep=10)
        child = replace(ANN, thread_id="child")
        await store.append(child, [said("task")])
        assert b"the words of a child" in await store.erasure.traces(child)
        await store.erasure.erase(child)
        kept = await store.states.read(ANN, "notes")
        assert (kept.version, kept.value) == (2, {"items": items[1:]})
        assert not await store.states.write(ANN, "notes", version(2, items=items), keep=10), "seen before"

    async def test_traces_are_looked_for_as_they_are_stored(self, store: Store) -> None:
        """Tool results have line ends and quotation marks, which JSON escapes."""
        result = ToolResult("c1", 'host-1\nuser "anna" of Uppsala')
        call = ToolCall("c1", "delegate", {"task": "call the account of Anna", "name": "Anna of Uppsala"})
        await store.append(ANN, [replace(said("a"), parts=(call, result))])
        await store.events.add(ANN, [EventRow("x", NOON, {"error": 'no "door" here'})], 10)
        traces = await store.erasure.traces(ANN)
        for text in (result.content, "call the account of Anna", "Anna of Uppsala", 'no "door" here'):
            stored = json.dumps(text)[1:-1].encode()
            assert stored in traces
            assert await store.erasure.still_there([stored]) == {stored}

    async def test_recent_messages_are_those_that_were_not_forgotten(self, store: Store) -> None:
        await store.append(ANN, [said(f"m{n}") for n in range(4)])
        change = ItemChange("m2", "forgotten", kind="message")
        assert await store.revisions.revise(ANN, NewRevision("r1", "user", NOON, [change]))
        assert ids(await store.recent(ANN, 10)) == ["m0", "m1", "m3"]
        assert ids(await store.recent(ANN, 2)) == ["m1", "m3"]
        await store.revisions.undo(ANN, "r1", NOON)
        assert ids(await store.recent(ANN, 2)) == ["m2", "m3"]
        assert await store.recent(BOB, 10) == []

    async def test_what_was_said_apart_stays_hidden_when_forgetting_is_undone(self, store: Store) -> None:
        mark = TurnMark("u", "open", NOON, hidden=True, parent="t0")
        await store.append(ANN, [said("task")], mark)
        change = ItemChange("task", "forgotten", kind="message")
        assert await store.revisions.revise(ANN, NewRevision("r1", "user", NOON, [change]))
        await store.revisions.undo(ANN, "r1", NOON)
        assert await store.entries.hidden(USER, ["task"]) == {"task"}

    async def test_hidden_messages_are_in_the_log_and_nowhere_else(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        await store.append(ANN, [said("secret")], TurnMark("child", "open", NOON, hidden=True))
        assert ids(await store.history(ANN, limit=10)) == ["a", "secret"]
        space = await store.claim_space("model", 2, True)
        changes = await store.changes(Scope("support", "ann"), space.id, 0)
        assert [document.id for document in changes.documents] == ["a"]
        assert ids(await store.passages(ANN, ["a", "secret"], 2, 2)) == ["a"]
        assert ids(await store.unembedded(ANN, space.id, 10)) == ["a"]

"""The context of every model call of a turn: what is in it, in which order, and within which budget."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from conversation import block, looked, opened, settings, tool, turn
from foreign_layers import Saying, Wordy, words

from casenotes import Context, Memory, Message, Scope, Settings, ToolCall, ToolResult, Turn
from casenotes.config import BudgetSettings, SemanticRecallSettings
from casenotes.events import Event
from casenotes.layers.base import Recalled, RecallRequest
from casenotes.prompt import openai_messages
from casenotes.recall.recent import MESSAGE_OVERHEAD

SYSTEM = "You look after webhooks."
LOOP = 60


def limited(tokens: int, reserve: int = 0, **values: Any) -> Settings:
    return replace(settings(), budget=BudgetSettings(tokens, reserve), **values)


def thread(scope: Scope, name: str) -> Scope:
    return replace(scope, thread_id=name)


def names(context: Context) -> list[str]:
    return [found.name for found in context.blocks]


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


def spent(memory: Memory, context: Context) -> int:
    """What a context takes, counted once more."""
    said = [text for message in context.messages for text in sent(message)]
    shown = [found.text for found in context.blocks]
    return len(context.messages) * MESSAGE_OVERHEAD + sum(map(memory.count_tokens, [*said, *shown]))


def sent(message: Message) -> list[str]:
    """What a provider is sent of a message."""
    results = [part.content for part in message.parts if isinstance(part, ToolResult)]
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    return [message.text, *results, *(f"{call.name} {json.dumps(call.arguments)}" for call in calls)]


def head(context: Context) -> str:
    """The prompt up to the volatile blocks, as it is sent; the next one may go on from its end."""
    stable = replace(context, blocks=tuple(found for found in context.blocks if found.stable))
    return json.dumps(openai_messages(stable, SYSTEM)).removesuffix("]")


async def say(memory: Memory, scope: Scope, count: int, said: str = "line") -> None:
    roles = ("user", "assistant")
    await memory.append(scope, [Message(roles[n % 2], f"{said} {n}") for n in range(count)])


async def know_everything(memory: Memory, scope: Scope) -> None:
    """Something for every layer, more than a small context can hold."""
    report = "The webhook of pay-{} answered 401 after the night, and restarting its proxy did not help. "
    for number in range(8):
        earlier = thread(scope, f"earlier-{number}")
        await memory.append(
            earlier, [Message("user", report.format(number) * 3), Message("assistant", "Noted.")]
        )
        await memory.finish(earlier)
    for name in ("Naming", "Integrations", "Triggers", "Error handling"):
        await memory.update_profile(scope, f"Preferences/{name}", "set", f"Prefers {name.lower()} " * 9)
    await memory.append(
        scope, [Message(("user", "assistant")[n % 2], report.format(f"9{n}")) for n in range(40)]
    )
    await memory.update_plan(
        scope, goal="Mend the webhook", steps=[{"text": f"Look at {n}"} for n in range(40)]
    )


class TestBegin:
    async def test_r03_01_the_input_is_saved_before_any_layer_is_asked(
        self, shared_url: str, scope: Scope
    ) -> None:
        seen: list[str] = []

        class Reader(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                async with opened(shared_url) as other:
                    seen.extend(texts(await other.history(request.scope)))
                return Recalled()

        async with opened(shared_url, layers=[Reader("reader")]) as memory:
            await memory.begin(scope, "The webhook is down.")
        assert seen == ["The webhook is down."]

    async def test_r03_02_layers_are_asked_at_the_same_time(self, shared_url: str, scope: Scope) -> None:
        arrived = asyncio.Barrier(3)

        class Waiting(Saying):
            async def recall(self, request: RecallRequest) -> Recalled:
                await arrived.wait()
                return Recalled(f"{self.name} met the others")

        layers = [Waiting(name) for name in ("one", "two", "three")]
        async with opened(shared_url, layers=layers) as memory:
            under_way = await memory.begin(scope, "hello")
        assert names(under_way.context) == ["one", "two", "three"]

    async def test_r03_06_a_step_is_saved_before_the_next_call(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory, opened(shared_url) as other:
            under_way = await memory.begin(scope, "question")
            context = await memory.step(under_way, looked(1, "the answer"))
            saved = await other.history(scope)
            assert list(context.messages) == saved
            assert [message.role for message in saved] == ["user", "assistant", "tool"]
            await memory.complete(under_way, "It is 42.")
            assert texts(await other.history(scope))[-1] == "It is 42."

    async def test_r03_10_a_turn_that_was_never_completed_is_closed_by_the_next(self, store_url: str) -> None:
        scope = Scope("support", "mira", "monday")
        async with opened(store_url) as memory:
            await memory.begin(scope, "first try")
            assert (await memory.stats()).open_turns == 1
            again = await memory.begin(scope, "second try")
            assert (await memory.stats()).open_turns == 1
            await memory.complete(again, "done")
            assert (await memory.stats()).open_turns == 0
            assert texts(await memory.history(scope)) == ["first try", "second try", "done"]

    async def test_r03_16_a_turn_and_a_run_can_be_listened_to(self, shared_url: str, scope: Scope) -> None:
        seen: list[tuple[str, Any]] = []
        broken = Saying("broken", answer=None)
        async with opened(shared_url, layers=[broken]) as memory:
            memory.listen(lambda event: seen.append((event.name, event.data.get("outcome"))))
            await turn(memory, scope, "hello", outcome="failure")
            await memory.finish(scope, "aborted")
        assert seen == [
            ("layer.failed", None),
            ("turn.started", None),
            ("turn.finished", "failure"),
            ("run.finished", "aborted"),
        ]

    async def test_r03_17_a_turn_offers_the_tools_of_all_layers(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            under_way = await memory.begin(scope, "hello")
            assert {offered.name for offered in under_way.tools} == {"recall_memory", "update_profile", "plan"}
            assert all(offered.parameters["type"] == "object" for offered in under_way.tools)
            assert all(offered.description for offered in under_way.tools)


class TestBlocks:
    async def test_r02_01_every_kind_of_memory_has_a_block_of_its_name(
        self, shared_url: str, scope: Scope
    ) -> None:
        config = replace(settings(), semantic_recall=SemanticRecallSettings(True), last_messages=2)
        async with opened(shared_url, config=config) as memory:
            await know_everything(memory, scope)
            context = (await memory.begin(scope, "The webhook answered 401 again.")).context
            assert set(names(context)) == {"user-profile", "plan", "memory", "episodes", "semantic-recall"}
            for found in context.blocks:
                assert found.text.startswith(f"<{found.name}>\n<description>")
                assert found.text.endswith(f"</{found.name}>")
                assert found.tokens == memory.count_tokens(found.text)
            assert context.text == "\n\n".join(found.text for found in context.blocks)

    async def test_r10_10_slots_order_blocks_and_equal_slots_keep_their_order(
        self, shared_url: str, scope: Scope
    ) -> None:
        slots = [("d", 350), ("late", 900), ("c", 300), ("b", 240), ("a", -5), ("e", 350), ("f", 350)]
        layers = [Saying(name, f"I am {name}", slot=slot) for name, slot in slots]
        async with opened(shared_url, layers=layers) as memory:
            await know_everything(memory, scope)
            context = (await memory.begin(scope, "The webhook answered 401 again.")).context
        expected = ["a", "user-profile", "plan", "b", "memory", "episodes", "c", "d", "e", "f", "late"]
        assert names(context) == expected

    async def test_r10_12_stable_blocks_stand_before_the_messages(self, shared_url: str, scope: Scope) -> None:
        layers = [Saying("firm", "FIRM", stable=True), Saying("loose", "LOOSE")]
        async with opened(shared_url, layers=layers) as memory:
            await memory.update_profile(scope, "User Context/Name", "set", "Mira")
            context = (await memory.begin(scope, "hello")).context
        assert [found.name for found in context.blocks if found.stable] == ["user-profile", "firm"]
        (system, said) = openai_messages(context, SYSTEM)
        assert system["content"].startswith(f"{SYSTEM}\n\n<user-profile>")
        assert system["content"].endswith("\n\nFIRM")
        assert said["content"] == "hello\n\nLOOSE"

    async def test_r08_05_a_step_shows_the_plan_anew_and_all_else_as_it_was(
        self, shared_url: str, scope: Scope
    ) -> None:
        firm, eager = Saying("firm", "FIRM"), Saying("eager", "first", every_step=True)
        async with opened(shared_url, layers=[firm, eager]) as memory:
            await know_everything(memory, scope)
            under_way = await memory.begin(scope, "The webhook answered 401 again.")
            before = {found.name: found.text for found in under_way.context.blocks}
            await tool(under_way, "plan").call(goal="Mend the clock", version=1)
            await memory.update_profile(scope, "User Context/Name", "set", "Mira")
            eager.answer = "second"
            context = await memory.step(under_way, looked(1, "the clock is slow"))
            after = {found.name: found.text for found in context.blocks}
            assert list(after) == list(before)
            assert {name for name in after if after[name] != before[name]} == {"plan", "eager"}
            assert "Goal: Mend the clock" in after["plan"]
            assert len(firm.requests) == 1
            assert [request.query for request in eager.requests] == ["The webhook answered 401 again."] * 2
            await memory.update_plan(scope, phase="clock", version=2)
            assert "Phase: clock" in block(await memory.step(under_way, looked(2, "mended")), "plan")

    async def test_r10_18_what_a_step_brings_is_told_in_the_trace(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            under_way = await memory.begin(scope, "hello")
            assert under_way.context.trace["layers"]["plan"]["left_out"] == ["there is no plan"]
            await tool(under_way, "plan").call(goal="Greet")
            context = await memory.step(under_way, "Hello!")
            told = context.trace["layers"]
            assert (told["plan"]["left_out"], told["plan"]["tokens"]) == ([], context.blocks[0].tokens)
            assert set(told) == set(under_way.context.trace["layers"])


class TestBudgets:
    async def room_for(self, url: str, scope: Scope, room: int, *layers: Any) -> tuple[dict[str, int], Context]:
        """The words that each layer got, where all blocks together may have so many."""
        own = words("go on") + MESSAGE_OVERHEAD
        async with opened(url, layers=layers, config=limited(room + own), count_tokens=words) as memory:
            context = (await memory.begin(scope, "go on")).context
            assert spent(memory, context) <= room + own
        assert texts(context.messages) == ["go on"]
        return {found.name: words(found.text) for found in context.blocks}, context

    async def test_r10_15_the_rest_is_divided_by_weight_in_a_turn_too(
        self, shared_url: str, scope: Scope
    ) -> None:
        layers = [Wordy("a", 500, budget=(20, 60)), Wordy("b", 500, budget=(30, 90))]
        got, context = await self.room_for(shared_url, scope, 100, *layers)
        assert got == {"a": 40, "b": 60}
        assert context.trace["layers"]["a"]["left_out"] == ["460 words"]
        assert context.trace["layers"]["b"]["tokens"] == 60

    async def test_r10_14_minimums_that_do_not_fit_shrink_together(self, shared_url: str, scope: Scope) -> None:
        layers = [Wordy("a", 500, budget=(20, 60)), Wordy("b", 500, budget=(60, 90))]
        got, _context = await self.room_for(shared_url, scope, 40, *layers)
        assert got == {"a": 10, "b": 30}

    async def test_r10_16_what_others_do_not_use_is_offered_again(self, shared_url: str, scope: Scope) -> None:
        layers = [Wordy("a", 500, budget=(20, 95)), Wordy("b", 5, budget=(60, 90)), Wordy("c", 0)]
        got, _context = await self.room_for(shared_url, scope, 100, *layers)
        assert got == {"a": 95, "b": 5}

    async def test_r10_16_a_lonely_block_has_the_whole_room(self, shared_url: str, scope: Scope) -> None:
        room = 600
        async with opened(shared_url, config=limited(room), count_tokens=words) as memory:
            for number in range(12):
                said = f"The webhook of pay-{number} answered 401 in the night. " * 4
                await memory.append(thread(scope, f"t{number}"), said)
            context = (await memory.begin(scope, "The webhook answered 401 again.")).context
            assert names(context) == ["memory"]
            assert block(context, "memory").count("user said:") == 12
            assert context.trace["layers"]["memory"]["left_out"] == []

    async def test_r10_17_tokens_are_counted_not_believed(self, shared_url: str, scope: Scope) -> None:
        class Boast(Recalled):
            tokens = 3

        liar = Saying("liar", Boast("word " * 80), budget=(0, 50))
        modest = Saying("modest", Boast("word " * 30), budget=(0, 50))
        got, context = await self.room_for(shared_url, scope, 100, liar, modest)
        assert got == {"modest": 30}
        assert context.blocks[0].tokens == 30
        assert context.trace["layers"]["liar"]["left_out"] == ["80 tokens, and there is room for 50"]

    async def test_r10_17_a_shorter_answer_is_counted_as_well(self, shared_url: str, scope: Scope) -> None:
        liar = Saying("liar", Recalled("word " * 80, fit=lambda _room: Recalled("word " * 70)), budget=(0, 50))
        got, context = await self.room_for(shared_url, scope, 100, liar)
        assert got == {}
        assert context.trace["layers"]["liar"]["left_out"] == ["80 tokens, and there is room for 50"]

    async def test_r10_20_messages_get_what_blocks_leave(self, shared_url: str, scope: Scope) -> None:
        config = limited(100)
        layers = [Wordy("a", 40, budget=(0, 60))]
        async with opened(shared_url, layers=layers, config=config, count_tokens=words) as memory:
            await say(memory, scope, 19, "one two three four")
            context = (await memory.begin(scope, "go on")).context
            assert words(block(context, "a")) == 40
            assert context.trace["tokens"] == {"budget": 100, "blocks": 40, "messages": 51}
            assert texts(context.messages)[-1] == "go on"
            assert context.trace["messages"] == {
                "tokens": 51,
                "shown": 6,
                "left_out": 14,
                "shortened": [],
            }

    async def test_r10_13_the_defaults_are_the_documented_ones(self, shared_url: str) -> None:
        config = Settings()
        assert (config.budget.context_tokens, config.budget.reply_reserve) == (128_000, 4_000)
        assert (config.recall_deadline_seconds, config.last_messages) == (2.0, 20)
        async with opened(shared_url, config=replace(config, semantic_recall=True)) as memory:
            slots = {layer.name: (layer.slot, layer.budget.min, layer.budget.max) for layer in memory._layers}
        assert slots == {
            "user-profile": (100, 200, 1_500),
            "observations": (200, 500, 40_000),
            "session-memory": (230, 100, 800),
            "plan": (240, 100, 3_000),
            "memory": (300, 300, 6_000),
            "episodes": (300, 300, 2_000),
            "semantic-recall": (400, 0, 4_000),
        }

    async def test_r10_19_no_context_is_larger_than_its_budget(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            await know_everything(memory, scope)
        for tokens in (600, 1_500, 6_000):
            config = limited(tokens, 100, semantic_recall=SemanticRecallSettings(True, scope="resource"))
            layers = [Saying("wordy", "word " * 900, budget=(50, 1_000))]
            async with opened(shared_url, config=config, layers=layers) as memory:
                under_way = await memory.begin(scope, f"The webhook answered 401 again, {tokens} times.")
                contexts = [under_way.context]
                contexts += [await memory.step(under_way, looked(n, f"result {n} " * 20)) for n in range(12)]
                for context in contexts:
                    assert 0 < spent(memory, context) <= tokens - 100
                    assert context.messages[0].text or context.messages[0].parts
                    assert under_way.message_ids[0] in [message.id for message in context.messages]
                    if tokens > 600:
                        assert block(context, "plan"), "its minimum is kept however long the turn gets"
                left_out = contexts[0].trace["layers"]
                assert [name for name in left_out if left_out[name]["left_out"]] or tokens == 6_000
                await memory.complete(under_way, "done", outcome="aborted")

    @pytest.mark.parametrize("result", ['{"hits": [{"content": "%s"}]}', "%s"], ids=["recalled", "any"])
    async def test_r10_19_every_result_of_a_tool_counts(
        self, shared_url: str, scope: Scope, result: str
    ) -> None:
        async with opened(shared_url, config=limited(3_000)) as memory:
            under_way = await memory.begin(scope, "Look.")
            for number in range(6):
                context = await memory.step(under_way, looked(number, result % (f"line {number} " * 300)))
                assert spent(memory, context) <= 3_000
                assert context.trace["messages"]["tokens"] <= spent(memory, context) + 20

    async def test_r10_19_equal_ids_of_two_users_are_counted_apart(self, shared_url: str, scope: Scope) -> None:
        short, long = "x" * 4_000, ". " * 2_000
        other = replace(scope, resource_id="jonas")
        async with opened(shared_url, config=limited(1_000)) as memory:
            for owner, text in ((scope, short), (other, long)):
                await memory.append(owner, [Message("user", text, id="m1")])
                context = (await memory.begin(owner, "Hello.")).context
                assert spent(memory, context) <= 1_000

    async def test_r10_17_a_counter_that_fails_fails_no_turn(self, shared_url: str, scope: Scope) -> None:
        def refuses(text: str) -> int:
            if "<|end|>" in text:
                raise ValueError("a special token")
            return len(text.split())

        events: list[Event] = []
        async with opened(shared_url, count_tokens=refuses, on_event=events.append) as memory:
            for _ in range(2):
                context = (await memory.begin(scope, "What is <|end|>?")).context
                assert context.messages[-1].text == "What is <|end|>?"
        told = [event.data["error"] for event in events if event.name == "counting.failed"]
        assert told == ["ValueError: a special token"]

    async def test_r10_19_an_input_that_is_too_long_is_shown_shortened(
        self, shared_url: str, scope: Scope
    ) -> None:
        asked = [Message("user", f"part {n} " + "and more " * 300) for n in range(3)]
        async with opened(shared_url, config=limited(1_500)) as memory:
            await know_everything(memory, scope)
            under_way = await memory.begin(scope, asked)
            context = await memory.step(under_way, looked(1, "found"))
            for shown in (under_way.context, context):
                assert spent(memory, shown) <= 1_500
                first = shown.messages[:3]
                assert [text.startswith(f"part {n} and more ") for n, text in enumerate(texts(first))] == [
                    True
                ] * 3
                assert all("characters left out" in text for text in texts(first))
            assert texts(context.messages[3:]) == ["", ""]
            assert context.messages[:3] == under_way.context.messages
            assert texts(await memory.history(scope))[-5:-2] == texts(asked)

    async def test_r10_19_blocks_make_room_for_a_large_result(self, shared_url: str, scope: Scope) -> None:
        config = limited(400)
        layers = [Wordy("wide", 250, budget=(0, 250)), Wordy("firm", 50, stable=True)]
        async with opened(shared_url, layers=layers, config=config, count_tokens=words) as memory:
            under_way = await memory.begin(scope, "go on")
            assert names(under_way.context) == ["firm", "wide"] or names(under_way.context) == ["wide", "firm"]
            context = await memory.step(under_way, looked(1, "word " * 300))
            assert names(context) == ["firm"]
            assert spent(memory, context) <= 400
            assert context.trace["layers"]["wide"]["left_out"]
            assert context.trace["layers"]["wide"]["tokens"] == 0
            larger = await memory.step(under_way, looked(2, "word " * 500))
            assert [m.role for m in larger.messages] == ["user", "assistant", "tool"]
            assert 250 <= larger.trace["tokens"]["messages"] <= 300, "a quarter is left"
            assert names(larger) == ["firm"]
            assert spent(memory, larger) <= 400


class TestWindow:
    async def test_r07_01_the_last_twenty_messages(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            await say(memory, scope, 30)
            shown = (await memory.begin(scope, "now")).context
            assert texts(shown.messages) == [*(f"line {n}" for n in range(11, 30)), "now"]
        async with opened(shared_url, config=replace(settings(), last_messages=3)) as memory:
            shown = (await memory.begin(scope, "later")).context
            assert texts(shown.messages) == ["line 29", "now", "later"]

    async def test_r07_02_the_window_never_cuts_a_tool_pair(self, shared_url: str, scope: Scope) -> None:
        calls = Message("assistant", "", parts=(ToolCall("a", "look"), ToolCall("b", "look")))
        results = [Message("tool", "", parts=(ToolResult(name, f"found {name}"),)) for name in "ab"]
        for size in range(1, 7):
            place = thread(scope, f"t{size}")
            async with opened(shared_url, config=replace(settings(), last_messages=size)) as memory:
                await memory.append(place, [Message("user", "start"), calls, *results])
                context = (await memory.begin(place, "now")).context
                roles = [message.role for message in context.messages]
                pairs = [part for message in context.messages for part in message.parts]
            assert (roles, len(pairs)) == {
                1: (["user"], 0),
                2: (["user"], 0),
                3: (["user"], 0),
                4: (["assistant", "tool", "tool", "user"], 4),
                5: (["user", "assistant", "tool", "tool", "user"], 4),
                6: (["user", "assistant", "tool", "tool", "user"], 4),
            }[size]

    async def test_r07_03_calls_without_result_are_left_out(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            under_way = await memory.begin(scope, "question")
            half = Message("assistant", "two things", parts=(ToolCall("a", "look"), ToolCall("b", "look")))
            silent = Message("assistant", "", parts=(ToolCall("c", "look"),))
            found = Message("tool", "", parts=(ToolResult("b", "found b"), ToolResult("z", "nobody asked")))
            context = await memory.step(under_way, [half, found, silent])
            assert [message.parts for message in context.messages] == [(), half.parts[1:], found.parts[:1]]
            assert context.trace["messages"]["left_out"] == 1
            assert len((await memory.history(scope))[1].parts) == 2, "the log keeps what was said"
            late = Message("tool", "", parts=(ToolResult("a", "found a"), ToolResult("c", "found c")))
            context = await memory.step(under_way, late)
            assert [len(message.parts) for message in context.messages] == [0, 2, 1, 1, 2]

    async def test_r07_04_an_id_used_again_belongs_to_the_latest_call(
        self, shared_url: str, scope: Scope
    ) -> None:
        def step(name: str, *results: str) -> list[Message]:
            call = Message("assistant", name, parts=(ToolCall("call_0", "look", {"for": name}),))
            return [call, *(Message("tool", "", parts=(ToolResult("call_0", found),)) for found in results)]

        async with opened(shared_url) as memory:
            said = [*step("one", "found one"), *step("two"), *step("three", "found three", "found again")]
            await memory.append(scope, said)
            context = (await memory.begin(scope, "now")).context
            assert [(m.text, len(m.parts)) for m in context.messages] == [
                ("one", 1),
                ("", 1),
                ("two", 0),
                ("three", 1),
                ("", 1),
                ("now", 0),
            ]
            rendered = openai_messages(context)
            ids = [call["id"] for message in rendered for call in message.get("tool_calls", ())]
            assert len(set(ids)) == len(ids) == 2

    async def test_r07_05_the_input_of_a_turn_is_whole_whatever_the_window(
        self, shared_url: str, scope: Scope
    ) -> None:
        asked = [Message("user", f"part {n}") for n in range(7)]
        async with opened(shared_url, config=replace(settings(), last_messages=3)) as memory:
            await say(memory, scope, 5)
            under_way = await memory.begin(scope, asked)
            assert texts(under_way.context.messages) == texts(asked)
            context = await memory.step(under_way, looked(1, "found"))
            assert texts(context.messages) == [*texts(asked), "", ""]

    async def test_r07_06_over_budget_the_oldest_go(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(80), count_tokens=words) as memory:
            await say(memory, scope, 19)
            under_way = await memory.begin(scope, "now")
            shown = texts(under_way.context.messages)
            assert shown == [*(f"line {n}" for n in range(19 - len(shown) + 1, 19)), "now"]
            assert 40 <= spent(memory, under_way.context) <= 80
            for number in range(10):
                context = await memory.step(under_way, looked(number, "word " * 10))
                kept = [m.parts[0].id for m in context.messages if m.role == "assistant" and m.parts]
                assert kept == [f"c{n}" for n in range(number - len(kept) + 1, number + 1)]
                assert spent(memory, context) <= 80
            assert texts(context.messages)[0] == "now"


class TestPrefix:
    """What a provider has in its cache is the beginning of the prompt, byte by byte."""

    async def loop(self, memory: Memory, under_way: Turn, planned: bool = False) -> list[str]:
        heads = [head(under_way.context)]
        for number in range(LOOP):
            if planned and number % 6 == 0:
                plan = tool(under_way, "plan")
                await plan.call(phase=f"phase {number}", version=(await plan.call())["version"])
            heads.append(head(await memory.step(under_way, looked(number, f"line {number} of the log " * 6))))
        return heads

    @pytest.mark.parametrize(("before", "planned"), [(0, False), (19, False), (19, True)])
    async def test_r07_07_a_long_loop_keeps_its_beginning(
        self, shared_url: str, scope: Scope, before: int, planned: bool
    ) -> None:
        async with opened(shared_url, config=limited(1_500)) as memory:
            await memory.update_profile(scope, "User Context/Name", "set", "Mira")
            if before:
                await say(memory, scope, before, "The log of the proxy had nothing to say about it, again:")
            under_way = await memory.begin(scope, "Why does the webhook answer 401?")
            heads = await self.loop(memory, under_way, planned)
        kept = [new.startswith(old) for old, new in pairwise(heads)]
        assert sum(kept) / LOOP >= 0.8
        assert not all(kept), "the budget was too large to show anything"

    async def test_r07_07_a_loop_within_its_budget_only_grows(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url) as memory:
            await say(memory, scope, 30)
            heads = await self.loop(memory, await memory.begin(scope, "Why does it answer 401?"), planned=True)
        assert all(new.startswith(old) for old, new in pairwise(heads))

    async def test_r07_08_turns_within_the_window_keep_the_beginning_of_the_prompt(
        self, shared_url: str, scope: Scope
    ) -> None:
        async with opened(shared_url) as memory:
            await memory.update_profile(scope, "User Context/Name", "set", "Mira")
            await memory.append(thread(scope, "sunday"), "The webhook of pay-2 answered 401 on Sunday.")
            contexts = []
            for number in range(5):
                under_way = await memory.begin(scope, f"The webhook answered 401, {number}.")
                contexts += [under_way.context, await memory.step(under_way, looked(number, "a log"))]
                await memory.complete(under_way, f"Answer {number}.")
            assert all("memory" in names(context) for context in contexts)
            rendered = [openai_messages(context, SYSTEM) for context in contexts]
            assert len(contexts[-1].messages) == 19
            assert all(head(new).startswith(head(old)) for old, new in pairwise(contexts))
            assert all(new[: len(old) - 1] == old[:-1] for old, new in pairwise(rendered))

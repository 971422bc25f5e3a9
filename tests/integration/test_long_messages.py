"""Inputs and steps that are longer than a prompt: shown shortened, read on with a tool, told by an event."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from conversation import JONAS, MIRA, looked, opened, settings, tool
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from observers import model as worker
from observers import observing

from casenotes import Context, Memory, Message, Scope, Settings, ToolCall, ToolResult, Turn, sync
from casenotes.config import BudgetSettings, SemanticRecallSettings
from casenotes.errors import SettingsError
from casenotes.events import Event
from casenotes.prompt import anthropic_request, openai_messages, plain_text
from casenotes.testing import HashEmbedder
from casenotes.types import ChildScope

NOTE = re.compile(r'\[… (\d+) characters left out; read_message\(id="([^"]+)", offset=(\d+)\) gives them …\]')
LINES = "".join(f"line {number}: the proxy answered {number * 7919 % 1000}\n" for number in range(9_000))


def limited(tokens: int, reserve: int = 0, **values: Any) -> Settings:
    return replace(settings(), budget=BudgetSettings(tokens, reserve), **values)


def step(*results: str, **arguments: Any) -> list[Message]:
    """Parallel calls and their results."""
    calls = tuple(ToolCall(f"c{n}", "look", {"at": n, **arguments}) for n in range(len(results)))
    found = [Message("tool", "", parts=(ToolResult(f"c{n}", text),)) for n, text in enumerate(results)]
    return [Message("assistant", "", parts=calls), *found]


def spent(memory: Memory, context: Context) -> int:
    return sum(map(memory.size_of, context.messages)) + sum(memory.count_tokens(b.text) for b in context.blocks)


def names(turn: Turn) -> list[str]:
    return [offered.name for offered in turn.tools]


def notes(context: Context) -> list[tuple[str, int]]:
    """Messages and offsets that notes of a context name."""
    texts = [text for m in context.messages for text in (m.text, *(str(part) for part in m.parts))]
    return [(found[2], int(found[3])) for text in texts for found in NOTE.finditer(text.replace('\\"', '"'))]


async def read_on(turn: Turn, message_id: str, offset: int) -> str:
    pages, next_offset = [], offset
    while next_offset is not None:
        page = await tool(turn, "read_message").call(id=message_id, offset=next_offset)
        pages.append(page["text"])
        next_offset = page["next_offset"]
    return "".join(pages)


class TestContext:
    async def test_r10_19_eight_results_of_200_kb_stay_within_the_default_budget(
        self, shared_url: str, scope: Scope
    ) -> None:
        text, events = LINES[:200_000], list[Event]()
        async with opened(shared_url, on_event=events.append) as memory:
            turn = await memory.begin(scope, "Read all eight files.")
            assert "read_message" not in names(turn)
            context = await memory.step(turn, step(*[text] * 8))
            assert 60_000 < spent(memory, context) <= 124_000
            assert [message.role for message in context.messages] == ["user", "assistant", *["tool"] * 8]
            assert "read_message" in names(turn)
            history = await memory.history(scope)
            assert [part.content for m in history[2:] for part in m.parts] == [text] * 8, "the log keeps all"
            cuts = context.trace["messages"]["shortened"]
            assert [cut["id"] for cut in cuts] == [message.id for message in history[2:]]
            assert all(cut["tokens"] == memory.size_of(history[2]) > cut["shown"] for cut in cuts)
            await memory.complete(turn, "All read.")
        (told,) = [event for event in events if event.name == "context.shortened"]
        assert (told.scope, told.data["turn_id"], told.data["messages"]) == (scope, turn.id, cuts)
        assert told.data["count"] == 8
        assert told.data["tokens"] > 400_000 > 100_000 > told.data["shown"]

    async def test_r07_20_the_event_is_kept_and_told_once(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(4_000)) as memory:
            turn = await memory.begin(scope, "Look.")
            await memory.step(turn, step(LINES))
            for number in range(3):
                context = await memory.step(turn, looked(number, "fine"))
            assert len(context.trace["messages"]["shortened"]) == 1
            await memory.complete(turn, "done")
            told = [event for event in await memory.event_history(scope) if event.name == "context.shortened"]
        assert [len(event.data["messages"]) for event in told] == [1]
        assert "proxy answered" not in json.dumps(told[0].data)

    async def test_r07_17_the_prompt_keeps_its_beginning(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(9_000)) as memory:
            turn = await memory.begin(scope, "Look. " + LINES[:60_000])
            prompts = [plain_text(replace(turn.context, blocks=()))]
            for number in range(5):
                context = await memory.step(turn, looked(number, LINES if not number else "fine " * 50))
                prompts.append(plain_text(replace(context, blocks=())))
            await memory.complete(turn, "done")
            later = await memory.begin(scope, "And now?")
            prompts.append(plain_text(replace(later.context, blocks=())))
            assert "read_message" in names(later), "as long as something is shown shortened"
        assert all(new.startswith(old) for old, new in pairwise(prompts))

    @pytest.mark.parametrize("observed", [False, True], ids=["no model", "observed"])
    @hypothesis_settings(
        max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        st.sampled_from([20, 120, 700, 3_000]),
        st.lists(st.sampled_from([3, 300, 4_000, 20_000]), min_size=1, max_size=4),
        st.lists(st.lists(st.sampled_from([0, 50, 3_000, 30_000]), min_size=1, max_size=5), max_size=3),
        st.sampled_from([0, 5_000, 20_000]),
    )
    async def test_r10_19_any_sizes_fit(
        self,
        shared_url: str,
        observed: bool,
        tokens: int,
        asked: list[int],
        found: list[list[int]],
        argued: int,
    ) -> None:
        base = observing(observer_threshold_tokens=2_000) if observed else settings()
        config = replace(
            base, budget=BudgetSettings(tokens + 10, 10), semantic_recall=SemanticRecallSettings(True)
        )
        scope = Scope("sizes", "mira", f"t-{observed}-{tokens}-{asked}-{found}-{argued}"[:200])
        model = worker() if observed else None
        async with opened(shared_url, model, config=config) as memory:
            await memory.append(scope, [Message("user", "Earlier. " * 30), Message("assistant", "Yes. " * 30)])
            turn = await memory.begin(scope, [Message("user", LINES[:size] or "?") for size in asked])
            contexts = [turn.context]
            for sizes in found:
                said = step(*(LINES[:size] for size in sizes), text=LINES[:argued])
                contexts.append(await memory.step(turn, said))
            for context in contexts:
                assert spent(memory, context) <= tokens
                assert context.messages
                for message in openai_messages(context):
                    for call in message.get("tool_calls", ()):
                        assert isinstance(json.loads(call["function"]["arguments"]), dict)
                anthropic_request(context)
            await memory.complete(turn, "done", outcome="aborted")

    def test_r10_19_a_budget_that_holds_no_message_is_refused(self) -> None:
        with pytest.raises(SettingsError, match="leave 19 tokens for the prompt; at least 20 are needed"):
            BudgetSettings(1_019, 1_000)
        assert BudgetSettings(1_020, 1_000).prompt_tokens == 20


class TestReading:
    async def test_r07_18_the_notes_lead_through_all_that_was_left_out(
        self, shared_url: str, scope: Scope
    ) -> None:
        async with opened(shared_url, config=limited(8_000)) as memory:
            turn = await memory.begin(scope, "Look.")
            context = await memory.step(turn, step(LINES[:60_000], LINES[7:60_000]))
            found = notes(context)
            assert [name for name, _ in found] == turn.message_ids[2:4]
            for (name, offset), whole in zip(found, (LINES[:60_000], LINES[7:60_000]), strict=True):
                assert await read_on(turn, name, offset) == whole[offset:]
            page = await tool(turn, "read_message").call(id=found[0][0], offset=str(found[0][1]))
            assert memory.count_tokens(page["text"]) <= 1_000
            assert list(page) == ["read_message", "offset", "next_offset", "total", "text"]
            assert page["total"] == 60_000
            again = [Message("assistant", "", parts=[ToolCall("r", "read_message", {"id": found[0][0]})])]
            again.append(Message("tool", "", parts=[ToolResult("r", json.dumps(page))]))
            shown = await memory.step(turn, again)
            assert spent(memory, shown) <= 8_000
            assert json.loads(shown.messages[-1].parts[0].content) == page, "a page is never shortened"
            hits = await memory.recall(scope, "line 700 proxy answered", top_k=10)
            assert turn.message_ids[-1] not in [hit.id for hit in hits], "what was read is in the log once"

    async def test_r07_18_a_wrong_call_is_answered(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(2_000)) as memory:
            turn = await memory.begin(scope, LINES)
            (name,) = turn.message_ids
            read = tool(turn, "read_message").call
            for wrong in (
                {},
                {"id": 7},
                {"id": name, "offset": 1.5},
                {"id": name, "page": 1},
                {"id": name, "offset": True},
            ):
                assert "Call it with id" in (await read(**wrong))["error"]
            assert await read(id="nobody", offset=0) == {
                "error": "There is no message 'nobody' in this conversation."
            }
            for offset in (-1, len(LINES), 2**70):
                assert await read(id=name, offset=offset) == {
                    "error": f"offset is '{offset}'; the message has {len(LINES)} characters."
                }

    async def test_r07_19_what_belongs_to_others_or_was_forgotten_is_not_there(
        self, shared_url: str, scope: Scope
    ) -> None:
        others = [
            replace(scope, thread_id="other"),
            replace(scope, resource_id="jonas"),
            replace(scope, agent_id="b"),
        ]
        async with opened(shared_url, config=limited(2_000)) as memory:
            foreign = [str((await memory.append(other, LINES)).messages[0].id) for other in others]
            early = str(
                (await memory.append(scope, [Message("user", "The door code is green.")])).messages[0].id
            )
            turn = await memory.begin(scope, LINES)
            read = tool(turn, "read_message").call
            for name in foreign:
                assert (await read(id=name))["error"] == (await read(id="x" * len(name)))["error"].replace(
                    "x" * len(name), name
                )
            assert (await read(id=early))["text"] == "The door code is green."
            await memory.forget(scope, message_id=early)
            assert "There is no message" in (await read(id=early))["error"]
            await memory.erase(scope, scrub=False)
            assert "There is no message" in (await read(id=turn.message_ids[0]))["error"]

    async def test_r07_19_secrets_are_shown_neither_shortened_nor_read(
        self, shared_url: str, scope: Scope
    ) -> None:
        key = "sk-proj-" + "Ab3dE5fG7h" * 5
        async with opened(shared_url, config=limited(2_000)) as memory:
            turn = await memory.begin(scope, "Look.")
            context = await memory.step(turn, step(f"the key is {key}\n" * 3 + LINES[:15_000], token=key))
            (name, offset), *_ = notes(context)
            assert "Ab3dE5fG7h" not in str([m.parts for m in context.messages if m.role == "tool"])
            assert "Ab3dE5fG7h" not in await read_on(turn, name, offset)

    async def test_r07_18_a_sub_agent_reads_on_in_its_own_thread(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(2_000)) as memory:
            child: ChildScope = scope.child("helper")
            turn = await memory.begin(child, LINES[:20_000])
            assert "read_message" in names(turn)
            assert await read_on(turn, turn.message_ids[0], 0) == LINES[:20_000]

    async def test_r07_18_it_works_without_await(self, sqlite_url: str) -> None:
        def work() -> None:
            given: Any = {"embedder": HashEmbedder(64), "config": limited(2_000), "model": ""}
            with sync.Memory.open(sqlite_url, **given) as memory:
                turn = memory.begin(MIRA, "Look.")
                assert "read_message" not in names(turn)
                memory.step(turn, step(LINES))
                page: Any = tool(turn, "read_message").call(id=turn.message_ids[2], offset=40)
                assert page["text"].startswith(LINES[40:80])

        await asyncio.to_thread(work)

    async def test_r07_19_a_turn_of_another_user_reads_nothing(self, shared_url: str, scope: Scope) -> None:
        async with opened(shared_url, config=limited(2_000)) as memory:
            mine = await memory.begin(scope, LINES)
            theirs = await memory.begin(replace(JONAS, agent_id=scope.agent_id), LINES)
            assert "error" in await tool(theirs, "read_message").call(id=mine.message_ids[0])

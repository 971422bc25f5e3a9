"""What happens around the end of turns and runs when things go on otherwise than planned."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from conversation import LATER, MIRA, NOW, SAID, SKEW, entry, looked, opened, proposes, settings, turn

from casenotes import Message, Scope, ToolCall, ToolResult
from casenotes.config import (
    BudgetSettings,
    EpisodesSettings,
    EpisodicSettings,
    ProfileSettings,
    SemanticRecallSettings,
    StorageSettings,
)
from casenotes.errors import InvalidScope
from casenotes.events import Event
from casenotes.layers.base import BaseLayer, CompleteRequest, LearnRequest, RecallRequest
from casenotes.models.chat import ChatRequest
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel
from casenotes.tokens import CountedOnce, estimate_tokens


class Notes(BaseLayer):
    """Writes down how turns ended."""

    name = "notes"

    def __init__(self) -> None:
        self.ends: list[str] = []

    async def learn(self, request: LearnRequest) -> None:
        self.ends.append(request.outcome)


class Broken(BaseLayer):
    """Tells of bytes that no database takes, and hangs when a run ends."""

    name = "broken"
    ended = False

    async def recall(self, request: RecallRequest) -> str:
        raise OSError("no file \udcff\x00.txt")

    async def complete(self, request: CompleteRequest) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            self.ended = True


@pytest.mark.parametrize(("ends", "stored"), [(("success", "failure"), 0), (("failure", "success"), 1)])
async def test_the_last_word_on_a_turn_decides_who_learns(
    store_url: str, ends: tuple[str, str], stored: int
) -> None:
    notes = Notes()
    config = replace(settings(), jobs=replace(settings().jobs, in_process=False))
    async with opened(store_url, proposes(entry(SKEW, SAID)), layers=[notes], config=config) as memory:
        under_way = await memory.begin(MIRA, SAID)
        for outcome in ends:
            await memory.complete(under_way, "I see.", outcome=outcome)
        await memory.work(once=True)
        assert (await memory.stats()).entries == stored
        assert notes.ends == [ends[1]]


async def test_finishing_a_run_leaves_receipts_to_whoever_asks_for_them(store_url: str) -> None:
    async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
        await memory.complete(await memory.begin(MIRA, SAID), "I see.")
        await memory.finish(MIRA)
        assert [receipt.status for receipt in await memory.flush(MIRA)] == ["learned"]
        with pytest.raises(InvalidScope, match="thread_id"):
            await memory.finish(MIRA.owner)


async def test_a_layer_that_hangs_or_tells_nonsense_holds_up_no_end(store_url: str) -> None:
    """The time is short for a layer that hangs, and long for the others on a busy machine."""
    broken = Broken()
    config = replace(settings(), jobs=replace(settings().jobs, hook_seconds=2))
    async with opened(store_url, layers=[broken], config=config) as memory:
        await turn(memory, MIRA, SAID)
        async with asyncio.timeout(30):
            await memory.finish(MIRA)
        assert broken.ended, "it was cancelled"
        assert len(await memory.episodes(MIRA)) == 1, "the others did their part"
        failed = [e for e in await memory.event_history(MIRA) if e.data.get("source") == "broken"]
        assert len(failed) == 2


class Cancelled:
    """A model whose client library lets a cancellation of its own escape at one task."""

    def __init__(self, task: str) -> None:
        self._task = task

    def __call__(self, request: ChatRequest) -> dict[str, object]:
        if request.task == self._task:
            raise asyncio.CancelledError("a scope of the client's")
        return {"entries": [entry(SKEW, SAID)]} if request.task == "extract" else {}


async def test_a_cancellation_from_within_one_layer_keeps_no_other_from_learning(store_url: str) -> None:
    events: list[Event] = []
    config = replace(settings(), profile=ProfileSettings(learn=True))
    model = ScriptedModel(Cancelled("profile"))
    async with opened(store_url, model, config=config, on_event=events.append) as memory:
        receipt = await turn(memory, MIRA, SAID)
        assert [candidate.status for candidate in receipt.candidates] == ["stored"]
    failed = [event.data for event in events if event.name == "learning.failed"]
    assert {data["source"] for data in failed} == {"user-profile"}
    assert "cancelled from within" in failed[0]["error"]


async def test_a_cancellation_from_within_a_summariser_does_not_reach_the_host(store_url: str) -> None:
    async with opened(store_url, ScriptedModel(Cancelled("summarise"))) as memory:
        await turn(memory, MIRA, SAID)
        await memory.finish(MIRA)
        assert [run.summary for run in await memory.episodes(MIRA)] == [heuristic_summary()]


def heuristic_summary() -> str:
    return f"Asked: {SAID} | It ended well: I see."


async def test_a_summariser_that_hangs_leaves_time_for_another_summary(store_url: str) -> None:
    async def hangs(_messages: object, _outcome: str) -> str:
        await asyncio.sleep(60)
        return "too late"

    config = replace(
        settings(),
        jobs=replace(settings().jobs, hook_seconds=4),
        episodes=EpisodesSettings(summariser=hangs),
    )
    async with opened(store_url, config=config) as memory:
        await turn(memory, MIRA, SAID)
        await memory.finish(MIRA)
        assert [run.summary for run in await memory.episodes(MIRA)] == [heuristic_summary()]


@pytest.mark.parametrize("text", ["We found\x00 it", "We found\ud800 it"], ids=["nul", "surrogate"])
async def test_what_no_database_takes_costs_no_summary(store_url: str, text: str) -> None:
    async def told(_messages: object, _outcome: str) -> str:
        return text

    config = replace(settings(), episodes=EpisodesSettings(summariser=told))
    async with opened(store_url, config=config) as memory:
        await turn(memory, MIRA, SAID)
        await memory.finish(MIRA)
        assert [run.summary for run in await memory.episodes(MIRA)] == ["We found\ufffd it"]


async def test_events_that_cannot_be_written_hold_up_neither_flush_nor_closing(sqlite_url: str) -> None:
    config = replace(settings(), storage=StorageSettings(busy_timeout_seconds=2, close_timeout_seconds=1))
    async with opened(sqlite_url, config=config) as memory:
        threads = [replace(MIRA, thread_id=f"t{number}") for number in range(10)]
        for scope in threads:
            await memory.append(scope, "Hello.", embed=False)
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for scope in threads:
            memory._events.emit("test.happened", scope)
        started = time.monotonic()
        await memory.flush(timeout=0.2)
    seconds = time.monotonic() - started
    other.close()
    assert seconds < 15, "ten writers would wait for twenty seconds"


async def test_what_was_forgotten_is_not_told_by_run_summaries(store_url: str) -> None:
    clock = FrozenClock(NOW)
    async with opened(store_url, clock=clock) as memory:
        await turn(memory, MIRA, SAID)
        await memory.finish(MIRA)
        await turn(memory, LATER, "The printer is out of paper.")
        await memory.finish(LATER)
        clock.advance(timedelta(minutes=1))
        forgotten = await memory.forget(MIRA.owner, thread_id="monday")
        assert [run.thread_id for run in await memory.episodes(MIRA)] == ["tuesday"]
        context = (await memory.begin(Scope("support", "mira", "wednesday"), "Hello.")).context
        assert "90 seconds" not in context.text
        assert "out of paper" in context.text
        await memory.undo(MIRA.owner, str(forgotten.revision_id))
        assert len(await memory.episodes(MIRA)) == 2


async def test_a_failure_that_is_told_twice_is_noted_once(store_url: str) -> None:
    async with opened(store_url) as memory:
        await turn(memory, MIRA, SAID)
        child = await memory.begin(MIRA.child("helper"), "Find the cause.")
        for _ in range(2):
            await memory.complete(child, "No idea.", outcome="failure", error="no access")
        assert [attempt.error for attempt in await memory.attempts(MIRA)] == ["no access"]


async def test_what_the_budget_drops_from_the_window_can_be_recalled(store_url: str) -> None:
    """It fell out of the prompt, so it is not visible, although it is among the last messages."""
    config = replace(
        settings(),
        episodic=EpisodicSettings(enabled=False),
        semantic_recall=SemanticRecallSettings(True, max_block_tokens=200),
        budget=BudgetSettings(1_500, 100),
    )
    async with opened(store_url, config=config) as memory:
        await turn(memory, MIRA, "The zebra finch sings at dawn in hall seven.", "It does.")
        for number in range(4):
            await turn(memory, MIRA, f"Log {number}: " + "noise and more noise " * 120, "Long.")
        context = (await memory.begin(MIRA, "When does the zebra finch sing in hall seven?")).context
        assert all("zebra finch sings" not in message.text for message in context.messages)
        assert "zebra finch sings at dawn" in context.text


async def test_who_gives_up_on_a_shared_embedding_does_not_end_it_for_others(sqlite_url: str) -> None:
    async with opened(sqlite_url) as memory:
        embed = memory._searcher._shared_embedding
        shared = embed(1, Slow(32), "the same words")
        assert embed(1, Slow(32), "the same words") is shared
        shared.left()
        await asyncio.wait([shared.task])
        assert shared.problem is None
        alone = embed(1, Slow(32), "other words")
        alone.left()
        await asyncio.wait([alone.task])
        assert alone.problem == "late"


class Slow(HashEmbedder):
    async def embed(self, texts: list[str]) -> object:
        await asyncio.sleep(0.01)
        return await super().embed(texts)


def test_counting_keeps_no_text() -> None:
    counted = CountedOnce(estimate_tokens, most=2)
    assert [counted(text) for text in ("one", "one", "two words", "and a third")] == [
        estimate_tokens(text) for text in ("one", "one", "two words", "and a third")
    ]
    assert all(isinstance(part, int) for key in counted._known for part in key)
    assert len(counted._known) <= 2


class Stubborn(BaseLayer):
    """Lets its host wait until it is told to answer."""

    name = "stubborn"
    every_step = True

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def recall(self, request: RecallRequest) -> str:
        self.asked.set()
        await asyncio.sleep(60)
        return ""


async def cancelled(layer: Stubborn, call: Coroutine[Any, Any, object]) -> None:
    """Cancel a call that waits for the layer."""
    layer.asked.clear()
    calling = asyncio.create_task(call)
    await layer.asked.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_step_that_was_cancelled_and_is_repeated_saves_nothing_twice(store_url: str) -> None:
    layer = Stubborn()
    config = replace(settings(), recall_deadline_seconds=0.2)
    async with opened(store_url, layers=[layer], config=config) as memory:
        under_way = await memory.begin(MIRA, SAID)
        said = looked(1, "found")
        await cancelled(layer, memory.step(under_way, said))
        await memory.step(under_way, said)
        await cancelled(layer, memory.step(under_way, "I go on."))
        await memory.complete(under_way, [Message("assistant", text) for text in ("I go on.", "Done.")])
        log = await memory.history(MIRA)
        assert [message.role for message in log] == ["user", "assistant", "tool", "assistant", "assistant"]
        assert [message.id for message in log] == under_way.message_ids


async def test_a_step_that_was_cancelled_does_not_stand_in_the_way_of_a_like_one(store_url: str) -> None:
    """A loop that polls calls the same tool with the same result again, under another id."""
    layer = Stubborn()
    config = replace(settings(), recall_deadline_seconds=0.2)
    async with opened(store_url, layers=[layer], config=config) as memory:
        under_way = await memory.begin(MIRA, SAID)
        await cancelled(layer, memory.step(under_way, looked(1, "pending")))
        await memory.step(under_way, looked(2, "pending"))
        await memory.complete(under_way, "Done.")
        parts = [part for message in await memory.history(MIRA) for part in message.parts]
        assert len([part for part in parts if isinstance(part, ToolCall)]) == 2
        assert len([part for part in parts if isinstance(part, ToolResult)]) == 2


async def test_a_turn_whose_begin_was_cancelled_is_not_left_open(store_url: str) -> None:
    layer = Stubborn()
    async with opened(store_url, layers=[layer]) as memory:
        await cancelled(layer, memory.begin(MIRA, SAID))
        assert [message.text for message in await memory.history(MIRA)] == [SAID]
        assert (await memory.stats()).open_turns == 0

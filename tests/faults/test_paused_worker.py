"""A worker is stopped, another takes over, the first wakes up and goes on: nothing stale is written."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import work_when_told as script

from casenotes import Memory, Scope
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

SCRIPT = Path(script.__file__)
TRIALS = int(os.environ.get("CASENOTES_TRIALS", "4"))
"""For each store: half of them while the other worker is at work, half when it has done its work."""

CONTROLS = 2
PATIENCE = 30.0
SECOND = script.answer("second")["entries"][0]["content"]


class Second:
    """The worker that takes over, in this process; it can be held while its model answers."""

    def __init__(self, answer: Callable[[ChatRequest], Any]) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.model = ScriptedModel(self._respond)
        self._answer = answer

    async def _respond(self, request: ChatRequest) -> Any:
        self.asked.set()
        await self.go_on.wait()
        return self._answer(request)


@asynccontextmanager
async def started_script(script: Path, url: str, step: str, guards: str = "") -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, url, step, guards, stdin=PIPE, stdout=PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        told = await process.stdout.readline()
    assert told, f"it has ended by itself: {process.returncode}"
    return told.decode().strip()


async def stop(process: Process, memory: Memory) -> None:
    """Stop a process outside of any write: in SQLite, one that is stopped within a write holds up everybody."""
    async with asyncio.timeout(PATIENCE):
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            while not is_stopped(process.pid):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            if not is_being_written(memory.location):
                return
            os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(0.02)


def is_being_written(location: str) -> bool:
    """PostgreSQL ends the transaction of a process that falls silent, and says so itself."""
    if not location.startswith("sqlite:"):
        return False
    with closing(sqlite3.connect(location.removeprefix("sqlite:///"), timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def is_stopped(process: int) -> bool:
    return os.WIFSTOPPED(os.waitpid(process, os.WUNTRACED | os.WNOHANG)[1])


async def until_learned(memory: Memory) -> None:
    until = time.monotonic() + PATIENCE
    while (await memory.stats()).queued_turns:
        assert time.monotonic() < until
        await memory.work(once=True)
        await asyncio.sleep(0.02)


async def trial(memory: Memory, second: Second, process: Process, step: str, number: int, done: bool) -> str:
    """One turn; says what the first worker told about it when it had woken up."""
    second.asked.clear()
    second.go_on.clear()
    turn = await memory.begin(Scope("agent", f"user-{number}", "t"), script.SAID)
    await memory.complete(turn, "Noted.")
    assert await line(process) == f"at {step}"
    await stop(process, memory)
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    taking_over = asyncio.create_task(until_learned(memory))
    async with asyncio.timeout(PATIENCE):
        await second.asked.wait()
    if done:
        second.go_on.set()
        await taking_over
    os.kill(process.pid, signal.SIGCONT)
    told = await line(process)
    second.go_on.set()
    await taking_over
    return told


async def run(url: str, step: str, trials: int, guards: str = "", done: bool | None = None) -> list[str]:
    second = Second(lambda _request: script.answer("second"))
    embedder = HashEmbedder(32)
    config = script.SETTINGS
    async with (
        Memory.open(url, model=second.model, embedder=embedder, config=config) as memory,
        started_script(SCRIPT, url, step, guards) as process,
    ):
        return [
            await trial(memory, second, process, step, number, number % 2 == 1 if done is None else done)
            for number in range(trials)
        ]


async def check(url: str, trials: int) -> None:
    """Every turn was learned from once, by the worker that had the lease."""
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        stats = await memory.stats()
        assert (stats.queued_turns, stats.dead_turns, stats.entries) == (0, 0, trials)
        assert stats.messages == 2 * trials
        for number in range(trials):
            scope = Scope("agent", f"user-{number}", "t")
            (row,) = await memory.ledger(scope)
            assert (row.receipt.status, row.receipt.content) == ("stored", SECOND)
            (entry,) = (await memory.entries(scope, [str(row.receipt.entry_id)])).values()
            (quote,) = entry.evidence
            (said, _noted) = await memory.history(scope)
            assert (entry.content, said.text[quote.start : quote.end]) == (SECOND, script.SAID)
            assert (quote.message_id, quote.quote) == (said.id, script.SAID)
        assert [finding for finding in await memory.check() if finding.status == "failed"] == []


@pytest.mark.parametrize("step", ["model", "save"])
async def test_a_worker_that_was_overtaken_writes_nothing(store_url: str, step: str) -> None:
    told = await run(store_url, step, TRIALS // 2)
    assert Counter(line.split(":")[0] for line in told) == {"failed LeaseLost": TRIALS // 2}
    await check(store_url, TRIALS // 2)


async def test_without_the_fence_this_would_be_noticed(store_url: str) -> None:
    """The control: while the second worker is still at work, the first one's stale entries are taken."""
    told = await run(store_url, "save", CONTROLS, "fence", done=False)
    assert told == ["finished"] * CONTROLS
    with pytest.raises(AssertionError):
        await check(store_url, CONTROLS)
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        (row,) = await memory.ledger(Scope("agent", "user-0", "t"))
        assert row.receipt.content == script.answer("first")["entries"][0]["content"]


async def test_without_fence_and_cursor_entries_would_be_there_twice(store_url: str) -> None:
    """The control: when the second worker has done its work, the first one's entries come on top."""
    told = await run(store_url, "save", CONTROLS, "all", done=True)
    assert told == ["finished"] * CONTROLS
    with pytest.raises(AssertionError):
        await check(store_url, CONTROLS)
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        assert (await memory.stats()).entries == 2 * CONTROLS

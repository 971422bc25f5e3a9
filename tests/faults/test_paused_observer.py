"""An Observer is stopped, another takes over, the first wakes up: nothing is observed twice, nothing skipped.

`CASENOTES_TRIALS` sets how many trials there are for each store; `make faults` runs 200.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import observe_when_told as script
import pytest
from test_paused_worker import PATIENCE, Second, line, started_script, stop

from casenotes import Memory, Scope
from casenotes.testing import HashEmbedder

SCRIPT = Path(script.__file__)
TRIALS = int(os.environ.get("CASENOTES_TRIALS", "4"))
"""For each store: half of them stopped while the model answers, half before saving."""

CONTROLS = 2
TURNS = 3


def thread(number: int) -> Scope:
    return Scope("agent", f"user-{number}", "t")


async def talk(memory: Memory, scope: Scope) -> None:
    """More than one batch, of which the newest step stays."""
    for number in range(TURNS):
        turn = await memory.begin(scope, f"question-{number} " + "word " * 60)
        await memory.complete(turn, f"answer-{number} " + "word " * 60)


async def until_observed(memory: Memory, scope: Scope) -> None:
    until = time.monotonic() + PATIENCE
    while await memory._session._jobs._work.due(scope, datetime.now(UTC)):
        assert time.monotonic() < until
        await memory.work(once=True)
        await asyncio.sleep(0.02)


async def trial(memory: Memory, second: Second, process: Process, step: str, number: int, done: bool) -> str:
    """One thread; says what the first worker told about its batch when it had woken up."""
    second.asked.clear()
    second.go_on.clear()
    await talk(memory, thread(number))
    while await line(process) != f"at {step}":
        pass  # what it tells of the thread before
    await stop(process, memory)
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    taking_over = asyncio.create_task(until_observed(memory, thread(number)))
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


@asynccontextmanager
async def workers(url: str, step: str, guards: str) -> AsyncIterator[tuple[Memory, Second, Process]]:
    second, embedder = Second(partial(script.answer, "second")), HashEmbedder(32)
    async with (
        Memory.open(url, model=second.model, embedder=embedder, config=script.SETTINGS) as memory,
        started_script(SCRIPT, url, step, guards) as process,
    ):
        yield memory, second, process


async def run(url: str, step: str, trials: int) -> list[str]:
    """What the first worker told, trial by trial; every other time the second one has done its work by then."""
    async with workers(url, step, "") as (memory, second, process):
        return [await trial(memory, second, process, step, number, number % 2 == 1) for number in range(trials)]


async def control(url: str, guards: str, *, done: bool) -> list[str]:
    """The same without guards, each time with a worker of its own: one that writes what it must not goes on."""
    told = []
    for number in range(CONTROLS):
        async with workers(url, "save", guards) as (memory, second, process):
            told.append(await trial(memory, second, process, "save", number, done))
    return told


async def faults(url: str, trials: int) -> list[str]:
    """What is wrong: messages observed twice or passed over, and rows of the worker that was overtaken."""
    found = []
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        for number in range(trials):
            scope = thread(number)
            batches = await memory._store.observations.batches(scope)
            spans = [(batch.first_seq, batch.last_seq) for batch in batches]
            if not spans or spans[0][0] != 1 or any(a[1] + 1 != b[0] for a, b in pairwise(spans)):
                found.append(f"{number}: batches {spans}")
            rows = await memory.observations(scope)
            read = [row.text.split()[2] for row in rows]
            expected = [f"{kind}-{n}" for n in range(TURNS) for kind in ("question", "answer")][: len(read)]
            if read != expected or len(read) < TURNS:
                found.append(f"{number}: read {read}")
            if any(row.text.startswith("first") for row in rows):
                found.append(f"{number}: a stale write was accepted")
    return found


@pytest.mark.parametrize("step", ["model", "save"])
async def test_r05_32_an_observer_that_was_overtaken_writes_nothing(store_url: str, step: str) -> None:
    trials = TRIALS // 2
    told = await run(store_url, step, trials)
    assert Counter(text.split(":")[0] for text in told) == {"failed LeaseLost": trials}
    assert await faults(store_url, trials) == []


async def test_without_the_fence_this_would_be_noticed(store_url: str) -> None:
    """The control: while the second worker is still at work, the first one's stale rows are taken."""
    told = await control(store_url, "fence", done=False)
    assert told == ["finished"] * CONTROLS
    assert len(await faults(store_url, CONTROLS)) >= CONTROLS


async def test_without_fence_and_cursor_messages_would_be_observed_twice(store_url: str) -> None:
    """The control: when the second worker has done its work, the first one moves the cursor back."""
    told = await control(store_url, "all", done=True)
    assert told == ["finished"] * CONTROLS
    assert len(await faults(store_url, CONTROLS)) >= CONTROLS


async def test_the_cursor_alone_refuses_a_worker_that_is_late(store_url: str) -> None:
    """Two guards, each of which would do: without the fence a moved cursor still refuses what comes second."""
    told = await control(store_url, "fence", done=True)
    assert told == ["refused"] * CONTROLS
    assert await faults(store_url, CONTROLS) == []

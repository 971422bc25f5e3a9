"""Closings and openings cancelled at any moment release threads, descriptors and connections all the same."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from casenotes import Memory, Scope, Settings, sync
from casenotes.cli.chat_loop import running_loop
from casenotes.config import JobSettings, StorageSettings
from casenotes.models.chat import ChatRequest
from casenotes.stores import create_store
from casenotes.testing import HashEmbedder, ScriptedModel

ROUNDS = int(os.environ.get("CASENOTES_CLOSINGS", "20"))
"""For each store; `make faults` does more."""

# A loop may end before a task that gives a lease back has begun. The lease runs out by itself; what these
# tests count is sessions, threads and descriptors.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*Jobs.release' was never awaited:RuntimeWarning")

PATIENCE = 20.0
SCOPE = Scope("agent", "user", "thread")
CONFIG = Settings(storage=StorageSettings(close_timeout_seconds=0.5), jobs=JobSettings(poll_seconds=0.01))
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """The driver's records, which pytest keeps, hold connections."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def answer(_request: ChatRequest) -> dict[str, Any]:
    await asyncio.sleep(0.02)
    return {}


def opening(url: str) -> Any:
    return Memory.open(url, model=ScriptedModel(answer), embedder=HashEmbedder(16), config=CONFIG)


def held(url: str) -> dict[str, int]:
    """What a memory takes of the process and of the server."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("casenotes-")]
    taken = {"threads": len(threads), "descriptors": len(os.listdir("/proc/self/fd"))}
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as other:
            taken["sessions"] = other.execute(SESSIONS).fetchone()[0]
    return taken


async def left_over(url: str, before: dict[str, int]) -> dict[str, int]:
    """What is held beyond that when all that goes on in the background has had its time."""
    until = time.monotonic() + PATIENCE
    while True:
        more = {name: now - before[name] for name, now in held(url).items() if now > before[name]}
        if not more or time.monotonic() > until:
            return more
        await asyncio.sleep(0.05)


async def use(memory: Memory) -> None:
    turn = await memory.begin(SCOPE, "The fan is loud.")
    await memory.complete(turn, "I see.")


async def cancel_at(task: asyncio.Task[Any], chance: random.Random) -> None:
    """Once or twice, after some steps of the loop or some milliseconds."""
    for _ in range(chance.choice([1, 1, 2])):
        if chance.random() < 0.5:
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.uniform(0, 0.03))
        task.cancel()
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done()


async def use_once(one: Any) -> None:
    await use(await one.__aenter__())


def interrupt(*_about: object) -> None:
    """As Ctrl-C does."""
    raise KeyboardInterrupt


async def warmed_up(url: str) -> dict[str, int]:
    async with opening(url) as memory:
        await use(memory)
    return held(url)


async def test_r15_07_cancelled_closings_release_everything(store_url: str) -> None:
    chance = random.Random(7)
    before = await warmed_up(store_url)
    for _ in range(ROUNDS):
        one = opening(store_url)
        await use(await one.__aenter__())
        await cancel_at(asyncio.create_task(one.__aexit__(None, None, None)), chance)
    assert await left_over(store_url, before) == {}
    async with opening(store_url) as memory:
        assert len(await memory.history(SCOPE, 10_000)) == 2 * (ROUNDS + 1)


async def test_r15_07_cancelled_openings_release_everything(store_url: str) -> None:
    chance = random.Random(7)
    before = await warmed_up(store_url)

    async def body() -> None:
        async with opening(store_url):
            await asyncio.Event().wait()

    for _ in range(ROUNDS):
        await cancel_at(asyncio.create_task(body()), chance)
    assert await left_over(store_url, before) == {}


def test_r15_07_a_loop_that_ends_during_a_closing_leaves_nothing(store_url: str) -> None:
    """`asyncio.run` cancels whatever is left, the closing in the background too."""
    chance = random.Random(7)
    before = asyncio.run(warmed_up(store_url))

    async def leave_early() -> None:
        one = opening(store_url)
        await use(await one.__aenter__())
        await cancel_at(asyncio.create_task(one.__aexit__(None, None, None)), chance)

    for _ in range(ROUNDS // 2):
        asyncio.run(leave_early())
    asyncio.run(warmed_up(store_url))  # forgets what earlier loops have left
    gc.collect()  # the driver leaves connections to it that were being made when the loop ended
    assert asyncio.run(left_over(store_url, before)) == {}


def test_r15_07_a_synchronous_memory_that_is_interrupted_leaves_nothing(store_url: str) -> None:
    """At any moment of opening, using and closing it, as by Ctrl-C."""
    chance = random.Random(7)

    def open_and_use() -> None:
        options = {"model": ScriptedModel(answer), "embedder": HashEmbedder(16), "config": CONFIG}
        with sync.Memory.open(store_url, **options) as memory:
            memory.complete(memory.begin(SCOPE, "The fan is loud."), "I see.")

    before = asyncio.run(warmed_up(store_url))
    started = time.monotonic()
    open_and_use()
    longest = time.monotonic() - started
    usual = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(ROUNDS // 2):
            with suppress(KeyboardInterrupt):
                timer = threading.Timer(chance.uniform(0.005, longest), os.kill, (os.getpid(), signal.SIGUSR1))
                timer.start()
                open_and_use()
                timer.join()
    finally:
        signal.signal(signal.SIGUSR1, usual)
    gc.collect()  # as above
    assert asyncio.run(left_over(store_url, before)) == {}


async def test_r15_07_a_second_close_waits_for_the_first(store_url: str) -> None:
    before = held(store_url)
    store = create_store(store_url)
    await store.open()
    await store.history(SCOPE, limit=5)
    first = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    first.cancel()
    await store.close()
    assert first.cancelled()
    assert await left_over(store_url, before) == {}
    await store.open()
    assert await store.history(SCOPE, limit=5) == []
    await store.close()


def test_r15_07_a_closing_that_ctrl_c_interrupts_in_the_chat_leaves_nothing(store_url: str) -> None:
    before = asyncio.run(warmed_up(store_url))
    usual = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with running_loop() as loop:
            one = opening(store_url)
            loop.wait(use_once(one))
            threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with suppress(KeyboardInterrupt):
                loop.wait(one.__aexit__(None, None, None))
                time.sleep(1)
    finally:
        signal.signal(signal.SIGUSR1, usual)
    more = {name: now - before[name] for name, now in held(store_url).items() if now > before[name]}
    assert more == {}

"""Turns, searches and workers cancelled at any moment, and memories closed under them: all of it ends."""

from __future__ import annotations

import asyncio
import os
import random
from itertools import count
from typing import Any

import pytest

from casenotes import Memory, Scope, Settings
from casenotes.config import JobSettings, ObservationalSettings, StorageSettings
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

ROUNDS = int(os.environ.get("CASENOTES_ROUNDS", "10"))
"""For each store and seed; `make faults` does more."""

PATIENCE = 30.0
WORDS = "The fan of the rack is loud. " + "word " * 60


class Host:
    """Does a few things at once and loses patience with most of them."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self._url = url
        self._chance = chance
        self._numbers = count()

    def _opened(self) -> Any:
        chance = self._chance
        config = Settings(
            storage=StorageSettings(
                postgres_pool_size=chance.choice([1, 2, 8]), close_timeout_seconds=chance.choice([0.01, 0.3])
            ),
            jobs=JobSettings(poll_seconds=chance.choice([0.01, 0.05]), first_retry_seconds=0.01),
            observational=ObservationalSettings(observer_threshold_tokens=400, idle_flush_seconds=0),
        )
        model = ScriptedModel(self._answer)
        return Memory.open(self._url, model=model, embedder=HashEmbedder(16), config=config)

    async def _answer(self, request: ChatRequest) -> dict[str, Any]:
        await asyncio.sleep(self._chance.uniform(0, 0.02))
        return {"observations": [{"text": "the fan is loud"}]} if request.task == "observe" else {}

    async def _turn(self, memory: Memory) -> None:
        number = next(self._numbers)
        scope = Scope("agent", f"user-{number % 3}", f"thread-{number % 5}")
        turn = await memory.begin(scope, WORDS)
        await memory.complete(turn, WORDS, sync=self._chance.random() < 0.3)
        await memory.recall(scope, "fan", 3)
        await memory.flush(scope, timeout=1)

    async def round(self) -> None:
        async with self._opened() as memory:
            calls = [self._turn(memory) for _ in range(self._chance.randrange(1, 8))]
            tasks = [asyncio.create_task(call) for call in (*calls, memory.work())]
            await asyncio.sleep(self._chance.uniform(0, 0.1))
            await self._cancel(tasks, 0.7)
            if self._chance.random() < 0.5:
                await self._ended(tasks)
        await self._ended(tasks)

    async def _cancel(self, tasks: list[asyncio.Task[None]], share: float) -> None:
        for task in tasks:
            if self._chance.random() < share:
                task.cancel()
            if self._chance.random() < 0.5:
                await asyncio.sleep(0)

    async def _ended(self, tasks: list[asyncio.Task[None]]) -> None:
        await self._cancel(tasks, 1.0)
        _, going_on = await asyncio.wait(tasks, timeout=PATIENCE)
        assert not going_on, "cancelled once, they should have ended"
        await asyncio.gather(*tasks, return_exceptions=True)  # the store may have been closed under them


@pytest.mark.parametrize("seed", [1, 2])
async def test_everything_ends_whatever_is_cancelled(store_url: str, seed: int) -> None:
    host = Host(store_url, random.Random(seed))
    for _ in range(ROUNDS):
        going_on = asyncio.create_task(host.round())
        await asyncio.wait([going_on], timeout=2 * PATIENCE)
        assert going_on.done(), "it waits for ever"
        await going_on
    async with Memory.open(store_url, model="", embedder=HashEmbedder(16)) as memory:
        assert [finding for finding in await memory.check() if finding.status == "failed"] == []
        for user in range(3):
            for thread in await memory.threads(Scope("agent", f"user-{user}")):
                said = await memory.history(Scope("agent", f"user-{user}", thread.thread_id), 10_000)
                assert [message.seq for message in said] == list(range(1, len(said) + 1))

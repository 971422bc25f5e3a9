"""Erasing while jobs are at work: whatever they hold in their hands, nothing of it comes back.

Every race runs a turn that is being learned from, with a model, an embedder and vectors on their way, and
erases at a random moment of it.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

from conversation import NOW, entry, opened, said_in, settings
from storage import run

from casenotes import JobSettings, Memory, Scope
from casenotes.errors import CasenotesError
from casenotes.models.embed import Matrix
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

RACES = 50
"""On each store; a hundred in all."""

TABLES = (
    "scopes threads messages turns vectors entries evidence receipts shown leases model_usage revisions".split()
)


class SlowEmbedder(HashEmbedder):
    """Takes a moment, in which everything may change."""

    async def embed(self, texts: Any) -> Matrix:
        await asyncio.sleep(random.uniform(0, 0.004))
        return await super().embed(texts)


async def slow_answer(request: Any) -> dict[str, Any]:
    await asyncio.sleep(random.uniform(0, 0.01))
    if request.task != "extract":
        return {}
    said = said_in(request.prompt).splitlines()[0]
    return {"entries": [entry(said, said)]}


async def one_race(memory: Memory, number: int) -> Scope:
    owner = Scope("support", f"canary-user-{number:04}")
    for turn in range(2):
        scope = replace(owner, thread_id=f"thread-{number}-{turn}")
        begun = await memory.begin(scope, f"The hall {number} door {turn} of the depot is stuck again.")
        await memory.complete(begun, "I see.")
    waiting = asyncio.create_task(memory.recall(owner, "depot door"))
    await asyncio.sleep(random.uniform(0, 0.03))
    await memory.erase(owner, scrub=False)
    await asyncio.gather(waiting, return_exceptions=True)
    return owner


def rows_left(url: str, owners: list[Scope]) -> dict[str, int]:
    names = {owner.resource_id for owner in owners}
    found = {
        table: sum(row[0] in names for row in run(url, f"SELECT resource_id FROM {table}")) for table in TABLES
    }
    return {table: count for table, count in found.items() if count}


async def test_no_job_brings_back_what_was_erased(store_url: str) -> None:
    random.seed(20)
    config = replace(settings(), jobs=JobSettings(first_retry_seconds=0.02, poll_seconds=0.05, concurrency=8))
    options = {"embedder": SlowEmbedder(16), "clock": FrozenClock(NOW), "config": config}
    async with opened(store_url, ScriptedModel(slow_answer), **options) as memory:
        kept = Scope("support", "stays", "t")
        await memory.complete(await memory.begin(kept, "The gate of hall 9 was painted."), "I see.", sync=True)
        owners: list[Scope] = []
        for first in range(0, RACES, 5):
            owners += await asyncio.gather(*(one_race(memory, first + n) for n in range(5)))
        await memory.flush(timeout=20)
        await asyncio.sleep(0.2)
        for owner in owners[:5]:
            assert await memory.recall(owner, "depot door") == []
        assert len(await memory.recall(kept, "gate of hall 9")) == 2
    assert rows_left(store_url, owners) == {}
    async with opened(store_url, **{**options, "embedder": HashEmbedder(16)}) as memory:
        assert [f.name for f in await memory.check() if f.status == "failed"] == []


async def test_erasing_in_one_memory_while_another_learns(store_url: str) -> None:
    """Two memories on one store, in one process: the one that erases knows nothing of the other's jobs."""
    random.seed(21)
    async with opened(store_url, ScriptedModel(slow_answer)) as one, opened(store_url) as other:
        owners = []
        for number in range(10):
            owner = Scope("support", f"canary-user-{number:04}")
            scope = replace(owner, thread_id="t")
            await one.complete(await one.begin(scope, f"The hall {number} door is stuck again."), "I see.")
            await asyncio.sleep(random.uniform(0, 0.02))
            try:
                await other.erase(owner, scrub=False)
            except CasenotesError as error:
                raise AssertionError(f"erasing must not fail: {error}") from error
            owners.append(owner)
        await one.flush(timeout=20)
    assert rows_left(store_url, owners) == {}

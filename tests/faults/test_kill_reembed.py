"""Reembedding killed at random: the store is in the old or in the new space, never mixed, and goes on."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from casenotes import Memory, Message, Scope
from casenotes.models.embed import embed_texts, pack_vectors
from casenotes.stores import create_store
from casenotes.stores.base import active_space
from casenotes.testing import HashEmbedder

SCRIPT = Path(__file__).with_name("reembed_once.py")
KILLS = int(os.environ.get("CASENOTES_KILLS", "4"))
USERS = [Scope("agent", f"user-{n}", "t") for n in range(8)]
MESSAGES = 40


async def fill(url: str) -> None:
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        for scope in USERS:
            texts = (f"{scope.resource_id} reports fault {n} of machine {n % 7}" for n in range(MESSAGES))
            await memory.append(scope, [Message("user", t, id=str(n)) for n, t in enumerate(texts)])


def run_and_kill(url: str, dimensions: int, after: float) -> bool:
    """Start a change, kill it after a while; whether it had ended by then."""
    process = subprocess.Popen(
        [sys.executable, SCRIPT, url, str(dimensions)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.kill()
    return "done" in process.communicate()[0]


async def check(url: str) -> int:
    """The store opens with the embedder of its active space, and every vector of it is that embedder's own."""
    store = create_store(url)
    await store.open()
    active = active_space(await store.spaces())
    assert active is not None
    embedder = HashEmbedder(active.dimensions)
    assert active.model == embedder.label
    for scope in USERS:
        changes = await store.changes(scope, active.id, 0)
        texts = {document.id: document.text for document in changes.documents}
        assert len(texts) == MESSAGES
        assert len(changes.vectors) == MESSAGES, "the active space is always complete"
        expected = await embed_texts(embedder, [texts[row.id] for row in changes.vectors])
        assert [row.vector for row in changes.vectors] == pack_vectors(expected)
    assert all(finding.status != "failed" for finding in await store.check())
    await store.close()
    async with Memory.open(url, embedder=embedder) as memory:
        hits = await memory.recall(USERS[3], "user-3 reports fault 5 of machine 5", 3)
        assert hits[0].id == "5"
    return active.dimensions


def undisturbed_seconds(url: str, dimensions: int) -> float:
    """How long a change takes from its first step to its last, so that kills fall inside it."""
    process = subprocess.Popen(
        [sys.executable, SCRIPT, url, str(dimensions)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = time.perf_counter()
    assert process.stdout.readline() == "done\n"
    seconds = time.perf_counter() - started
    process.communicate()
    return seconds


def is_enough(seen: Counter[str]) -> bool:
    before, after = seen["before the switch"], seen["after the switch"]
    return before + after >= KILLS and min(before, after) >= 2


def test_killed_at_random_points(store_url: str) -> None:
    """Only processes that were killed before they had ended count.

    How long a change takes varies with what else the machine does: kills come sooner where they came too late.
    """
    chance = random.Random(11)
    asyncio.run(fill(store_url))
    longest = undisturbed_seconds(store_url, 48)
    current, target = 48, 32
    seen: Counter[str] = Counter()
    for _ in range(10 * KILLS):
        ended = run_and_kill(store_url, target, chance.uniform(0.0, longest))
        now = asyncio.run(check(store_url))
        assert now in (current, target)
        seen["ended" if ended else "before the switch" if now == current else "after the switch"] += 1
        longest *= 1.2 if now == current else 0.85
        if now == target:
            current, target = target, current
        if is_enough(seen):
            break
    assert is_enough(seen), seen
    subprocess.run([sys.executable, SCRIPT, store_url, "64"], check=True, capture_output=True)
    assert asyncio.run(check(store_url)) == 64

    async def leftovers() -> tuple[int, int]:
        store = create_store(store_url)
        await store.open()
        spaces, stats = await store.spaces(), await store.stats()
        await store.close()
        return len(spaces), stats.vectors

    assert asyncio.run(leftovers()) == (1, len(USERS) * MESSAGES)

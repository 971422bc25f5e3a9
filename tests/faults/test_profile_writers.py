"""Two processes write one profile at the same time: compare-and-set lets none of them lose anything."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import profile_writer as script

from casenotes import Memory
from casenotes.testing import HashEmbedder

SCRIPT = Path(script.__file__)
COUNT = 100
PATIENCE = 60.0


async def started(url: str, name: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, url, name, str(COUNT), stdin=PIPE, stdout=PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    return process


async def test_r06_13_two_processes_lose_nothing(store_url: str) -> None:
    names = ("left", "right")
    async with asyncio.timeout(PATIENCE):
        processes = await asyncio.gather(*(started(store_url, name) for name in names))
        answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [out for out, _error in answers] == [b"done\n"] * 2
    assert [process.returncode for process in processes] == [0, 0]
    embedder = HashEmbedder(32)
    async with Memory.open(store_url, model="", embedder=embedder, config=script.SETTINGS) as memory:
        profile = await memory.profile(script.SCOPE)
    kept = profile.fields[script.FIELD]
    for name in names:
        own = [value for value in kept if f" {name}-" in value]
        assert own == script.values(name, COUNT), "each process in its own order"
    assert profile.version == len(kept) == len(names) * COUNT

"""A process killed at any moment: nothing acknowledged is lost, nothing is half-written or there twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from casenotes import Memory, Scope
from casenotes.testing import HashEmbedder

SCRIPT = Path(__file__).with_name("append_forever.py")
KILLS = int(os.environ.get("CASENOTES_KILLS", "3"))


def run_and_kill(url: str, first: int, after: float) -> set[str]:
    """Start the appending process, kill it after a while, and return what it had acknowledged."""
    process = subprocess.Popen([sys.executable, SCRIPT, url, str(first)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.kill()
    lines = process.communicate()[0].splitlines(keepends=True)
    return {line.strip() for line in lines if line.endswith("\n")}


async def check(url: str, acknowledged: set[str]) -> None:
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        scope = Scope("agent", "user")
        found: list[str] = []
        for thread in await memory.threads(scope):
            messages = await memory.history(Scope("agent", "user", thread.thread_id), 1_000_000)
            assert [m.seq for m in messages] == list(range(1, len(messages) + 1))
            found += [str(m.id) for m in messages]
        assert len(found) == len(set(found))
        assert {f"{name}-{part}" for name in acknowledged for part in (0, 1)} <= set(found)
        whole = {message_id.rsplit("-", 1)[0] for message_id in found}
        assert len(found) == 2 * len(whole)
        assert all(finding.status != "failed" for finding in await memory.check())
        await memory.embed_missing(scope)
        assert (await memory.stats()).vectors == len(found)


def test_nothing_acknowledged_is_lost(store_url: str) -> None:
    chance = random.Random(5)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        acknowledged |= run_and_kill(store_url, kill, chance.uniform(0.01, 0.25))
    assert len(acknowledged) > KILLS
    asyncio.run(check(store_url, acknowledged))


def test_a_killed_import_is_finished_by_repeating_it(sqlite_url: str, tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    lines = (
        {"id": str(n), "scope": "u", "thread": f"t{n % 50}", "text": f"line {n} " * 30} for n in range(6_000)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "casenotes", "import", str(path), "--db", sqlite_url, "--json"]
    environment = {**os.environ, "CASENOTES_EMBEDDER_MODEL": "static"}
    partial = 0
    for wait in (0.5, 0.8, 1.1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        time.sleep(wait)
        process.kill()
        partial += process.wait() != 0
    summary = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    )
    assert partial
    assert summary["added"] + summary["known"] == 6_000

    async def totals() -> tuple[int, int]:
        async with Memory.open(sqlite_url) as memory:
            stats = await memory.stats()
            return stats.messages, stats.vectors

    assert asyncio.run(totals()) == (6_000, 6_000)

"""A process that observes is killed again and again: every message is observed once, whatever it was at."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from itertools import pairwise
from pathlib import Path

import observe_forever as script

from casenotes import Memory
from casenotes.testing import HashEmbedder, ScriptedModel

SCRIPT = Path(script.__file__)
KILLS = int(os.environ.get("CASENOTES_KILLS", "5"))


async def killed(url: str, first: int, seconds: float) -> list[int]:
    """The turns that a process acknowledged before it was killed."""
    process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, url, str(first), stdout=PIPE)
    assert process.stdout is not None
    told = [int(await asyncio.wait_for(process.stdout.readline(), 60))]
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    told += [int(line) for line in (await process.stdout.read()).split()]
    assert await process.wait() == -signal.SIGKILL
    return told


async def test_r05_32_every_message_is_observed_once_whatever_is_killed(store_url: str) -> None:
    chance = random.Random(7)
    acknowledged: list[int] = []
    for number in range(KILLS):
        acknowledged += await killed(store_url, 1_000 * number, chance.uniform(0.0, 0.6))
    model = ScriptedModel(script.respond)
    async with Memory.open(store_url, model=model, embedder=HashEmbedder(16), config=script.SETTINGS) as memory:
        turn = await memory.begin(script.SCOPE, "last")
        await memory.complete(turn, outcome="aborted")
        assert await memory.observe(script.SCOPE)
        store = memory._store.observations
        spans = [(batch.first_seq, batch.last_seq) for batch in await store.batches(script.SCOPE)]
        state = await store.state(script.SCOPE)
        said = await memory.history(script.SCOPE, 100_000)
        rows = await memory.observations(script.SCOPE, history=True)
        failed = [finding for finding in await memory.check() if finding.status == "failed"]
    assert spans[0][0] == 1
    assert all(first[1] + 1 == second[0] for first, second in pairwise(spans))
    assert (spans[-1][1], state.observed_seq, state.observed_tokens) == (
        len(said),
        len(said),
        state.total_tokens,
    )
    original = [row.text for row in rows if not row.supersedes]
    assert original == [f"read {message.text.split()[0]}" for message in said], "once each, in order"
    heard = {message.text.split()[0] for message in said}
    assert {f"a{number}" for number in acknowledged} <= heard, "nothing acknowledged is lost"
    assert {row.status for row in rows} >= {"active", "dropped"}, "logs were condensed on the way"
    assert failed == []

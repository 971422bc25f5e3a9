"""No operation gives a scope anything of another one, and none changes another one.

CASENOTES_CAMPAIGN_OPERATIONS sets the number of operations, CASENOTES_CAMPAIGN_SEED where chance begins.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from conversation import NOW, opened, settings
from isolation import OPERATIONS, Answers, Campaign

from casenotes.config import JobSettings
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

GIVEN = os.environ.get("CASENOTES_CAMPAIGN_OPERATIONS", "")
SEED = int(os.environ.get("CASENOTES_CAMPAIGN_SEED", "20261102"))
OPERATIONS_BY_STORE = {"sqlite": int(GIVEN or 3000), "postgres": int(GIVEN or 600)}
MOST_SHOWN = 20


async def campaign(url: str, operations: int) -> Campaign:
    clock = FrozenClock(NOW)
    answers = Answers(SEED)
    config = replace(settings(), jobs=JobSettings(max_calls_a_day=10**9, max_tokens_a_day=10**12))
    options = {"embedder": HashEmbedder(16), "clock": clock, "config": config}
    async with opened(url, ScriptedModel(answers), **options) as memory:
        run = Campaign(memory, clock, answers, SEED)
        started = time.perf_counter()
        await run.run(operations)
        report(run, time.perf_counter() - started)
        assert [finding for finding in await memory.check() if finding.status == "failed"] == []
    return run


def report(run: Campaign, seconds: float) -> None:
    total = sum(run.counts.values())
    print(f"\n{total} operations, {run.looked_at} marked texts, {len(run.faults)} faults, {seconds:.0f} s")
    print(f"{run.stale} marks of erased threads in receipts of others")
    for name, count in sorted(run.counts.items()):
        print(f"  {name:<18}{count:>8}")
    for name, count in sorted(run.refusals.items()):
        print(f"  refused {name:<40}{count:>8}")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_no_operation_crosses_the_border_of_a_scope(request: pytest.FixtureRequest, store: str) -> None:
    run = await campaign(request.getfixturevalue(f"{store}_url"), OPERATIONS_BY_STORE[store])
    faults = "\n".join(run.faults[:MOST_SHOWN])
    assert faults == ""
    assert set(run.counts) == set(OPERATIONS)
    assert run.looked_at > 2 * sum(run.counts.values())

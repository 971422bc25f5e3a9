"""No operation gives a scope anything of another one, and none changes another one.

CASENOTES_CAMPAIGN_OPERATIONS sets the number of operations, CASENOTES_CAMPAIGN_SEED where chance begins.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from conversation import LATER, MIRA, NOW, entry, opened, said_in, settings, statuses, turn
from isolation import OPERATIONS, Answers, Campaign
from isolation_layers import LAYER_OPERATIONS, Grumbling

from casenotes.config import JobSettings, ObservationalSettings, ProfileSettings, SemanticRecallSettings
from casenotes.models.chat import ChatRequest
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

GIVEN = os.environ.get("CASENOTES_CAMPAIGN_OPERATIONS", "")
SEED = int(os.environ.get("CASENOTES_CAMPAIGN_SEED", "20261102"))
OPERATIONS_BY_STORE = {"sqlite": int(GIVEN or 1000), "postgresql": int(GIVEN or 400)}
MOST_SHOWN = 20
ALL_OPERATIONS = {**OPERATIONS, **LAYER_OPERATIONS}


async def campaign(url: str, operations: int) -> Campaign:
    clock = FrozenClock(NOW)
    answers = Answers(SEED)
    config = replace(
        settings(),
        jobs=JobSettings(max_calls_a_day=10**9, max_tokens_a_day=10**12),
        profile=ProfileSettings(learn=True),
        semantic_recall=SemanticRecallSettings(True, scope="resource"),
        titles="model",
        observational=ObservationalSettings(
            observer_threshold_tokens=400,
            reflector_threshold_tokens=300,
            max_calls_a_day=10**9,
            max_tokens_a_day=10**12,
        ),
    )
    options = {"embedder": HashEmbedder(16), "clock": clock, "config": config, "layers": [Grumbling()]}
    async with opened(url, ScriptedModel(answers), **options) as memory:
        run = Campaign(memory, clock, answers, SEED, ALL_OPERATIONS)
        started = time.perf_counter()
        await run.run(operations)
        report(run, time.perf_counter() - started)
        assert [finding for finding in await memory.check() if finding.status == "failed"] == []
    return run


def report(run: Campaign, seconds: float) -> None:
    total = sum(run.counts.values())
    print(f"\n{total} operations, {run.looked_at} marked texts, {len(run.faults)} faults, {seconds:.0f} s")
    print(f"{run.aimed} operations were given ids of entries of another scope")
    for name, count in sorted(run.counts.items()):
        print(f"  {name:<18}{count:>8}")
    for name, count in sorted(run.refusals.items()):
        print(f"  refused {name:<40}{count:>8}")


async def test_no_operation_crosses_the_border_of_a_scope(store_url: str) -> None:
    run = await campaign(store_url, OPERATIONS_BY_STORE[store_url.partition(":")[0]])
    faults = "\n".join(run.faults[:MOST_SHOWN])
    assert faults == ""
    total = sum(run.counts.values())
    assert set(run.counts) == set(ALL_OPERATIONS)
    assert run.looked_at > total  # there was something to be seen
    assert run.aimed > total / 100


async def test_an_erased_thread_leaves_no_words_in_receipts_of_another(store_url: str) -> None:
    red, blue = "The pump of hall 7 is red.", "The pump of hall 7 is blue now."
    said = {"red": entry(red, red), "blue": entry(blue, blue)}

    def answer(request: ChatRequest) -> dict[str, Any]:
        if request.task == "extract":
            return {"entries": [item for word, item in said.items() if word in said_in(request.prompt)]}
        ids = re.findall(r'"id": "([^"]+)"', request.prompt)
        return {"supersede": [{"old": ids[0], "new": ids[-1], "evidence": blue}]}

    clock = FrozenClock(NOW)
    async with opened(store_url, ScriptedModel(answer), clock=clock) as memory:
        await turn(memory, MIRA, red)
        clock.advance(timedelta(days=1))
        receipt = await turn(memory, LATER, blue)
        assert statuses(receipt) == [("stored", ""), ("superseded", "corrected")]
        await memory.erase(MIRA, scrub=False)
        assert red not in repr(await memory.ledger(LATER.owner))

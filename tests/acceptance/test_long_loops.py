"""Real tool loops, joined to long threads, stay within their size; what the Observer writes is scripted."""

from __future__ import annotations

import os
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from observers import drop_half, model, of_ratio

from casenotes import EpisodicSettings, JobSettings, Memory, Message, Scope, Settings
from casenotes.config import ObservationalSettings
from casenotes.evals.sessions import SessionReport, joined, play, read_loops
from casenotes.events import Event
from casenotes.testing import HashEmbedder

SCOPE = Scope("agent", "user", "long")
FILES = ("tau_airline_gpt4o", "swe_agent_trajs")
LEAST_TOKENS = 102_000
LEAST_CALLS = 150
WHOLE = [
    (*of, *limits)
    for of in [*product(FILES, (5, 40)), (FILES[1], 10)]
    for limits in [(30_000, 40_000), (3_000, 4_000)]
]
FEW = [
    (FILES[0], 40, 30_000, 40_000),
    (FILES[0], 5, 3_000, 4_000),
    (FILES[1], 10, 30_000, 40_000),
    (FILES[1], 5, 3_000, 4_000),
]
CASES = WHOLE if os.environ.get("CASENOTES_QUALITY") == "whole" else FEW
"""Every ratio at every threshold with `make quality`."""


def conversation(name: str) -> list[Message]:
    """Trajectories of one file, joined to one thread."""
    folder = os.environ.get("CASENOTES_EVAL_DATA")
    if not folder:
        pytest.skip("CASENOTES_EVAL_DATA is not set: only the project's own loops are played")
    return joined(read_loops(Path(folder, "toolloops", f"{name}.jsonl")), LEAST_TOKENS)


def settings(threshold: int, reflect: int) -> Settings:
    return Settings(
        episodic=EpisodicSettings(enabled=False),
        observational=ObservationalSettings(
            observer_threshold_tokens=threshold, reflector_threshold_tokens=reflect, max_calls_a_day=10_000
        ),
        jobs=JobSettings(max_calls_a_day=10_000, max_tokens_a_day=10**9),
    )


async def played(url: str, name: str, config: Settings, ratio: int) -> tuple[SessionReport, Counter[str], bool]:
    told: Counter[str] = Counter()

    def note(event: Event) -> None:
        told[f"{event.name} {event.data.get('shrunk', '')}".strip()] += 1

    scripted = model(of_ratio(ratio), drop_half)
    async with Memory.open(
        url, model=scripted, embedder=HashEmbedder(16), config=config, on_event=note
    ) as memory:
        report = await play(memory, SCOPE, conversation(name))
        assert await memory.settled(SCOPE)
        await memory.observe(SCOPE)
        batches = await memory._store.observations.batches(SCOPE)
        last = (await memory._store.observations.state(SCOPE)).last_seq
    ends = [0, *(batch.last_seq for batch in batches)]
    once = [batch.first_seq for batch in batches] == [end + 1 for end in ends[:-1]] and ends[-1] == last
    return report, told, once


@pytest.mark.parametrize(("name", "ratio", "threshold", "reflect"), CASES)
async def test_long_loops_stay_within_their_size(
    sqlite_url: str, name: str, ratio: int, threshold: int, reflect: int
) -> None:
    config = settings(threshold, reflect)
    report, told, once = await played(sqlite_url, name, config, ratio)
    assert report.calls >= LEAST_CALLS
    assert report.largest_prompt <= threshold + config.observational.render_token_budget + report.largest_step
    assert report.largest_messages <= 1.7 * threshold + report.largest_step, "with what is shown besides"
    assert told["observing.activated"] >= 3
    assert once, "every message was observed once"
    assert report.prompt_tokens < report.whole_tokens
    changed = report.calls - 1 - report.unchanged
    assert changed <= told["observing.activated"], "a prompt changes at activations only"
    if threshold == 30_000:
        assert report.same_prefix >= 0.9
    if (threshold, ratio) == (3_000, 5):
        assert told["reflecting.finished True"] >= 1
    assert told["learning.failed"] == 0

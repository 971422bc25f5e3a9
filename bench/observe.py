"""What long tool loops cost with session memory: tokens, prompts that stay the same, time that turns wait.

    CASENOTES_EVAL_DATA=… python bench/observe.py [--tokens N] [--file tau_airline_gpt4o] [--ratios 5 10 40]

Trajectories of one file are joined to one thread and played call by call, at the default thresholds and at
3,000 / 4,000. The Observer is scripted: it leaves one part in `ratio` of what it reads, in words of the
messages; the Reflector drops the older half. So the figures tell of the machinery, not of a model's notes.

`whole` is what the model calls would take if everything said so far were sent each time. A provider's cache is
assumed to know the beginning that a prompt shares with the one before it, at a tenth of the price. The time of
`begin` and `step` stands beside that of a memory without a model, which shows the last 20 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from casenotes import EpisodicSettings, JobSettings, Memory, Message, Scope, Settings
from casenotes.config import ObservationalSettings
from casenotes.evals.sessions import SessionReport, joined, play, read_loops
from casenotes.events import Event
from casenotes.testing import HashEmbedder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from observers import drop_half, model, of_ratio

SCOPE = Scope("bench", "user", "long")
THRESHOLDS = ((30_000, 40_000), (3_000, 4_000))


def settings(threshold: int, reflect: int, *, enabled: bool = True) -> Settings:
    return Settings(
        episodic=EpisodicSettings(enabled=False),
        observational=ObservationalSettings(
            enabled=enabled,
            observer_threshold_tokens=threshold,
            reflector_threshold_tokens=reflect,
            max_calls_a_day=10**6,
            max_tokens_a_day=10**12,
        ),
        jobs=JobSettings(max_calls_a_day=10**6, max_tokens_a_day=10**12),
    )


async def run(messages: list[Message], config: Settings, ratio: int) -> dict[str, float]:
    told: Counter[str] = Counter()
    used: Counter[str] = Counter()

    def note(event: Event) -> None:
        told[event.name] += 1
        if event.name == "model.usage":
            used[event.data["task"]] += event.data["input_tokens"] + event.data["output_tokens"]
        if event.name == "reflecting.finished":
            told["shrunk"] += event.data["shrunk"]

    scripted = model(of_ratio(ratio), drop_half)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        url = f"sqlite:///{Path(folder).resolve() / 'observe.db'}"
        given = {"embedder": HashEmbedder(16), "config": config, "on_event": note}
        async with Memory.open(url, model=scripted, **given) as memory:
            report = await play(memory, SCOPE, messages)
            await memory.settled(SCOPE)
    return figures(report, config, told, used)


async def plain(messages: list[Message]) -> list[float]:
    """The seconds of every begin and step without a model."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        url = f"sqlite:///{Path(folder).resolve() / 'plain.db'}"
        config = settings(*THRESHOLDS[0])
        async with Memory.open(url, model="", embedder=HashEmbedder(16), config=config) as memory:
            return (await play(memory, SCOPE, messages)).seconds


def figures(
    report: SessionReport, config: Settings, told: Counter[str], used: Counter[str]
) -> dict[str, float]:
    observing = config.observational
    bound = observing.observer_threshold_tokens + observing.render_token_budget + report.largest_step
    return {
        "calls": report.calls,
        "whole_tokens": report.whole_tokens,
        "prompt_tokens": report.prompt_tokens,
        "times_fewer": round(report.saved, 2),
        "largest_prompt": report.largest_prompt,
        "largest_prompt_over_bound": round(report.largest_prompt / bound, 3),
        "activations": told["observing.activated"],
        "reflections": told["shrunk"],
        "same_prefix": round(report.same_prefix, 3),
        "changed_without_activation": max(0, report.calls - 1 - report.unchanged - told["observing.activated"]),
        "cheaper_by_cache": round(report.cheaper_by_cache, 2),
        "cheaper_than_whole_both_cached": round(report.cheaper_than_whole, 2),
        "observer_calls": told["observing.finished"],
        "worker_tokens": sum(used.values()),
        "failures": told["learning.failed"],
        "median_ms": round(1_000 * median(report.seconds), 2),
    }


async def main(arguments: argparse.Namespace) -> None:
    folder = os.environ.get("CASENOTES_EVAL_DATA")
    if not folder:
        sys.exit("CASENOTES_EVAL_DATA is not set: it names the folder with toolloops/*.jsonl")
    loops = read_loops(Path(folder, "toolloops", f"{arguments.file}.jsonl"))
    messages = joined(loops, arguments.tokens)
    print(json.dumps({"plain_median_ms": round(1_000 * median(await plain(messages)), 2)}))
    for thresholds in THRESHOLDS:
        for ratio in arguments.ratios:
            found = await run(messages, settings(*thresholds), ratio)
            print(json.dumps({"thresholds": thresholds, "ratio": ratio, **found}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=102_000)
    parser.add_argument("--file", default="tau_airline_gpt4o")
    parser.add_argument("--ratios", type=int, nargs="+", default=[5, 10, 40])
    asyncio.run(main(parser.parse_args()))

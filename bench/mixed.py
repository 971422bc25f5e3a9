"""Recall while somebody writes: 95th percentile with one writer against the quiet one, in one run.

    python bench/mixed.py [--entries 10000] [--recalls 1000] [--embedder static minilm+static]

The writer adds one message after another to the scope that is searched, as fast as they are
acknowledged and embedded; recall is the whole public call, embedding of the question included.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from corpus import make_queries, make_texts

from casenotes import Memory, Message, Scope
from casenotes.models.registry import resolve_embedder

OWNER = Scope("bench", "owner", "thread")
ROUNDS = 10


async def recall_seconds(memory: Memory, queries: list[str]) -> list[float]:
    times = []
    for query in queries:
        started = time.perf_counter()
        await memory.recall(OWNER, query, 10)
        times.append(time.perf_counter() - started)
    return times


async def write_until_cancelled(memory: Memory, texts: list[str], written: list[str]) -> None:
    for text in itertools.cycle(texts):
        await memory.append(OWNER, text)
        written.append(text)


def percentile(values: list[float], share: float) -> float:
    return 1000 * sorted(values)[int(share * len(values))]


async def fill(memory: Memory, entries: int) -> None:
    """Short texts, so that embedding ten thousand of them takes minutes at most."""
    texts = make_texts(entries, seed=1, words=12)
    for start in range(0, entries, 500):
        messages = [Message("user", text) for text in texts[start : start + 500]]
        await memory.append(Scope("bench", "owner", f"t{start}"), messages)


async def measure(name: str, entries: int, recalls: int, directory: Path) -> dict[str, float | str]:
    url = f"sqlite:///{directory}/{name}.db"
    async with Memory.open(url, embedder=resolve_embedder(name)) as memory:
        await fill(memory, entries)
        queries = make_queries(recalls)
        await recall_seconds(memory, queries[:30])
        texts, written = make_texts(5_000, seed=8), []
        quiet: list[float] = []
        busy: list[float] = []
        writing = 0.0
        for number in range(ROUNDS):  # alternating, because the machine's own mood changes
            asked = queries[number::ROUNDS]
            quiet += await recall_seconds(memory, asked)
            writer = asyncio.create_task(write_until_cancelled(memory, texts, written))
            started = time.perf_counter()
            busy += await recall_seconds(memory, asked)
            writing += time.perf_counter() - started
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        writes_per_second = len(written) / writing
    return {
        "embedder": name,
        "entries": entries,
        "quiet_median_ms": 1000 * statistics.median(quiet),
        "quiet_p95_ms": percentile(quiet, 0.95),
        "busy_median_ms": 1000 * statistics.median(busy),
        "busy_p95_ms": percentile(busy, 0.95),
        "busy_over_quiet_p95": percentile(busy, 0.95) / percentile(quiet, 0.95),
        "writes_per_second": writes_per_second,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--recalls", type=int, default=1000)
    parser.add_argument("--embedder", nargs="+", default=["static", "minilm+static"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.embedder:
            row = asyncio.run(measure(name, arguments.entries, arguments.recalls, Path(directory)))
            print(
                json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}), flush=True
            )


if __name__ == "__main__":
    main()

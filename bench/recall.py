"""Warm recall against one float32 scan of the same vectors and against a plain FTS5 + numpy script.

    python bench/recall.py [--sizes 10000 100000] [--dimensions 640] [--json]

Everything is measured side by side in one run; the ratios are what counts. Recall here is freshness
check, search and ranking through the public store; embedding the query is left out on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from corpus import make_queries, make_texts, make_vectors

from casenotes import Memory, Message, Scope
from casenotes.models.embed import pack_vectors
from casenotes.stores.base import VectorRow

OWNER = Scope("bench", "owner", "thread")
ROUNDS = 60


def resident_bytes() -> int:
    """What the process holds, after the allocator has given back what is free (where it can be told to)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
    return int(psutil.Process().memory_info().rss)


class GivenVectors:
    """An embedder that is never asked: vectors are made by the benchmark."""

    def __init__(self, dimensions: int) -> None:
        self.label = "given"
        self.dimensions = dimensions

    async def embed(self, texts: list[str]) -> np.ndarray:
        raise AssertionError("the benchmark excludes embedding")


async def fill(memory: Memory, scope: Scope, texts: list[str], vectors: np.ndarray) -> None:
    """Save messages with their vectors, twelve to a thread."""
    store, space_id = memory._store, memory._searcher._space.current.record.id
    for start in range(0, len(texts), 12_000):
        part = range(start, min(start + 12_000, len(texts)))
        await asyncio.gather(
            *(
                memory.append(
                    Scope(scope.agent_id, scope.resource_id, f"t{first}"),
                    [Message("user", texts[i], id=str(i)) for i in part[first - start : first - start + 12]],
                    embed=False,
                )
                for first in part[::12]
            )
        )
        packed = pack_vectors(vectors[part.start : part.stop])
        rows = [VectorRow("message", str(i), vector) for i, vector in zip(part, packed, strict=True)]
        await store.put_vectors(scope, space_id, rows)


class PlainScript:
    """What one writes in an afternoon: one FTS5 table for everybody, vectors in numpy, equal mix."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE VIRTUAL TABLE docs USING fts5(text, scope UNINDEXED)")
        self.vectors: dict[str, np.ndarray] = {}
        self.rows: dict[str, np.ndarray] = {}

    def fill(self, scope: str, texts: list[str], vectors: np.ndarray) -> None:
        first = self.db.execute("SELECT coalesce(max(rowid), 0) FROM docs").fetchone()[0] + 1
        self.db.executemany("INSERT INTO docs VALUES (?, ?)", ((t, scope) for t in texts))
        self.db.commit()
        self.vectors[scope] = vectors
        self.rows[scope] = np.arange(first, first + len(texts))

    def search(self, scope: str, query: str, vector: np.ndarray, k: int = 10) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in query.split())
        found = self.db.execute(
            "SELECT rowid, bm25(docs) FROM docs WHERE docs MATCH ? AND scope = ? ORDER BY 2 LIMIT 200",
            (words, scope),
        ).fetchall()
        first = self.rows[scope][0]
        scores = self.vectors[scope] @ vector
        best = -found[0][1] if found else 1.0
        for rowid, rank in found:
            scores[rowid - first] += -rank / best
        top = np.argpartition(-scores, k)[:k]
        return [int(i) for i in top[np.argsort(-scores[top])]]


def median_ms(call: Callable[[int], object], rounds: int = ROUNDS) -> float:
    for warm_up in range(5):
        call(warm_up)
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


async def median_ms_async(call: Callable[[int], object], rounds: int = ROUNDS) -> float:
    for warm_up in range(5):
        await call(warm_up)
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


async def measure_size(size: int, dimensions: int, directory: Path) -> dict[str, float]:
    """Scan, plain script and recall over one scope of `size` entries."""
    texts, vectors = make_texts(size, seed=1), make_vectors(size, 1, dimensions)
    queries, query_vectors = make_queries(ROUNDS), make_vectors(ROUNDS, 2, dimensions)
    plain = PlainScript(directory / f"plain-{size}.db")
    plain.fill("owner", texts, vectors)
    async with Memory.open(f"sqlite:///{directory}/own-{size}.db", embedder=GivenVectors(dimensions)) as memory:
        await fill(memory, OWNER, texts, vectors)
        rank = memory._searcher.rank
        before = resident_bytes()
        started = time.perf_counter()
        await rank(OWNER, queries[0], query_vectors[0], 10)
        cold = time.perf_counter() - started
        recall_ms = await median_ms_async(
            lambda n: rank(OWNER, queries[n % ROUNDS], query_vectors[n % ROUNDS], 10)
        )
        scan_ms = median_ms(lambda n: vectors @ query_vectors[n % ROUNDS])
        plain_ms = median_ms(lambda n: plain.search("owner", queries[n % ROUNDS], query_vectors[n % ROUNDS]))
        index = memory._searcher.cache.get(OWNER)
        grown = resident_bytes() - before
        return {
            "entries": size,
            "dimensions": dimensions,
            "scan_ms": scan_ms,
            "plain_script_ms": plain_ms,
            "recall_ms": recall_ms,
            "allowed_ms": 3 * scan_ms + 1,
            "recall_over_scan": recall_ms / scan_ms,
            "plain_over_recall": plain_ms / recall_ms,
            "cold_first_touch_ms": 1000 * cold,
            "index_bytes_per_entry": index.nbytes / size,
            "vector_bytes_per_entry": index.size.vector_bytes / size,
            "process_bytes_per_entry": grown / size,
        }


async def measure_neighbours(dimensions: int, directory: Path) -> dict[str, float]:
    """A scope of 1,000 entries alone, and beside 200,000 messages in 20 other scopes."""
    own, own_vectors = make_texts(1_000, seed=1), make_vectors(1_000, 1, dimensions)
    queries, query_vectors = make_queries(ROUNDS), make_vectors(ROUNDS, 2, dimensions)
    result = {}
    plain = PlainScript(directory / "plain-neighbours.db")
    urls = {name: f"sqlite:///{directory}/{name}.db" for name in ("alone", "crowded")}
    async with (
        Memory.open(urls["alone"], embedder=GivenVectors(dimensions)) as alone,
        Memory.open(urls["crowded"], embedder=GivenVectors(dimensions)) as crowded,
    ):
        for memory in (alone, crowded):
            await fill(memory, OWNER, own, own_vectors)
        plain.fill("owner", own, own_vectors)
        for number in range(20):
            texts, vectors = (
                make_texts(10_000, seed=10 + number),
                make_vectors(10_000, 10 + number, dimensions),
            )
            await fill(crowded, Scope("bench", f"other-{number}", "t"), texts, vectors)
            plain.fill(f"other-{number}", texts, vectors)
        for name, memory in (
            ("alone_ms", alone),
            ("crowded_ms", crowded),
            ("alone_again_ms", alone),
        ):
            rank = memory._searcher.rank
            result[name] = await median_ms_async(
                lambda n, rank=rank: rank(OWNER, queries[n], query_vectors[n], 10), 55
            )
    result["plain_script_crowded_ms"] = median_ms(
        lambda n: plain.search("owner", queries[n], query_vectors[n]), 30
    )
    result["crowded_over_alone"] = result["crowded_ms"] / min(result["alone_ms"], result["alone_again_ms"])
    result["plain_over_recall"] = result["plain_script_crowded_ms"] / result["crowded_ms"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, default=640, help="640: minilm+static; 256: static.")
    parser.add_argument("--no-neighbours", action="store_true", help="Leave out the crowded store.")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = [
            asyncio.run(measure_size(size, arguments.dimensions, Path(directory))) for size in arguments.sizes
        ]
        neighbours = (
            {}
            if arguments.no_neighbours
            else asyncio.run(measure_neighbours(arguments.dimensions, Path(directory)))
        )
    if arguments.json:
        print(json.dumps({"sizes": rows, "neighbours": neighbours}, indent=2))
        return
    for row in (*rows, neighbours):
        print("  ".join(f"{name} {value:.3g}" for name, value in row.items()))


if __name__ == "__main__":
    main()

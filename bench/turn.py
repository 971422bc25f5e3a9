"""What a turn waits for: `begin` and `complete` against a bare commit and a bare recall.

    python bench/turn.py [--messages 10000] [--turns 60] [--embedder static] [--url URL]

A scripted model learns from every turn in the background while the next ones run; it takes some
time to answer, as models do. In every turn the same messages are also appended to a second store
without any turn, and the same question is recalled, so all figures come from the same moments. For
SQLite the bare commit of one row in one table, on the same disk, is the floor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from append import connect
from corpus import make_texts

from casenotes import Memory, Message, Scope
from casenotes.models.chat import ChatRequest
from casenotes.stores import create_store
from casenotes.stores.base import Store
from casenotes.testing import ScriptedModel

OWNER = Scope("bench", "user")
ANSWER_SECONDS = 0.02
"""Less than any model takes to answer."""

MODEL_SECONDS = 0.05


async def answer(request: ChatRequest) -> dict[str, Any]:
    """One entry from the user's words."""
    await asyncio.sleep(MODEL_SECONDS)
    rows = json.loads(request.prompt.split("<transcript>\n")[1].split("\n</transcript>")[0])
    said = next(row["text"] for row in rows if row["role"] == "user" and not row.get("context"))
    return {"entries": [{"content": said[:200], "source": "user_assertion", "evidence": said[:60]}]}


class Stopwatch:
    """Milliseconds by name."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    async def run(self, name: str, work: Awaitable[Any]) -> Any:
        started = time.perf_counter()
        result = await work
        self.times[name].append(1000 * (time.perf_counter() - started))
        return result

    def add(self, name: str, started: float) -> None:
        self.times[name].append(1000 * (time.perf_counter() - started))


async def fill(memory: Memory, count: int) -> None:
    texts = make_texts(count, seed=5)
    for start in range(0, count, 500):
        scope = Scope("bench", "user", f"old-{start}")
        await memory.append(scope, [Message("user", text) for text in texts[start : start + 500]])
    await memory.recall(OWNER, texts[0])


async def one_turn(
    number: int, text: str, memory: Memory, bare: Store, floor: sqlite3.Connection | None, watch: Stopwatch
) -> None:
    scope = Scope("bench", "user", f"thread-{number // 5}")
    said = Message("user", text, id=f"bare-{number}", created_at=memory_time())
    await watch.run("bare_append", bare.append(scope, [said]))
    if floor is not None:
        started = time.perf_counter()
        floor.execute("INSERT INTO messages VALUES (?, ?)", (number, text))
        watch.add("bare_commit", started)
    await watch.run("recall", memory.recall(OWNER, text))
    turn = await watch.run("begin", memory.begin(scope, text))
    watch.times["begin_save"].append(1000 * turn.context.trace["seconds"]["save"])
    await asyncio.sleep(ANSWER_SECONDS)  # the input is embedded meanwhile
    await watch.run("complete", memory.complete(turn, f"I have looked at it: {text[:80]}"))


def memory_time() -> Any:
    from casenotes.clock import SystemClock

    return SystemClock().now()


async def measure(url: str, bare_url: str, floor: Path | None, arguments: argparse.Namespace) -> Stopwatch:
    watch = Stopwatch()
    bare = create_store(bare_url)
    await bare.open()
    connection = connect(floor) if floor else None
    if connection:
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)")
    async with Memory.open(url, model=ScriptedModel(answer), embedder=arguments.embedder) as memory:
        await fill(memory, arguments.messages)
        texts = make_texts(arguments.turns, seed=6)
        for number, text in enumerate(texts):
            await one_turn(number, text, memory, bare, connection, watch)
            await asyncio.sleep(MODEL_SECONDS / 2)  # learning from earlier turns goes on meanwhile
        await memory.flush(timeout=120)
        watch.times["entries"] = [(await memory.stats()).entries]
    await bare.close()
    return watch


def report(watch: Stopwatch) -> dict[str, Any]:
    times = watch.times
    entries = times.pop("entries")[0]
    result: dict[str, Any] = {"entries_learned": entries}
    for name, values in times.items():
        result[f"{name}_ms"] = round(median(values), 2)
        result[f"{name}_p95_ms"] = round(quantiles(values, n=20)[-1], 2)
    together = [a + r for a, r in zip(times["bare_append"], times["recall"], strict=True)]
    result["begin_over_append_and_recall"] = ratio(times["begin"], together)
    result["complete_over_append"] = ratio(times["complete"], times["bare_append"])
    if "bare_commit" in times:
        result["complete_over_bare_commit"] = ratio(times["complete"], times["bare_commit"])
    return result


def ratio(ours: list[float], other: list[float]) -> float:
    """Median of the ratios turn by turn."""
    return round(median(a / b for a, b in zip(ours, other, strict=True)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000, help="in the scope before the first turn")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--url", help="PostgreSQL database, empty; default: SQLite files in a temporary folder")
    parser.add_argument("--bare-url", help="a second empty PostgreSQL database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory).resolve()
        url = arguments.url or f"sqlite:///{place / 'turn.db'}"
        bare = arguments.bare_url or f"sqlite:///{place / 'bare.db'}"
        floor = None if arguments.url else place / "floor.db"
        print(json.dumps(report(asyncio.run(measure(url, bare, floor, arguments))), indent=2))


if __name__ == "__main__":
    main()

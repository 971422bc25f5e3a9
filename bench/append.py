"""Durable appends a second against a bare SQLite commit loop with the same settings.

    python bench/append.py [--rounds 7] [--seconds 0.7]

Two loops to compare with, both in one thread with one commit a message: the same rows in the same
tables, and, as the floor, one row in a single table that knows no scope, thread or order. The rounds
alternate and the median of their ratios counts, because disks and neighbours are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from corpus import make_texts

from casenotes import Memory, Message, Scope
from casenotes.clock import SystemClock
from casenotes.stores import create_store
from casenotes.stores.rows import named_queries
from casenotes.stores.sqlite.migrate import migrate

CALLERS = 32


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def bare_commits(path: Path, texts: list[str], seconds: float) -> float:
    """The same rows in the same tables by a plain script: one thread, one commit a message."""
    connection = connect(path)
    migrate(connection, path)
    sql = named_queries("casenotes.stores.sqlite")
    scope = ("bench", "user-0")
    thread = (*scope, "thread")
    connection.execute(sql["add_scope"], scope)
    connection.execute(sql["add_thread"], (*thread, 0))
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        connection.execute("BEGIN IMMEDIATE")
        change, seq, _apart = connection.execute(sql["thread_state"], thread).fetchone()
        text = texts[count % len(texts)]
        tokens = 4 + len(text) // 4
        row = (*thread, f"m{count}", seq + 1, "user", text, None, None, count, change + 1, None, 0, tokens)
        connection.execute(sql["insert_message"], row)
        connection.execute(sql["advance_thread"], (*thread, seq + 1, change + 1, count, count, tokens))
        connection.execute(sql["advance_scope"], (*scope, change + 1))
        connection.execute("COMMIT")
        count += 1
    connection.close()
    return count / seconds


def one_table_commits(path: Path, texts: list[str], seconds: float) -> float:
    """The floor: one row in one table without any order, scope or thread."""
    connection = connect(path)
    connection.execute("CREATE TABLE messages (id TEXT PRIMARY KEY, role TEXT, text TEXT, at INTEGER)")
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        connection.execute("BEGIN IMMEDIATE")
        row = (f"m{count}", "user", texts[count % len(texts)], count)
        connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", row)
        connection.execute("COMMIT")
        count += 1
    connection.close()
    return count / seconds


async def acknowledgement_ms(path: Path, embedder: str, texts: list[str], turns: int = 150) -> float:
    """Median time until `begin` has saved the user's words; their vectors are made in the background."""
    times = []
    async with Memory.open(f"sqlite:///{path}", embedder=embedder) as memory:
        for number in range(turns):
            scope = Scope("bench", "user", f"thread-{number}")
            turn = await memory.begin(scope, texts[number])
            times.append(1000 * turn.context.trace["seconds"]["save"])
            await memory.flush()
    return median(times)


async def appends(path: Path, messages: Iterator[Message], seconds: float, callers: int, users: int) -> float:
    store = create_store(f"sqlite:///{path}")
    await store.open()
    end = time.perf_counter() + seconds

    async def caller(number: int) -> int:
        scope, done = Scope("bench", f"user-{number % users}", "thread"), 0
        while time.perf_counter() < end:
            await store.append(scope, [next(messages)])
            done += 1
        return done

    total = sum(await asyncio.gather(*(caller(number) for number in range(callers))))
    await store.close()
    return total / seconds


def measure_round(place: Path, texts: list[str], messages: list[Message], seconds: float) -> dict[str, float]:
    """All five, one after the other, each in a new file."""

    def ours(name: str, callers: int, users: int) -> float:
        return asyncio.run(appends(place / name, iter(messages), seconds, callers, users))

    return {
        "bare": bare_commits(place / "bare.db", texts, seconds),
        "one_table": one_table_commits(place / "one-table.db", texts, seconds),
        "one_caller": ours("one.db", 1, 1),
        "callers_32": ours("many.db", CALLERS, 1),
        "users_32": ours("apart.db", CALLERS, CALLERS),
    }


def acknowledgements(texts: list[str]) -> dict[str, float]:
    """The same with every embedder: a slower one must not make a turn wait."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        return {
            f"begin_ms_{name}": round(
                asyncio.run(acknowledgement_ms(Path(directory, f"{name}.db").resolve(), name, texts)), 2
            )
            for name in ("static", "minilm", "minilm+static")
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7, help="for each of the five in a round")
    arguments = parser.parse_args()
    texts = make_texts(1_000, seed=3)
    now = SystemClock().now()
    messages = [
        Message("user", texts[n % len(texts)], id=f"m{n:08}", created_at=now)
        for n in range(int(60_000 * arguments.seconds))
    ]
    rounds = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(dir=".") as directory:
            rounds.append(measure_round(Path(directory).resolve(), texts, messages, arguments.seconds))
    result = {f"{name}_per_second": round(median(r[name] for r in rounds)) for name in rounds[0]}
    for base in ("bare", "one_table"):
        for name in ("one_caller", "callers_32", "users_32"):
            result[f"{name}_over_{base}"] = round(median(r[name] / r[base] for r in rounds), 2)
    print(json.dumps(result | acknowledgements(texts), indent=2))


if __name__ == "__main__":
    main()

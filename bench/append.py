"""Durable appends a second against a bare SQLite commit loop with the same settings.

    python bench/append.py [--seconds 3]

Two loops to compare with, both in one thread with one commit a message: the same rows in the same
tables, and, as the floor, one row in a single table that knows no scope, thread or order.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sqlite3
import tempfile
import time
from pathlib import Path

from corpus import make_texts

from casenotes import Message, Scope
from casenotes.clock import SystemClock
from casenotes.stores import create_store
from casenotes.stores.rows import migrations, named_queries

CALLERS = 32


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def bare_commits(path: Path, texts: list[str], seconds: float) -> float:
    """The same rows in the same tables by a plain script: one thread, one commit a message."""
    connection = connect(path)
    for _number, _name, script in migrations("casenotes.stores.sqlite"):
        connection.executescript(script)
    sql = named_queries("casenotes.stores.sqlite")
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        scope = ("bench", "user-0")
        thread = (*scope, "thread")
        connection.execute("BEGIN IMMEDIATE")
        seq, change = connection.execute(sql["thread_state"], (*thread, *scope)).fetchone()
        seq, change = (seq or 0) + 1, (change or 0) + 1
        text = texts[count % len(texts)]
        row = (*thread, f"m{count}", seq, "user", text, None, None, count, change)
        connection.execute(sql["insert_message"], row)
        connection.execute(sql["advance_thread"], (*thread, seq, change, count, count))
        connection.execute(sql["advance_scope"], (*scope, change))
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


async def appends(path: Path, texts: list[str], seconds: float, callers: int, users: int) -> float:
    store = create_store(f"sqlite:///{path}")
    await store.open()
    numbers, clock = itertools.count(), SystemClock()
    end = time.perf_counter() + seconds

    async def caller(number: int) -> int:
        scope, done = Scope("bench", f"user-{number % users}", "thread"), 0
        while time.perf_counter() < end:
            n = next(numbers)
            message = Message("user", texts[n % len(texts)], id=f"m{n}", created_at=clock.now())
            await store.append(scope, [message])
            done += 1
        return done

    total = sum(await asyncio.gather(*(caller(number) for number in range(callers))))
    await store.close()
    return total / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    texts = make_texts(1_000, seed=3)
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory).resolve()
        bare = bare_commits(place / "bare.db", texts, seconds)
        one_table = one_table_commits(place / "one-table.db", texts, seconds)
        one = asyncio.run(appends(place / "one.db", texts, seconds, 1, 1))
        many = asyncio.run(appends(place / "many.db", texts, seconds, CALLERS, 1))
        apart = asyncio.run(appends(place / "apart.db", texts, seconds, CALLERS, CALLERS))
        bare = (bare + bare_commits(place / "again.db", texts, seconds)) / 2
    result = {
        "bare_commits_per_second": round(bare),
        "one_table_commits_per_second": round(one_table),
        "one_caller_per_second": round(one),
        "thirty_two_callers_per_second": round(many),
        "thirty_two_users_per_second": round(apart),
        "one_over_bare": round(one / bare, 2),
        "thirty_two_over_bare": round(many / bare, 2),
        "thirty_two_users_over_bare": round(apart / bare, 2),
        "one_over_one_table": round(one / one_table, 2),
        "thirty_two_over_one_table": round(many / one_table, 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

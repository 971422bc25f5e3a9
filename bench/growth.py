"""Bytes that a turn leaves in a SQLite file, by table, against the bytes of what was said.

    python bench/growth.py [--turns 1000] [--words 26] [--embedder static] [--url postgresql://…]

Turns go through `begin` and `complete` without a model, in threads of twenty turns, so that memory is shown
in nearly every one of them. Vectors count by themselves: their size is the embedder's choice. What an empty
store takes counts once, not for every turn. On PostgreSQL the database should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

from corpus import make_texts

from casenotes import Memory, Scope

TURNS_PER_THREAD = 20


async def play(url: str, embedder: str, texts: list[str]) -> None:
    """Complete a turn for every two texts."""
    async with Memory.open(url, embedder=embedder) as memory:
        for number, (said, answered) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
            scope = Scope("support", "user-0", f"thread-{number // TURNS_PER_THREAD}")
            turn = await memory.begin(scope, said)
            await memory.complete(turn, answered)
        await memory.flush(scope)


def bytes_by_table(path: Path) -> Counter[str]:
    """The bytes of each table and index as they are used, pages' free space included."""
    connection = sqlite3.connect(path)
    owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_schema"))
    sizes: Counter[str] = Counter()
    for name, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
        table = owners.get(name, name)
        sizes[table if name == table else f"{table} (indexes)"] += size
    connection.close()
    return sizes


def main() -> None:
    """Print a table of bytes a turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--embedder", default="static")
    options = parser.parse_args()
    texts = make_texts(2 * options.turns, seed=1)
    said = sum(len(text.encode()) for text in texts) / options.turns
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "growth.db"
        asyncio.run(play(f"sqlite:///{path}", options.embedder, texts))
        sizes = bytes_by_table(path)
        vector_bytes = (
            sqlite3.connect(path).execute("SELECT sum(length(vector)) FROM vectors").fetchone()[0] or 0
        )
    print(f"{options.turns} turns, {said:.0f} bytes of text each")
    for name, size in sizes.most_common():
        if size / options.turns >= 1:
            print(f"{name:32} {size / options.turns:8.0f}")
    total, vectors = sum(sizes.values()) / options.turns, vector_bytes / options.turns
    print(f"{'all':32} {total:8.0f}")
    print(f"{'vectors themselves':32} {vectors:8.0f}")
    print(f"{'besides, times the text':32} {(total - vectors) / said:8.2f}")


if __name__ == "__main__":
    main()

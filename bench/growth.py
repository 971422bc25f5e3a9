"""Bytes that a turn leaves in a store, by table, against the bytes of what was said.

    python bench/growth.py [--turns 1000] [--words 26] [--embedder static] [--url postgresql://…]

Turns go through `begin` and `complete` without a model, in threads of twenty turns, so that memory is shown
in nearly every one of them. Vectors count by themselves: their size is the embedder's choice. What an empty
store takes counts once and not for every turn. A PostgreSQL database should be empty; what updates leave
behind there until it is vacuumed counts too.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter

from corpus import make_texts

from casenotes import Memory, Scope

TURNS_PER_THREAD = 20


async def play(url: str, embedder: str, texts: list[str]) -> tuple[Counter[str], Counter[str], int]:
    """Complete a turn for every two texts: bytes by table before and after, and those of vectors themselves."""
    async with Memory.open(url, model="", embedder=embedder) as memory:
        before = await memory.table_sizes()
        for number, (said, answered) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
            scope = Scope("support", "user-0", f"thread-{number // TURNS_PER_THREAD}")
            turn = await memory.begin(scope, said)
            await memory.complete(turn, answered)
        await memory.flush()
    async with Memory.open(url, model="", embedder=embedder) as memory:
        after, stats = await memory.table_sizes(), await memory.stats()
        (space,) = await memory._store.spaces()
    return Counter(before), Counter(after), 2 * space.dimensions * stats.vectors


def main() -> None:
    """Print a table of bytes a turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--words", type=int, default=26, help="in a text, on average")
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--url", help="an empty database in place of a SQLite file")
    options = parser.parse_args()
    texts = make_texts(2 * options.turns, seed=1, words=options.words)
    said = sum(len(text.encode()) for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/growth.db"
        before, after, vectors = asyncio.run(play(url, options.embedder, texts))
    grown = after - before
    print(f"{options.turns} turns, {said / options.turns:.0f} bytes of text each; by table with indexes:")
    for name, size in grown.most_common():
        print(f"{name:32} {size / options.turns:8.0f}")
    print(f"{'all':32} {grown.total() / options.turns:8.0f}")
    print(f"{'vectors themselves':32} {vectors / options.turns:8.0f}")
    print(f"{'besides, times the text':32} {(grown.total() - vectors) / said:8.2f}")
    print(f"{'with an empty store shared out':32} {(after.total() - vectors) / said:8.2f}")
    print(f"an empty store takes {before.total():,} bytes")


if __name__ == "__main__":
    main()

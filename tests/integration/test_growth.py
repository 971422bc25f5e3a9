"""What a turn leaves in a SQLite file, against the text that was said in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from casenotes import Memory, Scope
from casenotes.testing import HashEmbedder

TURNS = 200
DIMENSIONS = 256
SAID = (
    "Ticket {0}: the webhook of shop {1} answered 401 again after the deployment on {2}, and queue {3} is full."
)
ANSWERED = (
    "Queue {3} of shop {1} drains again since the clock of host {0} is right; watch the log of {2} for a day."
)


async def test_r16_03_a_turn_leaves_at_most_four_times_its_text_beside_its_vectors(tmp_path: Path) -> None:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    sizes, said = [], 0
    for name, turns in (("empty.db", 0), ("full.db", TURNS)):
        embedder = HashEmbedder(DIMENSIONS)
        async with Memory.open(f"sqlite:///{tmp_path / name}", model="", embedder=embedder) as memory:
            for number in range(turns):
                values = (number, number % 17, days[number % 5], number % 7)
                texts = [2 * f"{form.format(*values)} " for form in (SAID, ANSWERED)]
                said += sum(map(len, texts))
                turn = await memory.begin(Scope("support", "user-42", f"ticket-{number // 20}"), texts[0])
                await memory.complete(turn, texts[1])
        with sqlite3.connect(tmp_path / name) as connection:
            sizes.append(connection.execute("SELECT sum(pgsize) FROM dbstat").fetchone()[0])
            items, vectors = connection.execute("SELECT count(*), sum(length(vector)) FROM vectors").fetchone()
        connection.close()
    assert (items, vectors) == (2 * TURNS, 2 * TURNS * 2 * DIMENSIONS), "16 bits a number"
    beside = sizes[1] - sizes[0] - vectors
    assert beside <= 4 * said, f"{beside / TURNS:.0f} bytes a turn for {said / TURNS:.0f} of text"

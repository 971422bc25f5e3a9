"""What answers a question is found although a log is pasted beside it, by the built-in static embedder."""

from __future__ import annotations

import pytest
from conversation import LATER, MIRA, opened
from listings import LISTINGS, QUESTION

from casenotes import Memory, Message
from casenotes.recall.search import MAX_QUERY_CHARACTERS

CAUSE = "The espresso machine in the north office leaked because its inlet gasket had cracked"
NOISE = [
    "The printer on floor two jams when the paper is damp",
    "Our parking permits have to be renewed every March",
    "The queue of the payment service was stuck, a restart of the worker helped",
    "Lunch for the visitors was ordered from the place across the street",
    "The backup of db-3 ended with exit code 28 because the disk was full",
    "The lease of the south office runs until 2029",
    "The heating in the meeting room clicks at night and nobody knows why",
    "We moved the stand-up to half past nine because of the school run",
]


async def fill(memory: Memory) -> None:
    await memory.append(MIRA, [Message("user", text) for text in (*NOISE, CAUSE)])
    await memory.flush(MIRA)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", LISTINGS)
async def test_r42_41_a_pasted_listing_hides_nothing(sqlite_url: str, name: str, place: str) -> None:
    listing = "\n".join(LISTINGS[name])
    asked = f"{QUESTION}\n{listing}" if place == "before" else f"{listing}\n\n{QUESTION}"
    async with opened(sqlite_url, embedder="static") as memory:
        await fill(memory)
        for text in (QUESTION, asked):
            assert CAUSE in [hit.content for hit in await memory.recall(MIRA, text, 3)]
            assert CAUSE in (await memory.begin(LATER, text)).context.text


@pytest.mark.parametrize("place", ["before", "after"])
async def test_r42_41_a_very_long_listing_hides_nothing_in_the_block(sqlite_url: str, place: str) -> None:
    listing = "\n".join(LISTINGS["log"] * 80)
    async with opened(sqlite_url, embedder="static") as memory:
        await fill(memory)
        asked = f"{QUESTION}\n{listing}" if place == "before" else f"{listing}\n{QUESTION}"
        assert len(asked) > MAX_QUERY_CHARACTERS
        assert CAUSE in (await memory.begin(LATER, asked)).context.text


async def test_a_listing_beside_small_talk_finds_nothing(sqlite_url: str) -> None:
    async with opened(sqlite_url, embedder="static") as memory:
        await fill(memory)
        text = "\n".join(["Good morning!", *LISTINGS["table"]])
        assert CAUSE not in (await memory.begin(LATER, text)).context.text
        assert CAUSE not in [hit.content for hit in await memory.recall(MIRA, text, 3)]

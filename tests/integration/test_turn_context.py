"""What was found for a turn is kept with it: what its model was shown, and what was left out and why."""

from __future__ import annotations

from conversation import LATER, MIRA, SAID, SKEW, entry, opened, proposes, settings, turn

from casenotes import Scope
from casenotes.stores.base import IN_THREAD, OVER_BUDGET, OVER_TOP_K, QUOTED
from casenotes.types import ContextItem

FAN = "The fan of rack six was replaced on Friday because its bearing was loud."
ABOUT_FAN = "Why was the fan of rack six replaced?"


def reasons(items: list[ContextItem]) -> dict[str, str]:
    return {item.text: item.left_out for item in items}


async def test_r42_23_what_a_turn_was_shown_can_be_read_back(store_url: str) -> None:
    async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
        await turn(memory, MIRA, SAID)
        asked = await memory.begin(LATER, "Why did the webhook fail with 401?")
        assert SKEW in asked.context.text
        assert await memory.turn_context(LATER, asked.id) == [], "it is saved with what the turn says next"
        await memory.complete(asked, "The clock of pay-2.")
    async with opened(store_url) as memory:
        items = await memory.turn_context(LATER, asked.id)
        (shown,) = [item for item in items if not item.left_out]
        assert (shown.kind, shown.text, shown.thread_id) == ("entry", SKEW, "monday")
        assert reasons(items)[SAID] == QUOTED
        assert await memory.turn_context(MIRA, asked.id) == []
        assert await memory.turn_context(Scope("support", "jonas", "tuesday"), asked.id) == []


async def test_r42_24_what_was_left_out_says_why(store_url: str) -> None:
    said = [f"{FAN} It was number {number} of the fans." for number in range(4)]
    async with opened(store_url, config=settings(auto_inject_top_k=1)) as memory:
        for number, text in enumerate(said):
            await memory.append(Scope("support", "mira", f"day-{number}"), text)
        asked = await memory.begin(LATER, ABOUT_FAN)
        await memory.complete(asked, "Its bearing was loud.")
        found = reasons(await memory.turn_context(LATER, asked.id))
        assert sorted(found.values()) == ["", OVER_TOP_K]
    tight = settings(max_block_tokens=1, min_block_tokens=1)
    async with opened(store_url, config=tight) as memory:
        asked = await memory.begin(LATER, ABOUT_FAN)
        await memory.complete(asked, "Its bearing was loud.")
        found = reasons(await memory.turn_context(LATER, asked.id))
        assert set(found.values()) == {OVER_BUDGET}
        assert set(found) >= set(said)


async def test_what_stands_in_the_thread_anyway_is_left_out(store_url: str) -> None:
    async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
        await turn(memory, MIRA, SAID)
        asked = await memory.begin(MIRA, "Why did the webhook fail with 401?")
        await memory.complete(asked, "The clock of pay-2.")
        assert reasons(await memory.turn_context(MIRA, asked.id))[SKEW] == IN_THREAD


async def test_what_the_model_has_looked_up_was_shown(store_url: str) -> None:
    async with opened(store_url, config=settings(auto_inject=False)) as memory:
        await memory.append(MIRA, FAN)
        asked = await memory.begin(LATER, ABOUT_FAN)
        await asked.tools[0].call(query=ABOUT_FAN)
        await memory.complete(asked, "Its bearing was loud.")
        assert reasons(await memory.turn_context(LATER, asked.id)) == {FAN: ""}


async def test_secrets_are_masked_and_what_was_erased_is_missing(store_url: str) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    async with opened(store_url) as memory:
        await memory.append(MIRA, f"{FAN} The key of its panel is {key}.")
        asked = await memory.begin(LATER, ABOUT_FAN)
        await memory.complete(asked, "Its bearing was loud.")
        (item,) = await memory.turn_context(LATER, asked.id)
        assert "[secret:" in item.text
        assert key not in item.text
        erased = await memory.erase(MIRA)
        assert erased.is_proven
        assert await memory.turn_context(LATER, asked.id) == []

"""What happens in a thread is kept as its history, in the background and without hurting anybody."""

from __future__ import annotations

from conversation import JONAS, MIRA, SAID, SKEW, entry, opened, proposes, turn
from storage import run

from casenotes import Scope
from casenotes.events import Event
from casenotes.testing import ScriptedModel


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


async def test_r03_18_turns_learning_and_usage_are_told_in_order(store_url: str) -> None:
    async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
        receipt = await turn(memory, MIRA, SAID)
        told = await memory.event_history(MIRA)
        assert names(told)[:2] == ["turn.started", "turn.finished"]
        assert {"model.usage", "learning.finished"} <= set(names(told))
        assert told[0].data["turn_id"] == receipt.turn_id
        assert told[0].scope == MIRA
        assert await memory.event_history(JONAS) == []
        assert await memory.event_history(Scope("support", "mira", "other")) == []
        assert len(await memory.event_history(MIRA, 1)) == 1


async def test_it_is_there_after_closing_and_tells_no_secret(store_url: str) -> None:
    def refuse(_request: object) -> dict[str, object]:
        raise RuntimeError("bad key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD")

    async with opened(store_url, ScriptedModel(refuse)) as memory:
        await turn(memory, MIRA, SAID)
    async with opened(store_url) as memory:
        failed = [event for event in await memory.event_history(MIRA) if event.name == "learning.failed"]
        assert failed
        assert "bad key ***" in failed[0].data["error"]
    assert "sk-proj-abc" not in str(run(store_url, "SELECT data FROM events"))


async def test_a_history_that_cannot_be_written_hurts_nobody(store_url: str) -> None:
    async with opened(store_url) as memory:
        run(store_url, "DROP TABLE events")
        receipt = await turn(memory, MIRA, SAID)
        assert receipt.outcome == "success"
        await memory.flush(MIRA)

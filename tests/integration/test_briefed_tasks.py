"""What is noted of a sub-agent that was given a briefing and failed."""

from __future__ import annotations

from conversation import MIRA, opened, turn

TASK = "Find the slow query of the billing database.\nLook at Monday </task> first."


async def test_the_task_is_noted_without_the_conversation_around_it(sqlite_url: str) -> None:
    async with opened(sqlite_url) as memory:
        await turn(memory, MIRA, "Billing is slow, and the weekly report is late.")
        for _ in range(2):
            briefing = await memory.briefing(MIRA, TASK)
            child = await memory.begin(MIRA.child("analyst"), f"You are an analyst.\n\n{briefing.text}")
            await memory.complete(child, outcome="failure", error="access denied")
        noted = {attempt.task for attempt in await memory.attempts(MIRA)}
        assert noted == {
            "Find the slow query of the billing database. Look at Monday &lt;/task> first.",
        }
        assert len((await memory.briefing(MIRA, TASK)).attempts) == 2
        assert (await memory.briefing(MIRA, "Write the weekly report")).attempts == ()


async def test_a_task_without_briefing_is_noted_as_it_is(sqlite_url: str) -> None:
    async with opened(sqlite_url) as memory:
        await memory.append(MIRA, "Billing is slow.")
        child = await memory.begin(MIRA.child("analyst"), "Find the slow query.")
        await memory.complete(child, outcome="failure")
        assert [attempt.task for attempt in await memory.attempts(MIRA)] == ["Find the slow query."]

"""The plan of a thread: written with a tool, shown at every step, kept for as long as the thread."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from conversation import block, looked, opened, settings, tool, turn

from casenotes import Scope
from casenotes.config import PlanSettings
from casenotes.errors import InvalidScope, StateConflict, UsageError
from casenotes.types import STEP_STATUSES, Plan, PlanStep

STEPS = [{"text": f"step {status}", "status": status} for status in STEP_STATUSES]


async def test_r08_01_a_thread_has_one_plan_with_all_its_parts(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        under_way = await memory.begin(scope, "Move the workflows.")
        plan = tool(under_way, "plan")
        assert await memory.plan(scope) is None
        made = await plan.call(goal="Move all", phase="looking", iteration=2, steps=["Count", "Copy"])
        assert made == {
            "version": 1,
            "plan": {
                "goal": "Move all",
                "phase": "looking",
                "iteration": 2,
                "steps": [{"text": "Count", "status": "pending"}, {"text": "Copy", "status": "pending"}],
            },
        }
        await plan.call(updates=[{"step": 1, "status": "done"}], version=1)
        await plan.call(phase="copying", version=2)
        steps = (PlanStep("Count", "done"), PlanStep("Copy"))
        assert await memory.plan(scope) == Plan("Move all", "copying", 2, steps, 3)
        assert await memory.plan(replace(scope, thread_id="tuesday")) is None
        assert (await plan.call())["version"] == 3, "asked for nothing, it tells the plan"


async def test_r08_02_steps_have_one_of_five_statuses(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        plan = tool(await memory.begin(scope, "hello"), "plan")
        statuses = plan.parameters["properties"]["steps"]["items"]["properties"]["status"]["enum"]
        assert statuses == ["pending", "in progress", "done", "failed", "skipped"]
        await plan.call(goal="Move all", steps=STEPS)
        refused = await plan.call(updates=[{"step": 1, "status": "finished"}], version=1)
        assert "it is one of pending, in progress, done, failed, skipped" in refused["error"]
        lines = block((await memory.begin(scope, "go on")).context, "plan").splitlines()
        shown = [line for line in lines if line[:1].isdigit()]
        assert shown == [f"{n}. [{status}] step {status}" for n, status in enumerate(STEP_STATUSES, 1)]


async def test_r08_03_the_plan_survives_reopening_and_the_end_of_runs(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        under_way = await memory.begin(scope, "Move the workflows.")
        await tool(under_way, "plan").call(goal="Move all", steps=STEPS)
        made = await memory.plan(scope)
    async with opened(shared_url) as memory:
        assert await memory.plan(scope) == made
        await memory.complete(under_way, "I am at it.", outcome="failure")
        await memory.finish(scope, "aborted")
    async with opened(shared_url) as memory:
        again = await memory.begin(scope, "Where were we?")
        assert "Goal: Move all" in block(again.context, "plan")
        answer = await tool(again, "plan").call(phase="again", version=1)
        assert answer["plan"]["steps"] == STEPS


async def test_r08_04_whoever_has_not_seen_the_newest_version_changes_nothing(
    shared_url: str, scope: Scope
) -> None:
    async with opened(shared_url) as memory, opened(shared_url) as other:
        await memory.append(scope, "Move the workflows.")
        plan = tool(await memory.begin(scope, "hello"), "plan")
        await plan.call(goal="Move all")
        await other.update_plan(scope, phase="looking", version=1)
        for arguments, told in [
            ({"phase": "copying", "version": 1}, "version 1 was seen, the plan is at version 2"),
            ({"phase": "copying"}, "no version was given"),
            ({"phase": "copying", "version": 9}, "version 9 was seen"),
        ]:
            answer = await plan.call(**arguments)
            assert told in answer["error"]
            assert (answer["version"], answer["plan"]["phase"]) == (2, "looking"), "with the plan as it is"
        with pytest.raises(StateConflict, match="call with version 2"):
            await memory.update_plan(scope, goal="Move nothing", version=1)
        with pytest.raises(StateConflict, match="no version was given"):
            await memory.update_plan(scope, goal="Move nothing")
        assert (await plan.call(phase="copying", version=2))["version"] == 3


async def test_r08_05_the_plan_is_shown_anew_within_a_turn(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        under_way = await memory.begin(scope, "Move the workflows.")
        assert block(under_way.context, "plan") == ""
        await tool(under_way, "plan").call(goal="Move </plan> all")
        context = await memory.step(under_way, looked(1, "12 of them"))
        shown = block(context, "plan")
        assert shown.startswith("<plan>\n<description>")
        assert "Goal: Move &lt;/plan> all\n" in shown
        assert "Version: 1\n" in shown
        assert shown.count("</plan>") == 1
        await memory.update_plan(scope, steps=[{"text": "Count"}], version=1)
        assert "1. [pending] Count" in block(await memory.step(under_way, looked(2, "x")), "plan")
        assert "1. [pending] Count" in block((await memory.begin(scope, "And?")).context, "plan")


async def test_r08_06_of_changes_at_the_same_time_one_is_made(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as one, opened(shared_url) as two:
        await one.append(scope, "hello")
        changes = [memory.update_plan(scope, goal=f"goal {n}") for n, memory in enumerate((one, two) * 4)]
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        (made,) = [found for found in outcomes if isinstance(found, Plan)]
        assert [type(found) for found in outcomes].count(StateConflict) == 7
        assert await two.plan(scope) == made


async def test_r08_07_in_a_small_context_the_goal_is_the_last_to_go(shared_url: str, scope: Scope) -> None:
    config = replace(settings(), plan=PlanSettings(min_block_tokens=10, max_block_tokens=120))
    steps = [{"text": f"Look at number {n}", "status": "done" if n < 20 else "pending"} for n in range(40)]
    async with opened(shared_url, config=config) as memory:
        await memory.append(scope, "hello")
        await memory.update_plan(scope, goal="Look at all", steps=steps)
        context = (await memory.begin(scope, "go on")).context
        shown = block(context, "plan")
        assert memory.count_tokens(shown) <= 120
        assert "Goal: Look at all" in shown
        assert "[done]" not in shown
        assert "21. [pending] Look at number 20" in shown
        assert "20 finished and" in shown
        (told,) = context.trace["layers"]["plan"]["left_out"]
        assert told.endswith("steps over the token budget")


async def test_a_plan_needs_its_thread_and_can_be_switched_off(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        with pytest.raises(InvalidScope, match="no thread_id"):
            await memory.plan(scope.owner)
        with pytest.raises(InvalidScope, match="monday"):
            await memory.update_plan(scope, goal="too early")
        with pytest.raises(UsageError, match="must be a list"):
            await memory.update_plan(scope, steps="one, two")
    off = replace(settings(), plan=PlanSettings(enabled=False))
    async with opened(shared_url, config=off) as memory:
        under_way = await memory.begin(scope, "hello")
        assert "plan" not in [offered.name for offered in under_way.tools]
        with pytest.raises(UsageError, match=r"plans are switched off \(setting plan.enabled\)"):
            await memory.plan(scope)
        await turn(memory, scope, "hello")

"""The plan as a layer: its block, the tool, and callers that hold an older version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from states import NOON, StateInMemory, other_writer

from casenotes.config import PlanSettings
from casenotes.errors import StateConflict, StoreUnavailable
from casenotes.layers.base import CompleteRequest, LearnRequest, RecallRequest, ToolRequest
from casenotes.layers.plan import PARAMETERS, PlanLayer, change_plan, plan_tool, read_plan
from casenotes.layers.plan_document import read_change
from casenotes.stores.learning import Lease
from casenotes.tokens import estimate_tokens
from casenotes.types import PlanStep, Scope

SCOPE = Scope("support", None, "monday")
STORED = {
    "goal": "Migrate billing",
    "phase": "testing",
    "iteration": 1,
    "steps": [{"text": "back up", "status": "done"}, {"text": "copy rows", "status": "pending"}],
}


def layer() -> PlanLayer:
    return PlanLayer(PlanSettings(), estimate_tokens)


def asked(state: StateInMemory | None, max_tokens: int = 3_000) -> RecallRequest:
    return RecallRequest(SCOPE, "t1", "hello", NOON, frozenset(), max_tokens, state)


def test_the_plan_layer_says_what_it_is() -> None:
    made = layer()
    assert (made.name, made.slot, made.scope, made.stable, made.every_step) == (
        "plan",
        240,
        "thread",
        False,
        True,
    )
    assert (made.budget.min, made.budget.max) == (100, 3_000)


async def test_the_block_is_made_of_the_plan() -> None:
    recalled = await layer().recall(asked(StateInMemory(STORED)))
    assert "Version: 1\n\n1. [done] back up\n2. [pending] copy rows\n</value>\n</plan>" in recalled.text
    assert recalled.left_out == ()


async def test_no_plan_gives_no_block() -> None:
    for state in (None, StateInMemory(), StateInMemory({"goal": "", "phase": "", "iteration": 3, "steps": []})):
        recalled = await layer().recall(asked(state))
        assert (recalled.text, recalled.left_out) == ("", ("there is no plan",))


async def test_what_does_not_fit_of_a_plan_is_told() -> None:
    steps = [{"text": f"step {number}", "status": "done"} for number in range(50)]
    state = StateInMemory({**STORED, "steps": steps})
    (reason,) = (await layer().recall(asked(state, 200))).left_out
    assert reason.endswith("steps over the token budget")
    recalled = await layer().recall(asked(state, 5))
    assert (recalled.text, recalled.left_out) == ("", ("the plan does not fit into 5 tokens",))


async def test_a_turn_and_a_run_leave_the_plan_alone() -> None:
    state = StateInMemory(STORED)
    made = layer()
    await made.init()
    await made.learn(LearnRequest(SCOPE, "t", Lease(SCOPE, "extract", "me", 1), state=state))
    await made.complete(CompleteRequest(SCOPE, "success", NOON, state))
    assert state.current.version == 1


# The tool


async def test_a_plan_is_made_changed_and_read() -> None:
    state = StateInMemory()
    (plan,) = layer().tools(ToolRequest(SCOPE, "t", state))
    assert (plan.name, plan.parameters) == ("plan", PARAMETERS)
    assert "`version` is the version" in plan.description
    made = await plan.call(goal="Migrate billing", steps=[{"text": "back up"}, {"text": "copy rows"}])
    assert made == {
        "version": 1,
        "plan": {
            "goal": "Migrate billing",
            "phase": "",
            "iteration": 1,
            "steps": [{"text": "back up", "status": "pending"}, {"text": "copy rows", "status": "pending"}],
        },
    }
    changed = await plan.call(phase="testing", updates=[{"step": 1, "status": "done"}], version=1)
    assert (changed["version"], changed["plan"]) == (2, STORED)
    assert await plan.call() == await plan.call(version=1) == changed
    assert state.current.author == "agent"


async def test_what_stays_the_same_makes_no_version() -> None:
    state = StateInMemory(STORED)
    answer = await plan_tool(state).call(goal="Migrate  billing", version=1)
    assert answer == {"version": 1, "plan": STORED}
    assert len(state.versions) == 2


@pytest.mark.parametrize("seen", [0, 1, 7])
async def test_r08_04_another_version_is_a_conflict_with_the_plan_as_it_is(seen: int) -> None:
    state = StateInMemory({**STORED, "phase": "begin"})
    state.put(STORED)
    answer = await plan_tool(state).call(goal="Something else", version=seen)
    assert answer["error"].startswith(f"conflict: version {seen} was seen, the plan is at version 2")
    assert "decide again, and call with version 2" in answer["error"]
    assert (answer["plan"], answer["version"]) == (STORED, 2)
    assert state.current.value == STORED


async def test_a_plan_is_not_changed_by_whoever_has_not_seen_it() -> None:
    state = StateInMemory(STORED)
    answer = await plan_tool(state).call(goal="Something else")
    assert "no version was given" in answer["error"]
    assert "call with version 1" in answer["error"]
    assert (answer["plan"], answer["version"]) == (STORED, 1)
    assert state.current.version == 1


@pytest.mark.parametrize("seen", [None, 0])
async def test_losing_the_race_for_the_first_plan_is_a_conflict(seen: int | None) -> None:
    state = StateInMemory()
    other_writer(state, STORED)
    answer = await plan_tool(state).call(goal="Mine", version=seen)
    assert "call with version 1" in answer["error"]
    assert (answer["plan"], answer["version"]) == (STORED, 1)
    assert state.refused == 1


async def test_losing_the_race_for_a_change_is_a_conflict() -> None:
    state = StateInMemory(STORED)
    theirs = {**STORED, "phase": "theirs"}
    other_writer(state, theirs)
    plan = plan_tool(state)
    answer = await plan.call(phase="mine", version=1)
    assert "conflict: version 1 was seen, the plan is at version 2" in answer["error"]
    assert (answer["plan"], answer["version"]) == (theirs, 2)
    again = await plan.call(phase="mine", version=answer["version"])
    assert (again["version"], again["plan"]["phase"]) == (3, "mine")


async def test_r08_06_of_two_callers_at_once_one_wins() -> None:
    state = StateInMemory(STORED)
    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    state.before_write = meet
    plan = plan_tool(state)
    answers = await asyncio.gather(plan.call(phase="one", version=1), plan.call(phase="two", version=1))
    assert sorted("error" in answer for answer in answers) == [False, True]
    assert state.current.version == 2
    assert {answer["version"] for answer in answers} == {2}
    assert len({answer["plan"]["phase"] for answer in answers}) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"goal": 5, "version": 1}, "goal is int"),
        ({"steps": [{"text": ""}], "version": 1}, "steps[1].text is empty"),
        ({"updates": [{"step": 9, "status": "done"}], "version": 1}, "there is no step 9"),
        ({"thread_id": "other", "version": 1}, "'thread_id' is no part of a plan"),
        ({"goal": "x", "version": "latest"}, "version is 'latest'"),
    ],
)
async def test_r08_04_a_wrong_call_of_plan_is_answered(call: dict[str, Any], words: str) -> None:
    state = StateInMemory(STORED)
    answer = await plan_tool(state).call(**call)
    assert words in answer["error"]
    assert state.current.version == 1


async def test_a_failing_store_is_answered_by_plan() -> None:
    state = StateInMemory()

    async def fail() -> None:
        raise StoreUnavailable("locked")

    state.before_write = fail
    assert await plan_tool(state).call(goal="x") == {"error": "locked"}


async def test_callers_of_the_library_get_errors() -> None:
    state = StateInMemory(STORED)
    with pytest.raises(StateConflict, match="version 3 was seen"):
        await change_plan(state, read_change({"goal": "x", "version": 3}))
    plan = await change_plan(
        state, read_change({"updates": [{"step": 2, "status": "done"}], "version": 1}), "me"
    )
    assert (plan.version, plan.steps[1]) == (2, PlanStep("copy rows", "done"))
    assert await read_plan(state) == plan
    assert state.current.author == "me"

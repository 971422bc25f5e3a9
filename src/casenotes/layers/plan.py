"""The plan of a thread: goal, phase, iteration and steps, written with the tool `plan` and shown at every step.

Two callers may hold the same plan, so every change names the version that it was decided on. Whoever comes
second changes nothing and is given the plan as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from casenotes.config import PlanSettings
from casenotes.errors import CasenotesError, StateConflict
from casenotes.layers.base import BaseLayer, LayerScope, Recalled, RecallRequest, TokenRange, ToolRequest
from casenotes.layers.plan_document import (
    MAX_STEPS,
    PlanChange,
    changed,
    fitted_block,
    is_blank,
    plan_of,
    plan_values,
    read_change,
)
from casenotes.layers.state import LayerState
from casenotes.learn.prompts import prompt
from casenotes.masking import mask
from casenotes.tokens import TokenCounter
from casenotes.types import STEP_STATUSES, Outcome, Plan, Tool

PLAN_TOOL = "plan"
STATUS = {"type": "string", "enum": list(STEP_STATUSES)}
STEP_TEXT = {"type": "string", "description": "What is to be done, in one line."}
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "goal": {"type": "string", "description": "What is to be reached, in one line."},
        "phase": {"type": "string", "description": "Where the task stands, in a word or two."},
        "iteration": {"type": "integer", "minimum": 1, "description": "Which attempt this is."},
        "steps": {
            "type": "array",
            "maxItems": MAX_STEPS,
            "description": "All steps in order; replaces those that are there.",
            "items": {
                "type": "object",
                "properties": {"text": STEP_TEXT, "status": STATUS},
                "required": ["text", "status"],
                "additionalProperties": False,
            },
        },
        "updates": {
            "type": "array",
            "maxItems": MAX_STEPS,
            "description": "Changes of single steps.",
            "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "integer", "minimum": 1, "description": "Its number, counted from 1."},
                    "status": STATUS,
                    "text": STEP_TEXT,
                },
                "required": ["step"],
                "additionalProperties": False,
            },
        },
        "version": {
            "type": "integer",
            "minimum": 0,
            "description": "The version of the plan that you have seen; needed once there is a plan.",
        },
    },
    "additionalProperties": False,
}


class PlanLayer(BaseLayer):
    """See Layer. Its block is made again before every further model call of a turn."""

    name = "plan"
    slot = 240
    scope: LayerScope = "thread"
    learns_from: Sequence[Outcome] = ()
    every_step = True

    def __init__(self, settings: PlanSettings, count_tokens: TokenCounter) -> None:
        self._count_tokens = count_tokens
        self.budget = TokenRange(
            min(settings.min_block_tokens, settings.max_block_tokens), settings.max_block_tokens
        )

    async def recall(self, request: RecallRequest) -> Recalled:
        """The plan, or as much of it as fits; empty if there is none."""
        plan = await read_plan(request.state) if request.state else Plan()
        if is_blank(plan):
            return Recalled(left_out=("there is no plan",))
        return self._fitted(plan, request.max_tokens)

    def _fitted(self, plan: Plan, max_tokens: int) -> Recalled:
        fitted = fitted_block(plan, max_tokens, self._count_tokens)
        left_out = (f"{fitted.left_out} steps over the token budget",) if fitted.left_out else ()
        if not fitted.text:
            left_out = (f"the plan does not fit into {max_tokens} tokens",)
        return Recalled(fitted.text, (), left_out, lambda room: self._fitted(plan, room))

    def tools(self, request: ToolRequest) -> Sequence[Tool]:
        """`plan` for one thread."""
        return (plan_tool(request.state),)


async def read_plan(state: LayerState) -> Plan:
    """The current plan; an empty one of version 0 if there is none."""
    current = await state.read()
    return plan_of(current.value, current.version)


async def change_plan(state: LayerState, change: PlanChange, author: str = "") -> Plan:
    """Change the plan in the version that the change names; raises StateConflict if there is another one.

    A change without a version is one of a plan that nobody has written yet.
    """
    plan = await read_plan(state)
    if (change.version or 0) != plan.version:
        raise StateConflict(conflict_text(change.version, plan.version))
    after = changed(plan, change)
    if after == plan:
        return plan
    written = await state.write(plan_values(after), plan.version, author)
    return replace(after, version=written.version)


def conflict_text(seen: int | None, current: int) -> str:
    """What to do when the plan is not the one that was seen."""
    if seen is None:
        return f"there is a plan already, and no version was given; look at it, and call with version {current}"
    return (
        f"conflict: version {seen} was seen, the plan is at version {current}; nothing was written. Look at "
        f"the plan as it is now, decide again, and call with version {current}"
    )


def plan_tool(state: LayerState) -> Tool:
    """The tool over the plan of one thread."""

    async def call(**arguments: Any) -> dict[str, Any]:
        """A wrong call is answered, not raised: models make them, and the host's turn goes on."""
        seen: int | None = None
        try:
            change = read_change(arguments)
            seen = change.version
            return _answer(await (read_plan(state) if change.is_empty else change_plan(state, change, "agent")))
        except StateConflict:
            return await _conflict(state, seen)
        except CasenotesError as error:
            return {"error": mask(str(error))}

    return Tool(PLAN_TOOL, prompt("plan_tool"), PARAMETERS, call)


async def _conflict(state: LayerState, seen: int | None) -> dict[str, Any]:
    """The answer to whoever was late: told with the plan as it is now, which may have changed once more."""
    try:
        plan = await read_plan(state)
    except CasenotesError as error:
        return {"error": mask(str(error))}
    return {"error": conflict_text(seen, plan.version)} | _answer(plan)


def _answer(plan: Plan) -> dict[str, Any]:
    return {"version": plan.version, "plan": plan_values(plan)}

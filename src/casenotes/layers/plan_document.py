"""The plan as a document: read what a model asks for, change the plan, render it. Nothing here waits.

Whatever a call leaves out stays as it is. A call that makes no sense changes nothing and is refused with a text
that tells the model what to do instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from casenotes.errors import UsageError
from casenotes.layers.tools import repeated
from casenotes.learn.normalise import collapse, is_visible
from casenotes.learn.prompts import prompt
from casenotes.masking import mask
from casenotes.recall.render import block, inert
from casenotes.tokens import TokenCounter
from casenotes.types import STEP_STATUSES, Plan, PlanStep, StepStatus, text_problem

MAX_STEPS = 100
MAX_TEXT = 500
MAX_NUMBER = 1_000_000_000
FINISHED: Set[StepStatus] = frozenset(("done", "skipped", "failed"))


class PlanRefused(UsageError):
    """A change of the plan that is not made; its text tells a model why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class StepUpdate:
    """A change of one step, counted from 1."""

    number: int
    status: StepStatus | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class PlanChange:
    """What a call asks for; None stays as it is. `version` is the one that its author has seen."""

    goal: str | None = None
    phase: str | None = None
    iteration: int | None = None
    steps: tuple[PlanStep, ...] | None = None
    updates: tuple[StepUpdate, ...] = ()
    version: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be changed."""
        return self == PlanChange(version=self.version)


class Fitted(NamedTuple):
    """A block within its budget, and how many steps were left out of it."""

    text: str
    tokens: int
    left_out: int


def plan_of(value: Mapping[str, Any], version: int) -> Plan:
    """The plan of a stored state; what is no part of a plan is passed over."""
    rows = value.get("steps")
    steps = [_stored_step(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    iteration = value.get("iteration")
    return Plan(
        str(value.get("goal") or ""),
        str(value.get("phase") or ""),
        iteration if isinstance(iteration, int) else 1,
        tuple(steps),
        version,
    )


def _stored_step(row: Mapping[str, Any]) -> PlanStep:
    status = row.get("status")
    return PlanStep(str(row.get("text") or ""), status if status in STEP_STATUSES else "pending")


def plan_values(plan: Plan) -> dict[str, Any]:
    """A plan as plain JSON values, without its version."""
    steps = [{"text": step.text, "status": step.status} for step in plan.steps]
    return {"goal": plan.goal, "phase": plan.phase, "iteration": plan.iteration, "steps": steps}


def read_change(arguments: Mapping[str, Any]) -> PlanChange:
    """The change that a call asks for; raises PlanRefused."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if unknown := sorted(set(given) - set(PlanChange.__dataclass_fields__)):
        known = ", ".join(PlanChange.__dataclass_fields__)
        raise PlanRefused(f"{repeated(unknown[0])} is no part of a plan; the parts are {known}")
    if given.get("steps") is not None and given.get("updates"):
        raise PlanRefused("steps and updates are both given; steps replaces all steps, so give one of them")
    return PlanChange(
        _text("goal", given.get("goal")),
        _text("phase", given.get("phase")),
        _number("iteration", given.get("iteration"), 1),
        tuple(map(_step, _rows("steps", given["steps"]))) if "steps" in given else None,
        tuple(map(_update, _rows("updates", given.get("updates", [])))),
        _number("version", given.get("version"), 0),
    )


def _rows(name: str, value: object) -> list[tuple[str, Mapping[str, Any]]]:
    """The rows of a list, each with a name for what is wrong with it."""
    if not isinstance(value, list | tuple):
        raise PlanRefused(f"{name} is {type(value).__name__}; give a list")
    if len(value) > MAX_STEPS:
        raise PlanRefused(
            f"{name} has {len(value)} rows and at most {MAX_STEPS} are allowed; join some of them"
        )
    rows = [row if isinstance(row, Mapping) else {"text": row} for row in value]
    return [(f"{name}[{number}]", row) for number, row in enumerate(rows, 1)]


def _step(named: tuple[str, Mapping[str, Any]]) -> PlanStep:
    """A step; a bare text is one that is still to be done."""
    name, row = named
    text = _text(f"{name}.text", row.get("text"))
    if not text:
        raise PlanRefused(f"{name}.text is empty; say what is to be done")
    return PlanStep(text, _status(name, row.get("status")) or "pending")


def _update(named: tuple[str, Mapping[str, Any]]) -> StepUpdate:
    name, row = named
    number = _number(f"{name}.step", row.get("step"), 1)
    if number is None:
        raise PlanRefused(f"{name} names no step; give its number as step, counted from 1")
    text = _text(f"{name}.text", row.get("text"))
    status = _status(name, row.get("status"))
    if not text and status is None:
        raise PlanRefused(f"{name} changes nothing; give a status or a text")
    return StepUpdate(number, status, text or None)


def _status(name: str, value: object) -> StepStatus | None:
    if value is None:
        return None
    written = " ".join(str(value).casefold().replace("_", " ").replace("-", " ").split())
    for status in STEP_STATUSES:
        if written == status:
            return status
    raise PlanRefused(f"{name}.status is {repeated(value)}; it is one of {', '.join(STEP_STATUSES)}")


def _number(name: str, value: object, least: int) -> int | None:
    """A whole number, also written as text, which some models do."""
    if value is None:
        return None
    written = str(value).strip()
    is_whole = written.isascii() and written.isdecimal() and len(written) <= len(str(MAX_NUMBER))
    if isinstance(value, bool) or not is_whole or not least <= int(written) <= MAX_NUMBER:
        raise PlanRefused(f"{name} is {repeated(value)}; give a whole number from {least} to {MAX_NUMBER}")
    return int(written)


def _text(name: str, value: object) -> str | None:
    """One line without secrets; what nobody can see is empty."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise PlanRefused(f"{name} is {type(value).__name__}; give it as text")
    if problem := text_problem(value):
        raise PlanRefused(f"{name} {problem}")
    if len(collapse(value)) <= MAX_TEXT:
        text = mask(collapse(mask(value)))
        if len(text) <= MAX_TEXT:
            return text if is_visible(text) else ""
    raise PlanRefused(f"{name} has more than {MAX_TEXT} characters; say it in fewer words")


def changed(plan: Plan, change: PlanChange) -> Plan:
    """The plan after a change, of the same version; raises PlanRefused."""
    steps = list(plan.steps if change.steps is None else change.steps)
    for update in change.updates:
        if update.number > len(steps):
            raise PlanRefused(
                f"there is no step {update.number}; the plan has {len(steps)} steps, counted from 1"
            )
        step = steps[update.number - 1]
        steps[update.number - 1] = PlanStep(update.text or step.text, update.status or step.status)
    return replace(
        plan,
        goal=plan.goal if change.goal is None else change.goal,
        phase=plan.phase if change.phase is None else change.phase,
        iteration=change.iteration or plan.iteration,
        steps=tuple(steps),
    )


def is_blank(plan: Plan) -> bool:
    """Whether there is nothing to show."""
    return not (plan.goal or plan.phase or plan.steps)


def fitted_block(plan: Plan, max_tokens: int, count_tokens: TokenCounter) -> Fitted:
    """The block within its budget: without finished steps, then without guidance, then without open steps.

    Nothing if not even goal and phase fit.
    """
    finished = sum(step.status in FINISHED for step in plan.steps)
    fitted = _fitted(plan, prompt("plan_guidance"), max_tokens, count_tokens)
    if fitted.text and fitted.left_out <= finished:
        return fitted
    return _fitted(plan, "", max_tokens, count_tokens)


def _fitted(plan: Plan, guidance: str, max_tokens: int, count_tokens: TokenCounter) -> Fitted:
    order = _dropping_order(plan)

    def rendered(count: int) -> str:
        return block("plan", _lines(plan, frozenset(order[:count])), prompt("plan_description"), guidance)

    def is_fitting(count: int) -> bool:
        return count_tokens(rendered(count)) <= max_tokens

    dropped = 0 if is_fitting(0) else bisect_left(range(1, len(order) + 1), True, key=is_fitting) + 1
    text = rendered(dropped) if dropped <= len(order) else ""
    return Fitted(text, count_tokens(text), dropped)


def _dropping_order(plan: Plan) -> list[int]:
    """The positions of all steps in the order in which they are left out.

    Oldest first what is done or skipped, then what failed; then last first what is to be done, then the rest.
    """
    by_status: dict[StepStatus, list[int]] = {status: [] for status in STEP_STATUSES}
    for position, step in enumerate(plan.steps):
        by_status[step.status].append(position)
    finished = [*sorted([*by_status["done"], *by_status["skipped"]]), *by_status["failed"]]
    return [*finished, *reversed(by_status["pending"]), *reversed(by_status["in progress"])]


def _lines(plan: Plan, dropped: Set[int]) -> list[str]:
    heads = [("Goal", plan.goal), ("Phase", plan.phase), ("Iteration", str(plan.iteration))]
    lines = [f"{name}: {inert(text)}" for name, text in [*heads, ("Version", str(plan.version))] if text]
    steps = [
        f"{number}. [{step.status}] {inert(step.text)}"
        for number, step in enumerate(plan.steps, 1)
        if number - 1 not in dropped
    ]
    notes = _notes([plan.steps[position] for position in dropped])
    return [*lines, *([""] if steps or notes else []), *steps, *notes]


def _notes(dropped: Sequence[PlanStep]) -> list[str]:
    """How many steps are not shown, told apart by whether something is still to be done."""
    finished = sum(step.status in FINISHED for step in dropped)
    counts = (("finished", finished), ("open", len(dropped) - finished))
    parts = [f"{count} {name}" for name, count in counts if count]
    return [f"({' and '.join(parts)} step{'s' if len(dropped) > 1 else ''} not shown)"] if parts else []

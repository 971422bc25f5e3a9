"""Sub-agents: what they are told, and what they tried in vain, noted in the thread of their parent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from casenotes.clock import Clock
from casenotes.errors import UsageError
from casenotes.intake import check_outcome
from casenotes.layers.state import LayerState, change
from casenotes.learn.normalise import collapse, cut
from casenotes.masking import mask
from casenotes.recall.render import inert
from casenotes.recall.words import search_terms
from casenotes.tokens import TokenCounter
from casenotes.types import (
    SPEAKERS,
    Attempt,
    Briefing,
    Message,
    Outcome,
    ToolCall,
    ToolResult,
    text_problem,
)

LOG = "attempts"
MAX_ATTEMPTS = 50
MAX_CHARACTERS = 2_000
MAX_TASK_CHARACTERS = 20_000
MAX_CONTEXT_LINES = 400
SHOWN_ATTEMPTS = 10
ALIKE = 0.5
"""Share of words from which on two tasks count as the same, put differently."""

_TASK = re.compile(r"<briefing>\n<task>\n(.*?)\n</task>\n", re.DOTALL)


async def record_attempt(
    state: LayerState, attempt: Attempt, turn_id: str = "", thread_id: str = ""
) -> Attempt:
    """Add an attempt to a thread's log; its number is given out here, also with several writers.

    That of a turn which is there already is not added again. The sub-agent's own thread is noted with it, so
    that it goes when that one is erased.
    """
    noted: list[Attempt] = []

    def decide(value: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = list(value.get("items", []))
        if turn_id and (known := [row for row in rows if row.get("turn_id") == turn_id]):
            noted.append(_attempt(known[0]))
            return value
        noted.append(replace(attempt, number=rows[-1]["number"] + 1 if rows else 1))
        row = {**_row(noted[-1]), "turn_id": turn_id, "thread_id": thread_id}
        return {"items": [*rows, row][-MAX_ATTEMPTS:]}

    await change(state, decide, "attempt")
    return noted[-1]


def new_attempt(task: str, tried: str, error: str, outcome: Outcome, clock: Clock) -> Attempt:
    """An attempt as it can be noted: on one line each, without secrets."""
    check_outcome(outcome)
    for name, text in (("task", task), ("tried", tried), ("error", error)):
        _check(name, text)
    if not task.strip():
        raise UsageError("task is empty; say what the sub-agent was asked to do")
    return Attempt(0, _line(task), _line(tried), _line(error), outcome, clock.now())


def attempts_of(value: Mapping[str, Any]) -> list[Attempt]:
    """The attempts of a stored log, oldest first."""
    return [_attempt(row) for row in value.get("items", [])]


def _attempt(row: Mapping[str, Any]) -> Attempt:
    told = {name: row[name] for name in Attempt.__dataclass_fields__}
    return Attempt(**{**told, "at": datetime.fromisoformat(row["at"])})


def failed_turn(messages: Sequence[Message], error: str) -> tuple[str, str, str]:
    """Of a sub-agent's turn that failed: its task, what it tried, and what went wrong."""
    task = "\n".join(task_in(message.text) for message in messages if message.role == "user")
    said = [message.text for message in messages if message.role == "assistant" and message.text.strip()]
    parts = [part for message in messages for part in message.parts]
    called = ", ".join(dict.fromkeys(part.name for part in parts if isinstance(part, ToolCall)))
    errors = [part.content for part in parts if isinstance(part, ToolResult) and part.is_error]
    tried = " | ".join(piece for piece in (f"called {called}" if called else "", *said[-1:]) if piece)
    return task or "(no task was given)", tried, error or next(iter(errors[-1:]), "")


def task_in(text: str) -> str:
    """The task of a briefing, whose other words would make it like other tasks; else the text itself."""
    found = _TASK.search(text)
    return found[1] if found else text


def briefing(
    task: str, context: str | Sequence[Message], attempts: Sequence[Attempt], count_tokens: TokenCounter
) -> Briefing:
    """What a sub-agent is told."""
    _check("task", task)
    if not task.strip():
        raise UsageError("task is empty; say what the sub-agent is to do")
    relevant = [attempt for attempt in attempts if is_alike(task, attempt.task)][-SHOWN_ATTEMPTS:]
    parts = [
        _part("task", _lines(task[:MAX_TASK_CHARACTERS])),
        _part("conversation", _context_lines(context)),
        _part("earlier-attempts", [_attempt_line(attempt) for attempt in relevant]),
    ]
    text = "\n".join(["<briefing>", *(part for part in parts if part), "</briefing>"])
    return Briefing(text, count_tokens(text), tuple(relevant))


def is_alike(task: str, other: str) -> bool:
    """Whether two tasks are the same, perhaps put differently."""
    mine, theirs = set(search_terms(task)), set(search_terms(other))
    if not mine or not theirs:
        return collapse(task).casefold() == collapse(other).casefold()
    return len(mine & theirs) / min(len(mine), len(theirs)) >= ALIKE


def _context_lines(context: str | Sequence[Message]) -> list[str]:
    if isinstance(context, str):
        return _lines(context)[:MAX_CONTEXT_LINES]
    return [
        f"{message.role}: {_line(message.text)}"
        for message in context
        if message.role in SPEAKERS and message.text.strip()
    ]


def _attempt_line(attempt: Attempt) -> str:
    parts = [f"{attempt.number}. {attempt.outcome}"]
    parts += [f"tried: {attempt.tried}"] if attempt.tried else []
    parts += [f"error: {attempt.error}"] if attempt.error else []
    return inert("; ".join(parts))


def _part(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"<{name}>", *lines, f"</{name}>"]) if lines else ""


def _lines(text: str) -> list[str]:
    return [inert(line) for line in mask(text).splitlines() if line.strip()]


def _line(text: str) -> str:
    return cut(inert(mask(collapse(text))), MAX_CHARACTERS)


def _check(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{name} must be text, got {type(text).__name__}")
    if problem := text_problem(text):
        raise UsageError(f"{name} {problem}")


def _row(attempt: Attempt) -> dict[str, Any]:
    return {**asdict(attempt), "at": attempt.at.isoformat()}

"""Render where a conversation stands: what changes with time belongs here, behind the messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, tzinfo

from casenotes.learn.prompts import prompt
from casenotes.recall.render import block, inert
from casenotes.tokens import TokenCounter
from casenotes.types import Observation, SessionState

BLOCK = "session-memory"
MAX_DATES = 5
DAYS_PAST = 1
"""What was due yesterday still matters."""


def within(parts: Sequence[Sequence[str]], most: int, count_tokens: TokenCounter) -> tuple[str, int]:
    """The block in so many tokens, and how many lines it leaves out: those of the last parts go first."""
    lines = [line for part in parts for line in part]
    for count in range(len(lines), 0, -1):
        text = block(BLOCK, lines[:count], prompt("session_description"), "")
        if count_tokens(text) <= most:
            return text, len(lines) - count
    return "", len(lines)


def parts(
    session: SessionState, hint: str, rows: Sequence[Observation], now: datetime, zone: tzinfo
) -> list[list[str]]:
    """What there is to say, the most important first."""
    return [
        [f"Objective: {inert(session.objective)}"] if session.objective else [],
        [f"State: {inert(session.state)}"] if session.state else [],
        [f"Hint: {inert(hint)}"] if hint else [],
        _listed("Left to do:", session.follow_ups),
        [*_dates(rows, now.astimezone(zone).date())],
        _listed("Decided:", session.decisions),
    ]


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [title, *(f"- {inert(item)}" for item in items)] if items else []


def _dates(rows: Sequence[Observation], today: date) -> Iterator[str]:
    """The next days that observations speak of, told from today."""
    ahead = sorted(
        ((day, row.position, row) for row in rows for day in row.dates if (day - today).days >= -DAYS_PAST),
        key=lambda item: item[:2],
    )
    for number, (day, _, row) in enumerate(ahead[:MAX_DATES]):
        if not number:
            yield "Dates:"
        yield f"- {day.isoformat()} ({days_from(day, today)}): {inert(row.text)[:200]}"


def days_from(day: date, today: date) -> str:
    """How far a day is from today, in words."""
    days = (day - today).days
    near = {-1: "yesterday", 0: "today", 1: "tomorrow"}
    return near.get(days) or (f"in {days} days" if days > 0 else f"{-days} days ago")

"""Short ways to make what session memory works on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from casenotes.observe.limits import Limits
from casenotes.types import Message, Observation, ToolCall, ToolResult

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
LIMITS = Limits(threshold=1_000, tail=200, step=200, render=2_000, reflect=1_000, newest=4)


def user(text: str = "go on") -> Message:
    return Message("user", text)


def answer(text: str = "done") -> Message:
    return Message("assistant", text)


def call(name: str) -> Message:
    return Message("assistant", "", parts=(ToolCall(name, "look", {"at": name}),))


def result(name: str, content: str = "found") -> Message:
    return Message("tool", "", parts=(ToolResult(name, content),))


def numbered(messages: list[Message], first: int = 1) -> list[Message]:
    """As they come from a store."""
    return [
        Message(m.role, m.text, f"m{n}", NOON + timedelta(minutes=n), m.parts, seq=n)
        for n, m in enumerate(messages, first)
    ]


def row(name: str, text: str = "something happened", **values: Any) -> Observation:
    """A row of ten tokens that covers one message."""
    number = int("".join(filter(str.isdigit, name)) or 1)
    given = {
        "priority": "info",
        "at": NOON + timedelta(minutes=number),
        "covers": ((number, number),),
        "status": "active",
        "tokens": 10,
        "position": 1_000 * number,
        "created_at": NOON,
    }
    return Observation(name, text=text, **{**given, **values})

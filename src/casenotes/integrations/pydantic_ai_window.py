"""Which of a run's messages are sent again: those that the context still shows.

A run keeps all of its messages, however long it gets; the context of each step says from where on there is
room for them. What stands in the store together is sent together or not at all, so that no call loses its
result. What is not in the store stays: the run's prompt, a history of the caller's own, and parts that the
framework itself needs. Parts are known again by identity, because the framework merges messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    CompactionPart,
    ModelMessage,
    ModelRequest,
    RetryFeedbackPart,
    ToolReturnPart,
    UserPromptPart,
)

from casenotes.types import Context

SPOKEN = (UserPromptPart, ToolReturnPart, RetryFeedbackPart)
"""What may be left out of a request; its other parts tell of instructions and tools and count from then on."""

SWITCHES = ("tool-search", "capability-load")
"""Kinds of tools whose calls and results switch others on."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What stands in the store under these ids: a message of the thread, or a step of the run."""

    parts: tuple[object, ...]
    ids: frozenset[str]


def stored(messages: Sequence[ModelMessage], ids: Iterable[str]) -> Stored:
    """The parts of some messages that may be left out, with the ids that they got."""
    parts = (part for message in messages for part in message.parts if _may_go(message, part))
    return Stored(tuple(parts), frozenset(ids))


def still_shown(
    messages: Sequence[ModelMessage], known: Sequence[Stored], context: Context
) -> list[ModelMessage]:
    """The messages without what lies before the first that the context shows; the newest step always stays.

    `known` is in the order of the conversation. A message of which nothing is left is left out.
    """
    ids = {message.id for message in context.messages}
    first = next((i for i, item in enumerate(known) if item.ids & ids), len(known) - 1)
    kept = _left(messages, {id(part) for item in known[: max(0, first)] for part in item.parts})
    return _left(kept, _orphans(kept, known))


def _orphans(messages: Sequence[ModelMessage], known: Sequence[Stored]) -> set[int]:
    """Stored results whose call has gone: a tool may have said something besides, which is still shown."""
    calls = {part.tool_call_id for m in messages for part in m.parts if isinstance(part, BaseToolCallPart)}
    results = (part for item in known for part in item.parts if isinstance(part, ToolReturnPart))
    return {id(part) for part in results if part.tool_call_id not in calls}


def _left(messages: Sequence[ModelMessage], gone: Set[int]) -> list[ModelMessage]:
    kept = ((message, _without(message, gone)) for message in messages)
    return [left for message, left in kept if left.parts or not message.parts]


def _without(message: ModelMessage, gone: Set[int]) -> ModelMessage:
    parts: Any = [part for part in message.parts if id(part) not in gone]
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def _may_go(message: ModelMessage, part: object) -> bool:
    """Whether nothing that comes later needs the part; a compaction stands for what was there before it."""
    if isinstance(part, BaseToolCallPart | BaseToolReturnPart) and part.tool_kind in SWITCHES:
        return False
    return (
        isinstance(part, SPOKEN) if isinstance(message, ModelRequest) else not isinstance(part, CompactionPart)
    )

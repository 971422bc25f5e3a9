"""The recent messages of a thread as a model may see them: tool calls and results only in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from casenotes.types import Message, Part, ToolCall


def without_broken_pairs(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages without calls that have no result here and results that have no call before them.

    A window over a thread may begin between a call and its result, and the last call may still be
    unanswered; chat models refuse such histories. A message of which nothing is left is left out.
    """
    paired = _paired_ids(messages)
    for message in messages:
        parts = tuple(part for part in message.parts if _call_id(part) in paired)
        if len(parts) == len(message.parts):
            yield message
        elif parts or message.text.strip():
            yield replace(message, parts=parts)


def _paired_ids(messages: Sequence[Message]) -> set[str]:
    called: set[str] = set()
    paired: set[str] = set()
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCall):
            called.add(part.id)
        elif part.call_id in called:
            paired.add(part.call_id)
    return paired


def _call_id(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id

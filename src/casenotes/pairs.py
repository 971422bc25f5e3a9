"""Which result of a tool answers which call; hosts do not always give each call an id of its own."""

from __future__ import annotations

from collections.abc import Sequence

from casenotes.types import Message, ToolCall

Place = tuple[int, int]
"""Where a part stands: the number of its message, and its own in there."""


def answered(messages: Sequence[Message]) -> dict[Place, Place]:
    """The places of calls that have a result, each with the place of that.

    An id may be used again: a result belongs to the latest message that calls with its id, and there to the
    first call that waits.
    """
    waiting: dict[str, list[Place]] = {}
    found: dict[Place, Place] = {}
    for i, message in enumerate(messages):
        for j, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                same_message = [call for call in waiting.get(part.id, ()) if call[0] == i]
                waiting[part.id] = [*same_message, (i, j)]
            elif waiting.get(part.call_id):
                found[waiting[part.call_id].pop(0)] = (i, j)
    return found

"""Which of a run's messages are sent again: those that the context still shows.

A run keeps all of its messages, however long it gets; the context of each step says from where on there is
room for them. What stands in the store together is sent together or not at all, so that no call loses its
result. What is not in the store stays: the run's prompt, a history of the caller's own, and parts that the
framework itself needs. Parts are known again by identity, because the framework merges messages. What the
context shows shortened is sent as it shows it; files beside a text stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    CompactionPart,
    ModelMessage,
    ModelRequest,
    RetryFeedbackPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from casenotes.integrations.pydantic_ai_messages import from_prompt
from casenotes.types import Context, Message, Part, ToolCall, ToolResult, part_text

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


def as_shown(
    messages: Sequence[ModelMessage],
    known: Iterable[Stored],
    said: Mapping[str, Message],
    shown: Mapping[str, Message],
) -> list[ModelMessage]:
    """The messages with the texts of those in `shown`, by id, in the place of what was `said` under it."""
    new: dict[int, Any] = {}
    for item in known:
        for message_id in item.ids & shown.keys() & said.keys():
            new |= _replacements(item.parts, said[message_id], shown[message_id])
    if not new:
        return list(messages)
    sent = []
    for message in messages:
        parts: Any = [new.get(id(part), part) for part in message.parts]
        parts = [part for part in parts if part is not None]
        if parts or not message.parts:
            sent.append(replace(message, parts=parts))
    return sent


def _replacements(parts: Iterable[object], said: Message, shown: Message) -> dict[int, Any]:
    """What is sent in the place of parts, by their identity; None where nothing is."""
    missing = Counter(map(_call_id, said.parts)) - Counter(map(_call_id, shown.parts))
    waiting: dict[str, list[Part | None]] = {name: [None] * count for name, count in missing.items()}
    for ours in shown.parts:
        waiting.setdefault(_call_id(ours), []).append(ours)
    text = shown.text if shown.text != said.text else None
    new: dict[int, Any] = {}
    for part in parts:
        if isinstance(part, ToolCallPart | ToolReturnPart):
            kind = ToolCall if isinstance(part, ToolCallPart) else ToolResult
            if not any(isinstance(ours, kind) for ours in said.parts) or not waiting.get(part.tool_call_id):
                continue
            found = waiting[part.tool_call_id].pop(0)
            if found not in said.parts:
                new[id(part)] = found and _with_content(part, found)
        elif isinstance(part, TextPart | UserPromptPart):
            words = part.content if isinstance(part, TextPart) else _words(part)
            if text is not None and _is_part_of(part, words, said):
                new[id(part)] = _with_text(part, text) if text else None
                text = ""  # several parts are one message
            elif said.role == "tool" and said.parts and words and words in part_text(said.parts[-1]):
                new[id(part)] = None  # what a tool said besides ends its result
    return new


def _call_id(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id


def _is_part_of(part: TextPart | UserPromptPart, words: str, said: Message) -> bool:
    if isinstance(part, TextPart):
        return said.role == "assistant" and words in said.text
    return words == said.text if said.role == "user" else said.role == "tool" and words in said.text


def _words(part: UserPromptPart) -> str:
    return "".join(message.text for message in from_prompt(part.content))


def _with_text(part: TextPart | UserPromptPart, text: str) -> TextPart | UserPromptPart:
    if isinstance(part, TextPart) or isinstance(part.content, str):
        return replace(part, content=text)
    files = [item for item in part.content if not isinstance(item, str | TextContent)]
    return replace(part, content=[text, *files])


def _with_content(part: ToolCallPart | ToolReturnPart, ours: Part) -> ToolCallPart | ToolReturnPart:
    if isinstance(part, ToolCallPart):
        return replace(part, args=dict(ours.arguments)) if isinstance(ours, ToolCall) else part
    content = ours.content if isinstance(ours, ToolResult) else ""
    return replace(part, content=[content, *part.files] if part.files else content)


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

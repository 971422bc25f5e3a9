"""Turn what a host hands over (text, a message, several) into messages that can be stored."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from casenotes.errors import InvalidMessage
from casenotes.types import Message, Part, Role, ToolCall, ToolResult, id_problem, text_problem

Input = str | Message | Sequence[Message]


def as_messages(given: Input, role: Role) -> tuple[Message, ...]:
    """The messages of an input; plain text speaks in `role`."""
    if isinstance(given, str):
        return (Message(role, given),)
    if isinstance(given, Message):
        return (given,)
    messages = tuple(given)
    for item in messages:
        if not isinstance(item, Message):
            raise InvalidMessage(f"expected text or messages, got {type(item).__name__}: {item!r:.80}")
    return messages


def new_id(now: datetime) -> str:
    """A unique id that grows with time, so that new rows stand together in an index."""
    milliseconds = int(now.timestamp() * 1000)
    return f"{milliseconds:012x}{secrets.token_hex(10)}"


def with_identity(messages: Iterable[Message], prefix: str, first: int, now: datetime) -> list[Message]:
    """Give each message an id and a time where it has none.

    Ids follow from prefix and position, so a repeated call saves nothing twice.
    """
    return [
        replace(m, id=m.id or f"{prefix}:{first + i}", created_at=_utc(m.created_at or now))
        for i, m in enumerate(messages)
    ]


def check_message(message: Message, max_characters: int) -> None:
    """Raise InvalidMessage, naming the message and the remedy, if it cannot be stored."""
    name = f"message {message.id!r}" if message.id else "message"
    if message.id is not None and (problem := id_problem(message.id)):
        raise InvalidMessage(f"message id {problem}")
    if message.created_at is not None and message.created_at.tzinfo is None:
        raise InvalidMessage(
            f"{name}: created_at {message.created_at.isoformat()!r} has no time zone; add one, for example UTC"
        )
    size = len(message.text) + sum(_check_part(name, part) for part in message.parts)
    if size > max_characters:
        raise InvalidMessage(
            f"{name} has {size} characters; the limit is {max_characters} (setting max_message_characters)"
        )
    if problem := text_problem(message.text):
        raise InvalidMessage(f"{name}: text {problem}")
    _json_size(f"{name}: metadata", message.metadata)


def _check_part(name: str, part: Part) -> int:
    if isinstance(part, ToolResult):
        if problem := id_problem(part.call_id) or text_problem(part.content):
            raise InvalidMessage(f"{name}: tool result {problem}")
        return len(part.content)
    if isinstance(part, ToolCall):
        if problem := id_problem(part.id) or id_problem(part.name):
            raise InvalidMessage(f"{name}: tool call {problem}")
        return _json_size(f"{name}: arguments of tool call {part.name!r}", part.arguments)
    raise InvalidMessage(f"{name}: part must be ToolCall or ToolResult, got {type(part).__name__}")


def _json_size(name: str, value: object) -> int:
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"{name} cannot be written as JSON: {error}") from None
    for text in _strings(value):
        if problem := text_problem(text):
            raise InvalidMessage(f"{name} {problem}")
    return len(encoded)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)

"""Turn what a host hands over (text, a message, several) into messages that can be stored."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from casenotes.config.rules import shown
from casenotes.errors import InvalidMessage, UsageError
from casenotes.types import OUTCOMES, Message, Part, Role, ToolCall, ToolResult, id_problem, text_problem

MAX_THREAD_CHARACTERS = 10_000
MAX_NESTING = 100
Input = str | Message | Sequence[Message]


def as_messages(given: Input, role: Role) -> tuple[Message, ...]:
    """The messages of an input; plain text speaks in `role`."""
    if isinstance(given, str):
        return (Message(role, given),)
    if isinstance(given, Message):
        return (given,)
    if isinstance(given, bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise _no_messages(given)
    messages = tuple(given)
    for item in messages:
        if not isinstance(item, Message):
            raise _no_messages(item)
    return messages


def _no_messages(given: object) -> InvalidMessage:
    return InvalidMessage(f"messages hold {shown(given)}; they must be text, a Message or a list of Messages")


def new_id(now: datetime) -> str:
    """A unique id that grows with time, so that new rows stand together in an index.

    Six bytes of milliseconds and nine of chance make 24 characters: a store repeats ids in many places.
    """
    milliseconds = int(now.timestamp() * 1000)
    return _base32(milliseconds.to_bytes(6, "big") + secrets.token_bytes(9))


def _base32(data: bytes) -> str:
    """Digits and lower-case letters that sort as the bytes do."""
    return base64.b32hexencode(data).decode().lower()


def with_identity(messages: Iterable[Message], prefix: str, first: int, now: datetime) -> list[Message]:
    """Give each message an id and a time where it has none.

    Ids follow from prefix, position and content: a repeated call saves nothing twice, and a call that
    was cut off never stands in the way of another one. They begin like the prefix, and so grow with time.
    """
    return [
        replace(m, id=m.id or _message_id(m, prefix, first + i), created_at=_utc(m.created_at or now))
        for i, m in enumerate(messages)
    ]


def _message_id(message: Message, prefix: str, position: int) -> str:
    """The beginning of the prefix, the position, and 62 bits of all that is compared when it is repeated."""
    content = "\n".join([f"{prefix}:{position}", message.role, message.text, *map(_whole, message.parts)])
    digest = hashlib.sha256(content.encode("utf-8", "replace")).digest()
    return prefix[:10] + _base32(bytes([min(position, 255)]) + digest)[:14]


def _whole(part: Part) -> str:
    if isinstance(part, ToolResult):
        return f"{part.call_id} {part.is_error} {part.content}"
    arguments = json.dumps(part.arguments, ensure_ascii=False, sort_keys=True, default=str)
    return f"{part.id} {part.name} {arguments}"


def redacted(message: Message) -> Message:
    """The message with secrets masked in its text, its metadata, its tool calls and their results."""
    from casenotes.masking import mask

    parts = tuple(
        replace(part, content=mask(part.content))
        if isinstance(part, ToolResult)
        else replace(part, arguments=_redacted(part.arguments, ""))
        for part in message.parts
    )
    return replace(message, text=mask(message.text), parts=parts, metadata=_redacted(message.metadata, ""))


def _redacted(value: Any, name: str) -> Any:
    """A value of JSON with every text masked in view of the name it stands under."""
    if isinstance(value, str):
        return _masked_under(name, value)
    if isinstance(value, Mapping):
        own = value.get("name") or value.get("key")
        pair = own if isinstance(own, str) and "value" in value else None
        return {
            key: _redacted(item, pair if pair and key == "value" else str(key)) for key, item in value.items()
        }
    return [_redacted(item, name) for item in value] if isinstance(value, list | tuple) else value


def _masked_under(name: str, text: str) -> str:
    """A text masked as what it is assigned to tells: `password` says what the value alone does not."""
    from casenotes.masking import mask

    head = f"{name}: "
    masked = mask(head + text)
    return masked[len(head) :] if masked.startswith(head) else mask(text)


def check_outcome(outcome: str) -> None:
    """Raise if a turn or a run cannot end like that."""
    if outcome not in OUTCOMES:
        raise UsageError(f"outcome {outcome!r} is not one of {', '.join(OUTCOMES)}")


def check_message(message: Message, max_characters: float = inf) -> None:
    """Raise InvalidMessage, naming the message and the remedy, if it cannot be stored."""
    name = f"message {message.id!r}" if message.id else "message"
    if message.id is not None and (problem := id_problem(message.id)):
        raise InvalidMessage(f"message id {problem}")
    if message.created_at is not None and not isinstance(message.created_at, datetime):
        raise InvalidMessage(
            f"{name}: created_at is {shown(message.created_at)}; it must be a datetime with a time zone"
        )
    if message.created_at is not None and message.created_at.tzinfo is None:
        raise InvalidMessage(
            f"{name}: created_at {message.created_at.isoformat()!r} has no time zone; add one, for example UTC"
        )
    if not isinstance(message.metadata, Mapping):
        raise InvalidMessage(f"{name}: metadata is {shown(message.metadata)}; it must be a mapping")
    if message.tokens is not None and not isinstance(message.tokens, int):
        raise InvalidMessage(f"{name}: tokens is {shown(message.tokens)}; it must be a whole number or None")
    size = len(message.text) + sum(_check_part(name, part) for part in message.parts)
    size += json_size(f"{name}: metadata", message.metadata) if message.metadata else 0
    if size > max_characters:
        raise InvalidMessage(
            f"{name} has {size} characters; the limit is {max_characters} (setting max_message_characters)"
        )
    if problem := text_problem(message.text):
        raise InvalidMessage(f"{name}: text {problem}")


def characters(message: Message) -> int:
    """About how long a message is, before anything of it was checked."""
    size = len(message.text)
    for part in message.parts:
        arguments = getattr(part, "arguments", None)
        values = arguments.values() if isinstance(arguments, Mapping) else ()
        texts = (getattr(part, "content", ""), *values)
        size += sum(len(text) for text in texts if isinstance(text, str))
    return size


def check_thread(title: str | None, metadata: Mapping[str, Any] | None) -> None:
    """Raise InvalidMessage if a thread's title or metadata cannot be stored."""
    if title is not None and not isinstance(title, str):
        raise InvalidMessage(f"the title of a thread must be text, got {type(title).__name__}")
    if title is not None and (problem := text_problem(title)):
        raise InvalidMessage(f"the title of a thread {problem}")
    size = len(title or "") + json_size("the metadata of a thread", metadata or {})
    if size > MAX_THREAD_CHARACTERS:
        raise InvalidMessage(
            f"title and metadata of a thread have {size} characters; the limit is {MAX_THREAD_CHARACTERS}"
        )


def _check_part(name: str, part: Part) -> int:
    if isinstance(part, ToolResult):
        return _check_tool_result(name, part)
    if isinstance(part, ToolCall):
        if problem := id_problem(part.id) or id_problem(part.name):
            raise InvalidMessage(f"{name}: tool call {problem}")
        if not isinstance(part.arguments, Mapping):
            kind = type(part.arguments).__name__
            raise InvalidMessage(f"{name}: arguments of tool call {part.name!r} must be a mapping, got {kind}")
        return json_size(f"{name}: arguments of tool call {part.name!r}", part.arguments)
    raise InvalidMessage(f"{name}: part must be ToolCall or ToolResult, got {type(part).__name__}")


def _check_tool_result(name: str, part: ToolResult) -> int:
    if not isinstance(part.content, str):
        raise InvalidMessage(
            f"{name}: content of a tool result must be text, got {type(part.content).__name__}"
        )
    if not isinstance(part.is_error, bool):
        raise InvalidMessage(
            f"{name}: is_error of a tool result is {shown(part.is_error)}; it must be True or False"
        )
    if problem := id_problem(part.call_id) or text_problem(part.content):
        raise InvalidMessage(f"{name}: tool result {problem}")
    return len(part.content)


def json_size(name: str, value: object) -> int:
    """How long a value is as JSON; InvalidMessage if it is none, or holds text that cannot be stored."""
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"{name} cannot be written as JSON: {error}") from None
    for text in _strings(name, value):
        if problem := text_problem(text):
            raise InvalidMessage(f"{name} {problem}")
    return len(encoded)


def _strings(name: str, value: object) -> Iterator[str]:
    """Every text inside, level by level: what is nested deeper could be written but not read back."""
    level = [value]
    for _ in range(MAX_NESTING):
        yield from (item for item in level if isinstance(item, str))
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise InvalidMessage(f"{name} is nested deeper than {MAX_NESTING} levels")


def _children(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    return value if isinstance(value, (list, tuple)) else ()


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(f"created_at {time.isoformat()!r} is outside the years 1 to 9999 in UTC") from None

"""Between values and rows, the same for both backends: parts and metadata as JSON, SQL by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from casenotes.errors import InvalidScope, MessageConflict, StoreError
from casenotes.speakers import speaker_name
from casenotes.stores.base import Document, SpaceKey, Unembedded
from casenotes.types import Message, Part, Scope, Thread, ToolCall, ToolResult

QUERY_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
AFTER_ALL_SEQS = 2**62
MIGRATION_NAME = re.compile(r"^(\d{4})_(\w+)\.sql$")


def scope_key(scope: Scope) -> dict[str, str]:
    """Parameters of agent and resource; no resource is the empty string in the tables."""
    return {"agent": scope.agent_id, "resource": scope.resource_id or ""}


def thread_key(scope: Scope) -> dict[str, str]:
    """Parameters of agent, resource and thread."""
    if scope.thread_id is None:
        raise no_thread(scope)
    return {**scope_key(scope), "thread": scope.thread_id}


def no_thread(scope: Scope) -> InvalidScope:
    """The error for a scope that names no thread where one is needed."""
    return InvalidScope(f"{scope!r} has no thread_id; this call works on one thread")


def space_values(space: SpaceKey) -> dict[str, str | int | bool]:
    """Parameters of an embedding space."""
    return dict(zip(("model", "dimensions", "normalised"), space, strict=True))


def cursor_values(after: Unembedded | None) -> dict[str, str | int]:
    """Parameters of a place in the order of threads and sequence numbers, or of entries behind them."""
    is_entry = after is not None and after.kind == "entry"
    thread, seq = ("", 0) if after is None or is_entry else after.place
    entry = after.id if after is not None and is_entry else ""
    return {"after_thread": thread, "after_seq": seq, "after_entry": entry}


def unembedded_message(row: Sequence[Any]) -> Unembedded:
    """A message that waits for a vector."""
    message_id, thread_id, seq, role, text, parts, metadata = row
    if parts:
        text = Message(role, text, parts=decode_parts(parts)).search_text
    return Unembedded("message", message_id, text, (thread_id, seq), _speaker(role, metadata))


def unembedded_entry(row: Sequence[Any]) -> Unembedded:
    """An entry that waits for a vector."""
    return Unembedded("entry", row[0], row[1], ("", 0))


def no_space(space_id: int) -> StoreError:
    """The error for an embedding space that is not in the store."""
    return StoreError(f"embedding space {space_id} is not in the store any more; start the command again")


def message_from_row(row: Sequence[Any], time: Callable[[Any], datetime]) -> Message:
    """The message of a row; `time` reads the backend's form of a time."""
    message_id, thread_id, seq, role, text, parts, metadata, created_at = row
    return Message(
        role,
        text,
        id=message_id,
        created_at=time(created_at),
        parts=decode_parts(parts),
        metadata=decode_metadata(metadata),
        thread_id=thread_id,
        seq=seq,
    )


def thread_from_row(row: Sequence[Any], time: Callable[[Any], datetime]) -> Thread:
    """A thread as listed."""
    thread_id, title, metadata, first_words, count, created_at, updated_at, parent_id, apart = row
    named = title is not None
    return Thread(
        thread_id,
        title if named else first_words,
        decode_metadata(metadata),
        count,
        time(created_at),
        time(updated_at),
        named,
        parent_id,
        bool(apart),
    )


def document_from_row(row: Sequence[Any], seconds: Callable[[Any], float]) -> Document:
    """What search reads of a message row; `seconds` turns the backend's time into seconds since 1970."""
    message_id, thread_id, created_at, role, text, parts, metadata = row
    if parts:
        text = Message(role, text, parts=decode_parts(parts)).search_text
    speaker = _speaker(role, metadata)
    return Document("message", message_id, thread_id, seconds(created_at), role, text, speaker=speaker)


def _speaker(role: str, metadata: str | None) -> str | None:
    return speaker_name(role, decode_metadata(metadata)) if metadata else None


def encode_parts(parts: Sequence[Part]) -> str | None:
    """Parts as JSON, None if there are none."""
    return json.dumps(parts_to_json(parts), ensure_ascii=False) if parts else None


def decode_parts(stored: str | None) -> tuple[Part, ...]:
    """The parts of a row."""
    return tuple(part_from_json(item) for item in json.loads(stored)) if stored else ()


def encode_metadata(metadata: Mapping[str, Any]) -> str | None:
    """Metadata as JSON, None if empty."""
    return json.dumps(metadata, ensure_ascii=False) if metadata else None


def decode_metadata(stored: str | None) -> dict[str, Any]:
    """The metadata of a row."""
    return json.loads(stored) if stored else {}


def parts_to_json(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Parts in their JSON form."""
    return [_part_to_json(part) for part in parts]


def part_from_json(item: Mapping[str, Any]) -> Part:
    """One part of its JSON form."""
    if item["type"] == "tool_call":
        return ToolCall(item["id"], item["name"], item["arguments"])
    return ToolResult(item["call_id"], item["content"], item["is_error"])


def _part_to_json(part: Part) -> dict[str, Any]:
    if isinstance(part, ToolCall):
        return {
            "type": "tool_call",
            "id": part.id,
            "name": part.name,
            "arguments": dict(part.arguments),
        }
    return {
        "type": "tool_result",
        "call_id": part.call_id,
        "content": part.content,
        "is_error": part.is_error,
    }


def check_repetition(stored: Message, given: Message) -> None:
    """Raise MessageConflict unless the same was said: time and metadata may differ."""
    said, repeated = (
        (message.thread_id, message.role, message.text, encode_parts(message.parts))
        for message in (stored, given)
    )
    if said != repeated:
        raise MessageConflict(
            f"message id {given.id!r} is already taken in this scope by another message "
            f"(thread {stored.thread_id!r}, role {stored.role}); use another id"
        )


@cache
def named_queries(package: str) -> dict[str, str]:
    """The statements of a package's queries.sql by their `-- name:` lines."""
    text = resources.files(package).joinpath("queries.sql").read_text("utf-8")
    pieces = QUERY_NAME.split(text)
    return {name: sql.strip() for name, sql in zip(pieces[1::2], pieces[2::2], strict=True)}


def migrations(package: str) -> Iterator[tuple[int, str, str]]:
    """Number, name and SQL of a package's migrations, in order."""
    folder = resources.files(package).joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if match := MIGRATION_NAME.match(file.name):
            yield int(match[1]), match[2], file.read_text("utf-8")

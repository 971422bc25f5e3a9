"""The JSONL format: one message a line, read leniently because real files are untidy.

    {"id": "m1", "scope": "user-42", "thread": "t-7", "role": "user", "time": "2026-03-01", "text": "…"}

`scope` is the resource. Our own export adds `agent`, `parts` and `metadata`, and lines with
`"kind": "thread"` for titles. A line is either understood whole or refused with a reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, BinaryIO

from casenotes.errors import CasenotesError, InvalidMessage
from casenotes.stores.rows import part_from_json
from casenotes.types import ROLES, Message, Role, Scope

MAX_LINE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a line that does not say it belongs to."""

    agent: str
    resource: str | None
    thread: str
    timezone: tzinfo
    now: datetime


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message that was understood, and what was assumed to understand it."""

    number: int
    scope: Scope
    message: Message
    replaced_role: str | None = None
    assumed_time: bool = False


@dataclass(frozen=True, slots=True)
class ThreadLine:
    """Title and metadata of a thread."""

    number: int
    scope: Scope
    title: str | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not understood."""

    number: int
    reason: str


Line = MessageLine | ThreadLine | RefusedLine


def read_lines(path: Path, options: ReadOptions) -> Iterator[tuple[Line, int]]:
    """Every line that is not blank, with the number of bytes read so far."""
    positions: dict[Scope, int] = {}
    with path.open("rb") as file:
        for number, raw in _raw_lines(file):
            yield _read_line(number, raw, options, positions), file.tell()


def _raw_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines that are not blank; None for a line beyond the limit, which is passed over."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE_BYTES)
            yield number, None
        elif raw.strip():
            yield number, raw


def _read_line(number: int, raw: bytes | None, options: ReadOptions, positions: dict[Scope, int]) -> Line:
    if raw is None:
        return RefusedLine(number, f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB")
    try:
        item = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        if not isinstance(item, dict):
            return RefusedLine(number, f"expected a JSON object, got {type(item).__name__}")
        if item.get("kind", "message") == "thread":
            return _thread_line(number, item, options)
        return _message_line(number, item, options, positions)
    except UnicodeDecodeError as error:
        return RefusedLine(number, f"not valid UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        return RefusedLine(number, f"not valid JSON: {error.msg} at column {error.colno}")
    except RecursionError:
        return RefusedLine(number, "not valid JSON: nested too deeply")
    except CasenotesError as error:
        return RefusedLine(number, str(error))
    except ValueError as error:  # for example a number of thousands of digits
        return RefusedLine(number, f"not usable: {error}")


def _thread_line(number: int, item: Mapping[str, Any], options: ReadOptions) -> ThreadLine:
    title = item.get("title")
    if title is not None and not isinstance(title, str):
        raise InvalidMessage("the field 'title' must be a string")
    metadata = _metadata(item.get("metadata"), None) or None
    return ThreadLine(number, _scope(item, options), title, metadata)


def _message_line(
    number: int, item: Mapping[str, Any], options: ReadOptions, positions: dict[Scope, int]
) -> MessageLine:
    scope = _scope(item, options)
    position = positions[scope] = positions.get(scope, 0) + 1
    text = item.get("text")
    if not isinstance(text, str):
        raise InvalidMessage("no text: the field 'text' must be a string")
    role, replaced = _role(item.get("role"))
    metadata = _metadata(item.get("metadata"), replaced)
    time = _time(item.get("time"), options)
    message = Message(
        role,
        text,
        id=_id(item.get("id")) or _derived_id(scope, position, role, text),
        created_at=time or options.now,
        parts=_parts(item.get("parts")),
        metadata=metadata,
    )
    return MessageLine(number, scope, message, replaced, time is None)


def _scope(item: Mapping[str, Any], options: ReadOptions) -> Scope:
    resource = item.get("scope") if item.get("scope") is not None else options.resource
    if resource is None and not ("scope" in item and "agent" in item):
        raise InvalidMessage("no scope: add the field 'scope', or import with --resource")
    agent = options.agent if item.get("agent") is None else item["agent"]
    thread = options.thread if item.get("thread") is None else item["thread"]
    return Scope(agent, resource, thread)


def _role(given: object) -> tuple[Role, str | None]:
    """The role, and what it replaces: speakers we do not know speak as users."""
    for role in ROLES:
        if given == role:
            return role, None
    if given is None:
        return "user", None
    return "user", str(given)


def _metadata(given: object, replaced_role: str | None) -> dict[str, Any]:
    if given is not None and not isinstance(given, dict):
        raise InvalidMessage("the field 'metadata' must be an object")
    return {**(given or {}), **({"role": replaced_role} if replaced_role else {})}


def _id(given: object) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int):
        return str(given)
    raise InvalidMessage("the field 'id' must be a string or a whole number")


def _derived_id(scope: Scope, position: int, role: str, text: str) -> str:
    """The same line at the same place of its thread gets the same id, so a repeated import adds nothing."""
    key = json.dumps([scope.thread_id, position, role, text])
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _time(given: object, options: ReadOptions) -> datetime | None:
    """A time without zone is in the options' zone, a date alone is midnight; None if there is none."""
    if given is None or given == "":
        return None
    try:
        if isinstance(given, (int, float)) and not isinstance(given, bool):
            return datetime.fromtimestamp(given, UTC)
        time = datetime.fromisoformat(str(given))
        return (time if time.tzinfo else time.replace(tzinfo=options.timezone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidMessage(f"time {given!r} is not understood; use ISO 8601") from None


def _parts(given: object) -> tuple[Any, ...]:
    try:
        return tuple(part_from_json(part) for part in given or ())  # type: ignore[attr-defined]
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidMessage(f"the field 'parts' is not understood: {error!r}") from None

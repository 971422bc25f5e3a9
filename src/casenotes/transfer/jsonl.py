"""The JSONL format: one message a line, read leniently because real files are untidy.

    {"id": "m1", "scope": "user-42", "thread": "t-7", "role": "user", "time": "2026-03-01", "text": "…"}

`scope` is the resource. Our own export adds `agent`, `parts` and `metadata`, for threads of sub-agents
`parent` and `shares_memory`, and lines with `"kind": "thread"` for titles. A line is either understood whole
or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from casenotes.errors import CasenotesError, InvalidMessage
from casenotes.stores.rows import part_from_json
from casenotes.transfer.lines import (
    Format,
    Line,
    MessageLine,
    ReadOptions,
    RefusedLine,
    ThreadLine,
    Unreadable,
    Value,
    derived_id,
    known_role,
    own_id,
    parse_time,
)
from casenotes.types import ChildScope, Message, Scope


def read_lines(values: Iterable[Value], options: ReadOptions) -> Iterator[tuple[Line, int]]:
    """Every line, with the number of bytes read so far."""
    positions: dict[Scope, int] = {}
    for number, value, position in values:
        yield _read_line(number, value, options, positions), position


def _read_line(number: int, item: object, options: ReadOptions, positions: dict[Scope, int]) -> Line:
    if isinstance(item, Unreadable):
        return RefusedLine(number, item.reason)
    if not isinstance(item, dict):
        return RefusedLine(number, f"expected a JSON object, got {type(item).__name__}")
    try:
        if item.get("kind", "message") == "thread":
            return _thread_line(number, item, options)
        return _message_line(number, item, options, positions)
    except CasenotesError as error:
        return RefusedLine(number, str(error))


def _thread_line(number: int, item: Mapping[str, Any], options: ReadOptions) -> ThreadLine:
    title = item.get("title")
    if title is not None and not isinstance(title, str):
        raise InvalidMessage("the field 'title' must be a string")
    metadata = _metadata(item.get("metadata")) or None
    return ThreadLine(number, _scope(item, options), title, metadata)


def _message_line(
    number: int, item: Mapping[str, Any], options: ReadOptions, positions: dict[Scope, int]
) -> MessageLine:
    scope = _scope(item, options)
    position = positions[scope] = positions.get(scope, 0) + 1
    text = item.get("text", item.get("content"))
    if not isinstance(text, str):
        raise InvalidMessage("no text: the field 'text' must be a string")
    speaker, given_role = _text(item, "speaker"), item.get("role")
    role, replaced = known_role(speaker if given_role is None else given_role)
    if given_role is not None:
        speaker = speaker or _text(item, "name")
    metadata = _metadata(item.get("metadata"), replaced, speaker)
    time = parse_time(item.get("time"), options)
    message = Message(
        role,
        text,
        id=own_id(item.get("id")) or derived_id(scope, position, role, text),
        created_at=time or options.now,
        parts=_parts(item.get("parts")),
        metadata=metadata,
    )
    return MessageLine(number, scope, message, replaced, time is None, child=_child(item, scope))


def _child(item: Mapping[str, Any], scope: Scope) -> ChildScope | None:
    """Where a sub-agent works, if the message was said there; other files name other things `parent`."""
    parent, shares = item.get("parent"), item.get("shares_memory")
    if parent is None or shares is None:
        return None
    if not isinstance(shares, bool):
        raise InvalidMessage(f"the field 'shares_memory' is {shares!r:.80}; it must be true or false")
    return ChildScope(replace(scope, thread_id=parent), "", str(scope.thread_id), shares)


def _scope(item: Mapping[str, Any], options: ReadOptions) -> Scope:
    resource = item.get("scope") if item.get("scope") is not None else options.resource
    if resource is None and not ("scope" in item and "agent" in item):
        raise InvalidMessage("no scope: add the field 'scope', or import with --resource")
    agent = options.agent if item.get("agent") is None else item["agent"]
    thread = options.thread if item.get("thread") is None else item["thread"]
    return Scope(agent, resource, thread)


def _text(item: Mapping[str, Any], name: str) -> str | None:
    value = item.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _metadata(given: object, replaced_role: str | None = None, speaker: str | None = None) -> dict[str, Any]:
    if given is not None and not isinstance(given, dict):
        raise InvalidMessage("the field 'metadata' must be an object")
    noted = {"role": replaced_role, "speaker": speaker if speaker != replaced_role else None}
    return {**(given or {}), **{key: value for key, value in noted.items() if value}}


def _parts(given: object) -> tuple[Any, ...]:
    try:
        return tuple(part_from_json(part) for part in given or ())  # type: ignore[attr-defined]
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidMessage(f"the field 'parts' is not understood: {error!r}") from None


def _recognises(value: object) -> bool:
    return isinstance(value, dict) and ("text" in value or "scope" in value or value.get("kind") == "thread")


FORMAT = Format("jsonl", "JSONL with one message a line", _recognises, read_lines, names_resource=True)

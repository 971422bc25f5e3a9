"""What every reader of files yields, and how it reads the fields that all formats share.

A line is a message, a title, something refused, or something left out. `number` counts the entries of
the file (for JSONL its lines); an entry that is a whole conversation also counts its messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from casenotes.errors import InvalidMessage
from casenotes.speakers import role_of
from casenotes.types import ChildScope, Message, Role, Scope


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a line that does not say it belongs to."""

    agent: str
    resource: str | None
    thread: str
    timezone: tzinfo
    now: datetime


class Place(NamedTuple):
    """Where in a file something stands."""

    number: int
    message: int | None = None


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message that was understood, and what was assumed to understand it; `child` if a sub-agent heard it."""

    number: int
    scope: Scope
    message: Message
    replaced_role: str | None = None
    assumed_time: bool = False
    message_number: int | None = None
    child: ChildScope | None = None

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.number, self.message_number)


@dataclass(frozen=True, slots=True)
class ThreadLine:
    """Title and metadata of a thread."""

    number: int
    scope: Scope
    title: str | None
    metadata: Mapping[str, Any] | None

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.number)


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not understood."""

    number: int
    reason: str
    message_number: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOutLine:
    """Something that was understood and is not kept, for example images."""

    what: str
    count: int


Line = MessageLine | ThreadLine | RefusedLine | LeftOutLine


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for an entry that is no JSON."""

    reason: str


class Value(NamedTuple):
    """One entry of a file, and the number of bytes read so far."""

    number: int
    value: object
    position: int


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write conversations down that the import understands."""

    name: str
    title: str
    recognises: Callable[[object], bool]
    read: Callable[[Iterable[Value], ReadOptions], Iterator[tuple[Line, int]]]
    names_resource: bool = False


def known_role(given: object) -> tuple[Role, str | None]:
    """The role, and the name of a speaker, or of a kind of text, that stood in its place."""
    if given is None:
        return "user", None
    role = role_of(given)
    return (role, None) if role else ("user", str(given))


def own_id(given: object) -> str | None:
    """The id that a file gives."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int):
        return str(given)
    raise InvalidMessage("the field 'id' must be a string or a whole number")


def derived_id(scope: Scope, position: int | str, role: str, text: str) -> str:
    """The same line at the same place of its thread gets the same id, so a repeated import adds nothing."""
    key = json.dumps([scope.thread_id, position, role, text])
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def parse_time(given: object, options: ReadOptions) -> datetime | None:
    """A time without zone is in the options' zone, a date alone is midnight; None if there is none."""
    if given is None or given == "":
        return None
    try:
        if isinstance(given, (int, float)) and not isinstance(given, bool):
            return datetime.fromtimestamp(given, UTC)
        time = datetime.fromisoformat(str(given))
        return (time if time.tzinfo else time.replace(tzinfo=options.timezone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidMessage(f"time {given!r:.80} is not understood; use ISO 8601") from None

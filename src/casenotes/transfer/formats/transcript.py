"""From the messages of another format to lines: pieces said in one role become one message.

A format only says which pieces a message of its file has. One message may hold a call, its result and
the answer; in the log these are three messages, the first with the id of the file, the others numbered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from casenotes.errors import CasenotesError, InvalidMessage
from casenotes.transfer.lines import (
    Format,
    LeftOutLine,
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
from casenotes.types import Message, Part, Scope, ToolCall, ToolResult

SAMPLED_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Text, a call or a result, said in one role; a part whose id the file does not give has the id ''."""

    role: str
    text: str = ""
    part: Part | None = None
    tool: str | None = None
    time: object = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be lost without it."""
        return self.part is None and not self.text.strip()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Content that is not kept."""

    what: str


REASONING = LeftOut("reasoning")
IMAGE = LeftOut("images")
AUDIO = LeftOut("audio")
FILE = LeftOut("files")
HIDDEN = LeftOut("hidden messages")
EMPTY = LeftOut("empty messages")
OTHER_BRANCH = LeftOut("messages of other branches")

Content = Piece | LeftOut


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message of a file."""

    content: Iterable[Content]
    id: object = None
    time: object = None
    name: object = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of one thread; without an id it is named after the file and its place in it."""

    messages: Sequence[object]
    id: object = None
    title: str | None = None
    other_branches: int = 0


@dataclass(frozen=True, slots=True)
class Grammar:
    """How a format is read: the conversation an entry is (None: it is a message itself), and a message."""

    conversation: Callable[[object], Conversation | None]
    message: Callable[[Mapping[str, Any]], Spoken]


def conversation_format(
    name: str, title: str, recognises: Callable[[object], bool], grammar: Grammar
) -> Format:
    """A format whose files hold conversations."""
    return Format(name, title, recognises, partial(_read, grammar))


def listed_conversation(value: object) -> Conversation | None:
    """A list of messages, or an object with the field `messages`."""
    if isinstance(value, list):
        return Conversation(value)
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        given = (value.get(name) for name in ("conversation_id", "thread_id", "id"))
        return Conversation(value["messages"], next(filter(None, given), None), text_field(value, "title"))
    return None


def recognises_listed(is_message: Callable[[Mapping[str, Any]], bool], value: object) -> bool:
    """Whether an entry is a message, or a list of messages, that `is_message` knows."""
    listed = value["messages"] if isinstance(value, Mapping) and "messages" in value else value
    sample = listed[:SAMPLED_MESSAGES] if isinstance(listed, list) else [listed]
    return any(isinstance(item, Mapping) and is_message(item) for item in sample)


def text_field(item: Mapping[str, Any], name: str) -> str | None:
    """The text in a field that may be missing."""
    value = item.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidMessage(f"the field {name!r} must be text, got {type(value).__name__}")


def list_field(item: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a field that may be missing."""
    value = item.get(name)
    if value is None or isinstance(value, list):
        return value or []
    raise InvalidMessage(f"the field {name!r} must be a list, got {type(value).__name__}")


def object_field(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object in a field that may be missing."""
    value = item.get(name)
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise InvalidMessage(f"the field {name!r} must be an object, got {type(value).__name__}")


def as_object(value: object, what: str) -> Mapping[str, Any]:
    """The value, if it is an object."""
    if isinstance(value, Mapping):
        return value
    raise InvalidMessage(f"{what} must be an object, got {type(value).__name__}")


def _read(grammar: Grammar, values: Iterable[Value], options: ReadOptions) -> Iterator[tuple[Line, int]]:
    whole_file = OpenThread(Scope(options.agent, options.resource, options.thread), options)
    for number, value, position in values:
        for line in _entry_lines(grammar, number, value, whole_file, options):
            yield line, position


def _entry_lines(
    grammar: Grammar, number: int, value: object, whole_file: OpenThread, options: ReadOptions
) -> Iterator[Line]:
    if isinstance(value, Unreadable):
        yield RefusedLine(number, value.reason)
        return
    try:
        conversation = grammar.conversation(value)
        if conversation is None:
            yield from _counted(whole_file.lines(grammar, value, number, None))
            return
        thread_id = own_id(conversation.id) or f"{options.thread}-{number}"
        thread = OpenThread(Scope(options.agent, options.resource, thread_id), options)
    except CasenotesError as error:
        yield RefusedLine(number, str(error))
        return
    yield from _conversation_lines(grammar, number, conversation, thread)


def _conversation_lines(
    grammar: Grammar, number: int, conversation: Conversation, thread: OpenThread
) -> Iterator[Line]:
    said_something = False
    for position, item in enumerate(conversation.messages, 1):
        for line in _counted(thread.lines(grammar, item, number, position)):
            said_something |= isinstance(line, MessageLine)
            yield line
    if conversation.other_branches:
        yield LeftOutLine(OTHER_BRANCH.what, conversation.other_branches)
    if conversation.title and said_something:
        yield ThreadLine(number, thread.scope, conversation.title, None)


def _counted(lines: Iterable[Line | LeftOut]) -> Iterator[Line]:
    left_out: Counter[str] = Counter()
    for line in lines:
        if isinstance(line, LeftOut):
            left_out[line.what] += 1
        else:
            yield line
    for what, count in left_out.items():
        yield LeftOutLine(what, count)


@dataclass(slots=True)
class OpenThread:
    """A thread that is being filled: it knows which calls wait for their result."""

    scope: Scope
    options: ReadOptions
    last_time: datetime | None = None
    calls: OpenCalls = field(default_factory=lambda: OpenCalls())

    def lines(
        self, grammar: Grammar, item: object, number: int, position: int | None
    ) -> Sequence[Line | LeftOut]:
        """What becomes of one message of the file."""
        try:
            spoken = grammar.message(as_object(item, "a message"))
            content = list(spoken.content)
            pieces = [piece for piece in content if isinstance(piece, Piece) and not piece.is_empty]
            left_out = [what for what in content if isinstance(what, LeftOut)]
            if not pieces:
                return left_out or [EMPTY]
            return [*self._messages(spoken, pieces, number, position), *left_out]
        except CasenotesError as error:
            return [RefusedLine(number, str(error), position)]

    def _messages(
        self, spoken: Spoken, pieces: Sequence[Piece], number: int, position: int | None
    ) -> Iterator[MessageLine]:
        for turn, (role, group) in enumerate(groupby(pieces, key=lambda piece: piece.role), 1):
            message, replaced, assumed = self._message(spoken, role, list(group), position or number, turn)
            yield MessageLine(number, self.scope, message, replaced, assumed, position)

    def _message(
        self, spoken: Spoken, given_role: str, pieces: Sequence[Piece], position: int, turn: int
    ) -> tuple[Message, str | None, bool]:
        role, replaced = known_role(given_role)
        given = own_id(spoken.id)
        time = parse_time(next((p.time for p in pieces if p.time), spoken.time), self.options)
        message = Message(
            role,
            "\n".join(piece.text for piece in pieces if piece.text),
            created_at=time or self.last_time or self.options.now,
            parts=tuple(self._parts(pieces, f"{given or position}:{turn}")),
            metadata=_metadata(spoken.name, replaced),
        )
        own = f"{given}:{turn}" if given and turn > 1 else given
        derived = derived_id(self.scope, f"{position}.{turn}", role, message.search_text)
        self.last_time = time or self.last_time
        return replace(message, id=own or derived), replaced, time is None

    def _parts(self, pieces: Iterable[Piece], place: str) -> Iterator[Part]:
        for index, piece in enumerate(pieces, 1):
            if isinstance(piece.part, ToolCall):
                yield self.calls.identified_call(piece.part, f"call:{place}:{index}")
            elif isinstance(piece.part, ToolResult):
                yield self.calls.identified_result(piece.part, piece.tool or "", f"call:{place}:{index}")


def _metadata(name: object, replaced_role: str | None) -> dict[str, Any]:
    given = {"name": name, "role": replaced_role}
    return {key: value for key, value in given.items() if isinstance(value, str) and value}


class OpenCalls:
    """Finds the call that a result without id answers, the same one on every import."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, None] = OrderedDict()
        self._by_tool: dict[str, deque[str]] = {}
        self._last: dict[str, str] = {}

    def identified_call(self, call: ToolCall, new_id: str) -> ToolCall:
        """The call with an id, which is now open."""
        call = replace(call, id=call.id or new_id)
        self._open[call.id] = None
        self._by_tool.setdefault(call.name, deque()).append(call.id)
        self._last[call.name] = call.id
        return call

    def identified_result(self, result: ToolResult, tool: str, new_id: str) -> ToolResult:
        """The result with the id of its call, which is then answered."""
        call_id = result.call_id or self._oldest(tool) or new_id
        self._open.pop(call_id, None)
        return replace(result, call_id=call_id)

    def _oldest(self, tool: str) -> str | None:
        """An open call of that tool, else its last call (tools may answer twice), else any open call."""
        waiting = self._by_tool.get(tool, deque())
        while waiting:
            if (call_id := waiting.popleft()) in self._open:
                return call_id
        return self._last.get(tool) or next(iter(self._open), None)

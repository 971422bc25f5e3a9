"""The values that travel between the parts: frozen, without behaviour beyond reading themselves."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from casenotes.errors import InvalidMessage, InvalidScope

Role = Literal["user", "assistant", "tool", "system"]
Outcome = Literal["success", "failure", "aborted"]
HitKind = Literal["entry", "message"]
EntryStatus = Literal["active", "superseded", "quarantined", "forgotten", "dropped"]
Origin = Literal["learned", "remembered", "merged"]
Actor = Literal["reflector", "user", "audit", "rebuild"]
CandidateStatus = Literal["stored", "corroborated", "superseded", "quarantined", "rejected"]
LearnStatus = Literal["queued", "learned", "failed", "skipped"]
StepStatus = Literal["pending", "in progress", "done", "failed", "skipped"]
Priority = Literal["critical", "important", "info", "completion"]
ObservationStatus = Literal["ready", "active", "superseded", "dropped", "quarantined"]

ROLES: tuple[Role, ...] = get_args(Role)
SPEAKERS: tuple[Role, ...] = ("user", "assistant")
"""Who says something; tools and systems only give information."""

STEP_STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
MAX_ID_BYTES = 512
RECALL_TOOL = "recall_memory"
READ_TOOL = "read_message"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is: an agent, the resource it serves, and one conversation between them.

    Without a `resource_id` only what belongs to the thread works; nothing is recalled across threads.
    """

    agent_id: str
    resource_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        if self.agent_id is None:
            raise InvalidScope("agent_id is None; every scope needs an agent id")
        for name in ("agent_id", "resource_id", "thread_id"):
            value = getattr(self, name)
            if value is not None and (problem := id_problem(value)):
                raise InvalidScope(f"{name} {problem}")

    def child(self, name: str, *, shares_memory: bool = False) -> ChildScope:
        """A new scope for one run of a sub-agent under this conversation."""
        if self.thread_id is None:
            raise InvalidScope(f"{self!r} has no thread_id; a sub-agent works under a conversation")
        if name == "":
            raise InvalidScope("the name of a sub-agent is empty; say what it is called")
        return ChildScope(self, name, f"{self.thread_id}/{name}-{secrets.token_hex(4)}", shares_memory)

    @property
    def owner(self) -> Scope:
        """Agent and resource without the thread."""
        return Scope(self.agent_id, self.resource_id) if self.thread_id else self


@dataclass(frozen=True, slots=True)
class ChildScope:
    """Where a sub-agent works: a thread of its own, erased together with its user's data.

    It sees no memory of its parent and leaves nothing in it, unless it `shares_memory`; what it failed at
    is noted in the parent's thread.
    """

    parent: Scope
    name: str
    thread_id: str
    shares_memory: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.parent, Scope) or self.parent.thread_id is None:
            raise InvalidScope(
                f"{self.parent!r} is no conversation; a sub-agent works under a Scope with a thread_id"
            )
        if self.name != "" and (problem := id_problem(self.name)):  # it is not known of imported threads
            raise InvalidScope(f"the name of a sub-agent {problem}")
        if problem := id_problem(self.thread_id):
            raise InvalidScope(f"the thread_id of a sub-agent {problem}")
        if not isinstance(self.shares_memory, bool):
            raise InvalidScope(f"shares_memory is {self.shares_memory!r}; it must be True or False")

    @property
    def scope(self) -> Scope:
        """The sub-agent's own thread."""
        return Scope(self.parent.agent_id, self.parent.resource_id, self.thread_id)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the agent made: part of an assistant message."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered: part of a tool message."""

    call_id: str
    content: str
    is_error: bool = False


Part = ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One thing said in a thread. The log fills in what is None: id, time, thread and sequence.

    `metadata["speaker"]` names who said it, where that is neither the agent's user nor the agent.
    `tokens` is what it takes of a prompt, where it was counted before it was saved.
    """

    role: Role
    text: str
    id: str | None = None
    created_at: datetime | None = None
    parts: tuple[Part, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    thread_id: str | None = None
    seq: int | None = None
    tokens: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InvalidMessage(f"role {self.role!r} is not one of {', '.join(ROLES)}")
        if not isinstance(self.text, str):
            raise InvalidMessage(f"text must be a string, got {type(self.text).__name__}")
        if not isinstance(self.parts, tuple):
            if not isinstance(self.parts, Iterable):
                raise InvalidMessage(f"parts must be a list of calls and results, got {self.parts!r}")
            object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def search_text(self) -> str:
        """What search reads: the text, then tool calls and their results."""
        if not self.parts:
            return self.text
        pieces = [self.text, *map(_searched_text, self.parts)]
        return "\n".join(piece for piece in pieces if piece.strip())


class Appended(NamedTuple):
    """What became of messages handed to the log, in the order they were given."""

    given: Sequence[Message]
    thread_id: str
    seqs: Sequence[int]
    new_ids: Set[str]
    known: Mapping[str, Message] = MappingProxyType({})

    @property
    def messages(self) -> list[Message]:
        """The messages as they stand in the log: those known before as they were saved then."""
        return [
            self.known.get(str(message.id)) or replace(message, thread_id=self.thread_id, seq=seq)
            for message, seq in zip(self.given, self.seqs, strict=True)
        ]

    @property
    def new_messages(self) -> list[Message]:
        """The messages that were not in the log before."""
        return [message for message in self.messages if message.id in self.new_ids]


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation, as listed; where nobody has `named` it, its title is what the user said first.

    That of a sub-agent has the conversation it works for as `parent_id`; what is said `apart` is no memory.
    """

    thread_id: str
    title: str | None
    metadata: Mapping[str, Any]
    message_count: int
    created_at: datetime
    updated_at: datetime
    named: bool = True
    parent_id: str | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """An exact quote: `message.text[start:end] == quote`."""

    message_id: str
    start: int
    end: int
    quote: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An episodic memory: a short record of one thing that happened, with the words it came from."""

    id: str
    content: str
    source: str
    status: EntryStatus
    verified: bool
    thread_id: str
    message_id: str | None
    created_at: datetime
    last_seen_at: datetime
    evidence: tuple[Evidence, ...] = ()
    valid_until: datetime | None = None
    superseded_by: str | None = None
    origin: Origin = "learned"


@dataclass(frozen=True, slots=True)
class Revision:
    """One thing that happened to an item after it was learned: what, by whom, on which words.

    Rows of one revision share its id and are undone together.
    """

    id: str
    kind: HitKind
    item_id: str
    action: str
    actor: Actor
    at: datetime
    successor: str | None = None
    quote: Evidence | None = None
    detail: str = ""
    undone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Why a hit stands where it stands; `final` is what results are ordered by."""

    lexical: float
    vector: float
    fused: float
    recency: float
    final: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a message word for word, or an entry with its evidence.

    Messages have a `speaker`: the name of who said it, the role where nobody is named. `conflicts` are
    entries that say otherwise and are as current as this one.
    """

    kind: HitKind
    id: str
    content: str
    created_at: datetime
    thread_id: str | None
    message_id: str | None
    evidence: tuple[Evidence, ...]
    scores: Scores
    role: Role | None = None
    verified: bool = True
    status: EntryStatus = "active"
    conflicts: tuple[str, ...] = ()
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A memory found for a turn; `left_out` is the reason why the model was not shown it, else empty."""

    kind: HitKind
    id: str
    text: str
    created_at: datetime
    thread_id: str | None
    role: Role | None = None
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """What an agent knows about a user: values by field (`Section/Name`), and all of it as Markdown."""

    fields: Mapping[str, tuple[str, ...]]
    version: int
    text: str
    author: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    text: str
    status: StepStatus = "pending"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a thread is working on; whoever changes it names the version that they have seen."""

    goal: str = ""
    phase: str = ""
    iteration: int = 1
    steps: tuple[PlanStep, ...] = ()
    version: int = 0


Span = tuple[int, int]
"""Messages of a thread, by the first and the last sequence number."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One row of a thread's compressed history, and the messages that it was made of.

    `dates` are the days that its text speaks of. A row that stands for others `supersedes` them and covers
    all that they covered. What is `ready` takes the place of its messages at the next activation.
    """

    id: str
    priority: Priority
    at: datetime
    text: str
    covers: tuple[Span, ...]
    status: ObservationStatus = "ready"
    until: datetime | None = None
    dates: tuple[date, ...] = ()
    parent_id: str | None = None
    supersedes: tuple[str, ...] = ()
    successor: str | None = None  # the row that will take its place; empty if none will
    tokens: int = 0
    position: int = 0
    seen_change: int = 0  # the scope's change number when its messages were read
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """Where a conversation stands: what it is after, what was decided, what is left to do.

    A `hint` says how to go on; it counts until the user speaks again.
    """

    objective: str = ""
    state: str = ""
    decisions: tuple[str, ...] = ()
    follow_ups: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """What became of one run, in a few words."""

    id: str
    summary: str
    timestamp: datetime
    outcome: Outcome
    token_count: int
    thread_id: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something that was tried in a thread and failed."""

    number: int
    task: str
    tried: str
    error: str
    outcome: Outcome
    at: datetime


@dataclass(frozen=True, slots=True)
class Briefing:
    """What a sub-agent is told: its task, the conversation it comes from, and what was tried before."""

    text: str
    tokens: int
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The rendered text of one layer; a `stable` one changes so seldom that a prompt may begin with it."""

    name: str
    text: str
    tokens: int
    stable: bool = False
    version: str | None = None  # of what it was rendered from, where its layer tells


@dataclass(frozen=True, slots=True)
class Context:
    """What to put in front of the model call: stable blocks, then messages, then volatile blocks.

    In this order the beginning of the prompt stays the same from call to call, so that a provider's
    cache keeps hitting; `casenotes.prompt` renders it for several APIs.
    """

    blocks: tuple[Block, ...] = ()
    messages: tuple[Message, ...] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All blocks as one string."""
        return _joined(self.blocks)

    @property
    def stable_text(self) -> str:
        """The blocks that belong before the messages."""
        return _joined(block for block in self.blocks if block.stable)

    @property
    def volatile_text(self) -> str:
        """The blocks that belong behind the messages: what was found for this input, the plan."""
        return _joined(block for block in self.blocks if not block.stable)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool to offer to the model, independent of any framework."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn under way: from the user's input to the agent's answer."""

    id: str
    scope: Scope
    context: Context
    own_tools: tuple[Tool, ...] = ()
    read_tool: Tool | None = field(default=None, repr=False)
    message_ids: list[str] = field(default_factory=list, repr=False)
    closing: list[int] = field(default_factory=list, repr=False)  # where `complete` began, once it was called
    log: list[Message] = field(default_factory=list, repr=False)  # the thread from the turn's window on
    blocks: dict[str, Block] = field(default_factory=dict, repr=False)  # as they were shown last, by layer
    visible: set[str] = field(default_factory=set, repr=False)  # ids of the messages that were shown last
    shortened: dict[tuple[str, int, int], Message] = field(
        default_factory=dict, repr=False
    )  # see recall.shorten
    child: ChildScope | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model may call: `read_message` from when something was shown shortened."""
        return (*self.own_tools, self.read_tool) if self.shortened and self.read_tool else self.own_tools

    @property
    def is_apart(self) -> bool:
        """Whether it is the turn of a sub-agent that has no part in its parent's memory."""
        return self.child is not None and not self.child.shares_memory


@dataclass(frozen=True, slots=True)
class CandidateReceipt:
    """What became of one thing that the model proposed to remember, and why."""

    status: CandidateStatus
    content: str
    source: str = ""
    reason: str = ""
    detail: str = ""
    quotes: tuple[str, ...] = ()
    entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a completed turn: its messages are saved durably, `status` tells of learning from it.

    `queued` turns are learned from in the background; `learned` ones have a receipt for every candidate;
    a `failed` one is tried again unless `reason` says otherwise; `skipped` ones are not learned from.
    """

    turn_id: str
    outcome: Outcome
    message_ids: Sequence[str] = ()
    status: LearnStatus = "skipped"
    reason: str = ""
    candidates: tuple[CandidateReceipt, ...] = ()

    def __iter__(self) -> Iterator[CandidateReceipt]:
        return iter(self.candidates)


def id_problem(value: object) -> str | None:
    """Why a value cannot be an id, or None if it can."""
    if not isinstance(value, str):
        return f"must be a string, got {type(value).__name__}"
    if not value.strip():
        return "is empty; give an id, or None where the id is optional"
    if problem := text_problem(value):
        return problem
    size = len(value.encode())
    return f"has {size} bytes; at most {MAX_ID_BYTES} are allowed" if size > MAX_ID_BYTES else None


def text_problem(value: str) -> str | None:
    """Why a text cannot be stored, or None if it can: both databases hold only valid Unicode."""
    position = value.find("\x00")
    if position >= 0:
        return f"contains a NUL character at position {position}; remove it"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"contains a lone surrogate at position {error.start}; it is not valid Unicode"
    return None


def _joined(blocks: Iterable[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)


def part_text(part: Part) -> str:
    """What a model reads of a call or a result."""
    if isinstance(part, ToolResult):
        return part.content
    return f"{part.name} {json.dumps(part.arguments, ensure_ascii=False, default=str)}"


def _searched_text(part: Part) -> str:
    """What search reads of a part; not what our own tools were asked and found, which stands elsewhere."""
    if isinstance(part, ToolResult):
        is_ours = part.content.startswith(('{"hits":', f'{{"{READ_TOOL}":'))
    else:
        is_ours = part.name in (RECALL_TOOL, READ_TOOL)
    return "" if is_ours else part_text(part)

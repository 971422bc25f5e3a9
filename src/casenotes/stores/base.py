"""The store contract: operations over values, each bound to a scope inside the store.

A backend passes when it passes `casenotes.testing.StoreContract`. Vectors travel as bytes
(float16, little-endian), so that no backend needs numpy. A scope without resource is a scope of its
own. `change` numbers grow by commit within a scope: whoever has seen change n asks for what came
after it and misses nothing; `epoch` grows when something was removed and must be read anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from casenotes.stores.learning import EntryStore, JobStore, TimesAhead
from casenotes.stores.observations import ObservationStore
from casenotes.stores.revisions import Erasure, RevisionStore
from casenotes.stores.revisions import Freshness as Freshness
from casenotes.stores.states import EpisodeStore, EventStore, StateStore
from casenotes.types import Appended, EntryStatus, HitKind, Message, Role, Scope, Thread

SpaceKey = tuple[str, int, bool]
TurnStatus = Literal["open", "success", "failure", "aborted", "abandoned"]

OVER_BUDGET = "over the token budget"
OVER_TOP_K = "beyond auto_inject_top_k"
IN_THREAD = "stands in this thread"
QUOTED = "quoted by a shown entry"
"""Why an item that was found is left out of a block; layers may give reasons of their own."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An item that was found for a turn, and why the model was not shown it if it was left out.

    What it was shown is not learned again when it comes back as an echo.
    """

    kind: HitKind
    id: str
    left_out: str = ""


class Watch(NamedTuple):
    """That a thread is to be observed: for the first time after `step` tokens, the rest at `flush_at`.

    A time that was set before stays unless it lies before `unless`: it need not be written with every step.
    """

    step: int
    flush_at: datetime | None = None
    unless: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnMark:
    """Which turn messages belong to; with a status it opens or closes the turn together with them.

    `learners` are the layers that shall learn from a turn that is closed; one that has learned from it does
    not do so again. `hidden` messages are kept in the log and never recalled. A `parent` is the thread for
    which a sub-agent works in this one; if its first messages are hidden, all others are, too. Messages of
    no turn have no `turn_id`.
    """

    turn_id: str | None
    status: TurnStatus | None
    at: datetime
    learners: Sequence[str] = ()
    shown: Sequence[Shown] = ()
    hidden: bool = False
    parent: str | None = None
    watch: Watch | None = None

    @property
    def pending(self) -> str | None:
        """The layers that have to learn from the turn, between commas."""
        return f",{','.join(self.learners)}," if self.learners else None


@dataclass(frozen=True, slots=True)
class Document:
    """What search needs to know of one item; it comes again when its status or validity has changed."""

    kind: HitKind
    id: str
    thread_id: str
    created_at: float
    role: Role
    text: str
    status: EntryStatus = "active"
    valid_until: float = math.inf
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class VectorRow:
    """The vector of one item."""

    kind: HitKind
    id: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An item that waits for a vector; `place` is where it stands in the order they are listed in."""

    kind: HitKind
    id: str
    text: str
    place: tuple[str, int]
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything of a scope after a change number.

    `freshness` was read first: rows of later changes may be among them and come again next time.
    """

    freshness: Freshness
    documents: Sequence[Document]
    vectors: Sequence[VectorRow]


@dataclass(frozen=True, slots=True)
class SpaceRecord:
    """An embedding space that a store knows; search uses the active one.

    Its vectors are made of texts with the names of `speakers`, unless it was made before there were any.
    """

    id: int
    model: str
    dimensions: int
    normalised: bool
    active: bool
    speakers: bool = True

    @property
    def key(self) -> SpaceKey:
        """What tells one space from another."""
        return self.model, self.dimensions, self.normalised


def active_space(spaces: Sequence[SpaceRecord]) -> SpaceRecord | None:
    """The space that search uses, if the store has one yet."""
    return next((space for space in spaces if space.active), None)


@dataclass(frozen=True, slots=True)
class ScopeSize:
    """One scope in an overview."""

    agent_id: str
    resource_id: str | None
    threads: int
    messages: int
    entries: int = 0

    @property
    def items(self) -> int:
        """Messages and entries: all that has a vector."""
        return self.messages + self.entries

    @property
    def scope(self) -> Scope:
        """The scope itself."""
        return Scope(self.agent_id, self.resource_id)


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Size of the whole store."""

    scopes: int
    threads: int
    messages: int
    vectors: int
    open_turns: int
    entries: int
    queued_turns: int
    dead_turns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a health check."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    remedy: str = ""


def consistency_finding(what: str, broken: int) -> Finding:
    """The finding for a count of rows that contradict the message log."""
    if broken:
        return Finding(what, "failed", f"{broken} {what} are inconsistent", "restore a backup")
    return Finding(what, "ok", "consistent with the messages")


def clock_finding(ahead: TimesAhead) -> Finding:
    """The finding for times that were written while a clock was wrong."""
    if not sum(ahead):
        return Finding("clock", "ok", "nothing waits for a time too far ahead")
    counts = ", ".join(f"{count} {what}" for what, count in ahead._asdict().items() if count)
    return Finding(
        "clock",
        "warning",
        f"times too far ahead ({counts}): the clock is wrong, or was when they were written",
        "check the clock; work that waits for such times is done without waiting",
    )


class Store(Protocol):
    """A place where the message log and what is derived from it lie."""

    @property
    def location(self) -> str:
        """Where it lies, fit to be shown: without password."""
        ...

    @property
    def supports_entries(self) -> bool:
        """Whether it can keep what was learned; without, it is a message log only."""
        ...

    @property
    def entries(self) -> EntryStore:
        """What was learned."""
        ...

    @property
    def jobs(self) -> JobStore:
        """What is still to be learned, and who is at it."""
        ...

    @property
    def revisions(self) -> RevisionStore:
        """What happens to entries after they were learned."""
        ...

    @property
    def states(self) -> StateStore:
        """What layers keep."""
        ...

    @property
    def episodes(self) -> EpisodeStore:
        """Summaries of finished runs."""
        ...

    @property
    def events(self) -> EventStore:
        """What happened in threads."""
        ...

    @property
    def observations(self) -> ObservationStore:
        """What long threads were compressed to."""
        ...

    @property
    def erasure(self) -> Erasure:
        """How a user's data is removed for good."""
        ...

    async def open(self) -> None:
        """Connect, check and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Let running work end and disconnect."""
        ...

    async def append(self, scope: Scope, messages: Sequence[Message], turn: TurnMark | None = None) -> Appended:
        """Save messages of one thread durably, in order, all or none.

        A message whose id is known with the same content is left as it is; with other content
        the call raises MessageConflict and saves nothing.
        """
        ...

    async def history(
        self, scope: Scope, *, limit: int, before: int | None = None, after: int | None = None
    ) -> list[Message]:
        """A window of a thread, oldest first: the last before, or the first after, a sequence number."""
        ...

    async def recent(self, scope: Scope, limit: int) -> list[Message]:
        """The newest messages of a thread, oldest first, without what was forgotten."""
        ...

    async def messages(self, scope: Scope, ids: Sequence[str]) -> dict[str, Message]:
        """The messages of those ids in any thread of the scope."""
        ...

    async def passages(self, scope: Scope, ids: Sequence[str], before: int, after: int) -> list[Message]:
        """Those messages with as many before and after, each once, thread by thread, no hidden ones."""
        ...

    async def threads(self, scope: Scope) -> list[Thread]:
        """The scope's threads, in order of creation; one without a title has the user's first words for it."""
        ...

    async def title(self, scope: Scope) -> str | None:
        """The title that somebody gave to a thread."""
        ...

    async def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set title or metadata where given; False if there is no such thread."""
        ...

    async def name_thread(self, scope: Scope, turn_id: str, title: str) -> bool:
        """Set the title that was made of a turn; False if there is a title, or no such turn any more."""
        ...

    async def freshness(self, scope: Scope) -> Freshness:
        """One cheap read, made on every recall."""
        ...

    async def changes(self, scope: Scope, space_id: int, after: int) -> Changes:
        """What came after a change number; all of it after 0."""
        ...

    async def spaces(self) -> list[SpaceRecord]:
        """All spaces, in order of creation; at most one is active."""
        ...

    async def claim_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """The store's active space; the given one becomes it in a store that has none."""
        ...

    async def add_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """That space, made beside the active one if the store does not know it yet.

        One made before vectors knew the names of speakers is another space.
        """
        ...

    async def activate_space(self, space_id: int) -> None:
        """Switch to another space at one stroke; every scope's epoch grows. StoreError if it is gone."""
        ...

    async def drop_vectors(self, scope: Scope, space_id: int, limit: int) -> int:
        """Remove some of a scope's vectors in a space that is not active; says how many."""
        ...

    async def drop_space(self, space_id: int) -> None:
        """Forget a space that is not active, with whatever vectors it still has."""
        ...

    async def put_vectors(self, scope: Scope, space_id: int, rows: Sequence[VectorRow]) -> int:
        """Save vectors of items that exist, in a space that exists; says how many, passes over others."""
        ...

    async def unembedded(
        self, scope: Scope, space_id: int, limit: int, after: Unembedded | None = None
    ) -> list[Unembedded]:
        """Messages, then entries, that have text but no vector in that space, behind one of them."""
        ...

    async def scopes(self) -> list[ScopeSize]:
        """All scopes that hold anything, with their sizes."""
        ...

    async def stats(self) -> StoreStats:
        """Size of the whole store."""
        ...

    async def table_sizes(self) -> dict[str, int]:
        """Bytes of each table with its indexes, largest first; empty where the database cannot say."""
        ...

    async def check(self) -> list[Finding]:
        """Prove its own health."""
        ...

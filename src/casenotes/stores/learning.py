"""The part of the store contract that concerns learning: entries with evidence, and background work.

Everything that one turn taught is saved in one transaction with the mark that the turn is done. That
transaction checks the lease's fencing number, so a worker that was overtaken writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from casenotes.types import CandidateReceipt, Entry, EntryStatus, Evidence, HitKind, Message, Origin, Scope

LearningState = Literal["queued", "done", "dead"]


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one thread, until it expires or somebody takes over."""

    scope: Scope
    task: str
    owner: str
    fence: int


LONGEST_LEASE = timedelta(hours=1)
"""One that ends later, and is not asked for so long, was taken while a clock was wrong, and counts as ended."""

LONGEST_WAIT = timedelta(hours=1)
"""What waits longer, and no setting lets it, was noted while a clock was wrong, and is due."""


def has_come(at: datetime, now: datetime, longest: timedelta = LONGEST_WAIT) -> bool:
    """Whether a time has come, or lies so far ahead that a clock was wrong when it was noted."""
    return at <= now or at > now + longest


@dataclass(frozen=True, slots=True)
class TurnState:
    """A closed turn and how far learning from it has come; `pending` layers have not learned from it yet."""

    scope: Scope
    turn_id: str
    status: str
    learning: LearningState | None
    attempts: int
    error: str | None
    due_at: datetime
    pending: tuple[str, ...] = ()


class TimesAhead(NamedTuple):
    """How many leases, retries and flushes lie too far ahead."""

    leases: int
    turns: int
    observations: int
    flushes: int


@dataclass(frozen=True, slots=True)
class TurnLog:
    """What was said in a turn, and the last few messages of its thread before it."""

    messages: Sequence[Message]
    before: Sequence[Message]


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item that was found for a turn, and why it was left out if the model was not shown it."""

    kind: HitKind
    id: str
    turn_id: str
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be stored."""

    id: str
    content: str
    content_hash: str
    source: str
    verified: bool
    message_id: str | None
    created_at: datetime
    evidence: Sequence[Evidence]
    vector: bytes | None
    status: EntryStatus = "active"
    origin: Origin = "learned"
    thread_id: str | None = None  # the thread it is learned in, unless given
    reflections_left: int = 0
    valid_until: datetime | None = None
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class Corroboration:
    """More evidence for an entry that is there already; checked evidence verifies it.

    `remembered` if the user asked to keep it, too.
    """

    entry_id: str
    evidence: Sequence[Evidence]
    seen_at: datetime
    verified: bool = True
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class Learned:
    """All that a turn taught. It was decided in view of the entries up to the change number `seen`."""

    turn_id: str
    entries: Sequence[NewEntry]
    corroborations: Sequence[Corroboration]
    receipts: Sequence[CandidateReceipt]
    space_id: int
    seen: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """A receipt in the ledger."""

    scope: Scope
    turn_id: str
    at: datetime
    receipt: CandidateReceipt


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What a scope's models were asked on one day, by task."""

    task: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float


class EntryStore(Protocol):
    """Entries of a scope, with their evidence and the receipts of every candidate."""

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
        """The entries of those ids, with their quotes as the message log has them."""
        ...

    async def known_hashes(self, scope: Scope, hashes: Sequence[str]) -> dict[str, str]:
        """Ids of active and quarantined entries by the hash of their content; of both, the active one."""
        ...

    async def forgotten_sources(self, scope: Scope, hashes: Sequence[str]) -> set[tuple[str, str]]:
        """Of forgotten entries: the hash of their content with the message each was learned from."""
        ...

    async def hidden(self, scope: Scope, message_ids: Sequence[str]) -> set[str]:
        """Those of some messages that were forgotten: they are not recalled, nor learned from."""
        ...

    async def save(self, scope: Scope, lease: Lease, learned: Learned) -> bool:
        """Store all of it and mark the turn as done; nothing happens if it is done already.

        False if entries came meanwhile, in view of which it must be decided again. LeaseLost if
        somebody else has taken over.
        """
        ...

    async def shown(self, scope: Scope, until_turn: str | None = None) -> list[ShownItem]:
        """What the thread's model was shown, up to the end of a turn where one is given."""
        ...

    async def turn_items(self, scope: Scope, turn_id: str) -> list[ShownItem]:
        """What was found for one turn: shown, or left out and why."""
        ...

    async def receipts(self, scope: Scope, turn_id: str) -> list[CandidateReceipt]:
        """What became of the candidates of one turn, in order."""
        ...

    async def ledger(self, scope: Scope, status: str | None, limit: int) -> list[ReceiptRow]:
        """Receipts of a scope, or of one of its threads, newest first."""
        ...


class JobStore(Protocol):
    """Turns that wait to be learned from, leases, and what the models were asked."""

    async def acquire(self, scope: Scope, task: str, owner: str, seconds: float) -> Lease | None:
        """The lease of a thread, unless somebody has it."""
        ...

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """Hold it for that long from now; False if somebody else has it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give it back."""
        ...

    async def queued(self, scope: Scope) -> list[TurnState]:
        """Turns of a scope, or of one of its threads, that wait to be learned from, oldest first."""
        ...

    async def due_threads(
        self, now: datetime, limit: int, layers: Sequence[str], longest: timedelta = LONGEST_WAIT
    ) -> list[Scope]:
        """Threads of the whole store that have a turn for one of these layers to try now and nobody at work.

        What would wait `longest` or more is tried now.
        """
        ...

    async def times_ahead(self, now: datetime, longest: timedelta, at: datetime, idle: timedelta) -> TimesAhead:
        """What waits for times that no lease, retry or flush can have."""
        ...

    async def dead(self, limit: int) -> list[TurnState]:
        """Turns of the whole store that were given up; for operators."""
        ...

    async def revive(self) -> int:
        """Queue all turns that were given up once more; says how many."""
        ...

    async def turn(self, scope: Scope, turn_id: str) -> TurnState | None:
        """One turn of a thread."""
        ...

    async def finished(self, scope: Scope) -> list[TurnState]:
        """All turns of a resource that ended well, in the order in which they ended."""
        ...

    async def log(self, scope: Scope, turn_id: str, before: int) -> TurnLog:
        """What was said in a turn, and at most that many user and assistant messages before it."""
        ...

    async def learned(self, lease: Lease, turn_id: str, layer: str) -> None:
        """Note that a layer has learned from a turn. LeaseLost as in save."""
        ...

    async def failed(
        self, lease: Lease, turn_id: str, error: str, due: datetime, *, counts: bool, dead: bool
    ) -> None:
        """Note that learning from a turn failed; `counts` as an attempt or only waits. LeaseLost as in save."""
        ...

    async def usage(self, scope: Scope, day: str) -> list[DayUsage]:
        """What was used on a day, by task."""
        ...

    async def add_usage(self, scope: Scope, day: str, usage: DayUsage) -> None:
        """Count what was used."""
        ...


def by_kind(shown: Sequence[ShownItem]) -> Mapping[HitKind, list[str]]:
    """The ids of shown items, by kind."""
    return {
        "entry": [item.id for item in shown if item.kind == "entry"],
        "message": [item.id for item in shown if item.kind == "message"],
    }

"""The part of the store contract that concerns what happens to memories after they were learned.

A revision changes any number of items in one transaction, and keeps for each of them how it was before,
so that it can be told and taken back. Nothing is overwritten: entries change their status and validity.
Erasing is the exception: it leaves nothing, no revision either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from casenotes.stores.learning import Corroboration, Lease, NewEntry, ReceiptRow
from casenotes.types import Actor, CandidateReceipt, Entry, EntryStatus, Evidence, HitKind, Revision, Scope

ERASED = (
    ("threads", "erase_threads"),
    ("entries", "erase_entries"),
    ("messages", "erase_messages"),
    ("turns", "erase_turns"),
    ("receipts", "erase_receipts"),
    ("leases", "erase_leases"),
    ("evidence", "erase_evidence"),
    ("vectors", "erase_vectors"),
    ("shown", "erase_shown"),
    ("revisions", "erase_revisions"),
    ("layer_states", "erase_states"),
    ("episodes", "erase_episodes"),
    ("events", "erase_events"),
    ("observations", "erase_observations"),
    ("observation_batches", "erase_batches"),
    ("observing", "erase_observing"),
)
"""Tables and statements, in order: what depends on something else comes after it."""

ERASED_WITH_RESOURCE = (("model_usage", "erase_usage"), ("scopes", "erase_scope"))
AFTER_THREAD = ("restore_merged", "loosen_successors", "loosen_quotes", "renew_scope")
AFTER_RESOURCE = ("count_erasure",)
"""What is put right in the same transaction."""

GONE: tuple[EntryStatus, ...] = ("forgotten", "dropped")
"""Entries of this kind are no longer searched and have no vector."""


@dataclass(frozen=True, slots=True, order=True)
class Freshness:
    """How far a scope has come; a later one is greater."""

    epoch: int
    change: int


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What becomes of one item. An entry must have the status `before`; a message is hidden or shown again.

    `quote` holds the words that state the change; a change that leaves the status as it was only notes
    something, for example that two entries conflict.
    """

    item_id: str
    action: str
    before: EntryStatus = "active"
    after: EntryStatus = "active"
    kind: HitKind = "entry"
    valid_until: datetime | None = None
    successor: str | None = None
    quote: Evidence | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NewRevision:
    """Changes that belong together. With `seen`, nothing happens if entries came, changed or went after it.

    `entries` are stored anew by it, each in a thread of its own. Receipts are added to those of the turn.
    """

    id: str
    actor: Actor
    at: datetime
    changes: Sequence[ItemChange] = ()
    entries: Sequence[NewEntry] = ()
    corroborations: Sequence[Corroboration] = ()
    space_id: int = 0
    seen: Freshness | None = None
    turn_id: str = ""
    receipts: Sequence[CandidateReceipt] = ()


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A quote as it was noted: where it stands, and the hash of its words."""

    entry_id: str
    message_id: str
    start: int
    end: int
    quote_hash: str


class RevisionStore(Protocol):
    """Entries as people and workers look after them; everything is bound to a scope but `owner`."""

    async def revise(self, scope: Scope, revision: NewRevision, lease: Lease | None = None) -> bool:
        """Do all of it, or nothing: False if an item is not as expected, or entries changed after `seen`.

        LeaseLost if a lease is given that somebody else has taken over.
        """
        ...

    async def undo(self, scope: Scope, revision_id: str, at: datetime) -> list[str]:
        """Bring every item of a revision back to how it was before; gives their ids.

        UsageError if there is no such revision, it is undone already, or a later one stands on it.
        """
        ...

    async def history(self, scope: Scope, item_ids: Sequence[str]) -> list[Revision]:
        """What happened to those items, as the item itself or as a successor, oldest first."""
        ...

    async def conflicts(self, scope: Scope, entry_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs of active entries that contradict each other, where one of those is in the pair."""
        ...

    async def entries(
        self, scope: Scope, statuses: Sequence[EntryStatus], limit: int, after: str = ""
    ) -> list[Entry]:
        """Entries of those statuses in the order of their ids, behind one of them."""
        ...

    async def evidence(self, scope: Scope, entry_ids: Sequence[str]) -> list[EvidenceRow]:
        """All that was noted as evidence, also where the message is gone."""
        ...

    async def quoting(self, scope: Scope, message_ids: Sequence[str]) -> list[str]:
        """Ids of entries with evidence in one of those messages, or of the scope's thread without ids."""
        ...

    async def never_shown(self, scope: Scope) -> list[str]:
        """Ids of active entries that no model was ever shown."""
        ...

    async def owner(self, entry_id: str) -> Scope | None:
        """Whose entry that is; for operators."""
        ...

    async def receipts(self, scope: Scope, entry_id: str) -> list[ReceiptRow]:
        """The receipts that speak of an entry, oldest first."""
        ...

    async def take_to_reflect(self, scope: Scope, limit: int) -> list[str]:
        """The newest active entries that wait for the reflector; counted as one try each."""
        ...

    async def reflected(self, scope: Scope, entry_ids: Sequence[str]) -> None:
        """These need not be reflected on any more."""
        ...


class Erasure(Protocol):
    """Removing for good, for operators."""

    async def erase(self, scope: Scope) -> Mapping[str, int]:
        """Remove a resource, or one of its threads, with all that was derived from it; rows by table.

        An entry that quotes other threads too stays with what they say, unless its text came from here.
        """
        ...

    async def traces(self, scope: Scope) -> list[bytes]:
        """All that is stored of a resource or thread, as bytes that a file would show."""
        ...

    async def still_there(self, pieces: Sequence[bytes]) -> set[bytes]:
        """Those of some bytes that live rows of the whole store contain."""
        ...

    async def fingerprints(self, owner: bytes) -> bytes:
        """What earlier erasures of an owner have yet to prove; empty if nothing."""
        ...

    async def add_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """Note what an erasure has to look for, until it is proven."""
        ...

    async def drop_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """Forget them, if these are still all there are."""
        ...

    async def scrub(self) -> str:
        """Rewrite what may still hold removed bytes; says what could not be done, empty if nothing."""
        ...

    async def files(self) -> list[Path]:
        """Every file that may hold its bytes; none where they cannot be seen from here."""
        ...

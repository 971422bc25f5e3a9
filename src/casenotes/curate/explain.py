"""Say where an entry came from and what has happened to it: its quotes in their messages, receipts, history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from casenotes.curate.desk import Desk
from casenotes.errors import UsageError
from casenotes.recall.hits import masked_slice, read_entries
from casenotes.stores.learning import ReceiptRow
from casenotes.types import Entry, Evidence, Message, Revision, Scope

AROUND = 300
"""Characters of a message that are shown on each side of a quote."""


@dataclass(frozen=True, slots=True)
class QuotedMessage:
    """A quote where it stands: the message it is from, and the words before and behind it."""

    evidence: Evidence
    role: str
    thread_id: str | None
    message: Message
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is known of an entry; texts are as they may be shown, with secrets masked.

    `related` are entries that it superseded, that superseded it, or that contradict it.
    """

    scope: Scope
    entry: Entry
    quotes: tuple[QuotedMessage, ...]
    receipts: tuple[ReceiptRow, ...]
    history: tuple[Revision, ...]
    related: Mapping[str, Entry]
    conflicts: tuple[str, ...]


async def explain(desk: Desk, entry_id: str, scope: Scope | None) -> Explanation:
    """The explanation of an entry, wherever it is if no scope is given."""
    owner = scope or await desk.store.revisions.owner(entry_id)
    entry = (await read_entries(desk.store, owner, [entry_id])).get(entry_id) if owner else None
    if owner is None or entry is None:
        where = "in this scope" if scope else "in the store"
        raise UsageError(f"there is no entry {entry_id!r} {where}; `casenotes ledger` lists entries")
    messages = await desk.store.messages(owner, [quote.message_id for quote in entry.evidence])
    history = await desk.store.revisions.history(owner, [entry_id])
    conflicts = await _conflicts(desk, owner, entry_id)
    others = {*_others(history, entry_id), *conflicts, *filter(None, [entry.superseded_by])}
    return Explanation(
        owner.owner,
        entry,
        tuple(_quoted(quote, messages[quote.message_id]) for quote in entry.evidence),
        tuple(await desk.store.revisions.receipts(owner, entry_id)),
        tuple([await _shown(desk, owner, revision) for revision in history]),
        await read_entries(desk.store, owner, sorted(others)) if others else {},
        tuple(conflicts),
    )


async def _conflicts(desk: Desk, scope: Scope, entry_id: str) -> list[str]:
    pairs = await desk.store.revisions.conflicts(scope, [entry_id])
    return sorted({other for pair in pairs for other in pair if other != entry_id})


def _others(history: Sequence[Revision], entry_id: str) -> set[str]:
    ids = {i for r in history if r.kind == "entry" for i in (r.item_id, r.successor) if i}
    return ids - {entry_id}


def _quoted(quote: Evidence, message: Message) -> QuotedMessage:
    text = message.text
    return QuotedMessage(
        quote,
        message.role,
        message.thread_id,
        replace(message, text=masked_slice(text, 0, len(text)), parts=()),
        masked_slice(text, max(0, quote.start - AROUND), quote.start),
        masked_slice(text, quote.end, min(len(text), quote.end + AROUND)),
    )


async def _shown(desk: Desk, scope: Scope, revision: Revision) -> Revision:
    """A revision whose quote may be shown."""
    quote = revision.quote
    if quote is None:
        return revision
    message = (await desk.store.messages(scope, [quote.message_id])).get(quote.message_id)
    words = masked_slice(message.text, quote.start, quote.end) if message else ""
    return replace(revision, quote=replace(quote, quote=words))

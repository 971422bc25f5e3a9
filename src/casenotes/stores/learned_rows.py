"""Between values and rows for what is learned, the same for both backends.

`time` turns a time into the backend's form, or back.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from casenotes.errors import LeaseLost
from casenotes.stores.base import Document, Shown
from casenotes.stores.learning import Corroboration, Learned, Lease, NewEntry, ReceiptRow, TurnState
from casenotes.stores.revisions import NewRevision
from casenotes.stores.rows import scope_key
from casenotes.types import CandidateReceipt, Entry, Evidence, Role, Scope

USER_SOURCES = ("user_assertion", "user_accepted_assistant_proposal")
Values = dict[str, Any]
EPISODIC = "memory"
"""The layer whose entries are saved together with the note that it has learned from a turn."""


def optional_thread_key(scope: Scope) -> Values:
    """Parameters of agent and resource, and of the thread where the scope names one."""
    return {**scope_key(scope), "thread": scope.thread_id}


def lease_values(lease: Lease) -> Values:
    """Parameters of a lease."""
    key = optional_thread_key(lease.scope)
    return {**key, "task": lease.task, "owner": lease.owner, "fence": lease.fence}


def learned_values(key: Mapping[str, Any], turn_id: str, layer: str = EPISODIC) -> Values:
    """Parameters of a layer that has learned from a turn."""
    return {**key, "turn": turn_id, "layer": layer}


def lease_lost(lease: Lease) -> LeaseLost:
    """The error for a worker that was overtaken."""
    return LeaseLost(
        f"another worker has taken over thread {lease.scope.thread_id!r} ({lease.task}); nothing was saved"
    )


def entry_values(
    key: Values, entries: Sequence[NewEntry], change: int, time: Callable[[datetime], Any]
) -> list[Values]:
    """Parameters of new entries."""
    return [
        {
            **key,
            "thread": entry.thread_id or key["thread"],
            "id": entry.id,
            "content": entry.content,
            "hash": entry.content_hash,
            "source": entry.source,
            "verified": entry.verified,
            "message": entry.message_id,
            "created_at": time(entry.created_at),
            "change": change,
            "status": entry.status,
            "origin": entry.origin,
            "reflections_left": entry.reflections_left,
            "valid_until": entry.valid_until and time(entry.valid_until),
            "superseded_by": entry.superseded_by,
        }
        for entry in entries
    ]


def evidence_values(
    key: Values, entries: Sequence[NewEntry], corroborations: Sequence[Corroboration] = ()
) -> list[Values]:
    """Parameters of all evidence, of new entries and of those corroborated."""
    pairs = [(entry.id, entry.evidence) for entry in entries]
    pairs += [(item.entry_id, item.evidence) for item in corroborations]
    return [{**key, **_quote_values(entry_id, quote)} for entry_id, quotes in pairs for quote in quotes]


def _quote_values(entry_id: str, quote: Evidence) -> Values:
    return {
        "entry": entry_id,
        "message": quote.message_id,
        "start": quote.start,
        "stop": quote.end,
        "hash": quote_hash(quote.quote),
    }


def quote_hash(quote: str) -> str:
    """What the store remembers of quoted words."""
    return hashlib.sha256(quote.encode("utf-8", "surrogatepass")).hexdigest()


def seen_again_values(
    key: Values, items: Sequence[Corroboration], time: Callable[[datetime], Any]
) -> list[Values]:
    """Parameters of corroborated entries."""
    return [
        {
            **key,
            "entry": item.entry_id,
            "seen_at": time(item.seen_at),
            "verified": item.verified,
            "remembered": item.remembered,
        }
        for item in items
    ]


def receipt_values(
    key: Values, learned: Learned | NewRevision, time: Callable[[datetime], Any]
) -> list[Values]:
    """Parameters of receipts, in order."""
    return [
        {
            **key,
            "turn": learned.turn_id,
            "position": position,
            "status": receipt.status,
            "reason": receipt.reason,
            "detail": receipt.detail,
            "content": receipt.content,
            "source": receipt.source,
            "quotes": json.dumps(receipt.quotes, ensure_ascii=False),
            "entry": receipt.entry_id,
            "at": time(learned.at),
        }
        for position, receipt in enumerate(learned.receipts)
    ]


def entries_from_rows(
    rows: Iterable[Sequence[Any]],
    evidence: Iterable[Sequence[Any]],
    time: Callable[[Any], datetime],
) -> dict[str, Entry]:
    """Entries by id, each with its evidence."""
    quotes: dict[str, list[Evidence]] = {}
    for entry_id, *quote in evidence:
        quotes.setdefault(entry_id, []).append(Evidence(*quote))
    return {row[0]: _entry(row, quotes.get(row[0], []), time) for row in rows}


def _entry(row: Sequence[Any], quotes: Sequence[Evidence], time: Callable[[Any], datetime]) -> Entry:
    entry_id, content, source, status, verified, thread, message, created, seen, until, successor, origin = row
    return Entry(
        entry_id,
        content,
        source,
        status,
        bool(verified),
        thread,
        message,
        time(created),
        time(seen),
        tuple(quotes),
        None if until is None else time(until),
        successor,
        origin,
    )


def entry_document(row: Sequence[Any], seconds: Callable[[Any], float]) -> Document:
    """What search reads of an entry row."""
    entry_id, thread_id, created_at, source, content, status, valid_until = row
    role: Role = "user" if source in USER_SOURCES else "assistant"
    until = math.inf if valid_until is None else seconds(valid_until)
    return Document("entry", entry_id, thread_id, seconds(created_at), role, content, status, until)


def receipt_from_row(row: Sequence[Any]) -> CandidateReceipt:
    """One receipt."""
    status, content, source, reason, detail, quotes, entry_id = row
    return CandidateReceipt(status, content, source, reason, detail, tuple(json.loads(quotes)), entry_id)


def ledger_from_rows(
    scope: Scope, rows: Iterable[Sequence[Any]], time: Callable[[Any], datetime]
) -> list[ReceiptRow]:
    """Receipts with where and when."""
    return [
        ReceiptRow(Scope(scope.agent_id, scope.resource_id, thread), turn, time(at), receipt_from_row(receipt))
        for thread, turn, at, *receipt in rows
    ]


def turn_states(rows: Iterable[Sequence[Any]], time: Callable[[Any], datetime]) -> Iterator[TurnState]:
    """Turns of any scope."""
    for agent, resource, thread, turn_id, status, learning, attempts, error, due_at, pending in rows:
        scope = Scope(agent, resource or None, thread)
        if pending is None and learning in ("queued", "dead"):
            pending = EPISODIC  # closed by an older release, which knows no other layer
        layers = tuple(name for name in (pending or "").split(",") if name)
        yield TurnState(scope, turn_id, status, learning, attempts, error, time(due_at), layers)


def extend_shown(record: Mapping[str, Any], items: Iterable[Shown], references: Mapping[str, str | int]) -> str:
    """The record of what was found for a turn as JSON, with further items; what was shown once stays so.

    It lists items by the reason for which they were left out, empty for those that were shown: entries by their
    id, messages by their reference. A message without one was erased since.
    """
    reasons: dict[tuple[str, str | int], str] = {}
    for reason, listed in record.items():
        reasons |= {(kind, item_id): reason for kind, ids in listed.items() for item_id in ids}
    for item in items:
        kind, item_id = ("entries", item.id) if item.kind == "entry" else ("messages", references.get(item.id))
        if item_id is not None and reasons.get((kind, item_id)) != "":
            reasons[kind, item_id] = item.left_out
    extended: dict[str, dict[str, list[str | int]]] = {}
    for (kind, item_id), reason in reasons.items():
        extended.setdefault(reason, {}).setdefault(kind, []).append(item_id)
    return json.dumps(extended, ensure_ascii=False, separators=(",", ":"))


def usage_values(scope: Scope, day: str, usage: Mapping[str, Any]) -> Values:
    """Parameters of what was used."""
    return {**scope_key(scope), "day": day, **usage}

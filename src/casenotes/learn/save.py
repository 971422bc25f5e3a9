"""Decide what is stored of a turn: new entries, evidence for known ones, a receipt for each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from casenotes.intake import new_id
from casenotes.learn.work import Draft, Work
from casenotes.masking import mask
from casenotes.models.embed import pack_vectors
from casenotes.stores.learning import Corroboration, Learned, NewEntry
from casenotes.types import CandidateReceipt, CandidateStatus, Evidence

MAX_RECEIPT_CHARACTERS = 500
REFLECTIONS = 3
"""How often the reflector may be asked about an entry, should it fail."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A draft that was not refused: the entry it becomes or corroborates, its evidence and its time."""

    draft: Draft
    entry_id: str
    evidence: Sequence[Evidence]
    message_id: str | None
    at: datetime
    vector: bytes | None


def to_be_saved(work: Work, now: datetime) -> Learned:
    """Entries, corroborations and receipts of a turn as one value."""
    kept = {position: _kept(work, position, row, now) for row, position in enumerate(work.open)}
    ids = {position: item.entry_id for position, item in kept.items()}
    receipts = [_receipt(work, position, ids) for position in range(len(work.drafts))]
    return Learned(
        work.turn.turn_id,
        [_entry(item, work.verified) for item in kept.values() if not item.draft.corroborates],
        [
            Corroboration(item.entry_id, item.evidence, item.at, work.verified)
            for item in kept.values()
            if item.draft.corroborates
        ],
        [short(receipt) for receipt in (*receipts, *work.unreadable)],
        work.space_id,
        work.seen,
        now,
    )


def _kept(work: Work, position: int, row: int, now: datetime) -> _Kept:
    draft, evidence = work.drafts[position], all_evidence(work, position)
    times = {str(message.id): message.created_at or now for message in work.turn.messages}
    newest = max((quote.message_id for quote in evidence), key=lambda message: times[message], default=None)
    at = times[newest] if newest else max(times.values(), default=now)
    vector = None if work.vectors is None else pack_vectors(work.vectors[row : row + 1])[0]
    return _Kept(draft, draft.corroborates or new_id(now), evidence, newest, at, vector)


def _entry(kept: _Kept, verified: bool) -> NewEntry:
    candidate = kept.draft.candidate
    return NewEntry(
        kept.entry_id,
        candidate.content,
        kept.draft.hash,
        candidate.source,
        verified,
        kept.message_id,
        kept.at,
        kept.evidence,
        kept.vector,
        "quarantined" if kept.draft.instruction else "active",
        reflections_left=REFLECTIONS,
    )


def all_evidence(work: Work, position: int) -> list[Evidence]:
    """A draft's own evidence and that of its repeats within the turn."""
    same = [d for p, d in enumerate(work.drafts) if not d.receipt and work.root(p) == position]
    return list(dict.fromkeys(quote for draft in same for quote in draft.candidate.evidence))


def _receipt(work: Work, position: int, entry_ids: Mapping[int, str]) -> CandidateReceipt:
    draft = work.drafts[position]
    if draft.receipt:
        return draft.receipt
    if draft.same_as is not None:
        return _receipt_of(draft, "corroborated", entry_ids[work.root(position)], "same_turn")
    if draft.corroborates:
        return _receipt_of(draft, "corroborated", draft.corroborates, "known")
    if draft.instruction:
        reason, words = draft.instruction
        return _receipt_of(draft, "quarantined", entry_ids[position], reason, words)
    return _receipt_of(draft, "stored", entry_ids[position], "")


def _receipt_of(
    draft: Draft, status: CandidateStatus, entry_id: str, reason: str, detail: str = ""
) -> CandidateReceipt:
    candidate = draft.candidate
    return CandidateReceipt(
        status,
        candidate.content,
        candidate.source,
        reason=reason,
        detail=detail,
        quotes=candidate.quotes,  # the model's, with placeholders: what is secret shows in whole messages only
        entry_id=entry_id,
    )


def short(receipt: CandidateReceipt) -> CandidateReceipt:
    """A receipt as the ledger keeps it: masked and not longer than a person reads."""
    return replace(
        receipt,
        content=_excerpt(receipt.content),
        source=receipt.source[:100],
        detail=_excerpt(receipt.detail),
        quotes=tuple(_excerpt(quote) for quote in receipt.quotes[:10]),
    )


def _excerpt(text: str) -> str:
    masked = mask(text[: 4 * MAX_RECEIPT_CHARACTERS])
    return masked if len(masked) <= MAX_RECEIPT_CHARACTERS else masked[: MAX_RECEIPT_CHARACTERS - 1] + "…"

"""Judge by code what the reflector proposes: corrections, merges and drops of entries.

A correction needs the user's own words, said after the old entry, that state the change. A merge may lose
no number, identifier or negation and add none. Nothing that the user asked to keep is merged or dropped,
and no single answer can wipe out what it was shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from casenotes.learn.candidate import SourceLabel
from casenotes.learn.claims import Sources, unsupported
from casenotes.learn.evidence import find_quote, passage
from casenotes.learn.instructions import instruction_in
from casenotes.learn.negation import negations
from casenotes.learn.normalise import collapse, content_hash, is_visible
from casenotes.learn.questions import stated_part
from casenotes.learn.quotes import is_too_short
from casenotes.masking import mask
from casenotes.models.parse import parse_object
from casenotes.recall.words import search_terms
from casenotes.stores.revisions import ItemChange
from casenotes.types import CandidateReceipt, Entry, Evidence, Message

REFLECTOR = "reflector"
MOST_PROPOSALS = 50
MOST_DROPPED = 0.5
"""Of the entries shown at most this share is dropped in one go."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "supersede": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("old", "new", "evidence")},
                "required": ["old", "new", "evidence"],
                "additionalProperties": False,
            },
        },
        "merge": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "supersedes": {"type": "array", "items": {"type": "string"}},
                    "content": {"type": "string"},
                },
                "required": ["supersedes", "content"],
                "additionalProperties": False,
            },
        },
        "drop": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["supersede", "merge", "drop"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Correction:
    """A proposal that one entry takes the place of another, and the words that shall prove it."""

    old: str
    new: str
    quote: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A proposal to tell several entries in one."""

    ids: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the reflector answered, as far as it could be read."""

    corrections: Sequence[Correction] = ()
    merges: Sequence[Merge] = ()
    drops: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What the reflector was shown: active entries, the messages they quote, and what the user said last."""

    entries: Mapping[str, Entry]
    messages: Mapping[str, Message]
    said: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Merged:
    """An entry made of others."""

    content: str
    hash: str
    sources: Sequence[Entry]

    @property
    def newest(self) -> Entry:
        """The source that was learned last."""
        return max(self.sources, key=lambda entry: entry.created_at)

    @property
    def label(self) -> SourceLabel:
        """Who stands behind it: the assistant, as soon as it stands behind a part."""
        labels = {entry.source for entry in self.sources}
        if labels <= {"user_assertion"}:
            return "user_assertion"
        is_finding = "verified_assistant_finding" in labels
        return "verified_assistant_finding" if is_finding else "user_accepted_assistant_proposal"


@dataclass(slots=True)
class Decision:
    """What is done of a proposal, and a receipt for each part of it."""

    changes: list[ItemChange] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    receipts: list[CandidateReceipt] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do or to tell."""
        return not (self.receipts or self.merged)

    @property
    def settled(self) -> set[str]:
        """Entries about which something was decided."""
        changed = {change.item_id for change in self.changes}
        return changed | {entry.id for merged in self.merged for entry in merged.sources}


def read_proposal(output: str | Mapping[str, Any]) -> Proposal:
    """The readable parts of an answer; raises UnreadableOutput if there is no object in it."""
    answer = parse_object(output, "supersede")
    return Proposal(
        [
            Correction(i["old"], i["new"], i["evidence"])
            for i in _items(answer, "supersede")
            if _is_correction(i)
        ],
        [
            Merge(tuple(dict.fromkeys(i["supersedes"])), i["content"])
            for i in _items(answer, "merge")
            if _is_merge(i)
        ],
        [item for item in _items(answer, "drop") if isinstance(item, str)],
    )


def _items(answer: Mapping[str, Any], name: str) -> list[Any]:
    items = answer.get(name)
    return items[:MOST_PROPOSALS] if isinstance(items, list) else []


def _is_correction(item: object) -> bool:
    return isinstance(item, Mapping) and all(isinstance(item.get(n), str) for n in ("old", "new", "evidence"))


def _is_merge(item: object) -> bool:
    if not isinstance(item, Mapping) or not isinstance(item.get("content"), str):
        return False
    ids = item.get("supersedes")
    return isinstance(ids, list) and all(isinstance(entry_id, str) for entry_id in ids)


def decide(proposal: Proposal, view: View, max_length: int) -> Decision:
    """All that holds of a proposal; the first word on an entry counts."""
    decision = Decision()
    for correction in proposal.corrections:
        _correct(correction, view, decision)
    for merge in proposal.merges:
        _merge(merge, view, decision, max_length)
    _drop(proposal.drops, view, decision)
    return decision


def _correct(correction: Correction, view: View, decision: Decision) -> None:
    old, new = view.entries.get(correction.old), view.entries.get(correction.new)
    if old is None or new is None or old is new or {old.id, new.id} & decision.settled:
        refuse(decision, "unknown_entry", (correction.old, correction.new), quote=correction.quote)
        return
    found = proof(correction.quote, old, new, view)
    if isinstance(found, str):
        note = ItemChange(old.id, "conflicting", successor=new.id, detail=found)
        decision.changes.append(note)
        refuse(decision, found, (old.id, new.id), quote=correction.quote)
        return
    message, evidence = found
    until = max(_time(message), new.created_at)
    decision.changes.append(
        ItemChange(
            old.id, "superseded", after="superseded", valid_until=until, successor=new.id, quote=evidence
        )
    )
    receipt = CandidateReceipt(
        "superseded", old.content, old.source, "corrected", new.id, (correction.quote,), old.id
    )
    decision.receipts.append(receipt)


def proof(quote: str, old: Entry, new: Entry, view: View) -> tuple[Message, Evidence] | str:
    """The user's message that states a change and where, or why nothing does."""
    if new.created_at < old.created_at:
        return "correction_is_older"
    candidates = _users([*view.said, *(view.messages.get(q.message_id) for q in new.evidence)])
    quoted = [(m, e) for m in candidates if (e := find_quote(quote, [passage(m)]))]
    if not quoted:
        return "evidence_too_short" if is_too_short(quote) else "evidence_not_found"
    since = [view.messages[q.message_id] for q in old.evidence if q.message_id in view.messages]
    later = [(m, e) for m, e in quoted if _is_later(m, since, old)]
    if not later:
        return "evidence_not_later"
    stating = [(m, e) for m, e in later if not _is_question(m.text, e, old, new)]
    return stating[0] if stating else "evidence_is_a_question"


def _users(messages: Sequence[Message | None]) -> list[Message]:
    """The user's messages among them, each once, earliest first."""
    found = {str(message.id): message for message in messages if message and message.role == "user"}
    return sorted(found.values(), key=_time)


def _is_later(message: Message, since: Sequence[Message], old: Entry) -> bool:
    """Whether a message came after all that an entry quotes; within a thread its place decides equal times."""
    if not since:
        return _time(message) > old.created_at
    return all(
        _time(message) > _time(other)
        or (
            _time(message) == _time(other)
            and message.thread_id == other.thread_id
            and (message.seq or 0) > (other.seq or 0)
        )
        for other in since
    )


def _is_question(text: str, evidence: Evidence, old: Entry, new: Entry) -> bool:
    """Whether a quote asks instead of stating; one that does both must state what it names of the change."""
    stated = stated_part(text, evidence.start, evidence.end)
    terms = set(search_terms(stated))
    named = set(search_terms(evidence.quote))
    if named <= terms:
        return not stated
    changed = named & set(search_terms(new.content)) - set(search_terms(old.content))
    return not (changed and changed <= terms)


def _merge(merge: Merge, view: View, decision: Decision, max_length: int) -> None:
    content = mask(collapse(merge.content))
    known = [view.entries[entry_id] for entry_id in merge.ids if entry_id in view.entries]
    if len(known) < 2 or len(known) < len(merge.ids) or {e.id for e in known} & decision.settled:
        refuse(decision, "unknown_entry", merge.ids)
    elif problem := merge_problem(content, known, max_length):
        reason, values = problem
        refuse(decision, reason, merge.ids, content, values)
    else:
        decision.merged.append(Merged(content, content_hash(content), known))


def merge_problem(content: str, sources: Sequence[Entry], max_length: int) -> tuple[str, str] | None:
    """Why a text cannot stand for several entries, with the values concerned."""
    if not is_visible(content) or len(content) > max_length:
        return "merge_too_long" if content else "empty", f"{len(content)} characters"
    if any(entry.origin == "remembered" for entry in sources):
        return "remembered", "the user asked to keep it"
    texts = [entry.content for entry in sources]
    kept = Sources([content])
    if lost := [value for text in texts for value in unsupported(text, kept)]:
        return "merge_loses", ", ".join(lost)
    if added := unsupported(content, texts):
        return "unsupported", ", ".join(added)
    denials = [negations(text) for text in texts]
    if not min(denials) <= negations(content) <= sum(denials):
        return "merge_loses", "a negation"
    if instruction_in(content):
        return "instruction", "reads like an order"
    return None


def _drop(ids: Sequence[str], view: View, decision: Decision) -> None:
    """Drop entries that nobody asked to keep, never more than a share of what was shown."""
    room = int(len(view.entries) * MOST_DROPPED)
    for entry_id in dict.fromkeys(ids):
        entry = view.entries.get(entry_id)
        if entry is None or entry_id in decision.settled:
            refuse(decision, "unknown_entry", (entry_id,))
        elif entry.origin == "remembered" or room <= 0:
            reason = "remembered" if entry.origin == "remembered" else "drops_too_much"
            refuse(decision, reason, (entry_id,), entry.content)
        else:
            room -= 1
            decision.changes.append(ItemChange(entry_id, "dropped", after="dropped"))
            decision.receipts.append(
                CandidateReceipt("rejected", entry.content, entry.source, "dropped", entry_id=entry_id)
            )


def refuse(
    decision: Decision, reason: str, ids: Sequence[str], content: str = "", detail: str = "", quote: str = ""
) -> None:
    """Note a refusal; its source tells erasing that the words may come from any thread of the scope."""
    quotes = (quote,) if quote else ()
    told = content or ", ".join(ids)
    decision.receipts.append(CandidateReceipt("rejected", told, REFLECTOR, reason, detail, quotes))


def _time(message: Message) -> datetime:
    return message.created_at or datetime.min.replace(tzinfo=UTC)

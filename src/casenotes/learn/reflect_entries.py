"""The episodic reflector: a second look at new entries beside those that are near them.

A model proposes, `corrections` decides, and all that holds is done in one transaction. Should the model
fail, entries stay as they are and are looked at again with the next ones, a few times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from casenotes.errors import StoreError
from casenotes.intake import new_id
from casenotes.learn.corrections import SCHEMA, Decision, Merged, Proposal, View, decide, read_proposal, refuse
from casenotes.learn.pipeline import Tools
from casenotes.learn.prompts import filled, prompt
from casenotes.learn.save import short
from casenotes.learn.transcript import TAG_OPENERS
from casenotes.masking import mask
from casenotes.recall.hits import shown_quote
from casenotes.recall.vectors import vectors_of
from casenotes.stores.learning import Lease, NewEntry
from casenotes.stores.revisions import Freshness, ItemChange, NewRevision
from casenotes.types import CandidateReceipt, Entry, Message, Scope

MOST_NEW = 10
NEIGHBOURS = 5
MAX_ROUNDS = 3
MESSAGE_CHARACTERS = 4_000
MAX_MESSAGES = 20


async def reflect(tools: Tools, scope: Scope, turn_id: str, lease: Lease) -> list[CandidateReceipt]:
    """Put new entries in order beside their neighbours; says what became of each proposal."""
    new = await tools.store.revisions.take_to_reflect(scope, MOST_NEW)
    shown = await _with_neighbours(tools, scope, new)
    receipts: list[CandidateReceipt] = []
    if len(shown) > 1:
        view = await _view(tools, scope, turn_id, shown)
        reply = await tools.reflector.ask(
            scope, "reflect_entries", prompt("reflect_entries"), reflection_prompt(view, new), SCHEMA
        )
        receipts = await _carry_out(tools, scope, turn_id, lease, read_proposal(reply.output), shown)
    if new:
        await tools.store.revisions.reflected(scope, new)
    return receipts


async def _with_neighbours(tools: Tools, scope: Scope, new: Sequence[str]) -> list[str]:
    """The new entries and those near them; only the new ones if nothing is."""
    entries = await tools.store.entries.get(scope, new) if new else {}
    near = [
        entry_id
        for entry in entries.values()
        for entry_id in await tools.searcher.neighbours(scope, entry.content, NEIGHBOURS + 1)
    ]
    return list(dict.fromkeys([*new, *near])) if set(near) - set(new) or len(new) > 1 else list(new)


async def _view(tools: Tools, scope: Scope, turn_id: str, ids: Sequence[str]) -> View:
    found = await tools.store.entries.get(scope, ids)
    entries = {entry_id: entry for entry_id, entry in found.items() if entry.status == "active"}
    quoted = {quote.message_id for entry in entries.values() for quote in entry.evidence}
    messages = await tools.store.messages(scope, list(quoted)) if quoted else {}
    log = await tools.store.jobs.log(scope, turn_id, 0)
    return View(entries, messages, [message for message in log.messages if message.role == "user"])


def reflection_prompt(view: View, new: Sequence[str]) -> str:
    """What the reflector is asked."""
    entries = sorted(view.entries.values(), key=lambda entry: (entry.created_at, entry.id))
    notes = [_note(entry, view) | ({"new": True} if entry.id in new else {}) for entry in entries]
    return filled(
        "reflect_turn",
        notes=_lines(notes),
        messages=_lines([_said(message) for message in view.said[-MAX_MESSAGES:]]),
    )


def _note(entry: Entry, view: View) -> dict[str, object]:
    quotes = [shown_quote(quote, view.messages).quote[:MESSAGE_CHARACTERS] for quote in entry.evidence[:3]]
    return {"id": entry.id, "time": entry.created_at.isoformat(), "content": entry.content, "quotes": quotes}


def _said(message: Message) -> dict[str, object]:
    time = message.created_at.isoformat() if message.created_at else None
    return {"time": time, "text": mask(message.text)[:MESSAGE_CHARACTERS]}


def _lines(rows: Sequence[dict[str, object]]) -> str:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows).translate(TAG_OPENERS)
    return f"[\n{lines}\n]"


async def _carry_out(
    tools: Tools, scope: Scope, turn_id: str, lease: Lease, proposal: Proposal, shown: Sequence[str]
) -> list[CandidateReceipt]:
    """Decide in view of the entries as they are now, and again should they change meanwhile."""
    for _ in range(MAX_ROUNDS):
        seen = await tools.store.freshness(scope)
        view = await _view(tools, scope, turn_id, shown)
        decision = await _without_known(tools, scope, decide(proposal, view, tools.settings.max_entry_length))
        if decision.is_empty:
            return []
        revision = await _revision(tools, scope, turn_id, decision, seen)
        if await tools.store.revisions.revise(scope, revision, lease):
            return list(revision.receipts)
    raise StoreError(f"entries of {scope.resource_id!r} change faster than they can be put in order")


async def _without_known(tools: Tools, scope: Scope, decision: Decision) -> Decision:
    """Merges whose text stands in another active entry already are left out."""
    known = await tools.store.entries.known_hashes(scope, [merged.hash for merged in decision.merged])
    for merged in list(decision.merged):
        if known.get(merged.hash) not in (None, *(entry.id for entry in merged.sources)):
            decision.merged.remove(merged)
            refuse(decision, "known", [entry.id for entry in merged.sources], merged.content)
    return decision


async def _revision(
    tools: Tools, scope: Scope, turn_id: str, decision: Decision, seen: Freshness
) -> NewRevision:
    now = tools.clock.now()
    vectors = await vectors_of(tools.space, tools.events, scope, [m.content for m in decision.merged])
    entries = [_new_entry(m, new_id(now), v) for m, v in zip(decision.merged, vectors, strict=True)]
    changes = [
        ItemChange(source.id, "merged", after="superseded", valid_until=entry.created_at, successor=entry.id)
        for merged, entry in zip(decision.merged, entries, strict=True)
        for source in merged.sources
    ]
    stored = [CandidateReceipt("stored", e.content, e.source, "merged", entry_id=e.id) for e in entries]
    receipts = [short(receipt) for receipt in (*decision.receipts, *stored)]
    return NewRevision(
        new_id(now),
        "reflector",
        now,
        [*decision.changes, *changes],
        entries,
        space_id=tools.space.current.record.id,
        seen=seen,
        turn_id=turn_id,
        receipts=receipts,
    )


def _new_entry(merged: Merged, entry_id: str, vector: bytes | None) -> NewEntry:
    newest = merged.newest
    evidence = dict.fromkeys(quote for entry in merged.sources for quote in entry.evidence)
    return NewEntry(
        entry_id,
        merged.content,
        merged.hash,
        merged.label,
        all(entry.verified for entry in merged.sources),
        newest.message_id,
        newest.created_at,
        list(evidence),
        vector,
        origin="merged",
        thread_id=newest.thread_id,
    )

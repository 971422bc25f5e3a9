"""Derive entries again from the log with the current model and prompts, beside those there are.

All turns that ended well are learned from once more in a throw-away store, corrections included. The
difference is shown; only then, and at one stroke that can be undone, do the new entries take the place of
the old ones. What the user asked to keep stays, and what was forgotten stays forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from casenotes.curate.desk import Desk
from casenotes.errors import StoreError
from casenotes.learn.normalise import content_hash
from casenotes.learn.pipeline import Tools, learn_turn, read_turn
from casenotes.learn.prompts import prompt
from casenotes.learn.reflect_entries import reflect
from casenotes.learn.transcript import prompts, spoken
from casenotes.learn.work import FinishedTurn
from casenotes.recall.search import Searcher
from casenotes.recall.space import CurrentSpace, SpaceInUse
from casenotes.recall.vectors import VectorFiller
from casenotes.stores import create_store
from casenotes.stores.base import Store, TurnMark
from casenotes.stores.learning import NewEntry, TurnState
from casenotes.stores.revisions import ItemChange
from casenotes.types import Entry, EntryStatus, Scope

CURRENT: tuple[EntryStatus, ...] = ("active", "superseded", "quarantined")
LEASE_SECONDS = 86_400.0
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a rebuild will ask the extractor; the reflector comes on top where entries meet."""

    turns: int
    calls: int
    input_tokens: int


class Changed(NamedTuple):
    """An entry that is told otherwise now."""

    old: Entry
    new: Entry


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuilt memory beside the old one, as it was at `seen`; nothing has changed yet."""

    scope: Scope
    turns: int
    kept: tuple[Entry, ...]
    added: tuple[Entry, ...]
    gone: tuple[Entry, ...]
    changed: tuple[Changed, ...]
    seen: int = field(repr=False)
    vectors: Mapping[str, bytes] = field(repr=False)
    renamed: Mapping[str, str] = field(repr=False)

    @property
    def is_different(self) -> bool:
        """Whether there is anything to switch."""
        return bool(self.added or self.gone or self.changed)


async def estimate(desk: Desk, tools: Tools, scope: Scope) -> Estimate:
    """Calls and tokens, without asking anybody."""
    turns = await desk.store.jobs.finished(scope)
    system = tools.count_tokens(tools.settings.extraction_prompt or prompt("extract"))
    sizes: list[int] = []
    for state in turns:
        turn = await read_turn(desk.store, state.scope, state.turn_id)
        limit = tools.settings.max_transcript_tokens
        requests = prompts(spoken(turn.messages), turn.before, (), limit, tools.count_tokens)
        sizes += [system + tools.count_tokens(request) for request in requests]
    return Estimate(len(turns), len(sizes), sum(sizes))


async def rebuild(desk: Desk, tools: Tools, scope: Scope, progress: Progress) -> Rebuild:
    """Learn from all turns again and compare; the store stays as it is."""
    turns = await desk.store.jobs.finished(scope)
    store = create_store("sqlite:///:memory:")
    await store.open()
    try:
        beside = await _beside(desk, tools, store)
        for number, state in enumerate(turns, 1):
            turn = await read_turn(desk.store, state.scope, state.turn_id)
            await _learn_again(beside, replace(turn, known=()), state)
            progress(number, len(turns))
        other = replace(desk, store=store, searcher=beside.searcher, space=beside.space)
        return await _compared(desk, other, scope, len(turns))
    finally:
        await store.close()


async def _beside(desk: Desk, tools: Tools, store: Store) -> Tools:
    """The same tools over another store."""
    current = desk.space.current
    record = await store.claim_space(*current.record.key)
    space = SpaceInUse(store, CurrentSpace(record, current.embedder), tools.events)
    filler = VectorFiller(store, space, tools.events)
    searcher = Searcher(store, space, filler, desk.searcher.settings, tools.clock, tools.events)
    asker, reflector = tools.asker.without_limit(), tools.reflector.without_limit()
    return replace(tools, store=store, searcher=searcher, space=space, asker=asker, reflector=reflector)


async def _learn_again(tools: Tools, turn: FinishedTurn, state: TurnState) -> None:
    opened = TurnMark(turn.turn_id, "open", state.due_at)
    await tools.store.append(turn.scope, turn.messages, opened)
    await tools.store.append(turn.scope, (), replace(opened, status="success", learn=True))
    lease = await tools.store.jobs.acquire(turn.scope, "extract", "rebuild", LEASE_SECONDS)
    if lease is None:
        return  # a turn without messages
    await learn_turn(tools, turn, lease)
    if tools.settings.reflect:
        await reflect(tools, turn.scope, turn.turn_id, lease)
    await tools.store.jobs.release(lease)


async def _all(desk: Desk, scope: Scope) -> list[Entry]:
    return [entry async for page in desk.entries(scope, *CURRENT) for entry in page]


async def _compared(desk: Desk, beside: Desk, scope: Scope, turns: int) -> Rebuild:
    seen = (await desk.store.freshness(scope)).change
    old, new = await _all(desk, scope), await _all(beside, scope)
    forgotten = await desk.store.entries.forgotten_sources(scope, [content_hash(e.content) for e in new])
    new = [entry for entry in new if not _is_forgotten(entry, forgotten)]
    kept, renamed = matched(old, new)
    rest_old = [e for e in old if e.id not in renamed.values() and e.origin != "remembered"]
    rest_new = [e for e in new if e.id not in renamed]
    changed = told_otherwise(rest_old, rest_new)
    gone = [e for e in rest_old if e.id not in {pair.old.id for pair in changed}]
    added = [e for e in rest_new if e.id not in {pair.new.id for pair in changed}]
    found = await beside.store.changes(scope, beside.space.current.record.id, 0)
    vectors = {row.id: row.vector for row in found.vectors if row.kind == "entry"}
    return Rebuild(scope, turns, tuple(kept), tuple(added), tuple(gone), tuple(changed), seen, vectors, renamed)


def _is_forgotten(entry: Entry, forgotten: set[tuple[str, str]]) -> bool:
    digest = content_hash(entry.content)
    return bool(entry.evidence) and all((digest, q.message_id) in forgotten for q in entry.evidence)


def matched(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[Entry], dict[str, str]]:
    """Old entries that stay as they are, and new ids by the old ones they are the same as.

    Whether a person has released something from quarantine, or it is there again, is not decided anew.
    """
    by_hash: dict[str, list[Entry]] = {}
    for entry in old:
        by_hash.setdefault(content_hash(entry.content), []).append(entry)
    renamed: dict[str, str] = {}
    kept = []
    for entry in new:
        same = next((o for o in by_hash.get(content_hash(entry.content), []) if _stays(o, entry)), None)
        if same and same.id not in renamed.values():
            renamed[entry.id] = same.id
            kept.append(same)
    return kept, renamed


def _stays(old: Entry, new: Entry) -> bool:
    if old.origin == "remembered":
        return old.status == new.status
    return old.status == new.status or {old.status, new.status} == {"active", "quarantined"}


def told_otherwise(old: Sequence[Entry], new: Sequence[Entry]) -> list[Changed]:
    """Pairs of an old and a new entry that rest on the same message, each entry in one pair at most."""
    left = list(new)
    pairs = []
    for entry in old:
        messages = {quote.message_id for quote in entry.evidence}
        other = next((n for n in left if messages & {quote.message_id for quote in n.evidence}), None)
        if other:
            left.remove(other)
            pairs.append(Changed(entry, other))
    return pairs


async def switch(desk: Desk, plan: Rebuild) -> str:
    """Put the new entries in the place of the old ones; gives the revision that undoes it."""
    old = [*plan.gone, *(pair.old for pair in plan.changed)]
    new = [*plan.added, *(pair.new for pair in plan.changed)]
    changes = [ItemChange(e.id, "rebuilt", e.status, "dropped", valid_until=e.valid_until) for e in old]
    revision = replace(
        desk.revision("rebuild", changes),
        entries=[_new_entry(entry, plan) for entry in new],
        space_id=desk.space.current.record.id,
        seen=plan.seen,
    )
    if not await desk.store.revisions.revise(plan.scope, revision):
        raise StoreError(
            "entries have changed since the rebuild was compared; nothing was switched, run it again"
        )
    return revision.id


def _new_entry(entry: Entry, plan: Rebuild) -> NewEntry:
    successor = entry.superseded_by
    return NewEntry(
        entry.id,
        entry.content,
        content_hash(entry.content),
        entry.source,
        entry.verified,
        entry.message_id,
        entry.created_at,
        entry.evidence,
        plan.vectors.get(entry.id),
        entry.status,
        entry.origin,
        entry.thread_id,
        valid_until=entry.valid_until,
        superseded_by=plan.renamed.get(successor, successor) if successor else None,
    )

"""Derive entries again from the log with the current model and prompts, beside those there are.

All turns that ended well are learned from once more in a throw-away store, corrections included. The
difference is shown; only then, and at one stroke that can be undone, do the new entries take the place of
the old ones. What the user asked to keep stays, and what was forgotten stays forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from casenotes.curate.desk import Desk
from casenotes.errors import ModelError, StoreError
from casenotes.learn.normalise import content_hash
from casenotes.learn.pipeline import Tools, is_forgotten, learn_turn, read_turn
from casenotes.learn.prompts import prompt
from casenotes.learn.reflect_entries import reflect
from casenotes.learn.transcript import prompts, spoken
from casenotes.learn.work import FinishedTurn
from casenotes.recall.hits import read_entries
from casenotes.recall.search import Searcher
from casenotes.recall.space import CurrentSpace, SpaceInUse
from casenotes.recall.vectors import VectorFiller
from casenotes.stores import create_store
from casenotes.stores.base import Store, TurnMark
from casenotes.stores.learning import Lease, NewEntry, TurnState
from casenotes.stores.revisions import Freshness, ItemChange
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
class Made:
    """What a switch needs: new entries with their exact quotes and vectors, in view of which state.

    `renamed` are ids of new entries by those of old ones that say the same.
    """

    seen: Freshness
    space_id: int
    entries: Mapping[str, Entry]
    vectors: Mapping[str, bytes]
    renamed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuilt memory beside the old one; nothing has changed yet. Entries are as they may be shown.

    `failed` are turns that the model could not be asked about: what they had taught stays.
    """

    scope: Scope
    turns: int
    kept: tuple[Entry, ...]
    added: tuple[Entry, ...]
    gone: tuple[Entry, ...]
    changed: tuple[Changed, ...]
    failed: tuple[str, ...]
    made: Made = field(repr=False)

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
        turn = await read_turn(desk.store, state.scope, state.turn_id, tools.runs)
        limit = tools.settings.max_transcript_tokens
        requests = prompts(spoken(turn.messages), turn.before, "", limit, tools.count_tokens)
        sizes += [system + tools.count_tokens(request) for request in requests]
    return Estimate(len(turns), len(sizes), sum(sizes))


async def rebuild(desk: Desk, tools: Tools, scope: Scope, progress: Progress) -> Rebuild:
    """Learn from all turns again and compare; the store stays as it is."""
    store = create_store("sqlite:///:memory:")
    await store.open()
    try:
        beside = await _beside(desk, tools, store)
        run = _Run(desk, beside, scope, progress)
        seen = await desk.store.freshness(scope)
        while await run.learn_new_turns():  # what was learned meanwhile must not be missing
            seen = await desk.store.freshness(scope)
        other = replace(desk, store=store, searcher=beside.searcher, space=beside.space)
        return await _compared(desk, other, run, seen)
    finally:
        await store.close()


class _Run:
    """Turns learned from again, and those that could not be."""

    def __init__(self, desk: Desk, beside: Tools, scope: Scope, progress: Progress) -> None:
        self.scope = scope
        self.done: set[tuple[Scope, str]] = set()
        self.failed: dict[str, set[str]] = {}
        self._desk = desk
        self._beside = beside
        self._progress = progress

    async def learn_new_turns(self) -> bool:
        """Learn from what has finished since; False if nothing has."""
        turns = await self._desk.store.jobs.finished(self.scope)
        new = [state for state in turns if (state.scope, state.turn_id) not in self.done]
        for state in new:
            await self._learn(state)
            self.done.add((state.scope, state.turn_id))
            self._progress(len(self.done), len(turns))
        return bool(new)

    async def _learn(self, state: TurnState) -> None:
        read = await read_turn(self._desk.store, state.scope, state.turn_id, self._beside.runs)
        turn = replace(read, known=())
        try:
            await _learn_again(self._beside, turn, state)
        except ModelError:
            if len(self.failed) == len(self.done):
                raise  # it has not answered once
            self.failed[state.turn_id] = {str(message.id) for message in turn.messages}


async def _beside(desk: Desk, tools: Tools, store: Store) -> Tools:
    """The same tools over another store."""
    current = desk.space.current
    record = await store.claim_space(*current.record.key)
    space = SpaceInUse(store, CurrentSpace(record, current.embedder), tools.events)
    filler = VectorFiller(store, space, tools.events)
    known = desk.searcher
    searcher = Searcher(store, space, filler, known.settings, tools.clock, tools.events, known.name_of)
    asker, reflector = tools.asker.without_limit(), tools.reflector.without_limit()
    return replace(tools, store=store, searcher=searcher, space=space, asker=asker, reflector=reflector)


async def _learn_again(tools: Tools, turn: FinishedTurn, state: TurnState) -> None:
    opened = TurnMark(turn.turn_id, "open", state.due_at)
    await tools.store.append(turn.scope, turn.messages, opened)
    await tools.store.append(turn.scope, (), replace(opened, status="success", learners=("memory",)))
    lease = await tools.store.jobs.acquire(turn.scope, "extract", "rebuild", LEASE_SECONDS)
    if lease is None:
        return  # a turn without messages
    try:
        await learn_turn(tools, turn, lease)
        if tools.settings.reflect:
            await _reflect_again(tools, turn, lease)
    finally:
        await tools.store.jobs.release(lease)


async def _reflect_again(tools: Tools, turn: FinishedTurn, lease: Lease) -> None:
    """As after a turn: should it fail, entries stay as they are."""
    try:
        await reflect(tools, turn.scope, turn.turn_id, lease)
    except ModelError as error:
        tools.events.emit("reflection.failed", turn.scope, source="episodic-memory", error=str(error))


async def _all(desk: Desk, scope: Scope) -> list[Entry]:
    return [entry async for page in desk.entries(scope, *CURRENT) for entry in page]


async def _compared(desk: Desk, beside: Desk, run: _Run, seen: Freshness) -> Rebuild:
    scope = run.scope
    old, new = await _all(desk, scope), await _learnable(desk, scope, await _all(beside, scope))
    kept, renamed = matched(old, new)
    kept += [e for e in old if e.id not in renamed.values() and _rests_on(e, run.failed.values())]
    stays = {entry.id for entry in kept}
    rest_old = [e for e in old if e.id not in stays and e.origin != "remembered"]
    rest_new = [e for e in new if e.id not in renamed]
    changed = told_otherwise(rest_old, rest_new)
    gone = {e.id for e in rest_old} - {pair.old.id for pair in changed}
    added = {e.id for e in rest_new} - {pair.new.id for pair in changed}
    space_id = beside.space.current.record.id
    vectors = {row.id: row.vector for row in (await beside.store.changes(scope, space_id, 0)).vectors}
    made = Made(seen, desk.space.current.record.id, {e.id: e for e in rest_new}, vectors, renamed)
    shown_old = await read_entries(desk.store, scope, [entry.id for entry in old])
    shown_new = await read_entries(beside.store, scope, [entry.id for entry in new])
    return Rebuild(
        scope,
        len(run.done),
        tuple(shown_old[entry.id] for entry in kept),
        tuple(shown_new[entry.id] for entry in rest_new if entry.id in added),
        tuple(shown_old[entry.id] for entry in rest_old if entry.id in gone),
        tuple(Changed(shown_old[pair.old.id], shown_new[pair.new.id]) for pair in changed),
        tuple(run.failed),
        made,
    )


async def _learnable(desk: Desk, scope: Scope, new: Sequence[Entry]) -> list[Entry]:
    """Without what was forgotten."""
    hashes = {entry.id: content_hash(entry.content) for entry in new}
    forgotten = await desk.store.entries.forgotten_sources(scope, list(hashes.values()))
    quoted = {quote.message_id for entry in new for quote in entry.evidence}
    hidden = await desk.store.entries.hidden(scope, sorted(quoted))
    return [e for e in new if not is_forgotten(hashes[e.id], e.evidence, forgotten, hidden)]


def _rests_on(entry: Entry, turns: Iterable[set[str]]) -> bool:
    """Whether all that an entry quotes was said in one of some turns."""
    messages = {quote.message_id for quote in entry.evidence}
    return bool(messages) and any(messages <= turn for turn in turns)


def matched(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[Entry], dict[str, str]]:
    """Old entries that stay as they are, and new ids by the old ones they are the same as.

    Whether a person has released something from quarantine, or it is there again, is not decided anew.
    """
    wishes = {entry.id for entry in old if entry.origin == "remembered"}
    by_hash: dict[str, list[Entry]] = {}
    for entry in old:
        by_hash.setdefault(content_hash(entry.content), []).append(entry)
    renamed: dict[str, str] = {}
    kept = []
    for entry in new:
        same = next((o for o in by_hash.get(content_hash(entry.content), []) if _stays(o, entry, wishes)), None)
        if same and same.id not in renamed.values():
            renamed[entry.id] = same.id
            kept.append(same)
    return kept, renamed


def _stays(old: Entry, new: Entry, wishes: Set[str]) -> bool:
    """Also what is superseded by something that the user asked to keep, which is not learned again."""
    if old.status == new.status or (old.superseded_by in wishes and new.status == "active"):
        return True
    return old.origin != "remembered" and {old.status, new.status} == {"active", "quarantined"}


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
        entries=[_new_entry(plan.made.entries[entry.id], plan.made, desk) for entry in new],
        space_id=plan.made.space_id,
        seen=plan.made.seen,
    )
    if not await desk.store.revisions.revise(plan.scope, revision):
        raise StoreError(
            "entries have changed since the rebuild was compared; nothing was switched, run it again"
        )
    return revision.id


def _new_entry(entry: Entry, made: Made, desk: Desk) -> NewEntry:
    """An entry to be stored; vectors of another space than the store's are made anew later."""
    successor = entry.superseded_by
    is_same_space = desk.space.current.record.id == made.space_id
    return NewEntry(
        entry.id,
        entry.content,
        content_hash(entry.content),
        entry.source,
        entry.verified,
        entry.message_id,
        entry.created_at,
        entry.evidence,
        made.vectors.get(entry.id) if is_same_space else None,
        entry.status,
        entry.origin,
        entry.thread_id,
        valid_until=entry.valid_until,
        superseded_by=made.renamed.get(successor, successor) if successor else None,
    )

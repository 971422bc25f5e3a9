"""The write path: from a finished turn to entries with evidence, one step after the other.

Every step takes the work and gives it back; a candidate is kept, or it leaves with a receipt that says
why. The last two steps are repeated when another worker stored entries of the same scope meanwhile:
what is a duplicate must be decided in view of all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, replace

from casenotes.clock import Clock
from casenotes.config import EpisodesSettings, EpisodicSettings
from casenotes.errors import BudgetExceeded, SpaceMismatch, StoreError
from casenotes.events import Events
from casenotes.learn.ask import Asker
from casenotes.learn.candidate import Candidate
from casenotes.learn.claims import Sources
from casenotes.learn.echo import EchoGuard
from casenotes.learn.evidence import judge, passage, said
from casenotes.learn.extract import SCHEMA, read_reply
from casenotes.learn.instructions import instruction_in
from casenotes.learn.normalise import collapse, content_hash, cut, is_visible
from casenotes.learn.prompts import prompt
from casenotes.learn.save import all_evidence, to_be_saved
from casenotes.learn.similar import decide, same_turn
from casenotes.learn.speakers import shown_name
from casenotes.learn.transcript import CONTEXT_MESSAGES, known_memory, prompts
from casenotes.learn.work import Draft, FinishedTurn, Work, refused
from casenotes.masking import mask
from casenotes.models.embed import embed_texts
from casenotes.recall.search import Searcher
from casenotes.recall.space import SpaceInUse
from casenotes.stores.base import Store
from casenotes.stores.learning import Lease, by_kind
from casenotes.stores.observations import is_touched
from casenotes.tokens import TokenCounter
from casenotes.types import (
    CandidateReceipt,
    Entry,
    Evidence,
    Message,
    Observation,
    ObservationStatus,
    Scope,
    SessionState,
)

NEIGHBOURS = 8
MAX_ROUNDS = 10
PROFILE = "user-profile"
"""The layer whose state says what is known about the user."""

MAX_REQUESTS = 20
"""A turn that goes on for hours is asked about no more often; its newest part counts."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the steps work with."""

    store: Store
    searcher: Searcher
    space: SpaceInUse
    asker: Asker
    reflector: Asker
    settings: EpisodicSettings
    runs: EpisodesSettings
    clock: Clock
    events: Events
    count_tokens: TokenCounter


Step = Callable[[Work, Tools], Awaitable[Work]]


async def learn(tools: Tools, scope: Scope, turn_id: str, lease: Lease) -> list[CandidateReceipt]:
    """Learn from one turn and say what became of every candidate."""
    turn = await read_turn(tools.store, scope, turn_id, tools.runs)
    if tools.settings.extract_from == "observations":
        turn = await _with_observations(tools.store, turn)
    return await learn_turn(tools, turn, lease)


async def learn_turn(tools: Tools, turn: FinishedTurn, lease: Lease) -> list[CandidateReceipt]:
    """Learn from a turn that was read, wherever it was read from."""
    scope = turn.scope
    work = Work(turn, verified=tools.settings.verifies)
    for step in STEPS:
        work = await step(work, tools)
    for _ in range(MAX_ROUNDS):
        work = await compare_with_stored(work, tools)
        learned = to_be_saved(work, tools.clock.now())
        if await tools.store.entries.save(turn.scope, lease, learned):
            return list(learned.receipts)
    raise StoreError(
        f"entries of {scope.resource_id!r} change faster than they can be compared; try again later"
    )


async def read_turn(store: Store, scope: Scope, turn_id: str, runs: EpisodesSettings) -> FinishedTurn:
    """Everything the steps need to know of a turn. What was shown after it, it cannot have echoed."""
    log = await store.jobs.log(scope, turn_id, CONTEXT_MESSAGES)
    own = {message.id for message in log.messages}
    shown = await store.entries.shown(scope, turn_id)
    ids = by_kind(shown)
    found = await store.entries.get(scope, ids["entry"]) if ids["entry"] else {}
    entries = [entry for entry in found.values() if not _stems_from(entry, own)]
    others = [message_id for message_id in ids["message"] if message_id not in own]
    messages = (await store.messages(scope, others)).values() if others else ()
    now_shown = {item.id for item in shown if item.kind == "entry" and item.turn_id == turn_id}
    profile = await _profile(store, scope)
    texts = [text for entry in entries for text in (entry.content, *(q.quote for q in entry.evidence))]
    texts += [message.search_text for message in messages]
    texts += [value for _field, value in profile]
    texts += await _earlier_runs(store, scope, log.messages, runs)
    texts += await _earlier_observations(store, scope, log.messages)
    known = [entry.content for entry in entries if entry.id in now_shown]
    about = [f"{field}: {value}" for field, value in profile]
    return FinishedTurn(scope, turn_id, log.messages, log.before, texts, known, about)


async def _earlier_observations(store: Store, scope: Scope, messages: Sequence[Message]) -> list[str]:
    """What the model was shown of the thread in short; not what was made of the turn itself."""
    first = min((message.seq or 0 for message in messages), default=0)
    rows = await _observed(store, scope, ["active", "superseded"])
    state = await store.observations.state(scope)
    session = state.session if state.session_seq < first else SessionState()
    told = [session.objective, session.state, *session.decisions, *session.follow_ups]
    return [*(row.text for row in rows if max(last for _, last in row.covers) < first), *filter(None, told)]


async def _observed(store: Store, scope: Scope, statuses: Sequence[ObservationStatus]) -> list[Observation]:
    """Rows of a thread, without what was forgotten since."""
    rows = await store.observations.log(scope, statuses)
    forgotten = await store.observations.forgotten(scope) if rows else []
    return [row for row in rows if not is_touched(row, forgotten)]


async def _with_observations(store: Store, turn: FinishedTurn) -> FinishedTurn:
    """The turn with what was observed of it, as the Observer wrote it down first."""
    seqs = [message.seq or 0 for message in turn.messages]
    rows = await _observed(store, turn.scope, ["ready", "active", "superseded", "dropped"])
    first, last = min(seqs, default=0), max(seqs, default=0)
    own = [row for row in rows if not row.supersedes and row.covers[0][1] >= first and row.covers[0][0] <= last]
    if not own:
        return turn
    until = max(row.covers[0][1] for row in own)
    return replace(turn, observed=[row.text for row in own], observed_seq=until)


async def _profile(store: Store, scope: Scope) -> list[tuple[str, str]]:
    """Fields and values of what is known about the user."""
    items = (await store.states.read(scope.owner, PROFILE)).value.get("items", [])
    return [(str(item.get("field")), str(item.get("value"))) for item in items]


async def _earlier_runs(
    store: Store, scope: Scope, messages: Sequence[Message], runs: EpisodesSettings
) -> list[str]:
    """Summaries that the turn's model may have been shown: those written before it answered.

    Of other users too, where they are shown.
    """
    answered = max((message.created_at for message in messages if message.created_at), default=None)
    if answered is None:
        return []
    shared = runs.share_across_users
    newest = await store.episodes.newest(scope, runs.max_kept, of_all_users=shared, before=answered)
    return [run.summary for run in newest]


def _stems_from(entry: Entry, messages: Set[str | None]) -> bool:
    return bool(entry.evidence) and all(quote.message_id in messages for quote in entry.evidence)


async def extract(work: Work, tools: Tools) -> Work:
    """Ask the model, window by window."""
    limit = tools.settings.max_transcript_tokens
    drafts: list[Draft] = []
    unreadable: list[CandidateReceipt] = []
    system = tools.settings.extraction_prompt or prompt("extract")
    requests = await asyncio.to_thread(
        prompts,
        work.turn.to_read,
        work.turn.before,
        known_memory(work.turn.known, work.turn.profile),
        limit,
        tools.count_tokens,
    )
    unreadable += _not_looked_at(len(requests) - MAX_REQUESTS)
    for number, request in enumerate(requests[-MAX_REQUESTS:]):
        try:
            reply = await tools.asker.ask(work.turn.scope, "extract", system, request, SCHEMA)
        except BudgetExceeded as error:
            if not number:
                raise
            unreadable.append(CandidateReceipt("rejected", "", reason="over_budget", detail=str(error)))
            break  # what was read is kept: it has been paid for
        proposed = await read_reply(reply)
        drafts += await asyncio.to_thread(_masked, proposed.candidates)
        unreadable += proposed.unreadable
    return replace(work, drafts=tuple(drafts), unreadable=tuple(unreadable))


def _not_looked_at(windows: int) -> list[CandidateReceipt]:
    detail = (
        f"of a very long turn only the last {MAX_REQUESTS} windows were looked at, not the {windows} before"
    )
    return [CandidateReceipt("rejected", "", reason="too_long", detail=detail)] if windows > 0 else []


def _masked(candidates: Sequence[Candidate]) -> list[Draft]:
    return [Draft(replace(candidate, content=mask(candidate.content))) for candidate in candidates]


async def check_evidence(work: Work, tools: Tools) -> Work:
    """Refuse what nobody said; where the check is switched off, keep the quotes that are there."""
    return await asyncio.to_thread(judged, work)


def judged(work: Work) -> Work:
    """The work after the check; long turns take a while, in which the host's loop goes on."""
    turn = [passage(message) for message in work.turn.messages]
    before = [passage(message) for message in work.turn.before]
    echoes = EchoGuard([mask(text) for text in work.turn.shown])
    names = filter(None, map(shown_name, (*work.turn.messages, *work.turn.before)))
    sources = Sources([*said(turn, before), *names])

    def checked(draft: Draft) -> Draft:
        verdict = judge(draft.candidate, turn, before, echoes, sources)
        if verdict.reason and work.verified:
            return refused(draft, verdict.reason, verdict.detail)
        return replace(draft, candidate=replace(draft.candidate, evidence=verdict.evidence))

    return work.changed(checked)


async def normalise(work: Work, tools: Tools) -> Work:
    """Collapse blanks and cut at the length limit; what is empty then goes."""

    def normalised(draft: Draft) -> Draft:
        content = cut(mask(collapse(draft.candidate.content)), tools.settings.max_entry_length)
        changed = replace(draft, candidate=replace(draft.candidate, content=content))
        return changed if is_visible(content) else refused(changed, "empty", "nothing is left of the content")

    return work.changed(normalised)


async def set_apart(work: Work, tools: Tools) -> Work:
    """Mark what reads like an order to an agent instead of a record."""
    return work.changed(lambda draft: replace(draft, instruction=instruction_in(draft.candidate.content)))


async def drop_repeats(work: Work, tools: Tools) -> Work:
    """The same text twice in one turn: the first takes the other's evidence."""
    first: dict[str, int] = {}
    drafts = []
    for position, draft in enumerate(work.drafts):
        if draft.is_open:
            digest = content_hash(draft.candidate.content)
            draft = replace(draft, hash=digest)
            if first.setdefault(digest, position) != position:
                draft = replace(draft, same_as=first[digest])
        drafts.append(draft)
    return replace(work, drafts=tuple(drafts))


async def cap(work: Work, tools: Tools) -> Work:
    """No more entries than the limit for one turn; the first ones stay."""
    limit = tools.settings.max_entries_per_turn
    surplus = set(work.open[limit:])
    drafts = [
        refused(draft, "over_cap", f"more than {limit} entries in one turn")
        if work.root(position) in surplus and not draft.receipt
        else draft
        for position, draft in enumerate(work.drafts)
    ]
    return replace(work, drafts=tuple(drafts))


async def embed(work: Work, tools: Tools) -> Work:
    """All of them in one batch. Without vectors they are found by words, and embedded later."""
    space = tools.space.current
    work = replace(work, space_id=space.record.id, vectors=None)
    texts = [work.drafts[position].candidate.content for position in work.open]
    if not texts or space.embedder is None:
        return work
    try:
        return replace(work, vectors=await embed_texts(space.embedder, texts))
    except Exception as error:
        tools.events.emit("embedding.failed", work.turn.scope, error=f"{type(error).__name__}: {error}")
        return work


async def compare_within_turn(work: Work, tools: Tools) -> Work:
    """Near-duplicates within the turn: the first takes the other's evidence, if both state the same fact."""
    positions = work.open
    if work.vectors is None or tools.settings.similarity_threshold is None:
        return work
    contents = [work.drafts[position].candidate.content for position in positions]
    drafts = list(work.drafts)
    kept = []
    for row, same in enumerate(same_turn(work.vectors, contents, tools.settings.similarity_threshold)):
        if same is None or drafts[positions[row]].instruction or drafts[positions[same]].instruction:
            kept.append(row)
        else:
            drafts[positions[row]] = replace(drafts[positions[row]], same_as=positions[same])
    return replace(work, drafts=tuple(drafts), vectors=work.vectors[kept])


async def compare_with_stored(work: Work, tools: Tools) -> Work:
    """Near-duplicates of stored entries corroborate them if both state the same fact."""
    scope = work.turn.scope
    work = replace(work, seen=(await tools.store.freshness(scope)).change)
    if not work.open:
        return work
    hashes = [work.drafts[position].hash for position in work.open]
    quoted = {quote.message_id for position in work.open for quote in all_evidence(work, position)}
    hidden = await tools.store.entries.hidden(scope, sorted(quoted))
    work = without_forgotten(work, await tools.store.entries.forgotten_sources(scope, hashes), hidden)
    known = await tools.store.entries.known_hashes(scope, hashes)
    work, similar = await _in_the_stores_space(work, tools)
    drafts = list(work.drafts)
    for position in work.open:
        alike = None if drafts[position].instruction else similar.get(position)
        same = known.get(drafts[position].hash) or alike
        drafts[position] = replace(drafts[position], corroborates=same)
    return replace(work, drafts=tuple(drafts))


def without_forgotten(work: Work, forgotten: Set[tuple[str, str]], hidden: Set[str]) -> Work:
    """Nothing is learned from forgotten messages, nor forgotten text again from the message it came from."""
    gone = {
        position
        for position in work.open
        if is_forgotten(work.drafts[position].hash, all_evidence(work, position), forgotten, hidden)
    }
    if not gone:
        return work
    kept = [row for row, position in enumerate(work.open) if position not in gone]
    drafts = [
        refused(draft, "forgotten", "the user had it forgotten")
        if work.root(position) in gone and not draft.receipt
        else draft
        for position, draft in enumerate(work.drafts)
    ]
    vectors = None if work.vectors is None else work.vectors[kept]
    return replace(work, drafts=tuple(drafts), vectors=vectors)


def is_forgotten(
    digest: str, quotes: Sequence[Evidence], forgotten: Set[tuple[str, str]], hidden: Set[str]
) -> bool:
    """Whether all that a text rests on was forgotten, by itself or together with this text."""
    return bool(quotes) and all(
        quote.message_id in hidden or (digest, quote.message_id) in forgotten for quote in quotes
    )


async def _in_the_stores_space(work: Work, tools: Tools) -> tuple[Work, dict[int, str | None]]:
    """What stored entries say the same; another process may switch the embedding space meanwhile."""
    for _ in range(MAX_ROUNDS):
        try:
            return work, await _similar_entries(work, tools)
        except SpaceMismatch:
            work = await embed(work, tools)
    raise StoreError("the embedding space changes faster than entries can be compared; try again later")


async def _similar_entries(work: Work, tools: Tools) -> dict[int, str | None]:
    """For each open draft the stored entry that says the same, if there is one."""
    threshold = tools.settings.similarity_threshold
    if work.vectors is None or threshold is None:
        return {}
    near = await tools.searcher.nearest_entries(
        work.turn.scope, work.space_id, work.vectors, threshold, NEIGHBOURS
    )
    ids = list({entry_id for row in near for entry_id, _ in row})
    entries = await tools.store.entries.get(work.turn.scope, ids) if ids else {}
    return {
        position: decide(
            work.drafts[position].candidate.content,
            [(e, entries[e].content, cosine) for e, cosine in row if e in entries],
            threshold,
        )
        for position, row in zip(work.open, near, strict=True)
    }


STEPS: tuple[Step, ...] = (
    extract,
    check_evidence,
    normalise,
    set_apart,
    drop_repeats,
    cap,
    embed,
    compare_within_turn,
)

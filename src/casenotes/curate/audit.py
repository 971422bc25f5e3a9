"""Verify every entry against its source again, and count what else is wrong with a memory.

Entries are checked as they were when they were learned: every quote stands where it was noted, in a message
of a role that may prove it; every value was named by somebody; nothing echoes what memory had shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from casenotes.curate.desk import PAGE, Desk
from casenotes.learn.claims import Sources, unsupported
from casenotes.learn.echo import EchoGuard
from casenotes.learn.evidence import ALLOWED_ROLES
from casenotes.learn.normalise import collapse
from casenotes.learn.same_fact import is_same_fact
from casenotes.learn.speakers import shown_name
from casenotes.masking import mask
from casenotes.stores.learned_rows import quote_hash
from casenotes.stores.learning import Corroboration
from casenotes.stores.revisions import EvidenceRow, ItemChange
from casenotes.types import SPEAKERS, Entry, EntryStatus, Message, Scope

FaultKind = Literal["evidence", "unsupported", "duplicate", "echo", "secret", "unverified", "never_recalled"]
FAILING: tuple[FaultKind, ...] = ("evidence", "unsupported", "duplicate", "echo", "secret")
"""What is wrong; the others are only worth knowing."""

CHECKED: tuple[EntryStatus, ...] = ("active", "superseded", "quarantined")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something about one entry; `other` is the entry that a duplicate repeats."""

    scope: Scope
    entry_id: str
    kind: FaultKind
    detail: str
    content: str
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found; `dropped` are entries that were taken out, `revisions` undo that."""

    entries: int
    faults: tuple[Fault, ...]
    dropped: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        found = Counter(fault.kind for fault in self.faults)
        kinds: tuple[FaultKind, ...] = (*FAILING, "unverified", "never_recalled")
        return {kind: found[kind] for kind in kinds}

    @property
    def failed(self) -> tuple[Fault, ...]:
        """What is wrong and was not taken out."""
        return tuple(f for f in self.faults if f.kind in FAILING and f.entry_id not in self.dropped)

    def __add__(self, other: Audit) -> Audit:
        return Audit(
            self.entries + other.entries,
            self.faults + other.faults,
            self.dropped + other.dropped,
            self.revisions + other.revisions,
        )


@dataclass(frozen=True, slots=True)
class _Sources:
    """What entries of a page rest on: noted evidence, its messages, and what was said in their threads."""

    evidence: Mapping[str, Sequence[EvidenceRow]]
    messages: Mapping[str, Message]
    threads: Mapping[str, Sources]


async def audit(desk: Desk, scope: Scope, *, fix: bool) -> Audit:
    """Check all entries of a scope; with `fix`, those that fail are dropped, which can be undone."""
    faults: list[Fault] = []
    count = 0
    threads: dict[str, Sources] = {}
    async for page in desk.entries(scope, *CHECKED):
        sources = await _sources(desk, scope, page, threads)
        for entry in page:
            count += 1
            faults += [Fault(scope, entry.id, *fault, mask(entry.content)) for fault in judged(entry, sources)]
            faults += await _echoes(desk, scope, entry, sources)
    faults += await _duplicates(desk, scope, {fault.entry_id for fault in faults if fault.kind in FAILING})
    faults += await _never_recalled(desk, scope)
    found = Audit(count, tuple(faults))
    return await _fixed(desk, scope, found) if fix and found.failed else found


async def _sources(desk: Desk, scope: Scope, page: Sequence[Entry], threads: dict[str, Sources]) -> _Sources:
    rows = await desk.store.revisions.evidence(scope, [entry.id for entry in page])
    messages = await desk.store.messages(scope, list({row.message_id for row in rows}))
    for thread in {str(message.thread_id) for message in messages.values()} - threads.keys():
        said = [message async for message in _spoken(desk, replace(scope, thread_id=thread))]
        names = {name for message in said if (name := shown_name(message))}
        texts = [*(mask(collapse(message.text)) for message in said), *sorted(names)]
        threads[thread] = await asyncio.to_thread(Sources, texts)
    by_entry = {entry.id: [row for row in rows if row.entry_id == entry.id] for entry in page}
    return _Sources(by_entry, messages, threads)


async def _spoken(desk: Desk, thread: Scope) -> AsyncIterator[Message]:
    after = 0
    while page := await desk.store.history(thread, limit=PAGE, after=after):
        for message in page:
            if message.role in SPEAKERS:
                yield message
        after = page[-1].seq or 0


def judged(entry: Entry, sources: _Sources) -> Iterator[tuple[FaultKind, str]]:
    """What is wrong with an entry by itself; what was never checked is not checked now either."""
    if mask(entry.content) != entry.content:
        yield "secret", "its text holds a secret"
    elif not entry.verified:
        yield "unverified", "its evidence was never checked"
    elif problem := _evidence_problem(entry, sources):
        yield "evidence", problem
    elif missing := _unsupported(entry, sources):
        yield "unsupported", ", ".join(missing)


def _evidence_problem(entry: Entry, sources: _Sources) -> str:
    """What is wrong with its quotes; those that corroborated it may have come under another label."""
    rows = sources.evidence[entry.id]
    if not rows:
        return "it has no evidence"
    problems = (_quote_problem(row, sources.messages.get(row.message_id)) for row in rows)
    if problem := next(filter(None, problems), ""):
        return problem
    roles = {sources.messages[row.message_id].role for row in rows}
    is_proven = not roles.isdisjoint(ALLOWED_ROLES.get(entry.source, ()))
    return "" if is_proven else f"nothing of role {' or '.join(sorted(roles))} proves a {entry.source}"


def _quote_problem(row: EvidenceRow, message: Message | None) -> str:
    if message is None:
        return f"message {row.message_id!r} is gone"
    if message.role not in SPEAKERS:
        return f"message {row.message_id!r} of role {message.role} proves nothing"
    if not 0 <= row.start < row.end <= len(message.text):
        return f"characters {row.start} to {row.end} are outside message {row.message_id!r}"
    if quote_hash(message.text[row.start : row.end]) != row.quote_hash:
        return f"message {row.message_id!r} does not say that at characters {row.start} to {row.end}"
    return ""


def _unsupported(entry: Entry, sources: _Sources) -> list[str]:
    """Values of an entry that nobody named in any of the conversations it quotes."""
    threads = {sources.messages[row.message_id].thread_id for row in sources.evidence[entry.id]}
    missing = [set(unsupported(entry.content, sources.threads[str(thread)])) for thread in threads]
    return sorted(set.intersection(*missing)) if missing else []


async def _echoes(desk: Desk, scope: Scope, entry: Entry, sources: _Sources) -> list[Fault]:
    """An entry that rests on the assistant repeating what memory had shown to it by then."""
    rows = [row for row in sources.evidence[entry.id] if row.message_id in sources.messages]
    if not rows or any(sources.messages[row.message_id].role != "assistant" for row in rows):
        return []
    for receipt in await desk.store.revisions.receipts(scope, entry.id):
        guard = await _shown_before(desk, receipt.scope, receipt.turn_id, entry)
        texts = [(row, sources.messages[row.message_id]) for row in rows]
        mine = [m.text[r.start : r.end] for r, m in texts if m.thread_id == receipt.scope.thread_id]
        if any(map(guard.is_echo, mine)):
            content = mask(entry.content)
            return [Fault(scope, entry.id, "echo", "the assistant repeats what it was shown", content)]
    return []


async def _shown_before(desk: Desk, thread: Scope, turn_id: str, entry: Entry) -> EchoGuard:
    """What the thread's model had been shown up to a turn, without what the entry itself rests on."""
    shown = await desk.store.entries.shown(thread, turn_id)
    own = {quote.message_id for quote in entry.evidence}
    others = await desk.store.entries.get(thread, [item.id for item in shown if item.kind == "entry"])
    messages = await desk.store.messages(
        thread, [i.id for i in shown if i.kind == "message" and i.id not in own]
    )
    texts = [o.content for o in others.values() if not own & {quote.message_id for quote in o.evidence}]
    return EchoGuard([mask(text) for text in (*texts, *(m.search_text for m in messages.values()))])


async def _duplicates(desk: Desk, scope: Scope, failed: set[str]) -> list[Fault]:
    """Active entries that say what an older one says."""
    threshold = desk.settings.similarity_threshold
    if threshold is None or scope.resource_id is None:
        return []
    pairs = await desk.searcher.alike_entries(scope, threshold)
    ids = list({entry_id for pair in pairs for entry_id in pair} - failed)
    entries = await desk.store.entries.get(scope, ids) if ids else {}
    faults: dict[str, Fault] = {}
    for pair in pairs:
        found = sorted((entries[i] for i in pair if i in entries), key=_age)
        if len(found) == 2 and found[0].id not in faults and is_same_fact(found[0].content, found[1].content):
            older, newer = found
            if newer.origin == "remembered":
                continue
            detail = f"says what {older.id} says"
            faults[newer.id] = Fault(scope, newer.id, "duplicate", detail, mask(newer.content), older.id)
    return list(faults.values())


def _age(entry: Entry) -> tuple[bool, datetime, str]:
    """Of two that say the same, what the user asked to keep stays, else the older one."""
    return entry.origin != "remembered", entry.created_at, entry.id


async def _never_recalled(desk: Desk, scope: Scope) -> list[Fault]:
    ids = await desk.store.revisions.never_shown(scope)
    entries = await desk.store.entries.get(scope, ids) if ids else {}
    return [
        Fault(scope, entry.id, "never_recalled", "no model was ever shown it", mask(entry.content))
        for entry in entries.values()
    ]


async def _fixed(desk: Desk, scope: Scope, found: Audit) -> Audit:
    """Drop what fails; a duplicate leaves its evidence to the entry that it repeats."""
    faults = {fault.entry_id: fault for fault in found.failed}
    entries = await desk.store.entries.get(scope, list(faults))
    changes = [
        ItemChange(e.id, "dropped", e.status, "dropped", detail=faults[e.id].kind) for e in entries.values()
    ]
    inherited = [
        Corroboration(fault.other, entries[fault.entry_id].evidence, entries[fault.entry_id].last_seen_at)
        for fault in faults.values()
        if fault.other and fault.entry_id in entries
    ]
    revision = replace(desk.revision("audit", changes), corroborations=inherited)
    if not await desk.store.revisions.revise(scope, revision):
        return found  # entries have changed meanwhile: what was found may no longer be so
    return replace(found, dropped=tuple(entries), revisions=(revision.id,))

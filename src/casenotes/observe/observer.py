"""The Observer: reads messages that are old enough and notes what will be needed of them.

Rows, session and cursor are saved together. A batch whose answer breaks off or cannot be read is made smaller.
What a model will not read is noted as such in the end, so that one message cannot hold up a thread; a provider
that refuses everything is a failure like others.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import tzinfo

from casenotes.errors import ModelError, UnreadableOutput
from casenotes.learn.instructions import instruction_in
from casenotes.learn.prompts import prompt
from casenotes.learn.transcript import TAG_OPENERS
from casenotes.observe.batch import halved
from casenotes.observe.log import line, log_tokens
from casenotes.observe.moments import Moments
from casenotes.observe.read import SCHEMA, Answer, Noted, read_answer, updated
from casenotes.observe.repetition import repeats_itself
from casenotes.observe.tools import ObservingTools, ask, zone_for
from casenotes.observe.transcript import local_time, observer_prompt, read_texts, requests_for
from casenotes.recall.render import inert
from casenotes.stores.learning import Lease
from casenotes.stores.observations import BatchOutcome, Observed, Observing, is_touched, session_without
from casenotes.types import Message, Observation, SessionState

TASK = "observe"
ROWS_A_BATCH = 10_000
"""Rows are placed by the last message that they were made of, and by their number."""

REFUSED = "What was said here could not be noted: the model did not read it."
CUT = "What was said here was too long to be noted whole; the rest of it stands in the message log."
CONTENT_STATUSES = (400, 422, 451)
"""What providers answer where they do not like a text, and also where a request is wrong."""

UNREADABLE_TRIES = 2
"""After so many failures an answer that cannot be read is taken for a refusal in words."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What was noted of a batch."""

    messages: Sequence[Message]
    rows: Sequence[Noted]
    session: SessionState
    outcome: BatchOutcome


@dataclass(frozen=True, slots=True)
class Known:
    """What the Observer is shown of what it has noted before."""

    log: tuple[str, ...]
    session: SessionState


async def observe(tools: ObservingTools, lease: Lease, state: Observing, messages: Sequence[Message]) -> bool:
    """Observe a batch, or as much of it as one answer holds; False if somebody else has moved the cursor.

    The state was read together with the messages.
    """
    started = time.perf_counter()
    zone = zone_for(tools.settings, lease.scope)
    tools.events.emit("observing.started", lease.scope, messages=len(messages))
    notes = await _noted(tools, lease, state, messages, zone)
    rows = await asyncio.to_thread(_rows, notes, state, zone, tools)
    read = sum(map(tools.size, notes.messages))
    ready = state.observed_tokens + read - state.active_tokens
    observed = Observed(
        state.observed_seq,
        notes.messages[-1].seq or 0,
        rows,
        notes.outcome,
        notes.session,
        tools.limits.next_step(ready),
        tools.clock.now(),
        state.change,
    )
    saved = await tools.store.observations.save(lease, observed)
    if saved:
        tools.events.emit(
            "observing.finished",
            lease.scope,
            messages=len(notes.messages),
            observations=len(rows),
            quarantined=sum(row.status == "quarantined" for row in rows),
            message_tokens=read,
            observation_tokens=sum(row.tokens for row in rows),
            seconds=time.perf_counter() - started,
        )
    return saved


async def _noted(
    tools: ObservingTools, lease: Lease, state: Observing, messages: Sequence[Message], zone: tzinfo
) -> Notes:
    """Ask about the batch, and about its first half where that is the way out."""
    known = await _known(tools, lease, state, zone)
    while True:
        smaller = halved(messages)
        is_single = len(smaller) == len(messages)
        try:
            return await _asked(tools, lease, known, messages, zone, may_be_cut=is_single)
        except (_CutOff, ModelError) as error:
            if not isinstance(error, _CutOff) and not _may_skip(tools, state, error):
                raise
            if is_single:
                return Notes(messages, [Noted("info", REFUSED)], known.session, "refused")
        messages = smaller


def _may_skip(tools: ObservingTools, state: Observing, error: ModelError) -> bool:
    """Whether it is the text that a model does not take, and not the request, the key or the account."""
    if isinstance(error, UnreadableOutput):
        return state.attempts >= UNREADABLE_TRIES
    if not error.is_final:
        return False
    return error.status is None or (error.status in CONTENT_STATUSES and tools.breaker.has_succeeded)


async def _known(tools: ObservingTools, lease: Lease, state: Observing, zone: tzinfo) -> Known:
    """The newest rows and the session, without what was forgotten since."""
    forgotten = await tools.store.observations.forgotten(lease.scope)
    tail = await tools.store.observations.tail(lease.scope, tools.settings.observation_log_tail_limit)
    lines = [_line(row, zone) for row in tail if not is_touched(row, forgotten)]
    return Known(tuple(lines), session_without(state, forgotten))


class _CutOff(Exception):
    """An answer reached its token limit: what came after is lost."""


async def _asked(
    tools: ObservingTools,
    lease: Lease,
    known: Known,
    messages: Sequence[Message],
    zone: tzinfo,
    *,
    may_be_cut: bool,
) -> Notes:
    """What was noted in answer to all requests of a batch; each is told what the one before has noted."""
    requests = await asyncio.to_thread(requests_for, messages, zone, tools.count_tokens)
    rows: list[Noted] = []
    session = known.session
    for transcript in requests.transcripts:
        lines = [*known.log, *(inert(row.text) for row in rows)]
        log = "\n".join(lines[max(0, len(lines) - tools.settings.observation_log_tail_limit) :])
        told = json.dumps(asdict(session), ensure_ascii=False).translate(TAG_OPENERS)
        question = (prompt("observe"), observer_prompt(transcript, log or "(none yet)", told))
        reply = await ask(tools, tools.observer, lease.scope, TASK, question, SCHEMA)
        if reply.cut_off and not may_be_cut:
            raise _CutOff
        answer = await asyncio.to_thread(read_answer, reply.output)
        rows += _moved(answer, len(rows))
        session = updated(session, answer)
    if not requests.is_whole:
        rows.append(Noted("info", CUT))
    return await asyncio.to_thread(_notes, requests.messages, rows, session)


def _moved(answer: Answer, first: int) -> list[Noted]:
    """Rows behind others: the places of parents move along."""
    return [replace(row, parent=None if row.parent is None else row.parent + first) for row in answer.rows]


def _notes(messages: Sequence[Message], rows: Sequence[Noted], session: SessionState) -> Notes:
    """All answers as one, each repetition taken out; an answer that does nothing else is refused."""
    sources = read_texts(messages)
    if repeats_itself([row.text for row in rows], sources):
        rows = _once_each(rows, sources)
        if not rows:
            raise UnreadableOutput("the model's answer repeats itself and says nothing else")
    return Notes(messages, rows, _harmless(session), "observed" if rows else "empty")


def _once_each(rows: Sequence[Noted], sources: Sequence[str]) -> list[Noted]:
    """Every row once, and none that is caught in a loop within itself; parents are not told any more."""
    first = {row.text: row for row in reversed(rows)}
    kept = dict.fromkeys(row.text for row in rows if not repeats_itself([row.text], sources))
    return [replace(first[text], parent=None) for text in kept]


def _harmless(session: SessionState) -> SessionState:
    """Without what reads like an instruction: it will stand in front of the model as its own state."""
    objective, state, hint = (
        "" if instruction_in(text) else text for text in (session.objective, session.state, session.hint)
    )
    decisions, follow_ups = (
        tuple(text for text in texts if not instruction_in(text))
        for texts in (session.decisions, session.follow_ups)
    )
    return SessionState(objective, state, decisions, follow_ups, hint)


def _rows(notes: Notes, state: Observing, zone: tzinfo, tools: ObservingTools) -> list[Observation]:
    """What was noted as rows of the log; what reads like an instruction is set apart."""
    last_seq = notes.messages[-1].seq or 0
    moments, now = Moments(notes.messages, zone), tools.clock.now()
    rows = []
    for number, noted in enumerate(notes.rows[:ROWS_A_BATCH]):
        row = Observation(
            _name(last_seq, number),
            noted.priority,
            moments.at(noted.time),
            noted.text,
            ((state.observed_seq + 1, last_seq),),
            "quarantined" if instruction_in(noted.text) else "ready",
            dates=(noted.date,) if noted.date else (),
            parent_id=None if noted.parent is None else _name(last_seq, noted.parent),
            position=last_seq * ROWS_A_BATCH + number,
            seen_change=state.change,
            created_at=now,
        )
        rows.append(replace(row, tokens=log_tokens(row, zone, tools.count_tokens)))
    return rows


def _name(last_seq: int, number: int) -> str:
    return f"o{last_seq}.{number}"


def _line(row: Observation, zone: tzinfo) -> str:
    """A row as the Observer sees it again."""
    return f"{local_time(row.at, zone)[:10]} {line(row, zone).removeprefix('- ')}"

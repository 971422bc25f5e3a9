"""The Observer: reads messages that are old enough and notes what will be needed of them.

Rows, session and cursor are saved together. What a model refuses for good is noted as such, so that one
message cannot hold up a thread; a batch whose answer breaks off is made smaller.
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
from casenotes.observe.moments import happened_at
from casenotes.observe.read import SCHEMA, Answer, Noted, read_answer, updated
from casenotes.observe.repetition import repeats_itself
from casenotes.observe.tools import ObservingTools, ask, zone_for
from casenotes.observe.transcript import local_time, observer_prompts, read_texts
from casenotes.stores.learning import Lease
from casenotes.stores.observations import BatchOutcome, Observed, Observing, is_touched, session_without
from casenotes.types import Message, Observation, SessionState

TASK = "observe"
ROWS_A_BATCH = 1_000
"""Rows are placed by the last message that they were made of, and by their number."""

REFUSED = "What was said here could not be noted: the model refused to read it."


@dataclass(frozen=True, slots=True)
class Notes:
    """What was noted of a batch."""

    messages: Sequence[Message]
    rows: Sequence[Noted]
    session: SessionState
    outcome: BatchOutcome


async def observe(tools: ObservingTools, lease: Lease, state: Observing, messages: Sequence[Message]) -> bool:
    """Observe a batch, or as much of it as one answer holds; False if somebody else has moved the cursor."""
    started = time.perf_counter()
    zone = zone_for(tools.settings, lease.scope)
    tools.events.emit("observing.started", lease.scope, messages=len(messages))
    notes = await _noted(tools, lease, state, messages, zone)
    last_seq = notes.messages[-1].seq or 0
    rows = _rows(notes, state.observed_seq + 1, last_seq, zone, tools)
    read = sum(map(tools.size, notes.messages))
    ready = state.observed_tokens + read - state.active_tokens
    observed = Observed(
        state.observed_seq,
        last_seq,
        rows,
        notes.outcome,
        notes.session,
        tools.limits.next_step(ready),
        tools.clock.now(),
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
    forgotten = await tools.store.observations.forgotten(lease.scope)
    tail = await tools.store.observations.tail(lease.scope, tools.settings.observation_log_tail_limit)
    log = "\n".join(_known(row, zone) for row in tail if not is_touched(row, forgotten)) or "(none yet)"
    session = session_without(state, forgotten)
    while True:
        smaller = halved(messages)
        try:
            answers, cut_off = await _asked(tools, lease, session, log, messages, zone)
        except ModelError as error:
            if not error.is_final:
                raise
            if len(smaller) == len(messages):
                return Notes(messages, [Noted("info", REFUSED)], session, "refused")
        else:
            if not cut_off or len(smaller) == len(messages):
                return await asyncio.to_thread(_joined, answers, messages, session)
        messages = smaller


async def _asked(
    tools: ObservingTools,
    lease: Lease,
    session: SessionState,
    log: str,
    messages: Sequence[Message],
    zone: tzinfo,
) -> tuple[list[Answer], bool]:
    """The answers to all requests of a batch, and whether one broke off."""
    told = json.dumps(asdict(session), ensure_ascii=False).translate(TAG_OPENERS)
    prompts = await asyncio.to_thread(observer_prompts, messages, log, told, zone, tools.count_tokens)
    answers, cut_off = [], False
    for request in prompts:
        question = (prompt("observe"), request)
        reply = await ask(tools, tools.observer, lease.scope, TASK, question, SCHEMA)
        answers.append(await asyncio.to_thread(read_answer, reply.output))
        cut_off = cut_off or reply.cut_off
    return answers, cut_off


def _joined(answers: Sequence[Answer], messages: Sequence[Message], session: SessionState) -> Notes:
    """All answers as one, each repetition taken out; an answer that does nothing else is refused."""
    rows: list[Noted] = []
    for answer in answers:
        first = len(rows)
        rows += [replace(row, parent=None if row.parent is None else row.parent + first) for row in answer.rows]
        session = updated(session, answer)
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


def _rows(
    notes: Notes, first_seq: int, last_seq: int, zone: tzinfo, tools: ObservingTools
) -> list[Observation]:
    """What was noted as rows of the log; what reads like an instruction is set apart."""
    now = tools.clock.now()
    rows = []
    for number, noted in enumerate(notes.rows[:ROWS_A_BATCH]):
        row = Observation(
            _name(last_seq, number),
            noted.priority,
            happened_at(noted.time, notes.messages, zone),
            noted.text,
            ((first_seq, last_seq),),
            "quarantined" if instruction_in(noted.text) else "ready",
            dates=(noted.date,) if noted.date else (),
            parent_id=None if noted.parent is None else _name(last_seq, noted.parent),
            position=last_seq * ROWS_A_BATCH + number,
            created_at=now,
        )
        rows.append(replace(row, tokens=log_tokens(row, zone, tools.count_tokens)))
    return rows


def _name(last_seq: int, number: int) -> str:
    return f"o{last_seq}.{number}"


def _known(row: Observation, zone: tzinfo) -> str:
    """A row as the Observer sees it again."""
    return f"{local_time(row.at, zone)[:10]} {line(row, zone).removeprefix('- ')}"

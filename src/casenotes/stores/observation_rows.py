"""Between values and rows for session memory, the same for both backends.

`time` turns a time into the backend's form, or back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from datetime import date, datetime
from typing import Any

from casenotes.stores.base import Watch
from casenotes.stores.learned_rows import Values
from casenotes.stores.learning import LONGEST_WAIT
from casenotes.stores.observations import Activation, Batch, Observed, Observing, Reflected
from casenotes.stores.rows import encode_parts
from casenotes.types import Message, Observation, Scope, SessionState

MESSAGE_OVERHEAD = 4
CHARACTERS_A_TOKEN = 4
REPLACED_BY_NOTHING = ""
NONE = "[]"
Time = Callable[[Any], Any]
_COUNTED = [field.name for field in fields(Observing)][7:]
"""The columns of the table `observing`, as they stand in the statements."""


def message_tokens(message: Message) -> int:
    """What a message takes of a prompt: as it was counted, else a quarter of its characters."""
    if message.tokens is not None:
        return message.tokens
    characters = len(message.text) + (len(encode_parts(message.parts) or "") if message.parts else 0)
    return MESSAGE_OVERHEAD + characters // CHARACTERS_A_TOKEN


def watch_values(watch: Watch, time: Time) -> Values:
    """Parameters of a thread that is to be observed."""
    return {
        "step": watch.step,
        "flush_at": time(watch.flush_at) if watch.flush_at else None,
        "unless": time(watch.unless) if watch.unless else None,
        "latest": time(watch.flush_at + LONGEST_WAIT) if watch.flush_at else None,
    }


def observing_from_row(row: Sequence[Any], time: Time) -> Observing:
    """How far a thread has come; one that nobody has observed yet has no counters."""
    agent, resource, thread, last_seq, tokens, observe_at, flush_at, change, is_open, *counted = row
    known = {name: value for name, value in zip(_COUNTED, counted, strict=True) if value is not None}
    if "session" in known:
        known["session"] = session_from_json(known["session"])
    if "due_at" in known:
        known["due_at"] = time(known["due_at"])
    for name in ("reflecting", "dead"):
        known[name] = bool(known.get(name))
    flush = time(flush_at) if flush_at is not None else None
    scope = Scope(agent, resource or None, thread)
    return Observing(scope, last_seq, tokens, observe_at, flush, change or 0, bool(is_open), **known)


def session_from_json(text: str) -> SessionState:
    """Where a conversation stands."""
    value = json.loads(text)
    objective, state, hint = (str(value.get(name, "")) for name in ("objective", "state", "hint"))
    decisions, follow_ups = (tuple(value.get(name, ())) for name in ("decisions", "follow_ups"))
    return SessionState(objective, state, decisions, follow_ups, hint)


def batches_from_rows(rows: Iterable[Sequence[Any]], time: Time) -> list[Batch]:
    """Runs of the Observer."""
    return [
        Batch(first, last, tokens, count, outcome, time(at)) for first, last, tokens, count, outcome, at in rows
    ]


def observation_from_row(row: Sequence[Any], time: Time) -> Observation:
    """One row of the log."""
    (
        observation_id,
        priority,
        at,
        text,
        covers,
        status,
        until,
        dates,
        parent,
        supersedes,
        successor,
        tokens,
        position,
        seen_change,
        created,
    ) = row
    return Observation(
        observation_id,
        priority,
        time(at),
        text,
        tuple((first, last) for first, last in json.loads(covers)),
        status,
        time(until) if until is not None else None,
        tuple(map(date.fromisoformat, json.loads(dates))) if dates != NONE else (),
        parent,
        tuple(json.loads(supersedes)) if supersedes != NONE else (),
        successor,
        tokens,
        position,
        seen_change,
        time(created),
    )


def observed_values(key: Values, observed: Observed, time: Callable[[datetime], Any]) -> Values:
    """Parameters of a batch and the cursor behind it."""
    return {
        **key,
        "seen": observed.seen,
        "last_seq": observed.last_seq,
        "rows": len(observed.rows),
        "outcome": observed.outcome,
        "session": json.dumps(asdict(observed.session), ensure_ascii=False),
        "step": observed.step,
        "change": observed.change,
        "at": time(observed.at),
    }


def observation_values(
    key: Values, rows: Iterable[Observation], time: Callable[[datetime], Any]
) -> list[Values]:
    """Parameters of new rows."""
    return [
        {
            **key,
            "id": row.id,
            "position": row.position,
            "priority": row.priority,
            "happened_at": time(row.at),
            "until_at": time(row.until) if row.until else None,
            "dates": json.dumps([day.isoformat() for day in row.dates]),
            "text": row.text,
            "parent": row.parent_id,
            "first_seq": min(first for first, _ in row.covers),
            "last_seq": max(last for _, last in row.covers),
            "covers": json.dumps(row.covers),
            "status": row.status,
            "supersedes": json.dumps(row.supersedes),
            "tokens": row.tokens,
            "change": row.seen_change,
            "at": time(row.created_at or row.at),
        }
        for row in rows
    ]


def activation_values(key: Values, activation: Activation) -> Values:
    """Parameters of an activation."""
    return {
        **key,
        "seen": activation.seen,
        "to_seq": activation.to_seq,
        "to_tokens": activation.to_tokens,
        "window_seq": activation.window_seq,
        "asked_first": activation.asked[0],
        "asked_last": activation.asked[1],
    }


def replaced(reflected: Reflected) -> dict[str, str]:
    """The rows that a reflection takes out, each with the one that takes its place."""
    dropped = dict.fromkeys(reflected.dropped, REPLACED_BY_NOTHING)
    return dropped | {source: row.id for row in reflected.rows for source in row.supersedes}


def reflection_values(key: Values, reflected: Reflected) -> Values:
    """Parameters of the note about a reflection."""
    staged = bool(reflected.rows or reflected.dropped)
    return {**key, "staged": staged, "reflect_at": reflected.reflect_at, "input": reflected.input}

"""Between values and rows for states and summaries, the same for both backends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from casenotes.errors import InvalidScope
from casenotes.stores.learned_rows import Values
from casenotes.stores.rows import scope_key, thread_key
from casenotes.stores.states import EventRow, OfTurn, StateVersion, items_of_thread, texts_in, without_thread
from casenotes.types import Episode, Message, Scope

COMMON = {
    "state": (frozenset(("field", "at", "by", "outcome", "status")), 2),
    "event": (frozenset(("outcome", "status", "source", "task", "model")), 1),
    "parts": (frozenset(("type", "name")), 1),
    "session": (frozenset(), 0),
}
"""What stands under these names, so many objects deep, is the same for many users."""

Time = Callable[[Any], datetime]


def state_key(scope: Scope, layer: str) -> Values:
    """Parameters of a layer's state; that of a whole resource has no thread."""
    return {**scope_key(scope), "thread": scope.thread_id or "", "layer": layer}


def state_values(
    scope: Scope, layer: str, new: StateVersion, keep: int, at: Any, turn: OfTurn | None
) -> Values:
    """Parameters of a new version."""
    value = json.dumps(new.value, ensure_ascii=False, allow_nan=False)
    written = {"seen": new.version - 1, "value": value, "author": new.author, "at": at, "keep": keep}
    by = {"turn_thread": turn.thread_id if turn else None, "turn": turn.turn_id if turn else None}
    return state_key(scope, layer) | written | by


def state_from_row(row: Sequence[Any], time: Time) -> StateVersion:
    """One version."""
    value, version, author, at = row
    return StateVersion(json.loads(value), version, author, time(at))


def nowhere(scope: Scope, turn: OfTurn | None = None) -> InvalidScope:
    """The error for a state of something that does not exist, or not any more."""
    if turn:
        return InvalidScope(f"turn {turn.turn_id!r} of thread {turn.thread_id!r} is not in the store any more")
    what = f"thread {scope.thread_id!r}" if scope.thread_id else f"resource {scope.resource_id!r}"
    return InvalidScope(f"there is no {what} of agent {scope.agent_id!r}; save a message first")


def episode_values(scope: Scope, episode: Episode, last: Message, keep: int, at: Any) -> Values:
    """Parameters of a summary."""
    told = {"summary": episode.summary, "outcome": episode.outcome, "token_count": episode.token_count}
    end = {"last_seq": last.seq or 0, "last_message": last.id}
    return {**thread_key(scope), "id": episode.id, "keep": keep, "at": at, **told, **end}


def episodes_from_rows(rows: Iterable[Sequence[Any]], time: Time) -> list[Episode]:
    """Summaries."""
    return [
        Episode(episode_id, summary, time(at), outcome, tokens, thread)
        for episode_id, summary, at, outcome, tokens, thread in rows
    ]


def event_values(scope: Scope, row: EventRow, at: Any) -> Values:
    """Parameters of an event."""
    return {**thread_key(scope), "name": row.name, "data": json.dumps(row.data, ensure_ascii=False), "at": at}


def events_from_rows(rows: Iterable[Sequence[Any]], time: Time) -> list[EventRow]:
    """Events."""
    return [EventRow(name, time(at), json.loads(data)) for name, at, data in rows]


def stripped_states(key: Values, rows: Iterable[Sequence[Any]]) -> list[Values]:
    """New values for those versions of a scope's states that hold something of an erased thread."""
    return [
        {**key, "kept_in": kept_in, "layer": layer, "version": version, "value": _json(without)}
        for kept_in, layer, version, stored in rows
        if (value := json.loads(stored)) and items_of_thread(value, key["thread"])
        for without in [without_thread(value, key["thread"])]
    ]


def renewed_states(key: Values, stripped: Iterable[Values]) -> list[Values]:
    """Parameters of the states that were changed."""
    changed = sorted({(values["kept_in"], values["layer"]) for values in stripped})
    return [{**key, "kept_in": kept_in, "layer": layer} for kept_in, layer in changed]


def texts_in_json(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Every text that anybody wrote in stored values, as it stands there."""
    return [_json(text)[1:-1] for kind, stored in rows for text in texts_in(json.loads(stored), *COMMON[kind])]


def texts_of_thread(thread_id: str, rows: Iterable[Sequence[Any]]) -> list[str]:
    """What stems from a thread in the states of its scope, as it stands there."""
    found = (items_of_thread(json.loads(stored), thread_id) for _kept_in, _layer, _version, stored in rows)
    return [_json(text)[1:-1] for items in found for text in texts_in(items, *COMMON["state"])]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

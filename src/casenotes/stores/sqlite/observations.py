"""Observations and how far observing has come, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from casenotes.stores.learned_rows import Values, lease_lost, lease_values
from casenotes.stores.learning import LONGEST_WAIT, Lease
from casenotes.stores.observation_rows import (
    activation_values,
    batches_from_rows,
    observation_from_row,
    observation_values,
    observed_values,
    observing_from_row,
    reflection_values,
    replaced,
)
from casenotes.stores.observations import Activation, Batch, Forgotten, Observed, Observing, Ready, Reflected
from casenotes.stores.rows import message_from_row, scope_key, thread_key
from casenotes.stores.sqlite.append import micros, time_from_micros
from casenotes.stores.sqlite.learning import Run, clock_values
from casenotes.types import Message, Observation, ObservationStatus, Scope


class SqliteObservations:
    """See ObservationStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def state(self, scope: Scope) -> Observing:
        """See ObservationStore.state."""
        key = thread_key(scope)
        state: Observing = await self._read(lambda connection: self._state(connection, scope, key))
        return state

    def _state(self, connection: sqlite3.Connection, scope: Scope, key: Values) -> Observing:
        row = connection.execute(self._sql["observing_state"], key).fetchone()
        return observing_from_row(row, time_from_micros) if row else Observing(scope)

    async def states(self, scope: Scope) -> list[Observing]:
        """See ObservationStore.states."""
        if scope.thread_id is not None:
            return [await self.state(scope)]
        rows = await self._fetch("observing_states", scope_key(scope))
        return [observing_from_row(row, time_from_micros) for row in rows]

    async def window(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """See ObservationStore.window."""
        state, messages = await self._messages(scope, "window_messages", "window_seq", limit)
        return state, messages[::-1]

    async def unobserved(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """See ObservationStore.unobserved."""
        return await self._messages(scope, "unobserved_messages", "observed_seq", limit)

    async def _messages(
        self, scope: Scope, name: str, pointer: str, limit: int
    ) -> tuple[Observing, list[Message]]:
        """The state and what comes after one of its pointers, as they were at the same moment."""
        key: Values = {**thread_key(scope), "limit": limit}

        def read(connection: sqlite3.Connection) -> tuple[Observing, list[Any]]:
            connection.execute("BEGIN")
            try:
                state = self._state(connection, scope, key)
                asked = {"asked_first": state.asked_first, "asked_last": state.asked_last}
                after = key | asked | {"after": getattr(state, pointer)}
                return state, connection.execute(self._sql[name], after).fetchall()
            finally:
                connection.execute("ROLLBACK")

        state, rows = await self._read(read)
        return state, [message_from_row(row, time_from_micros) for row in rows]

    async def ready(self, scope: Scope, newest: int) -> Ready:
        """See ObservationStore.ready."""
        state = await self.state(scope)
        key: Values = {**thread_key(scope), "after": state.active_seq, "limit": newest}
        batches = await self._fetch("observation_batches", key)
        sizes = await self._fetch("newest_sizes", key)
        return Ready(state, batches_from_rows(batches, time_from_micros), [(seq, size) for seq, size in sizes])

    async def log(self, scope: Scope, statuses: Sequence[ObservationStatus]) -> list[Observation]:
        """See ObservationStore.log."""
        values = thread_key(scope) | {"statuses": json.dumps(list(statuses))}
        return [observation_from_row(r, time_from_micros) for r in await self._fetch("observation_log", values)]

    async def dated(self, scope: Scope) -> list[Observation]:
        """See ObservationStore.dated."""
        rows = await self._fetch("dated_observations", thread_key(scope))
        return [observation_from_row(row, time_from_micros) for row in rows]

    async def tail(self, scope: Scope, limit: int) -> list[Observation]:
        """See ObservationStore.tail."""
        rows = await self._fetch("observation_tail", {**thread_key(scope), "limit": limit})
        return [observation_from_row(row, time_from_micros) for row in rows]

    async def batches(self, scope: Scope) -> list[Batch]:
        """See ObservationStore.batches."""
        rows = await self._fetch("observation_batches", {**thread_key(scope), "after": 0})
        return batches_from_rows(rows, time_from_micros)

    async def forgotten(self, scope: Scope) -> list[Forgotten]:
        """See ObservationStore.forgotten."""
        rows = await self._fetch("forgotten_messages", thread_key(scope))
        return [Forgotten(seq, change) for seq, change in rows]

    async def save(self, lease: Lease, observed: Observed) -> bool:
        """See ObservationStore.save."""
        key: Values = dict(thread_key(lease.scope))
        values = observed_values(key, observed, micros)
        rows = observation_values(key, observed.rows, micros)
        saved: bool = await self._write(lambda connection: self._save(connection, lease, values, rows))
        return saved

    def _save(self, connection: sqlite3.Connection, lease: Lease, values: Values, rows: list[Values]) -> bool:
        self._hold(connection, lease)
        connection.execute(self._sql["ensure_observing"], values)
        if not connection.execute(self._sql["move_cursor"], values).rowcount:
            return False
        connection.execute(self._sql["insert_batch"], values)
        connection.executemany(self._sql["insert_observation"], rows)
        for name in ("count_observations", "next_observation"):
            connection.execute(self._sql[name], values)
        return True

    def _hold(self, connection: sqlite3.Connection, lease: Lease) -> None:
        if not connection.execute(self._sql["holds_lease"], lease_values(lease)).fetchone():
            raise lease_lost(lease)

    async def reflect(self, lease: Lease, reflected: Reflected) -> bool:
        """See ObservationStore.reflect."""
        saved: bool = await self._write(lambda connection: self._reflect(connection, lease, reflected))
        return saved

    def _reflect(self, connection: sqlite3.Connection, lease: Lease, reflected: Reflected) -> bool:
        self._hold(connection, lease)
        key: Values = dict(thread_key(lease.scope))
        gone = replaced(reflected)
        ids = {**key, "ids": json.dumps(list(gone))}
        if connection.execute(self._sql["count_replaceable"], ids).fetchone()[0] != len(gone):
            return False
        rows = observation_values(key, reflected.rows, micros)
        connection.executemany(self._sql["insert_observation"], rows)
        changes = [{**key, "id": source, "successor": successor} for source, successor in gone.items()]
        connection.executemany(self._sql["replace_observation"], changes)
        connection.execute(self._sql["note_reflection"], reflection_values(key, reflected))
        return True

    async def activate(self, scope: Scope, activation: Activation) -> bool:
        """See ObservationStore.activate."""
        values = activation_values(dict(thread_key(scope)), activation)
        activated: bool = await self._write(lambda connection: self._activate(connection, values))
        return activated

    def _activate(self, connection: sqlite3.Connection, values: Values) -> bool:
        if not connection.execute(self._sql["activate"], values).rowcount:
            return False
        for name in ("retire_observations", "activate_observations", "count_observations"):
            connection.execute(self._sql[name], values)
        return True

    async def request_flush(self, scope: Scope, at: datetime) -> None:
        """See ObservationStore.request_flush."""
        await self._execute("request_flush", thread_key(scope) | {"at": micros(at)})

    async def postpone(self, scope: Scope, tokens: int, until: int) -> None:
        """See ObservationStore.postpone."""
        await self._execute("postpone_observation", {**thread_key(scope), "tokens": tokens, "until": until})

    async def flushed(self, scope: Scope, until: datetime) -> None:
        """See ObservationStore.flushed."""
        await self._execute("flushed", thread_key(scope) | {"until": micros(until)})

    async def note_provider(self, scope: Scope, provider: str) -> None:
        """See ObservationStore.note_provider."""
        await self._ensured(scope, "note_provider", {"provider": provider})

    async def due_threads(
        self,
        now: datetime,
        at: datetime,
        limit: int,
        longest: timedelta = LONGEST_WAIT,
        idle: timedelta = LONGEST_WAIT,
    ) -> list[Scope]:
        """See ObservationStore.due_threads."""
        values = clock_values() | {
            "now": micros(now),
            "latest": micros(now + longest),
            "at": micros(at),
            "at_latest": micros(at + idle),
            "limit": limit,
        }
        rows = await self._fetch("threads_to_observe", values)
        return [Scope(agent, resource or None, thread) for agent, resource, thread in rows]

    async def failed(self, lease: Lease, error: str, due: datetime, *, counts: bool, dead: bool) -> None:
        """See ObservationStore.failed."""
        values: Values = {"counts": counts, "due_at": micros(due), "error": error, "dead": dead}
        values |= thread_key(lease.scope)

        def note(connection: sqlite3.Connection) -> None:
            self._hold(connection, lease)
            connection.execute(self._sql["ensure_observing"], values)
            connection.execute(self._sql["observing_failed"], values)

        await self._write(note)

    async def add_usage(self, scope: Scope, day: str, calls: int, tokens: int) -> None:
        """See ObservationStore.add_usage."""
        await self._ensured(scope, "count_observing", {"day": day, "calls": calls, "tokens": tokens})

    async def dead(self, limit: int) -> list[Observing]:
        """See ObservationStore.dead."""
        rows = await self._fetch("dead_observing", {"limit": limit})
        return [observing_from_row(row, time_from_micros) for row in rows]

    async def revive(self) -> int:
        """See ObservationStore.revive."""
        return await self._execute("revive_observing", {})

    async def reset(self, scope: Scope) -> bool:
        """See ObservationStore.reset."""
        key: Values = dict(thread_key(scope))

        def reset(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._sql["reset_observing"], key).rowcount:
                return False
            for name in ("erase_observations", "erase_batches", "reset_thread"):
                connection.execute(self._sql[name], key)
            return True

        done: bool = await self._write(reset)
        return done

    async def _ensured(self, scope: Scope, name: str, values: Values) -> None:
        """A statement about the row of a thread, which is made if it is not there yet."""
        bound = thread_key(scope) | values

        def run(connection: sqlite3.Connection) -> None:
            connection.execute(self._sql["ensure_observing"], bound)
            connection.execute(self._sql[name], bound)

        await self._write(run)

    async def _fetch(self, name: str, values: Any) -> list[Any]:
        sql = self._sql[name]
        rows: list[Any] = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return rows

    async def _execute(self, name: str, values: Any) -> int:
        sql = self._sql[name]
        count: int = await self._write(lambda connection: connection.execute(sql, values).rowcount)
        return count

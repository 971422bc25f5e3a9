"""What layers keep, and run summaries, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from casenotes.stores.learned_rows import Values
from casenotes.stores.rows import scope_key, thread_key
from casenotes.stores.sqlite.append import micros, time_from_micros
from casenotes.stores.sqlite.learning import Run
from casenotes.stores.state_rows import (
    episode_values,
    episodes_from_rows,
    event_values,
    events_from_rows,
    nowhere,
    state_from_row,
    state_key,
    state_values,
)
from casenotes.stores.states import EventRow, OfTurn, StateVersion
from casenotes.types import Episode, Message, Scope


class SqliteStates:
    """See StateStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def read(self, scope: Scope, layer: str) -> StateVersion:
        """See StateStore.read."""
        return next(iter(await self.history(scope, layer, 1)), StateVersion())

    async def history(self, scope: Scope, layer: str, limit: int) -> list[StateVersion]:
        """See StateStore.history."""
        values, sql = state_key(scope, layer) | {"limit": limit}, self._sql["read_state"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return [state_from_row(row, time_from_micros) for row in rows]

    async def write(
        self,
        scope: Scope,
        layer: str,
        new: StateVersion,
        *,
        keep: int,
        create: bool = False,
        turn: OfTurn | None = None,
    ) -> bool:
        """See StateStore.write."""
        values = state_values(scope, layer, new, keep, micros(new.at) if new.at else 0, turn)
        creates = create and scope.thread_id is None
        written: bool | None = await self._write(lambda connection: self._put(connection, values, creates))
        if written is None:
            raise nowhere(scope, turn)
        return written

    def _put(self, connection: sqlite3.Connection, values: Values, create: bool) -> bool | None:
        """Whether it was written; None if there is nothing that it could belong to."""
        if create and not values["seen"]:
            connection.execute(self._sql["ensure_scope"], values)
        if not connection.execute(self._sql["has_scope"], values).fetchone()[0]:
            return False if create else None
        if not connection.execute(self._sql["write_state"], values).rowcount:
            return False
        connection.execute(self._sql["drop_old_states"], values)
        return True


class SqliteEpisodes:
    """See EpisodeStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def run_start(self, scope: Scope) -> int:
        """See EpisodeStore.run_start."""
        rows = await self._fetch("run_start", thread_key(scope))
        return int(rows[0][0]) if rows else 0

    async def add(self, scope: Scope, episode: Episode, last: Message, keep: int) -> bool:
        """See EpisodeStore.add."""
        values = episode_values(scope, episode, last, keep, micros(episode.timestamp))
        added: bool = await self._write(lambda connection: self._add(connection, values))
        return added

    def _add(self, connection: sqlite3.Connection, values: Values) -> bool:
        if not connection.execute(self._sql["end_run"], values).rowcount:
            return False
        connection.execute(self._sql["insert_episode"], values)
        connection.execute(self._sql["drop_old_episodes"], values)
        return True

    async def newest(
        self, scope: Scope, limit: int, *, of_all_users: bool = False, before: datetime | None = None
    ) -> list[Episode]:
        """See EpisodeStore.newest."""
        name = "shared_episodes" if of_all_users else "episodes"
        values = scope_key(scope) | {"limit": limit, "before": micros(before) if before else None}
        return episodes_from_rows(await self._fetch(name, values), time_from_micros)

    async def _fetch(self, name: str, values: Any) -> list[Any]:
        sql = self._sql[name]
        rows: list[Any] = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return rows


class SqliteEvents:
    """See EventStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def add(self, scope: Scope, rows: Sequence[EventRow], keep: int) -> None:
        """See EventStore.add."""
        values = [event_values(scope, row, micros(row.at)) for row in rows]
        await self._write(lambda connection: self._add(connection, values, keep))

    def _add(self, connection: sqlite3.Connection, values: Sequence[Values], keep: int) -> None:
        connection.executemany(self._sql["add_event"], values)
        connection.execute(self._sql["drop_old_events"], values[0] | {"keep": keep})

    async def newest(self, scope: Scope, limit: int) -> list[EventRow]:
        """See EventStore.newest."""
        values, sql = thread_key(scope) | {"limit": limit}, self._sql["events"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return events_from_rows(rows, time_from_micros)

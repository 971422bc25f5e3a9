"""What layers keep, and run summaries, in PostgreSQL.

Writers first share the scope's row, so that none overtakes an erasure. They do not take it: a process that is
stopped within a transaction would hold up every turn of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from casenotes.stores.learned_rows import Values
from casenotes.stores.postgres.connect import Connection, repeat_if_lost
from casenotes.stores.postgres.learning import Access
from casenotes.stores.postgres.values import same_time
from casenotes.stores.rows import scope_key, thread_key
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


class PostgresStates:
    """See StateStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def read(self, scope: Scope, layer: str) -> StateVersion:
        """See StateStore.read."""
        return next(iter(await self.history(scope, layer, 1)), StateVersion())

    async def history(self, scope: Scope, layer: str, limit: int) -> list[StateVersion]:
        """See StateStore.history."""
        values = {**state_key(scope, layer), "limit": limit}
        return [state_from_row(row, same_time) for row in await self._access.fetch(scope, "read_state", values)]

    @repeat_if_lost
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
        values = state_values(scope, layer, new, keep, new.at, turn)
        creates = create and scope.thread_id is None
        async with self._access.transaction(scope) as connection:
            if creates and not values["seen"]:
                await self._execute(connection, "ensure_scope", values)
            await self._execute(connection, "share_scope", values)
            cursor = await connection.execute(self._access.statement("has_scope"), values)
            if not (await cursor.fetchone())[0]:
                if creates:
                    return False
                raise nowhere(scope, turn)
            if not await self._execute(connection, "write_state", values):
                return False
            await self._execute(connection, "drop_old_states", values)
        return True

    async def _execute(self, connection: Connection, name: str, values: Values) -> int:
        return (await connection.execute(self._access.statement(name), values)).rowcount


class PostgresEpisodes:
    """See EpisodeStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def run_start(self, scope: Scope) -> int:
        """See EpisodeStore.run_start."""
        rows = await self._access.fetch(scope, "run_start", thread_key(scope))
        return int(rows[0][0]) if rows else 0

    async def add(self, scope: Scope, episode: Episode, last: Message, keep: int) -> bool:
        """See EpisodeStore.add."""
        values = episode_values(scope, episode, last, keep, episode.timestamp)
        async with self._access.transaction(scope) as connection:
            await connection.execute(self._access.statement("share_scope"), values)
            ended = await connection.execute(self._access.statement("end_run"), values)
            if not ended.rowcount:
                return False
            for name in ("insert_episode", "drop_old_episodes"):
                await connection.execute(self._access.statement(name), values)
        return True

    async def newest(
        self, scope: Scope, limit: int, *, of_all_users: bool = False, before: datetime | None = None
    ) -> list[Episode]:
        """See EpisodeStore.newest."""
        name = "shared_episodes" if of_all_users else "episodes"
        values = {**scope_key(scope), "limit": limit, "before": before}
        return episodes_from_rows(await self._access.fetch(scope, name, values), same_time)


class PostgresEvents:
    """See EventStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def add(self, scope: Scope, rows: Sequence[EventRow], keep: int) -> None:
        """See EventStore.add."""
        values = [event_values(scope, row, row.at) for row in rows]
        async with self._access.transaction(scope) as connection:
            await connection.execute(self._access.statement("share_scope"), values[0])
            await connection.cursor().executemany(self._access.statement("add_event"), values)
            await connection.execute(self._access.statement("drop_old_events"), values[0] | {"keep": keep})

    async def newest(self, scope: Scope, limit: int) -> list[EventRow]:
        """See EventStore.newest."""
        rows = await self._access.fetch(scope, "events", {**thread_key(scope), "limit": limit})
        return events_from_rows(rows, same_time)

"""Observations and how far observing has come, in PostgreSQL.

Writers first share the scope's row, so that none overtakes an erasure, and touch the thread's row last: a
turn waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from casenotes.stores.learned_rows import Values, lease_lost, lease_values
from casenotes.stores.learning import LONGEST_LEASE, LONGEST_WAIT, Lease
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
from casenotes.stores.postgres.connect import Connection
from casenotes.stores.postgres.learning import Access
from casenotes.stores.postgres.values import same_time
from casenotes.stores.rows import message_from_row, scope_key, thread_key
from casenotes.types import Message, Observation, ObservationStatus, Scope


class PostgresObservations:
    """See ObservationStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def state(self, scope: Scope) -> Observing:
        """See ObservationStore.state."""
        rows = await self._access.fetch(scope, "observing_state", thread_key(scope))
        return observing_from_row(rows[0], same_time) if rows else Observing(scope)

    async def states(self, scope: Scope) -> list[Observing]:
        """See ObservationStore.states."""
        if scope.thread_id is not None:
            return [await self.state(scope)]
        rows = await self._access.fetch(scope, "observing_states", scope_key(scope))
        return [observing_from_row(row, same_time) for row in rows]

    async def window(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """See ObservationStore.window. The state is read first: pointers only move on."""
        state = await self.state(scope)
        return state, (await self._messages(state, "window_messages", state.window_seq, limit))[::-1]

    async def unobserved(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """See ObservationStore.unobserved."""
        state = await self.state(scope)
        return state, await self._messages(state, "unobserved_messages", state.observed_seq, limit)

    async def _messages(self, state: Observing, name: str, after: int, limit: int) -> list[Message]:
        asked = {"asked_first": state.asked_first, "asked_last": state.asked_last}
        values = {**thread_key(state.scope), "after": after, "limit": limit, **asked}
        rows = await self._access.fetch(state.scope, name, values)
        return [message_from_row(row, same_time) for row in rows]

    async def ready(self, scope: Scope, newest: int) -> Ready:
        """See ObservationStore.ready."""
        state = await self.state(scope)
        values = {**thread_key(scope), "after": state.active_seq, "limit": newest}
        batches = await self._access.fetch(scope, "observation_batches", values)
        sizes = await self._access.fetch(scope, "newest_sizes", values)
        return Ready(state, batches_from_rows(batches, same_time), [(seq, size) for seq, size in sizes])

    async def log(self, scope: Scope, statuses: Sequence[ObservationStatus]) -> list[Observation]:
        """See ObservationStore.log."""
        values = {**thread_key(scope), "statuses": list(statuses)}
        rows = await self._access.fetch(scope, "observation_log", values)
        return [observation_from_row(row, same_time) for row in rows]

    async def dated(self, scope: Scope) -> list[Observation]:
        """See ObservationStore.dated."""
        rows = await self._access.fetch(scope, "dated_observations", thread_key(scope))
        return [observation_from_row(row, same_time) for row in rows]

    async def tail(self, scope: Scope, limit: int) -> list[Observation]:
        """See ObservationStore.tail."""
        rows = await self._access.fetch(scope, "observation_tail", {**thread_key(scope), "limit": limit})
        return [observation_from_row(row, same_time) for row in rows]

    async def batches(self, scope: Scope) -> list[Batch]:
        """See ObservationStore.batches."""
        rows = await self._access.fetch(scope, "observation_batches", {**thread_key(scope), "after": 0})
        return batches_from_rows(rows, same_time)

    async def forgotten(self, scope: Scope) -> list[Forgotten]:
        """See ObservationStore.forgotten."""
        rows = await self._access.fetch(scope, "forgotten_messages", thread_key(scope))
        return [Forgotten(seq, change) for seq, change in rows]

    async def save(self, lease: Lease, observed: Observed) -> bool:
        """See ObservationStore.save."""
        key: Values = dict(thread_key(lease.scope))
        values = observed_values(key, observed, same_time)
        rows = observation_values(key, observed.rows, same_time)
        async with self._access.transaction(lease.scope) as connection:
            await self._hold(connection, lease)
            await self._execute(connection, "ensure_observing", values)
            if not await self._execute(connection, "move_cursor", values):
                return False
            await self._execute(connection, "insert_batch", values)
            if rows:
                await connection.cursor().executemany(self._access.statement("insert_observation"), rows)
            for name in ("count_observations", "next_observation"):
                await self._execute(connection, name, values)
        return True

    async def _hold(self, connection: Connection, lease: Lease) -> None:
        await self._execute(connection, "share_scope", scope_key(lease.scope))
        held = await connection.execute(self._access.statement("holds_lease"), lease_values(lease))
        if not await held.fetchone():
            raise lease_lost(lease)

    async def reflect(self, lease: Lease, reflected: Reflected) -> bool:
        """See ObservationStore.reflect."""
        key: Values = dict(thread_key(lease.scope))
        gone = replaced(reflected)
        async with self._access.transaction(lease.scope) as connection:
            await self._hold(connection, lease)
            ids = {**key, "ids": list(gone)}
            found = await connection.execute(self._access.statement("count_replaceable"), ids)
            if (await found.fetchone())[0] != len(gone):
                return False
            changes = [{**key, "id": source, "successor": successor} for source, successor in gone.items()]
            for name, rows in (
                ("insert_observation", observation_values(key, reflected.rows, same_time)),
                ("replace_observation", changes),
            ):
                if rows:
                    await connection.cursor().executemany(self._access.statement(name), rows)
            await self._execute(connection, "note_reflection", reflection_values(key, reflected))
        return True

    async def activate(self, scope: Scope, activation: Activation) -> bool:
        """See ObservationStore.activate."""
        values = activation_values(dict(thread_key(scope)), activation)
        async with self._access.transaction(scope) as connection:
            await self._execute(connection, "share_scope", values)
            if not await self._execute(connection, "activate", values):
                return False
            for name in ("retire_observations", "activate_observations", "count_observations"):
                await self._execute(connection, name, values)
        return True

    async def request_flush(self, scope: Scope, at: datetime) -> None:
        """See ObservationStore.request_flush."""
        await self._run(scope, {"at": at}, "request_flush")

    async def postpone(self, scope: Scope, tokens: int, until: int) -> None:
        """See ObservationStore.postpone."""
        await self._run(scope, {"tokens": tokens, "until": until}, "postpone_observation")

    async def flushed(self, scope: Scope, until: datetime) -> None:
        """See ObservationStore.flushed."""
        await self._run(scope, {"until": until}, "flushed")

    async def note_provider(self, scope: Scope, provider: str) -> None:
        """See ObservationStore.note_provider."""
        await self._run(scope, {"provider": provider}, "ensure_observing", "note_provider")

    async def due_threads(
        self,
        now: datetime,
        at: datetime,
        limit: int,
        longest: timedelta = LONGEST_WAIT,
        idle: timedelta = LONGEST_WAIT,
    ) -> list[Scope]:
        """See ObservationStore.due_threads."""
        values = {
            "now": now,
            "latest": now + longest,
            "at": at,
            "at_latest": at + idle,
            "longest": LONGEST_LEASE.total_seconds(),
            "limit": limit,
        }
        rows = await self._access.fetch_all_scopes("threads_to_observe", values)
        return [Scope(agent, resource or None, thread) for agent, resource, thread in rows]

    async def failed(self, lease: Lease, error: str, due: datetime, *, counts: bool, dead: bool) -> None:
        """See ObservationStore.failed."""
        noted = {"counts": int(counts), "due_at": due, "error": error, "dead": dead}
        values = {**thread_key(lease.scope), **noted}
        async with self._access.transaction(lease.scope) as connection:
            await self._hold(connection, lease)
            for name in ("ensure_observing", "observing_failed"):
                await self._execute(connection, name, values)

    async def add_usage(self, scope: Scope, day: str, calls: int, tokens: int) -> None:
        """See ObservationStore.add_usage."""
        used = {"day": day, "calls": calls, "tokens": tokens}
        await self._run(scope, used, "ensure_observing", "count_observing")

    async def dead(self, limit: int) -> list[Observing]:
        """See ObservationStore.dead."""
        rows = await self._access.fetch_all_scopes("dead_observing", {"limit": limit})
        return [observing_from_row(row, same_time) for row in rows]

    async def revive(self) -> int:
        """See ObservationStore.revive."""
        return await self._access.change_all_scopes("revive_observing")

    async def reset(self, scope: Scope) -> bool:
        """See ObservationStore.reset."""
        key = thread_key(scope)
        async with self._access.transaction(scope) as connection:
            await self._execute(connection, "share_scope", key)
            if not await self._execute(connection, "reset_observing", key):
                return False
            for name in ("erase_observations", "erase_batches", "reset_thread"):
                await self._execute(connection, name, key)
        return True

    async def _run(self, scope: Scope, values: Values, *names: str) -> None:
        bound = {**thread_key(scope), **values}
        async with self._access.transaction(scope) as connection:
            for name in ("share_scope", *names):
                await self._execute(connection, name, bound)

    async def _execute(self, connection: Connection, name: str, values: Values | dict[str, str]) -> int:
        return (await connection.execute(self._access.statement(name), values)).rowcount

"""Entries, receipts, leases and queued turns in PostgreSQL. Lease times are those of the server's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Protocol

from casenotes.stores.learned_rows import (
    Values,
    entries_from_rows,
    entry_values,
    evidence_values,
    learned_values,
    lease_lost,
    lease_values,
    ledger_from_rows,
    optional_thread_key,
    receipt_from_row,
    receipt_values,
    seen_again_values,
    turn_states,
    usage_values,
)
from casenotes.stores.learning import (
    LONGEST_LEASE,
    LONGEST_WAIT,
    DayUsage,
    Learned,
    Lease,
    ReceiptRow,
    ShownItem,
    TimesAhead,
    TurnLog,
    TurnState,
)
from casenotes.stores.postgres.connect import Connection
from casenotes.stores.postgres.values import Row, same_time, wire_vector
from casenotes.stores.rows import message_from_row, scope_key, thread_key
from casenotes.types import CandidateReceipt, Entry, Scope


class Access(Protocol):
    """How statements of one scope, or of the whole store, are run."""

    def connection(self) -> Any:
        """A connection outside any transaction."""
        ...

    def transaction(self, scope: Scope) -> Any:
        """A transaction bound to a scope."""
        ...

    async def fetch(self, scope: Scope, name: str, values: Mapping[str, Any]) -> list[Row]:
        """The rows of a named statement, read within a scope."""
        ...

    async def fetch_all_scopes(self, name: str, values: Mapping[str, Any]) -> list[Row]:
        """The rows of a named statement that reads the whole store."""
        ...

    async def change_all_scopes(self, name: str) -> int:
        """Run a named statement that writes to the whole store; says how many rows it changed."""
        ...

    def statement(self, name: str) -> bytes:
        """A named statement."""
        ...


class PostgresEntries:
    """See EntryStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
        """See EntryStore.get."""
        values = {**scope_key(scope), "ids": list(ids)}
        rows = await self._access.fetch(scope, "entries_by_id", values)
        evidence = await self._access.fetch(scope, "evidence_of", values) if rows else []
        return entries_from_rows(rows, evidence, same_time)

    async def known_hashes(self, scope: Scope, hashes: Sequence[str]) -> dict[str, str]:
        """See EntryStore.known_hashes."""
        values = {**scope_key(scope), "hashes": list(hashes)}
        return {row[0]: row[1] for row in await self._access.fetch(scope, "known_hashes", values)}

    async def forgotten_sources(self, scope: Scope, hashes: Sequence[str]) -> set[tuple[str, str]]:
        """See EntryStore.forgotten_sources."""
        values = {**scope_key(scope), "hashes": list(hashes)}
        rows = await self._access.fetch(scope, "forgotten_sources", values)
        return {(digest, message) for digest, message in rows}

    async def save(self, scope: Scope, lease: Lease, learned: Learned) -> bool:
        """See EntryStore.save."""
        key: Values = dict(thread_key(lease.scope))
        async with self._access.transaction(scope) as connection:
            touched = await self._row(connection, "touch_scope", key)
            if not touched or not await self._row(connection, "holds_lease", lease_values(lease)):
                raise lease_lost(lease)
            if learned.seen < (await self._row(connection, "entries_change", key))[0]:
                return False
            done = self._access.statement("turn_learned")
            if (await connection.execute(done, learned_values(key, learned.turn_id))).rowcount:
                await self._insert(connection, key, learned, touched[0])
        return True

    async def _insert(self, connection: Connection, key: Values, learned: Learned, change: int) -> None:
        common = key | {"space": learned.space_id, "change": change}
        vectors = [common | {"id": e.id, "vector": wire_vector(e.vector)} for e in learned.entries if e.vector]
        for name, rows in (
            ("insert_entry", entry_values(key, learned.entries, change, same_time)),
            ("insert_evidence", evidence_values(key, learned.entries, learned.corroborations)),
            ("put_entry_vector", vectors),
            ("see_entry_again", seen_again_values(key, learned.corroborations, same_time)),
            ("insert_receipt", receipt_values(key, learned, same_time)),
        ):
            if rows:
                await connection.cursor().executemany(self._access.statement(name), rows)

    async def _row(self, connection: Connection, name: str, values: Values) -> Any:
        return await (await connection.execute(self._access.statement(name), values)).fetchone()

    async def shown(self, scope: Scope, until_turn: str | None = None) -> list[ShownItem]:
        """See EntryStore.shown."""
        values = {**thread_key(scope), "turn": until_turn}
        return [ShownItem(*row) for row in await self._access.fetch(scope, "shown", values)]

    async def turn_items(self, scope: Scope, turn_id: str) -> list[ShownItem]:
        """See EntryStore.turn_items."""
        values = {**thread_key(scope), "turn": turn_id}
        return [ShownItem(*row) for row in await self._access.fetch(scope, "turn_items", values)]

    async def hidden(self, scope: Scope, message_ids: Sequence[str]) -> set[str]:
        """See EntryStore.hidden."""
        values = {**scope_key(scope), "ids": list(message_ids)}
        return {row[0] for row in await self._access.fetch(scope, "hidden_messages", values)}

    async def receipts(self, scope: Scope, turn_id: str) -> list[CandidateReceipt]:
        """See EntryStore.receipts."""
        rows = await self._access.fetch(scope, "receipts", {**thread_key(scope), "turn": turn_id})
        return [receipt_from_row(row) for row in rows]

    async def ledger(self, scope: Scope, status: str | None, limit: int) -> list[ReceiptRow]:
        """See EntryStore.ledger."""
        values = {**optional_thread_key(scope), "status": status, "limit": limit}
        return ledger_from_rows(scope, await self._access.fetch(scope, "ledger", values), same_time)


class PostgresJobs:
    """See JobStore."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def acquire(self, scope: Scope, task: str, owner: str, seconds: float) -> Lease | None:
        """See JobStore.acquire."""
        values = {**thread_key(scope), "task": task, "owner": owner, "seconds": seconds}
        values["longest"] = LONGEST_LEASE.total_seconds()
        async with self._access.transaction(scope) as connection:
            cursor = await connection.execute(self._access.statement("acquire_lease"), values)
            row = await cursor.fetchone()
        return Lease(scope, task, owner, row[0]) if row else None

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """See JobStore.renew."""
        values = lease_values(lease) | {"seconds": seconds}
        return bool(await self._execute(lease.scope, "renew_lease", values))

    async def release(self, lease: Lease) -> None:
        """See JobStore.release."""
        await self.renew(lease, 0.0)

    async def queued(self, scope: Scope) -> list[TurnState]:
        """See JobStore.queued."""
        rows = await self._access.fetch(scope, "queued_turns", optional_thread_key(scope))
        return list(turn_states(rows, same_time))

    async def due_threads(
        self, now: datetime, limit: int, layers: Sequence[str], longest: timedelta = LONGEST_WAIT
    ) -> list[Scope]:
        """See JobStore.due_threads."""
        values = {
            "now": now,
            "latest": now + longest,
            "longest": LONGEST_LEASE.total_seconds(),
            "limit": limit,
            "layers": list(layers),
        }
        rows = await self._access.fetch_all_scopes("due_threads", values)
        return [Scope(agent, resource or None, thread) for agent, resource, thread in rows]

    async def times_ahead(self, now: datetime, longest: timedelta, at: datetime, idle: timedelta) -> TimesAhead:
        """See JobStore.times_ahead."""
        values = {"longest": LONGEST_LEASE.total_seconds(), "latest": now + longest, "at_latest": at + idle}
        (row,) = await self._access.fetch_all_scopes("times_ahead", values)
        return TimesAhead(*row)

    async def dead(self, limit: int) -> list[TurnState]:
        """See JobStore.dead."""
        return list(turn_states(await self._access.fetch_all_scopes("dead_turns", {"limit": limit}), same_time))

    async def revive(self) -> int:
        """See JobStore.revive."""
        return await self._access.change_all_scopes("revive_turns")

    async def turn(self, scope: Scope, turn_id: str) -> TurnState | None:
        """See JobStore.turn."""
        rows = await self._access.fetch(scope, "turn_state", {**thread_key(scope), "turn": turn_id})
        return next(turn_states(rows, same_time), None)

    async def finished(self, scope: Scope) -> list[TurnState]:
        """See JobStore.finished."""
        rows = await self._access.fetch(scope, "finished_turns", scope_key(scope))
        return list(turn_states(rows, same_time))

    async def log(self, scope: Scope, turn_id: str, before: int) -> TurnLog:
        """See JobStore.log."""
        values = {**thread_key(scope), "turn": turn_id, "limit": before}
        messages, earlier = [
            [message_from_row(row, same_time) for row in await self._access.fetch(scope, name, values)]
            for name in ("turn_messages", "messages_before_turn")
        ]
        return TurnLog(messages, earlier)

    async def failed(
        self, lease: Lease, turn_id: str, error: str, due: datetime, *, counts: bool, dead: bool
    ) -> None:
        """See JobStore.failed."""
        values = {"turn": turn_id, "error": error, "due_at": due, "counts": int(counts), "dead": dead}
        await self._under(lease, "turn_failed", {**thread_key(lease.scope), **values})

    async def learned(self, lease: Lease, turn_id: str, layer: str) -> None:
        """See JobStore.learned."""
        await self._under(lease, "turn_learned", learned_values(thread_key(lease.scope), turn_id, layer))

    async def _under(self, lease: Lease, name: str, values: Values) -> None:
        async with self._access.transaction(lease.scope) as connection:
            await connection.execute(self._access.statement("share_scope"), scope_key(lease.scope))
            held = await connection.execute(self._access.statement("holds_lease"), lease_values(lease))
            if not await held.fetchone():
                raise lease_lost(lease)
            await connection.execute(self._access.statement(name), values)

    async def usage(self, scope: Scope, day: str) -> list[DayUsage]:
        """See JobStore.usage."""
        rows = await self._access.fetch(scope, "usage", {**scope_key(scope), "day": day})
        return [DayUsage(*row) for row in rows]

    async def add_usage(self, scope: Scope, day: str, usage: DayUsage) -> None:
        """See JobStore.add_usage."""
        await self._execute(scope, "add_usage", usage_values(scope, day, asdict(usage)))

    async def _execute(self, scope: Scope, name: str, values: Values) -> int:
        async with self._access.transaction(scope) as connection:
            count: int = (await connection.execute(self._access.statement(name), values)).rowcount
            return count

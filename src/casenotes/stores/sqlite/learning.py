"""Entries, receipts, leases and queued turns in SQLite. Lease times are those of this machine's clock."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, TypeVar

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
from casenotes.stores.rows import message_from_row, scope_key, thread_key
from casenotes.stores.sqlite.append import micros, time_from_micros
from casenotes.types import CandidateReceipt, Entry, Scope

T = TypeVar("T")
Run = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]
"""Calls a function with a connection, on the lane for reading or for writing."""


class SqliteEntries:
    """See EntryStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
        """See EntryStore.get."""
        values = scope_key(scope) | {"ids": json.dumps(list(ids))}
        rows, evidence = await self._read(
            lambda connection: [
                connection.execute(self._sql[name], values).fetchall()
                for name in ("entries_by_id", "evidence_of")
            ]
        )
        return entries_from_rows(rows, evidence, time_from_micros)

    async def known_hashes(self, scope: Scope, hashes: Sequence[str]) -> dict[str, str]:
        """See EntryStore.known_hashes."""
        values = scope_key(scope) | {"hashes": json.dumps(list(hashes))}
        return dict(await self._fetch("known_hashes", values))

    async def forgotten_sources(self, scope: Scope, hashes: Sequence[str]) -> set[tuple[str, str]]:
        """See EntryStore.forgotten_sources."""
        values = scope_key(scope) | {"hashes": json.dumps(list(hashes))}
        return {(digest, message) for digest, message in await self._fetch("forgotten_sources", values)}

    async def save(self, scope: Scope, lease: Lease, learned: Learned) -> bool:
        """See EntryStore.save."""
        saved: bool = await self._write(lambda connection: self._save(connection, lease, learned))
        return saved

    def _save(self, connection: sqlite3.Connection, lease: Lease, learned: Learned) -> bool:
        key: Values = dict(thread_key(lease.scope))
        if not connection.execute(self._sql["holds_lease"], lease_values(lease)).fetchone():
            raise lease_lost(lease)
        if learned.seen < connection.execute(self._sql["entries_change"], key).fetchone()[0]:
            return False
        if connection.execute(self._sql["turn_learned"], learned_values(key, learned.turn_id)).rowcount:
            self._insert(connection, key, learned)
        return True

    def _insert(self, connection: sqlite3.Connection, key: Values, learned: Learned) -> None:
        change = connection.execute(self._sql["touch_scope"], key).fetchone()[0]
        common = key | {"space": learned.space_id, "change": change}
        vectors = [common | {"id": e.id, "vector": e.vector} for e in learned.entries if e.vector]
        for name, rows in (
            ("insert_entry", entry_values(key, learned.entries, change, micros)),
            ("insert_evidence", evidence_values(key, learned.entries, learned.corroborations)),
            ("put_entry_vector", vectors),
            ("see_entry_again", seen_again_values(key, learned.corroborations, micros)),
            ("insert_receipt", receipt_values(key, learned, micros)),
        ):
            connection.executemany(self._sql[name], rows)

    async def shown(self, scope: Scope, until_turn: str | None = None) -> list[ShownItem]:
        """See EntryStore.shown."""
        values = thread_key(scope) | {"turn": until_turn}
        return [ShownItem(*row) for row in await self._fetch("shown", values)]

    async def turn_items(self, scope: Scope, turn_id: str) -> list[ShownItem]:
        """See EntryStore.turn_items."""
        values = thread_key(scope) | {"turn": turn_id}
        return [ShownItem(*row) for row in await self._fetch("turn_items", values)]

    async def hidden(self, scope: Scope, message_ids: Sequence[str]) -> set[str]:
        """See EntryStore.hidden."""
        values = scope_key(scope) | {"ids": json.dumps(list(message_ids))}
        return {row[0] for row in await self._fetch("hidden_messages", values)}

    async def receipts(self, scope: Scope, turn_id: str) -> list[CandidateReceipt]:
        """See EntryStore.receipts."""
        rows = await self._fetch("receipts", thread_key(scope) | {"turn": turn_id})
        return [receipt_from_row(row) for row in rows]

    async def ledger(self, scope: Scope, status: str | None, limit: int) -> list[ReceiptRow]:
        """See EntryStore.ledger."""
        values = optional_thread_key(scope) | {"status": status, "limit": limit}
        return ledger_from_rows(scope, await self._fetch("ledger", values), time_from_micros)

    async def _fetch(self, name: str, values: Any) -> list[Any]:
        return await _fetch(self._read, self._sql[name], values)


class SqliteJobs:
    """See JobStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run) -> None:
        self._sql = sql
        self._read = read
        self._write = write

    async def acquire(self, scope: Scope, task: str, owner: str, seconds: float) -> Lease | None:
        """See JobStore.acquire."""
        values = thread_key(scope) | {"task": task, "owner": owner} | _lease_times(seconds)
        sql = self._sql["acquire_lease"]
        row = await self._write(lambda connection: connection.execute(sql, values).fetchone())
        return Lease(scope, task, owner, row[0]) if row else None

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """See JobStore.renew."""
        return bool(await self._execute("renew_lease", lease_values(lease) | _lease_times(seconds)))

    async def release(self, lease: Lease) -> None:
        """See JobStore.release."""
        await self.renew(lease, 0.0)

    async def queued(self, scope: Scope) -> list[TurnState]:
        """See JobStore.queued."""
        return _turns(await self._fetch("queued_turns", optional_thread_key(scope)))

    async def due_threads(
        self, now: datetime, limit: int, layers: Sequence[str], longest: timedelta = LONGEST_WAIT
    ) -> list[Scope]:
        """See JobStore.due_threads."""
        values = clock_values() | {
            "now": micros(now),
            "latest": micros(now + longest),
            "limit": limit,
            "layers": json.dumps(list(layers)),
        }
        rows = await self._fetch("due_threads", values)
        return [Scope(agent, resource or None, thread) for agent, resource, thread in rows]

    async def times_ahead(self, now: datetime, longest: timedelta, at: datetime, idle: timedelta) -> TimesAhead:
        """See JobStore.times_ahead."""
        values = clock_values() | {"latest": micros(now + longest), "at_latest": micros(at + idle)}
        (row,) = await self._fetch("times_ahead", values)
        return TimesAhead(*row)

    async def dead(self, limit: int) -> list[TurnState]:
        """See JobStore.dead."""
        return _turns(await self._fetch("dead_turns", {"limit": limit}))

    async def revive(self) -> int:
        """See JobStore.revive."""
        return await self._execute("revive_turns", {})

    async def turn(self, scope: Scope, turn_id: str) -> TurnState | None:
        """See JobStore.turn."""
        rows = await self._fetch("turn_state", thread_key(scope) | {"turn": turn_id})
        return next(iter(_turns(rows)), None)

    async def finished(self, scope: Scope) -> list[TurnState]:
        """See JobStore.finished."""
        return _turns(await self._fetch("finished_turns", scope_key(scope)))

    async def log(self, scope: Scope, turn_id: str, before: int) -> TurnLog:
        """See JobStore.log."""
        values = thread_key(scope) | {"turn": turn_id, "limit": before}
        messages, earlier = [
            [message_from_row(row, time_from_micros) for row in await self._fetch(name, values)]
            for name in ("turn_messages", "messages_before_turn")
        ]
        return TurnLog(messages, earlier)

    async def learned(self, lease: Lease, turn_id: str, layer: str) -> None:
        """See JobStore.learned."""
        values = learned_values(thread_key(lease.scope), turn_id, layer)
        await self._write(lambda connection: self._under(connection, lease, "turn_learned", values))

    async def failed(
        self, lease: Lease, turn_id: str, error: str, due: datetime, *, counts: bool, dead: bool
    ) -> None:
        """See JobStore.failed."""
        values = {"turn": turn_id, "error": error, "due_at": micros(due), "counts": counts, "dead": dead}
        noted = thread_key(lease.scope) | values
        await self._write(lambda connection: self._under(connection, lease, "turn_failed", noted))

    def _under(self, connection: sqlite3.Connection, lease: Lease, name: str, values: Values) -> None:
        if not connection.execute(self._sql["holds_lease"], lease_values(lease)).fetchone():
            raise lease_lost(lease)
        connection.execute(self._sql[name], values)

    async def usage(self, scope: Scope, day: str) -> list[DayUsage]:
        """See JobStore.usage."""
        return [DayUsage(*row) for row in await self._fetch("usage", scope_key(scope) | {"day": day})]

    async def add_usage(self, scope: Scope, day: str, usage: DayUsage) -> None:
        """See JobStore.add_usage."""
        await self._execute("add_usage", usage_values(scope, day, asdict(usage)))

    async def _fetch(self, name: str, values: Any) -> list[Any]:
        return await _fetch(self._read, self._sql[name], values)

    async def _execute(self, name: str, values: Any) -> int:
        sql = self._sql[name]
        count: int = await self._write(lambda connection: connection.execute(sql, values).rowcount)
        return count


async def _fetch(read: Run, sql: str, values: Any) -> list[Any]:
    rows: list[Any] = await read(lambda connection: connection.execute(sql, values).fetchall())
    return rows


def _turns(rows: Sequence[Any]) -> list[TurnState]:
    return list(turn_states(rows, time_from_micros))


def now_micros() -> int:
    """The time of this machine in microseconds since 1970."""
    return time.time_ns() // 1000


def clock_values() -> Values:
    """The machine's clock, and the last moment at which a lease can end."""
    now = now_micros()
    return {"clock": now, "clock_latest": now + int(LONGEST_LEASE.total_seconds() * 1e6)}


def _lease_times(seconds: float) -> Values:
    now = now_micros()
    longest = max(seconds, LONGEST_LEASE.total_seconds())
    return {"now": now, "expires_at": now + int(seconds * 1e6), "latest": now + int(longest * 1e6)}

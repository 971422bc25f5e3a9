"""What happens to entries after they were learned, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from casenotes.stores.learned_rows import (
    Values,
    entry_values,
    evidence_values,
    lease_lost,
    lease_values,
    ledger_from_rows,
    optional_thread_key,
    receipt_values,
    seen_again_values,
)
from casenotes.stores.learning import Lease, ReceiptRow
from casenotes.stores.revised_rows import (
    NotAsExpected,
    added_values,
    change_values,
    check_undo,
    history_from_rows,
    is_outdated,
    of_kind,
    taken_again,
    that_change,
    that_remove,
)
from casenotes.stores.revisions import EvidenceRow, NewRevision
from casenotes.stores.rows import scope_key, thread_key
from casenotes.stores.sqlite.append import micros, time_from_micros
from casenotes.stores.sqlite.learning import Run, SqliteEntries
from casenotes.types import Entry, EntryStatus, Revision, Scope


class SqliteRevisions:
    """See RevisionStore."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run, entries: SqliteEntries) -> None:
        self._sql = sql
        self._read = read
        self._write = write
        self._entries = entries

    async def revise(self, scope: Scope, revision: NewRevision, lease: Lease | None = None) -> bool:
        """See RevisionStore.revise."""
        try:
            await self._write(lambda connection: self._revise(connection, scope, revision, lease))
        except NotAsExpected:
            return False
        return True

    def _revise(
        self, connection: sqlite3.Connection, scope: Scope, revision: NewRevision, lease: Lease | None
    ) -> None:
        key: Values = dict(optional_thread_key(scope))
        if lease and not connection.execute(self._sql["holds_lease"], lease_values(lease)).fetchone():
            raise lease_lost(lease)
        newest = connection.execute(self._sql["entries_change"], key).fetchone()[0]
        touched = connection.execute(self._sql["touch_scope"], key).fetchone()
        if not touched or is_outdated(revision.seen, touched[1], newest):
            raise NotAsExpected
        self._change(connection, change_values(key, revision, touched[0], micros))
        self._add(connection, key, revision, touched[0])

    def _change(self, connection: sqlite3.Connection, rows: Sequence[Values]) -> None:
        entries, messages = of_kind(rows, "entry"), of_kind(rows, "message")
        noted = sum(
            connection.executemany(self._sql[name], some).rowcount
            for name, some in (("revise_entry", entries), ("revise_message", messages))
            if some
        )
        if noted != len(rows):
            raise NotAsExpected
        removed = that_remove(rows)
        connection.executemany(self._sql["change_entry"], that_change(rows))
        connection.executemany(self._sql["hide_message"], messages)
        connection.executemany(self._sql["drop_item_vectors"], removed)
        if removed:
            connection.execute(self._sql["renew_scope"], removed[0])

    def _add(self, connection: sqlite3.Connection, key: Values, revision: NewRevision, change: int) -> None:
        common = key | {"space": revision.space_id, "change": change}
        vectors = [common | {"id": e.id, "vector": e.vector} for e in revision.entries if e.vector]
        for name, rows in (
            ("insert_entry", entry_values(key, revision.entries, change, micros)),
            ("insert_evidence", evidence_values(key, revision.entries, revision.corroborations)),
            ("see_entry_again", seen_again_values(key, revision.corroborations, micros)),
            ("put_entry_vector", vectors),
            ("note_added", added_values(key, revision, change, micros)),
            ("append_receipt", receipt_values(key, revision, micros)),
        ):
            connection.executemany(self._sql[name], rows)

    async def undo(self, scope: Scope, revision_id: str, at: datetime) -> list[str]:
        """See RevisionStore.undo."""
        values = scope_key(scope) | {"revision": revision_id, "at": micros(at)}
        restored: list[str] = await self._write(lambda connection: self._undo(connection, scope, values))
        return restored

    def _undo(self, connection: sqlite3.Connection, scope: Scope, values: Values) -> list[str]:
        items = connection.execute(self._sql["revision_items"], values).fetchall()
        later = connection.execute(self._sql["later_revisions"], values).fetchall()
        check_undo(scope, values["revision"], items, later)
        values = values | {"change": connection.execute(self._sql["touch_scope"], values).fetchone()[0]}
        try:
            for name in ("drop_added", "restore_entries", "show_messages", "mark_undone", "renew_scope"):
                connection.execute(self._sql[name], values)
        except sqlite3.IntegrityError:
            raise taken_again(values["revision"]) from None
        added = [values | {"kind": kind, "id": item} for kind, item, action in items if action == "added"]
        connection.executemany(self._sql["drop_item_vectors"], added)
        return [item for _kind, item, _action in items]

    async def history(self, scope: Scope, item_ids: Sequence[str]) -> list[Revision]:
        """See RevisionStore.history."""
        return history_from_rows(await self._of(scope, "history", item_ids), time_from_micros)

    async def conflicts(self, scope: Scope, entry_ids: Sequence[str]) -> list[tuple[str, str]]:
        """See RevisionStore.conflicts."""
        return [(old, new) for old, new in await self._of(scope, "conflicts", entry_ids)]

    async def entries(
        self, scope: Scope, statuses: Sequence[EntryStatus], limit: int, after: str = ""
    ) -> list[Entry]:
        """See RevisionStore.entries."""
        values = {"statuses": json.dumps(list(statuses)), "limit": limit, "after": after}
        ids = [row[0] for row in await self._fetch("entries_page", scope_key(scope) | values)]
        found = await self._entries.get(scope, ids)
        return [found[entry_id] for entry_id in ids if entry_id in found]

    async def evidence(self, scope: Scope, entry_ids: Sequence[str]) -> list[EvidenceRow]:
        """See RevisionStore.evidence."""
        return [EvidenceRow(*row) for row in await self._of(scope, "evidence_rows", entry_ids)]

    async def quoting(self, scope: Scope, message_ids: Sequence[str]) -> list[str]:
        """See RevisionStore.quoting."""
        if message_ids:
            rows = await self._of(scope, "quoting_messages", message_ids)
        else:
            rows = await self._fetch("quoting_thread", thread_key(scope))
        return [row[0] for row in rows]

    async def never_shown(self, scope: Scope) -> list[str]:
        """See RevisionStore.never_shown."""
        return [row[0] for row in await self._fetch("never_shown", scope_key(scope))]

    async def owner(self, entry_id: str) -> Scope | None:
        """See RevisionStore.owner."""
        rows = await self._fetch("entry_owner", {"entry": entry_id})
        return Scope(rows[0][0], rows[0][1] or None) if rows else None

    async def receipts(self, scope: Scope, entry_id: str) -> list[ReceiptRow]:
        """See RevisionStore.receipts."""
        rows = await self._fetch("receipts_of_entry", scope_key(scope) | {"entry": entry_id})
        return ledger_from_rows(scope, rows, time_from_micros)

    async def take_to_reflect(self, scope: Scope, limit: int) -> list[str]:
        """See RevisionStore.take_to_reflect."""
        values, sql = scope_key(scope) | {"limit": limit}, self._sql["take_to_reflect"]
        rows = await self._write(lambda connection: connection.execute(sql, values).fetchall())
        return [row[0] for row in rows]

    async def reflected(self, scope: Scope, entry_ids: Sequence[str]) -> None:
        """See RevisionStore.reflected."""
        values, sql = scope_key(scope) | {"ids": json.dumps(list(entry_ids))}, self._sql["reflected"]
        await self._write(lambda connection: connection.execute(sql, values).rowcount)

    async def _of(self, scope: Scope, name: str, ids: Sequence[str]) -> list[Any]:
        return await self._fetch(name, scope_key(scope) | {"ids": json.dumps(list(ids))})

    async def _fetch(self, name: str, values: Any) -> list[Any]:
        sql = self._sql[name]
        rows: list[Any] = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return rows

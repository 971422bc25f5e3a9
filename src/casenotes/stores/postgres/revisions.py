"""What happens to entries after they were learned, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg.errors import UniqueViolation

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
from casenotes.stores.postgres.connect import Connection, repeat_if_lost
from casenotes.stores.postgres.learning import Access, PostgresEntries
from casenotes.stores.postgres.values import Row, same_time, wire_vector
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
from casenotes.types import Entry, EntryStatus, Revision, Scope


class PostgresRevisions:
    """See RevisionStore."""

    def __init__(self, access: Access, entries: PostgresEntries) -> None:
        self._access = access
        self._entries = entries

    @repeat_if_lost
    async def revise(self, scope: Scope, revision: NewRevision, lease: Lease | None = None) -> bool:
        """See RevisionStore.revise."""
        key: Values = dict(optional_thread_key(scope))
        try:
            async with self._access.transaction(scope) as connection:
                touched = await self._rows(connection, "touch_scope", key)
                if lease and not await self._rows(connection, "holds_lease", lease_values(lease)):
                    raise lease_lost(lease)
                newest = (await self._rows(connection, "entries_change", key))[0][0]
                if not touched or is_outdated(revision.seen, touched[0][1], newest):
                    raise NotAsExpected
                change = touched[0][0]
                await self._change(connection, change_values(key, revision, change, same_time))
                await self._add(connection, key, revision, change)
        except NotAsExpected:
            return False
        return True

    async def _change(self, connection: Connection, rows: Sequence[Values]) -> None:
        entries, messages, removed = of_kind(rows, "entry"), of_kind(rows, "message"), that_remove(rows)
        noted = await self._many(connection, "revise_entry", entries)
        noted += await self._many(connection, "revise_message", messages)
        if noted != len(rows):
            raise NotAsExpected
        await self._many(connection, "change_entry", that_change(rows))
        await self._many(connection, "hide_message", messages)
        await self._many(connection, "drop_item_vectors", removed)
        await self._many(connection, "renew_scope", removed[:1])

    async def _add(self, connection: Connection, key: Values, revision: NewRevision, change: int) -> None:
        common = key | {"space": revision.space_id, "change": change}
        vectors = [common | {"id": e.id, "vector": wire_vector(e.vector)} for e in revision.entries if e.vector]
        for name, rows in (
            ("insert_entry", entry_values(key, revision.entries, change, same_time)),
            ("insert_evidence", evidence_values(key, revision.entries, revision.corroborations)),
            ("see_entry_again", seen_again_values(key, revision.corroborations, same_time)),
            ("put_entry_vector", vectors),
            ("note_added", added_values(key, revision, change, same_time)),
            ("append_receipt", receipt_values(key, revision, same_time)),
        ):
            await self._many(connection, name, rows)

    @repeat_if_lost
    async def undo(self, scope: Scope, revision_id: str, at: datetime) -> list[str]:
        """See RevisionStore.undo."""
        values: Values = {**scope_key(scope), "revision": revision_id, "at": at}
        async with self._access.transaction(scope) as connection:
            touched = await self._rows(connection, "touch_scope", values)
            items = await self._rows(connection, "revision_items", values)
            later = await self._rows(connection, "later_revisions", values)
            check_undo(scope, revision_id, items, later)
            values["change"] = touched[0][0]
            await self._restore(connection, values)
            added = [values | {"kind": kind, "id": item} for kind, item, action in items if action == "added"]
            await self._many(connection, "drop_item_vectors", added)
        return [item for _kind, item, _action in items]

    async def _restore(self, connection: Connection, values: Values) -> None:
        try:
            for name in ("drop_added", "restore_entries", "show_messages", "mark_undone", "renew_scope"):
                await connection.execute(self._access.statement(name), values)
        except UniqueViolation:
            raise taken_again(values["revision"]) from None

    async def history(self, scope: Scope, item_ids: Sequence[str]) -> list[Revision]:
        """See RevisionStore.history."""
        return history_from_rows(await self._of(scope, "history", item_ids), same_time)

    async def conflicts(self, scope: Scope, entry_ids: Sequence[str]) -> list[tuple[str, str]]:
        """See RevisionStore.conflicts."""
        return [(old, new) for old, new in await self._of(scope, "conflicts", entry_ids)]

    async def entries(
        self, scope: Scope, statuses: Sequence[EntryStatus], limit: int, after: str = ""
    ) -> list[Entry]:
        """See RevisionStore.entries."""
        values = {**scope_key(scope), "statuses": list(statuses), "limit": limit, "after": after}
        ids = [row[0] for row in await self._access.fetch(scope, "entries_page", values)]
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
            rows = await self._access.fetch(scope, "quoting_thread", thread_key(scope))
        return [row[0] for row in rows]

    async def never_shown(self, scope: Scope) -> list[str]:
        """See RevisionStore.never_shown."""
        return [row[0] for row in await self._access.fetch(scope, "never_shown", scope_key(scope))]

    async def owner(self, entry_id: str) -> Scope | None:
        """See RevisionStore.owner."""
        rows = await self._access.fetch_all_scopes("entry_owner", {"entry": entry_id})
        return Scope(rows[0][0], rows[0][1] or None) if rows else None

    async def receipts(self, scope: Scope, entry_id: str) -> list[ReceiptRow]:
        """See RevisionStore.receipts."""
        values = {**scope_key(scope), "entry": entry_id}
        return ledger_from_rows(scope, await self._access.fetch(scope, "receipts_of_entry", values), same_time)

    async def take_to_reflect(self, scope: Scope, limit: int) -> list[str]:
        """See RevisionStore.take_to_reflect."""
        async with self._access.transaction(scope) as connection:
            rows = await self._rows(connection, "take_to_reflect", {**scope_key(scope), "limit": limit})
        return [row[0] for row in rows]

    async def reflected(self, scope: Scope, entry_ids: Sequence[str]) -> None:
        """See RevisionStore.reflected."""
        async with self._access.transaction(scope) as connection:
            values = {**scope_key(scope), "ids": list(entry_ids)}
            await connection.execute(self._access.statement("reflected"), values)

    async def _of(self, scope: Scope, name: str, ids: Sequence[str]) -> list[Row]:
        return await self._access.fetch(scope, name, {**scope_key(scope), "ids": list(ids)})

    async def _rows(self, connection: Connection, name: str, values: Values) -> list[Any]:
        return await (await connection.execute(self._access.statement(name), values)).fetchall()

    async def _many(self, connection: Connection, name: str, rows: Sequence[Values]) -> int:
        if not rows:
            return 0
        cursor = connection.cursor()
        await cursor.executemany(self._access.statement(name), rows)
        return cursor.rowcount

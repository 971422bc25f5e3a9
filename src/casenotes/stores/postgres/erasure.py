"""Remove a user's data from PostgreSQL for good: rows, dead rows, statistics and the write-ahead log.

Deleted rows stay in the server's files until they are overwritten. Rewriting the tables and moving on to
a new log segment leaves nothing; some of it only a superuser may do, and backups are out of reach. Other
databases of the server are not looked at: no row of this one was ever there, and equal words would be taken
for remains.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import psycopg

from casenotes.stores.learned_rows import Values, optional_thread_key
from casenotes.stores.postgres.connect import Connection
from casenotes.stores.postgres.learning import Access
from casenotes.stores.revisions import AFTER_RESOURCE, AFTER_THREAD, ERASED, ERASED_WITH_RESOURCE
from casenotes.stores.state_rows import renewed_states, stripped_states, texts_in_json, texts_of_thread
from casenotes.types import Scope

TABLES = (
    "scopes threads messages turns vectors entries evidence receipts leases model_usage revisions "
    "layer_states episodes events observing observation_batches observations".split()
)


class PostgresErasure:
    """See Erasure."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def erase(self, scope: Scope) -> Mapping[str, int]:
        """See Erasure.erase."""
        values = optional_thread_key(scope)
        async with self._access.transaction(scope) as connection:
            return await self._erase(connection, values)

    async def _erase(self, connection: Connection, values: Values) -> dict[str, int]:
        whole = values["thread"] is None
        await connection.execute(self._access.statement("hold_scope"), values)
        counts = {
            table: (await connection.execute(self._access.statement(name), values)).rowcount
            for table, name in (*ERASED, *(ERASED_WITH_RESOURCE if whole else ()))
        }
        if not whole:
            await self._strip_states(connection, values)
        for name in AFTER_RESOURCE if whole else AFTER_THREAD:
            await connection.execute(self._access.statement(name), values)
        return counts

    async def _strip_states(self, connection: Connection, values: Values) -> None:
        cursor = await connection.execute(self._access.statement("scope_states"), values)
        stripped = stripped_states(values, await cursor.fetchall())
        if stripped:
            await connection.cursor().executemany(self._access.statement("replace_state"), stripped)
            renewed = renewed_states(values, stripped)
            await connection.cursor().executemany(self._access.statement("renew_state"), renewed)

    async def traces(self, scope: Scope) -> list[bytes]:
        """See Erasure.traces."""
        values = optional_thread_key(scope)
        texts = [text for (text,) in await self._access.fetch(scope, "stored_texts", values)]
        texts += texts_in_json(await self._access.fetch(scope, "stored_json", values))
        if scope.thread_id:
            kept = await self._access.fetch(scope, "scope_states", values)
            texts += texts_of_thread(scope.thread_id, kept)
        vectors = await self._access.fetch(scope, "stored_vectors", values)

        def as_bytes() -> list[bytes]:
            stored = [vector.to_numpy().tobytes() for (vector,) in vectors]
            return [*(text.encode() for text in texts if text), *stored]

        return await asyncio.to_thread(as_bytes)

    async def still_there(self, pieces: Sequence[bytes]) -> set[bytes]:
        """See Erasure.still_there."""
        found = set()
        for piece in pieces:
            if (await self._access.fetch_all_scopes("is_live", {"piece": piece}))[0][0]:
                found.add(piece)
        return found

    async def fingerprints(self, owner: bytes) -> bytes:
        """See Erasure.fingerprints."""
        rows = await self._access.fetch_all_scopes("fingerprints", {"owner": owner})
        return bytes(rows[0][0]) if rows else b""

    async def add_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """See Erasure.add_fingerprints."""
        await self._execute("add_fingerprints", {"owner": owner, "fingerprints": fingerprints})

    async def drop_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """See Erasure.drop_fingerprints."""
        await self._execute("drop_fingerprints", {"owner": owner, "fingerprints": fingerprints})

    async def _execute(self, name: str, values: Values) -> None:
        async with self._access.connection() as connection:
            await connection.execute(self._access.statement(name), values)

    async def scrub(self) -> str:
        """See Erasure.scrub."""
        async with self._access.connection() as connection:
            problems = [what for what, clean in CLEANING.items() if not await _is_done(clean, connection)]
        if not problems:
            return ""
        return f"this role may not clean {' and '.join(problems)}; let an administrator repeat the command"

    async def files(self) -> list[Path]:
        """See Erasure.files."""
        ((directory, own),) = await self._access.fetch_all_scopes("data_directory", {})
        if directory is None or not os.access(directory, os.R_OK | os.X_OK):
            return []
        return await asyncio.to_thread(server_files, Path(directory), own)


def server_files(directory: Path, own: str) -> list[Path]:
    """All files of the server but those of other databases than its `own`; OSError where one cannot be seen.

    The log and tablespaces may lie on other disks, behind links.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    paths = []
    for folder, _folders, names in os.walk(directory, onerror=refuse, followlinks=True):
        place = Path(folder)
        holds_databases = place.parent.name == "base" or place.parent.name.startswith("PG_")
        if not (holds_databases and place.name.isdigit() and place.name != own):
            paths += [place / name for name in names]
    return [path for path in paths if path.is_file()]


async def _is_done(clean: Callable[[Connection], Awaitable[None]], connection: Connection) -> bool:
    """Whether a role may do it: the server refuses, or warns and passes over what it should have rewritten."""
    warnings: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(str(notice.message_primary))

    connection.add_notice_handler(note)
    try:
        await clean(connection)
    except psycopg.errors.InsufficientPrivilege:
        return False
    finally:
        connection.remove_notice_handler(note)
    return not warnings


async def _rewrite_tables(connection: Connection) -> None:
    for table in TABLES:
        await connection.execute(f"VACUUM (FULL, ANALYZE) casenotes.{table}".encode())


async def _rewrite_statistics(connection: Connection) -> None:
    """Of ids the planner keeps samples; those of other columns are switched off."""
    await connection.execute(b"VACUUM (FULL) pg_catalog.pg_statistic")


async def _wipe_log(connection: Connection) -> None:
    """Leave the segments that hold old rows, then write over all that the server keeps for later use."""
    await _next_segment(connection)
    await connection.execute(b"CHECKPOINT")
    cursor = await connection.execute(b"SELECT count(*) FROM pg_ls_waldir()")
    row = await cursor.fetchone()
    for _ in range((row[0] if row else 0) + 1):
        await _next_segment(connection)
    await connection.execute(b"CHECKPOINT")


async def _next_segment(connection: Connection) -> None:
    """Leave the current segment, of which the rest is filled up with zeros; an unused one is not left."""
    await connection.execute(b"SELECT pg_logical_emit_message(true, 'casenotes', 'erased')")
    await connection.execute(b"SELECT pg_switch_wal()")


CLEANING = {
    "the tables": _rewrite_tables,
    "the planner's statistics": _rewrite_statistics,
    "the write-ahead log": _wipe_log,
}

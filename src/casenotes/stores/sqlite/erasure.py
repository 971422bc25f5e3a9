"""Remove a user's data from the SQLite file for good: rows, free pages and the write-ahead log."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from casenotes.stores.learned_rows import Values, optional_thread_key
from casenotes.stores.revisions import AFTER_RESOURCE, AFTER_THREAD, ERASED, ERASED_WITH_RESOURCE
from casenotes.stores.sqlite.learning import Run
from casenotes.stores.state_rows import renewed_states, stripped_states, texts_in_json, texts_of_thread
from casenotes.types import Scope

CHECKPOINT_TRIES = 100
CHECKPOINT_PAUSE_SECONDS = 0.05


class SqliteErasure:
    """See Erasure."""

    def __init__(
        self, sql: dict[str, str], read: Run, write: Run, between_writes: Run, files: Callable[[], list[Path]]
    ) -> None:
        self._sql = sql
        self._read = read
        self._write = write
        self._between_writes = between_writes
        self._files = files

    async def erase(self, scope: Scope) -> Mapping[str, int]:
        """See Erasure.erase."""
        values = optional_thread_key(scope)
        counts: dict[str, int] = await self._write(lambda connection: self._erase(connection, values))
        return counts

    def _erase(self, connection: sqlite3.Connection, values: Values) -> dict[str, int]:
        whole = values["thread"] is None
        erased = sorted(ERASED, key=lambda one: one[0] == "threads")  # others name their thread by its number
        counts = {
            table: connection.execute(self._sql[name], values).rowcount
            for table, name in (*erased, *(ERASED_WITH_RESOURCE if whole else ()))
        }
        if not whole:
            stripped = stripped_states(values, connection.execute(self._sql["scope_states"], values))
            connection.executemany(self._sql["replace_state"], stripped)
            connection.executemany(self._sql["renew_state"], renewed_states(values, stripped))
        for name in AFTER_RESOURCE if whole else AFTER_THREAD:
            connection.execute(self._sql[name], values)
        return counts

    async def traces(self, scope: Scope) -> list[bytes]:
        """See Erasure.traces."""
        values = optional_thread_key(scope)
        return await self._read(lambda connection: self._traces(connection, values))  # type: ignore[no-any-return]

    def _traces(self, connection: sqlite3.Connection, values: Values) -> list[bytes]:
        texts = [str(text) for (text,) in connection.execute(self._sql["stored_texts"], values) if text]
        texts += texts_in_json(connection.execute(self._sql["stored_json"], values))
        if values["thread"]:
            kept = connection.execute(self._sql["scope_states"], values)
            texts += texts_of_thread(values["thread"], kept)
        vectors = connection.execute(self._sql["stored_vectors"], values)
        return [*(text.encode() for text in texts if text), *(vector for (vector,) in vectors)]

    async def still_there(self, pieces: Sequence[bytes]) -> set[bytes]:
        """See Erasure.still_there."""
        sql = self._sql["is_live"]
        return await self._read(  # type: ignore[no-any-return]
            lambda connection: {p for p in pieces if connection.execute(sql, {"piece": p}).fetchone()[0]}
        )

    async def fingerprints(self, owner: bytes) -> bytes:
        """See Erasure.fingerprints."""
        sql = self._sql["fingerprints"]
        row = await self._read(lambda connection: connection.execute(sql, {"owner": owner}).fetchone())
        return bytes(row[0]) if row else b""

    async def add_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """See Erasure.add_fingerprints."""
        sql, values = self._sql["add_fingerprints"], {"owner": owner, "fingerprints": fingerprints}
        await self._write(lambda connection: connection.execute(sql, values))

    async def drop_fingerprints(self, owner: bytes, fingerprints: bytes) -> None:
        """See Erasure.drop_fingerprints."""
        sql, values = self._sql["drop_fingerprints"], {"owner": owner, "fingerprints": fingerprints}
        await self._write(lambda connection: connection.execute(sql, values))

    async def scrub(self) -> str:
        """See Erasure.scrub."""
        return await self._between_writes(_rewrite)  # type: ignore[no-any-return]

    async def files(self) -> list[Path]:
        """See Erasure.files."""
        return [file for file in self._files() if file.exists()]


def _rewrite(connection: sqlite3.Connection) -> str:
    """Write the file anew and empty the log; readers of other processes may hold it up for a while."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA busy_timeout = 0")  # each try would wait that long, and hold up writers
    for _ in range(CHECKPOINT_TRIES):
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return ""
        time.sleep(CHECKPOINT_PAUSE_SECONDS)
    return "another process keeps the write-ahead log open; close it and repeat the command"

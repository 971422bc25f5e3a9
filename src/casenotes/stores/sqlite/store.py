"""The Store over SQLite: binds values to the statements of queries.sql and rows back to values."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from casenotes.config import StorageSettings
from casenotes.errors import StoreDamaged, StoreError
from casenotes.stores.base import (
    Changes,
    Document,
    Finding,
    Freshness,
    ScopeSize,
    SpaceKey,
    SpaceRecord,
    StoreStats,
    TurnMark,
    Unembedded,
    VectorRow,
    active_space,
)
from casenotes.stores.learned_rows import entry_document
from casenotes.stores.rows import (
    AFTER_ALL_SEQS,
    cursor_values,
    document_from_row,
    message_from_row,
    named_queries,
    no_space,
    no_thread,
    scope_key,
    space_values,
    thread_from_row,
    thread_key,
    unembedded_entry,
    unembedded_message,
)
from casenotes.stores.sqlite.append import Appender, AppendRequest, time_from_micros
from casenotes.stores.sqlite.check import run_checks
from casenotes.stores.sqlite.connect import (
    PUT_BACK,
    OpenFile,
    check_ownership,
    connect,
    create_private_file,
    database_files,
    path_of,
    store_errors,
)
from casenotes.stores.sqlite.erasure import SqliteErasure
from casenotes.stores.sqlite.lanes import Lane, WriteLane
from casenotes.stores.sqlite.learning import SqliteEntries, SqliteJobs
from casenotes.stores.sqlite.migrate import PACKAGE, migrate
from casenotes.stores.sqlite.observations import SqliteObservations
from casenotes.stores.sqlite.revisions import SqliteRevisions
from casenotes.stores.sqlite.states import SqliteEpisodes, SqliteEvents, SqliteStates
from casenotes.types import Appended, Message, Scope, Thread

T = TypeVar("T")
READERS = 2


class SqliteStore:
    """One file, several readers, one writer that commits in groups."""

    supports_entries = True

    def __init__(self, url: str, settings: StorageSettings) -> None:
        self._settings = settings
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._given_path = path_of(url)
        self._path = self._given_path or Path()
        self._writer = WriteLane("write", self._check_file)
        self._file: OpenFile | None = None
        self._reader = Lane("read")
        self._process = os.getpid()
        self._has_started = threading.Event()
        self._has_started.set()
        self._closing: asyncio.Future[None] | None = None
        self._sql = named_queries(PACKAGE)
        self._perform_append = Appender(self._sql).append
        self.entries = SqliteEntries(self._sql, self._read, self._write)
        self.jobs = SqliteJobs(self._sql, self._read, self._write)
        self.revisions = SqliteRevisions(self._sql, self._read, self._write, self.entries)
        self.states = SqliteStates(self._sql, self._read, self._write)
        self.episodes = SqliteEpisodes(self._sql, self._read, self._write)
        self.events = SqliteEvents(self._sql, self._read, self._write)
        self.observations = SqliteObservations(self._sql, self._read, self._write)
        self.erasure = SqliteErasure(self._sql, self._read, self._write, self._between_writes, self._files)

    @property
    def location(self) -> str:
        """The URL without secrets; SQLite has none."""
        return f"sqlite:///{self._given_path or ':memory:'}"

    async def open(self) -> None:
        """Create or open the file, migrate it, start the lanes; a failed or cancelled open leaves nothing."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            self._closing = None
        self._process = os.getpid()
        self._has_started.clear()
        starting = asyncio.get_running_loop().run_in_executor(None, self._start)
        try:
            await asyncio.shield(starting)
        except BaseException:
            await self.close()
            raise

    def _start(self) -> None:
        try:
            if self._given_path is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="casenotes-")
                self._path = Path(self._temporary.name, "memory.db")
            self._path = self._path.absolute()  # the process may change its directory
            create_private_file(self._path)
            check_ownership(self._path)
            with store_errors(self._path):
                connection = self._connect(read_only=False)
                try:
                    migrate(connection, self._path)
                finally:
                    connection.close()
            limit = self._settings.max_queued_writes
            self._writer.start(1, lambda: self._connect(read_only=False), limit)
            self._reader.start(READERS, lambda: self._connect(read_only=True), limit)
            if self._temporary is None:  # what is thrown away in the end may be deleted before
                self._file = OpenFile(self._path)
        finally:
            self._has_started.set()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        return connect(self._path, self._settings, read_only=read_only)

    async def close(self) -> None:
        """Finish queued writes and close the file, also if the caller is cancelled; a second call waits."""
        if os.getpid() != self._process:  # threads and connections stayed with the process that opened it
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(None, self._stop)
        await asyncio.shield(self._closing)

    def _stop(self) -> None:
        """All of it in one thread, which nobody can cancel."""
        self._has_started.wait()
        self._reader.close()
        self._writer.close()
        if self._temporary:
            self._temporary.cleanup()
            self._temporary = None

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with store_errors(self._path):
            return await self._reader.run(work)

    async def _between_writes(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with a connection of its own, outside any transaction."""

        def run() -> T:
            self._check_file()
            connection = self._connect(read_only=False)
            try:
                return work(connection)
            finally:
                connection.close()

        with store_errors(self._path):
            return await asyncio.to_thread(run)

    def _files(self) -> list[Path]:
        return database_files(self._path)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with store_errors(self._path):
            return await self._writer.run(work)

    async def append(self, scope: Scope, messages: Sequence[Message], turn: TurnMark | None = None) -> Appended:
        """See Store.append."""
        if scope.thread_id is None:
            raise no_thread(scope)
        key = (scope.agent_id, scope.resource_id or "", scope.thread_id)
        request = AppendRequest(key, messages, turn)
        with store_errors(self._path):
            result: Appended = await self._writer.submit(self._perform_append, request)
        return result

    async def history(
        self, scope: Scope, *, limit: int, before: int | None = None, after: int | None = None
    ) -> list[Message]:
        """See Store.history."""
        values = thread_key(scope) | {
            "limit": limit,
            "before": AFTER_ALL_SEQS if before is None else before,
            "after": after,
        }
        sql = self._sql["history_before" if after is None else "history_after"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return [_message(row) for row in rows]

    async def recent(self, scope: Scope, limit: int) -> list[Message]:
        """See Store.recent."""
        values, sql = thread_key(scope) | {"limit": limit}, self._sql["recent"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return [_message(row) for row in rows]

    async def messages(self, scope: Scope, ids: Sequence[str]) -> dict[str, Message]:
        """See Store.messages."""
        values = scope_key(scope) | {"ids": json.dumps(list(ids))}
        sql = self._sql["messages_by_id"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return {row[0]: _message(row) for row in rows}

    async def passages(self, scope: Scope, ids: Sequence[str], before: int, after: int) -> list[Message]:
        """See Store.passages."""
        values = scope_key(scope) | {"ids": json.dumps(list(ids)), "before": before, "after": after}
        sql = self._sql["passages"]
        rows = await self._read(lambda connection: connection.execute(sql, values).fetchall())
        return [_message(row) for row in rows]

    async def threads(self, scope: Scope) -> list[Thread]:
        """See Store.threads."""
        sql, key = self._sql["threads"], scope_key(scope)
        rows = await self._read(lambda connection: connection.execute(sql, key).fetchall())
        return [thread_from_row(row, time_from_micros) for row in rows]

    async def title(self, scope: Scope) -> str | None:
        """See Store.title."""
        sql, key = self._sql["title"], thread_key(scope)
        row = await self._read(lambda connection: connection.execute(sql, key).fetchone())
        return row[0] if row else None

    async def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """See Store.update_thread."""
        encoded = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
        values = thread_key(scope) | {"title": title, "metadata": encoded}
        sql = self._sql["update_thread"]
        return bool(await self._write(lambda connection: connection.execute(sql, values).rowcount))

    async def name_thread(self, scope: Scope, turn_id: str, title: str) -> bool:
        """See Store.name_thread."""
        sql, values = self._sql["name_thread"], thread_key(scope) | {"turn": turn_id, "title": title}
        return bool(await self._write(lambda connection: connection.execute(sql, values).rowcount))

    async def freshness(self, scope: Scope) -> Freshness:
        """See Store.freshness."""
        key = scope_key(scope)
        return await self._read(lambda connection: self._freshness(connection, key))

    def _freshness(self, connection: sqlite3.Connection, key: dict[str, str]) -> Freshness:
        row = connection.execute(self._sql["freshness"], key).fetchone()
        return Freshness(*row) if row else Freshness(0, 0)

    async def changes(self, scope: Scope, space_id: int, after: int) -> Changes:
        """See Store.changes."""
        values = scope_key(scope) | {"space": space_id, "after": after}
        return await self._read(lambda connection: self._changes(connection, values))

    def _changes(self, connection: sqlite3.Connection, values: dict[str, Any]) -> Changes:
        freshness = self._freshness(connection, values)
        if freshness.change == values["after"]:
            return Changes(freshness, [], [])
        connection.execute("BEGIN")
        try:
            return Changes(
                self._freshness(connection, values),
                [
                    *[_document(row) for _, *row in sorted(self._changed_messages(connection, values))],
                    *map(_entry_document, connection.execute(self._sql["changed_entries"], values)),
                ],
                [VectorRow(*row) for row in connection.execute(self._sql["changed_vectors"], values)],
            )
        finally:
            connection.execute("ROLLBACK")

    def _changed_messages(self, connection: sqlite3.Connection, values: dict[str, Any]) -> Iterator[list[Any]]:
        """Rows of new messages, each behind its number, which tells their order."""
        if values["after"] == 0:
            yield from map(list, connection.execute(self._sql["all_messages"], values))
            return
        for (thread,) in connection.execute(self._sql["changed_threads"], values).fetchall():
            rows = connection.execute(self._sql["newest_first"], {**values, "thread": thread})
            for change, *row in rows:
                if change <= values["after"]:
                    break
                yield row

    async def spaces(self) -> list[SpaceRecord]:
        """See Store.spaces."""
        return await self._read(self._spaces)

    def _spaces(self, connection: sqlite3.Connection) -> list[SpaceRecord]:
        rows = connection.execute(self._sql["spaces"]).fetchall()
        return [
            SpaceRecord(space_id, model, dimensions, bool(normalised), bool(active), bool(speakers))
            for space_id, model, dimensions, normalised, active, speakers in rows
        ]

    async def claim_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """See Store.claim_space."""
        return await self._write(
            lambda connection: self._claim_space(connection, (model, dimensions, normalised))
        )

    def _claim_space(self, connection: sqlite3.Connection, space: SpaceKey) -> SpaceRecord:
        return active_space(self._spaces(connection)) or self._insert_space(connection, space, active=True)

    async def add_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """See Store.add_space."""
        return await self._write(
            lambda connection: self._add_space(connection, (model, dimensions, normalised))
        )

    def _add_space(self, connection: sqlite3.Connection, space: SpaceKey) -> SpaceRecord:
        known = {record.key: record for record in self._spaces(connection) if record.speakers}
        return known.get(space) or self._insert_space(connection, space, active=False)

    def _insert_space(self, connection: sqlite3.Connection, space: SpaceKey, *, active: bool) -> SpaceRecord:
        values = space_values(space) | {"active": active}
        space_id = connection.execute(self._sql["insert_space"], values).fetchone()[0]
        return next(record for record in self._spaces(connection) if record.id == space_id)

    async def activate_space(self, space_id: int) -> None:
        """See Store.activate_space."""
        await self._write(lambda connection: self._activate_space(connection, space_id))

    def _activate_space(self, connection: sqlite3.Connection, space_id: int) -> None:
        connection.execute(self._sql["deactivate_spaces"])
        if not connection.execute(self._sql["activate_space"], {"space": space_id}).rowcount:
            raise no_space(space_id)
        connection.execute(self._sql["renew_scopes"])

    async def drop_vectors(self, scope: Scope, space_id: int, limit: int) -> int:
        """See Store.drop_vectors."""
        values = scope_key(scope) | {"space": space_id, "limit": limit}
        sql = self._sql["drop_vectors"]
        return await self._write(lambda connection: connection.execute(sql, values).rowcount)

    async def drop_space(self, space_id: int) -> None:
        """See Store.drop_space."""
        await self._write(lambda connection: self._drop_space(connection, {"space": space_id}))

    def _drop_space(self, connection: sqlite3.Connection, values: dict[str, int]) -> None:
        connection.execute(self._sql["drop_vectors_of_space"], values)
        connection.execute(self._sql["drop_space"], values)

    async def put_vectors(self, scope: Scope, space_id: int, rows: Sequence[VectorRow]) -> int:
        """See Store.put_vectors."""
        if not rows:
            return 0
        key = scope_key(scope)
        return await self._write(lambda connection: self._put_vectors(connection, key, space_id, rows))

    def _put_vectors(
        self, connection: sqlite3.Connection, key: dict[str, str], space_id: int, rows: Sequence[VectorRow]
    ) -> int:
        touched = connection.execute(self._sql["touch_scope"], key).fetchone()
        if not touched:
            return 0
        common = key | {"space": space_id, "change": touched[0]}
        return sum(
            connection.executemany(
                self._sql[f"put_{kind}_vector"],
                [common | {"id": row.id, "vector": row.vector} for row in rows if row.kind == kind],
            ).rowcount
            for kind in {row.kind for row in rows}
        )

    async def unembedded(
        self, scope: Scope, space_id: int, limit: int, after: Unembedded | None = None
    ) -> list[Unembedded]:
        """See Store.unembedded."""
        values = scope_key(scope) | {"space": space_id, "limit": limit} | cursor_values(after)
        return await self._read(lambda connection: self._unembedded(connection, values))

    def _unembedded(self, connection: sqlite3.Connection, values: dict[str, Any]) -> list[Unembedded]:
        messages = [] if values["after_entry"] else connection.execute(self._sql["unembedded"], values)
        found = [unembedded_message(row) for row in messages]
        left = values | {"limit": values["limit"] - len(found)}
        return found + [
            unembedded_entry(row) for row in connection.execute(self._sql["unembedded_entries"], left)
        ]

    async def scopes(self) -> list[ScopeSize]:
        """See Store.scopes."""
        sql = self._sql["scopes"]
        rows = await self._read(lambda connection: connection.execute(sql).fetchall())
        return [ScopeSize(agent, resource or None, *sizes) for agent, resource, *sizes in rows]

    async def stats(self) -> StoreStats:
        """See Store.stats."""
        sql = self._sql["stats"]
        counts: tuple[int, int, int, int, int, int, int, int] = await self._read(
            lambda connection: connection.execute(sql).fetchone()
        )
        return StoreStats(*counts, sum(map(_size, self._files())))

    async def table_sizes(self) -> dict[str, int]:
        """See Store.table_sizes; every page is read for it."""
        sql = self._sql["table_sizes"]
        try:
            return dict(await self._read(lambda connection: connection.execute(sql).fetchall()))
        except StoreError as error:
            if "no such table: dbstat" in str(error):  # an SQLite that was built without it
                return {}
            raise

    async def check(self) -> list[Finding]:
        """See Store.check."""
        if self._file is not None and (problem := self._file.problem()):
            return [Finding("file", "failed", f"{problem}: writes are refused", PUT_BACK)]
        try:
            return await self._read(lambda connection: run_checks(connection, self._path, self._sql))
        except StoreDamaged as error:
            return [Finding("integrity", "failed", str(error))]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _message(row: Sequence[Any]) -> Message:
    return message_from_row(row, time_from_micros)


def _document(row: Sequence[Any]) -> Document:
    return document_from_row(row, _seconds)


def _entry_document(row: Sequence[Any]) -> Document:
    return entry_document(row, _seconds)


def _seconds(micros: int) -> float:
    return micros / 1e6

"""The Store over PostgreSQL: binds values to the statements of queries.sql and rows back to values.

Reads are sent in one round trip: the scope for row-level security and the statement share a
pipeline. Writes first take the scope's row, so that change numbers become visible in order.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from casenotes.config import StorageSettings
from casenotes.errors import StoreError, StoreUnavailable
from casenotes.stores.base import (
    Changes,
    Document,
    Finding,
    Freshness,
    ScopeSize,
    Shown,
    SpaceKey,
    SpaceRecord,
    StoreStats,
    TurnMark,
    Unembedded,
    VectorRow,
    active_space,
)
from casenotes.stores.learned_rows import entry_document, extend_shown
from casenotes.stores.observation_rows import message_tokens, watch_values
from casenotes.stores.postgres.check import findings
from casenotes.stores.postgres.connect import (
    PACKAGE,
    Connection,
    NothingWritten,
    Pool,
    StorePool,
    checkout,
    is_lost,
    location_of,
    passwords_in,
    prepare_database,
    repeat_if_lost,
    store_errors,
    transaction_limits,
)
from casenotes.stores.postgres.erasure import PostgresErasure
from casenotes.stores.postgres.learning import PostgresEntries, PostgresJobs
from casenotes.stores.postgres.observations import PostgresObservations
from casenotes.stores.postgres.revisions import PostgresRevisions
from casenotes.stores.postgres.share import ScopeQueues
from casenotes.stores.postgres.states import PostgresEpisodes, PostgresEvents, PostgresStates
from casenotes.stores.postgres.values import ROWS_AT_ONCE, Row, read_rows, same_time, vector_row, wire_vector
from casenotes.stores.rows import (
    AFTER_ALL_SEQS,
    check_repetition,
    cursor_values,
    document_from_row,
    encode_metadata,
    encode_parts,
    message_from_row,
    named_queries,
    no_space,
    scope_key,
    space_values,
    thread_from_row,
    thread_key,
    unembedded_entry,
    unembedded_message,
)
from casenotes.tasks import start_closing
from casenotes.types import Appended, Message, Scope, Thread

T = TypeVar("T")


class PostgresStore:
    """A schema `casenotes` in one database, shared by any number of processes."""

    supports_entries = True

    def __init__(self, url: str, settings: StorageSettings) -> None:
        self._url = url
        self._location = location_of(url)
        self._passwords = passwords_in(url)
        self._settings = settings
        self._sql = {name: sql.encode() for name, sql in named_queries(PACKAGE).items()}
        self._limits = transaction_limits(settings)
        self._queues = ScopeQueues(settings)
        self._process = os.getpid()
        self._pool: StorePool | None = None
        self._closing: asyncio.Task[None] | None = None
        self.entries = PostgresEntries(self)
        self.jobs = PostgresJobs(self)
        self.revisions = PostgresRevisions(self, self.entries)
        self.states = PostgresStates(self)
        self.episodes = PostgresEpisodes(self)
        self.events = PostgresEvents(self)
        self.observations = PostgresObservations(self)
        self.erasure = PostgresErasure(self)

    @property
    def location(self) -> str:
        """The URL without its password."""
        return self._location

    async def open(self) -> None:
        """Migrate the database and open the pool."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
        async with store_errors(self.location, self._passwords):
            await prepare_database(self._url, self._settings)
            pool = StorePool(self._url, self._settings)
            await pool.open()
            self._pool = pool
        self._process, self._closing = os.getpid(), None

    async def close(self) -> None:
        """Close the pool, also if the caller is cancelled meanwhile; a second call waits for the first.

        Connections belong to the process that opened them: another one that closes them ends its sessions.
        """
        if self._pool is None or os.getpid() != self._process:
            return
        if self._closing is None:
            self._closing = start_closing(self._pool.close())
        await asyncio.shield(self._closing)

    def _opened_pool(self) -> Pool:
        if os.getpid() != self._process:
            raise StoreUnavailable(
                f"process {os.getpid()} was forked from process {self._process}, which opened this store; "
                "open it in the child process"
            )
        if self._pool is None or self._closing is not None:
            raise StoreUnavailable("the store is closed; open it again")
        return self._pool.pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection outside any transaction."""
        pool = self._opened_pool()
        async with store_errors(self.location, self._passwords), checkout(pool) as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self, scope: Scope) -> AsyncIterator[Connection]:
        """A transaction in which row-level security shows that scope.

        If the connection turns out to be lost at the first statement another one is taken; if it is lost later
        and before COMMIT the error is NothingWritten.
        """
        async with self._queues.place(scope), self._begin("enter_scope", scope_key(scope)) as connection:
            yield connection

    @asynccontextmanager
    async def transaction_of_all_scopes(self) -> AsyncIterator[Connection]:
        """A transaction over the whole store."""
        async with self._begin("limit_transaction", {}) as connection:
            yield connection

    @asynccontextmanager
    async def _begin(self, name: str, values: Mapping[str, Any]) -> AsyncIterator[Connection]:
        """A transaction that has run a first statement, on another connection if the first was lost."""
        pool, tries, is_begun, is_written = self._opened_pool(), 0, False, False
        async with store_errors(self.location, self._passwords):
            while True:
                tries += 1
                async with checkout(pool) as connection:
                    try:
                        async with connection.transaction():
                            await connection.execute(self._sql[name], {**values, **self._limits})
                            is_begun = True
                            yield connection
                            is_written = True
                        return
                    except psycopg.errors.LockNotAvailable:
                        raise self._locked() from None
                    except psycopg.OperationalError as error:
                        if is_written or not is_lost(connection, error):
                            raise
                        await connection.close()
                        if is_begun:
                            raise NothingWritten(
                                f"the connection to {self.location} was lost before anything was saved "
                                f"({type(error).__name__}); repeat the call"
                            ) from error
                        if tries == 2:
                            raise

    async def _read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Call a function that only reads with a connection, and again if the first one was lost."""
        pool, tries = self._opened_pool(), 0
        async with store_errors(self.location, self._passwords):
            while True:
                tries += 1
                async with checkout(pool) as connection:
                    try:
                        return await work(connection)
                    except psycopg.errors.LockNotAvailable:
                        raise self._locked() from None
                    except psycopg.OperationalError as error:
                        if tries == 2 or not is_lost(connection, error):
                            raise
                        await connection.close()

    def _locked(self) -> StoreUnavailable:
        seconds = self._settings.lock_timeout_seconds
        return StoreUnavailable(
            f"rows in {self.location} were locked by another transaction for more than {seconds:g} s (setting "
            "lock_timeout_seconds), so nothing was saved; find that transaction in pg_stat_activity, end it "
            "with pg_terminate_backend(pid) and repeat the call"
        )

    async def fetch(self, scope: Scope, name: str, values: Mapping[str, Any]) -> list[Row]:
        """The rows of a named statement, read within a scope."""
        return (await self._fetch("enter_scope", scope_key(scope), [name], values))[0]

    async def fetch_all_scopes(self, name: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a named statement that reads the whole store."""
        return (await self._fetch("limit_transaction", {}, [name], values))[0]

    async def _fetch(
        self, first: str, key: Mapping[str, str], names: Sequence[str], values: Mapping[str, Any] | None
    ) -> list[list[Row]]:
        """The rows of several statements after a first one, all sent together."""

        async def work(connection: Connection) -> list[list[Row]]:
            async with connection.pipeline():
                await connection.execute(self._sql[first], {**key, **self._limits})
                cursors = [await connection.execute(self._sql[name], values, binary=True) for name in names]
                return [await read_rows(cursor) for cursor in cursors]

        return await self._read(work)

    async def change_all_scopes(self, name: str) -> int:
        """Run a named statement that writes to the whole store; says how many rows it changed."""
        async with self.transaction_of_all_scopes() as connection:
            return (await connection.execute(self._sql[name])).rowcount

    def statement(self, name: str) -> bytes:
        """A named statement."""
        return self._sql[name]

    @repeat_if_lost
    async def append(self, scope: Scope, messages: Sequence[Message], turn: TurnMark | None = None) -> Appended:
        """See Store.append."""
        key = thread_key(scope)
        given = [replace(message, thread_id=key["thread"]) for message in messages]
        async with self.transaction(scope) as connection:
            (change,) = await self._row(connection, "next_change", key)
            seq, apart = await self._row(connection, "thread_state", key) or (0, False)
            known = await self._known(connection, key, given)
            saved, added = _in_sequence(given, known, seq)
            if added:
                await self._insert(connection, key, added, change, turn, apart)
            if turn and turn.turn_id and known:
                claimed = [{**key, "id": message_id, "turn": turn.turn_id} for message_id in known]
                await connection.cursor().executemany(self._sql["claim_message"], claimed)
            if turn:
                await self._mark_turn(connection, key, turn, min((m.seq or 0 for m in saved), default=0))
        new_ids = {str(message.id) for message in added}
        return Appended(given, key["thread"], [m.seq or 0 for m in saved], new_ids, known)

    async def _value(self, connection: Connection, name: str, values: Mapping[str, Any]) -> Any:
        row = await self._row(connection, name, values)
        return row[0] if row else None

    async def _row(self, connection: Connection, name: str, values: Mapping[str, Any]) -> Any:
        return await (await connection.execute(self._sql[name], values)).fetchone()

    async def _known(
        self, connection: Connection, key: Mapping[str, str], given: Sequence[Message]
    ) -> dict[str, Message]:
        values = {**key, "ids": [message.id for message in given]}
        cursor = await connection.execute(self._sql["messages_by_id"], values)
        return {row[0]: _message(row) for row in await cursor.fetchall()}

    async def _insert(
        self,
        connection: Connection,
        key: Mapping[str, str],
        added: Sequence[Message],
        change: int,
        turn: TurnMark | None,
        apart: bool,
    ) -> None:
        common = {
            "change": change,
            "turn": turn.turn_id if turn else None,
            "hidden": apart or (turn is not None and turn.hidden),
        }
        rows = [{**_message_values(m, key), "seq": m.seq, **common} for m in added]
        times = [row["created_at"] for row in rows]
        tokens = sum(row["tokens"] for row in rows)
        moved = {"last_seq": added[-1].seq, "first_at": min(times), "last_at": max(times), "tokens": tokens}
        await connection.cursor().executemany(self._sql["insert_message"], rows)
        await connection.execute(self._sql["advance_thread"], {**key, **moved})

    async def _mark_turn(
        self, connection: Connection, key: Mapping[str, str], turn: TurnMark, first_seq: int
    ) -> None:
        values = {**key, "turn": turn.turn_id, "status": turn.status, "at": turn.at, "pending": turn.pending}
        if turn.parent:
            about = {**values, "parent": turn.parent, "hidden": turn.hidden}
            await connection.execute(self._sql["note_parent"], about)
            await connection.execute(self._sql["ensure_parent"], about)
        if turn.status == "open":
            await connection.execute(self._sql["abandon_open_turns"], values)
            await connection.execute(self._sql["open_turn"], {**values, "first_seq": first_seq})
        elif turn.status:
            await connection.execute(self._sql["close_turn"], values)
        if turn.shown:
            await self._note_shown(connection, values, turn.shown)
        if turn.watch:
            watched = {**values, **watch_values(turn.watch, same_time)}
            await connection.execute(self._sql["watch_thread"], watched)

    async def _note_shown(
        self, connection: Connection, values: Mapping[str, Any], items: Sequence[Shown]
    ) -> None:
        record = await (await connection.execute(self._sql["shown_record"], values)).fetchone()
        ids = [item.id for item in items if item.kind == "message"]
        known = await connection.execute(self._sql["message_references"], {**values, "ids": ids})
        shown = extend_shown((record and record[0]) or {}, items, dict(await known.fetchall()))
        await connection.execute(self._sql["put_shown"], {**values, "shown": shown})

    async def history(
        self, scope: Scope, *, limit: int, before: int | None = None, after: int | None = None
    ) -> list[Message]:
        """See Store.history."""
        values = {
            **thread_key(scope),
            "limit": limit,
            "before": AFTER_ALL_SEQS if before is None else before,
            "after": after,
        }
        name = "history_before" if after is None else "history_after"
        return [_message(row) for row in await self.fetch(scope, name, values)]

    async def recent(self, scope: Scope, limit: int) -> list[Message]:
        """See Store.recent."""
        rows = await self.fetch(scope, "recent", {**thread_key(scope), "limit": limit})
        return [_message(row) for row in rows]

    async def messages(self, scope: Scope, ids: Sequence[str]) -> dict[str, Message]:
        """See Store.messages."""
        values = {**scope_key(scope), "ids": list(ids)}
        return {row[0]: _message(row) for row in await self.fetch(scope, "messages_by_id", values)}

    async def passages(self, scope: Scope, ids: Sequence[str], before: int, after: int) -> list[Message]:
        """See Store.passages."""
        values = {**scope_key(scope), "ids": list(ids), "before": before, "after": after}
        return [_message(row) for row in await self.fetch(scope, "passages", values)]

    async def threads(self, scope: Scope) -> list[Thread]:
        """See Store.threads."""
        rows = await self.fetch(scope, "threads", scope_key(scope))
        return [thread_from_row(row, same_time) for row in rows]

    async def title(self, scope: Scope) -> str | None:
        """See Store.title."""
        rows = await self.fetch(scope, "title", thread_key(scope))
        return rows[0][0] if rows else None

    @repeat_if_lost
    async def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """See Store.update_thread."""
        encoded = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
        values = {**thread_key(scope), "title": title, "metadata": encoded}
        async with self.transaction(scope) as connection:
            return bool((await connection.execute(self._sql["update_thread"], values)).rowcount)

    async def name_thread(self, scope: Scope, turn_id: str, title: str) -> bool:
        """See Store.name_thread."""
        values = {**thread_key(scope), "turn": turn_id, "title": title}
        async with self.transaction(scope) as connection:
            return bool((await connection.execute(self._sql["name_thread"], values)).rowcount)

    async def freshness(self, scope: Scope) -> Freshness:
        """See Store.freshness."""
        return _freshness(await self.fetch(scope, "freshness", scope_key(scope)))

    async def changes(self, scope: Scope, space_id: int, after: int) -> Changes:
        """See Store.changes."""
        values = {**scope_key(scope), "space": space_id, "after": after}
        names = ("freshness", "changed_messages", "changed_entries", "changed_vectors")
        rows = await self._fetch("enter_scope", scope_key(scope), names, values)
        freshness, messages, entries, vectors = rows

        def as_changes() -> Changes:
            documents = [*map(_document, messages), *map(_entry_document, entries)]
            return Changes(_freshness(freshness), documents, [vector_row(row) for row in vectors])

        is_large = len(messages) + len(vectors) > ROWS_AT_ONCE
        return await asyncio.to_thread(as_changes) if is_large else as_changes()

    async def spaces(self) -> list[SpaceRecord]:
        """See Store.spaces."""
        return await self._read(self._spaces)

    async def _spaces(self, connection: Connection) -> list[SpaceRecord]:
        rows = await (await connection.execute(self._sql["spaces"])).fetchall()
        return [SpaceRecord(*row) for row in rows]

    async def claim_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """See Store.claim_space."""
        if active := active_space(await self.spaces()):
            return active
        space = (model, dimensions, normalised)
        async with self._spaces_locked() as (connection, known):
            return active_space(known) or await self._insert_space(connection, space, active=True)

    async def add_space(self, model: str, dimensions: int, normalised: bool) -> SpaceRecord:
        """See Store.add_space."""
        space = (model, dimensions, normalised)
        async with self._spaces_locked() as (connection, known):
            if await self._value(connection, "sees_one_scope", {}):
                raise StoreError(
                    "row-level security shows this role one scope at a time; change the embedder as the owner "
                    "of the tables"
                )
            same = [record for record in known if record.key == space and record.speakers]
            return same[0] if same else await self._insert_space(connection, space, active=False)

    @asynccontextmanager
    async def _spaces_locked(self) -> AsyncIterator[tuple[Connection, list[SpaceRecord]]]:
        """A transaction in which nobody else adds or switches spaces, and the spaces there are."""
        async with self.transaction_of_all_scopes() as connection:
            await connection.execute(self._sql["lock_spaces"])
            yield connection, await self._spaces(connection)

    async def _insert_space(self, connection: Connection, space: SpaceKey, *, active: bool) -> SpaceRecord:
        await connection.execute(self._sql["insert_space"], space_values(space) | {"active": active})
        known = await self._spaces(connection)
        return next(record for record in known if record.key == space and record.speakers)

    async def activate_space(self, space_id: int) -> None:
        """See Store.activate_space."""
        async with self._spaces_locked() as (connection, _known):
            await connection.execute(self._sql["deactivate_spaces"])
            switched = await connection.execute(self._sql["activate_space"], {"space": space_id})
            if not switched.rowcount:
                raise no_space(space_id)
            await connection.execute(self._sql["renew_scopes"])

    async def drop_vectors(self, scope: Scope, space_id: int, limit: int) -> int:
        """See Store.drop_vectors."""
        values = {**scope_key(scope), "space": space_id, "limit": limit}
        async with self.transaction(scope) as connection:
            return (await connection.execute(self._sql["drop_vectors"], values)).rowcount

    async def drop_space(self, space_id: int) -> None:
        """See Store.drop_space."""
        async with self._spaces_locked() as (connection, _known):
            await connection.execute(self._sql["hold_space"], {"space": space_id})
            await connection.execute(self._sql["drop_vectors_of_space"], {"space": space_id})
            await connection.execute(self._sql["drop_space"], {"space": space_id})

    async def put_vectors(self, scope: Scope, space_id: int, rows: Sequence[VectorRow]) -> int:
        """See Store.put_vectors."""
        if not rows:
            return 0
        key = scope_key(scope)
        async with self.transaction(scope) as connection:
            change = await self._value(connection, "touch_scope", key)
            if change is None:
                return 0
            common = {**key, "space": space_id, "change": change}
            return sum(
                [await self._put_vectors(connection, common, rows, kind) for kind in ("message", "entry")]
            )

    async def _put_vectors(
        self, connection: Connection, common: Mapping[str, Any], rows: Sequence[VectorRow], kind: str
    ) -> int:
        values = [
            {**common, "id": row.id, "vector": wire_vector(row.vector)} for row in rows if row.kind == kind
        ]
        if not values:
            return 0
        cursor = connection.cursor()
        await cursor.executemany(self._sql[f"put_{kind}_vector"], values)
        return cursor.rowcount

    async def unembedded(
        self, scope: Scope, space_id: int, limit: int, after: Unembedded | None = None
    ) -> list[Unembedded]:
        """See Store.unembedded."""
        values = {**scope_key(scope), "space": space_id, "limit": limit, **cursor_values(after)}
        messages = [] if values["after_entry"] else await self.fetch(scope, "unembedded", values)
        left = {**values, "limit": limit - len(messages)}
        entries = await self.fetch(scope, "unembedded_entries", left) if left["limit"] else []
        return [*map(unembedded_message, messages), *map(unembedded_entry, entries)]

    async def scopes(self) -> list[ScopeSize]:
        """See Store.scopes."""
        rows = await self.fetch_all_scopes("scopes")
        return [ScopeSize(agent, resource or None, *sizes) for agent, resource, *sizes in rows]

    async def stats(self) -> StoreStats:
        """See Store.stats."""
        return StoreStats(*(await self.fetch_all_scopes("stats"))[0])

    async def table_sizes(self) -> dict[str, int]:
        """See Store.table_sizes."""
        return dict(await self.fetch_all_scopes("table_sizes"))

    async def check(self) -> list[Finding]:
        """See Store.check."""
        facts = (await self.fetch_all_scopes("server_facts"))[0]
        broken = {
            what: (await self.fetch_all_scopes(f"broken_{what}"))[0][0]
            for what in ("threads", "vectors", "entries")
        }
        return findings(facts, broken)


def _in_sequence(
    given: Sequence[Message], known: Mapping[str, Message], last_seq: int
) -> tuple[list[Message], list[Message]]:
    """All messages as they will stand in the log, and those that are new, numbered from last_seq."""
    seen = dict(known)
    saved: list[Message] = []
    added: list[Message] = []
    for message in given:
        stored = seen.get(str(message.id))
        if stored is None:
            stored = replace(message, seq=last_seq + len(added) + 1)
            seen[str(message.id)] = stored
            added.append(stored)
        else:
            check_repetition(stored, message)
        saved.append(stored)
    return saved, added


def _message_values(message: Message, key: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a new message; sequence and change number are added where they are given out."""
    return {
        **key,
        "id": message.id,
        "role": message.role,
        "text": message.text,
        "parts": encode_parts(message.parts),
        "metadata": encode_metadata(message.metadata),
        "created_at": message.created_at,
        "tokens": message_tokens(message),
    }


def _message(row: Row) -> Message:
    return message_from_row(row, same_time)


def _document(row: Row) -> Document:
    return document_from_row(row, datetime.timestamp)


def _entry_document(row: Row) -> Document:
    return entry_document(row, datetime.timestamp)


def _freshness(rows: Sequence[Row]) -> Freshness:
    return Freshness(*rows[0]) if rows else Freshness(0, 0)

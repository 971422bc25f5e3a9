"""Reach the PostgreSQL server: connection, pool, migrations, and clear errors."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from casenotes.config import StorageSettings
from casenotes.config.settings import PASSWORDS, POSTGRES, without_password
from casenotes.errors import (
    Overloaded,
    SettingsError,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from casenotes.masking import mask
from casenotes.stores.rows import migrations
from casenotes.tasks import times_cancelled

PACKAGE = "casenotes.stores.postgres"
MIGRATION_LOCK = 0x43617365
EXAMPLE = (
    "postgresql://user:password@host:5432/database, with @ : / ? # % in a name or password as "
    "%40 %3A %2F %3F %23 %25"
)
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Pool = AsyncConnectionPool[Connection]


def location_of(url: str) -> str:
    """The URL as it may be shown; one that the driver could misread is refused.

    The driver quotes what it misreads, and that may be a piece of the password.
    """
    if problem := _problem_of(url):
        raise SettingsError(f"the PostgreSQL URL is not understood: {problem}; write {EXAMPLE}")
    return without_password(url, with_user=True)


def _problem_of(url: str) -> str | None:
    if not url.startswith(POSTGRES):
        return "it does not begin with postgresql://"
    authority, _, path = url.partition("://")[2].partition("/")
    login = authority.rpartition("@")[0]
    if "@" in login or re.search(r"\?\w+=", login) or "@" in path.partition("?")[0]:
        return "it has an '@' in the wrong place"
    try:
        values = conninfo_to_dict(url)
    except (psycopg.Error, ValueError):
        return "a '%' or a parameter in it cannot be read"
    if not all(port.isdecimal() for port in str(values.get("port") or 0).split(",") if port):
        return "its port is no number"
    named = [host for host in str(values.get("host") or "").split(",") if not host.startswith(("/", "@"))]
    if not all(re.fullmatch(r"[\w.-]*|[0-9A-Fa-f:.]+(%\w+)?", host) for host in named):
        return "its host is no name and no address"
    return None


def passwords_in(url: str) -> list[str]:
    """The secrets of a URL that was found well formed, longest first."""
    values = conninfo_to_dict(url)
    return sorted({str(values[name]) for name in PASSWORDS if values.get(name)}, key=len, reverse=True)


@asynccontextmanager
async def store_errors(location: str, passwords: Sequence[str]) -> AsyncIterator[None]:
    """Turn the driver's errors into ours, at this one seam; no text of theirs leaves it unmasked."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, TooManyRequests) as error:
        link: BaseException | None = error
        while link is not None:  # tracebacks print what led to an error, too
            link.args = tuple(_masked(part, passwords) for part in link.args)
            link = link.__cause__ or link.__context__
        raise _translated(error, location) from error


def _masked(part: object, passwords: Sequence[str]) -> object:
    if not isinstance(part, str):
        return part
    for password in passwords:
        part = part.replace(password, "[secret:password]")
    return mask(part)


def _translated(error: Exception, location: str) -> StoreError:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, TooManyRequests):
        return Overloaded(f"too many operations wait for {location} ({text}); slow down and retry")
    if isinstance(error, psycopg.errors.DiskFull):
        return StoreUnavailable(f"no room left in {location}: {text}; free some disk space")
    state = getattr(error, "sqlstate", None) or "08000"
    if isinstance(error, PoolTimeout | psycopg.OperationalError) and state.startswith(
        ("08", "28", "3D", "57P")
    ):
        return StoreUnavailable(f"cannot reach {location}: {text}; check that the server runs, and the URL")
    return StoreError(f"PostgreSQL failed on {location}: {text}")


async def prepare_database(url: str, settings: StorageSettings) -> None:
    """Migrate on a connection of its own; a bad URL or server fails here, at once and clearly."""
    connection = await psycopg.AsyncConnection.connect(url, **connect_options(settings))
    try:
        await _migrate(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def lent(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool, unless the caller was cancelled while it waited for one.

    Before Python 3.12 `asyncio.wait_for`, with which the pool waits, loses a cancellation that comes in the
    moment of the hand-over. A loop that was told to stop then would go on for ever.
    """
    before = times_cancelled()
    async with pool.connection() as connection:
        if times_cancelled() > before:
            raise asyncio.CancelledError
        yield connection


async def open_pool(url: str, settings: StorageSettings) -> Pool:
    """A pool whose connections know the vector type; one that cannot be opened leaves nothing behind."""
    pool: Pool = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=settings.postgres_pool_size,
        max_waiting=settings.max_queued_writes,
        timeout=settings.busy_timeout_seconds,
        kwargs=connect_options(settings),
        configure=register_vector_async,
        open=False,
        name="casenotes",
    )
    try:
        await pool.open(wait=True, timeout=settings.connect_timeout_seconds)
    except BaseException:
        await pool.close()
        raise
    return pool


def connect_options(settings: StorageSettings) -> dict[str, Any]:
    """Autocommit, so that transactions are explicit; times come back in UTC.

    A process that is stopped within a transaction loses its connection, and with it the rows it held.
    """
    longest_pause = math.ceil(1_000 * settings.idle_transaction_seconds)  # 0: for ever
    return {
        "autocommit": True,
        "connect_timeout": max(1, round(settings.connect_timeout_seconds)),
        "options": f"-c timezone=UTC -c idle_in_transaction_session_timeout={longest_pause}",
        "application_name": "casenotes",
    }


async def _migrate(connection: Connection) -> None:
    known = list(migrations(PACKAGE))
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        version = await _version(connection)
        if version > known[-1][0]:
            raise StoreTooNew(
                f"the database has schema {version}, this release knows up to {known[-1][0]}; upgrade casenotes"
            )
        if version < known[-1][0]:
            await _create_extension(connection)
        for number, name, script in known:
            if number > version:
                await connection.execute(script.encode())
                await connection.execute(
                    "INSERT INTO casenotes.migrations (number, name) VALUES (%s, %s)",
                    (number, name),
                )


async def _version(connection: Connection) -> int:
    """The newest recorded migration; 0 in a new database, which gets its schema here."""
    cursor = await connection.execute("SELECT to_regclass('casenotes.migrations')")
    if (row := await cursor.fetchone()) and row[0] is None:
        await connection.execute("CREATE SCHEMA IF NOT EXISTS casenotes")
        await connection.execute(
            "CREATE TABLE casenotes.migrations (number integer PRIMARY KEY, name text NOT NULL, "
            "applied_at timestamptz NOT NULL DEFAULT now())"
        )
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM casenotes.migrations")
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def _create_extension(connection: Connection) -> None:
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
        raise StoreDamaged("the server has no pgvector extension; install pgvector on the server") from None
    except psycopg.errors.InsufficientPrivilege:
        raise StoreUnavailable(
            "this role may not create the extension; let an administrator run: CREATE EXTENSION vector"
        ) from None

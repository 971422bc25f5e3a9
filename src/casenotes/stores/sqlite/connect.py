"""Open the SQLite file: place, permissions, pragmas, and clear errors for what can go wrong."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from casenotes.config import StorageSettings
from casenotes.config.settings import CREDENTIALS, without_password
from casenotes.errors import SettingsError, StoreDamaged, StoreError, StoreUnavailable

APPLICATION_ID = 0x43617365
"""Marks the file as ours; the letters are "Case"."""

FIXED_IN_VERSION = (3, 51, 3)
"""From here on SQLite is free of the WAL-reset bug, which several writing processes can meet."""

BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
UNWRITABLE_CODES = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}

PUT_BACK = (
    "put it back together with its -wal, or close the memory in every process that uses it before another file "
    "takes its place"
)

_CREATING = threading.Lock()
"""Held from creating a file to closing its descriptor: no other thread may have it open in SQLite by then."""


def path_of(url: str) -> Path | None:
    """The file of a URL such as sqlite:///relative.db or sqlite:////absolute.db; None in memory."""
    prefix, _, rest = url.partition("://")
    if prefix != "sqlite" or not rest.startswith("/") or not rest.strip("/"):
        raise SettingsError(f"database URL {without_password(url)!r} names no file; use sqlite:///file.db")
    if CREDENTIALS.search(rest):
        raise SettingsError("the SQLite URL has a password, but files take none; use sqlite:///file.db")
    name = rest[1:]
    return None if name == ":memory:" else Path(name)


def database_files(path: Path) -> list[Path]:
    """The file and what SQLite keeps beside it; beside its target, if it is a link."""
    return [Path(f"{os.path.realpath(path)}{end}") for end in ("", "-wal", "-shm", "-journal")]


def is_part_of_store(url: str, file: Path) -> bool:
    """Whether that is a file of the store, which nobody but SQLite may open."""
    path = path_of(url) if url.startswith("sqlite:") else None
    return path is not None and Path(os.path.realpath(file)) in database_files(path)


def create_private_file(path: Path) -> None:
    """Create a missing file, readable by its owner alone, before SQLite writes into it.

    A file that exists is never opened here. POSIX drops all locks of a process on a file as soon as the process
    closes any descriptor of it, and without SQLite's locks another process takes a log in use for abandoned.
    """
    try:
        with _CREATING:
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise StoreUnavailable(f"{str(path)!r} is a directory; name a file in it") from None
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise _unwritable(path, os.strerror(errno.EACCES)) from None
    except FileNotFoundError:
        raise StoreUnavailable(
            f"cannot create {str(path)!r}: the directory {str(path.parent)!r} does not exist; create it first"
        ) from None
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from None


def _unwritable(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"cannot write {str(path)!r}: {reason}; choose a place you may write to")


class OpenFile:
    """The database file and its log as they were when they were opened.

    SQLite goes on writing into a file that was deleted, moved or replaced, and nobody finds what it wrote.
    """

    def __init__(self, path: Path) -> None:
        files = str(path), f"{os.path.realpath(path)}-wal"
        self._identities = {file: _identity(file) for file in files}

    def problem(self) -> str:
        """What has become of a file that is no longer where it was opened; empty if all is well."""
        for file, known in self._identities.items():
            found = _identity(file)
            if found != known:
                what = "was replaced by another file" if found else "was deleted or moved"
                return f"{file!r} {what} while it was open"
        return ""

    def check(self) -> None:
        """Raise if the files are no longer where they were opened."""
        if problem := self.problem():
            raise StoreUnavailable(f"{problem}; nothing was saved: {PUT_BACK}")


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_ownership(path: Path) -> None:
    """Refuse a file of another program before anything in it is changed."""
    with store_errors(path):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise StoreDamaged(f"{str(path)!r} is a database of another program; choose another file")
        finally:
            connection.close()


def connect(path: Path, settings: StorageSettings, *, read_only: bool) -> sqlite3.Connection:
    """A connection with our pragmas; autocommit, so that transactions are explicit."""
    with store_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",  # never creates a file in the place of one that is gone
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=settings.busy_timeout_seconds,
        )
        try:
            _configure(connection, read_only)
        except BaseException:
            connection.close()
            raise
    return connection


def _configure(connection: sqlite3.Connection, read_only: bool) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "temp_store = MEMORY",
        f"query_only = {'ON' if read_only else 'OFF'}",
    ):
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours, at this one seam."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of the driver's, with the remedy."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in DAMAGE_CODES:
        return StoreDamaged(f"{str(path)!r} is not a database or is damaged ({error}); restore a backup")
    if code in BUSY_CODES:
        return StoreUnavailable(f"{str(path)!r} is locked by another process ({error}); try again")
    if code in UNWRITABLE_CODES:
        return StoreUnavailable(f"cannot write {str(path)!r} ({error}); check file and directory permissions")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"no room left to write {str(path)!r} ({error}); free some disk space")
    return StoreError(f"SQLite failed on {str(path)!r}: {error}")

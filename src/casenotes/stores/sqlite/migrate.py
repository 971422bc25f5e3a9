"""Bring a SQLite file up to date: numbered files, forward only, each recorded, all under one lock."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

from casenotes.errors import StoreTooNew
from casenotes.stores.rows import migrations
from casenotes.stores.sqlite.connect import APPLICATION_ID
from casenotes.stores.sqlite.lanes import transaction

PACKAGE = "casenotes.stores.sqlite"


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply what is missing; a crash in between leaves the file as it was."""
    known = list(migrations(PACKAGE))
    if _version(connection) == known[-1][0] and _application_id(connection) == APPLICATION_ID:
        return
    connection.create_function("half_floats", 1, _half_floats, deterministic=True)
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        version = _version(connection)
        if version > known[-1][0]:
            raise StoreTooNew(
                f"{str(path)!r} has schema {version}, this release knows up to {known[-1][0]}; "
                "upgrade casenotes"
            )
        for number, _name, script in known:
            if number > version:
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")


def _half_floats(vector: bytes) -> bytes:
    """A vector of 32-bit floats in 16 bits each; one that is damaged stays as it is, for `check` to find."""
    try:
        return struct.pack(f"<{len(vector) // 4}e", *struct.unpack(f"<{len(vector) // 4}f", vector))
    except (struct.error, OverflowError):
        return vector


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _application_id(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

"""Prove that a SQLite store is healthy."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Mapping
from pathlib import Path

from casenotes.stores.base import Finding, consistency_finding
from casenotes.stores.sqlite.connect import FIXED_IN_VERSION


def run_checks(connection: sqlite3.Connection, path: Path, queries: Mapping[str, str]) -> list[Finding]:
    """All findings, good and bad; a damaged file is not asked for more."""
    findings = [
        _integrity(connection),
        _durability(connection),
        _permissions(path),
        _sqlite_version(),
    ]
    if findings[0].status == "ok":
        for what in ("threads", "vectors", "entries"):
            broken = connection.execute(queries[f"broken_{what}"]).fetchone()[0]
            findings.append(consistency_finding(what, broken))
    return findings


def _integrity(connection: sqlite3.Connection) -> Finding:
    try:
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(5)")]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    if problems == ["ok"]:
        return Finding("integrity", "ok", "every page of the file can be read")
    return Finding("integrity", "failed", "; ".join(problems), "restore a backup, or export what can be read")


def _durability(connection: sqlite3.Connection) -> Finding:
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    detail = f"journal {journal}, synchronous {synchronous}"
    if (journal, synchronous) == ("wal", 2):
        return Finding("durability", "ok", detail)
    return Finding(
        "durability",
        "failed",
        detail,
        "put the file on a local disk: WAL does not work on network drives",
    )


def _permissions(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding("permissions", "warning", f"{mode:04o}: others can read it", f"chmod 600 {path}")
    return Finding("permissions", "ok", f"{mode:04o}")


def _sqlite_version() -> Finding:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info >= FIXED_IN_VERSION:
        return Finding("sqlite", "ok", version)
    fixed = ".".join(map(str, FIXED_IN_VERSION))
    return Finding(
        "sqlite",
        "warning",
        f"{version} has the WAL-reset bug: two processes that write and checkpoint at once may damage the file",
        f"let one process write, or use SQLite {fixed} or later, or PostgreSQL",
    )

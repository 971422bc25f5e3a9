"""Judge the health of a PostgreSQL store from what the server reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from casenotes.stores.base import Finding, consistency_finding


def findings(facts: tuple[Any, ...], broken: Mapping[str, int]) -> list[Finding]:
    """All findings, good and bad."""
    version, fsync, synchronous_commit, pgvector = facts
    return [
        Finding("server", "ok", f"PostgreSQL {version}, pgvector {pgvector}"),
        _durability(fsync, synchronous_commit),
        *(consistency_finding(what, count) for what, count in broken.items()),
    ]


def _durability(fsync: str, synchronous_commit: str) -> Finding:
    detail = f"fsync {fsync}, synchronous_commit {synchronous_commit}"
    if fsync == "on" and synchronous_commit != "off":
        return Finding("durability", "ok", detail)
    return Finding(
        "durability",
        "failed",
        f"{detail}: a power cut can lose saved messages",
        "switch both on in the server's configuration",
    )

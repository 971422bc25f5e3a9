"""`casenotes stats` and `casenotes doctor`."""

from __future__ import annotations

import asyncio
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from casenotes import __version__
from casenotes.cli.options import Db, Json, open_memory
from casenotes.cli.output import STATUS_STYLE, console, heading, print_json, print_table, safe
from casenotes.config import effective
from casenotes.errors import CasenotesError
from casenotes.memory import Memory
from casenotes.stores.base import Finding, ScopeSize, StoreStats
from casenotes.stores.learning import TurnState
from casenotes.stores.observations import Observing

MEASURED_MESSAGES = 10_000
"""`stats` loads the index of one scope up to this size to see what a message takes."""

MEASURED_BYTES = 2**31
"""And measures the tables of a store up to this size, as SQLite reads all of it."""

LISTED_TABLES = 8


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("stats")(stats_command)
    app.command("doctor")(doctor_command)


def stats_command(
    db: Db = None,
    limit: Annotated[int, typer.Option(min=1, help="How many scopes to list, largest first.")] = 20,
    json: Json = False,
) -> None:
    """Show what the store holds, overall and by scope, the bytes of its tables, and what a message takes."""
    overview = asyncio.run(_overview(db))
    largest = sorted(overview.scopes, key=lambda size: -size.messages)
    if json:
        print_json(
            {
                "store": overview.location,
                "total": overview.stats,
                "bytes_per_message": overview.bytes_per_message,
                "bytes_by_table": overview.table_sizes,
                "scopes": largest,
            }
        )
        return
    stats = overview.stats
    console.print(overview.location, markup=False)
    totals = [
        stats.scopes,
        stats.threads,
        stats.messages,
        stats.entries,
        stats.vectors,
        stats.open_turns,
        stats.queued_turns,
    ]
    print_table(
        ["scopes", "threads", "messages", "entries", "vectors", "open turns", "to learn from", "size"],
        [[*totals, f"{stats.bytes / 2**20:.1f} MiB"]],
    )
    if sizes := overview.bytes_per_message:
        heading("Bytes a message")
        print_table([name.replace("_", " ") for name in sizes], [[round(size) for size in sizes.values()]])
    if largest_tables := list(overview.table_sizes.items())[:LISTED_TABLES]:
        heading("Bytes by table, with indexes")
        print_table(["table", "bytes"], [[name, f"{size:,}"] for name, size in largest_tables])
    heading("Scopes")
    print_table(
        ["agent", "resource", "threads", "messages", "entries"],
        [[s.agent_id, s.resource_id or "-", s.threads, s.messages, s.entries] for s in largest[:limit]],
    )
    if len(largest) > limit:
        console.print(f"… and {len(largest) - limit} more (--limit)")


@dataclass(frozen=True, slots=True)
class Overview:
    """What `stats` shows."""

    location: str
    stats: StoreStats
    scopes: Sequence[ScopeSize]
    bytes_per_message: Mapping[str, float]
    table_sizes: Mapping[str, int]


async def _overview(db: str | None) -> Overview:
    async with open_memory(db) as memory:
        stats, scopes = await memory.stats(), await memory.scopes()
        per_message = await _bytes_per_message(memory, stats, scopes)
        tables = await memory.table_sizes() if stats.bytes <= MEASURED_BYTES else {}
        return Overview(memory.location, stats, scopes, per_message, tables)


async def _bytes_per_message(
    memory: Memory, stats: StoreStats, scopes: Sequence[ScopeSize]
) -> dict[str, float]:
    """On disk over all; in memory of the largest scope that is quickly loaded, in whole and its vectors."""
    on_disk = {"on_disk": stats.bytes / stats.messages} if stats.messages else {}
    measured = [size for size in scopes if 0 < size.messages <= MEASURED_MESSAGES]
    if not measured:
        return on_disk
    index = await memory.index_size(max(measured, key=lambda size: size.messages).scope)
    if not index.messages:  # all of them are hidden
        return on_disk
    return on_disk | {
        "in_memory": index.bytes / index.messages,
        "vector_in_memory": index.vector_bytes / index.messages,
    }


def doctor_command(db: Db = None, json: Json = False) -> None:
    """Check the installation and the store; exit code 1 if something has failed."""
    findings = [_versions(), *asyncio.run(_embedder_findings()), *asyncio.run(_store_findings(db))]
    if json:
        print_json({"findings": findings})
    else:
        print_findings(findings)
        _print_verdict(findings)
    if any(finding.status == "failed" for finding in findings):
        raise typer.Exit(1)


def _versions() -> Finding:
    detail = f"casenotes {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return Finding("versions", "ok", detail)


async def _embedder_findings() -> list[Finding]:
    from casenotes.models.embed import Space, embed_texts
    from casenotes.models.registry import resolve_embedder
    from casenotes.recall.space import prepared

    try:
        embedder = await prepared(resolve_embedder(effective().embedder), None)
        await embed_texts(embedder, ["a short text"])
    except CasenotesError as error:
        return [Finding("embedder", "failed", str(error), "choose another with CASENOTES_EMBEDDER_MODEL")]
    return [Finding("embedder", "ok", f"{Space.of(embedder)}, for new stores")]


async def _store_findings(db: str | None) -> list[Finding]:
    try:
        async with open_memory(db) as memory:
            return [
                Finding("store", "ok", memory.location),
                *await memory.check(),
                _learning_finding(await memory.stats(), await memory.dead_letters(limit=1)),
                _observing_finding(await memory.dead_observers()),
            ]
    except CasenotesError as error:
        return [Finding("store", "failed", str(error))]


def _learning_finding(stats: StoreStats, dead: Sequence[TurnState]) -> Finding:
    if dead:
        return Finding(
            "learning",
            "warning",
            f"{stats.dead_turns} turns were given up, last: {dead[0].error or 'unknown'}",
            "mend the cause, then run `casenotes worker --retry-dead`",
        )
    return Finding("learning", "ok", f"{stats.entries} entries, {stats.queued_turns} turns wait")


def _observing_finding(dead: Sequence[Observing]) -> Finding:
    if not dead:
        return Finding("observing", "ok", "no conversation was given up")
    first = dead[0].scope
    return Finding(
        "observing",
        "warning",
        f"{len(dead)} conversations are observed no more, last {first.thread_id!r} of {first.resource_id!r}: "
        f"{dead[0].error or 'unknown'}",
        "mend the cause, then run `casenotes worker --retry-dead`; their messages are shown as they were said",
    )


def print_findings(findings: Sequence[Finding]) -> None:
    """Findings as a table."""
    print_table(
        ["check", "status", "detail"],
        [
            [
                f.name,
                Text(f.status, style=STATUS_STYLE[f.status]),
                f.detail + (f"\n→ {f.remedy}" if f.remedy else ""),
            ]
            for f in findings
        ],
    )


def _print_verdict(findings: Sequence[Finding]) -> None:
    failed = [safe(f.name) for f in findings if f.status == "failed"]
    console.print(f"\nFailed: {', '.join(failed)}" if failed else "\nNothing has failed.")

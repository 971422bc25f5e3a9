"""`casenotes explain`: where an entry came from, and what has happened to it since."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.learning import print_receipt
from casenotes.cli.options import Db, Json, open_memory
from casenotes.cli.output import console, excerpt, heading, print_json, safe
from casenotes.curate.explain import Explanation, QuotedMessage
from casenotes.types import Entry, Revision

EXCERPT_CHARACTERS = 300
STATUS_STYLE = {"active": "green", "superseded": "yellow", "quarantined": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain")(explain_command)


def explain_command(
    entry_id: Annotated[str, typer.Argument(metavar="ENTRY", help="Its id, as `ledger` and `recall` give it.")],
    db: Db = None,
    json: Json = False,
) -> None:
    """Say where an entry came from, with its quotes in their messages, and what happened to it since."""
    told = asyncio.run(_explain(db, entry_id))
    if json:
        print_json({name: getattr(told, name) for name in Explanation.__slots__})
    else:
        print_explanation(told)


async def _explain(db: str | None, entry_id: str) -> Explanation:
    async with open_memory(db) as memory:
        return await memory.explain(entry_id)


def print_explanation(told: Explanation) -> None:
    """An explanation as a person reads it."""
    print_entry(told.entry, f"{told.scope.agent_id} / {told.scope.resource_id}")
    for quote in told.quotes:
        _print_quote(quote)
    if told.receipts:
        heading("Receipts")
    for row in told.receipts:
        where = Text(f"  {row.at:%Y-%m-%d %H:%M}  thread {excerpt(str(row.scope.thread_id), 40)}", style="dim")
        print_receipt(row.receipt, where)
    if told.history:
        heading("What happened to it")
    for revision in told.history:
        _print_revision(revision, told.entry.id, told.related)
    for other in told.conflicts:
        _indented(Text(f"Another entry says otherwise: {_named(other, told.related)}", style="yellow"), 0)


def print_entry(entry: Entry, where: str = "") -> None:
    """An entry with its state."""
    console.print(Text(safe(entry.content), style="bold"))
    checked = "evidence checked" if entry.verified else "unverified"
    until = f" until {entry.valid_until:%Y-%m-%d %H:%M}" if entry.valid_until else ""
    console.print(
        Text.assemble(
            (entry.status, STATUS_STYLE.get(entry.status, "")),
            f"{until}, {entry.origin}, {entry.source}, {checked}, since {entry.created_at:%Y-%m-%d}, "
            f"last seen {entry.last_seen_at:%Y-%m-%d}",
        )
    )
    console.print(Text(f"{entry.id}  {safe(where)}".rstrip(), style="dim"))


def _print_quote(quoted: QuotedMessage) -> None:
    """The quote with the words around it, so that anybody can see that it is there."""
    message, evidence = quoted.message, quoted.evidence
    when = f"{message.created_at:%Y-%m-%d %H:%M}" if message.created_at else ""
    where = f"characters {evidence.start} to {evidence.end}"
    console.print(f"\n{quoted.role}  {when}  thread {safe(str(quoted.thread_id))}, {where}", markup=False)
    parts = ((quoted.before, "dim"), (f"»{evidence.quote}«", "green"), (quoted.after, "dim"))
    _indented(Text.assemble(*((safe(text), style) for text, style in parts)), 3)


def _print_revision(revision: Revision, entry_id: str, related: Mapping[str, Entry]) -> None:
    undone = f", undone {revision.undone_at:%Y-%m-%d}" if revision.undone_at else ""
    about = "" if revision.item_id == entry_id else f": {_named(revision.item_id, related)}"
    console.print(
        Text.assemble(
            f"{revision.at:%Y-%m-%d %H:%M}  {revision.action} by {revision.actor}{undone}",
            (f"  revision {revision.id}", "dim"),
        )
    )
    if about:
        _indented(Text(f"this entry took the place of{about}"), 3)
    elif revision.successor:
        _indented(Text(f"by: {_named(revision.successor, related)}"), 3)
    if revision.quote:
        _indented(Text(f"“{excerpt(revision.quote.quote, EXCERPT_CHARACTERS)}”", style="dim"), 3)
    if revision.detail:
        _indented(Text(f"→ {excerpt(revision.detail, EXCERPT_CHARACTERS)}"), 3)


def _named(entry_id: str, related: Mapping[str, Entry]) -> str:
    entry = related.get(entry_id)
    return f"{excerpt(entry.content, EXCERPT_CHARACTERS)} ({entry_id})" if entry else entry_id


def _indented(text: Text, by: int) -> None:
    console.print(Padding(text, (0, 0, 0, by)))

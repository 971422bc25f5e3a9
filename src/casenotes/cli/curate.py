"""`casenotes remember`, `forget`, `undo` and `quarantine`: what a person does with single memories."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.explain import print_entry
from casenotes.cli.options import Agent, Db, Json, Resource, open_memory
from casenotes.cli.output import console, errors, excerpt, print_json, spinner
from casenotes.config import DEFAULT_AGENT
from casenotes.curate.forget import Forgotten
from casenotes.errors import UsageError
from casenotes.types import Entry, Scope

EXCERPT_CHARACTERS = 200
SHOWN = 20
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Thread = Annotated[str | None, typer.Option("--thread", metavar="ID", help="The conversation.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("remember")(remember_command)
    app.command("forget")(forget_command)
    app.command("undo")(undo_command)
    app.command("quarantine")(quarantine_command)


def confirmed(question: str, yes: bool) -> bool:
    """Whether to go on: asked on a terminal; elsewhere only with --yes."""
    if yes:
        return True
    if sys.stdin.isatty():
        return typer.confirm(question)
    errors.print("Nothing was done. Repeat it with --yes to do it.", style="yellow")
    return False


def undo_hint(revision: str, agent: str, resource: str | None, db: str | None) -> str:
    """The command that takes a revision back, ready to be copied."""
    words = ["casenotes", "undo", revision, "--resource", resource or ""]
    words += ["--agent", agent] if agent != DEFAULT_AGENT else []
    words += ["--db", db] if db else []
    return f"To take it back: {shlex.join(words)}"


def remember_command(
    text: Annotated[str, typer.Argument(help="What to keep, as it shall be remembered.")],
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    thread: Thread = None,
    db: Db = None,
    json: Json = False,
) -> None:
    """Keep a text as a memory of a user; it is saved as their message first, which is its evidence."""
    with spinner("Saving", not json):
        entry = asyncio.run(_remember(db, Scope(agent, resource, thread), text))
    if json:
        print_json({"entry": entry})
        return
    print_entry(entry)
    if entry.status == "quarantined":
        errors.print(
            "It reads like an instruction and is kept in quarantine: it is not shown to models.", style="yellow"
        )


async def _remember(db: str | None, scope: Scope, text: str) -> Entry:
    async with open_memory(db, create=True) as memory:
        return await memory.remember(scope, text)


def forget_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    entry: Annotated[str | None, typer.Option("--entry", metavar="ID", help="This entry.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="All of a conversation.")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="ID", help="This message.")] = None,
    query: Annotated[str | None, typer.Option("--query", help="What this finds.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be forgotten.")] = False,
    yes: Yes = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """No longer recall memories: entries, and the messages that they quote.

    What would be forgotten is listed first. The message log keeps what was said, and `undo` takes it
    back; to remove data for good use `erase`.
    """
    given = {"entry_id": entry, "thread_id": thread, "message_id": message, "query": query}
    with spinner("Searching", not json):
        found = asyncio.run(_forget(db, Scope(agent, resource), given, dry_run=True))
    if not json:
        print_forgotten(found)
    if len(found) and not dry_run and confirmed("Forget all of this?", yes):
        found = asyncio.run(_forget(db, Scope(agent, resource), given, dry_run=False))
    if json:
        print_json({name: getattr(found, name) for name in Forgotten.__slots__})
    elif found.revision_id:
        console.print(f"Forgotten. {undo_hint(found.revision_id, agent, resource, db)}", markup=False)


async def _forget(db: str | None, scope: Scope, given: dict[str, Any], *, dry_run: bool) -> Forgotten:
    async with open_memory(db) as memory:
        return await memory.forget(scope, **given, dry_run=dry_run)


def print_forgotten(found: Forgotten) -> None:
    """What is forgotten, or would be."""
    if not len(found):
        console.print("Nothing is found that could be forgotten.")
        return
    console.print(f"{len(found.entries)} entries and {len(found.messages)} messages:")
    _print_some([(entry.id, entry.content) for entry in found.entries])
    _print_some([(f"{message.role} {message.id}", message.text) for message in found.messages])


def _print_some(rows: Sequence[tuple[str, str]]) -> None:
    for name, text in rows[:SHOWN]:
        line = Text.assemble(f"{excerpt(text, EXCERPT_CHARACTERS)}  ", (excerpt(name, 80), "dim"))
        console.print(Padding(line, (0, 0, 0, 3)))
    if len(rows) > SHOWN:
        console.print(f"   … and {len(rows) - SHOWN} more; --json lists all")


def undo_command(
    revision: Annotated[str, typer.Argument(help="Its id, as `explain`, `forget` and others give it.")],
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    db: Db = None,
    json: Json = False,
) -> None:
    """Take back a correction, a merge, a drop, a forgetting, an audit's fix or a rebuild."""
    items = asyncio.run(_undo(db, Scope(agent, resource), revision))
    if json:
        print_json({"revision": revision, "items": items})
    else:
        console.print(f"Undone; {len(items)} items are as they were before.")


async def _undo(db: str | None, scope: Scope, revision: str) -> list[str]:
    async with open_memory(db) as memory:
        return await memory.undo(scope, revision)


def quarantine_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    release: Annotated[
        str | None, typer.Option("--release", metavar="ID", help="Let this entry out: it is a record.")
    ] = None,
    drop: Annotated[str | None, typer.Option("--drop", metavar="ID", help="Forget this entry.")] = None,
    db: Db = None,
    json: Json = False,
) -> None:
    """List entries that are set apart because they read like instructions; release or drop one of them."""
    if release and drop:
        raise UsageError("--release and --drop exclude each other; give one of them")
    entries, revision = asyncio.run(_quarantine(db, Scope(agent, resource), release, drop))
    if json:
        print_json({"entries": entries, "revision": revision})
        return
    if revision:
        done = "Released" if release else "Dropped"
        console.print(f"{done}. {undo_hint(revision, agent, resource, db)}", markup=False)
    if not entries:
        console.print("Nothing is in quarantine.")
    for entry in entries:
        print_entry(entry)


async def _quarantine(
    db: str | None, scope: Scope, release: str | None, drop: str | None
) -> tuple[list[Entry], str | None]:
    async with open_memory(db) as memory:
        revision = None
        if release:
            revision = await memory.release(scope, release)
        elif drop:
            revision = (await memory.forget(scope, entry_id=drop)).revision_id
        return await memory.quarantine(scope), revision

"""`casenotes recall`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.options import (
    Agent,
    Db,
    Json,
    Resource,
    open_memory,
    parse_time,
)
from casenotes.cli.output import console, excerpt, print_json, spinner
from casenotes.config import DEFAULT_AGENT
from casenotes.types import Hit, Scope

EXCERPT_CHARACTERS = 400


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("recall")(recall_command)


def recall_command(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many hits.")] = 5,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="What was known and held at this time.")
    ] = None,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="Also what is set apart because it reads like an instruction.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Show whole messages.")] = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Search the entries and messages of all threads of a resource.

    Entries come with the quotes they rest on. Every hit shows its scores: lexical (words in common),
    vector (similar meaning), fused (both), recency, and final, which decides the order.
    """
    scope = Scope(agent, resource)
    with spinner("Searching", not json):
        hits, is_empty = asyncio.run(_recall(query, scope, top_k, parse_time(as_of), quarantined, db))
    if json:
        print_json({"query": query, "hits": hits})
    elif is_empty:
        console.print(
            f"There are no messages of resource {resource!r} under agent {agent!r}; "
            "`casenotes stats` lists what there is.",
            markup=False,
        )
    else:
        print_hits(hits, full)


async def _recall(
    query: str, scope: Scope, top_k: int, as_of: datetime | None, quarantined: bool, db: str | None
) -> tuple[list[Hit], bool]:
    """The hits, and whether the scope holds nothing at all."""
    async with open_memory(db) as memory:
        hits = await memory.recall(scope, query, top_k, as_of=as_of, quarantined=quarantined)
        return hits, not hits and not await memory.threads(scope)


def print_hits(hits: Sequence[Hit], full: bool = False) -> None:
    """Hits as a person reads them."""
    if not hits:
        console.print("Nothing relevant was found.")
    for rank, hit in enumerate(hits, 1):
        title = Text.assemble(
            (f"{rank}. ", "bold"),
            (excerpt(hit.speaker or hit.kind, 80), "bold"),
            f"  {hit.created_at:%Y-%m-%d %H:%M}  thread ",
            (excerpt(hit.thread_id or "-", 40), "cyan"),
            (f"  {state}" if (state := _state(hit)) else "", "yellow"),
            (f"  {hit.id}" if hit.kind == "entry" else "", "dim"),
        )
        console.print(title)
        body = Text(excerpt(hit.content, 1_000_000 if full else EXCERPT_CHARACTERS))
        console.print(Padding(body, (0, 0, 0, 3)))
        for quote in hit.evidence:
            console.print(Padding(Text(f"“{excerpt(quote.quote, EXCERPT_CHARACTERS)}”"), (0, 0, 0, 3)))
        console.print(Padding(Text(score_line(hit), style="dim"), (0, 0, 0, 3)))


def _state(hit: Hit) -> str:
    """What a reader must know of an entry besides its text."""
    words = [
        "" if hit.verified else "unverified",
        "" if hit.status == "active" else hit.status,
        "another entry says otherwise" if hit.conflicts else "",
    ]
    return ", ".join(filter(None, words))


def score_line(hit: Hit) -> str:
    """The score breakdown on one line."""
    s = hit.scores
    return (
        f"final {s.final:.3f}  lexical {s.lexical:.2f}  vector {s.vector:.3f}  "
        f"fused {s.fused:.3f}  recency {s.recency:.3f}"
    )

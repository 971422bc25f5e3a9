"""`casenotes observations`: what a long conversation was compressed to, and where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from casenotes.cli.notebook import ThreadOption, check_thread
from casenotes.cli.options import Agent, Db, Json, Resource, open_memory
from casenotes.cli.output import console, excerpt, heading, print_json, print_table
from casenotes.config import DEFAULT_AGENT
from casenotes.stores.observations import Observing
from casenotes.types import Observation, Scope, SessionState

EXCERPT_CHARACTERS = 2_000
PRIORITY_STYLE = {"critical": "bold red", "important": "yellow", "completion": "green"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("observations")(observations_command)


@dataclass(frozen=True, slots=True)
class Observed:
    """What the command shows."""

    rows: Sequence[Observation]
    session: SessionState
    state: Observing


def observations_command(
    resource: Resource,
    thread: ThreadOption,
    agent: Agent = DEFAULT_AGENT,
    history: Annotated[
        bool, typer.Option("--history", help="Also what was condensed, dropped or set apart since.")
    ] = False,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="Throw them away: it is observed anew when it goes on."),
    ] = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Show what a long conversation was compressed to, oldest first, and where it stands.

    Rows that are `active` stand in prompts in place of the messages they cover; those that are `ready` will at
    the next activation. An Observer writes them while a conversation goes on, if there is a model. The
    messages themselves stay in the log.
    """
    if reset:
        done = asyncio.run(_reset(db, Scope(agent, resource, thread)))
        _print_reset(done, json=json)
        return
    found = asyncio.run(_observed(db, Scope(agent, resource, thread), history))
    if json:
        print_json({"observations": found.rows, "session": found.session, "progress": progress(found.state)})
    elif not found.rows:
        console.print("Nothing of this conversation was observed yet.")
    else:
        print_observations(found.rows, found.session)
        console.print(Text(_summary(found.state), style="dim"))


async def _observed(db: str | None, scope: Scope, history: bool) -> Observed:
    async with open_memory(db) as memory:
        rows = await memory.observations(scope, history=history)
        if not rows:
            await check_thread(memory, scope)
        return Observed(rows, await memory.session(scope), await memory.observing(scope))


async def _reset(db: str | None, scope: Scope) -> bool:
    async with open_memory(db) as memory:
        await check_thread(memory, scope)
        return await memory.reobserve(scope)


def _print_reset(done: bool, *, json: bool) -> None:
    if json:
        print_json({"reset": done})
    else:
        console.print("Its observations are gone." if done else "Nothing of it was observed yet.")


def progress(state: Observing) -> dict[str, int]:
    """How far a conversation has come, in messages and tokens."""
    return {
        "messages": state.last_seq,
        "observed_messages": state.observed_seq,
        "replaced_messages": state.active_seq,
        "message_tokens": state.total_tokens,
        "raw_tokens": state.raw_tokens,
        "observation_tokens": state.log_tokens,
        "ready_tokens": state.ready_tokens,
    }


def print_observations(rows: Sequence[Observation], session: SessionState) -> None:
    """The log as a person reads it."""
    print_table(["time", "priority", "status", "messages", "observation"], [_row(row) for row in rows])
    lines = [("objective", session.objective), ("state", session.state)]
    lines += [("decided", text) for text in session.decisions]
    lines += [("left to do", text) for text in session.follow_ups]
    if any(text for _, text in lines):
        heading("Where it stands")
        told = [[name, excerpt(text, EXCERPT_CHARACTERS)] for name, text in lines if text]
        print_table(["", ""], told)


def _row(row: Observation) -> list[object]:
    covers = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in row.covers)
    text = excerpt(row.text, EXCERPT_CHARACTERS)
    about = f" (about {', '.join(day.isoformat() for day in row.dates)})" if row.dates else ""
    return [
        f"{row.at:%Y-%m-%d %H:%M}",
        Text(row.priority, PRIORITY_STYLE.get(row.priority, "")),
        row.status,
        covers,
        f"{'  ' if row.parent_id else ''}{text}{about}",
    ]


def _summary(state: Observing) -> str:
    return (
        f"{state.observed_seq} of {state.last_seq} messages observed, {state.active_seq} replaced in prompts; "
        f"{state.log_tokens} tokens stand for {state.active_tokens}"
    )

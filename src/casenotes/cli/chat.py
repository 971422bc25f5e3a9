"""`casenotes chat`: talk to an agent that remembers.

The main thread reads and waits, so that the terminal edits lines and Ctrl-C works as everywhere; memory and
agent live on a loop in a thread of their own, so that learning goes on while somebody types.
"""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from casenotes.cli.chat_loop import Loop, running_loop
from casenotes.cli.chat_model import Partner, choose_partner
from casenotes.cli.options import Agent, Db, Json, open_memory
from casenotes.cli.output import errors, safe
from casenotes.config import DEFAULT_AGENT
from casenotes.types import Scope

if TYPE_CHECKING:
    from casenotes.memory import Memory

SYSTEM = "You are a helpful assistant who remembers earlier conversations. Answer plainly and to the point."


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("chat")(chat_command)


def login_name() -> str:
    """The name of whoever is logged in, or `me`."""
    try:
        return getpass.getuser() or "me"
    except (OSError, KeyError):
        return "me"


def thread_name() -> str:
    """A thread named by the time."""
    return f"chat-{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3]


def chat_command(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="provider:name, or `test`: no key, no network, quotes memory. Default: CASENOTES_MODEL.",
            show_default=False,
        ),
    ] = None,
    agent: Agent = DEFAULT_AGENT,
    resource: Annotated[
        str | None,
        typer.Option("--resource", metavar="ID", help="You. Default: the login name.", show_default=False),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="A conversation to go on with. Default: a new one."),
    ] = None,
    system: Annotated[str, typer.Option("--system", metavar="TEXT", help="What the agent is told.")] = SYSTEM,
    db: Db = None,
    json: Json = False,
) -> None:
    """Talk to an agent that has memory. The same model learns from what is said.

    Ctrl-C stops an answer, twice or Ctrl-D leaves; `/help` lists commands. Without a terminal every line of
    the input is one turn; with --json every turn is one line of JSON.
    """
    partner = choose_partner(model)
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    resource = login_name() if resource is None else resource  # an empty one is an error, not left out
    scope = Scope(agent, resource, thread_name() if thread is None else thread)
    with _warnings_told(), running_loop() as loop:
        opening = open_memory(db, create=True, model=partner.worker, waits=False)
        memory = loop.wait(opening.__aenter__())
        try:
            all_well = _converse(loop, memory, partner, scope, system, db, json)
        finally:
            loop.wait(opening.__aexit__(None, None, None))
            if partner.worker:
                loop.wait(partner.worker.close())
    if not all_well:
        raise typer.Exit(1)


def _converse(
    loop: Loop, memory: Memory, partner: Partner, scope: Scope, system: str, db: str | None, json: bool
) -> bool:
    from casenotes.cli.chat_commands import State
    from casenotes.cli.chat_conversation import Conversation, JsonConversation
    from casenotes.cli.chat_turn import Talk

    kind = JsonConversation if json else Conversation
    return kind(loop, Talk(memory, partner, system), State(memory, scope, thread_name, db)).run()


class _Warnings(logging.Handler):
    """Tells what is logged on standard error, without control characters."""

    def emit(self, record: logging.LogRecord) -> None:
        errors.print(f"warning: {safe(record.getMessage())}", style="yellow", markup=False)


@contextmanager
def _warnings_told() -> Iterator[None]:
    handler, log = _Warnings(logging.WARNING), logging.getLogger("casenotes")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)

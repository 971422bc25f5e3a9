"""Options that mean the same in every command, and opening the memory they name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from casenotes.cli.output import errors, safe
from casenotes.config import DEFAULT_DATABASE_URL, Settings, effective
from casenotes.errors import InvalidScope, StoreUnavailable, UsageError
from casenotes.events import Event
from casenotes.memory import Memory
from casenotes.models.chat import ChatModel
from casenotes.types import Scope

LONGEST_WAIT = 1e9
"""Seconds: whoever does not want to wait stops the command."""

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help=f"Database, for example sqlite:///agent.db or postgresql://host/name. "
        f"Default: CASENOTES_DATABASE_URL, else {DEFAULT_DATABASE_URL}.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Agent = Annotated[str, typer.Option("--agent", metavar="ID", help="The agent whose memory it is.")]
Resource = Annotated[
    str, typer.Option("--resource", metavar="ID", help="The user or customer the agent serves.")
]


def open_memory(
    db: str | None,
    *,
    create: bool = False,
    model: ChatModel | None = None,
    config: Settings | None = None,
    waits: bool = True,
) -> AbstractAsyncContextManager[Memory]:
    """The memory that `--db` names, mostly without a model; only commands that write may create it.

    A command that `waits` has no deadline: it would rather answer late than by words alone.
    """
    url = db or effective().database_url
    if not create:
        check_exists(url)
    if waits:
        config = without_deadline(config or Settings())
    return Memory.open(url, model=model or "", config=config, on_event=_WarnOnce())


def without_deadline(settings: Settings) -> Settings:
    """The settings for a command that somebody waits for, as long as the embedder takes."""
    return replace(settings, search=replace(settings.search, deadline_seconds=LONGEST_WAIT))


async def check_known(memory: Memory, scope: Scope) -> None:
    """Raise if nothing was ever saved for a resource: its name is mistyped, or belongs to another agent."""
    if not await memory.threads(scope) and not (await memory.profile(scope)).version:
        raise InvalidScope(
            f"there is nothing of resource {scope.resource_id!r} under agent {scope.agent_id!r}; "
            "`casenotes stats` lists what there is"
        )


class _WarnOnce:
    """Tells on standard error, once, that vectors could not be made: results are by words alone then."""

    def __init__(self) -> None:
        self._warned = False

    def __call__(self, event: Event) -> None:
        if event.name == "embedding.failed" and not self._warned:
            self._warned = True
            errors.print(_without_vectors(safe(event.data["error"])), style="yellow", markup=False)


def _without_vectors(error: str) -> str:
    if error == "late":
        return "warning: the embedder did not answer in time; this search went by words alone"
    return f"warning: no vectors could be made: {error}"


def check_exists(url: str) -> None:
    """Raise if that names a file that is not there; a server answers for itself."""
    if url.startswith("sqlite:"):
        from casenotes.stores.sqlite.connect import path_of

        path = path_of(url)
        if path is None or not path.exists():
            raise StoreUnavailable(
                f"there is no store at {url}; create one with `casenotes import FILE --db {url}`, "
                "or name another with --db"
            )


def parse_time(text: str | None) -> datetime | None:
    """An ISO 8601 time; without zone it is UTC."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"time {text!r} is not understood; use ISO 8601, e.g. 2026-03-01T12:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)

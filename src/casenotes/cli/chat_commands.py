"""What can be typed in `casenotes chat` besides questions: commands that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rich.text import Text

from casenotes.cli.chat_screen import (
    dim,
    print_context,
    print_items,
    print_message,
    print_problem,
    print_thread,
)
from casenotes.cli.chat_turn import Item, Told
from casenotes.cli.curate import print_forgotten, undo_hint
from casenotes.cli.explain import print_explanation
from casenotes.cli.notebook import print_plan
from casenotes.cli.output import console, safe
from casenotes.cli.profile import print_profile
from casenotes.cli.search import print_hits
from casenotes.errors import CasenotesError, UsageError
from casenotes.memory import Memory
from casenotes.types import ContextItem, Outcome, Scope

T = TypeVar("T")
MOST_LISTED = 10
MOST_DIGITS = 9


class Desk(Protocol):
    """What commands need of the chat around them."""

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on the memory's loop."""
        ...

    def read(self, prompt: str) -> str | None:
        """A line of the user; None at the end."""
        ...

    def finish(self) -> None:
        """End the run of the current thread."""
        ...


@dataclass
class State:
    """Where the conversation stands: its scope, the last turn, and what numbers stand for.

    `outcome` is that of the thread's last turn: `aborted` while it is under way, None before there is one.
    """

    memory: Memory
    scope: Scope
    new_thread: Callable[[], str]
    db: str | None = None
    last: Told | None = None
    outcome: Outcome | None = None
    listed: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `run` gets what was typed behind its name."""

    usage: str
    meaning: str
    run: Callable[[Desk, State, str], None]


def run_command(desk: Desk, state: State, line: str) -> None:
    """Do what a line says; what is wrong with it is told."""
    name, _, rest = line.partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        print_problem(f"there is no command {name!r}")
        _help(desk, state, "")
        return
    try:
        command.run(desk, state, rest.strip())
    except CasenotesError as error:
        print_problem(str(error))


def _help(_desk: Desk, _state: State, _rest: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        console.print(Text.assemble((command.usage.ljust(width), "bold"), f"  {command.meaning}"))


def _memory(desk: Desk, state: State, query: str) -> None:
    owner = state.scope.owner
    if query:
        hits = desk.wait(state.memory.recall(owner, query, MOST_LISTED))
        sources = [ContextItem(h.kind, h.id, h.content, h.created_at, h.thread_id, h.role) for h in hits]
        state.listed = [Item(source.kind, source.id, source.text, source) for source in sources]
        print_hits(hits)
        return
    rows = desk.wait(state.memory.ledger(owner, limit=100))
    known = dict.fromkeys(row.receipt.entry_id for row in rows if row.receipt.entry_id)
    newest = list(known)[:MOST_LISTED]
    entries = desk.wait(state.memory.entries(owner, newest))
    state.listed = [Item("entry", name, entries[name].content) for name in newest if name in entries]
    print_items([(entries[item.id].status, item) for item in state.listed])
    if not state.listed:
        dim("no entries yet: they are learned by a model; /memory QUERY searches what was said")


def _why(desk: Desk, state: State, which: str) -> None:
    items = [_named(state, which)] if which else state.listed[:MOST_LISTED]
    if not items:
        dim("nothing was recalled or learned in the last turn")
    for item in items:
        if item.kind == "entry":
            print_explanation(desk.wait(state.memory.explain(item.id, scope=state.scope.owner)))
        elif item.source:
            print_message(item.source)


def _forget(desk: Desk, state: State, which: str) -> None:
    item = _named(state, which)
    chosen: dict[str, Any] = {f"{item.kind}_id": item.id}
    owner = state.scope.owner
    found = desk.wait(state.memory.forget(owner, **chosen, dry_run=True))
    print_forgotten(found)
    if not len(found) or (desk.read("Forget all of this? [y/N] ") or "").strip().lower() not in ("y", "yes"):
        dim("nothing was forgotten")
        return
    revision = desk.wait(state.memory.forget(owner, **chosen)).revision_id
    if revision:
        hint = undo_hint(revision, owner.agent_id, owner.resource_id, state.db)
        console.print(safe(f"Forgotten. {hint}"), markup=False, soft_wrap=True)


def _named(state: State, which: str) -> Item:
    """The memory of that number, or the entry of that id."""
    if not which:
        raise UsageError("which one? Give its number, or the id of an entry")
    if not which.isdecimal() or len(which) > MOST_DIGITS:
        return Item("entry", which, "")
    number = int(which)
    if not 1 <= number <= len(state.listed):
        raise UsageError(
            f"there is no number {number}: {len(state.listed)} memories are listed, /memory lists more"
        )
    return state.listed[number - 1]


def _profile(desk: Desk, state: State, _rest: str) -> None:
    profile = desk.wait(state.memory.profile(state.scope))
    if profile.fields:
        print_profile(profile, state.scope.resource_id or "")
    else:
        dim("nothing is known about you yet")


def _plan(desk: Desk, state: State, _rest: str) -> None:
    if plan := desk.wait(state.memory.plan(state.scope)):
        print_plan(plan)
    else:
        dim("there is no plan in this thread")


def _context(_desk: Desk, state: State, _rest: str) -> None:
    if state.last is None or state.last.context is None:
        dim("nothing was shown to the model yet")
    else:
        print_context(state.last.context)


def _new(desk: Desk, state: State, _rest: str) -> None:
    desk.finish()
    state.scope = Scope(state.scope.agent_id, state.scope.resource_id, state.new_thread())
    state.last, state.outcome, state.listed = None, None, []
    print_thread(state.scope)


def _quit(_desk: Desk, _state: State, _rest: str) -> None:
    raise EOFError


COMMANDS = {
    "/help": Command("/help", "this list", _help),
    "/memory": Command("/memory [QUERY]", "what is known: found for a query, or learned last", _memory),
    "/why": Command("/why [N or ENTRY]", "where a memory came from, or all of the last turn", _why),
    "/forget": Command("/forget N or ENTRY", "no longer recall it; asks first, can be undone", _forget),
    "/profile": Command("/profile", "what is known about you", _profile),
    "/plan": Command("/plan", "what this thread is working on", _plan),
    "/context": Command("/context", "what the model was shown in the last turn", _context),
    "/new": Command("/new", "go on in a new thread", _new),
    "/quit": Command("/quit", "leave; so does Ctrl-D", _quit),
}

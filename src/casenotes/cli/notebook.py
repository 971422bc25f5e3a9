"""`casenotes plan`, `attempts`, `events`, `episodes` and `threads`: what a user's conversations are about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.options import Agent, Db, Json, Resource, check_known, open_memory
from casenotes.cli.output import console, excerpt, print_json, print_table, safe
from casenotes.config import DEFAULT_AGENT
from casenotes.errors import InvalidScope
from casenotes.events import Event
from casenotes.types import Attempt, Episode, Plan, Scope, Thread

if TYPE_CHECKING:
    from casenotes.memory import Memory

ThreadOption = Annotated[str, typer.Option("--thread", metavar="ID", help="The conversation.")]
EXCERPT_CHARACTERS = 1_000
ID_CHARACTERS = 80
SHOWN = 50
OUTCOME_STYLE = {"success": "green", "failure": "red", "aborted": "yellow"}
STEP_STYLE = {"done": "green", "in progress": "bold", "failed": "red", "skipped": "dim"}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("plan")(plan_command)
    app.command("attempts")(attempts_command)
    app.command("events")(events_command)
    app.command("episodes")(episodes_command)
    app.command("threads")(threads_command)


def plan_command(
    resource: Resource,
    thread: ThreadOption,
    agent: Agent = DEFAULT_AGENT,
    db: Db = None,
    json: Json = False,
) -> None:
    """Show the plan of a conversation: goal, phase, iteration, version, and the steps with their status.

    Agents write it with the tool `plan`, programs with `update_plan`.
    """
    plan = asyncio.run(_plan(db, Scope(agent, resource, thread)))
    if json:
        print_json({"plan": plan})
    elif plan is None:
        console.print("There is no plan in this conversation.")
    else:
        print_plan(plan)


async def _plan(db: str | None, scope: Scope) -> Plan | None:
    async with open_memory(db) as memory:
        plan = await memory.plan(scope)
        if plan is None:
            await check_thread(memory, scope)
        return plan


async def check_thread(memory: Memory, scope: Scope) -> None:
    """Raise if there is no such conversation."""
    await check_known(memory, scope)
    if scope.thread_id not in [thread.thread_id for thread in await memory.threads(scope)]:
        raise InvalidScope(
            f"there is no thread {scope.thread_id!r} of resource {scope.resource_id!r}; "
            "`casenotes threads` lists them"
        )


def print_plan(plan: Plan) -> None:
    """A plan as a person reads it."""
    console.print(Text(excerpt(plan.goal, EXCERPT_CHARACTERS) or "(no goal)", style="bold"))
    phase = f"phase {excerpt(plan.phase, EXCERPT_CHARACTERS)}, " if plan.phase else ""
    console.print(Text(f"{phase}iteration {plan.iteration}, version {plan.version}", style="dim"))
    if plan.steps:
        rows = [
            [number, Text(step.status, STEP_STYLE.get(step.status, "")), excerpt(step.text, EXCERPT_CHARACTERS)]
            for number, step in enumerate(plan.steps, 1)
        ]
        print_table(["", "status", "step"], rows)


def attempts_command(
    resource: Resource,
    thread: ThreadOption,
    agent: Agent = DEFAULT_AGENT,
    db: Db = None,
    json: Json = False,
) -> None:
    """List what was tried in a conversation in vain, oldest first.

    Sub-agents that fail leave a note by themselves, programs with `record_attempt`; the briefing of the
    next sub-agent with the same task tells of it.
    """
    attempts = asyncio.run(_attempts(db, Scope(agent, resource, thread)))
    if json:
        print_json({"attempts": attempts})
        return
    if not attempts:
        console.print("Nothing was tried in vain in this conversation.")
    for attempt in attempts:
        _print_attempt(attempt)


async def _attempts(db: str | None, scope: Scope) -> list[Attempt]:
    async with open_memory(db) as memory:
        attempts = await memory.attempts(scope)
        if not attempts:
            await check_thread(memory, scope)
        return attempts


def _print_attempt(attempt: Attempt) -> None:
    style = OUTCOME_STYLE.get(attempt.outcome, "")
    console.print(
        Text.assemble(f"{attempt.number}. ", (attempt.outcome, style), f"  {attempt.at:%Y-%m-%d %H:%M}")
    )
    for name, text in (("task", attempt.task), ("tried", attempt.tried), ("error", attempt.error)):
        if text:
            line = Text.assemble((f"{name}: ", "dim"), excerpt(text, EXCERPT_CHARACTERS))
            console.print(Padding(line, (0, 0, 0, 3)))


def events_command(
    resource: Resource,
    thread: ThreadOption,
    agent: Agent = DEFAULT_AGENT,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = SHOWN,
    db: Db = None,
    json: Json = False,
) -> None:
    """List what happened in a conversation, oldest first: turns, learning, failures, what models were asked."""
    events = asyncio.run(_events(db, Scope(agent, resource, thread), limit))
    if json:
        print_json({"events": [{"name": event.name, "at": event.at, "data": event.data} for event in events]})
    elif not events:
        console.print("Nothing is noted of this conversation.")
    else:
        print_table(["time", "event", "details"], [_event_row(event) for event in events])


async def _events(db: str | None, scope: Scope, limit: int) -> list[Event]:
    async with open_memory(db) as memory:
        events = await memory.event_history(scope, limit)
        if not events:
            await check_thread(memory, scope)
        return events


def _event_row(event: Event) -> list[object]:
    style = "red" if event.name.endswith(".failed") else ""
    told = ", ".join(f"{name} {_short(value)}" for name, value in event.data.items() if value not in (None, ""))
    return [f"{event.at:%Y-%m-%d %H:%M:%S}", Text(safe(event.name), style), excerpt(told, EXCERPT_CHARACTERS)]


def _short(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


def episodes_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 20,
    db: Db = None,
    json: Json = False,
) -> None:
    """List the summaries of a user's finished runs, oldest first.

    One is written when a program calls `finish`; agents are shown them in `<episodes>`.
    """
    episodes = asyncio.run(_episodes(db, Scope(agent, resource), limit))
    if json:
        print_json({"episodes": episodes})
        return
    if not episodes:
        console.print("No run was finished yet.")
    for episode in episodes:
        _print_episode(episode)


async def _episodes(db: str | None, scope: Scope, limit: int) -> list[Episode]:
    async with open_memory(db) as memory:
        episodes = await memory.episodes(scope, limit)
        if not episodes:
            await check_known(memory, scope)
        return episodes


def _print_episode(episode: Episode) -> None:
    title = Text.assemble(
        (episode.outcome, OUTCOME_STYLE.get(episode.outcome, "")),
        f"  {episode.timestamp:%Y-%m-%d %H:%M}  thread ",
        (excerpt(episode.thread_id, ID_CHARACTERS), "cyan"),
        (f"  {episode.token_count} tokens", "dim"),
    )
    console.print(title)
    console.print(Padding(Text(excerpt(episode.summary, EXCERPT_CHARACTERS)), (0, 0, 0, 3)))


def threads_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = SHOWN,
    db: Db = None,
    json: Json = False,
) -> None:
    """List a user's conversations, the last used first: id, title, messages, and when they began and went on.

    The title of one that nobody has named is what the user said first. Sub-agents have threads of their
    own, named after the conversation that they work for. With --json all are listed.
    """
    threads = asyncio.run(_threads(db, Scope(agent, resource)))
    newest = sorted(threads, key=lambda thread: thread.updated_at, reverse=True)
    if json:
        print_json({"threads": newest})
    else:
        _print_threads(newest, limit)


async def _threads(db: str | None, scope: Scope) -> list[Thread]:
    async with open_memory(db) as memory:
        threads = await memory.threads(scope)
        if not threads:
            await check_known(memory, scope)
        return threads


def _print_threads(threads: Sequence[Thread], limit: int) -> None:
    if not threads:
        console.print("There are no conversations yet.")
        return
    print_table(
        ["thread", "title", "messages", "began", "last message"],
        [_thread_row(thread) for thread in threads[:limit]],
    )
    if len(threads) > limit:
        console.print(f"… and {len(threads) - limit} more (--limit)")


def _thread_row(thread: Thread) -> list[object]:
    return [
        excerpt(thread.thread_id, ID_CHARACTERS),
        Text(excerpt(thread.title or "", ID_CHARACTERS), "" if thread.named else "dim"),
        thread.message_count,
        f"{thread.created_at:%Y-%m-%d}",
        f"{thread.updated_at:%Y-%m-%d %H:%M}",
    ]

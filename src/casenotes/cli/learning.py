"""`casenotes ledger` and `casenotes worker`: what was learned and refused, and the worker that learns."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.options import Agent, Db, Json, check_exists, open_memory
from casenotes.cli.output import console, errors, excerpt, print_json, safe
from casenotes.config import DEFAULT_AGENT, JobSettings, Settings, effective
from casenotes.errors import UsageError
from casenotes.events import Event
from casenotes.memory import Memory
from casenotes.stores.learning import ReceiptRow
from casenotes.types import CandidateReceipt, Scope

STATUSES = ("stored", "corroborated", "superseded", "quarantined", "rejected")
STYLE = {
    "stored": "green",
    "corroborated": "cyan",
    "superseded": "magenta",
    "rejected": "yellow",
    "quarantined": "red",
}
SELDOM = ("quarantined", "superseded")
SESSION = ("observations", "reflections")
COUNTED = ("stored", "corroborated", "quarantined", "superseded", "rejected")
EXCERPT_CHARACTERS = 300
REASONS = {
    "source_invalid": "there is no such source label",
    "evidence_missing": "no quote was given",
    "evidence_too_short": "too short to prove anything",
    "evidence_not_found": "nobody said that in this turn",
    "evidence_wrong_role": "not said by somebody whom this source label may quote",
    "evidence_in_context": "said before this turn, not in it",
    "echo": "the assistant repeats what memory had shown to it",
    "unsupported": "named by nobody in the conversation",
    "same_turn": "says what an earlier candidate of the turn says; its quote counts there",
    "known": "an entry says so already and has this quote now too",
    "order_to_agent": "reads like an order to an agent",
    "tool_call": "reads like a call of a tool",
    "data_sink": "reads like an order to send data somewhere",
    "delayed_trigger": "reads like an order for later",
    "corrected": "no longer holds; its place was taken by",
    "merged": "made of several entries",
    "dropped": "taken out by the reflector",
    "evidence_not_later": "not said after the entry that it shall correct",
    "evidence_is_a_question": "asks and does not state",
    "correction_is_older": "is older than the entry that it shall correct",
    "unknown_entry": "there is no such entry among those that were shown, or it was dealt with already",
    "merge_loses": "loses a value or a negation of its sources",
    "remembered": "the user asked to keep it",
    "drops_too_much": "no answer may take out more than half of what was shown",
}
"""In words, where the code alone does not say it; other reasons have a detail that does."""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("ledger")(ledger_command)
    app.command("worker")(worker_command)


def ledger_command(
    agent: Agent = DEFAULT_AGENT,
    resource: Annotated[
        str | None, typer.Option("--resource", metavar="ID", help="Only this user or customer. Default: all.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="Only this conversation; needs --resource.")
    ] = None,
    status: Annotated[str | None, typer.Option("--status", help=f"Only these: {', '.join(STATUSES)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 50,
    db: Db = None,
    json: Json = False,
) -> None:
    """List what became of all that a model proposed to remember: stored, corroborated or refused, and why."""
    if status is not None and status not in STATUSES:
        raise UsageError(f"status {status!r} is not one of {', '.join(STATUSES)}")
    if thread is not None and resource is None:
        raise UsageError(f"--thread {thread!r} needs --resource too: thread ids count within a resource")
    rows = asyncio.run(_ledger(db, agent, resource, thread, status, limit))
    if json:
        print_json({"receipts": [receipt_values(row) for row in rows]})
    elif not rows:
        console.print("There are no receipts here. They are written when turns are learned from with a model.")
    else:
        print_receipts(rows)


async def _ledger(
    db: str | None, agent: str, resource: str | None, thread: str | None, status: str | None, limit: int
) -> list[ReceiptRow]:
    async with open_memory(db) as memory:
        if resource is not None:
            scopes = [Scope(agent, resource, thread)]
        else:
            scopes = [size.scope for size in await memory.scopes() if size.agent_id == agent]
        found = [await memory.ledger(scope, status=status, limit=limit) for scope in scopes]
        rows = sorted((row for part in found for row in part), key=lambda row: row.at, reverse=True)
        return rows[:limit]


def receipt_values(row: ReceiptRow) -> dict[str, Any]:
    """A receipt as plain values."""
    receipt = row.receipt
    return {
        "resource": row.scope.resource_id,
        "thread": row.scope.thread_id,
        "turn": row.turn_id,
        "time": row.at,
        "status": receipt.status,
        "reason": receipt.reason,
        "detail": receipt.detail,
        "content": receipt.content,
        "source": receipt.source,
        "quotes": list(receipt.quotes),
        "entry": receipt.entry_id,
    }


def print_receipts(rows: Sequence[ReceiptRow]) -> None:
    """Receipts as a person reads them."""
    for row in rows:
        where = excerpt(f"{row.scope.resource_id} / {row.scope.thread_id}", 60)
        print_receipt(row.receipt, Text.assemble(f"  {row.at:%Y-%m-%d %H:%M}  ", (where, "dim")))


def print_receipt(receipt: CandidateReceipt, about: Text | str = "", indent: int = 0) -> None:
    """What became of one candidate: status and reason, its text, its quotes, and what was wrong."""
    reason = f" ({receipt.reason})" if receipt.reason else ""
    title = Text.assemble((f"{receipt.status}{reason}", STYLE.get(receipt.status, "")), about)
    quotes = [Text(f"“{excerpt(quote, EXCERPT_CHARACTERS)}”", style="dim") for quote in receipt.quotes]
    why = [Text(f"→ {excerpt(words, EXCERPT_CHARACTERS)}")] if (words := _in_words(receipt)) else []
    console.print(Padding(title, (0, 0, 0, indent)))
    for line in (Text(excerpt(receipt.content, EXCERPT_CHARACTERS)), *quotes, *why):
        console.print(Padding(line, (0, 0, 0, indent + 3)))


def _in_words(receipt: CandidateReceipt) -> str:
    """Why it is so; a single quote that is at fault stands above already."""
    words, detail = REASONS.get(receipt.reason, ""), receipt.detail
    if len(receipt.quotes) == 1 and receipt.quotes[0].startswith(detail):
        detail = ""
    return ": ".join(part for part in (words, detail) if part)


def worker_command(
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="provider:name. Default: CASENOTES_MODEL.", show_default=False
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is due any more.")] = False,
    retry_dead: Annotated[
        bool, typer.Option("--retry-dead", help="Try turns again that were given up (`doctor` counts them).")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations worked on at once.")] = 4,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="How often to look for new turns.")] = 2.0,
    db: Db = None,
    json: Json = False,
) -> None:
    """Learn from finished turns and observe long threads, beside the processes that serve users.

    Any number of workers may run on one PostgreSQL store. Interrupt or terminate it to stop: what is
    under way is finished, the rest stays queued.
    """
    jobs = JobSettings(in_process=False, concurrency=concurrency, poll_seconds=poll_seconds)
    counts = asyncio.run(_work(db, model, jobs, once=once, retry_dead=retry_dead, quiet=json))
    if json:
        print_json(counts)
    else:
        console.print(", ".join(f"{name} {count}" for name, count in counts.items()))
    if once and counts["failed"]:
        raise typer.Exit(1)


async def _work(
    db: str | None, model: str | None, jobs: JobSettings, *, once: bool, retry_dead: bool, quiet: bool
) -> Mapping[str, int]:
    environment = effective()
    url = db or environment.database_url
    check_exists(url)
    chosen = model or environment.model
    if not chosen:
        raise UsageError("no model to learn with; give --model provider:name, or set CASENOTES_MODEL")
    settings = Settings(jobs=jobs)
    tally = _Tally(quiet)
    async with Memory.open(url, model=chosen, config=settings, on_event=tally) as memory:
        if retry_dead:
            await memory.retry_dead_letters()
        working = asyncio.create_task(memory.work(once=once))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()
    return tally.counts


class _Tally:
    """Counts what the worker did and tells it line by line."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.counts: Counter[str] = Counter(dict.fromkeys(("turns", *COUNTED, *SESSION, "failed"), 0))

    def __call__(self, event: Event) -> None:
        if event.name == "learning.finished":
            found = {name: event.data[name] for name in COUNTED}
            self.counts.update(found, turns=1)
            told = [f"{name} {n}" for name, n in found.items() if n or name not in SELDOM]
            self._say(event, ", ".join(told))
        elif event.name == "observing.finished":
            self.counts.update(observations=event.data["observations"])
            self._say(event, f"{event.data['observations']} observations of {event.data['messages']} messages")
        elif event.name == "reflecting.finished" and event.data["shrunk"]:
            self.counts.update(reflections=1)
            self._say(
                event, f"observations condensed to {event.data['after']} of {event.data['before']} tokens"
            )
        elif event.name == "learning.failed":
            self.counts["failed"] += 1
            self._say(event, f"failed: {event.data['error']}")

    def _say(self, event: Event, what: str) -> None:
        if not self._quiet:
            where = f"{event.scope.resource_id} / {event.scope.thread_id}" if event.scope else "store"
            errors.print(f"{event.at:%H:%M:%S}  {safe(where)}: {safe(what)}", markup=False)

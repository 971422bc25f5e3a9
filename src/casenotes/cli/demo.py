"""`casenotes demo`: the whole of it in a few seconds, in a throw-away store, with no key and no network."""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import typer

from casenotes.cli.options import Json
from casenotes.cli.output import console, excerpt, heading, print_json, print_table
from casenotes.cli.search import print_hits
from casenotes.clock import FrozenClock
from casenotes.memory import Memory
from casenotes.transfer.importing import import_file
from casenotes.transfer.lines import ReadOptions
from casenotes.types import Hit, Scope

AGENT = "harbour-support"
TODAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
QUESTIONS = (
    ("mira", "the webhook returns 401 again, what was it last time?"),
    ("mira", "ERR_RATE_LIMIT-429"),
    ("mira", "why did the disk of the database host fill up?"),
    ("mira", "証明書"),
    ("jonas", "the webhook returns 401 again, what was it last time?"),
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo")(demo_command)


def demo_command(json: Json = False) -> None:
    """Show what Casenotes does: import sample conversations, run a turn, recall.

    Nothing is kept: the store lies in a temporary directory and is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="casenotes-demo-") as directory:
        result = asyncio.run(_demo(Path(directory)))
    if json:
        print_json(result)
    else:
        _print_demo(result)


async def _demo(directory: Path) -> dict[str, Any]:
    url = f"sqlite:///{directory / 'demo.db'}"
    started = time.perf_counter()
    async with Memory.open(url, clock=FrozenClock(TODAY)) as memory:
        options = ReadOptions(AGENT, None, "demo", UTC, TODAY)
        with resources.as_file(resources.files("casenotes.samples") / "harbour.jsonl") as sample:
            summary = await import_file(memory, sample, options)
        scope = Scope(AGENT, "mira", "today")
        turn = await memory.begin(scope, "The payment webhook answers 401 again, on pay-3 this time.")
        receipt = await memory.complete(turn, "Last time it was clock skew: is chronyd running on pay-3?")
        answers = [
            {"resource": resource, "query": query, "hits": await _recall(memory, resource, query)}
            for resource, query in QUESTIONS
        ]
        return {
            "imported": summary.added,
            "threads": len(summary.threads),
            "turn": {"receipt": receipt, "messages": await memory.history(scope)},
            "answers": answers,
            "checks": await memory.check(),
            "seconds": time.perf_counter() - started,
        }


async def _recall(memory: Memory, resource: str, query: str) -> list[Hit]:
    return await memory.recall(Scope(AGENT, resource), query, top_k=3)


def _print_demo(result: dict[str, Any]) -> None:
    heading("1. Import")
    console.print(
        f"{result['imported']} sample messages of two users, mira and jonas, in {result['threads']} threads."
    )
    heading("2. A turn")
    for message in result["turn"]["messages"]:
        console.print(f"{message.role}: {excerpt(message.text, 100)}", markup=False)
    receipt = result["turn"]["receipt"]
    console.print(f"saved durably: {len(receipt.message_ids)} messages, outcome {receipt.outcome}")
    for number, answer in enumerate(result["answers"], 3):
        heading(f"{number}. recall for {answer['resource']}: {answer['query']}")
        print_hits(answer["hits"])
    heading(f"{len(result['answers']) + 3}. Health of the store")
    print_table(["check", "status", "detail"], [[c.name, c.status, c.detail] for c in result["checks"]])
    console.print(
        f"\nDone in {result['seconds']:.1f} s: no key, no network, nothing downloaded. jonas asked "
        "what mira asked and saw nothing of hers.\n"
        "Next: casenotes import FILE, then casenotes recall QUERY --resource ID"
    )

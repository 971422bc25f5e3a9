"""`casenotes demo`: the whole of it in a few seconds, in a throw-away store, with no key and no network.

Here it is done and gathered; `demo_screen` prints it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import typer

from casenotes.cli.options import Json
from casenotes.cli.output import print_json
from casenotes.clock import FrozenClock
from casenotes.config import Settings
from casenotes.curate.explain import Explanation
from casenotes.errors import StoreError
from casenotes.memory import Memory
from casenotes.samples.recorded import RecordedModel, SampleTurn, SampleTurns, sample_turns
from casenotes.stores.base import Finding
from casenotes.transfer.importing import ImportSummary, import_file
from casenotes.transfer.lines import ReadOptions
from casenotes.types import Hit, Receipt, Scope

AGENT = "harbour-support"
USER, OTHER_USER = "mira", "jonas"
QUESTIONS = (
    (USER, "why did the export to the warehouse stop?"),
    (USER, "ERR_RATE_LIMIT-429"),
    (USER, "証明書"),
    (OTHER_USER, "why did the export to the warehouse stop?"),
)


@dataclass(frozen=True, slots=True)
class LearnedTurn:
    """A turn that was learned from, with what became of every candidate."""

    thread: str
    time: datetime
    user: str
    assistant: str
    receipt: Receipt
    note: str


@dataclass(frozen=True, slots=True)
class NextTurn:
    """A turn after those, and what its model is given."""

    thread: str
    user: str
    context: str
    tokens: int
    tools: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What recall finds for a question."""

    resource: str
    query: str
    hits: Sequence[Hit]


@dataclass(frozen=True, slots=True)
class Demo:
    """All that is shown."""

    imported: int
    threads: int
    worker: str
    turns: Sequence[LearnedTurn]
    next_turn: NextTurn
    answers: Sequence[Answer]
    explained: Explanation
    checks: Sequence[Finding]
    seconds: float


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo")(demo_command)


def demo_command(json: Json = False) -> None:
    """Show what Casenotes does: import sample conversations, learn from turns, refuse, inject, recall, explain.

    No key and no network are needed: what a worker model answers is recorded and ships with the
    samples; everything else is live. Nothing is kept: the store lies in a temporary directory and is
    removed at the end.
    """
    from casenotes.cli.demo_screen import print_demo

    with tempfile.TemporaryDirectory(prefix="casenotes-demo-") as directory:
        demo = asyncio.run(run_demo(Path(directory)))
    if json:
        print_json({field.name: getattr(demo, field.name) for field in fields(demo)})
    else:
        print_demo(demo)


async def run_demo(directory: Path) -> Demo:
    """Do all of it in a new store and gather what there is to show."""
    started = time.perf_counter()
    samples = sample_turns()
    model = RecordedModel([*samples.learned, samples.next])
    clock = FrozenClock(samples.learned[0].time)
    url = f"sqlite:///{directory / 'demo.db'}"
    async with Memory.open(url, model=model, embedder="local", config=Settings(), clock=clock) as memory:
        summary = await _import_samples(memory, clock.now())
        turns = [await _learn(memory, clock, turn) for turn in samples.learned]
        next_turn = await _next_turn(memory, clock, samples)
        return Demo(
            imported=summary.added,
            threads=len(summary.threads),
            worker=model.label,
            turns=turns,
            next_turn=next_turn,
            answers=[await _answer(memory, resource, query) for resource, query in QUESTIONS],
            explained=await _explain(memory, turns[0].receipt),
            checks=await memory.check(),
            seconds=time.perf_counter() - started,
        )


async def _import_samples(memory: Memory, now: datetime) -> ImportSummary:
    options = ReadOptions(AGENT, None, "demo", UTC, now)
    with resources.as_file(resources.files("casenotes.samples") / "harbour.jsonl") as sample:
        return await import_file(memory, sample, options)


async def _learn(memory: Memory, clock: FrozenClock, sample: SampleTurn) -> LearnedTurn:
    """Run a turn as an agent would, and wait for what is learned from it."""
    clock.set(sample.time)
    turn = await memory.begin(Scope(AGENT, USER, sample.thread), sample.user)
    receipt = await memory.complete(turn, sample.assistant, sync=True)
    if receipt.status != "learned":
        raise StoreError(f"the demo could not learn from its turn {sample.thread!r}: {receipt.reason}")
    return LearnedTurn(sample.thread, sample.time, sample.user, sample.assistant, receipt, sample.note)


async def _next_turn(memory: Memory, clock: FrozenClock, samples: SampleTurns) -> NextTurn:
    sample = samples.next
    clock.set(sample.time)
    turn = await memory.begin(Scope(AGENT, USER, sample.thread), sample.user)
    await memory.complete(turn, sample.assistant, sync=True)
    context = turn.context
    tokens = sum(block.tokens for block in context.blocks)
    return NextTurn(sample.thread, sample.user, context.text, tokens, [tool.name for tool in turn.tools])


async def _answer(memory: Memory, resource: str, query: str) -> Answer:
    return Answer(resource, query, await memory.recall(Scope(AGENT, resource), query, top_k=3))


async def _explain(memory: Memory, receipt: Receipt) -> Explanation:
    """The first entry that was stored, with everything it rests on."""
    return await memory.explain(next(str(c.entry_id) for c in receipt if c.status == "stored"))

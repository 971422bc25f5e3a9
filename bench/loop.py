"""The longest time that a call holds the host's event loop.

    python bench/loop.py [--messages 20000] [--rounds 3] [--embedder static] [--url URL]

`held_ms` is the processor time of the longest callback that ran in the loop: what nothing else can have caused.
`pause_ms` is the longest time in which a task that only sleeps for a millisecond was not called; it also
contains what threads do while they hold the interpreter, and what other programs on the machine take. The best
of the rounds counts. `seconds` is how long the call took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from asyncio import events
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corpus import make_texts

from casenotes import Memory, Message, Scope
from casenotes.testing import ScriptedModel
from casenotes.transfer.importing import import_file
from casenotes.transfer.lines import ReadOptions
from casenotes.types import ToolCall, ToolResult

LARGE = 950_000
NAP_SECONDS = 0.001


class Probe:
    """Watches the loop while a call runs."""

    def __init__(self) -> None:
        self.held = 0.0
        self.pause = 0.0
        self._run = events.Handle._run

    def __enter__(self) -> Probe:
        run, probe = self._run, self

        def watched(handle: events.Handle) -> None:
            started = time.thread_time()
            run(handle)
            probe.held = max(probe.held, time.thread_time() - started)

        events.Handle._run = watched  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._nap())
        return self

    def __exit__(self, *error: object) -> None:
        events.Handle._run = self._run  # type: ignore[method-assign]
        self._task.cancel()

    async def _nap(self) -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(NAP_SECONDS)
            self.pause = max(self.pause, time.perf_counter() - started - NAP_SECONDS)


class Report:
    """The best of the rounds, by call."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}

    async def measure(self, name: str, work: Awaitable[Any]) -> Any:
        await asyncio.sleep(0.05)
        with Probe() as probe:
            started = time.perf_counter()
            result = await work
            seconds = time.perf_counter() - started
            await asyncio.sleep(0.01)
        row = {
            "held_ms": round(1000 * probe.held, 1),
            "pause_ms": round(1000 * probe.pause, 1),
            "seconds": round(seconds, 2),
        }
        known = self.rows.setdefault(name, row)
        self.rows[name] = {key: min(value, known[key]) for key, value in row.items()}
        return result


def long_text(seed: int) -> str:
    """Prose in lines, with a letter in every tenth that is not ASCII."""
    lines = make_texts(LARGE // 400, seed=seed, words=60)
    text = "\n".join(line if n % 10 else f"é {line}" for n, line in enumerate(lines))
    return (text * (LARGE // len(text) + 1))[:LARGE]


def conversation_file(place: Path, messages: int, seed: int) -> Path:
    """A conversation of another user as a file."""
    path = place / "conversation.jsonl"
    lines = (
        {"id": f"i{seed}-{n}", "scope": "other", "thread": f"t{n // 40}", "role": "user", "text": text}
        for n, text in enumerate(make_texts(messages, seed=seed + 4))
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def large_messages(memory: Memory, report: Report, seed: int) -> None:
    """A turn of everything that may be large, in a thread of its own, learned from by a model."""
    scope = Scope("bench", "writer", f"large-{seed}")
    turn = await report.measure("begin, 950 kB", memory.begin(scope, long_text(seed)))
    call = Message("assistant", "", parts=(ToolCall("c1", "read", {"path": "/var/log/all"}),))
    result = Message("tool", "", parts=(ToolResult("c1", long_text(seed + 1)),))
    await report.measure("step, tool result of 950 kB", memory.step(turn, [call, result]))
    answer = memory.complete(turn, long_text(seed + 2), sync=True)
    await report.measure("complete and learn, 950 kB", answer)
    await report.measure("flush", memory.flush(timeout=120))


async def one_round(url: str, place: Path, arguments: argparse.Namespace, report: Report, seed: int) -> None:
    texts = [text.upper() for text in make_texts(arguments.messages, seed=seed)]  # unlike all that stays
    reader = Scope("bench", f"reader-{seed}")
    async with Memory.open(
        url, embedder=arguments.embedder, model=ScriptedModel(lambda _request: {})
    ) as memory:
        await memory.recall(reader, "a first question")  # loads what is loaded once
        await large_messages(memory, report, seed)
        for start in range(0, len(texts), 500):
            scope = Scope("bench", f"reader-{seed}", f"t{start}")
            await memory.append(scope, [Message("user", text) for text in texts[start : start + 500]])
    async with Memory.open(url, embedder=arguments.embedder) as memory:
        await memory.recall(Scope("bench", "nobody"), "a first question")
        await report.measure(f"first recall, {len(texts)} messages", memory.recall(reader, texts[7]))
        options = ReadOptions("bench", None, "t", UTC, datetime.now(UTC))
        path = conversation_file(place, arguments.messages // 4, seed)
        await report.measure(f"import, {arguments.messages // 4} messages", import_file(memory, path, options))
        await report.measure(f"erase, {len(texts)} messages", memory.erase(reader))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedder", default="static")
    parser.add_argument(
        "--url", help="PostgreSQL database, empty; default: a SQLite file in a temporary folder"
    )
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory).resolve()
        for number in range(arguments.rounds):
            url = arguments.url or f"sqlite:///{place / f'loop-{number}.db'}"
            asyncio.run(one_round(url, place, arguments, report, 10 * number))
    print(json.dumps(report.rows, indent=2))


if __name__ == "__main__":
    main()

"""What all layers together cost in front of a model call: `begin` against one recall with its embedding.

    python bench/context.py [--entries 10000] [--messages 500] [--turns 60] [--embedder static] [--url URL]

The scope has entries, a profile, a plan, run summaries and a long thread; semantic recall is on. In every
round the same scope is recalled and a turn is begun, in changing order and with different questions, so that
both figures come from the same moments. The durable save of the input is reported apart. The aim is
`begin` without the save <= 2 x recall + 5 ms; `step` is what every further call of the turn takes.

At the end one turn makes many tool calls, and every prompt is compared with the one before it:
`loop_same_prefix` is the share of all prompt characters that a provider's cache would have known,
`loop_same_before_tail` the share of what stood before the volatile blocks of the prompt before.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from corpus import make_texts

from casenotes import Context, Memory, Message, Scope, Settings, ToolCall, ToolResult
from casenotes.config import ProfileSettings, SemanticRecallSettings
from casenotes.models.embed import embed_texts, pack_vectors
from casenotes.prompt import openai_messages
from casenotes.stores.base import TurnMark
from casenotes.stores.learning import Learned, NewEntry
from casenotes.types import Evidence

OWNER = Scope("bench", "user")
THREAD = Scope("bench", "user", "long")
ALL_LAYERS = Settings(
    semantic_recall=SemanticRecallSettings(True), profile=ProfileSettings(max_characters=20_000)
)
START = datetime(2026, 1, 1, tzinfo=UTC)
ROOM_MS = 5.0
LOOP_STEPS = 40


async def fill(memory: Memory, entries: int, messages: int) -> None:
    """Everything that layers can show."""
    texts = make_texts(messages, seed=3)
    roles = ("user", "assistant")
    said = [Message(roles[n % 2], text, id=f"m{n}", created_at=START) for n, text in enumerate(texts)]
    await memory.append(THREAD, said)
    await fill_entries(memory, make_texts(entries, seed=4), said[0])
    for number in range(20):
        await memory.update_profile(THREAD, f"Preferences/Wish {number}", "set", texts[number][:120])
    steps = [{"text": texts[number][:100], "status": "pending"} for number in range(12)]
    await memory.update_plan(THREAD, goal="Measure", steps=steps)
    for number in range(20):
        run = Scope("bench", "user", f"run-{number}")
        await memory.append(run, [Message("user", texts[number]), Message("assistant", texts[-number])])
        await memory.finish(run)
    await memory.embed_missing(OWNER)
    await memory.recall(OWNER, texts[0])


async def fill_entries(memory: Memory, texts: list[str], source: Message) -> None:
    """Entries as learning would leave them, without asking a model for each."""
    store, space = memory._store, memory._space.current
    mark = TurnMark("filled", "open", START)
    await store.append(THREAD, [], mark)
    await store.append(THREAD, [], TurnMark("filled", "success", START, learners=("memory",)))
    lease = await store.jobs.acquire(THREAD, "extract", "bench", 600)
    assert lease is not None
    assert space.embedder is not None
    vectors = await embed_texts(space.embedder, texts)
    quote = Evidence(str(source.id), 0, 20, source.text[:20])
    new = [
        NewEntry(
            f"e{number:07}",
            text,
            hashlib.sha256(f"{number} {text}".encode()).hexdigest(),
            "user_assertion",
            True,
            source.id,
            START + timedelta(minutes=number),
            [quote],
            vector,
        )
        for number, (text, vector) in enumerate(zip(texts, pack_vectors(vectors), strict=True))
    ]
    assert await store.entries.save(
        THREAD, lease, Learned("filled", new, [], [], space.record.id, 10**9, START)
    )
    await store.jobs.release(lease)


async def measure(url: str, arguments: argparse.Namespace) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    async with Memory.open(url, model="", embedder=arguments.embedder, config=ALL_LAYERS) as memory:
        await fill(memory, arguments.entries, arguments.messages)
        texts = make_texts(2 * arguments.turns, seed=6)
        for number in range(arguments.turns):
            await one_round(memory, number, texts[2 * number : 2 * number + 2], times)
        whole, before = await same_prefix(memory, texts)
        times["loop_same_prefix"], times["loop_same_before_tail"] = [whole], [before]
    return times


async def same_prefix(memory: Memory, texts: list[str]) -> tuple[float, float]:
    """One turn of many steps, in which the plan is changed now and then."""
    under_way = await memory.begin(THREAD, "Look at all of these, one after the other.")
    prompts, bare = [rendered(under_way.context)], [without_tail(under_way.context)]
    for number, text in enumerate(texts[:LOOP_STEPS]):
        call = Message("assistant", "", parts=(ToolCall(f"c{number}", "look", {"at": text[:40]}),))
        result = Message("tool", "", parts=(ToolResult(f"c{number}", text),))
        if number % 5 == 4:
            plan = await memory.plan(THREAD)
            assert plan is not None
            await memory.update_plan(THREAD, phase=f"step {number}", version=plan.version)
        context = await memory.step(under_way, [call, result])
        prompts.append(rendered(context))
        bare.append(without_tail(context))
    await memory.complete(under_way, "Done.")
    common = [same_beginning(*pair) for pair in pairwise(prompts)]
    return sum(common) / sum(map(len, prompts[1:])), sum(common) / sum(map(len, bare[:-1]))


def same_beginning(first: str, second: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))


def rendered(context: Context) -> str:
    return json.dumps(openai_messages(context, "You are a careful assistant."), ensure_ascii=False)


async def one_round(memory: Memory, number: int, texts: list[str], times: dict[str, list[float]]) -> None:
    await memory.flush(OWNER)
    if number % 2:
        await recall(memory, texts[0], times)
        await turn(memory, texts[1], times)
    else:
        await turn(memory, texts[1], times)
        await recall(memory, texts[0], times)


async def recall(memory: Memory, text: str, times: dict[str, list[float]]) -> None:
    started = time.perf_counter()
    await memory.recall(OWNER, text)
    times["recall"].append(1000 * (time.perf_counter() - started))


async def turn(memory: Memory, text: str, times: dict[str, list[float]]) -> None:
    started = time.perf_counter()
    under_way = await memory.begin(THREAD, text)
    whole = 1000 * (time.perf_counter() - started)
    trace = under_way.context.trace
    times["begin_save"].append(1000 * trace["seconds"]["save"])
    times["begin"].append(whole - times["begin_save"][-1])
    for name, layer in trace["layers"].items():
        times[f"layer_{name}"].append(1000 * layer["seconds"])
    times["block_tokens"].append(trace["tokens"]["blocks"])
    times["blocks"].append(len(under_way.context.blocks))
    call = Message("assistant", "", parts=(ToolCall("c1", "look", {"at": text[:40]}),))
    result = Message("tool", "", parts=(ToolResult("c1", text),))
    started = time.perf_counter()
    context = await memory.step(under_way, [call, result])
    save = context.trace["seconds"]["save"]
    times["step"].append(1000 * (time.perf_counter() - started - save))
    await memory.complete(under_way, "Done.")


def without_tail(context: Context) -> str:
    stable = tuple(block for block in context.blocks if block.stable)
    return rendered(replace(context, blocks=stable)).removesuffix('"}]')


def report(times: dict[str, list[float]]) -> dict[str, float | bool]:
    result: dict[str, float | bool] = {}
    for name, values in times.items():
        unit = "" if name in ("block_tokens", "blocks") else "_ms"
        result[f"{name}{unit}"] = round(median(values), 2)
        if unit and len(values) > 1:
            result[f"{name}_p95_ms"] = round(quantiles(values, n=20)[-1], 2)
    for name in ("loop_same_prefix", "loop_same_before_tail"):
        result[name] = result.pop(f"{name}_ms")
    limit = 2 * median(times["recall"]) + ROOM_MS
    result["limit_ms"] = round(limit, 2)
    result["begin_over_limit"] = round(median(times["begin"]) / limit, 2)
    result["within_limit"] = median(times["begin"]) <= limit
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=500, help="in the thread before the first turn")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--url", help="PostgreSQL database, empty; default: a temporary SQLite file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        url = arguments.url or f"sqlite:///{Path(directory).resolve() / 'context.db'}"
        print(json.dumps(report(asyncio.run(measure(url, arguments))), indent=1))


if __name__ == "__main__":
    main()

"""An Observer that stops dead at one step of each batch until a line comes in; prints what became of it.

Arguments: the store, the step (`model` or `save`), and which guards of the store to take out, so that a test
can show that it would notice: `fence` lets a worker write that has lost its lease, `all` also from a cursor
that has moved on, under names that the same rows do not have.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

from work_when_told import DO_NOTHING, change, wait_for_a_line, without_fence

from casenotes import EpisodicSettings, Memory, Settings
from casenotes.config import JobSettings, ObservationalSettings, StorageSettings
from casenotes.events import Event
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

TTL_MS = 300
SETTINGS = Settings(
    episodic=EpisodicSettings(enabled=False),
    observational=ObservationalSettings(
        observer_threshold_tokens=400, lock_ttl_ms=TTL_MS, idle_flush_seconds=0, breaker_failures=1_000
    ),
    jobs=JobSettings(in_process=False, poll_seconds=0.02, first_retry_seconds=0.05),
    storage=StorageSettings(idle_transaction_seconds=5),
)


def answer(worker: str, request: ChatRequest) -> dict[str, Any]:
    """One row for every message that was read, in words that tell who has read it."""
    inner = request.prompt.split("<untrusted-transcript>\n")[1].split("\n</untrusted-transcript>")[0]
    read = [f"{worker} read {row['text']}" for row in json.loads(inner)]
    return {"observations": [{"text": text} for text in read], "session": {"state": worker}}


def without(store: Any, guards: str) -> None:
    """Say yes to whoever asks for the lease; with `all`, write from wherever the cursor was seen."""
    without_fence(store)
    if guards == "all":
        seen = ":seen" if isinstance(store._sql["move_cursor"], str) else "%(seen)s"
        change(store, "move_cursor", f" AND observed_seq = {seen}", "")
        for name in ("insert_batch", "insert_observation"):
            change(store, name, "", DO_NOTHING)


def tell(event: Event) -> None:
    if event.name == "observing.finished":
        print("finished", flush=True)
    elif event.name == "learning.failed":
        print("failed", event.data["error"], flush=True)


async def main(url: str, step: str, guards: str) -> None:
    def respond(request: ChatRequest) -> dict[str, Any]:
        if step == "model":
            wait_for_a_line(step)
        return answer("first", request)

    model, embedder = ScriptedModel(respond), HashEmbedder(32)
    async with Memory.open(url, model=model, embedder=embedder, config=SETTINGS, on_event=tell) as memory:
        save = memory._store.observations.save
        seen: set[Any] = set()

        async def saved(lease: Any, observed: Any) -> bool:
            if step == "save" and lease.scope not in seen:
                seen.add(lease.scope)
                wait_for_a_line(step)
            if guards == "all":
                rows = [replace(row, id=f"other-{row.id}") for row in observed.rows]
                observed = replace(observed, rows=rows)
            done: bool = await save(lease, observed)
            if not done:
                print("refused", flush=True)
            return done

        memory._store.observations.save = saved
        if guards:
            without(memory._store, guards)
        await memory.work()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

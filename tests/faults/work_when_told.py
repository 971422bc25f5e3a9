"""A worker that stops dead at one step of each turn until a line comes in; prints what became of the turn.

Arguments: the store, the step (`model` or `save`), and which guards of the store to take out, so that a
test can show that it would notice: `fence`, or `all`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from casenotes import EpisodicSettings, Memory, Settings
from casenotes.config import JobSettings, StorageSettings
from casenotes.events import Event
from casenotes.testing import HashEmbedder, ScriptedModel

LEASE_SECONDS = 0.3
SETTINGS = Settings(
    episodic=EpisodicSettings(dedupe_similarity_threshold=False),
    jobs=JobSettings(
        in_process=False, lease_seconds=LEASE_SECONDS, poll_seconds=0.02, first_retry_seconds=0.05
    ),
    storage=StorageSettings(idle_transaction_seconds=2),
)
SAID = "The fuse of the crane had blown at noon."


DO_NOTHING = "ON CONFLICT DO NOTHING"


def answer(worker: str) -> dict[str, Any]:
    """Each worker has words of its own for what was said."""
    content = f"The {worker} worker heard that a fuse had blown"
    return {"entries": [{"content": content, "source": "user_assertion", "evidence": SAID}]}


def wait_for_a_line(step: str) -> None:
    """The whole process stands still, and renews no lease."""
    print("at", step, flush=True)
    sys.stdin.readline()


async def renew(*_values: object) -> bool:
    return True


def without(store: Any, guards: str) -> None:
    """Say yes to whoever asks for the lease; with `all`, learn once more from a turn that is done."""
    without_fence(store)
    if guards == "all":
        change(store, "turn_learned", "learning IN ('queued', 'dead') AND ", "1 = 1 OR ")
        change(store, "insert_receipt", "", DO_NOTHING)


def without_fence(store: Any) -> None:
    """Whoever asks has the lease, and keeps it."""
    store.jobs.renew = renew
    change(store, "holds_lease", " WHERE ", " WHERE 1 = 1 OR ")


def change(store: Any, name: str, old: str, new: str) -> None:
    """Other words in a statement of either store; without old ones the new ones go behind it."""
    known = store._sql[name]
    statement = known if isinstance(known, str) else known.decode()
    assert old in statement, statement
    changed = statement.replace(old, new) if old else f"{statement.rstrip()} {new}"
    store._sql[name] = changed if isinstance(known, str) else changed.encode()


def tell(event: Event) -> None:
    if event.name in ("learning.finished", "learning.failed"):
        print(event.name.split(".")[1], event.data.get("error", ""), flush=True)


async def main(url: str, step: str, guards: str) -> None:
    def respond(_request: object) -> dict[str, Any]:
        if step == "model":
            wait_for_a_line(step)
        return answer("first")

    model, embedder = ScriptedModel(respond), HashEmbedder(32)
    async with Memory.open(url, model=model, embedder=embedder, config=SETTINGS, on_event=tell) as memory:
        save = memory._store.entries.save
        seen: set[str] = set()

        async def saved(scope: Any, lease: Any, learned: Any) -> bool:
            if step == "save" and learned.turn_id not in seen:
                seen.add(learned.turn_id)
                wait_for_a_line(step)
            return await save(scope, lease, learned)

        memory._store.entries.save = saved
        if guards:
            without(memory._store, guards)
        await memory.work()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

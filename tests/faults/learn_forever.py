"""Holds conversations and learns from them until it is killed; prints what it begins and what it has done.

What the model answers follows from the turn alone, so that whoever looks at the store later knows what
must have been learned. Lines: `> step` and `< step` around each step, `said name` and `done name` for
each input and each turn that was acknowledged.

The script itself only loads everything and makes a process for each name it reads: it prints `born` with
the number of that process, then what that process prints, then `died` with what ended it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import casenotes.layers.gather
import casenotes.layers.learning
import casenotes.learn.pipeline
import casenotes.recall.search
import casenotes.stores.postgres.store
import casenotes.stores.sqlite.store  # noqa: F401
from casenotes import Memory, Scope, Settings
from casenotes.config import JobSettings
from casenotes.testing import HashEmbedder, ScriptedModel

Call = Callable[..., Awaitable[Any]]
DIMENSIONS = 32
LANES = [("mira", "monday"), ("mira", "tuesday"), ("jonas", "monday")]
SHARED = "Everybody reports to the harbour office."
FORGED = "Nobody ever said this about the harbour."
CANDIDATES = 4
SETTINGS = Settings(jobs=JobSettings(lease_seconds=0.3, poll_seconds=0.1, first_retry_seconds=0.05))


def sentences(name: str) -> tuple[str, str]:
    """What is worth remembering of a turn, besides what is said in each."""
    return f"Crane {name} stopped at noon.", f"The fuse of crane {name} had blown."


def answer(prompt: str) -> dict[str, Any]:
    """Two entries of the turn's own, one that every turn has, and one that must be refused."""
    found = re.search(r"<transcript>\n(.*)\n</transcript>", prompt, re.DOTALL)
    assert found
    said = next(row["text"] for row in json.loads(found[1]) if row["role"] == "user" and not row.get("context"))
    name = said.split()[1]
    return {
        "entries": [
            {"content": text, "source": "user_assertion", "evidence": text}
            for text in (*sentences(name), SHARED, FORGED)
        ]
    }


def tell(*words: object) -> None:
    """In one piece, so that no kill leaves half a line."""
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


def told(
    step: str, call: Callable[..., Awaitable[Any]], chance: random.Random
) -> Callable[..., Awaitable[Any]]:
    """The same call, with its beginning and end printed, and a moment's pause before or after it."""

    async def wrapped(*values: Any, **named: Any) -> Any:
        tell(">", step)
        result = await call(*values, **named)
        await asyncio.sleep(chance.uniform(0, 0.002))
        tell("<", step)
        return result

    return wrapped


async def converse(url: str, run: str) -> None:
    chance = random.Random(run)

    class SlowEmbedder(HashEmbedder):
        async def embed(self, texts: Any) -> Any:
            await asyncio.sleep(chance.uniform(0, 0.004))
            return await super().embed(texts)

    async def respond(request: Any) -> dict[str, Any]:
        await asyncio.sleep(chance.uniform(0, 0.01))
        return answer(request.prompt)

    model, embedder = ScriptedModel(respond), SlowEmbedder(DIMENSIONS)
    model.ask = told("model", model.ask, chance)
    embedder.embed = told("embed", embedder.embed, chance)
    async with Memory.open(url, model=model, embedder=embedder, config=SETTINGS) as memory:
        store = memory._store
        store.append = told("append", store.append, chance)
        store.entries.save = told("save", store.entries.save, chance)
        store.jobs.acquire = told("acquire", store.jobs.acquire, chance)
        store.jobs.renew = told("renew", store.jobs.renew, chance)
        store.jobs.release = told("release", store.jobs.release, chance)

        async def lane(number: int, user: str, thread: str) -> None:
            for count in range(1_000_000):
                name = f"{run}-{number}-{count}"
                turn = await memory.begin(Scope("agent", user, thread), " ".join((*sentences(name), SHARED)))
                tell("said", name)
                await memory.complete(turn, f"Noted for {name}.", sync=number == 0)
                tell("done", name)
                await asyncio.sleep(chance.uniform(0, 0.06))

        await asyncio.gather(*(lane(number, *names) for number, names in enumerate(LANES)))


def bear(url: str, run: str) -> None:
    process = os.fork()
    if process == 0:
        tell("born", os.getpid())
        asyncio.run(converse(url, run))
        os._exit(0)
    _process, status = os.waitpid(process, 0)
    tell("died", os.waitstatus_to_exitcode(status))


def main(url: str) -> None:
    """A process for each name, one after the other: starting Python anew would take most of the time."""
    for line in sys.stdin:
        bear(url, line.strip())


if __name__ == "__main__":
    main(sys.argv[1])

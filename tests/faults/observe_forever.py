"""Goes on with one conversation and observes it until it is killed; prints every turn that was acknowledged."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from casenotes import EpisodicSettings, Memory, Message, Scope, Settings
from casenotes.config import JobSettings, ObservationalSettings
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

SCOPE = Scope("agent", "user", "long")
SETTINGS = Settings(
    last_messages=4,
    episodic=EpisodicSettings(enabled=False),
    observational=ObservationalSettings(
        observer_threshold_tokens=600, reflector_threshold_tokens=400, lock_ttl_ms=300, idle_flush_seconds=0
    ),
    jobs=JobSettings(poll_seconds=0.1, first_retry_seconds=0.05),
)


def respond(request: ChatRequest) -> Any:
    """One row for every message that was read; the older half goes when the log is condensed."""
    import json

    if request.task == "observe":
        inner = request.prompt.split("<untrusted-transcript>\n")[1].split("\n</untrusted-transcript>")[0]
        return {"observations": [{"text": f"read {row['text'].split()[0]}"} for row in json.loads(inner)]}
    names = [row["id"] for row in json.loads(request.prompt.split("<notes>\n")[1].split("\n</notes>")[0])]
    return {"drop": names[: len(names) // 2]}


async def main(url: str, first: int) -> None:
    model, embedder = ScriptedModel(respond), HashEmbedder(16)
    async with Memory.open(url, model=model, embedder=embedder, config=SETTINGS) as memory:
        for number in range(first, first + 10_000):
            turn = await memory.begin(SCOPE, f"q{number} " + "word " * 30)
            await memory.step(turn, [Message("assistant", f"s{number} " + "word " * 30)])
            await memory.complete(turn, f"a{number} " + "word " * 30)
            print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""Appends messages until it is killed; prints the number of each one that was acknowledged."""

import asyncio
import sys

from casenotes import Memory, Message, Scope
from casenotes.testing import HashEmbedder


async def main(url: str, first: int) -> None:
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        print("ready", flush=True)

        async def caller(lane: int) -> None:
            scope = Scope("agent", "user", f"thread-{lane}")
            for n in range(1_000_000):
                name = f"{first}-{lane}-{n}"
                await memory.append(
                    scope,
                    [Message("user", f"part {p} of {name}", id=f"{name}-{p}") for p in (0, 1)],
                )
                print(name, flush=True)

        await asyncio.gather(*(caller(lane) for lane in range(4)))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""Opens a store twice, erases somebody, then appends until it is killed; prints what was acknowledged."""

import asyncio
import sys

from casenotes import Memory, Message, Scope
from casenotes.testing import HashEmbedder


async def main(url: str, name: str) -> None:
    async with Memory.open(url, embedder=HashEmbedder(32)) as memory:
        async with Memory.open(url, embedder=HashEmbedder(32)):
            await memory.append(Scope("agent", name, "t"), "The boiler of house 7 leaks.")
            await memory.erase(Scope("agent", name))
        print("ready", flush=True)
        for n in range(1_000_000):
            await memory.append(Scope("agent", "user", name), [Message("user", f"part {n}", id=f"{name}-{n}")])
            print(f"{name}-{n}", flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2]))

"""Appends values to one profile, one after the other; waits for a line after the first."""

import asyncio
import sys

from casenotes import Memory, Scope, Settings
from casenotes.config import ProfileSettings
from casenotes.testing import HashEmbedder

SETTINGS = Settings(profile=ProfileSettings(max_characters=100_000))
SCOPE = Scope("agent", "user", "thread")
FIELD = "Instance Knowledge/Key workflows"


def values(name: str, count: int) -> list[str]:
    return [f"workflow {name}-{n}" for n in range(count)]


async def main(url: str, name: str, count: int) -> None:
    async with Memory.open(url, model="", embedder=HashEmbedder(32), config=SETTINGS) as memory:
        for number, value in enumerate(values(name, count)):
            await memory.update_profile(SCOPE, FIELD, "append", value)
            if not number:
                print("begun", flush=True)
                sys.stdin.readline()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""Does with a store what applications and commands do, and prints which of its files Python opened itself."""

import asyncio
import os
import sys
from pathlib import Path

from typer.testing import CliRunner

from casenotes import Memory, Scope
from casenotes.cli.app import app
from casenotes.testing import HashEmbedder

path = Path(sys.argv[1])
url = f"sqlite:///{path}"
scope = Scope("agent", "mira", "monday")
opened = []


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        name = os.fsdecode(arguments[0])
        if Path(name).name.startswith(path.name):
            opened.append("created" if int(arguments[2]) & os.O_EXCL else f"opened {Path(name).name}")


async def main() -> None:
    async with Memory.open(url, embedder=HashEmbedder(16)) as memory:
        async with Memory.open(url, embedder=HashEmbedder(16)) as other:
            await other.complete(await other.begin(scope, "The boiler of house 7 leaks."), "I see.", sync=True)
        await memory.recall(scope, "boiler")
        await memory.stats()
        await memory.check()
        await memory.reembed(HashEmbedder(24))
        await memory.erase(Scope("agent", "nobody"))
        await memory.erase(Scope("agent", "mira"))


async def beside() -> None:
    """Commands in the process of an application that has the store open."""
    async with Memory.open(url, embedder=HashEmbedder(24)) as memory:
        await memory.append(scope, "The boiler of house 7 leaks.")
        for command in (
            ["stats"],
            ["doctor"],
            ["export", "-o", str(path.with_name("export.jsonl"))],
            ["import", str(path.with_name("export.jsonl"))],
            ["audit"],
            ["recall", "boiler", "--agent", "agent", "--resource", "mira"],
            ["erase", "--agent", "agent", "--resource", "mira", "--yes"],
        ):
            result = await asyncio.to_thread(CliRunner().invoke, app, [*command, "--db", url, "--json"])
            assert result.exit_code in (0, 1), (command, result.output)


sys.addaudithook(watch)
asyncio.run(main())
asyncio.run(beside())
print("\n".join(opened))

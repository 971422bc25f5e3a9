"""`casenotes reembed`: change the embedder of a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer

from casenotes.cli.options import Db, Json, check_exists
from casenotes.cli.output import console, print_json, progress_bar
from casenotes.config import effective
from casenotes.stores.base import Store, active_space


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("reembed")(reembed_command)


def reembed_command(
    embedder: Annotated[
        str,
        typer.Argument(
            help="local (the best installed), minilm+static, minilm, static, or a hosted one as provider:model."
        ),
    ] = "local",
    db: Db = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    json: Json = False,
) -> None:
    """Make all vectors anew with another embedder and switch to them at one stroke.

    Recall keeps working meanwhile with the old vectors; they are removed after the switch. A run that
    was stopped or killed is finished by repeating it. The old embedder is not needed.
    """
    result = asyncio.run(_reembed(embedder, db, dry_run, show_progress=not json))
    if json:
        print_json(result)
    else:
        _print_result(result)


async def _reembed(name: str, db: str | None, dry_run: bool, show_progress: bool) -> dict[str, Any]:
    from casenotes.recall.reembed import reembed
    from casenotes.recall.space import embedder_to_change_to

    async with _opened(db) as store:
        active = active_space(await store.spaces())
        target = await embedder_to_change_to(store, name)
        about = {"store": store.location, "from": active.model if active else None, "to": target.label}
        if dry_run:
            return {**about, "messages": (await store.stats()).messages, "dry_run": True}
        started = time.perf_counter()
        with progress_bar(show_progress) as bar:
            task = bar.add_task("embedding", total=None) if bar else None

            def show(done: int, total: int) -> None:
                if bar is not None and task is not None:
                    bar.update(task, completed=done, total=total)

            done = await reembed(store, target, show)
        counts = {"embedded": done.embedded, "unusable": done.unusable, "removed": done.removed}
        return {**about, **counts, "seconds": time.perf_counter() - started}


@asynccontextmanager
async def _opened(db: str | None) -> AsyncIterator[Store]:
    """The store without an embedder of its own: the one it was made with may be gone."""
    from casenotes.stores import create_store

    url = db or effective().database_url
    check_exists(url)
    store = create_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _print_result(result: dict[str, Any]) -> None:
    change = f"{result['from'] or 'nothing'} -> {result['to']}"
    if result.get("dry_run"):
        console.print(f"{change}: {result['messages']} messages would be embedded anew.", markup=False)
        return
    console.print(
        f"{change}: {result['embedded']} vectors made, {result['removed']} old ones removed "
        f"in {result['seconds']:.1f} s. {result['store']} is in the new space.",
        markup=False,
    )
    if result["unusable"]:
        console.print(f"{result['unusable']} texts have no usable vector; they are found by their words.")

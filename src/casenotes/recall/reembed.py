"""Change the embedder of a whole store: new vectors side by side, one switch, then the old ones go.

Every step can be repeated. Killed while embedding, the store is in its old space and the next call
embeds what is missing; killed after the switch, it is in the new one and the next call removes what
is left of the old. Recall uses the active space all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from casenotes.errors import EmbeddingError, StoreError
from casenotes.models.embed import Embedder, Space, embed_texts
from casenotes.recall.vectors import BATCH, make_vectors
from casenotes.stores.base import Finding, ScopeSize, SpaceRecord, Store, Unembedded, active_space
from casenotes.types import Scope

SCOPES_AT_ONCE = 4
DROPPED_AT_ONCE = 2_000
PASSES_BEFORE_THE_SWITCH = 3
LEFT_FOR_LATER = 256
"""A busy store always has new messages: the switch does not wait for the last few."""

PROBE = "a short text to see whether the embedder works"
Progress = Callable[[int, int], None]
"""Gets the messages and entries done so far and all there are."""


@dataclass(slots=True)
class Reembedded:
    """What changing the embedder did in this call."""

    model: str
    dimensions: int
    embedded: int = 0
    unusable: int = 0
    removed: int = 0


@dataclass(slots=True)
class _Run:
    """One pass over all scopes, with what it counts."""

    store: Store
    embedder: Embedder
    space: SpaceRecord
    result: Reembedded
    progress: Progress
    total: int = 0
    done: int = 0
    unusable: set[tuple[Scope, str]] = field(default_factory=set)

    def advance(self, items: int) -> None:
        self.done += items
        self.progress(min(self.done, self.total), self.total)


async def reembed(store: Store, embedder: Embedder, progress: Progress) -> Reembedded:
    """Give every message and entry a vector of that embedder, switch to them, and remove all others."""
    await embed_texts(embedder, [PROBE])  # one that does not work at all must not begin
    wanted = Space.of(embedder)
    space = await store.add_space(*wanted.key)
    result = Reembedded(wanted.model, wanted.dimensions)
    run = _Run(store, embedder, space, result, progress)
    for _ in range(PASSES_BEFORE_THE_SWITCH):  # more than one for what is said meanwhile
        if await _fill_all(run) <= LEFT_FOR_LATER:
            break
    if not space.active:
        _check_usable(run)
        await store.activate_space(space.id)
        await _fill_all(run)
    result.unusable = len(run.unusable)
    result.removed = await _drop_others(store, space.id)
    return result


def _check_usable(run: _Run) -> None:
    if 2 * len(run.unusable) > run.total:
        raise EmbeddingError(
            f"{len(run.unusable)} of {run.total} messages and entries have no usable vector from "
            f"{run.space.model!r}; nothing was switched"
        )


async def _fill_all(run: _Run) -> int:
    """Make the vectors that are missing in every scope; says how many."""
    sizes = await run.store.scopes()
    run.total, run.done = sum(size.items for size in sizes), 0
    before = run.result.embedded
    waiting = iter(sizes)

    async def work() -> None:
        for size in waiting:  # shared by all workers
            await _fill_scope(run, size)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(SCOPES_AT_ONCE):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return run.result.embedded - before


async def _fill_scope(run: _Run, size: ScopeSize) -> None:
    """At most as many items as there were at the beginning: what is said meanwhile has its turn later."""
    last: Unembedded | None = None
    looked_at = embedded = 0
    while looked_at < size.items:
        missing = await run.store.unembedded(size.scope, run.space.id, BATCH, last)
        if not missing:
            break
        saved = await _fill_batch(run, size.scope, missing)
        looked_at, last = looked_at + len(missing), missing[-1]
        embedded += saved
        run.result.embedded += saved
        run.advance(saved)
    run.advance(max(0, size.items - embedded))


async def _fill_batch(run: _Run, scope: Scope, items: Sequence[Unembedded]) -> int:
    texts = [item for item in items if item.text.strip()]
    made = await make_vectors(run.embedder, texts, speakers=run.space.speakers)
    saved = await run.store.put_vectors(scope, run.space.id, made.rows)
    if made.rows and not saved:
        await _check_space_exists(run)
    run.unusable |= {(scope, item.id) for item, _ in made.unusable}
    return saved


async def _check_space_exists(run: _Run) -> None:
    """Vectors that the store does not take may mean that another call has removed the space."""
    if run.space.id not in {space.id for space in await run.store.spaces()}:
        raise StoreError("another process has changed the embedder meanwhile; look which one it should be")


async def _drop_others(store: Store, space_id: int) -> int:
    """Remove the vectors of all other spaces in small steps, then the spaces."""
    others = [space for space in await store.spaces() if space.id != space_id]
    scopes = [size.scope for size in await store.scopes()] if others else []
    removed = 0
    for space in others:
        removed += sum([await _drop_vectors(store, scope, space) for scope in scopes])
        await store.drop_space(space.id)
    return removed


async def _drop_vectors(store: Store, scope: Scope, space: SpaceRecord) -> int:
    removed = 0
    while count := await store.drop_vectors(scope, space.id, DROPPED_AT_ONCE):
        removed += count
    return removed


def space_finding(spaces: Sequence[SpaceRecord]) -> Finding:
    """What a health check says about the store's embedding spaces."""
    active = active_space(spaces)
    others = [space.model for space in spaces if not space.active]
    if others:
        return Finding(
            "embedding space",
            "warning",
            f"a change of embedder was not finished: {active.model if active else 'none'} is in use, "
            f"vectors of {', '.join(others)} are there too",
            "run `casenotes reembed NAME` with the embedder you want",
        )
    if active and not active.speakers:
        return Finding(
            "embedding space",
            "warning",
            f"{active.model}: made before names of speakers were searched; they are shown only",
            "run `casenotes reembed` with the same embedder to search them too",
        )
    return Finding(
        "embedding space", "ok", f"{active.model} ({active.dimensions} dimensions)" if active else "none"
    )

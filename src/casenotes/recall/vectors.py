"""Keep every item's vector in the store: after saving, on import, and where one is missing.

Messages are saved before they are embedded, so a slow or failing embedder can neither delay nor
lose what was said. An item without vector is still found by its words. What is embedded has its
secrets masked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from casenotes.errors import BadVector
from casenotes.events import Events
from casenotes.models.embed import Embedder, embed_texts, pack_vectors
from casenotes.recall.space import SpaceInUse
from casenotes.speakers import name_of, searched_text
from casenotes.stores.base import Store, Unembedded, VectorRow
from casenotes.tasks import compute, end
from casenotes.types import Entry, HitKind, Message, Scope

BATCH = 256
MAX_CONCURRENT_EMBEDDINGS = 4
Tasks = dict[asyncio.Task[int], Scope]


class VectorFiller:
    """Embeds messages and saves their vectors, in the background or while the caller waits."""

    def __init__(self, store: Store, space: SpaceInUse, events: Events) -> None:
        self._store = store
        self._space = space
        self._events = events
        self._tasks: Tasks = {}
        self._bulk_tasks: Tasks = {}
        self._given_up: dict[tuple[int, Scope], set[str]] = {}
        self._embedding: Counter[Scope] = Counter()
        self._places = asyncio.Semaphore(MAX_CONCURRENT_EMBEDDINGS)

    def schedule(self, scope: Scope, messages: Sequence[Message]) -> None:
        """Embed these messages in the background."""
        if messages:
            self._start(scope, self.fill(scope, messages))

    def schedule_missing(self, scope: Scope) -> None:
        """Embed all that has no vector yet in the background; recall does not wait for it."""
        self._start(scope, self.fill_missing(scope), self._bulk_tasks)

    def schedule_keys(self, scope: Scope, keys: Sequence[tuple[HitKind, str]]) -> None:
        """Embed a few items that are known to have no vector, which need not be searched for."""
        self._start(scope, self._fill_keys(scope, keys))

    async def _fill_keys(self, scope: Scope, keys: Sequence[tuple[HitKind, str]]) -> int:
        messages = await self._store.messages(scope, [item_id for kind, item_id in keys if kind == "message"])
        entries = await self._store.entries.get(scope, [item_id for kind, item_id in keys if kind == "entry"])
        items = [*map(waiting_message, messages.values()), *map(_waiting_entry, entries.values())]
        return await self._fill(scope, items)

    def _start(self, scope: Scope, work: Coroutine[Any, Any, int], tasks: Tasks | None = None) -> None:
        tasks = self._tasks if tasks is None else tasks
        task = asyncio.create_task(work)
        tasks[task] = scope
        task.add_done_callback(tasks.pop)

    def is_ready(self, scope: Scope) -> bool:
        """Whether missing vectors of a scope can be made and nobody is at it yet."""
        running = (*self._tasks.values(), *self._bulk_tasks.values())
        busy = scope.owner in self._embedding or any(of.owner == scope.owner for of in running)
        return self._space.current.embedder is not None and not busy

    def hopeless(self, scope: Scope) -> int:
        """How many texts of a scope turned out to have no usable vector."""
        return len(self._given_up.get((self._space.current.record.id, scope.owner), ()))

    async def settle(self, scope: Scope | None = None, timeout: float | None = None) -> bool:
        """Wait for the background work of a scope, or of all; False if some is still running."""
        running = {**self._tasks, **self._bulk_tasks}
        tasks = [t for t, of in running.items() if scope is None or of.owner == scope.owner]
        if not tasks:
            return True
        _done, pending = await asyncio.wait(tasks, timeout=timeout)
        return not pending

    async def settle_until(self, scope: Scope, until: float, without_thread: str | None = None) -> None:
        """Wait for what was said last to be embedded, at most until a time of the loop's clock."""
        tasks = [
            task
            for task, of in self._tasks.items()
            if of.owner == scope.owner and (without_thread is None or of.thread_id != without_thread)
        ]
        left = until - asyncio.get_running_loop().time()
        if tasks and left > 0:
            await asyncio.wait(tasks, timeout=left)

    async def cancel(self) -> None:
        """Stop background work; what it did not finish is found missing later."""
        await end([*self._tasks, *self._bulk_tasks])

    async def fill(self, scope: Scope, messages: Sequence[Message]) -> int:
        """Embed messages and save the vectors; says how many.

        A failing embedder becomes an event and is not asked again for the rest.
        """
        return await self._fill(scope, [waiting_message(message) for message in messages])

    async def _fill(self, scope: Scope, items: Sequence[Unembedded]) -> int:
        filled = 0
        with self.expecting(scope):
            for start in range(0, len(items), BATCH):
                count = await self._fill_batch(scope, items[start : start + BATCH])
                if count is None:
                    break
                filled += count
        return filled

    @contextmanager
    def expecting(self, scope: Scope) -> Iterator[None]:
        """While messages of a scope are saved and embedded, nobody else needs to look for missing vectors."""
        self._embedding[scope.owner] += 1
        try:
            yield
        finally:
            self._embedding[scope.owner] -= 1
            if not self._embedding[scope.owner]:
                del self._embedding[scope.owner]

    async def fill_missing(self, scope: Scope) -> int:
        """Embed all items of a scope that have no vector yet."""
        filled, last = 0, None
        space_id = self._space.current.record.id
        while missing := await self._store.unembedded(scope, space_id, BATCH, last):
            count = await self._fill_batch(scope, missing)
            if count is None or self._space.current.record.id != space_id:
                break
            filled, last = filled + count, missing[-1]
        return filled

    async def _fill_batch(self, scope: Scope, batch: Sequence[Unembedded]) -> int | None:
        """How many got a vector; blank and unusable texts get none. None if the embedder failed."""
        space = self._space.current
        if space.embedder is None:
            return None
        key = (space.record.id, scope.owner)
        hopeless = self._given_up.get(key, set())
        wanted = [item for item in batch if item.text.strip() and item.id not in hopeless]
        try:
            async with self._places:
                made = await make_vectors(space.embedder, wanted, speakers=space.record.speakers)
            saved = await self._store.put_vectors(scope, space.record.id, made.rows)
            if made.rows and not saved:  # the items or the whole space may be gone
                await self._space.follow()
        except Exception as failure:
            self._report(scope, wanted, failure)
            return None
        for item, error in made.unusable:
            self._given_up.setdefault(key, set()).add(item.id)
            self._report(scope, [item], error)
        return saved

    def _report(self, scope: Scope, batch: Sequence[Unembedded], error: Exception) -> None:
        self._events.emit(
            "embedding.failed",
            scope,
            error=f"{type(error).__name__}: {error}",
            message_ids=[item.id for item in batch],
        )


def waiting_message(message: Message) -> Unembedded:
    """A message as something to be embedded."""
    place = (message.thread_id or "", message.seq or 0)
    return Unembedded("message", str(message.id), message.search_text, place, name_of(message))


def _waiting_entry(entry: Entry) -> Unembedded:
    return Unembedded("entry", entry.id, entry.content, ("", 0))


class MadeVectors(NamedTuple):
    """Vectors ready to be saved, and items whose text has no usable one."""

    rows: list[VectorRow]
    unusable: list[tuple[Unembedded, BadVector]]


async def make_vectors(embedder: Embedder, items: Sequence[Unembedded], *, speakers: bool) -> MadeVectors:
    """Embed items together, with their `speakers`' names where the space has them.

    Where that gives a bad vector, one by one, to find whose it is.
    """
    try:
        characters = sum(len(item.text) for item in items)
        matrix = await embed_texts(
            embedder, await compute(partial(_searched_texts, items, speakers), characters)
        )
    except BadVector as error:
        if len(items) == 1:
            return MadeVectors([], [(items[0], error)])
        apart = [await make_vectors(embedder, [item], speakers=speakers) for item in items]
        return MadeVectors(
            [r for made in apart for r in made.rows], [u for made in apart for u in made.unusable]
        )
    rows = [
        VectorRow(item.kind, item.id, vector) for item, vector in zip(items, pack_vectors(matrix), strict=True)
    ]
    return MadeVectors(rows, [])


def _searched_texts(items: Sequence[Unembedded], speakers: bool) -> list[str]:
    return [searched_text(item.speaker if speakers else None, item.text) for item in items]


async def vectors_of(
    space: SpaceInUse, events: Events, scope: Scope, texts: Sequence[str]
) -> list[bytes | None]:
    """Vectors of texts about to be saved; without them they are found by words, and embedded later."""
    embedder = space.current.embedder
    if not texts or embedder is None:
        return [None] * len(texts)
    try:
        return [*pack_vectors(await embed_texts(embedder, texts))]
    except Exception as error:
        events.emit("embedding.failed", scope, error=f"{type(error).__name__}: {error}")
        return [None] * len(texts)

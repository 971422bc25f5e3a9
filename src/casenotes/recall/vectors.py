"""Keep every message's vector in the store: after saving, on import, and where one is missing.

Messages are saved before they are embedded, so a slow or failing embedder can neither delay nor
lose what was said. A message without vector is still found by its words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from casenotes.errors import BadVector
from casenotes.events import Events
from casenotes.models.embed import Embedder, embed_texts
from casenotes.stores.base import Store, VectorRow
from casenotes.types import Message, Scope

BATCH = 256
MAX_CONCURRENT_EMBEDDINGS = 4


class VectorFiller:
    """Embeds messages and saves their vectors, in the background or while the caller waits."""

    def __init__(self, store: Store, embedder: Embedder, space_id: int, events: Events) -> None:
        self._store = store
        self._embedder = embedder
        self._space_id = space_id
        self._events = events
        self._tasks: dict[asyncio.Task[int], Scope] = {}
        self._given_up: dict[Scope, set[str]] = {}
        self._places = asyncio.Semaphore(MAX_CONCURRENT_EMBEDDINGS)

    def schedule(self, scope: Scope, messages: Sequence[Message]) -> None:
        """Embed these messages in the background."""
        if messages:
            self._start(scope, self.fill(scope, messages))

    def schedule_missing(self, scope: Scope) -> None:
        """Embed what has no vector yet in the background."""
        self._start(scope, self.fill_missing(scope))

    def _start(self, scope: Scope, work: Coroutine[Any, Any, int]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = scope
        task.add_done_callback(self._tasks.pop)

    def is_busy(self, scope: Scope) -> bool:
        """Whether background work of a scope is under way."""
        return any(of.owner == scope.owner for of in self._tasks.values())

    def hopeless(self, scope: Scope) -> int:
        """How many texts of a scope turned out to have no usable vector."""
        return len(self._given_up.get(scope.owner, ()))

    async def settle(self, scope: Scope | None = None, timeout: float | None = None) -> bool:
        """Wait for the background work of a scope, or of all; False if some is still running."""
        tasks = [t for t, of in self._tasks.items() if scope is None or of.owner == scope.owner]
        if not tasks:
            return True
        _done, pending = await asyncio.wait(tasks, timeout=timeout)
        return not pending

    async def cancel(self) -> None:
        """Stop background work; what it did not finish is found missing later."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def fill(self, scope: Scope, messages: Sequence[Message]) -> int:
        """Embed messages and save the vectors; says how many.

        A failing embedder becomes an event and is not asked again for the rest.
        """
        filled = 0
        for start in range(0, len(messages), BATCH):
            count = await self._fill_batch(scope, messages[start : start + BATCH])
            if count is None:
                break
            filled += count
        return filled

    async def fill_missing(self, scope: Scope) -> int:
        """Embed all messages of a scope that have no vector yet."""
        filled = passed_over = 0
        while missing := await self._store.unembedded(scope, self._space_id, BATCH, passed_over):
            count = await self._fill_batch(scope, missing)
            if count is None:
                break
            filled += count
            passed_over += len(missing) - count
        return filled

    async def _fill_batch(self, scope: Scope, batch: Sequence[Message]) -> int | None:
        """How many got a vector; blank and unusable texts get none. None if the embedder failed."""
        wanted = [m for m in batch if m.search_text.strip() and not self._is_given_up(scope, m)]
        try:
            rows = await self._vector_rows(wanted)
            await self._store.put_vectors(scope, self._space_id, rows)
        except BadVector as error:
            if len(wanted) > 1:
                return sum([await self._fill_batch(scope, [message]) or 0 for message in wanted])
            self._given_up.setdefault(scope.owner, set()).add(str(wanted[0].id))
            self._report(scope, wanted, error)
            return 0
        except Exception as error:
            self._report(scope, wanted, error)
            return None
        return len(rows)

    async def _vector_rows(self, batch: Sequence[Message]) -> list[VectorRow]:
        async with self._places:
            matrix = await embed_texts(self._embedder, [message.search_text for message in batch])
        return [
            VectorRow("message", str(message.id), vector.astype("<f4", copy=False).tobytes())
            for message, vector in zip(batch, matrix, strict=True)
        ]

    def _is_given_up(self, scope: Scope, message: Message) -> bool:
        return str(message.id) in self._given_up.get(scope.owner, ())

    def _report(self, scope: Scope, batch: Sequence[Message], error: Exception) -> None:
        self._events.emit(
            "embedding.failed",
            scope,
            error=f"{type(error).__name__}: {error}",
            message_ids=[message.id for message in batch],
        )

"""Search one scope: make its index fresh, score, rank, and read the best back from the store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from casenotes.clock import Clock
from casenotes.config import SearchSettings
from casenotes.errors import InvalidScope, SpaceMismatch, UsageError
from casenotes.events import Events
from casenotes.masking import mask
from casenotes.models.embed import Embedder, Matrix, embed_queries
from casenotes.recall.hits import NameOf, read_hits
from casenotes.recall.index import Found, IndexCache, IndexSize, ScopeIndex
from casenotes.recall.lexical import Floats
from casenotes.recall.query import Query, query_parts
from casenotes.recall.rank import RANKERS
from casenotes.recall.space import CurrentSpace, SpaceInUse
from casenotes.recall.vectors import VectorFiller
from casenotes.stores.base import Changes, Freshness, Store
from casenotes.tasks import end
from casenotes.types import Hit, HitKind, Scope

T = TypeVar("T")

INLINE_ITEMS = 16_384
"""Scopes up to this size are searched at once: it takes less time than handing over to a thread."""

HEAL_AT_ONCE = 64
"""A recall waits for up to this many missing vectors, within its deadline; more come in the background."""

APPLY_AT_ONCE = 64
"""Up to this many changes are applied without handing over to a thread."""

APPLY_CHARACTERS = 50_000

MAX_QUERY_CHARACTERS = 100_000

NEVER_USED = Freshness(0, 0)
"""What the store says of a scope that it does not know, for example after it was erased."""


class _Shared:
    """An embedding that several wait for; it is ended when the last of them has given up."""

    def __init__(self, task: asyncio.Task[Matrix]) -> None:
        self.task = task
        self.waiting = 0

    def left(self) -> None:
        """One of those who waited does so no longer."""
        self.waiting -= 1
        if not self.waiting and not self.task.done():
            self.task.cancel()

    @property
    def problem(self) -> str | None:
        """Why there is no vector, if there is none."""
        if not self.task.done() or self.task.cancelled():
            return "late"
        error = self.task.exception()
        return f"{type(error).__name__}: {error}" if error else None


class Searcher:
    """Recall over the entries and messages of a scope."""

    def __init__(
        self,
        store: Store,
        space: SpaceInUse,
        filler: VectorFiller,
        settings: SearchSettings,
        clock: Clock,
        events: Events,
        name_of: NameOf,
    ) -> None:
        self._store = store
        self._space = space
        self._filler = filler
        self.settings = settings
        self._clock = clock
        self._events = events
        self.name_of = name_of
        self._embeddings: dict[tuple[int, tuple[str, ...]], _Shared] = {}
        self._refreshing: dict[Scope, asyncio.Task[ScopeIndex]] = {}
        self.cache = IndexCache(settings.index_cache_bytes)

    async def search(
        self,
        scope: Scope,
        query: str,
        top_k: int,
        as_of: datetime | None = None,
        *,
        quarantined: bool = False,
    ) -> list[Hit]:
        """The best hits for a query; none for a blank query or when nothing is relevant."""
        text = _checked_query(scope, query)
        if top_k < 1:
            raise UsageError(f"top_k is {top_k!r}; it must be at least 1")
        if not text.strip():
            return []
        index, asked = await self._index_and_query(scope, text)
        found = await self._rank(index, asked, top_k, as_of, quarantined)
        return await self.read(scope, found)

    async def search_apart(
        self, scope: Scope, query: str, counts: Mapping[HitKind, int]
    ) -> dict[HitKind, list[Found]]:
        """The best entries, and the best messages of other threads; `read` gets them from the store."""
        text = _checked_query(scope, _both_ends(query))
        if not text.strip():
            return {"entry": [], "message": []}
        index, asked = await self._index_and_query(scope, text, without_thread=scope.thread_id)
        now, thread = self._clock.now().timestamp(), scope.thread_id or ""
        return await self._run(index, partial(index.search_apart, asked, counts, now, thread))

    async def search_messages(self, scope: Scope, query: str, top_k: int, thread_id: str | None) -> list[str]:
        """Ids of the messages most like a query, best first, in one thread or in all of them."""
        text = _plain(_both_ends(query))
        if not text.strip():
            return []
        index, asked = await self._index_and_query(scope, text, without_thread=scope.thread_id)
        now = self._clock.now().timestamp()
        work = partial(index.search_messages, asked, top_k, now, thread_id)
        return [item_id for _kind, item_id, _ranked in await self._run(index, work)]

    async def read(self, scope: Scope, found: Sequence[Found], *, as_block: bool = False) -> list[Hit]:
        """What was found, as hits."""
        if not found:
            return []
        return await read_hits(self._store, scope, found, self.name_of, as_block=as_block)

    async def nearest_entries(
        self, scope: Scope, space_id: int, vectors: Matrix, least: float, limit: int
    ) -> list[list[tuple[str, float]]]:
        """For each vector the scope's entries at least that similar, best first.

        SpaceMismatch if the store is in another space by now.
        """
        index = await self._index_at(scope, await self._store.freshness(scope))
        if index.space_id != space_id:
            raise SpaceMismatch(f"the store has changed from embedding space {space_id} to {index.space_id}")
        return await self._run(index, partial(index.nearest_entries, vectors, least, limit))

    async def neighbours(self, scope: Scope, text: str, limit: int) -> list[str]:
        """Entries near a text by words and by meaning, as far as a vector can be made."""
        index, asked = await self._index_and_query(scope, text, in_parts=False)
        return await self._run(index, partial(index.neighbours, asked, limit))

    async def alike_entries(self, scope: Scope, least: float) -> list[tuple[str, str]]:
        """Pairs of entries that are at least that similar, as far as vectors are there in time."""
        until = asyncio.get_running_loop().time() + self.settings.deadline_seconds
        index = await self._fresh_index(scope, until)
        return await self._run(index, partial(index.alike_entries, least))

    def forget(self, scope: Scope) -> None:
        """Nothing of a scope is kept in memory."""
        self.cache.drop(scope)

    async def _run(self, index: ScopeIndex, work: Callable[[], T]) -> T:
        """Search an index: small ones at once, large ones in a thread."""
        if len(index) <= INLINE_ITEMS and not index.is_busy:
            return work()
        return await asyncio.to_thread(work)

    async def _index_and_query(
        self, scope: Scope, text: str, *, without_thread: str | None = None, in_parts: bool = True
    ) -> tuple[ScopeIndex, Query]:
        """A fresh index and the query's vectors in the same space, should the store be switched meanwhile.

        An embedder gets half of the time, so that the other half is left for a search by words.
        """
        until = asyncio.get_running_loop().time() + self.settings.deadline_seconds / 2
        ranker = RANKERS[self.settings.ranker]
        parts = query_parts(text, ranker.terms) if ranker.is_tuned and in_parts else (text,)
        while True:
            space = self._space.current
            vectors = await self._query_vectors(scope, parts, space, until)
            index = await self._fresh_index(scope, until, without_thread)
            if index.space_id == space.record.id:
                return index, Query(parts, vectors)

    async def rank(
        self,
        scope: Scope,
        text: str,
        vector: Floats | None,
        top_k: int,
        as_of: datetime | None = None,
    ) -> list[Found]:
        """Freshness check, search and ranking, without embedding the query or reading the hits."""
        until = asyncio.get_running_loop().time() + self.settings.deadline_seconds
        asked = Query((text,), None if vector is None else vector[None, :])
        return await self._rank(await self._fresh_index(scope, until), asked, top_k, as_of)

    async def _rank(
        self,
        index: ScopeIndex,
        query: Query,
        top_k: int,
        as_of: datetime | None,
        quarantined: bool = False,
    ) -> list[Found]:
        until = as_of.timestamp() if as_of else None
        now = min(self._clock.now().timestamp(), math.inf if until is None else until)
        return await self._run(index, partial(index.search, query, top_k, now, until, quarantined))

    async def index_size(self, scope: Scope) -> IndexSize:
        """What the scope's index takes in memory; builds it if need be."""
        return (await self._index_at(scope, await self._store.freshness(scope))).size

    async def _query_vectors(
        self, scope: Scope, parts: tuple[str, ...], space: CurrentSpace, until: float
    ) -> Matrix | None:
        """The vectors of a query's parts; without them, search goes on by words alone."""
        if space.embedder is None:
            return None
        shared = self._shared_embedding(space.record.id, space.embedder, parts)
        left = until - asyncio.get_running_loop().time()
        try:
            await asyncio.wait([shared.task], timeout=max(0.0, left))
        finally:
            shared.left()
        if (problem := shared.problem) is None:
            return shared.task.result()
        self._events.emit("embedding.failed", scope, error=problem)
        return None

    def _shared_embedding(self, space_id: int, embedder: Embedder, parts: tuple[str, ...]) -> _Shared:
        """Layers that search at the same time for the same text share one embedding of it."""
        key = (space_id, parts)
        shared = self._embeddings.get(key)
        if shared is None:
            shared = self._embeddings[key] = _Shared(asyncio.create_task(embed_queries(embedder, parts)))
            shared.task.add_done_callback(lambda _task: self._embeddings.pop(key))
        shared.waiting += 1
        return shared

    async def _fresh_index(self, scope: Scope, until: float, without_thread: str | None = None) -> ScopeIndex:
        """The index with all that is known; what is being embedded is waited for, within the deadline.

        Not so messages of a thread that are not to be found anyway.
        """
        await self._filler.settle_until(scope, until, without_thread)
        index = self.cache.get(scope)
        if index is None or scope.owner in self._refreshing:
            index = await self._index_at(scope, await self._store.freshness(scope))
        else:
            index = await self._caught_up(scope, index)
        if index.missing_vectors > self._filler.hopeless(scope) and self._filler.is_ready(scope):
            if index.missing_vectors > HEAL_AT_ONCE:
                self._filler.schedule_missing(scope)
            else:
                self._filler.schedule_keys(scope, index.keys_without_vector())
                await self._filler.settle_until(scope, until)
                index = await self._index_at(scope, await self._store.freshness(scope))
        return index

    async def _caught_up(self, scope: Scope, index: ScopeIndex) -> ScopeIndex:
        """The index with what came since: one read tells whether something changed, and what."""
        changes = await self._store.changes(scope, index.space_id, index.freshness.change)
        if not self._is_small_step(index, changes):
            return await self._index_at(scope, changes.freshness)
        if changes.freshness > index.freshness:
            self._apply_now(scope, index, changes)
        return index

    def _is_small_step(self, index: ScopeIndex, changes: Changes) -> bool:
        few = len(changes.documents) + len(changes.vectors) <= APPLY_AT_ONCE
        short = sum(len(document.text) for document in changes.documents) <= APPLY_CHARACTERS
        follows = changes.freshness.epoch == index.freshness.epoch and changes.freshness >= index.freshness
        return few and short and follows and self._is_current(index) and not index.is_busy

    def _apply_now(self, scope: Scope, index: ScopeIndex, changes: Changes) -> None:
        self.cache.drop(scope)  # should applying fail, the next recall starts from a clean index
        index.apply(changes)
        self.cache.put(scope, index)

    async def _index_at(self, scope: Scope, freshness: Freshness) -> ScopeIndex:
        """An index that has seen at least that much, or what is left if others have erased some of it since."""
        if freshness == NEVER_USED:
            self.cache.drop(scope)
        index = self.cache.get(scope)
        while index is None or index.freshness < freshness or not self._is_current(index):
            joins = scope.owner in self._refreshing
            index = await self._refresh(scope)
            if not joins and self._is_current(index):
                break  # all of it was read after the scope had come that far
        return index

    def _is_current(self, index: ScopeIndex) -> bool:
        """A scope nobody has written to knows nothing of a switch; its index does."""
        return index.space_id == self._space.current.record.id

    async def _refresh(self, scope: Scope) -> ScopeIndex:
        """Join the refresh under way or start one; it goes on when a caller is cancelled."""
        owner = scope.owner
        task = self._refreshing.get(owner)
        if task is None or task.done():  # a finished one stays until its callback runs
            task = self._refreshing[owner] = asyncio.create_task(self._refresh_now(owner))
            task.add_done_callback(partial(self._forget_refresh, owner))
        return await asyncio.shield(task)

    def _forget_refresh(self, owner: Scope, task: asyncio.Task[ScopeIndex]) -> None:
        if self._refreshing.get(owner) is task:
            del self._refreshing[owner]

    async def _refresh_now(self, scope: Scope) -> ScopeIndex:
        """Apply what changed, or build anew if there is no index or something was removed."""
        index = self.cache.get(scope)
        if index is not None and self._is_current(index):
            changes = await self._store.changes(scope, index.space_id, index.freshness.change)
            if changes.freshness.epoch != index.freshness.epoch or changes.freshness < index.freshness:
                index, changes = await self._anew(scope)
        else:
            index, changes = await self._anew(scope)
        if self._is_small_step(index, changes):
            self._apply_now(scope, index, changes)
        else:
            self.cache.drop(scope)
            await asyncio.to_thread(index.apply, changes)
            self.cache.put(scope, index)
        return index

    async def _anew(self, scope: Scope) -> tuple[ScopeIndex, Changes]:
        """An empty index and all there is for it, read in a space that was active while it was read."""
        while True:
            space = self._space.current.record
            changes = await self._store.changes(scope, space.id, 0)
            await self._space.follow()
            if self._space.current.record.id == space.id:
                settings = self.settings.for_embedder(space.model)
                index = ScopeIndex(space.id, space.dimensions, settings, speakers=space.speakers)
                return index, changes

    async def close(self) -> None:
        """Wait for refreshes that lost their caller, and end embeddings that did."""
        await end(shared.task for shared in self._embeddings.values())
        await asyncio.gather(*self._refreshing.values(), return_exceptions=True)


def _checked_query(scope: Scope, query: str) -> str:
    if scope.resource_id is None:
        raise InvalidScope(f"{scope!r} has no resource_id; recall works across the threads of a resource")
    if not isinstance(query, str):
        raise UsageError(f"query must be a string, got {type(query).__name__}")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise UsageError(f"query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are allowed")
    return _plain(query)


def _both_ends(query: str) -> str:
    """The beginning and the end of a text that is too long: what is asked may stand at either."""
    if len(query) <= MAX_QUERY_CHARACTERS:
        return query
    half = MAX_QUERY_CHARACTERS // 2
    return f"{query[:half]}\n{query[1 - half :]}"


def _plain(query: str) -> str:
    return mask(query.encode("utf-8", "ignore").decode("utf-8"))

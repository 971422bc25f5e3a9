"""Memory: the class users meet. It checks what it is given and lets the parts perform.

Nothing heavy is imported until a Memory is opened.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from casenotes.clock import Clock, SystemClock
from casenotes.config import Environment, Settings
from casenotes.errors import InvalidScope, SettingsError, UsageError
from casenotes.events import Events, Listener
from casenotes.intake import Input, as_messages, check_message, check_thread, new_id, with_identity
from casenotes.recall.recent import without_broken_pairs
from casenotes.tokens import TokenCounter, estimate_tokens
from casenotes.types import (
    OUTCOMES,
    Appended,
    Context,
    Hit,
    Message,
    Outcome,
    Receipt,
    Role,
    Scope,
    Thread,
    Turn,
)

if TYPE_CHECKING:
    from casenotes.models.embed import Embedder
    from casenotes.recall.index import IndexSize
    from casenotes.recall.reembed import Progress, Reembedded
    from casenotes.recall.search import Searcher
    from casenotes.recall.space import SpaceInUse
    from casenotes.recall.vectors import VectorFiller
    from casenotes.stores.base import Finding, ScopeSize, Store, StoreStats, TurnStatus

MAX_LIMIT = 2**31


class Memory:
    """The memory of agents: open it once per process, use it from any number of tasks."""

    def __init__(
        self,
        store: Store,
        space: SpaceInUse,
        searcher: Searcher,
        filler: VectorFiller,
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter,
    ) -> None:
        self._store = store
        self._space = space
        self._searcher = searcher
        self._filler = filler
        self._settings = settings
        self._clock = clock
        self._events = events
        self.count_tokens = count_tokens

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str | None = None,
        *,
        model: None = None,
        embedder: str | Embedder | None = None,
        config: Settings | None = None,
        clock: Clock | None = None,
        count_tokens: TokenCounter | None = None,
        on_event: Listener | None = None,
    ) -> AsyncIterator[Memory]:
        """Open the memory in a database; leaving the block drains background work and closes it.

        What is left out comes from the environment (`CASENOTES_DATABASE_URL` and its siblings), then
        from the defaults: the file `casenotes.db` and the built-in embedder.
        """
        from casenotes.stores import create_store

        if model is not None:
            raise SettingsError(f"model is {model!r:.80}, but this release calls no model yet; leave it out")
        environment = Environment.read()
        settings = _checked_settings(config) if config is not None else environment.settings()
        clock = clock or SystemClock()
        events = Events(clock)
        if on_event:
            events.listen(on_event)
        chosen = embedder if embedder is not None else environment.embedder_model
        store = create_store(url or environment.database_url, settings.storage)
        await store.open()
        try:
            memory = await cls._assemble(store, chosen, settings, clock, events, count_tokens)
            try:
                yield memory
            finally:
                await memory._drain()
        finally:
            await store.close()

    @classmethod
    async def _assemble(
        cls,
        store: Store,
        embedder: str | Embedder,
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter | None,
    ) -> Memory:
        from casenotes.recall.search import Searcher
        from casenotes.recall.space import SpaceInUse, open_space
        from casenotes.recall.vectors import VectorFiller

        space = SpaceInUse(store, await open_space(store, embedder), events)
        filler = VectorFiller(store, space, events)
        searcher = Searcher(store, space, filler, settings.search, clock, events)
        return cls(store, space, searcher, filler, settings, clock, events, count_tokens or estimate_tokens)

    async def _drain(self) -> None:
        await self._filler.settle(timeout=self._settings.storage.close_timeout_seconds)
        await self._filler.cancel()
        await self._searcher.close()

    @property
    def location(self) -> str:
        """Where the memory lies, without password."""
        return self._store.location

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event; the result takes it off again."""
        return self._events.listen(listener)

    async def begin(self, scope: Scope, user_input: Input) -> Turn:
        """Start a turn: the input is saved durably, then the context for the model is gathered."""
        started = time.perf_counter()
        turn_id = new_id(self._clock.now())
        messages = as_messages(user_input, "user")
        saved = await self._save(scope, messages, turn_id, 0, "open")
        saved_at = time.perf_counter()
        context = await self._context(scope, {"save": saved_at - started})
        self._events.emit("turn.started", scope, turn_id=turn_id)
        return Turn(turn_id, scope, context, message_ids=[str(m.id) for m in saved.given])

    async def step(self, turn: Turn, messages: Input) -> Context:
        """Save what happened since the last model call and return the context for the next one."""
        started = time.perf_counter()
        await self._continue(turn, messages, None)
        return await self._context(turn.scope, {"save": time.perf_counter() - started})

    async def complete(
        self, turn: Turn, messages: Input = (), outcome: Outcome = "success", *, sync: bool = False
    ) -> Receipt:
        """End a turn: save what `step` has not seen and how it ended.

        Calling it again with the same messages after an error saves nothing twice. With `sync` it also
        waits for the background work that follows.
        """
        if outcome not in OUTCOMES:
            raise UsageError(f"outcome {outcome!r} is not one of {', '.join(OUTCOMES)}")
        await self._continue(turn, messages, outcome)
        if sync:
            await self.flush(turn.scope)
        self._events.emit("turn.finished", turn.scope, turn_id=turn.id, outcome=outcome)
        return Receipt(turn.id, outcome, tuple(turn.message_ids))

    async def _continue(self, turn: Turn, given: Input, status: TurnStatus | None) -> None:
        messages = as_messages(given, "assistant")
        saved = await self._save(turn.scope, messages, turn.id, len(turn.message_ids), status)
        turn.message_ids.extend(str(m.id) for m in saved.given)

    async def _save(
        self,
        scope: Scope,
        messages: Sequence[Message],
        turn_id: str,
        position: int,
        status: TurnStatus | None,
    ) -> Appended:
        from casenotes.stores.base import TurnMark

        now = self._clock.now()
        mark = TurnMark(turn_id, status, now) if status else None
        checked = self._checked(messages, turn_id, position)
        with self._filler.expecting(scope):
            saved = await self._store.append(scope, checked, mark)
            self._filler.schedule(scope, saved.new_messages)
        return saved

    def _checked(self, messages: Sequence[Message], prefix: str, position: int) -> list[Message]:
        for message in messages:
            check_message(message, self._settings.storage.max_message_characters)
        return with_identity(messages, prefix, position, self._clock.now())

    async def _context(self, scope: Scope, timings: dict[str, float]) -> Context:
        started = time.perf_counter()
        recent = await self._store.history(scope, limit=self._settings.last_messages)
        timings["recent_messages"] = time.perf_counter() - started
        return Context(messages=tuple(without_broken_pairs(recent)), trace={"seconds": timings})

    async def append(
        self, scope: Scope, messages: Input, *, role: Role = "user", embed: bool = True
    ) -> Appended:
        """Save messages outside a turn, for example from another system, and embed them.

        Messages without an id get a new one; give ids to make repeated calls harmless. With
        `embed=False` the vectors are left to `embed` or to the next recall.
        """
        checked = self._checked(as_messages(messages, role), new_id(self._clock.now()), 0)
        if not embed:
            return await self._store.append(scope, checked)
        with self._filler.expecting(scope):
            saved = await self._store.append(scope, checked)
            await self.embed(scope, saved.new_messages)
        return saved

    async def embed(self, scope: Scope, messages: Sequence[Message]) -> int:
        """Make the vectors of saved messages; says how many. Failures become events."""
        return await self._filler.fill(scope, messages)

    async def recall(
        self,
        scope: Scope,
        query: str,
        top_k: int | None = None,
        *,
        as_of: datetime | None = None,
    ) -> list[Hit]:
        """Search all threads of the scope; `as_of` leaves out what came later."""
        if as_of is not None and as_of.tzinfo is None:
            raise UsageError(f"as_of {as_of.isoformat()!r} has no time zone; add one, for example UTC")
        started = time.perf_counter()
        hits = await self._searcher.search(scope, query, top_k, as_of)
        seconds = time.perf_counter() - started
        self._events.emit("recall.finished", scope, hits=len(hits), seconds=seconds)
        return hits

    async def history(
        self,
        scope: Scope,
        limit: int | None = None,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Message]:
        """Messages of the thread, oldest first: the last ones, or a window by sequence number."""
        limit = self._settings.last_messages if limit is None else limit
        if limit < 1:
            raise UsageError(f"limit is {limit!r}; it must be at least 1")
        if before is not None and after is not None:
            raise UsageError("before and after exclude each other; give one of them")
        return await self._store.history(scope, limit=min(limit, MAX_LIMIT), before=before, after=after)

    async def threads(self, scope: Scope) -> list[Thread]:
        """The scope's threads, in order of creation."""
        return await self._store.threads(scope)

    async def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Set a thread's title or metadata; what is left out stays."""
        check_thread(title, metadata)
        if not await self._store.update_thread(scope, title=title, metadata=metadata):
            raise InvalidScope(f"there is no thread {scope.thread_id!r} in this scope")

    async def flush(self, scope: Scope | None = None, timeout: float = 30.0) -> bool:
        """Wait until background work is done; False if the time ran out first."""
        return await self._filler.settle(scope, timeout)

    async def embed_missing(self, scope: Scope) -> int:
        """Make the vectors that are missing in a scope; says how many."""
        return await self._filler.fill_missing(scope)

    async def reembed(self, embedder: str | Embedder, *, progress: Progress | None = None) -> Reembedded:
        """Change the embedder of the whole store, for operators; recall works all the while.

        Can be repeated after any failure and goes on where it stopped. `progress` gets the messages
        done and all there are.
        """
        from casenotes.recall.reembed import reembed
        from casenotes.recall.space import embedder_to_change_to

        target = await embedder_to_change_to(self._store, embedder)
        self._space.expect(target)
        try:
            return await reembed(self._store, target, progress or (lambda _done, _total: None))
        finally:
            await self._space.follow()

    async def scopes(self) -> list[ScopeSize]:
        """All scopes with their sizes; for operators, not for agents."""
        return await self._store.scopes()

    async def stats(self) -> StoreStats:
        """Size of the whole store."""
        return await self._store.stats()

    async def index_size(self, scope: Scope) -> IndexSize:
        """What searching a scope takes in memory; loads the scope if it is not there yet."""
        return await self._searcher.index_size(scope)

    async def check(self) -> list[Finding]:
        """What the store finds out about its own health."""
        from casenotes.recall.reembed import space_finding

        return [*await self._store.check(), space_finding(await self._store.spaces())]


def _checked_settings(config: Settings) -> Settings:
    if not isinstance(config, Settings):
        raise SettingsError(f"config must be Settings, got {type(config).__name__}")
    return config

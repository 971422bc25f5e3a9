"""Memory: the class users meet. It checks what it is given and lets the parts perform.

Nothing heavy is imported until a Memory is opened.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from casenotes.clock import Clock, SystemClock
from casenotes.config import Environment, Settings
from casenotes.errors import InvalidScope, SettingsError, UsageError
from casenotes.events import Events, Listener
from casenotes.intake import Input, as_messages, check_message, check_thread, new_id, redacted, with_identity
from casenotes.recall.recent import without_broken_pairs
from casenotes.recall.shown import ShownItems
from casenotes.tokens import TokenCounter, estimate_tokens
from casenotes.tracing import span
from casenotes.types import (
    OUTCOMES,
    Appended,
    Context,
    Entry,
    Hit,
    Message,
    Outcome,
    Receipt,
    Role,
    Scope,
    Thread,
    Tool,
    Turn,
)

if TYPE_CHECKING:
    from casenotes.curate.audit import Audit
    from casenotes.curate.curator import Curator
    from casenotes.curate.erase import Erased
    from casenotes.curate.explain import Explanation
    from casenotes.curate.forget import Forgotten
    from casenotes.curate.rebuild import Estimate, Rebuild
    from casenotes.layers.base import Layer
    from casenotes.layers.episodic import EpisodicLayer
    from casenotes.layers.learning import Learning
    from casenotes.models.chat import ChatModel, RetryingModel
    from casenotes.models.embed import Embedder
    from casenotes.recall.index import IndexSize
    from casenotes.recall.reembed import Progress, Reembedded
    from casenotes.recall.search import Searcher
    from casenotes.recall.space import SpaceInUse
    from casenotes.recall.vectors import VectorFiller
    from casenotes.stores.base import Finding, ScopeSize, Store, StoreStats, TurnStatus
    from casenotes.stores.learning import DayUsage, ReceiptRow, TurnState

MAX_LIMIT = 2**31
REMEMBERED = "remembered"
"""The thread of what is remembered outside any conversation."""

SYNC_SECONDS = 600.0
"""A call that waits for learning waits no longer than this."""


class Memory:
    """The memory of agents: open it once per process, use it from any number of tasks."""

    def __init__(
        self,
        store: Store,
        space: SpaceInUse,
        searcher: Searcher,
        filler: VectorFiller,
        episodic: EpisodicLayer,
        learning: Learning,
        curator: Curator,
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter,
    ) -> None:
        self._store = store
        self._space = space
        self._searcher = searcher
        self._filler = filler
        self._curator = curator
        self._has_entries = settings.episodic.enabled and store.supports_entries
        self._layers: list[Layer] = [episodic] if self._has_entries else []
        self._learning = learning
        self._shown = ShownItems()
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
        model: Any = None,
        embedder: str | Embedder | None = None,
        config: Settings | None = None,
        clock: Clock | None = None,
        count_tokens: TokenCounter | None = None,
        on_event: Listener | None = None,
    ) -> AsyncIterator[Memory]:
        """Open the memory in a database; leaving the block drains background work and closes it.

        What is left out comes from the environment (`CASENOTES_DATABASE_URL` and its siblings), then
        from the defaults: the file `casenotes.db`, the built-in embedder, and no model. A `model` is
        `provider:name`, a Pydantic AI model, or any object with `label` and `async ask(request)`.
        """
        from casenotes.stores import create_store

        environment = Environment.read()
        settings = _checked_settings(config) if config is not None else environment.settings()
        clock = clock or SystemClock()
        events = Events(clock)
        if on_event:
            events.listen(on_event)
        chosen = embedder if embedder is not None else environment.embedder_model
        agents = environment.model if model is None else model
        extractor = settings.episodic.extractor_model or agents
        reflector = settings.episodic.reflector_model or agents
        chats = (_chat_model(extractor, settings), _chat_model(reflector, settings))
        store = create_store(url or environment.database_url, settings.storage)
        await store.open()
        try:
            memory = await cls._assemble(store, chosen, chats, settings, clock, events, count_tokens)
            try:
                yield memory
            finally:
                await memory._drain()
        finally:
            await store.close()
            for chat, name in zip(chats, (extractor, reflector), strict=True):
                if chat is not None and isinstance(name, str):
                    await chat.close()

    @classmethod
    async def _assemble(
        cls,
        store: Store,
        embedder: str | Embedder,
        chats: tuple[ChatModel | None, ChatModel | None],
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter | None,
    ) -> Memory:
        from casenotes.curate.curator import Curator
        from casenotes.curate.desk import Desk
        from casenotes.layers.episodic import EpisodicLayer
        from casenotes.layers.learning import Learning
        from casenotes.learn.ask import Asker
        from casenotes.learn.pipeline import Tools
        from casenotes.recall.search import Searcher
        from casenotes.recall.space import SpaceInUse, open_space
        from casenotes.recall.vectors import VectorFiller

        space = SpaceInUse(store, await open_space(store, embedder), events)
        filler = VectorFiller(store, space, events)
        searcher = Searcher(store, space, filler, settings.search, clock, events)
        count = count_tokens or estimate_tokens
        tools = None
        extractor, reflector = chats
        if extractor and reflector and settings.episodic.enabled and store.supports_entries:
            limit = settings.models.max_output_tokens
            asker, second = (
                Asker(chat, store, settings.jobs, limit, clock, events) for chat in (extractor, reflector)
            )
            tools = Tools(store, searcher, space, asker, second, settings.episodic, clock, events, count)
        episodic = EpisodicLayer(searcher, settings.episodic, count, tools)
        learning = Learning(store, episodic, settings.jobs, events)
        curator = Curator(Desk(store, searcher, space, settings.episodic, clock, events), tools)
        parts = (store, space, searcher, filler, episodic, learning, curator)
        memory = cls(*parts, settings, clock, events, count)
        for layer in memory._layers:
            await layer.init()
        return memory

    async def _drain(self) -> None:
        until = time.monotonic() + self._settings.storage.close_timeout_seconds
        await self._learning.close(self._settings.storage.close_timeout_seconds)
        await self._filler.settle(timeout=max(0.0, until - time.monotonic()))
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
        with span("begin turn", "invoke_agent", scope):
            saved = await self._save(scope, messages, turn_id, 0, "open")
            timings = {"save": time.perf_counter() - started}
            query = "\n".join(message.text for message in messages if message.role == "user")
            context = await self._first_context(scope, turn_id, query, timings)
        self._learning.notice(scope)
        self._events.emit("turn.started", scope, turn_id=turn_id)
        ids = [str(message.id) for message in saved.given]
        return Turn(turn_id, scope, context, self._tools(scope, turn_id, context.messages), message_ids=ids)

    async def step(self, turn: Turn, messages: Input) -> Context:
        """Save what happened since the last model call and return the context for the next one.

        The blocks are those of `begin`, so that the beginning of the prompt stays the same.
        """
        started = time.perf_counter()
        turn.closing.clear()  # the turn goes on, should a `complete` have failed before
        await self._continue(turn, messages, None)
        timings = {"save": time.perf_counter() - started}
        recent = await self._recent(turn.scope, timings)
        return Context(turn.context.blocks, recent, {**turn.context.trace, "seconds": timings})

    async def complete(
        self, turn: Turn, messages: Input = (), outcome: Outcome = "success", *, sync: bool | None = None
    ) -> Receipt:
        """End a turn: save what `step` has not seen and how it ended.

        Calling it again with the same messages after an error saves nothing twice. What is to be learned
        from the turn is learned in the background; with `sync` (default: the setting) the call waits for
        it, and the receipt says what became of every candidate.
        """
        if outcome not in OUTCOMES:
            raise UsageError(f"outcome {outcome!r} is not one of {', '.join(OUTCOMES)}")
        if not turn.closing:
            turn.closing.append(len(turn.message_ids))
        del turn.message_ids[turn.closing[0] :]  # a repeated call gives its messages the same ids again
        await self._continue(turn, messages, outcome)
        self._events.emit("turn.finished", turn.scope, turn_id=turn.id, outcome=outcome)
        waits = self._settings.episodic.sync if sync is None else sync
        until = time.monotonic() + SYNC_SECONDS
        if waits:
            await self._filler.settle(turn.scope, SYNC_SECONDS)
        if reason := self._not_learned(turn.scope, outcome):
            return Receipt(turn.id, outcome, tuple(turn.message_ids), reason=reason)
        self._learning.queue(turn.scope, turn.id)
        if not waits:
            return Receipt(turn.id, outcome, tuple(turn.message_ids), "queued")
        await self._learning.settle(turn.scope, max(0.0, until - time.monotonic()))
        return await self._learning.receipt(turn.scope, turn.id)

    def _not_learned(self, scope: Scope, outcome: str | None) -> str:
        """Why nothing is learned from a turn, empty if something may be."""
        if not self._has_entries:
            return "episodic memory is off"
        if not self._learning.is_wanted:
            return "no model is configured"
        if scope.resource_id is None:
            return "the scope has no resource_id"
        return "" if outcome == "success" else f"the outcome is {outcome}"

    async def finish(self, scope: Scope, outcome: Outcome = "success") -> None:
        """End a run: wait for what is to be learned from it, and tell every layer."""
        if outcome not in OUTCOMES:
            raise UsageError(f"outcome {outcome!r} is not one of {', '.join(OUTCOMES)}")
        await self.flush(scope)
        for layer in self._layers:
            try:
                await layer.complete(scope, outcome)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                self._events.emit("layer.failed", scope, source=layer.name, error=problem)
        self._events.emit("run.finished", scope, outcome=outcome)

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

        learn = status not in (None, "open") and not self._not_learned(scope, status)
        shown = self._shown.of(scope, turn_id) if status != "open" else ()
        mark = TurnMark(turn_id, status, self._clock.now(), learn, shown)
        checked = self._checked(messages, turn_id, position)
        with self._filler.expecting(scope):
            saved = await self._store.append(scope, checked, mark)
            self._filler.schedule(scope, saved.new_messages)
        self._shown.saved(scope, turn_id, shown)
        return saved

    def _checked(self, messages: Sequence[Message], prefix: str, position: int) -> list[Message]:
        for message in messages:
            check_message(message, self._settings.storage.max_message_characters)
        if self._settings.storage.redact_messages:
            messages = [redacted(message) for message in messages]
        return with_identity(messages, prefix, position, self._clock.now())

    async def _first_context(
        self, scope: Scope, turn_id: str, query: str, timings: dict[str, float]
    ) -> Context:
        from casenotes.layers.base import RecallRequest
        from casenotes.layers.gather import gather

        recent = await self._recent(scope, timings)
        visible = {str(message.id) for message in recent}
        request = RecallRequest(scope, turn_id, query, self._clock.now(), visible)
        deadline = self._settings.recall_deadline_seconds
        gathered = await gather(self._layers, request, deadline, self.count_tokens, self._events)
        self._shown.add(scope, gathered.shown, turn_id)
        return Context(gathered.blocks, recent, {"seconds": timings, "layers": gathered.trace})

    async def _recent(self, scope: Scope, timings: dict[str, float]) -> tuple[Message, ...]:
        started = time.perf_counter()
        recent = await self._store.history(scope, limit=self._settings.last_messages)
        timings["recent_messages"] = time.perf_counter() - started
        return tuple(without_broken_pairs(recent))

    def _tools(self, scope: Scope, turn_id: str, visible: Sequence[Message]) -> tuple[Tool, ...]:
        from casenotes.layers.tools import recall_tool

        if scope.resource_id is None or not self._has_entries:
            return ()
        seen = {message.id for message in visible}

        async def search(query: str) -> list[Hit]:
            """What the model does not see anyway."""
            top_k = self._settings.episodic.top_k
            hits = await self._search(scope, query, top_k + len(seen))
            wanted = [hit for hit in hits if hit.kind == "entry" or hit.id not in seen][:top_k]
            self._shown.add_hits(scope, wanted, turn_id)
            return wanted

        return (recall_tool(search, self._settings.episodic.recall_tool_prompt),)

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
        quarantined: bool = False,
    ) -> list[Hit]:
        """Search entries and messages of all threads of the scope.

        `as_of` shows what was known and held at that time; `quarantined` also finds what is set apart
        because it reads like an instruction.
        """
        if as_of is not None and not isinstance(as_of, datetime):
            raise UsageError(f"as_of must be a datetime with a time zone, got {as_of!r}")
        if as_of is not None and as_of.tzinfo is None:
            raise UsageError(f"as_of {as_of.isoformat()!r} has no time zone; add one, for example UTC")
        wanted = self._settings.episodic.top_k if top_k is None else top_k
        hits = await self._search(scope, query, wanted, as_of, quarantined)
        self._shown.add_hits(scope, hits)
        return hits

    async def _search(
        self, scope: Scope, query: str, top_k: int, as_of: datetime | None = None, quarantined: bool = False
    ) -> list[Hit]:
        started = time.perf_counter()
        with span("search memory", "search_memory", scope) as about:
            hits = await self._searcher.search(scope, query, top_k, as_of, quarantined=quarantined)
            about("casenotes.hits", len(hits))
        self._events.emit("recall.finished", scope, hits=len(hits), seconds=time.perf_counter() - started)
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

    async def flush(self, scope: Scope | None = None, timeout: float = 30.0) -> list[Receipt]:
        """Wait until background work is done: each turn was learned from or has failed once.

        Gives the receipts of the turns completed here since the last call; those that are not done when
        the time is over say so.
        """
        owner = scope.owner if scope else None
        until = time.monotonic() + timeout
        await self._learning.settle(owner, timeout)
        await self._filler.settle(owner, max(0.0, until - time.monotonic()))
        return await self._learning.new_receipts(owner)

    async def work(self, *, once: bool = False) -> None:
        """Learn from queued turns of the whole store until cancelled; `once`: until nothing is due."""
        await self._learning.run(once=once)

    async def ledger(self, scope: Scope, *, status: str | None = None, limit: int = 100) -> list[ReceiptRow]:
        """What became of all candidates of a scope, or of one of its threads, newest first."""
        if limit < 1:
            raise UsageError(f"limit is {limit!r}; it must be at least 1")
        return await self._store.entries.ledger(scope, status, min(limit, MAX_LIMIT))

    async def entries(self, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
        """Entries of a scope by id, with their evidence; secrets in quotes are masked."""
        from casenotes.recall.hits import read_entries

        return await read_entries(self._store, scope, ids)

    async def remember(self, scope: Scope, text: str, *, turn: Turn | None = None) -> Entry:
        """Keep what the user asked to keep. In a turn, the message that asked is its evidence.

        Outside a turn the text is saved as a message of the user first, in the scope's thread or in one
        named `remembered`. What reads like an instruction is kept in quarantine: look at `status`.
        """
        content = self._curator.checked(scope, text)
        if turn is not None:
            known = await self._store.messages(turn.scope, turn.message_ids)
            asked = [known[message_id] for message_id in turn.message_ids if message_id in known]
            return await self._curator.remember(turn.scope, content, asked)
        thread = scope if scope.thread_id else Scope(scope.agent_id, scope.resource_id, REMEMBERED)
        return await self._curator.remember(thread, content, (await self.append(thread, text)).messages)

    async def forget(
        self,
        scope: Scope,
        *,
        entry_id: str | None = None,
        thread_id: str | None = None,
        message_id: str | None = None,
        query: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """No longer recall an entry, all of a thread, a message, or what a query finds.

        Entries that rest on forgotten messages go, and so do the messages that forgotten entries quote.
        The log keeps what was said; `undo` takes it back, `erase` removes data for good.
        """
        from casenotes.curate.forget import Selection

        return await self._curator.forget(scope, Selection(entry_id, thread_id, message_id, query), dry_run)

    async def explain(self, entry_id: str, *, scope: Scope | None = None) -> Explanation:
        """Where an entry came from and what has happened to it; a scope leaves out all others."""
        return await self._curator.explain(entry_id, scope)

    async def undo(self, scope: Scope, revision_id: str) -> list[str]:
        """Take back a correction, a merge, a drop, a forgetting or a rebuild; gives the ids concerned."""
        return await self._curator.undo(scope, revision_id)

    async def quarantine(self, scope: Scope) -> list[Entry]:
        """Entries that are set apart because they read like instructions, oldest first."""
        return await self._curator.quarantine(scope)

    async def release(self, scope: Scope, entry_id: str) -> str:
        """Let an entry out of quarantine, after a person has looked at it; gives the revision."""
        return await self._curator.release(scope, entry_id)

    async def audit(self, scope: Scope | None = None, *, fix: bool = False) -> Audit:
        """Verify every entry of a scope, or of the whole store, against its source again.

        With `fix`, entries that fail are dropped; the revisions in the result undo that.
        """
        scopes = [scope] if scope else [size.scope for size in await self._store.scopes()]
        return await self._curator.audit([one.owner for one in scopes], fix)

    async def estimate_rebuild(self, scope: Scope) -> Estimate:
        """How many calls and tokens a rebuild of a scope's entries would take."""
        return await self._curator.estimate(scope.owner)

    async def rebuild(self, scope: Scope, *, progress: Progress | None = None) -> Rebuild:
        """Derive a scope's entries again with the current model and compare; nothing is changed yet.

        `progress` gets the turns done and all there are.
        """
        return await self._curator.rebuild(scope.owner, progress or (lambda _done, _total: None))

    async def switch_to(self, rebuild: Rebuild) -> str:
        """Put rebuilt entries in the place of the old ones; gives the revision that undoes it."""
        return await self._curator.switch(rebuild)

    async def erase(self, scope: Scope, *, scrub: bool = True) -> Erased:
        """Remove a resource, or the scope's thread, with everything derived from it, for good.

        Files that held it are rewritten, which takes a while and holds up others, and every byte of them
        is searched for remains. Without `scrub` removed bytes stay until they are overwritten.
        """
        erased = await self._curator.erase(scope, scrub)
        self._shown.forget(scope)
        return erased

    async def usage(self, scope: Scope, day: date | None = None) -> list[DayUsage]:
        """What models were asked on behalf of a scope on a day (default: today, UTC), by task."""
        wanted = day or self._clock.now().astimezone(UTC).date()
        return await self._store.jobs.usage(scope, wanted.isoformat())

    async def dead_letters(self, limit: int = 100) -> list[TurnState]:
        """Turns of the whole store that could not be learned from; for operators."""
        return await self._store.jobs.dead(limit)

    async def retry_dead_letters(self) -> int:
        """Queue all of them once more; says how many."""
        return await self._store.jobs.revive()

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


def _chat_model(given: Any, settings: Settings) -> RetryingModel | None:
    from casenotes.models.chat import RetryingModel, resolve_model

    model = resolve_model(given)
    if model is None:
        return None
    asking = settings.models
    return RetryingModel(
        model,
        attempts=asking.attempts,
        first_pause_seconds=asking.first_pause_seconds,
        request_seconds=asking.request_seconds,
    )


def _checked_settings(config: Settings) -> Settings:
    if not isinstance(config, Settings):
        raise SettingsError(f"config must be Settings, got {type(config).__name__}")
    return config

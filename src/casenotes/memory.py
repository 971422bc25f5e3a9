"""Memory: the class users meet. It checks what it is given and lets the parts perform.

Nothing heavy is imported until a Memory is opened.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from casenotes.arguments import check_arguments
from casenotes.clock import Clock, SystemClock
from casenotes.config import Settings, effective
from casenotes.errors import CasenotesError, InvalidScope, UsageError
from casenotes.events import Event, Events, Listener
from casenotes.intake import (
    Input,
    as_messages,
    characters,
    check_message,
    check_outcome,
    check_thread,
    new_id,
    redacted,
    with_identity,
)
from casenotes.recall.shown import ShownItems
from casenotes.tasks import compute, run_to_end
from casenotes.tokens import TokenCounter, estimate_tokens
from casenotes.tracing import span
from casenotes.types import (
    OUTCOMES,
    Appended,
    Attempt,
    Briefing,
    ChildScope,
    Context,
    ContextItem,
    Entry,
    Episode,
    Hit,
    Message,
    Observation,
    ObservationStatus,
    Outcome,
    Plan,
    Profile,
    Receipt,
    Role,
    Scope,
    SessionState,
    Thread,
    Tool,
    Turn,
)

if TYPE_CHECKING:
    from casenotes.credentials import Credentials
    from casenotes.curate.audit import Audit
    from casenotes.curate.erase import Erased
    from casenotes.curate.explain import Explanation
    from casenotes.curate.forget import Forgotten
    from casenotes.curate.rebuild import Estimate, Rebuild
    from casenotes.layers.base import Layer
    from casenotes.layers.stack import Parts
    from casenotes.models.embed import Embedder
    from casenotes.models.keys import Keys
    from casenotes.models.workers import Workers
    from casenotes.recall.index import IndexSize
    from casenotes.recall.reembed import Progress, Reembedded
    from casenotes.stores.base import Finding, ScopeSize, Store, StoreStats, TurnStatus
    from casenotes.stores.learning import DayUsage, ReceiptRow, TurnState
    from casenotes.stores.observations import Observing

MAX_LIMIT = 2**31
REMEMBERED = "remembered"
"""The thread of what is remembered outside any conversation."""

CURRENT: tuple[ObservationStatus, ...] = ("active", "ready")
HISTORY: tuple[ObservationStatus, ...] = (*CURRENT, "superseded", "dropped", "quarantined")
FINISH_SECONDS = 30.0
SYNC_SECONDS = 600.0
"""A call that waits for learning waits no longer than this."""

PAGES = 8
"""A page of a long message takes an eighth of a prompt: several may be asked for in one step."""

MAX_CUTS_TOLD = 20
"""An event names no more shortened messages one by one."""

LAST_SECONDS = 0.5
"""What is left for events when a memory is closed and background work has taken all of the time."""


@check_arguments
class Memory:
    """The memory of agents: open it once per process, use it from any number of tasks."""

    def __init__(
        self,
        store: Store,
        parts: Parts,
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter,
    ) -> None:
        self._store = store
        self._space = parts.space
        self._searcher = parts.searcher
        self._filler = parts.filler
        self._layers = parts.layers
        self._states = parts.states
        self._contexts = parts.contexts
        self._learning = parts.learning
        self._curator = parts.curator
        self._keeper = parts.keeper
        self._event_log = parts.event_log
        self._session = parts.session
        self._size = parts.size
        self._keys: Keys | None = None
        self._embedders_of_caller: list[Any] = []
        self._has_entries = settings.episodic.enabled and store.supports_entries
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
        config: Settings | Mapping[str, Any] | str | None = None,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
        count_tokens: TokenCounter | None = None,
        layers: Sequence[Any] = (),
        on_event: Listener | None = None,
    ) -> AsyncIterator[Memory]:
        """Open the memory in a database; leaving the block drains background work and closes it.

        If leaving it is cancelled the closing goes on in the background.

        What is left out comes from `config`, then from the environment (`CASENOTES_DATABASE_URL` and its
        siblings), the file `casenotes.toml`, and the defaults: the file `casenotes.db`, the built-in embedder,
        and no model. `config` is Settings or a JSON object `{"memory": {…}}`; `credentials` finds the secrets
        that it names by id. A `model` is
        `provider:name`, a Pydantic AI model, or any object with `label` and `async ask(request)`. `layers`
        of your own stand beside the built-in ones: see `casenotes.layers.base.BaseLayer`.
        """
        from casenotes.layers.stack import Builder
        from casenotes.models.keys import look_up
        from casenotes.models.workers import Workers
        from casenotes.stores import create_store

        chosen = effective(config, url=url, model=model, embedder=embedder)
        keys = await look_up(chosen, credentials)
        settings, made = chosen.settings, cls if chosen.settings.enabled else _off()
        clock = clock or SystemClock()
        events = Events(clock)
        if on_event:
            events.listen(on_event)
        count = count_tokens or estimate_tokens
        workers = Workers(chosen.model, settings.models, keys.secrets)
        store = create_store(keys.database_url, settings.storage)
        builder = Builder(store, workers, settings, clock, events, count)
        memory: Memory | None = None
        try:
            keys.check_models(workers)
            await store.open()
            parts = await builder.build(
                keys.embedder, keys.embedder_of_label, layers if settings.enabled else ()
            )
            memory = made(store, parts, settings, clock, events, count)
            memory._keys = keys
            memory._embedders_of_caller.append(chosen.embedder)
            events.listen(memory._event_log.note)
            yield memory
        finally:
            await run_to_end(_close(memory, store, workers))

    @classmethod
    def from_json(
        cls,
        config: Mapping[str, Any] | str,
        credentials: Credentials | None = None,
        *,
        url: str | None = None,
        embedder: str | Embedder | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[Memory]:
        """Open the memory that a JSON object `{"memory": {…}}` describes; takes what `open` takes.

        All that is wrong with the object is told at once, before anything is opened. The key for embeddings is
        that of its credential and never one of the environment.
        """
        from casenotes.config.json_read import json_object

        effective(json_object(config), url=url, embedder=embedder)
        return cls.open(url, config=config, credentials=credentials, embedder=embedder, **options)

    async def _drain(self) -> None:
        until = time.monotonic() + self._settings.storage.close_timeout_seconds
        left = self._settings.storage.close_timeout_seconds
        try:
            await asyncio.gather(self._learning.close(left), self._session.close(left))
            await self._filler.settle(timeout=max(0.0, until - time.monotonic()))
        finally:
            await self._filler.cancel()
            await self._searcher.close()
            await self._event_log.close(max(LAST_SECONDS, until - time.monotonic()))
            await self._close_embedder()

    async def _close_embedder(self) -> None:
        """Close the connections of one that was made here; what was handed over is not ours to close."""
        embedder = self._space.current.embedder
        close = getattr(embedder, "close", None)
        if close is not None and not any(embedder is given for given in self._embedders_of_caller):
            await close()

    @property
    def location(self) -> str:
        """Where the memory lies, without password."""
        return self._store.location

    def size_of(self, message: Message) -> int:
        """How many tokens a message takes of a prompt, by the counter of this memory."""
        check_message(message)
        return self._size(message)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event; the result takes it off again."""
        return self._events.listen(listener)

    async def begin(self, scope: Scope | ChildScope, user_input: Input, *, provider: str | None = None) -> Turn:
        """Start a turn: the input is saved durably, then the context for the model is gathered.

        `provider` names the model that will be asked: another one than the last time has no prompt of this
        thread in its cache, so observations that are ready take the place of messages at once.
        """
        started = time.perf_counter()
        child = scope if isinstance(scope, ChildScope) else None
        own = scope.scope if isinstance(scope, ChildScope) else scope
        turn = Turn(new_id(self._clock.now()), own, Context(), child=child)
        messages = as_messages(user_input, "user")
        with span("begin turn", "invoke_agent", own), self._filler.expecting(own):
            saved = await self._save(turn, messages, "open")
            seconds = {"save": time.perf_counter() - started}
            try:
                context, log, shown = await self._contexts.first(turn, saved.messages, seconds, provider)
            except BaseException:  # nobody will ever complete it
                await asyncio.shield(self._abort(turn))
                raise
            finally:  # the turn does not wait for its own input to be embedded
                self._embed(turn, saved)
        self._shown.add(own, shown, turn.id)
        self._learning.notice(own)
        self._events.emit("turn.started", own, turn_id=turn.id)
        ids = [str(message.id) for message in saved.given]
        _note_shown(turn, context)
        self._tell_of_cuts(turn, context, ())
        return replace(
            turn,
            context=context,
            own_tools=self._tools(turn),
            read_tool=self._read_tool(turn),
            message_ids=ids,
            log=log,
        )

    async def _abort(self, turn: Turn) -> None:
        with suppress(CasenotesError):
            await self._save(turn, (), "aborted")

    async def step(self, turn: Turn, messages: Input) -> Context:
        """Save what happened since the last model call and return the context for the next one.

        What the turn began with stays, so that the beginning of the prompt stays the same; layers that
        change within a turn, such as the plan, are asked again. Calling it again with the same messages
        after an error, or after it was cancelled, saves nothing twice.
        """
        started = time.perf_counter()
        turn.closing.clear()  # the turn goes on, should a `complete` have failed before
        known = len(turn.message_ids)
        before = [*turn.shortened]
        try:
            await self._continue(turn, messages, None)
            context, shown = await self._contexts.next(turn, {"save": time.perf_counter() - started})
        except BaseException:
            del turn.message_ids[known:]  # a repeated call gives its messages the same ids again
            raise
        self._shown.add(turn.scope, shown, turn.id)
        _note_shown(turn, context)
        self._tell_of_cuts(turn, context, before)
        return context

    def _tell_of_cuts(self, turn: Turn, context: Context, before: Sequence[tuple[str, int, int]]) -> None:
        """What is shown shortened, unless it was shown so before."""
        new = {message_id for message_id, *_ in turn.shortened.keys() - set(before)}
        cuts = [cut for cut in context.trace["messages"]["shortened"] if cut["id"] in new]
        if cuts:
            self._events.emit(
                "context.shortened",
                turn.scope,
                turn_id=turn.id,
                count=len(cuts),
                tokens=sum(cut["tokens"] for cut in cuts),
                shown=sum(cut["shown"] for cut in cuts),
                messages=cuts[:MAX_CUTS_TOLD],
            )

    async def complete(
        self,
        turn: Turn,
        messages: Input = (),
        outcome: Outcome = "success",
        *,
        error: str = "",
        sync: bool | None = None,
    ) -> Receipt:
        """End a turn: save what `step` has not seen and how it ended.

        Calling it again with the same messages after an error saves nothing twice. What is to be learned
        from the turn is learned in the background; with `sync` (default: the setting) the call waits for
        it, and the receipt says what became of every candidate. The failure of a sub-agent is noted in its
        parent's thread, with `error` if one is given.
        """
        check_outcome(outcome)
        if not turn.closing:
            turn.closing.append(len(turn.message_ids))
        del turn.message_ids[turn.closing[0] :]  # a repeated call gives its messages the same ids again
        await self._continue(turn, messages, outcome)
        self._session.wake(turn.scope)
        if turn.child and outcome == "failure":
            await self._note_failure(turn, turn.child, error)
        self._events.emit("turn.finished", turn.scope, turn_id=turn.id, outcome=outcome)
        return await self._learned(turn, outcome, self._settings.episodic.sync if sync is None else sync)

    async def _learned(self, turn: Turn, outcome: Outcome, waits: bool) -> Receipt:
        """Queue the turn for all layers that learn from it; the receipt tells of entries."""
        until = time.monotonic() + SYNC_SECONDS
        if waits:
            await self._filler.settle(turn.scope, SYNC_SECONDS)
        if learners := self._learners(turn, outcome):
            self._learning.queue(turn.scope, turn.id, learners)
        if waits:
            await self._learning.settle(turn.scope, max(0.0, until - time.monotonic()))
        if reason := self._not_learned(turn, outcome):
            return Receipt(turn.id, outcome, tuple(turn.message_ids), reason=reason)
        if waits:
            return await self._learning.receipt(turn.scope, turn.id)
        return Receipt(turn.id, outcome, tuple(turn.message_ids), "queued")

    async def _note_failure(self, turn: Turn, child: ChildScope, error: str) -> None:
        """The turn is saved by then: a note that cannot be made must not undo that."""
        try:
            said = [message for message in turn.log if message.id in turn.message_ids]
            await self._keeper.record_failed_turn(child, turn.id, said, error)
        except CasenotesError as problem:
            self._events.emit("layer.failed", child.parent, source="attempts", error=str(problem))

    def _learners(self, turn: Turn, outcome: str | None) -> tuple[str, ...]:
        """The layers that learn from a turn, if it is closed with that outcome."""
        closed = next((known for known in OUTCOMES if known == outcome), None)
        return self._learning.learners(turn.scope, closed) if closed and not turn.is_apart else ()

    def _not_learned(self, turn: Turn, outcome: str) -> str:
        """Why no entries are learned from a turn, empty if some may be."""
        if not self._has_entries:
            return "episodic memory is off"
        if turn.is_apart:
            return "a sub-agent leaves nothing in its parent's memory"
        if turn.scope.resource_id is None:
            return "the scope has no resource_id"
        if not self._learning.can_learn_entries:
            return "no model is configured"
        return "" if outcome == "success" else f"the outcome is {outcome}"

    async def finish(self, scope: Scope | ChildScope, outcome: Outcome = "success") -> None:
        """End a run: wait for what is to be learned from it, and tell every layer; one summary is written."""
        from casenotes.layers.assemble import in_reach

        check_outcome(outcome)
        own, child = (scope.scope, scope) if isinstance(scope, ChildScope) else (scope, None)
        if own.thread_id is None:
            raise InvalidScope(f"{own!r} has no thread_id; a run is finished in one thread")
        apart = child is not None and not child.shares_memory
        until = time.monotonic() + FINISH_SECONDS
        if not apart:
            await self._session.flush(own, FINISH_SECONDS)
        await self._settle(own, max(0.0, until - time.monotonic()))
        layers = in_reach(self._layers, own, apart=apart)
        await asyncio.gather(*(self._tell_end(layer, own, outcome) for layer in layers))
        self._events.emit("run.finished", own, outcome=outcome)

    async def _tell_end(self, layer: Layer, scope: Scope, outcome: Outcome) -> None:
        from casenotes.layers.base import CompleteRequest
        from casenotes.tasks import is_asked_to_stop

        state = self._states.of(layer.name, layer.scope, scope)
        try:
            async with asyncio.timeout(self._settings.jobs.hook_seconds):
                await layer.complete(CompleteRequest(scope, outcome, self._clock.now(), state))
        except (Exception, asyncio.CancelledError) as error:
            if is_asked_to_stop():
                raise
            problem = f"{type(error).__name__}: {error}"
            self._events.emit("layer.failed", scope, source=layer.name, error=problem)

    async def _continue(self, turn: Turn, given: Input, status: TurnStatus | None) -> None:
        with self._filler.expecting(turn.scope):
            saved = await self._save(turn, as_messages(given, "assistant"), status)
            self._embed(turn, saved)
        turn.message_ids.extend(str(m.id) for m in saved.given)
        known = {message.id for message in turn.log}
        turn.log.extend(message for message in saved.messages if message.id not in known)

    async def _save(self, turn: Turn, messages: Sequence[Message], status: TurnStatus | None) -> Appended:
        from casenotes.stores.base import TurnMark

        shown = self._shown.of(turn.scope, turn.id) if status != "open" else ()
        learners = self._learners(turn, status)
        parent = turn.child.parent.thread_id if turn.child and status == "open" else None
        mark = TurnMark(
            turn.id,
            status,
            self._clock.now(),
            learners,
            shown,
            turn.is_apart,
            parent,
            self._session.watch(),
        )
        checked = await self._prepare(messages, turn.id, len(turn.message_ids))
        saved = await self._store.append(turn.scope, checked, mark)
        self._shown.saved(turn.scope, turn.id, shown)
        return saved

    def _embed(self, turn: Turn, saved: Appended) -> None:
        """In the background; what sub-agents say is not searched."""
        if not turn.is_apart:
            self._filler.schedule(turn.scope, saved.new_messages)

    async def _prepare(self, given: Sequence[Message], prefix: str, position: int) -> list[Message]:
        """Check messages and give them what they are saved with; long ones beside the host's loop."""

        def prepare() -> list[Message]:
            messages = given
            for message in messages:
                check_message(message, self._settings.storage.max_message_characters)
            if self._settings.storage.redact_messages:
                messages = [redacted(message) for message in messages]
            if self._session.is_on:
                messages = [replace(message, tokens=self._size(message)) for message in messages]
            return with_identity(messages, prefix, position, self._clock.now())

        return await compute(prepare, sum(map(characters, given)))

    def _tools(self, turn: Turn) -> tuple[Tool, ...]:
        """What the model may call in a turn: the search of this memory, and the tools of layers."""
        from casenotes.layers.assemble import in_reach
        from casenotes.layers.tools import layer_tools, recall_tool

        layers = in_reach(self._layers, turn.scope, apart=turn.is_apart)
        tools = layer_tools(layers, self._states, turn.scope, turn.id, self._events)
        if turn.scope.resource_id is None or turn.is_apart or not self._has_entries:
            return tools

        async def search(query: str) -> list[Hit]:
            """What the model does not see anyway."""
            top_k = self._settings.episodic.top_k
            hits = await self._search(turn.scope, query, top_k + len(turn.visible))
            wanted = [hit for hit in hits if hit.kind == "entry" or hit.id not in turn.visible][:top_k]
            self._shown.add_hits(turn.scope, wanted, turn.id)
            return wanted

        return (recall_tool(search, self._settings.episodic.recall_tool_prompt), *tools)

    def _read_tool(self, turn: Turn) -> Tool:
        """What reads on in a message of the turn's thread; forgotten ones and those of others are not there."""
        from casenotes.layers.tools import read_tool

        async def find(message_id: str) -> Message | None:
            message = (await self._store.messages(turn.scope, [message_id])).get(message_id)
            if message is None or message.thread_id != turn.scope.thread_id:
                return None
            is_forgotten = not turn.is_apart and await self._store.entries.hidden(turn.scope, [message_id])
            return None if is_forgotten else message

        page_tokens = self._settings.budget.prompt_tokens // PAGES
        return read_tool(find, page_tokens, self._size.of_text)

    async def append(
        self, scope: Scope | ChildScope, messages: Input, *, role: Role = "user", embed: bool = True
    ) -> Appended:
        """Save messages outside a turn, for example from another system, and embed them.

        Messages without an id get a new one; give ids to make repeated calls harmless. With
        `embed=False` the vectors are left to `embed` or to the next recall. What is said to a sub-agent
        that shares no memory is not searched.
        """
        checked = await self._prepare(as_messages(messages, role), new_id(self._clock.now()), 0)
        if isinstance(scope, ChildScope):
            return await self._append_apart(scope, checked)
        if not embed:
            return await self._store.append(scope, checked)
        with self._filler.expecting(scope):
            saved = await self._store.append(scope, checked)
            await self.embed(scope, saved.new_messages)
        self._session.wake(scope)
        return saved

    async def _append_apart(self, child: ChildScope, messages: Sequence[Message]) -> Appended:
        """In the thread of a sub-agent; vectors of one that shares memory are left to the next recall."""
        from casenotes.stores.base import TurnMark

        hidden = not child.shares_memory
        mark = TurnMark(None, None, self._clock.now(), hidden=hidden, parent=child.parent.thread_id)
        return await self._store.append(child.scope, messages, mark)

    async def embed(self, scope: Scope, messages: Sequence[Message]) -> int:
        """Make the vectors of saved messages; says how many. Failures become events."""
        for message in messages:
            check_message(message)
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
        limit = _checked_limit(self._settings.last_messages if limit is None else limit)
        if before is not None and after is not None:
            raise UsageError("before and after exclude each other; give one of them")
        return await self._store.history(scope, limit=limit, before=before, after=after)

    async def threads(self, scope: Scope) -> list[Thread]:
        """The scope's threads, in order of creation; those of sub-agents have a `parent_id`."""
        from casenotes.learn.titles import title_of

        return [
            thread if thread.named else replace(thread, title=title_of(thread.title or ""))
            for thread in await self._store.threads(scope)
        ]

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
        await self._settle(owner, timeout)
        return await self._learning.new_receipts(owner)

    async def settled(self, scope: Scope | None = None, timeout: float = 30.0) -> bool:
        """Wait until nothing is left to learn or to observe now; says whether that is so within the time.

        What has failed and waits for its next try, or was said too recently to be observed, does not count.
        """
        await self._settle(scope, timeout)
        return await self._learning.is_settled(scope) and await self._session.is_settled(scope)

    async def observe(self, scope: Scope, timeout: float = 30.0) -> bool:
        """Observe what is left of a thread now, as at the end of a session, and wait for it.

        Says whether that was done; of a turn that is under way the newest step is left. False without a model,
        when it failed, and when the time is over.
        """
        return await self._session.flush(scope, timeout)

    async def observations(self, scope: Scope, *, history: bool = False) -> list[Observation]:
        """What a thread was compressed to, in order: rows that are shown and rows that are ready for it.

        With `history` also those that were condensed, dropped or set apart. Nothing made of messages that were
        forgotten since is among them.
        """
        from casenotes.stores.observations import is_touched

        rows = await self._store.observations.log(scope, HISTORY if history else CURRENT)
        forgotten = await self._store.observations.forgotten(scope)
        return [row for row in rows if not is_touched(row, forgotten)]

    async def session(self, scope: Scope) -> SessionState:
        """Where a conversation stands, as it was observed."""
        from casenotes.stores.observations import session_without

        state = await self._store.observations.state(scope)
        return session_without(state, await self._store.observations.forgotten(scope))

    async def observing(self, scope: Scope) -> Observing:
        """How far observing a thread has come: cursors, tokens, what went wrong last."""
        return await self._store.observations.state(scope)

    async def reobserve(self, scope: Scope) -> bool:
        """Throw away what a thread was compressed to and observe it anew; False if there was nothing."""
        reset = await self._store.observations.reset(scope)
        self._session.wake(scope)
        return reset

    async def _settle(self, scope: Scope | None, timeout: float) -> None:
        until = time.monotonic() + timeout
        await self._learning.settle(scope, timeout)
        await self._session.settle(scope, max(0.0, until - time.monotonic()))
        await self._filler.settle(scope, max(0.0, until - time.monotonic()))
        await self._event_log.settle(max(0.0, until - time.monotonic()))

    async def work(self, *, once: bool = False) -> None:
        """Learn from turns and observe threads of the whole store until cancelled, or until nothing is due."""
        if not self._session.can_work:
            await self._learning.run(once=once)
            return
        async with asyncio.TaskGroup() as both:
            both.create_task(self._session.run(once=once))
            if self._learning.can_work:
                both.create_task(self._learning.run(once=once))

    async def ledger(self, scope: Scope, *, status: str | None = None, limit: int = 100) -> list[ReceiptRow]:
        """What became of all candidates of a scope, or of one of its threads, newest first."""
        return await self._store.entries.ledger(scope, status, _checked_limit(limit))

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

    async def turn_context(self, scope: Scope, turn_id: str) -> list[ContextItem]:
        """The memories found for a turn: those its model was shown, and those left out, with the reason.

        They are known from the turn's first `step` or its end on. What was erased since is missing.
        """
        from casenotes.recall.hits import read_context_items

        items = await self._store.entries.turn_items(scope, turn_id)
        return await read_context_items(self._store, scope, items)

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
        self._event_log.forget(scope)
        erased = await self._curator.erase(scope, scrub)
        self._event_log.forget(scope)
        self._shown.forget(scope)
        return erased

    async def profile(self, scope: Scope) -> Profile:
        """What the agent knows about a user."""
        return await self._keeper.profile(scope)

    async def update_profile(self, scope: Scope, field: str, action: str, value: str | None = None) -> Profile:
        """Change one field of a profile (`Section/Name`): `set`, `append` or `remove`."""
        return await self._keeper.update_profile(scope, field, action, value)

    async def profile_history(self, scope: Scope, limit: int = 50) -> list[Profile]:
        """Versions of a profile, newest first, each with its author and time."""
        return await self._keeper.profile_history(scope, _checked_limit(limit))

    async def undo_profile(self, scope: Scope) -> Profile:
        """Take back the last change of a profile; called again, the one before it."""
        return await self._keeper.undo_profile(scope)

    async def plan(self, scope: Scope) -> Plan | None:
        """The plan of a thread, None if there is none."""
        return await self._keeper.plan(scope)

    async def update_plan(
        self,
        scope: Scope,
        *,
        goal: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        steps: Sequence[Mapping[str, str]] | None = None,
        updates: Sequence[Mapping[str, Any]] | None = None,
        version: int | None = None,
    ) -> Plan:
        """Change the plan of a thread; what is left out stays. `version` is the one that you have seen.

        Steps are `{"text", "status"}`, updates `{"step", "status", "text"}` with steps counted from 1.
        StateConflict if the plan has another version by now.
        """
        parts = {"goal": goal, "phase": phase, "iteration": iteration, "steps": steps, "updates": updates}
        return await self._keeper.update_plan(scope, {**parts, "version": version})

    async def episodes(self, scope: Scope, limit: int = 20) -> list[Episode]:
        """Summaries of the last runs for a user, oldest first."""
        return await self._keeper.episodes(scope, _checked_limit(limit))

    async def briefing(
        self, scope: Scope, task: str, conversation_context: str | Sequence[Message] | None = None
    ) -> Briefing:
        """What to tell a sub-agent: its task, the conversation, and what was tried for it in vain.

        Without a context the last few messages of the thread are taken; an empty one leaves it out.
        """
        return await self._keeper.briefing(scope, task, conversation_context)

    async def record_attempt(
        self, scope: Scope, task: str, tried: str, error: str, outcome: Outcome = "failure"
    ) -> Attempt:
        """Note something that was tried in a thread in vain; briefings for the same task tell of it."""
        return await self._keeper.record_attempt(scope, task, tried, error, outcome)

    async def attempts(self, scope: Scope) -> list[Attempt]:
        """What was tried in a thread in vain, oldest first."""
        return await self._keeper.attempts(scope)

    async def event_history(self, scope: Scope, limit: int = 100) -> list[Event]:
        """What happened in a thread, oldest first: turns, learning, failures, model usage."""
        wanted = _checked_limit(limit)
        await self._event_log.settle(self._settings.storage.busy_timeout_seconds)
        rows = await self._store.events.newest(scope, wanted)
        return [Event(row.name, row.at, scope, row.data) for row in reversed(rows)]

    async def usage(self, scope: Scope, day: date | None = None) -> list[DayUsage]:
        """What models were asked on behalf of a scope on a day (default: today, UTC), by task."""
        wanted = day or self._clock.now().astimezone(UTC).date()
        return await self._store.jobs.usage(scope, wanted.isoformat())

    async def dead_letters(self, limit: int = 100) -> list[TurnState]:
        """Turns of the whole store that could not be learned from; for operators."""
        return await self._store.jobs.dead(_checked_limit(limit))

    async def retry_dead_letters(self) -> int:
        """Queue all of them once more; says how many."""
        return await self._store.jobs.revive() + await self._store.observations.revive()

    async def dead_observers(self, limit: int = 100) -> list[Observing]:
        """Threads of the whole store whose observing was given up; for operators."""
        return await self._store.observations.dead(_checked_limit(limit))

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

        if isinstance(embedder, str) and self._keys:
            embedder = self._keys.named_embedder(embedder)
        else:
            self._embedders_of_caller.append(embedder)
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

    async def table_sizes(self) -> dict[str, int]:
        """Bytes of each table with its indexes, largest first; SQLite reads the whole file for it."""
        return await self._store.table_sizes()

    async def index_size(self, scope: Scope) -> IndexSize:
        """What searching a scope takes in memory; loads the scope if it is not there yet."""
        return await self._searcher.index_size(scope)

    async def check(self) -> list[Finding]:
        """What the store finds out about its own health."""
        from casenotes.jobs import longest_wait
        from casenotes.layers.observing import longest_idle
        from casenotes.recall.reembed import space_finding
        from casenotes.stores.base import clock_finding

        findings = await self._store.check()
        if any(found.status == "failed" and found.name in ("file", "integrity") for found in findings):
            return findings  # a damaged store is not asked for more
        ahead = await self._store.jobs.times_ahead(
            datetime.now(UTC),
            longest_wait(self._settings.jobs),
            self._clock.now(),
            longest_idle(self._settings.observational),
        )
        return [*findings, clock_finding(ahead), space_finding(await self._store.spaces())]


async def _close(memory: Memory | None, store: Store, workers: Workers) -> None:
    """Release everything, whatever becomes of the parts before."""
    try:
        if memory is not None:
            await memory._drain()
    finally:
        try:
            await store.close()
        finally:
            await workers.close()


def _note_shown(turn: Turn, context: Context) -> None:
    """Keep what the model was shown last: blocks that may stay, and messages that it need not search for."""
    turn.blocks.clear()
    turn.blocks.update({block.name: block for block in context.blocks})
    turn.visible.clear()
    turn.visible.update(str(message.id) for message in context.messages)


def _checked_limit(limit: int) -> int:
    """The limit, as both databases take it."""
    return min(limit, MAX_LIMIT)


def _off() -> type[Memory]:
    from casenotes.memory_off import MemoryOff

    return MemoryOff

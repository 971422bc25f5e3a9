"""The same verbs for synchronous callers, each one line over a private loop.

The loop lives in a thread of its own, so background work goes on between calls.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from casenotes import memory as _async
from casenotes.errors import StoreUnavailable, UsageError
from casenotes.events import Event, Listener
from casenotes.intake import Input
from casenotes.tasks import closing_tasks, end, wait_for_closing
from casenotes.types import (
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
    from casenotes.models.embed import Embedder
    from casenotes.recall.index import IndexSize
    from casenotes.recall.reembed import Progress, Reembedded
    from casenotes.stores.base import Finding, ScopeSize, StoreStats
    from casenotes.stores.learning import DayUsage, ReceiptRow, TurnState
    from casenotes.stores.observations import Observing

T = TypeVar("T")


class PrivateLoop:
    """An event loop in a thread of its own; calls from other threads wait for their result."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._gate = threading.Lock()
        self._calls: set[Future[Any]] = set()
        self._is_closing = False
        self._entering: asyncio.Task[Any] | None = None
        self._entered: AbstractAsyncContextManager[Any] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="casenotes-loop", daemon=True)

    def start(self) -> None:
        """Start the thread; `close` ends it, even if this was interrupted."""
        self._thread.start()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()
        for call in self._calls.copy():  # a task that ignored its cancellation: nobody else will answer it
            call.cancel()
        self._has_ended.set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine; raise where waiting would never end."""
        try:
            call = self._submit(work)
        except Exception:  # but not an interruption, which may come when the loop has it already
            work.close()
            raise
        try:
            return call.result()
        except CancelledError:
            if not self._is_closing:
                raise
            raise StoreUnavailable(
                "the memory was closed during this call; open it again and repeat it"
            ) from None
        finally:
            call.cancel()  # if the caller was interrupted
            self._calls.discard(call)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if os.getpid() != self._process:  # first: another thread may have held the lock during the fork
            raise UsageError(
                f"process {os.getpid()} was forked from process {self._process}, which opened this memory; "
                "open the memory in the child process"
            )
        if threading.current_thread() is self._thread:
            raise UsageError(
                "a listener or callback called the memory in the memory's own thread, where the call would "
                "wait for itself; make the call in another thread, or use casenotes.Memory and await it"
            )
        with self._gate:
            if self._is_closing:
                raise StoreUnavailable("the memory is closed; open it again")
            call = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._calls.add(call)
        return call

    def enter(self, opening: AbstractAsyncContextManager[T]) -> T:
        """Enter a context in this loop; `close` leaves it, even if the caller was interrupted meanwhile."""
        return self.run(self._enter(opening))

    async def _enter(self, opening: AbstractAsyncContextManager[T]) -> T:
        self._entering = asyncio.current_task()
        value = await opening.__aenter__()
        self._entered = opening
        return value

    def close(self) -> None:
        """Leave the context, cancel the calls under way and end the thread; a second call waits for the first.

        Waits for it, except in the thread itself, where a garbage collector may call this. A forked process and
        an interpreter that shuts down have no such thread any more.
        """
        if os.getpid() != self._process or sys.is_finalizing():
            return
        if self._thread.ident is None:
            self._loop.close()
            return
        with self._gate:
            self._is_closing = True
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._start_leaving)
        if threading.current_thread() is not self._thread:
            self._has_ended.wait()  # once interrupted, `join` does not wait again before Python 3.13
            self._thread.join()
            if self._leaving is not None:
                self._leaving.result()

    def _start_leaving(self) -> None:
        """Once, however often `close` was interrupted and called again."""
        if self._leaving is None:
            self._leaving = self._loop.create_task(self._leave())

    async def _leave(self) -> None:
        try:
            if self._entering is not None:
                await end([self._entering])
            entered, self._entered = self._entered, None
            if entered is not None:
                await entered.__aexit__(None, None, None)
        finally:
            try:
                await end(asyncio.all_tasks() - {asyncio.current_task()} - closing_tasks())
                await wait_for_closing()  # of an opening that was interrupted
                await self._loop.shutdown_asyncgens()
            finally:
                self._loop.call_soon(self._loop.stop)


class Memory:
    """`casenotes.Memory` without `await`: the verbs, their arguments and results are the same."""

    def __init__(self, memory: _async.Memory, loop: PrivateLoop) -> None:
        self._memory = memory
        self._run = loop.run

    @classmethod
    def open(cls, url: str | None = None, **options: Any) -> AbstractContextManager[Memory]:
        """See `casenotes.Memory.open`."""
        return cls._opened(_async.Memory.open(url, **options))

    @classmethod
    def from_json(
        cls,
        config: Mapping[str, Any] | str,
        credentials: Credentials | None = None,
        *,
        url: str | None = None,
        embedder: str | Embedder | None = None,
        **options: Any,
    ) -> AbstractContextManager[Memory]:
        """See `casenotes.Memory.from_json`."""
        return cls._opened(_async.Memory.from_json(config, credentials, url=url, embedder=embedder, **options))

    @classmethod
    @contextmanager
    def _opened(cls, opening: AbstractAsyncContextManager[_async.Memory]) -> Iterator[Memory]:
        loop = PrivateLoop()
        try:
            loop.start()
            try:
                yield cls(loop.enter(opening), loop)
            finally:
                loop.close()
        finally:
            loop.close()  # if the first one was interrupted

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `casenotes.Memory.listen`.

        The listener runs in the thread of the private loop; calling the memory there raises UsageError.
        """
        return self._memory.listen(listener)

    def size_of(self, message: Message) -> int:
        """See `casenotes.Memory.size_of`."""
        return self._memory.size_of(message)

    @property
    def location(self) -> str:
        """Where the memory lies, without password."""
        return self._memory.location

    def begin(self, scope: Scope | ChildScope, user_input: Input, *, provider: str | None = None) -> Turn:
        """See `casenotes.Memory.begin`; calling a tool of the turn gives its result, not an awaitable."""
        turn = self._run(self._memory.begin(scope, user_input, provider=provider))
        read_tool = turn.read_tool and self._without_await(turn.read_tool)
        return replace(turn, own_tools=tuple(map(self._without_await, turn.own_tools)), read_tool=read_tool)

    def _without_await(self, tool: Tool) -> Tool:
        async def result(*args: Any, **values: Any) -> Any:
            return await tool.call(*args, **values)

        return replace(tool, call=lambda *args, **values: self._run(result(*args, **values)))

    def step(self, turn: Turn, messages: Input) -> Context:
        """See `casenotes.Memory.step`."""
        return self._run(self._memory.step(turn, messages))

    def complete(
        self,
        turn: Turn,
        messages: Input = (),
        outcome: Outcome = "success",
        *,
        error: str = "",
        sync: bool | None = None,
    ) -> Receipt:
        """See `casenotes.Memory.complete`."""
        return self._run(self._memory.complete(turn, messages, outcome, error=error, sync=sync))

    def append(
        self, scope: Scope | ChildScope, messages: Input, *, role: Role = "user", embed: bool = True
    ) -> Appended:
        """See `casenotes.Memory.append`."""
        return self._run(self._memory.append(scope, messages, role=role, embed=embed))

    def embed(self, scope: Scope, messages: Sequence[Message]) -> int:
        """See `casenotes.Memory.embed`."""
        return self._run(self._memory.embed(scope, messages))

    def recall(
        self,
        scope: Scope,
        query: str,
        top_k: int | None = None,
        *,
        as_of: datetime | None = None,
        quarantined: bool = False,
    ) -> list[Hit]:
        """See `casenotes.Memory.recall`."""
        return self._run(self._memory.recall(scope, query, top_k, as_of=as_of, quarantined=quarantined))

    def history(
        self,
        scope: Scope,
        limit: int | None = None,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Message]:
        """See `casenotes.Memory.history`."""
        return self._run(self._memory.history(scope, limit, before=before, after=after))

    def threads(self, scope: Scope) -> list[Thread]:
        """See `casenotes.Memory.threads`."""
        return self._run(self._memory.threads(scope))

    def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """See `casenotes.Memory.update_thread`."""
        return self._run(self._memory.update_thread(scope, title=title, metadata=metadata))

    def finish(self, scope: Scope | ChildScope, outcome: Outcome = "success") -> None:
        """See `casenotes.Memory.finish`."""
        return self._run(self._memory.finish(scope, outcome))

    def flush(self, scope: Scope | None = None, timeout: float = 30.0) -> list[Receipt]:
        """See `casenotes.Memory.flush`."""
        return self._run(self._memory.flush(scope, timeout))

    def settled(self, scope: Scope | None = None, timeout: float = 30.0) -> bool:
        """See `casenotes.Memory.settled`."""
        return self._run(self._memory.settled(scope, timeout))

    def observe(self, scope: Scope, timeout: float = 30.0) -> bool:
        """See `casenotes.Memory.observe`."""
        return self._run(self._memory.observe(scope, timeout))

    def observations(self, scope: Scope, *, history: bool = False) -> list[Observation]:
        """See `casenotes.Memory.observations`."""
        return self._run(self._memory.observations(scope, history=history))

    def session(self, scope: Scope) -> SessionState:
        """See `casenotes.Memory.session`."""
        return self._run(self._memory.session(scope))

    def observing(self, scope: Scope) -> Observing:
        """See `casenotes.Memory.observing`."""
        return self._run(self._memory.observing(scope))

    def reobserve(self, scope: Scope) -> bool:
        """See `casenotes.Memory.reobserve`."""
        return self._run(self._memory.reobserve(scope))

    def work(self, *, once: bool = False) -> None:
        """See `casenotes.Memory.work`."""
        return self._run(self._memory.work(once=once))

    def ledger(self, scope: Scope, *, status: str | None = None, limit: int = 100) -> list[ReceiptRow]:
        """See `casenotes.Memory.ledger`."""
        return self._run(self._memory.ledger(scope, status=status, limit=limit))

    def entries(self, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
        """See `casenotes.Memory.entries`."""
        return self._run(self._memory.entries(scope, ids))

    def remember(self, scope: Scope, text: str, *, turn: Turn | None = None) -> Entry:
        """See `casenotes.Memory.remember`."""
        return self._run(self._memory.remember(scope, text, turn=turn))

    def forget(
        self,
        scope: Scope,
        *,
        entry_id: str | None = None,
        thread_id: str | None = None,
        message_id: str | None = None,
        query: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """See `casenotes.Memory.forget`."""
        given = {"entry_id": entry_id, "thread_id": thread_id, "message_id": message_id, "query": query}
        return self._run(self._memory.forget(scope, **given, dry_run=dry_run))

    def turn_context(self, scope: Scope, turn_id: str) -> list[ContextItem]:
        """See `casenotes.Memory.turn_context`."""
        return self._run(self._memory.turn_context(scope, turn_id))

    def explain(self, entry_id: str, *, scope: Scope | None = None) -> Explanation:
        """See `casenotes.Memory.explain`."""
        return self._run(self._memory.explain(entry_id, scope=scope))

    def undo(self, scope: Scope, revision_id: str) -> list[str]:
        """See `casenotes.Memory.undo`."""
        return self._run(self._memory.undo(scope, revision_id))

    def quarantine(self, scope: Scope) -> list[Entry]:
        """See `casenotes.Memory.quarantine`."""
        return self._run(self._memory.quarantine(scope))

    def release(self, scope: Scope, entry_id: str) -> str:
        """See `casenotes.Memory.release`."""
        return self._run(self._memory.release(scope, entry_id))

    def audit(self, scope: Scope | None = None, *, fix: bool = False) -> Audit:
        """See `casenotes.Memory.audit`."""
        return self._run(self._memory.audit(scope, fix=fix))

    def estimate_rebuild(self, scope: Scope) -> Estimate:
        """See `casenotes.Memory.estimate_rebuild`."""
        return self._run(self._memory.estimate_rebuild(scope))

    def rebuild(self, scope: Scope, *, progress: Progress | None = None) -> Rebuild:
        """See `casenotes.Memory.rebuild`; progress is told in the thread of the private loop."""
        return self._run(self._memory.rebuild(scope, progress=progress))

    def switch_to(self, rebuild: Rebuild) -> str:
        """See `casenotes.Memory.switch_to`."""
        return self._run(self._memory.switch_to(rebuild))

    def erase(self, scope: Scope, *, scrub: bool = True) -> Erased:
        """See `casenotes.Memory.erase`."""
        return self._run(self._memory.erase(scope, scrub=scrub))

    def profile(self, scope: Scope) -> Profile:
        """See `casenotes.Memory.profile`."""
        return self._run(self._memory.profile(scope))

    def update_profile(self, scope: Scope, field: str, action: str, value: str | None = None) -> Profile:
        """See `casenotes.Memory.update_profile`."""
        return self._run(self._memory.update_profile(scope, field, action, value))

    def profile_history(self, scope: Scope, limit: int = 50) -> list[Profile]:
        """See `casenotes.Memory.profile_history`."""
        return self._run(self._memory.profile_history(scope, limit))

    def undo_profile(self, scope: Scope) -> Profile:
        """See `casenotes.Memory.undo_profile`."""
        return self._run(self._memory.undo_profile(scope))

    def plan(self, scope: Scope) -> Plan | None:
        """See `casenotes.Memory.plan`."""
        return self._run(self._memory.plan(scope))

    def update_plan(
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
        """See `casenotes.Memory.update_plan`."""
        return self._run(
            self._memory.update_plan(
                scope,
                goal=goal,
                phase=phase,
                iteration=iteration,
                steps=steps,
                updates=updates,
                version=version,
            )
        )

    def episodes(self, scope: Scope, limit: int = 20) -> list[Episode]:
        """See `casenotes.Memory.episodes`."""
        return self._run(self._memory.episodes(scope, limit))

    def briefing(
        self, scope: Scope, task: str, conversation_context: str | Sequence[Message] | None = None
    ) -> Briefing:
        """See `casenotes.Memory.briefing`."""
        return self._run(self._memory.briefing(scope, task, conversation_context))

    def record_attempt(
        self, scope: Scope, task: str, tried: str, error: str, outcome: Outcome = "failure"
    ) -> Attempt:
        """See `casenotes.Memory.record_attempt`."""
        return self._run(self._memory.record_attempt(scope, task, tried, error, outcome))

    def attempts(self, scope: Scope) -> list[Attempt]:
        """See `casenotes.Memory.attempts`."""
        return self._run(self._memory.attempts(scope))

    def event_history(self, scope: Scope, limit: int = 100) -> list[Event]:
        """See `casenotes.Memory.event_history`."""
        return self._run(self._memory.event_history(scope, limit))

    def usage(self, scope: Scope, day: date | None = None) -> list[DayUsage]:
        """See `casenotes.Memory.usage`."""
        return self._run(self._memory.usage(scope, day))

    def dead_letters(self, limit: int = 100) -> list[TurnState]:
        """See `casenotes.Memory.dead_letters`."""
        return self._run(self._memory.dead_letters(limit))

    def retry_dead_letters(self) -> int:
        """See `casenotes.Memory.retry_dead_letters`."""
        return self._run(self._memory.retry_dead_letters())

    def dead_observers(self, limit: int = 100) -> list[Observing]:
        """See `casenotes.Memory.dead_observers`."""
        return self._run(self._memory.dead_observers(limit))

    def embed_missing(self, scope: Scope) -> int:
        """See `casenotes.Memory.embed_missing`."""
        return self._run(self._memory.embed_missing(scope))

    def reembed(self, embedder: str | Embedder, *, progress: Progress | None = None) -> Reembedded:
        """See `casenotes.Memory.reembed`; progress is told in the thread of the private loop."""
        return self._run(self._memory.reembed(embedder, progress=progress))

    def scopes(self) -> list[ScopeSize]:
        """See `casenotes.Memory.scopes`."""
        return self._run(self._memory.scopes())

    def stats(self) -> StoreStats:
        """See `casenotes.Memory.stats`."""
        return self._run(self._memory.stats())

    def table_sizes(self) -> dict[str, int]:
        """See `casenotes.Memory.table_sizes`."""
        return self._run(self._memory.table_sizes())

    def index_size(self, scope: Scope) -> IndexSize:
        """See `casenotes.Memory.index_size`."""
        return self._run(self._memory.index_size(scope))

    def check(self) -> list[Finding]:
        """See `casenotes.Memory.check`."""
        return self._run(self._memory.check())

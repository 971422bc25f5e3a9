"""Background work: finished turns are learned from by whoever holds the lease of their thread.

State, not queues: the store knows which turns wait, so nothing is lost with a process. A worker takes
the thread's lease, renews it while it works, and writes only while it holds it. What fails is tried
again with growing pauses and is given up in the end, for an operator to look at. Times here are those
of the machine, not of the memory's clock, which tests and evaluations may stop.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from casenotes.config import JobSettings
from casenotes.errors import BudgetExceeded, CasenotesError, LeaseLost, ModelError
from casenotes.events import Events
from casenotes.masking import mask
from casenotes.stores.base import Store
from casenotes.stores.learning import Lease, TurnState
from casenotes.types import Scope

TASK = "extract"
SOURCE = "episodic-memory"
THREADS_A_POLL = 100
WAIT_SECONDS = 0.05
MENDABLE = (401, 403, 404, 429)
"""What a provider refuses because of a key, a model's name or a quota may be mended before the next try."""

BUDGET_PAUSE = timedelta(hours=1)
Perform = Callable[[Lease, TurnState], Awaitable[None]]
"""Learns from one turn while a lease is held."""


class Failure(NamedTuple):
    """Who could not learn from a turn, and why."""

    source: str
    error: Exception


class LearningFailed(Exception):
    """Layers could not learn from a turn; the others did."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(", ".join(failure.source for failure in failures))
        self.failures = failures


class Jobs:
    """Learns from queued turns, a bounded number of threads at once."""

    def __init__(
        self, store: Store, perform: Perform, layers: Sequence[str], settings: JobSettings, events: Events
    ) -> None:
        self._store = store
        self._layers = layers
        self._perform = perform
        self._settings = settings
        self._events = events
        self._places = asyncio.Semaphore(settings.concurrency)
        self._running: dict[Scope, asyncio.Task[None]] = {}
        self._again: set[Scope] = set()
        self._timers: dict[Scope, asyncio.TimerHandle] = {}
        self._resting: dict[Scope, float] = {}
        self._polling: asyncio.Task[None] | None = None
        self._is_closing = False
        self._is_closed = False

    def start(self) -> None:
        """Look for work that others left, now and then."""
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            await self.look_for_work()
            await asyncio.sleep(self._settings.poll_seconds)

    async def look_for_work(self) -> int:
        """Start on threads of the whole store that have a turn to try; says how many there were."""
        try:
            threads = await self._store.jobs.due_threads(_now(), THREADS_A_POLL, self._layers)
        except CasenotesError as error:
            self._report(None, error)
            return 0
        ready = [scope for scope in threads if not self._rests(scope)]
        for scope in ready:
            self.wake(scope)
        return len(ready)

    def wake(self, scope: Scope) -> None:
        """There may be something to learn in a thread."""
        if self._is_closed or self._rests(scope):
            return
        if scope in self._running:
            self._again.add(scope)
            return
        task = asyncio.create_task(self._work(scope))
        self._running[scope] = task
        task.add_done_callback(lambda _task: self._ended(scope))

    def _ended(self, scope: Scope) -> None:
        task = self._running.pop(scope)
        again = scope in self._again
        self._again.discard(scope)
        if again and not task.cancelled():
            self.wake(scope)

    def _rests(self, scope: Scope) -> bool:
        """Whether a thread waits because not even a failure could be noted in the store."""
        until = self._resting.get(scope)
        if until is not None and until <= asyncio.get_running_loop().time():
            del self._resting[scope]
            return False
        return until is not None

    def _rest(self, scope: Scope) -> None:
        pause = self._pause(0)
        self._resting[scope] = asyncio.get_running_loop().time() + pause
        self.wake_later(scope, pause)

    def wake_later(self, scope: Scope, seconds: float) -> None:
        """Try a thread again after a while, should this process still be there."""
        if self._is_closing:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(scope)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[scope] = loop.call_later(seconds, self._ring, scope)

    def _ring(self, scope: Scope) -> None:
        del self._timers[scope]
        self.wake(scope)

    async def _work(self, scope: Scope) -> None:
        """Take the thread's lease and learn from its turns, unless somebody else is at it."""
        async with self._places:
            try:
                if not await self._due(scope):
                    return
                lease = await self._store.jobs.acquire(
                    scope, TASK, secrets.token_hex(8), self._settings.lease_seconds
                )
                if lease is None:
                    self.wake_later(scope, self._settings.lease_seconds)
                    return
                try:
                    await self._under(lease)
                finally:
                    await asyncio.shield(self._store.jobs.release(lease))
            except LeaseLost as error:
                self._report(scope, error)
            except Exception as error:
                self._report(scope, error)
                self._rest(scope)

    async def _under(self, lease: Lease) -> None:
        """Learn from what is due in a thread, and stop if the lease is lost."""
        performing = asyncio.create_task(self._perform_all(lease))
        async with self._renewed(lease, performing):
            try:
                await asyncio.shield(performing)
            except asyncio.CancelledError:
                overtaken = performing.cancelled()
                performing.cancel()
                await asyncio.wait([performing])
                if not overtaken:
                    raise
                raise LeaseLost(f"the lease of thread {lease.scope.thread_id!r} was lost") from None

    @asynccontextmanager
    async def _renewed(self, lease: Lease, performing: asyncio.Task[None]) -> AsyncIterator[None]:
        """Renewals have ended when this ends: none can come after the lease was given back."""
        renewing = asyncio.create_task(self._renew(lease, performing))
        try:
            yield
        finally:
            await _end([renewing])

    async def _renew(self, lease: Lease, performing: asyncio.Task[None]) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            with suppress(CasenotesError):  # what cannot be reached now may be there before the lease ends
                if not await self._store.jobs.renew(lease, self._settings.lease_seconds):
                    performing.cancel()
                    return
            if is_asked_to_stop():  # a driver may tell of its own interruption instead
                return

    async def _perform_all(self, lease: Lease) -> None:
        for turn in await self._due(lease.scope):
            await self._perform_one(lease, turn)

    async def _due(self, scope: Scope) -> list[TurnState]:
        queued = await self._store.jobs.queued(scope)
        return [turn for turn in queued if turn.due_at <= _now() and set(turn.pending) & set(self._layers)]

    async def _perform_one(self, lease: Lease, turn: TurnState) -> None:
        try:
            await self._perform(lease, turn)
        except LeaseLost:
            raise
        except LearningFailed as failed:
            await self._failed(lease, turn, failed.failures)
        except asyncio.CancelledError as error:
            if is_asked_to_stop():
                raise
            await self._failed(lease, turn, [Failure(SOURCE, as_failure(error))])
        except Exception as error:
            if is_asked_to_stop():
                raise asyncio.CancelledError from error
            await self._failed(lease, turn, [Failure(SOURCE, error)])

    async def _failed(self, lease: Lease, turn: TurnState, failures: Sequence[Failure]) -> None:
        """Note the failures; the next try comes later, or never. What only exceeds a budget waits."""
        counted = [failure for failure in failures if not isinstance(failure.error, BudgetExceeded)]
        is_last = bool(counted) and self._is_last(turn, failures)
        pause = timedelta(seconds=self._pause(turn.attempts)) if counted else BUDGET_PAUSE
        for source, error in failures:
            self._report(turn.scope, error, turn, given_up=is_last, source=source)
        told = _told((counted or failures)[0].error)
        await self._store.jobs.failed(
            lease, turn.turn_id, told, _now() + pause, counts=bool(counted), dead=is_last
        )
        if counted and not is_last:
            self.wake_later(turn.scope, pause.total_seconds())

    def _is_last(self, turn: TurnState, failures: Sequence[Failure]) -> bool:
        """Whether a turn is given up: after so many attempts, or if none of the failures can pass."""
        if any(isinstance(one.error, BudgetExceeded) for one in failures):
            return False  # that one has only waited
        return turn.attempts + 1 >= self._settings.attempts or all(_is_final(one.error) for one in failures)

    def _pause(self, attempts: int) -> float:
        longest: float = min(
            self._settings.longest_retry_seconds, self._settings.first_retry_seconds * 2**attempts
        )
        return longest * random.uniform(0.75, 1.0)  # noqa: S311

    def _report(
        self,
        scope: Scope | None,
        error: Exception,
        turn: TurnState | None = None,
        given_up: bool = False,
        source: str = SOURCE,
    ) -> None:
        self._events.emit(
            "learning.failed",
            scope,
            source=source,
            error=_told(error),
            turn_id=turn.turn_id if turn else None,
            given_up=given_up,
        )

    async def settle(self, scope: Scope | None, timeout: float) -> None:
        """Wait until every turn of a scope, or of all at work here, was learned from or has failed once."""
        if scope is None:
            await self.look_for_work()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                tried: set[Scope] = set()
                while (waiting := await self._first_tries(scope)) and not self._is_closed:
                    if any(thread in tried and thread not in self._running for thread in waiting):
                        await asyncio.sleep(WAIT_SECONDS)  # somebody else is at it
                    for thread in waiting:
                        if thread not in self._running:
                            self.wake(thread)
                    tried.update(waiting)
                    running = [self._running[thread] for thread in waiting if thread in self._running]
                    if running:
                        await asyncio.wait(running, timeout=WAIT_SECONDS)

    async def _first_tries(self, scope: Scope | None) -> list[Scope]:
        """Threads with a turn that nobody has tried to learn from yet, or that are worked on here."""
        if scope is None:
            return list(self._running)
        first = {turn.scope for turn in await self._due(scope) if turn.attempts == 0}
        at_work = {thread for thread in self._running if scope in (thread, thread.owner)}
        return [thread for thread in first | at_work if not self._rests(thread)]

    async def run(self, *, once: bool = False) -> None:
        """Work until cancelled; with `once`, until nothing is due any more."""
        while True:
            found = await self.look_for_work()
            if self._running:
                await asyncio.wait(list(self._running.values()), timeout=self._settings.poll_seconds)
            elif once and not found:
                return
            elif not found:
                await asyncio.sleep(self._settings.poll_seconds)

    async def close(self, timeout: float) -> None:
        """Learn from what is noticed here within the time; the rest stays queued in the store."""
        self._is_closing = True
        for timer in self._timers.values():
            timer.cancel()
        polling = [self._polling] if self._polling else []
        await _end(polling)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while self._running and (left := until - loop.time()) > 0:
            await asyncio.wait(list(self._running.values()), timeout=left)
        self._is_closed = True
        await _end(list(self._running.values()))


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def as_failure(error: BaseException) -> Exception:
    """The error itself; a cancellation that nobody asked for is one like others."""
    return error if isinstance(error, Exception) else ModelError(f"it was cancelled from within: {error}")


def is_asked_to_stop() -> bool:
    """Client libraries let cancellations of their own escape, too: those are failures like others."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_final(error: Exception) -> bool:
    """Whether the same turn will be refused again, whatever is mended: for example by a content filter."""
    return isinstance(error, ModelError) and not error.may_pass and error.status not in MENDABLE


def _told(error: Exception) -> str:
    """What went wrong, fit to be kept and logged: without secrets, and without what no database takes."""
    text = f"{type(error).__name__}: {error}"[:2_000].replace("\x00", "")
    return mask(text.encode("utf-8", "replace").decode("utf-8"))[:1_000]


def _now() -> datetime:
    return datetime.now(UTC)

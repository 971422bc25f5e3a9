"""Background work on threads: learning from finished turns, observing long ones. Whoever holds the lease works.

State, not queues: the store knows what waits, so nothing is lost with a process. A worker takes the lease of
a thread for its kind of work, renews it while it works, and writes only while it holds it. What fails is tried
again with growing pauses and is given up in the end, for an operator to look at. Times here are those
of the machine, not of the memory's clock, which tests and evaluations may stop.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from casenotes.config import JobSettings
from casenotes.errors import BudgetExceeded, CasenotesError, LeaseLost, ModelError
from casenotes.events import Events
from casenotes.masking import mask
from casenotes.stores.base import Store
from casenotes.stores.learning import Lease
from casenotes.tasks import end, is_asked_to_stop
from casenotes.types import Scope

THREADS_A_POLL = 100
WAIT_SECONDS = 0.05
BUDGET_PAUSE = timedelta(hours=1)


class Failure(NamedTuple):
    """Who could not learn from a turn, and why."""

    source: str
    error: Exception


class LearningFailed(Exception):
    """Layers could not learn from a turn; the others did."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(", ".join(failure.source for failure in failures))
        self.failures = failures


class Failed(NamedTuple):
    """How a failure is noted: when the next try is due, whether it `counts`, and whether it was the last."""

    error: str
    due: datetime
    counts: bool
    dead: bool


class Item(Protocol):
    """Something to do in a thread, and how often it has failed."""

    @property
    def scope(self) -> Scope:
        """The thread."""
        ...

    @property
    def attempts(self) -> int:
        """Failures so far."""
        ...


def longest_wait(settings: JobSettings) -> timedelta:
    """No retry waits longer; what seems to was noted while a clock was wrong."""
    return max(timedelta(seconds=min(settings.longest_retry_seconds, 1e8)), BUDGET_PAUSE)


T = TypeVar("T", bound=Item)


class Work(Protocol[T]):
    """One kind of work. What is done must no longer be due: waiting for it would never end."""

    @property
    def task(self) -> str:
        """What leases are taken for."""
        ...

    @property
    def source(self) -> str:
        """Who failed, if a failure does not say so itself."""
        ...

    async def due_threads(self, now: datetime, limit: int) -> list[Scope]:
        """Threads of the whole store with something to do and nobody at it."""
        ...

    async def due(self, scope: Scope, now: datetime) -> Sequence[T]:
        """What is to be done now in a thread, or in all threads of a resource."""
        ...

    async def perform(self, lease: Lease, item: T) -> None:
        """Do it, and save it under the lease."""
        ...

    async def failed(self, lease: Lease, item: T, note: Failed) -> None:
        """Note in the store that it failed."""
        ...

    def told(self, item: T) -> dict[str, Any]:
        """What events say of it."""
        ...


class Jobs(Generic[T]):
    """Does one kind of work, in a bounded number of threads at once."""

    def __init__(self, store: Store, work: Work[T], settings: JobSettings, events: Events) -> None:
        self._store = store
        self._work = work
        self._settings = settings
        self._events = events
        self._places = asyncio.Semaphore(settings.concurrency)
        self._running: dict[Scope, asyncio.Task[None]] = {}
        self._again: set[Scope] = set()
        self._timers: dict[Scope, asyncio.TimerHandle] = {}
        self._resting: dict[Scope, float] = {}
        self._performed = 0
        self._polling: asyncio.Task[None] | None = None
        self._is_closing = False
        self._is_closed = False

    def start(self) -> None:
        """Look for work that others left, now and then."""
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while not self._is_closing:
            await self.look_for_work()
            await asyncio.sleep(self._settings.poll_seconds)

    async def look_for_work(self) -> list[Scope]:
        """Start on threads of the whole store with something to do, and give them."""
        try:
            threads = await self._work.due_threads(_now(), THREADS_A_POLL)
        except Exception as error:
            if is_asked_to_stop():
                raise
            self._report(None, error)
            return []
        ready = [scope for scope in threads if not self._rests(scope)]
        for scope in ready:
            self.wake(scope)
        return ready

    def wake(self, scope: Scope) -> None:
        """There may be something to do in a thread."""
        if self._is_closed or self._rests(scope):
            return
        if scope in self._running:
            self._again.add(scope)
            return
        task = asyncio.create_task(self._take(scope))
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

    async def _take(self, scope: Scope) -> None:
        """Take the thread's lease and do what is due, unless somebody else is at it."""
        async with self._places:
            try:
                if not await self._due(scope):
                    return
                lease = await self._store.jobs.acquire(
                    scope, self._work.task, secrets.token_hex(8), self._settings.lease_seconds
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
        """Do what is due in a thread, and stop if the lease is lost."""
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
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

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
        for item in await self._due(lease.scope):
            self._performed += 1
            await self._perform_one(lease, item)

    async def _due(self, scope: Scope) -> Sequence[T]:
        return await self._work.due(scope, _now())

    async def _perform_one(self, lease: Lease, item: T) -> None:
        source = self._work.source
        try:
            await self._work.perform(lease, item)
        except LeaseLost:
            raise
        except LearningFailed as failed:
            await self._failed(lease, item, failed.failures)
        except asyncio.CancelledError as error:
            if is_asked_to_stop():
                raise
            await self._failed(lease, item, [Failure(source, as_failure(error))])
        except Exception as error:
            if is_asked_to_stop():
                raise asyncio.CancelledError from error
            await self._failed(lease, item, [Failure(source, error)])

    async def _failed(self, lease: Lease, item: T, failures: Sequence[Failure]) -> None:
        """Note the failures; the next try comes later, or never. What only exceeds a budget waits."""
        counted = [failure for failure in failures if not isinstance(failure.error, BudgetExceeded)]
        is_last = bool(counted) and self._is_last(item, failures)
        pause = timedelta(seconds=self._pause(item.attempts)) if counted else BUDGET_PAUSE
        for source, error in failures:
            self._report(item.scope, error, self._work.told(item), given_up=is_last, source=source)
        told = _told((counted or failures)[0].error)
        await self._work.failed(lease, item, Failed(told, _now() + pause, bool(counted), is_last))
        if counted and not is_last:
            self.wake_later(item.scope, pause.total_seconds())

    def _is_last(self, item: T, failures: Sequence[Failure]) -> bool:
        """Whether something is given up: after so many attempts, or if none of the failures can pass."""
        if any(isinstance(one.error, BudgetExceeded) for one in failures):
            return False  # that one has only waited
        return item.attempts + 1 >= self._settings.attempts or all(_is_final(one.error) for one in failures)

    def _pause(self, attempts: int) -> float:
        longest: float = min(
            self._settings.longest_retry_seconds, self._settings.first_retry_seconds * 2 ** min(attempts, 30)
        )
        return longest * random.uniform(0.75, 1.0)  # noqa: S311

    def _report(
        self,
        scope: Scope | None,
        error: Exception,
        told: dict[str, Any] | None = None,
        given_up: bool = False,
        source: str = "",
    ) -> None:
        self._events.emit(
            "learning.failed",
            scope,
            source=source or self._work.source,
            error=_told(error),
            given_up=given_up,
            **(told or {}),
        )

    async def settle(self, scope: Scope | None, timeout: float) -> None:
        """Wait until all that is due in a scope, or at work here, was done or has failed once."""
        if scope is None:
            await self.look_for_work()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                tried: set[Scope] = set()
                while (waiting := await self.first_tries(scope)) and not self._is_closed:
                    if any(thread in tried and thread not in self._running for thread in waiting):
                        await asyncio.sleep(WAIT_SECONDS)  # somebody else is at it
                    for thread in waiting:
                        if thread not in self._running:
                            self.wake(thread)
                    tried.update(waiting)
                    running = [self._running[thread] for thread in waiting if thread in self._running]
                    if running:
                        await asyncio.wait(running, timeout=WAIT_SECONDS)

    async def first_tries(self, scope: Scope | None) -> list[Scope]:
        """Threads with something that nobody has tried yet, or that are worked on here."""
        if scope is None:
            return list(self._running)
        first = {item.scope for item in await self._due(scope) if item.attempts == 0}
        at_work = {thread for thread in self._running if scope in (thread, thread.owner)}
        return [thread for thread in first | at_work if not self._rests(thread)]

    async def run(self, *, once: bool = False) -> None:
        """Work until cancelled; with `once`, until nothing is due any more."""
        seen: list[Scope] = []
        while True:
            done, before = self._performed, seen
            seen = await self.look_for_work()
            if self._running:
                await asyncio.wait(list(self._running.values()), timeout=self._settings.poll_seconds)
            if self._running or self._performed != done or (seen and seen != before):
                continue  # what looked due and is not makes room for others
            if once:
                return
            await asyncio.sleep(self._settings.poll_seconds)

    async def close(self, timeout: float) -> None:
        """Do what is noticed here within the time; the rest waits in the store."""
        self._is_closing = True
        for timer in self._timers.values():
            timer.cancel()
        await end([self._polling] if self._polling else [])
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while self._running and (left := until - loop.time()) > 0:
            await asyncio.wait(list(self._running.values()), timeout=left)
        self._is_closed = True
        await end(self._running.values())


def as_failure(error: BaseException) -> Exception:
    """The error itself; a cancellation that nobody asked for is one like others."""
    return error if isinstance(error, Exception) else ModelError(f"it was cancelled from within: {error}")


def _is_final(error: Exception) -> bool:
    return isinstance(error, ModelError) and error.is_final


def _told(error: Exception) -> str:
    """What went wrong, fit to be kept and logged: without secrets, and without what no database takes."""
    text = f"{type(error).__name__}: {error}"[:2_000].replace("\x00", "")
    return mask(text.encode("utf-8", "replace").decode("utf-8"))[:1_000]


def _now() -> datetime:
    return datetime.now(UTC)

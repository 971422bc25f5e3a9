"""Threads that own SQLite connections; async callers hand them work and await the result.

Reads go to a few read lanes. All writes go to one write lane, which takes whatever is queued and
commits it together: thirty-two callers share one disk flush, and neighbours of one kind share their
statements. If anything in such a group fails, the group is undone and each job runs again alone
behind its own savepoint, so a failing one takes nothing with it. A caller that is cancelled before
its turn came leaves no trace; after that its write may stand, which is safe because writes are
idempotent.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from casenotes.errors import Overloaded, StoreUnavailable

T = TypeVar("T")
Connect = Callable[[], sqlite3.Connection]
Perform = Callable[[sqlite3.Connection, list[Any]], list[Any]]
"""Performs several items of one kind on a connection and returns their results in order."""

MAX_GROUP = 512


class Job:
    """One item on its way to a connection and its outcome on the way back."""

    __slots__ = ("error", "future", "item", "loop", "perform", "result")

    def __init__(self, perform: Perform, item: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.perform = perform
        self.item = item
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Perform this job alone."""
        try:
            (self.result,) = self.perform(connection, [self.item])
        except BaseException as error:
            self.error = error

    def settle(self) -> None:
        """Give the outcome to the waiting caller; runs in the caller's loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Lane:
    """One queue served by threads with a connection each; every job runs alone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._max_queued = 0
        self._process = os.getpid()
        self._gate = threading.Lock()
        self._is_open = False
        self._connections: list[sqlite3.Connection] = []
        self._threads: list[threading.Thread] = []

    def start(self, threads: int, connect: Connect, max_queued: int) -> None:
        """Connect and begin to serve."""
        self._process = os.getpid()
        self._max_queued = max_queued
        for number in range(threads):
            connection = connect()
            self._connections.append(connection)
            thread = threading.Thread(
                target=self._serve, args=(connection,), name=f"casenotes-{self._name}-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        self._is_open = True

    def run(self, function: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Call a function with a connection of this lane."""
        return self.submit(_call_each, function)

    def submit(self, perform: Perform, item: Any) -> asyncio.Future[Any]:
        """Queue an item; jobs with the same `perform` may be performed together."""
        if os.getpid() != self._process:  # the threads stayed behind: nobody would ever serve it
            raise StoreUnavailable(
                f"process {os.getpid()} was forked from process {self._process}, which opened this store; "
                "open it in the child process"
            )
        job = Job(perform, item, asyncio.get_running_loop())
        with self._gate:
            if not self._is_open:
                raise StoreUnavailable("the store is closed; open it again")
            if self._queue.qsize() >= self._max_queued:
                raise Overloaded(
                    f"{self._queue.qsize()} operations are waiting for the {self._name} lane "
                    "(setting max_queued_writes); slow down and retry"
                )
            self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued, then end the threads and close the connections.

        Threads and connections of the process that a fork came from are not touched.
        """
        if os.getpid() != self._process:
            return
        with self._gate:
            self._is_open = False
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()
        self._threads, self._connections = [], []

    def _serve(self, connection: sqlite3.Connection) -> None:
        while (job := self._queue.get()) is not None:
            if not job.future.cancelled():
                job.run(connection)
                _settle_all([job])


class WriteLane(Lane):
    """Served by one thread that commits everything queued in one transaction.

    `check` raises if what was committed is not where it is looked for; then nobody is told that it succeeded,
    and nothing more is written before the check is passed.
    """

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        super().__init__(name)
        self._check = check
        self._problem: StoreUnavailable | None = None

    def _serve(self, connection: sqlite3.Connection) -> None:
        going_on = True
        while going_on:
            jobs, going_on = self._next_group()
            if jobs:
                if self._problem:
                    self._find_problem()
                if not self._problem:
                    _commit(jobs, connection)
                    self._find_problem()
                for job in jobs if self._problem else ():
                    job.error = job.error or self._problem
                _settle_all(jobs)

    def _find_problem(self) -> None:
        try:
            self._check()
            self._problem = None
        except StoreUnavailable as error:
            self._problem = error

    def _next_group(self) -> tuple[list[Job], bool]:
        """Wait for one job, then take all that are there already; False when told to stop."""
        group: list[Job] = []
        item = self._queue.get()
        while item is not None:
            if not item.future.cancelled():
                group.append(item)
            if len(group) >= MAX_GROUP:
                return group, True
            try:
                item = self._queue.get_nowait()
            except Empty:
                return group, True
        return group, False


def _commit(jobs: Sequence[Job], connection: sqlite3.Connection) -> None:
    try:
        with transaction(connection):
            for perform, same in groupby(jobs, key=lambda job: job.perform):
                neighbours = list(same)
                results = perform(connection, [job.item for job in neighbours])
                for job, result in zip(neighbours, results, strict=True):
                    job.result = result
    except BaseException as error:
        if len(jobs) == 1:
            jobs[0].error = error
        else:
            _commit_apart(jobs, connection)


def _commit_apart(jobs: Sequence[Job], connection: sqlite3.Connection) -> None:
    """Still one transaction, but each job behind its own savepoint."""
    try:
        with transaction(connection):
            for job in jobs:
                connection.execute("SAVEPOINT job")
                job.run(connection)
                if job.error is not None:
                    connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
    except BaseException as error:
        for job in jobs:
            job.error = job.error or error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE, so that a read followed by a write cannot fail half-way on a lock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _call_each(connection: sqlite3.Connection, functions: list[Any]) -> list[Any]:
    return [function(connection) for function in functions]


def _settle_all(jobs: Sequence[Job]) -> None:
    """Wake each loop once, however many of its callers are served."""
    for loop in {job.loop for job in jobs}:
        mine = [job for job in jobs if job.loop is loop]
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:  # that loop was closed: nobody is waiting any more
            continue


def _settle(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle()

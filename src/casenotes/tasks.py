"""Tasks of asyncio: whether this one was told to stop, how others are ended, and what goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 2.0
"""How long tasks that were told to stop are waited for: a model or an embedder may not heed it."""

INLINE_CHARACTERS = 50_000
"""Work on longer texts holds the host's loop for more than some ten milliseconds."""

_going_on: set[asyncio.Task[Any]] = set()
_closing: set[asyncio.Task[Any]] = set()


def times_cancelled() -> int:
    """How often this task was told to stop; goes back down where a time limit was heeded."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def is_asked_to_stop() -> bool:
    """Client libraries let cancellations of their own escape, too: those are failures like others."""
    return times_cancelled() > 0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Stop tasks and wait until they have ended; one that goes on regardless is left to itself."""
    told = list(tasks)
    for task in told:
        task.cancel()
    if told:
        ended, stubborn = await asyncio.wait(told, timeout=GRACE_SECONDS)
        await asyncio.gather(*ended, return_exceptions=True)
        leave(stubborn)


def leave(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Let tasks go on that nobody waits for; asyncio itself would not keep them from being collected."""
    for task in tasks:
        _going_on.add(task)
        task.add_done_callback(_going_on.discard)


def start_closing(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work that releases something; whoever waits for the task shields it."""
    task = asyncio.ensure_future(work)
    _closing.difference_update([known for known in _closing if known.get_loop().is_closed()])
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    return task


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for work that releases something; if the caller is cancelled it goes on in the background."""
    return await asyncio.shield(start_closing(work))


def closing_tasks() -> set[asyncio.Task[Any]]:
    """What is still being released in this loop."""
    return {task for task in _closing if task.get_loop() is asyncio.get_running_loop()}


async def wait_for_closing() -> None:
    """Wait until everything in this loop is released."""
    while closing := closing_tasks():
        await asyncio.wait(closing)


async def compute(work: Callable[[], T], characters: int) -> T:
    """Call a function of texts: in a thread if they are long, so that the host's loop goes on meanwhile."""
    return await asyncio.to_thread(work) if characters > INLINE_CHARACTERS else work()

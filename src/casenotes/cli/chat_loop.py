"""An event loop beside the main thread, which may wait for it and be interrupted by Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, TypeVar

from casenotes.tasks import wait_for_closing

T = TypeVar("T")
AT_MOST_SECONDS = 0.2


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work; Ctrl-C cancels it and waits for its end, a second one does not wait."""
        tasks: list[asyncio.Task[Any]] = []
        future = asyncio.run_coroutine_threadsafe(_watched(work, tasks), self._loop)
        try:
            while not wait([future], AT_MOST_SECONDS).done:  # a signal just before would not wake it
                pass
            return future.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._cancel, tasks)
        try:
            return future.result()
        except BaseException:
            raise KeyboardInterrupt from None

    def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Cancel the work, which may be about to start."""
        if tasks:
            tasks[0].cancel()
        else:
            self._loop.call_soon(self._cancel, tasks)


async def _watched(work: Coroutine[Any, Any, T], tasks: list[asyncio.Task[Any]]) -> T:
    if task := asyncio.current_task():
        tasks.append(task)
    return await work


@contextmanager
def running_loop() -> Iterator[Loop]:
    """A loop that runs until the block is left."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="casenotes-chat", daemon=True)
    thread.start()
    try:
        yield Loop(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(wait_for_closing())  # of a memory, after Ctrl-C; another one does not wait
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

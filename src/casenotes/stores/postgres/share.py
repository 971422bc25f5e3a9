"""Divide the pool fairly: writers of one scope wait for its row, and must not take all connections there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from casenotes.config import StorageSettings
from casenotes.errors import Overloaded, StoreUnavailable
from casenotes.types import Scope


class ScopeQueues:
    """Lets a scope write through a quarter of the pool; its other writers wait without a connection."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._share = max(1, settings.postgres_pool_size // 4)
        self._waiting = 0
        self._places: WeakValueDictionary[tuple[str, str | None], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, scope: Scope) -> AsyncIterator[None]:
        """Wait for a turn of this scope, no longer than for a connection."""
        key = (scope.agent_id, scope.resource_id)
        places = self._places.setdefault(key, asyncio.Semaphore(self._share))
        if places.locked():
            await self._wait(places)
        else:
            await places.acquire()
        try:
            yield
        finally:
            places.release()

    async def _wait(self, places: asyncio.Semaphore) -> None:
        limit = self._settings.max_queued_writes
        if self._waiting >= limit:
            raise Overloaded(
                f"{self._waiting} writes wait for others of their users (setting max_queued_writes: {limit}); "
                "slow down and retry"
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(self._settings.busy_timeout_seconds):
                await places.acquire()
        except TimeoutError:
            seconds = self._settings.busy_timeout_seconds
            raise StoreUnavailable(
                f"earlier writes of this user took more than {seconds:g} s (setting busy_timeout_seconds), so "
                "nothing was saved; repeat the call when they are done"
            ) from None
        finally:
            self._waiting -= 1

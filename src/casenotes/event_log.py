"""Keep what happens in a thread as its history: noted in the background, so that no turn waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from casenotes.events import Event
from casenotes.masking import mask
from casenotes.stores.base import Store
from casenotes.stores.states import EventRow
from casenotes.tasks import end
from casenotes.types import Scope

EVENTS_KEPT = 500
MAX_DATA_CHARACTERS = 4_000
MAX_WAITING = 10_000
PAUSE_SECONDS = 0.5
"""Events of half a second are written together."""


class EventLog:
    """A listener that writes events of threads to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Scope, list[Event]] = {}
        self._count = 0
        self._one_at_a_time = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    def note(self, event: Event) -> None:
        """Keep an event, if it belongs to a thread."""
        if event.scope is not None and event.scope.thread_id is not None:
            self._loop.call_soon_threadsafe(self._add, event.scope, event)

    def _add(self, scope: Scope, event: Event) -> None:
        """With too many waiting, because the store does not take them, the new ones are left out."""
        if self._is_closed or self._count >= MAX_WAITING:
            return
        self._count += 1
        self._waiting.setdefault(scope, []).append(event)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        await self._write_all()

    async def settle(self, seconds: float) -> None:
        """Write what waits, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._write_all()

    async def _write_all(self) -> None:
        """What cannot be written is left out, as it must not hurt anybody."""
        await asyncio.sleep(0)  # what was told last is on its way
        async with self._one_at_a_time:
            while self._waiting:
                scope = next(iter(self._waiting))
                await self._write(scope, self._taken(scope))

    def _taken(self, scope: Scope) -> list[Event]:
        events = self._waiting.pop(scope)
        self._count -= len(events)
        return events

    async def _write(self, scope: Scope, events: list[Event]) -> None:
        try:
            rows = [EventRow(event.name, event.at, _plain(event.data)) for event in events[-EVENTS_KEPT:]]
            await asyncio.shield(self._store.events.add(scope, rows, EVENTS_KEPT))
        except Exception:
            return

    def forget(self, scope: Scope) -> None:
        """Nothing of a resource, or of one of its threads, is written any more."""
        for known in [known for known in self._waiting if scope in (known, known.owner)]:
            self._taken(known)

    async def close(self, seconds: float) -> None:
        """Write the rest, as far as it can be done in that time, and stop."""
        try:
            await self.settle(seconds)
        finally:
            self._is_closed = True
            if self._writing is not None:
                await end([self._writing])


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """What an event tells as JSON, without secrets and what no database takes; what is too long is cut."""
    told = json.dumps(dict(data), ensure_ascii=False, default=str).replace("\\u0000", "")
    text = mask(told.encode("utf-8", "replace").decode("utf-8"))
    if len(text) <= MAX_DATA_CHARACTERS:
        try:
            found: dict[str, Any] = json.loads(text)
            return found
        except ValueError:  # a placeholder broke the JSON
            pass
    return {"text": text[:MAX_DATA_CHARACTERS]}

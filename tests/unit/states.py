"""A layer's state in memory: compare-and-set as in a store, and a place where another writer may step in."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from casenotes.errors import StateConflict
from casenotes.stores.states import StateVersion

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class StateInMemory:
    """A LayerState. `before_write` is awaited before each write, while the writer believes to be alone."""

    def __init__(self, value: Mapping[str, Any] | None = None) -> None:
        self.versions = [StateVersion()]
        self.before_write: Callable[[], Awaitable[None]] | None = None
        self.refused = 0
        if value is not None:
            self.put(value)

    @property
    def current(self) -> StateVersion:
        return self.versions[-1]

    def put(self, value: Mapping[str, Any], author: str = "other") -> StateVersion:
        """Write without asking, as another writer does; only what is JSON can be kept."""
        stored = json.loads(json.dumps(value))
        self.versions.append(StateVersion(stored, self.current.version + 1, author, NOON))
        return self.current

    async def read(self) -> StateVersion:
        return self.current

    async def write(self, value: Mapping[str, Any], seen: int, author: str = "") -> StateVersion:
        if self.before_write is not None:
            await self.before_write()
        if seen != self.current.version:
            self.refused += 1
            raise StateConflict(f"version {seen} was seen, the current one is {self.current.version}")
        return self.put(value, author)

    async def history(self, limit: int = 50) -> list[StateVersion]:
        return self.versions[:0:-1][:limit]


def other_writer(state: StateInMemory, *values: Mapping[str, Any]) -> None:
    """Let another writer be faster, once for each value."""
    waiting = list(values)

    async def step_in() -> None:
        if waiting:
            state.put(waiting.pop(0))

    state.before_write = step_in

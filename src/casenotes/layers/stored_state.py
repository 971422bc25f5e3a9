"""The state of one layer in one scope, kept in the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from casenotes.clock import Clock
from casenotes.errors import StateConflict, UsageError
from casenotes.intake import json_size
from casenotes.layers.base import LayerScope
from casenotes.layers.state import LayerState
from casenotes.stores.base import Store
from casenotes.stores.states import OfTurn, StateVersion
from casenotes.types import Scope

VERSIONS_KEPT = 50
MAX_CHARACTERS = 1_000_000


class StoredState:
    """See LayerState."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        layer: str,
        scope: Scope,
        *,
        create: bool = False,
        turn: OfTurn | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._layer = layer
        self._scope = scope
        self._create = create
        self._turn = turn

    async def read(self) -> StateVersion:
        """See LayerState.read."""
        return await self._store.states.read(self._scope, self._layer)

    async def write(self, value: Mapping[str, Any], seen: int, author: str = "") -> StateVersion:
        """See LayerState.write."""
        what = f"the state of layer {self._layer!r}"
        size = json_size(what, value)
        if size > MAX_CHARACTERS:
            raise UsageError(f"{what} has {size} characters; the limit is {MAX_CHARACTERS}")
        new = StateVersion(value, seen + 1, author, self._clock.now())
        written = await self._store.states.write(
            self._scope, self._layer, new, keep=VERSIONS_KEPT, create=self._create, turn=self._turn
        )
        if not written:
            raise StateConflict(f"{what} is not at version {seen} any more; read it again")
        return new

    async def history(self, limit: int = VERSIONS_KEPT) -> list[StateVersion]:
        """See LayerState.history."""
        return await self._store.states.history(self._scope, self._layer, limit)


class States:
    """Gives every layer its state."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def of(
        self,
        layer: str,
        covers: LayerScope,
        scope: Scope,
        *,
        create: bool = False,
        turn_id: str | None = None,
    ) -> LayerState:
        """The state of a layer for a thread, or for the resource that the thread belongs to.

        With a turn of the thread, nothing is written any more once that turn has been erased.
        """
        bound = scope if covers == "thread" else scope.owner
        turn = OfTurn(scope.thread_id, turn_id) if scope.thread_id and turn_id else None
        return StoredState(self._store, self._clock, layer, bound, create=create, turn=turn)

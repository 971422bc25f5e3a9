"""What a layer keeps as one document: read it, decide, write it, and again if another writer was faster.

A state is bound to its layer and its scope before a layer sees it. Whoever writes names the version that
they have seen, so nothing is overwritten unread.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from casenotes.errors import StateConflict
from casenotes.stores.states import StateVersion

MAX_ROUNDS = 100
"""A writer in another process that goes on without a pause was seen to win more than ten in a row."""

ROUNDS_WITHOUT_PAUSE = 3
PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.05


class LayerState(Protocol):
    """The document of one layer in one scope, with its versions."""

    async def read(self) -> StateVersion:
        """The current version."""
        ...

    async def write(self, value: Mapping[str, Any], seen: int, author: str = "") -> StateVersion:
        """Write the next version; raises StateConflict if the current one is not `seen` any more."""
        ...

    async def history(self, limit: int = 50) -> list[StateVersion]:
        """The newest versions, newest first."""
        ...


async def change(
    state: LayerState, decide: Callable[[Mapping[str, Any]], Mapping[str, Any]], author: str = ""
) -> StateVersion:
    """Read, decide, write; again if another writer was faster. A value that stays the same is not written.

    `decide` may be called several times and must do nothing but decide; what it raises is raised.
    """
    for number in range(MAX_ROUNDS):
        if number >= ROUNDS_WITHOUT_PAUSE:
            longest = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * number)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
        seen = await state.read()
        value = decide(seen.value)
        if value == seen.value:
            return seen
        try:
            return await state.write(value, seen.version, author)
        except StateConflict:
            continue
    raise StateConflict(f"other writers were faster {MAX_ROUNDS} times in a row; try again later")

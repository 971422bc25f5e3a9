"""The part of the store contract that concerns what layers keep: states with versions, summaries, events.

A state belongs to one layer and one scope: to a thread where the scope names one, else to the whole
resource. It is written by compare-and-set: whoever has not seen the newest version writes nothing. What
stems from another thread than the state's own is an object in the list `items` with its `thread_id`: erasing
the thread takes it out of every version, and gives the newest one the next number, so that whoever has
seen it before writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from casenotes.types import Episode, Message, Scope

ITEMS = "items"


@dataclass(frozen=True, slots=True)
class StateVersion:
    """One version of a state; version 0 is what was never written."""

    value: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    author: str = ""
    at: datetime | None = None


class OfTurn(NamedTuple):
    """The turn on whose behalf something is written."""

    thread_id: str
    turn_id: str


class StateStore(Protocol):
    """States of layers by scope."""

    async def read(self, scope: Scope, layer: str) -> StateVersion:
        """The newest version."""
        ...

    async def history(self, scope: Scope, layer: str, limit: int) -> list[StateVersion]:
        """Versions, newest first."""
        ...

    async def write(
        self,
        scope: Scope,
        layer: str,
        new: StateVersion,
        *,
        keep: int,
        create: bool = False,
        turn: OfTurn | None = None,
    ) -> bool:
        """Save the version after the one that was seen, `new.version - 1`; False if there is another one.

        At most `keep` versions stay. InvalidScope if the scope, the thread or the turn does not exist, or
        not any more; `create` makes the scope of a resource, for its first version.
        """
        ...


class EpisodeStore(Protocol):
    """Summaries of finished runs."""

    async def run_start(self, scope: Scope) -> int:
        """The last message of the thread's last finished run; 0 before the first."""
        ...

    async def add(self, scope: Scope, episode: Episode, last: Message, keep: int) -> bool:
        """Save the summary of the run up to a message; False if that run was finished already.

        Nothing is saved either if the message is not there any more. At most `keep` summaries of the
        resource stay.
        """
        ...

    async def newest(
        self, scope: Scope, limit: int, *, of_all_users: bool = False, before: datetime | None = None
    ) -> list[Episode]:
        """Summaries of the resource, or of all resources of the agent, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class EventRow:
    """One fact of a thread's history."""

    name: str
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict)


class EventStore(Protocol):
    """What happened in threads."""

    async def add(self, scope: Scope, rows: Sequence[EventRow], keep: int) -> None:
        """Note what happened in a thread, if it is still there; at most `keep` rows of it stay."""
        ...

    async def newest(self, scope: Scope, limit: int) -> list[EventRow]:
        """The last things that happened in a thread, newest first."""
        ...


def items_of_thread(value: Mapping[str, Any], thread_id: str) -> list[Mapping[str, Any]]:
    """What of a state stems from a thread."""
    return [item for item in _items(value) if _is_of(item, thread_id)]


def without_thread(value: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """The state without what stems from a thread."""
    return {**value, ITEMS: [item for item in _items(value) if not _is_of(item, thread_id)]}


def texts_in(value: Any, without: Set[str] = frozenset(), levels: int = 0) -> list[str]:
    """Every text in a value of JSON, but for what stands under some names in its first levels of objects."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = [child for name, child in value.items() if levels <= 0 or name not in without]
        levels -= 1
    return [t for child in value for t in texts_in(child, without, levels)] if isinstance(value, list) else []


def _items(value: Mapping[str, Any]) -> list[Any]:
    items = value.get(ITEMS)
    return items if isinstance(items, list) else []


def _is_of(item: Any, thread_id: str) -> bool:
    return isinstance(item, Mapping) and item.get("thread_id") == thread_id

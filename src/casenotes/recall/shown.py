"""What the model of each thread was shown and the store does not know yet: it is saved with the next messages.

The assistant may repeat what it was shown; learning must recognise that as an echo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from casenotes.stores.base import Shown
from casenotes.types import Hit, Scope

MAX_TURNS = 10_000
MAX_ITEMS = 1_000
_Key = tuple[Scope, str | None]


class ShownItems:
    """Items by turn, and by thread where no turn is known; what never comes back is forgotten in the end."""

    def __init__(self) -> None:
        self._items: dict[_Key, dict[Shown, None]] = {}

    def add(self, scope: Scope, items: Iterable[Shown], turn_id: str | None = None) -> None:
        """These were shown in a thread."""
        if scope.thread_id is None:
            return
        key = (scope, turn_id)
        known = self._items.pop(key, {})
        known.update(dict.fromkeys(items))
        while len(known) > MAX_ITEMS:
            del known[next(iter(known))]
        if known:
            self._items[key] = known
        while len(self._items) > MAX_TURNS:
            del self._items[next(iter(self._items))]

    def add_hits(self, scope: Scope, hits: Sequence[Hit], turn_id: str | None = None) -> None:
        """These hits were recalled in a thread."""
        self.add(scope, [Shown(hit.kind, hit.id) for hit in hits], turn_id)

    def of(self, scope: Scope, turn_id: str) -> Sequence[Shown]:
        """What was shown in a turn, or in its thread outside any, and is not saved yet."""
        return tuple({**self._items.get((scope, turn_id), {}), **self._items.get((scope, None), {})})

    def saved(self, scope: Scope, turn_id: str, items: Sequence[Shown]) -> None:
        """These are in the store now."""
        for key in ((scope, turn_id), (scope, None)):
            known = self._items.get(key, {})
            for item in items:
                known.pop(item, None)
            if not known:
                self._items.pop(key, None)

    def forget(self, scope: Scope) -> None:
        """Nothing of a resource, or of one of its threads, is kept."""
        for key in [key for key in self._items if scope in (key[0], key[0].owner)]:
            del self._items[key]

"""What the model of each thread was shown and the store does not know yet: it is saved with the next messages.

The assistant may repeat what it was shown; learning must recognise that as an echo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from casenotes.stores.base import Shown
from casenotes.types import Hit, Scope

MAX_THREADS = 10_000
MAX_ITEMS = 1_000


class ShownItems:
    """Items by thread; threads that never come back are forgotten in the end."""

    def __init__(self) -> None:
        self._items: dict[Scope, dict[Shown, None]] = {}

    def add(self, scope: Scope, items: Iterable[Shown]) -> None:
        """These were shown in a thread."""
        if scope.thread_id is None:
            return
        known = self._items.pop(scope, {})
        known.update(dict.fromkeys(items))
        while len(known) > MAX_ITEMS:
            del known[next(iter(known))]
        if known:
            self._items[scope] = known
        while len(self._items) > MAX_THREADS:
            del self._items[next(iter(self._items))]

    def add_hits(self, scope: Scope, hits: Sequence[Hit]) -> None:
        """These hits were recalled in a thread."""
        self.add(scope, [Shown(hit.kind, hit.id) for hit in hits])

    def of(self, scope: Scope) -> Sequence[Shown]:
        """What was shown in a thread and is not saved yet."""
        return tuple(self._items.get(scope, ()))

    def saved(self, scope: Scope, items: Sequence[Shown]) -> None:
        """These are in the store now."""
        known = self._items.get(scope)
        if known is None:
            return
        for item in items:
            known.pop(item, None)
        if not known:
            del self._items[scope]

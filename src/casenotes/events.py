"""What Casenotes tells its host while it works: small facts, in order, to whoever listens.

A listener that raises is reported through logging and never disturbs the turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from casenotes.clock import Clock
from casenotes.types import Scope

log = logging.getLogger("casenotes")


@dataclass(frozen=True, slots=True)
class Event:
    """One fact: `name` is `subject.verb`, for example `turn.started` or `embedding.failed`."""

    name: str
    at: datetime
    scope: Scope | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


class Events:
    """Passes events to listeners."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; the result takes it off again."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, name: str, scope: Scope | None = None, **data: Any) -> None:
        """Tell all listeners; listeners may log, so errors are told without secrets."""
        if not self._listeners:
            return
        if "error" in data:
            from casenotes.masking import mask

            data["error"] = mask(str(data["error"]))
        event = Event(name, self._clock.now(), scope, data)
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("an event listener failed on %s", name)

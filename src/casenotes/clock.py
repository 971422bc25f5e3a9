"""The one source of time, so that tests and evaluations can set it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from casenotes.errors import UsageError


class Clock(Protocol):
    """Tells the time, always with a time zone."""

    def now(self) -> datetime:
        """The current time."""
        ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)


class FrozenClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, start: datetime) -> None:
        self.set(start)

    def now(self) -> datetime:
        """The time it was last set to."""
        return self._now

    def set(self, to: datetime) -> None:
        """Jump to a time, which must carry a time zone."""
        if to.tzinfo is None:
            raise UsageError(f"time {to.isoformat()!r} has no time zone; add one, for example UTC")
        self._now = to

    def advance(self, by: timedelta) -> None:
        """Move on by a span of time."""
        self._now += by

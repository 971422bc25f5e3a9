"""When something happened that a row tells of: the model says the time of day, the messages say the day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from casenotes.types import Message

_CLOCK = re.compile(r"(?:(\d{4})-(\d{2})-(\d{2})[ T])?(\d{1,2}):(\d{2})")
SLACK = timedelta(minutes=1)
"""Times of day have no seconds."""


def happened_at(said: str, messages: Sequence[Message], zone: tzinfo) -> datetime:
    """The moment that the model names, if it lies within the messages; else that of the first of them."""
    times = [message.created_at for message in messages if message.created_at is not None]
    first, last = min(times), max(times)
    clock = _CLOCK.search(said)
    if clock is None:
        return first
    candidates = [_moment(clock, day.astimezone(zone)) for day in sorted(times)]
    fitting = [time for time in candidates if time and first - SLACK <= time <= last + SLACK]
    return min(max(fitting[0], first), last) if fitting else first


def _moment(clock: re.Match[str], day: datetime) -> datetime | None:
    year, month, date, hour, minute = clock.groups()
    try:
        if year:
            day = day.replace(year=int(year), month=int(month), day=int(date))
        return day.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
    except ValueError:
        return None

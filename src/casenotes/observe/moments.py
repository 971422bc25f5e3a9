"""When something happened that a row tells of: the model says the time of day, the messages say the day."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, tzinfo

from casenotes.observe.transcript import localised
from casenotes.types import Message

_CLOCK = re.compile(r"(?:(\d{4})-(\d{2})-(\d{2})[ T])?(\d{1,2}):(\d{2})")
SLACK = timedelta(minutes=1)
"""Times of day have no seconds."""


class Moments:
    """The times of a batch of messages."""

    def __init__(self, messages: Sequence[Message], zone: tzinfo) -> None:
        self._times = sorted(message.created_at for message in messages if message.created_at is not None)
        self._days = sorted({localised(time, zone).date() for time in self._times})
        self._zone = zone

    def at(self, said: str) -> datetime:
        """The moment that the model names, if it lies within the messages; else that of the first of them.

        Where several days have that time, the one on which something was said then.
        """
        first, last = self._times[0], self._times[-1]
        clock = _CLOCK.search(said)
        candidates = [moment for day in self._days if clock and (moment := self._moment(clock, day))]
        fitting = [moment for moment in candidates if _between(first, moment, last)]
        if not fitting:
            return first
        return min(max(min(fitting, key=self._distance), first), last)

    def _moment(self, clock: re.Match[str], day: date) -> datetime | None:
        year, month, number, hour, minute = clock.groups()
        try:
            wanted = date(int(year), int(month), int(number)) if year else day
            return datetime.combine(wanted, time(int(hour), int(minute)), self._zone)
        except (ValueError, OverflowError):
            return None

    def _distance(self, moment: datetime) -> timedelta:
        place = bisect_left(self._times, moment)
        return min(abs(moment - time) for time in self._times[max(0, place - 1) : place + 1])


def _between(first: datetime, moment: datetime, last: datetime) -> bool:
    try:
        return moment >= first - SLACK and moment - SLACK <= last
    except OverflowError:  # there is no minute before the first one
        return first <= moment <= last

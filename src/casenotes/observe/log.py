"""Render the log of observations: dates in full, oldest first, the same text until the log changes.

Nothing in it is relative to now. Over the budget the critical and the newest rows stay. What was made of
messages that have been forgotten since is not shown; where a reflection has put such a row together with
others, those others are shown again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, tzinfo

from casenotes.learn.prompts import prompt
from casenotes.observe.transcript import localised, weekday
from casenotes.recall.render import block, inert
from casenotes.stores.observations import Forgotten, is_touched
from casenotes.tokens import TokenCounter
from casenotes.types import Observation, Span

BLOCK = "observations"


def line(row: Observation, zone: tzinfo, *, indented: bool = False) -> str:
    """One row: time of day, priority, text, and the days that it speaks of or lasts until."""
    at = localised(row.at, zone)
    until = localised(row.until, zone).date() if row.until else at.date()
    notes = [f"until {until.isoformat()}"] if until != at.date() else []
    notes += [f"about {day.isoformat()}" for day in row.dates]
    tail = f" ({'; '.join(notes)})" if notes else ""
    return f"{'  ' if indented else ''}- {at:%H:%M} {row.priority}: {inert(row.text)}{tail}"


def rendered(rows: Sequence[Observation], zone: tzinfo, left_out: int = 0) -> str:
    """The block; nothing if there are no rows."""
    lines = list(_lines(rows, zone))
    if lines and left_out:
        lines.insert(0, f"({left_out} older rows are left out)")
    return block(BLOCK, lines, prompt("observations_description"), prompt("observations_guidance"))


def _lines(rows: Sequence[Observation], zone: tzinfo) -> Iterator[str]:
    shown = {row.id for row in rows}
    day: date | None = None
    for row in rows:
        own = localised(row.at, zone).date()
        if own != day:
            day = own
            yield f"{own.isoformat()} ({weekday(own)})"
        yield line(row, zone, indented=row.parent_id in shown)


def log_tokens(row: Observation, zone: tzinfo, count_tokens: TokenCounter) -> int:
    """What a row takes of a prompt, with the end of its line."""
    return count_tokens(line(row, zone, indented=row.parent_id is not None)) + 1


def within(rows: Sequence[Observation], most: int, zone: tzinfo, count_tokens: TokenCounter) -> tuple[str, int]:
    """The block in so many tokens, and how many rows it leaves out; none of it if not even one row fits."""
    text = rendered(rows, zone)
    if not rows or count_tokens(text) <= most:
        return text, 0
    order = sorted(range(len(rows)), key=lambda place: (rows[place].priority != "critical", -place))
    count = _fitting([rows[place].tokens for place in order], most - count_tokens(rendered(rows[:1], zone)))
    while count:  # estimates of lines do not add up to that of the text
        kept = [rows[place] for place in sorted(order[:count])]
        text = rendered(kept, zone, len(rows) - count)
        if count_tokens(text) <= most:
            return text, len(rows) - count
        count -= max(1, count // 20)
    return "", len(rows)


def _fitting(sizes: Sequence[int], room: int) -> int:
    """How many sizes fit, counted from the first; one is always tried."""
    for count, size in enumerate(sizes):
        room -= size
        if room < 0:
            return max(1, count)
    return len(sizes)


def without_forgotten(
    active: Sequence[Observation], all_rows: Mapping[str, Observation], forgotten: Sequence[Forgotten]
) -> list[Observation]:
    """The rows that may be shown, in the order of the log."""
    found = {row.id: row for top in active for row in _clean(top, all_rows, forgotten)}
    return sorted(found.values(), key=lambda row: (row.position, row.id))


def _clean(
    row: Observation, all_rows: Mapping[str, Observation], forgotten: Sequence[Forgotten]
) -> Iterator[Observation]:
    """The row itself, or those of the rows that it stands for which tell nothing that was forgotten."""
    if not is_touched(row, forgotten):
        yield row
        return
    for source in row.supersedes:
        if source in all_rows:
            yield from _clean(all_rows[source], all_rows, forgotten)


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Ranges that cover the same messages, in order and as few as can be."""
    joined: list[list[int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return tuple((first, last) for first, last in joined)

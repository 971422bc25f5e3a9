"""Render what was recalled as a block of text that nothing stored in it can break out of.

Every piece passes through `inert`, which leaves one line of plain text: without a sign that could
open or close a tag, without characters that nobody sees. Doing it twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from casenotes.characters import BLANK, LESS_THAN, UNSEEN

_UNSEEN = re.compile(f"[{UNSEEN}\ud800-\udfff]+")
_BLANKS = re.compile(f"[{BLANK}]+")
_LESS_THAN = re.compile(f"[{LESS_THAN}]")
_QUOTE = re.compile(r'(?<!\\)(\\*+)(["\uff02]|\Z)')
_PERIODS = ((365, "year"), (30, "month"), (7, "week"), (1, "day"))


def age_label(created: datetime, now: datetime) -> str:
    """How long ago in whole days, weeks of 7, months of 30 or years of 365 days; the future is today."""
    days = (now - created).days
    for length, name in _PERIODS:
        if days >= length:
            count = days // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "today"


def inert(text: str) -> str:
    """The text on one line and harmless: `<` and its like escaped, unseen characters gone."""
    return _BLANKS.sub(" ", _LESS_THAN.sub("&lt;", _UNSEEN.sub("", text))).strip()


def entry_line(content: str, age: str, unverified: bool, contradicted: bool = False) -> str:
    """An entry with its age, and a warning if nobody checked its evidence or another one says otherwise."""
    warning = "; another note says otherwise" if contradicted else ""
    return f"{inert(content)} ({'unverified, ' if unverified else ''}{age}{warning})"


def message_line(speaker: str, text: str, age: str, max_characters: int) -> str:
    """What somebody said, word for word, with their name or role and its age; cut with … if it is long.

    Quotation marks within are escaped, and backslashes where they would escape the escape or the end: what
    was said cannot end the quote and go on as somebody else.
    """
    said = _QUOTE.sub(_escaped, inert(text))
    if len(said) > max_characters:
        said = said[: max(0, max_characters - 1)].rstrip() + "…"
    return f'{inert(speaker)} said: "{said}" ({age})'


def _escaped(quote: re.Match[str]) -> str:
    return quote[1] * 2 + ('\\"' if quote[2] else "")


def memory_block(lines: Sequence[str], description: str, guidance: str) -> str:
    """The `<memory>` block with one item per line; nothing if there are no lines."""
    return block("memory", [f"- {line}" for line in map(inert, lines) if line], description, guidance)


def block(name: str, lines: Sequence[str], description: str, guidance: str) -> str:
    """A block of lines that were made of inert pieces; nothing if there are no lines."""
    if not lines:
        return ""
    advice = "\n".join(map(inert, guidance.strip().splitlines()))
    value = "\n".join([f"{advice}\n", *lines] if advice else lines)
    return f"<{name}>\n<description>{inert(description)}</description>\n<value>\n{value}\n</value>\n</{name}>"


def time_label(time: datetime) -> str:
    """A time of day that stays the same however long ago it was."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M")

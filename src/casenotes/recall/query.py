"""The parts of a question: all of it, and what somebody asks apart from what they paste.

Thirty lines of a log have more words than the question that they stand behind and would drown it. So a text
that holds a listing is asked for as a whole and without it. A listing is known by what it is not, several lines
in a row that do not read like sentences; nothing is said here about the format of a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from casenotes.models.embed import Matrix

LISTING_LINES = 8
"""So many lines in a row that do not read like sentences are something pasted."""

LETTERS = 0.6
"""At least this share of a sentence's characters are letters."""

MIN_TERMS = 2
"""Fewer ask for nothing by themselves: "Any idea?"."""

_SENTENCE_END = re.compile(r"[.?!…。？！]\W{0,5}\Z")


class Query(NamedTuple):
    """The parts of a question, the whole of it first, and their vectors, if there are any."""

    parts: Sequence[str]
    vectors: Matrix | None


def query_parts(text: str, terms: Callable[[str], list[str]]) -> tuple[str, ...]:
    """The text, and what of it is not pasted; `terms` are what it is searched by.

    A question without a question mark looks like a line of the listing: where that is the first or the last
    line of all and made of words, it is a part as well.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    pasted = _listed_lines(lines)
    if not pasted:
        return (text,)
    said = "\n".join(line for place, line in enumerate(lines) if place not in pasted)
    ends = [lines[place] for place in (0, len(lines) - 1) if place in pasted and _is_wordy(lines[place])]
    return (text, *(part for part in dict.fromkeys((said, *ends)) if len(set(terms(part))) >= MIN_TERMS))


def _listed_lines(lines: Sequence[str]) -> set[int]:
    """The places of the lines that stand in a listing."""
    listed: set[int] = set()
    first = 0
    for place in range(len(lines) + 1):
        if place == len(lines) or _is_sentence(lines[place]):
            if place - first >= LISTING_LINES:
                listed.update(range(first, place))
            first = place + 1
    return listed


def _is_sentence(line: str) -> bool:
    """Whether a line ends like a sentence and is made of words."""
    return bool(_SENTENCE_END.search(line.rstrip()[-8:])) and _is_wordy(line)


def _is_wordy(line: str) -> bool:
    characters = "".join(line.split())
    return sum(map(str.isalpha, characters)) >= LETTERS * len(characters)

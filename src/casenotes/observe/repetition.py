"""Notice an answer in which a model has got caught in a loop, and leave alone what tells of real repetition.

A loop says the same words again and again, letter by letter. A faithful log of a dull task does so as well,
but then what it was made of does, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

MOST_WORDS = 60
"""Longer passages are not looked for: what repeats them does not fit into an answer often enough."""

LEAST_TIMES = 6
LEAST_WORDS = 30
LEAST_SHARE = 0.3
"""A loop takes at least so many turns, words, and this share of the whole answer."""

SAME_LINES = 8
_WORD = re.compile(r"\S+")


def repeats_itself(lines: Sequence[str], sources: Sequence[str] = ()) -> bool:
    """Whether lines are caught in a loop that what they were made of does not have."""
    looped = _looped(lines)
    if looped is None:
        return False
    passage, times = looped
    return _times_in(passage, sources) * 2 < times


def _looped(lines: Sequence[str]) -> tuple[str, int] | None:
    """The passage that is said again and again, and how often."""
    words = _WORD.findall(" ".join(lines).casefold())
    for period in range(1, min(MOST_WORDS, len(words) // LEAST_TIMES) + 1):
        run, end = _longest_run(words, period)
        covered = run + period
        if run and covered >= max(LEAST_WORDS, LEAST_SHARE * len(words)) and covered // period >= LEAST_TIMES:
            return " ".join(words[end - period : end]), covered // period
    return _commonest(lines)


def _longest_run(words: Sequence[str], period: int) -> tuple[int, int]:
    """How many words in a row equal the word a period before, at most, and where that ends."""
    best = end = run = 0
    for place in range(period, len(words)):
        run = run + 1 if words[place] == words[place - period] else 0
        if run > best:
            best, end = run, place + 1
    return best, end


def _commonest(lines: Sequence[str]) -> tuple[str, int] | None:
    """A line that makes up half of all, though not in a row."""
    counted = Counter(" ".join(_WORD.findall(line.casefold())) for line in lines)
    line, times = max(counted.items(), key=lambda item: item[1], default=("", 0))
    return (line, times) if line and times >= SAME_LINES and 2 * times >= len(lines) else None


def _times_in(passage: str, sources: Sequence[str]) -> int:
    """How often what was read says the passage, or says anything else again.

    An observation may put things into other words: behind a real repetition stand texts that are the same.
    """
    texts = [" ".join(_WORD.findall(source.casefold())) for source in sources]
    same = max(Counter(text for text in texts if text).values(), default=0)
    return max(same, " ".join(texts).count(passage))

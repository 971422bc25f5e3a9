"""Whether a text says something, decided by its words; pure functions.

Case, width, accents' encoding and the kind of quotation marks and dashes do not count. A word must stand
alone: `pay-2` is neither in `pay-23` nor in `pay-2-eu`, `60` is not in `60.5`. Scripts without spaces, and
those that join particles to words, are searched as they are. A `*` at the end lets a word go on.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from casenotes.characters import CJK, SOUTHEAST_ASIAN
from casenotes.learn.quotes import map_text

_JOINED = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"  # Hebrew to Arabic
_FREE = CJK + SOUTHEAST_ASIAN + _JOINED
_SIGN, _LETTER = rf"[^\W{_FREE}]", rf"[^\W\d_{_FREE}]"
_LEFT = {
    "word": f"(?<!{_SIGN})",
    "number": rf"(?<!{_SIGN})(?<!\d[.,])(?<!{_LETTER}[-_.])",
    "name": f"(?<!{_SIGN})(?<!{_SIGN}[-_.])",
}
_RIGHT = {
    "word": f"(?!{_SIGN})",
    "number": rf"(?!{_SIGN})(?![.,]\d)",
    "name": f"(?!{_SIGN})(?![-_.]{_SIGN})",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that a text may say: one alternative of every group in `all`, and nothing of `none`."""

    all: tuple[tuple[str, ...], ...]
    none: tuple[str, ...] = ()

    def is_in(self, text: str) -> bool:
        """Whether the text says it."""
        return all(says_any(text, group) for group in self.all) and not says_any(text, self.none)


def says_any(text: str, terms: tuple[str, ...]) -> bool:
    """Whether one of the terms occurs in a text."""
    normal = _normal(text)
    return any(_pattern(term).search(normal) for term in terms)


@lru_cache(maxsize=1024)
def _normal(text: str) -> str:
    mapped = map_text(unicodedata.normalize("NFKC", text))
    return " ".join(mapped.casefold().split())


@cache
def _pattern(term: str) -> re.Pattern[str]:
    wanted = _normal(term)
    words = wanted.rstrip("*")
    first, last = words.split()[0], words.split()[-1]
    left = _LEFT[_kind(first)] if re.match(_SIGN, first) else ""
    right = _RIGHT[_kind(last)] if words == wanted and re.match(_SIGN, last[-1]) else ""
    return re.compile(left + re.escape(words) + right)


def _kind(word: str) -> str:
    """What counts as a longer one of its kind: names go on behind hyphens, numbers behind points."""
    if not re.search(r"\d", word):
        return "word"
    return "name" if re.search(_LETTER, word) else "number"

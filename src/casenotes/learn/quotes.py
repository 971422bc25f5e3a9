"""Find a quote in the text it came from, exactly up to one character map applied to both sides.

The map makes straight and typographic quotation marks one, all dashes one and all blanks one, and
drops what nobody sees. Everything else must be equal: case, accents, width, script, and the number
of blanks, only that a carriage return before a line feed belongs to it. Unicode normal forms are
never used, because they equate what a reader can tell apart. Offsets point into the original text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from casenotes.characters import BLANK, CJK, UNSEEN

SHORTEST = 12
SHORTEST_CJK = 6

_BLANKS = re.compile(f"[{BLANK}]")
_DROPPED = re.compile(f"[{UNSEEN}]+|\r(?=\n)")
_CJK = re.compile(f"[{CJK}]")
_ALIKE = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u2035\u2039\u203a\xb4\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3",
    '"': "\u201c\u201d\u201e\u201f\u2033\u2036\xab\xbb\u02ba\u05f4\u301d\u301e\u301f",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\u058a\u05be",
}
_TABLE = {ord(other): plain for plain, others in _ALIKE.items() for other in others}


def map_text(text: str) -> str:
    """The text as quotes are compared: like characters made one, unseen ones dropped."""
    return alike(without_unseen(text))


def without_unseen(text: str) -> str:
    """The text without characters that nobody sees; a two-character line break becomes one."""
    return _DROPPED.sub("", text)


def alike(text: str) -> str:
    """The text with quotation marks, dashes and blanks each made one; its length stays."""
    return _BLANKS.sub(" ", text if text.isascii() else text.translate(_TABLE))


def is_too_short(quote: str) -> bool:
    """Whether a quote proves nothing unless it is a whole message: 12 characters, with CJK 6."""
    trimmed = map_text(quote).strip()
    return len(trimmed) < (SHORTEST_CJK if _CJK.search(trimmed) else SHORTEST)


class MappedText:
    """A text, mapped, that can say where in the original a quote stands.

    `replaced` are spans (start, end, text instead) that readers see differently, such as secrets by
    placeholders. A quote that touches a placeholder covers the whole span it stands for.
    """

    __slots__ = ("_edits", "_starts", "mapped", "original")

    def __init__(self, text: str, replaced: Sequence[tuple[int, int, str]] = ()) -> None:
        self.original = text
        self._edits: list[tuple[int, int, int]] = []
        self._starts: list[int] = []
        self.mapped = self._edited(text, sorted(replaced))

    def find(self, quote: str) -> tuple[int, int] | None:
        """Where the quote first stands in the original, without blanks around it; None if nowhere."""
        wanted = map_text(quote).strip()
        if not wanted or (first := self.mapped.find(wanted)) < 0:
            return None
        return self._origin(first)[0], self._origin(first + len(wanted) - 1)[1]

    def is_whole(self, quote: str) -> bool:
        """Whether the quote is all that the text says."""
        return map_text(quote).strip() == self.mapped.strip()

    def _edited(self, text: str, replaced: Sequence[tuple[int, int, str]]) -> str:
        pieces: list[str] = []
        done = length = 0
        for start, end, instead in _edits(text, replaced):
            pieces += (alike(text[done:start]), instead)
            length += start - done
            self._starts.append(length)
            length += len(instead)
            self._edits.append((start, end, length))
            done = end
        return "".join((*pieces, alike(text[done:])))

    def _origin(self, position: int) -> tuple[int, int]:
        """The span of the original that gave the character at a position of the mapped text."""
        before = bisect_right(self._starts, position) - 1
        if before < 0:
            return position, position + 1
        start, end, mapped_end = self._edits[before]
        if position < mapped_end:
            return start, end
        return position - mapped_end + end, position - mapped_end + end + 1


def _edits(text: str, replaced: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """All that changes the length, in order: replaced spans and what is dropped between them."""
    done = 0
    for start, end, instead in replaced:
        if not done <= start <= end <= len(text):
            raise ValueError(f"replaced span {start}..{end} overlaps another or lies outside the text")
        yield from _drops(text, done, start)
        yield start, end, map_text(instead)
        done = end
    yield from _drops(text, done, len(text))


def _drops(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    yield from ((match.start(), match.end(), "") for match in _DROPPED.finditer(text, start, end))

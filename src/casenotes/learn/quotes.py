"""Find a quote in the text it came from, exactly up to one character map applied to both sides.

The map makes straight and typographic quotation marks one, all dashes one and every run of blanks and
line breaks one space; it drops what nobody sees and composes canonically equivalent sequences (NFC).
Where a quote is not found so, both sides are compared again without Markdown marks for emphasis, code,
headings, quotations and bullets. Everything else must be equal: case, accents, width and script.
Compatibility forms (NFKC) are never used, because they equate what a reader can tell apart. Offsets
point into the original text and never into the middle of a letter with its marks.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from casenotes.characters import BLANK, CJK, UNSEEN

SHORTEST = 12
SHORTEST_CJK = 6
MAX_SEQUENCE = 64
"""Longer piles of marks on one letter stay as they are; sorting them would take quadratic time."""

_BLANKS = re.compile(f"[{BLANK}]")
_BLANK_RUN = rf"[{BLANK}](?:[{UNSEEN}]*+[{BLANK}])++"
_DROPPED = re.compile(f"[{UNSEEN}]+")
_CJK = re.compile(f"[{CJK}]")
_ALIKE = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u2035\u2039\u203a\xb4\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3",
    '"': "\u201c\u201d\u201e\u201f\u2033\u2036\xab\xbb\u02ba\u05f4\u301d\u301e\u301f",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\u058a\u05be",
}
_TABLE = {ord(other): plain for plain, others in _ALIKE.items() for other in others}
_MARK = r"\*++|_++|~~++|`++"
_HAS_MARKS = re.compile(r"[*_`>#]|~~|(?:^|\n)[^\S\n]*+[-+\u2022]", re.MULTILINE)
_NEW_LINE = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_LINE_BREAK = re.compile(f"[{_NEW_LINE}]")
_LINE_MARKS = re.compile(
    rf"(?:(?:[-*+>\u2022]|#{{1,6}}+)[{BLANK}]++|```++[\w.+-]*+[ \t]*+(?:[{_NEW_LINE}][{BLANK}]*+|\Z))++"
)


def map_text(text: str) -> str:
    """The text as quotes are compared: like characters made one, unseen ones dropped."""
    return MappedText(text).mapped


def bare_text(text: str) -> str:
    """The mapped text without Markdown marks."""
    return MappedText(text).bare


def without_unseen(text: str) -> str:
    """The text without characters that nobody sees."""
    return _DROPPED.sub("", text)


def alike(text: str) -> str:
    """The text with quotation marks, dashes and blanks each made one; its length stays."""
    return _BLANKS.sub(" ", text if text.isascii() else text.translate(_TABLE))


def is_too_short(quote: str) -> bool:
    """Whether a quote proves nothing unless it is a whole message: 12 characters, with CJK 6."""
    trimmed = bare_text(quote).strip()
    return len(trimmed) < (SHORTEST_CJK if _CJK.search(trimmed) else SHORTEST)


class MappedText:
    """A text, mapped, that can say where in the original a quote stands.

    `replaced` are spans (start, end, text instead) that readers see differently, such as secrets by
    placeholders. A quote that touches a placeholder covers the whole span it stands for.
    """

    def __init__(self, text: str, replaced: Sequence[tuple[int, int, str]] = ()) -> None:
        self.original = text
        self._replaced = sorted(replaced)
        self._whole = _View(text, self._replaced, with_marks=True)
        self.mapped = self._whole.text

    @cached_property
    def _unmarked(self) -> _View:
        """The view without Markdown marks; the same one where there are none."""
        if not _HAS_MARKS.search(self.original):
            return self._whole
        return _View(self.original, self._replaced, with_marks=False)

    @property
    def bare(self) -> str:
        """The mapped text without Markdown marks."""
        return self._unmarked.text

    def find(self, quote: str) -> tuple[int, int] | None:
        """Where the quote first stands in the original, without blanks around it; None if nowhere."""
        wanted = MappedText(quote)
        return self._whole.find(wanted.mapped.strip()) or self._unmarked.find(wanted.bare.strip())

    def is_whole(self, quote: str) -> bool:
        """Whether the quote is all that the text says."""
        return bare_text(quote).strip() == self.bare.strip()


class _View:
    """A mapped text and, for each edit that changed its length, where in the original it was made."""

    __slots__ = ("_edits", "_starts", "text")

    def __init__(self, text: str, replaced: Sequence[tuple[int, int, str]], *, with_marks: bool) -> None:
        self._edits: list[tuple[int, int, int]] = []
        self._starts: list[int] = []
        pieces: list[str] = []
        done = length = 0
        for start, end, instead in _edits(text, replaced, with_marks=with_marks):
            pieces += (alike(text[done:start]), instead)
            length += start - done
            self._starts.append(length)
            length += len(instead)
            self._edits.append((start, end, length))
            done = end
        self.text = "".join((*pieces, alike(text[done:])))

    def find(self, wanted: str) -> tuple[int, int] | None:
        """The span of the original for the first occurrence that cuts no letter from its marks."""
        first = self.text.find(wanted) if wanted else -1
        while first >= 0:
            last = first + len(wanted)
            if not (first and _is_mark(self.text[first])) and not _is_mark(self.text[last : last + 1]):
                return self._origin(first)[0], self._origin(last - 1)[1]
            first = self.text.find(wanted, first + 1)
        return None

    def _origin(self, position: int) -> tuple[int, int]:
        """The span of the original that gave the character at a position of the mapped text."""
        before = bisect_right(self._starts, position) - 1
        if before < 0:
            return position, position + 1
        start, end, mapped_end = self._edits[before]
        if position < mapped_end:
            return start, end
        return position - mapped_end + end, position - mapped_end + end + 1


def _edits(
    text: str, replaced: Sequence[tuple[int, int, str]], *, with_marks: bool
) -> Iterator[tuple[int, int, str]]:
    """All that changes the length, in order: replaced spans and the edits between them."""
    patterns = [_sequences(text), _BLANK_RUN, f"[{UNSEEN}]++"]
    if not with_marks:
        patterns += [_MARK, rf"[{_NEW_LINE}](?=[-*+>#`\u2022])"]
    pattern = re.compile("|".join(filter(None, patterns)))
    done = 0
    for start, end, instead in [*replaced, (len(text), len(text), "")]:
        if not done <= start <= end <= len(text):
            raise ValueError(f"replaced span {start}..{end} overlaps another or lies outside the text")
        if not with_marks and done == 0 and (opening := _LINE_MARKS.match(text, 0, start)):
            yield 0, opening.end(), ""
            done = opening.end()
        while match := pattern.search(text, done, start):
            edit = _edit(text, match, start, with_marks=with_marks)
            done = max(match.end(), edit[1] if edit else 0)
            if edit:
                yield edit
        if start < len(text) or instead:
            yield start, end, map_text(instead)
        done = end


def _edit(text: str, match: re.Match[str], limit: int, *, with_marks: bool) -> tuple[int, int, str] | None:
    """What becomes of one match; None if it stays."""
    start, end = match.span()
    matched = match.group()
    if _BLANKS.match(matched):
        if not with_marks and _LINE_BREAK.search(matched) and (marks := _LINE_MARKS.match(text, end, limit)):
            end = marks.end()
        return start, end, " "
    if not with_marks and matched[0] in "*_~`":
        return (start, end, "") if _is_markup(text, start, end) else None
    composed = _compose(without_unseen(matched))
    return (start, end, composed) if composed != matched else None


def _is_markup(text: str, start: int, end: int) -> bool:
    """Whether a run of marks may be Markdown: neither between two blanks nor within a word."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    if before.isspace() and after.isspace():
        return False
    return text[start] == "`" or not (before.isalnum() and after.isalnum())


def _sequences(text: str) -> str:
    """A pattern for what composing may change in a text: letters with marks, and other forms of letters."""
    if text.isascii():
        return ""
    characters = {character for character in set(text) if character >= "\u0300"}
    marks = "".join(sorted(filter(_joins, characters)))
    others = "".join(sorted(character for character in characters if _has_another_form(character)))
    patterns = []
    if marks:
        joined = f"(?:[{UNSEEN}]*+[{marks}])"
        patterns.append(f"[^{marks}{UNSEEN}{BLANK}]{joined}++|[{marks}]{joined}*+")
    if others:
        patterns.append(f"[{others}]")
    return "|".join(patterns)


@lru_cache(4096)
def _joins(character: str) -> bool:
    """Whether a character may join the one before it: marks, vowels and endings of Hangul syllables."""
    return _is_mark(character) or "\u1161" <= character <= "\u1175" or "\u11a8" <= character <= "\u11c2"


@lru_cache(4096)
def _has_another_form(character: str) -> bool:
    return not _joins(character) and not unicodedata.is_normalized("NFC", character)


def _is_mark(character: str) -> bool:
    return character >= "\u0300" and unicodedata.category(character)[0] == "M"


def _compose(sequence: str) -> str:
    return unicodedata.normalize("NFC", sequence) if len(sequence) <= MAX_SEQUENCE else sequence

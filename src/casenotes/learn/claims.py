"""The parts of a sentence that must not be made up: numbers, identifiers, URLs and negation.

What a value is, and when two of them are the same, says `values`. An identifier is a token with a digit,
with `_ / : @ =`, with a point between letters or digits, or with a capital after the first letter of one
of its hyphenated parts; it is supported where it stands alone, not as a part of a longer one. Everyday tokens
such as `3D` need nobody to name them, and an abbreviation may be written out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

from casenotes.characters import CJK, SOUTHEAST_ASIAN
from casenotes.learn.numerals import numbers
from casenotes.learn.quotes import map_text
from casenotes.learn.values import MAX_IDENTIFIER, URL, Reading, Value, token_spans, trim_url
from casenotes.learn.vocabulary import vocabulary

__all__ = ["Sources", "identifiers", "numbers", "unsupported"]

MAX_NAMED = 20
MAX_CHARACTERS = 400_000
"""Read of all sources together; more would take a worker many seconds."""
EDGES = ' \n\t",;'
"""Where a long source may be cut."""
MAX_DEPTH = 3
"""Parts of parts of a compound that are looked at."""

_SCRIPT = re.compile(f"[{CJK}{SOUTHEAST_ASIAN}]+")
_PLURAL = re.compile(r"[A-Z]{2,}s")


def identifiers(text: str) -> frozenset[str]:
    """The identifiers and URLs of a text as they are written, without punctuation around them."""
    mapped = map_text(text)
    urls = [(match.start(), match.start() + len(trim_url(match.group()))) for match in URL.finditer(mapped)]
    rest = _blanked(mapped, urls)
    return frozenset(mapped[start:end] for start, end in [*urls, *token_spans(rest)])


def unsupported(content: str, sources: Sequence[str] | Sources) -> tuple[str, ...]:
    """The values of a text that none of the sources has, identifiers first; at most 20 are named.

    A part of a longer identifier does not count: `pay-2` is not in `pay-23`, `pay-2-eu` or `pay-2.eu`,
    but it is in `host=pay-2:80`. A URL must be there as a whole.
    """
    known = sources if isinstance(sources, Sources) else Sources(sources)
    named = sorted(Reading(content).values, key=lambda value: not value.is_identifier)
    missing = (value.text for value in dict.fromkeys(named) if not known.supports(value))
    return tuple(islice(dict.fromkeys(missing), MAX_NAMED))


class Sources:
    """What sources say, in the forms that are asked for; made once for many questions."""

    def __init__(self, sources: Sequence[str]) -> None:
        readings = [Reading(source) for source in _shortened(sources)]
        self._texts = [reading.text for reading in readings]
        self.keys = frozenset().union(*(reading.keys for reading in readings))

    @cached_property
    def _text(self) -> str:
        """Folded, with breaks where identifiers begin and end without a blank, and the paths of URLs apart."""
        written = "\n".join(self._texts).casefold()
        paths = (re.sub(r"[?#].*", "", match.group().partition("://")[2]) for match in URL.finditer(written))
        text = "\n".join((written, *(path[path.find("/") :] for path in paths if "/" in path)))
        return _SCRIPT.sub("\n", URL.sub(r"\n\g<0>", text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers that support a number, in any of their readings."""
        return frozenset(key[7:] for key in self.keys if key.startswith("number:"))

    def has_identifier(self, identifier: str) -> bool:
        """Whether the sources name an identifier, in this or in another spelling."""
        return all(map(self.supports, Reading(identifier).values))

    def supports(self, value: Value, depth: int = 0) -> bool:
        """Whether the sources name a value."""
        if any(need <= self.keys for need in value.needs):
            return True
        if value.is_identifier and self._names(value.text):
            return True
        return bool(value.parts) and depth < MAX_DEPTH and all(self._names_part(p, depth) for p in value.parts)

    def _names(self, identifier: str) -> bool:
        """Whether an identifier stands there, needs not to, or is written out."""
        if len(identifier) > MAX_IDENTIFIER or "://" in identifier:
            return False
        if _stands_alone(identifier, self._text):
            return True
        words, folded = vocabulary(), identifier.casefold()
        if siblings := words.everyday.get(folded):
            return not any(_stands_alone(other, self._text) for other in siblings)
        return any(_begins_word(other, self._text) for other in words.written_out.get(folded, ()))

    def _names_part(self, part: str, depth: int) -> bool:
        named = Reading(part).values
        if named:
            return all(self.supports(value, depth + 1) for value in named)
        stem = part.casefold()
        return _begins_word(stem[: max(4, len(stem) - 2)], self._text)


def _shortened(sources: Sequence[str]) -> list[str]:
    """The sources within what is read of them: of the longest ones beginning and end."""
    texts = list(sources)
    room = MAX_CHARACTERS
    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for left, i in zip(range(len(texts), 0, -1), by_length, strict=True):
        if len(texts[i]) > room // left:
            half = room // left // 2
            rest = len(texts[i]) - half
            head = max(texts[i].rfind(edge, 0, half) for edge in EDGES) + 1  # no half of a value
            tail = min((at for edge in EDGES if (at := texts[i].find(edge, rest)) >= 0), default=len(texts[i]))
            texts[i] = f"{texts[i][:head]}\n{texts[i][tail:]}"
        room -= len(texts[i])
    return texts


def _begins_word(beginning: str, text: str) -> bool:
    """Whether a word of a text begins so; two letters are a word of their own."""
    start = text.find(beginning)
    while start >= 0:
        end = start + len(beginning)
        if not text[max(0, start - 1) : start].isalnum() and (
            len(beginning) > 2 or not text[end : end + 1].isalnum()
        ):
            return True
        start = text.find(beginning, end)
    return False


def _stands_alone(identifier: str, text: str) -> bool:
    """Whether an identifier is in a text, not as a part of a longer one; words of letters may be hyphenated."""
    is_word = identifier.isalpha()
    joints, plural = ("._", "s") if is_word else ("._-", "")
    wanted = (identifier[:-1] if _PLURAL.fullmatch(identifier) else identifier).casefold()
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        if _begins(text, start, joints) and (
            _ends(text, end, joints)
            or (plural and text[end : end + 1] == plural and _ends(text, end + 1, joints))
        ):
            return True
        start = text.find(wanted, start + 1)
    return False


def _begins(text: str, start: int, joints: str) -> bool:
    """Whether nothing before makes the identifier longer."""
    before = text[max(0, start - 2) : start]
    return not before[-1:].isalnum() and not (before[-1:] and before[-1] in joints and _is_inner(before[:-1]))


def _ends(text: str, end: int, joints: str) -> bool:
    """Whether nothing behind makes the identifier longer."""
    after = text[end : end + 2]
    return not after[:1].isalnum() and not (after[:1] and after[0] in joints and _is_inner(after[1:]))


def _is_inner(character: str) -> bool:
    return character.isalnum() or character == "_"


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        pieces += (text[done:start], " " * (end - start))
        done = end
    return "".join((*pieces, text[done:]))

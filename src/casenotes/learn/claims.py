"""The parts of a sentence that must not be made up: numbers, identifiers, URLs and negation.

Number: a run of digits of any script with its separators, written with ASCII digits. Commas,
apostrophes and thin or no-break spaces before groups of three are thousands separators and go; points
go only where they cannot be a decimal point, that is in two or more groups or before a decimal comma:
`1.234.567` and `1.234,5` lose them, `1.234` keeps it. Other runs keep their points (`1.2.3`) and part
at the rest. Signs are not part of a number, and leading zeros stay.

Identifier: a token with a digit, with `_ / : @ =`, with a point between letters or digits, or with a
capital after the first letter of one of its hyphenated parts. Tokens that are numbers only are none,
dates and addresses such as `2024-05-01` and `10.0.0.1` are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

from casenotes.characters import BLANK, CJK, SOUTHEAST_ASIAN
from casenotes.learn.negation import negations
from casenotes.learn.quotes import alike, map_text, without_unseen

NO_IDENTIFIERS = frozenset("a.m p.m e.g i.e d.h z.b u.a n/a w/o and/or he/she his/her ok".split())
MAX_NAMED = 20
MAX_IDENTIFIER = 500
"""Nothing that long is looked for; it is made up, or it is no identifier."""
MAX_BRACKETS = 8

_GROUPING = ",'\u2019\u066c\xa0\u2007\u2009\u202f"
_RUN = re.compile(rf"\d++(?:[.\u066b{_GROUPING}]\d++)*+")
_GROUPED = re.compile(rf"\d{{1,3}}([{_GROUPING}])(?:\d{{2,3}}\1)*\d{{3}}(?:(?!\1)[.,\u066b]\d+)?")
_POINT_GROUPED = re.compile(r"\d{1,3}(?:(?:\.\d{3}){2,}(?:,\d+)?|\.\d{3},\d+)")
_DECIMAL = re.compile(r"\d+[.,\u066b]\d+")
_SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})++(?!\d)")

_LEFT, _RIGHT = r"(?<![^\W_])(?<!\w[._-])", r"(?![^\W_])(?![._-]\w)"
_UNIT = r"(\u00b0?[^\W\d_]++)"
_QUANTITY = re.compile(f"({_RUN.pattern}) ?{_UNIT}")
_QUANTITIES = re.compile(f"{_LEFT}({_RUN.pattern}) ?{_UNIT}{_RIGHT}")

_UNSPACED = CJK + SOUTHEAST_ASIAN
_WIDE_MARKS = "\u3001-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20"
_OUTSIDE = rf"{BLANK}{_UNSPACED}{_WIDE_MARKS}<>\"'`"
_TOKEN = re.compile(rf"(?:[^{_OUTSIDE}()\[\]{{}};|*!?\u2026,]|(?<=\d),(?=\d))+")
_CORE = re.compile(r"[\w@/](?:.*\w)?", re.DOTALL)
_SCHEME = r"(?<![a-z0-9])[a-z][a-z0-9+.-]{0,30}+://[\[/:]{0,4}"
_URL = re.compile(rf"{_SCHEME}[a-z0-9][^{_OUTSIDE}]*", re.IGNORECASE)
_SCRIPT = re.compile(f"[{_UNSPACED}]+")
_SENTENCE = ".,;:!?*_|"
_OPENED_BY = {")": "(", "]": "[", "}": "{"}
_INNER_POINT = re.compile(r"[^\W_]\.[^\W_]")
_PLURAL = re.compile(r"[A-Z]{2,}s")


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text in their plain form: `1,000` and `1\u00a0000` give `1000`."""
    return frozenset(_numbers(without_unseen(text)))


def identifiers(text: str) -> frozenset[str]:
    """The identifiers and URLs of a text as they are written, without punctuation around them."""
    mapped = map_text(text)
    return frozenset(mapped[start:end] for start, end in _identifier_spans(mapped))


def unsupported(content: str, sources: Sequence[str] | Sources) -> tuple[str, ...]:
    """The identifiers, URLs and numbers of a text that none of the sources has.

    A part of a longer identifier does not count: `pay-2` is not in `pay-23`, `pay-2-eu` or `pay-2.eu`,
    but it is in `host=pay-2:80`. A URL must be there as a whole. At most 20 are named.
    """
    seen = without_unseen(content)
    mapped = alike(seen)
    known = sources if isinstance(sources, Sources) else Sources(sources)
    spans = list(_identifier_spans(mapped))
    named = dict.fromkeys(mapped[start:end] for start, end in spans)
    counted = dict.fromkeys(_numbers(_blanked(seen, spans)))
    missing = chain(
        (name for name in named if not known.has_identifier(name)),
        (number for number in counted if number not in known.numbers),
    )
    return tuple(islice(missing, MAX_NAMED))


def differ(a: str, b: str) -> str:
    """Which claims two texts do not share: `numbers`, `identifiers`, `negation`, or several; or nothing.

    Texts that differ here may correct one another, however alike they are.
    """
    differences = {
        "numbers": numbers(a) != numbers(b),
        "identifiers": _lacks_identifier(a, b) or _lacks_identifier(b, a),
        "negation": negations(a) != negations(b),
    }
    return ", ".join(name for name, is_so in differences.items() if is_so)


def _lacks_identifier(text: str, other: str) -> bool:
    known = Sources([other])
    return not all(map(known.has_identifier, identifiers(text)))


class Sources:
    """What sources say, in the forms that are asked for; made once for many questions."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._written = "\n".join(map(map_text, sources))

    @cached_property
    def _text(self) -> str:
        """Folded, with breaks where identifiers begin and end without a blank."""
        return _SCRIPT.sub("\n", _URL.sub(r"\n\g<0>", self._written.casefold()))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Numbers, also those whose groups stand apart by a plain space, and the digits around a point."""
        spaced = (match.group().replace(" ", "") for match in _SPACED.finditer(self._written))
        found = numbers(self._written) | numbers(" ".join(spaced))
        return found.union(*(number.split(".") for number in found))

    @cached_property
    def _quantities(self) -> frozenset[str]:
        return frozenset(map(_quantity, _QUANTITIES.finditer(self._text)))

    @cached_property
    def _urls(self) -> frozenset[str]:
        return frozenset(_url_key(match.group()) for match in _URL.finditer(self._text))

    def has_identifier(self, identifier: str) -> bool:
        wanted = identifier.casefold()
        if _URL.fullmatch(wanted):
            return _url_key(wanted) in self._urls
        if (match := _QUANTITY.fullmatch(wanted)) and _quantity(match) in self._quantities:
            return True
        return len(identifier) <= MAX_IDENTIFIER and _stands_alone(identifier, self._text)


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


def _quantity(match: re.Match[str]) -> str:
    return " ".join((*_plain(match[1]), match[2]))


def _numbers(text: str) -> Iterator[str]:
    for match in _RUN.finditer(text):
        yield from _plain(match.group())


def _plain(run: str) -> Iterator[str]:
    """The numbers in one run of digits and separators."""
    if not run.isascii():
        run = "".join(str(int(c)) if c.isdecimal() else c for c in run)
    if grouped := _GROUPED.fullmatch(run):
        yield _with_point(run.replace(grouped[1], ""))
    elif _POINT_GROUPED.fullmatch(run):
        yield _with_point(run.replace(".", ""))
    elif _DECIMAL.fullmatch(run):
        yield _with_point(run)
    else:
        yield from re.split(r"[^\d.]", run)


def _with_point(number: str) -> str:
    return re.sub(r"[^\d]", ".", number)


def _identifier_spans(mapped: str) -> Iterator[tuple[int, int]]:
    urls = [(m.start(), m.start() + len(_url(m.group()))) for m in _URL.finditer(mapped)]
    yield from urls
    rest = _blanked(mapped, urls)
    for token in _TOKEN.finditer(rest):
        if core := _CORE.search(token.group()):
            edge = 1 if _is_emphasised(core.group()) else 0
            start, end = token.start() + core.start() + edge, token.start() + core.end() - edge
            if _is_identifier(rest[start:end]):
                yield start, end


def _is_emphasised(token: str) -> bool:
    """Whether the underscores around a word are markdown; two of them are a name's own."""
    return re.fullmatch(r"_[^_]+_", token) is not None


def _is_identifier(token: str) -> bool:
    if token.casefold() in NO_IDENTIFIERS or not any(map(str.isalnum, token)) or _is_number(token):
        return False
    return (
        any(c.isdecimal() or c in "_/:@=" for c in token)
        or _INNER_POINT.search(token) is not None
        or any(map(_has_inner_capital, token.split("-")))
    )


def _is_number(token: str) -> bool:
    return _RUN.fullmatch(token) is not None and all(plain.count(".") < 2 for plain in _plain(token))


def _has_inner_capital(part: str) -> bool:
    return any(map(str.isupper, part[1:]))


def _url(matched: str) -> str:
    """A matched URL without the punctuation of the sentence around it."""
    url = matched.rstrip(_SENTENCE)
    for _ in range(MAX_BRACKETS):
        if url[-1:] in _OPENED_BY and url.count(url[-1]) > url.count(_OPENED_BY[url[-1]]):
            url = url[:-1].rstrip(_SENTENCE)
    return url


def _url_key(matched: str) -> str:
    return _url(matched).casefold().rstrip("/")


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        pieces += (text[done:start], " " * (end - start))
        done = end
    return "".join((*pieces, text[done:]))

"""Find the JSON object in what a chat model wrote, and never put anything into it.

Models wrap objects in prose and fences, leave commas behind, and stop in the middle. A value is read
as far as it is sound; where it breaks off, open lists end after their last whole element and open
objects after their last whole member. An element that is not whole is dropped with all that is in
it: half an entry may say the opposite of the entry. Nothing whole is nothing readable, not an empty
list, which would mean that there was nothing to tell. All of it takes time linear in the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from casenotes.errors import UnreadableOutput

MAX_DEPTH = 100
"""Deeper values could be written to a store but not read back."""

MAX_CHARACTERS = 1_000_000
MAX_CANDIDATES = 10_000
"""Both are far above what any answer has, and keep the worst text below some seconds."""

BLANK = "\ufeff \t\r\n"

OPENING = re.compile(r"[{\[]")
PROSE = re.compile(r"""\{(?=\{)|\{[^][{}"':]*\}|\[[^][{}"']*\]""")
"""Brackets around words, and doubled ones: nothing was begun here that could have broken off."""

TOKEN = re.compile(
    r"""\s*+(?: (?P<mark>[{}\[\],:])
              | (?P<string>")
              | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?=[\s,\]}])
              | (?P<word>true|false|null|True|False|None|NaN|-?Infinity)\b )""",
    re.VERBOSE,
)
WORDS: dict[str, bool | None] = {"true": True, "True": True, "false": False, "False": False}
ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
SURROGATE = re.compile("[\ud800-\udfff]")
DECODER = json.JSONDecoder(strict=False, parse_constant=lambda name: None)
"""Takes line ends within strings."""


def parse_object(output: str | Mapping[str, Any], wanted: str = "") -> dict[str, Any]:
    """The object in the output, rather one with the wanted key; UnreadableOutput if there is none.

    A list without an object around it is taken for the value of the wanted key.
    """
    if isinstance(output, str):
        output = _object_in_text(output, wanted)
    else:
        output = _best([_Candidate(dict(output))], wanted) or {}
    found: dict[str, Any] = _harmless(output, 0)
    return found


def _object_in_text(text: str, wanted: str) -> Mapping[str, Any]:
    if len(text) > MAX_CHARACTERS:
        raise UnreadableOutput(f"the model's answer has {len(text)} characters, more than {MAX_CHARACTERS}")
    candidates = _candidates(text)
    found = _best(candidates, wanted)
    if found is None:
        raise UnreadableOutput(_why_nothing(text, candidates, wanted))
    return found


@dataclass(slots=True)
class _Candidate:
    """A list or object in the text; one that is not whole broke off at `end`."""

    value: Any
    end: int = 0
    whole: bool = True
    too_deep: bool = False
    within_broken: bool = False

    @property
    def usable(self) -> bool:
        return self.whole or bool(self.value)


def _candidates(text: str) -> list[_Candidate]:
    """The whole text if it is JSON, otherwise every outermost list and object in it."""
    try:
        value = DECODER.decode(text.strip(BLANK))
    except (ValueError, RecursionError):
        return list(_scattered(text))
    if isinstance(value, str):  # JSON that was written as a string of JSON
        return list(_scattered(value))
    return [_Candidate(value)] if isinstance(value, dict | list) else []


def _scattered(text: str) -> Iterator[_Candidate]:
    """Reading goes on where a value ended or broke, so that no part is read twice."""
    broken = False
    at = 0
    for _ in range(MAX_CANDIDATES):
        opening = OPENING.search(text, at)
        if opening is None:
            return
        candidate = _Reading(text, opening.start()).read()
        candidate.within_broken = broken
        yield candidate
        if candidate.too_deep:
            return
        broken = broken or not (candidate.whole or PROSE.match(text, opening.start()))
        at = max(candidate.end, opening.end())


def _best(candidates: list[_Candidate], wanted: str) -> Mapping[str, Any] | None:
    """Without the wanted key only what is whole counts: its rest might have had the key."""
    usable = [c for c in candidates if c.usable]
    found = _with_key(usable, wanted) if wanted else None
    if found is None:
        objects = [c.value for c in _outermost(usable, dict) if c.whole or not wanted]
        found = max(objects, key=bool, default=None)
    return found


def _with_key(candidates: list[_Candidate], wanted: str) -> Mapping[str, Any] | None:
    """The last whole one, as drafts come first; or one in another object; or a list of its own."""
    holding = [c for c in candidates if isinstance(c.value, dict) and wanted in c.value]
    if holding:
        best: Mapping[str, Any] = max(reversed(holding), key=lambda c: c.whole).value
        return best
    inner = [value for c in _outermost(candidates, dict) for value in c.value.values()]
    wrapped = [value for value in inner if isinstance(value, dict) and wanted in value]
    return next(reversed(wrapped or [{wanted: c.value} for c in _outermost(candidates, list)]), None)


def _outermost(candidates: list[_Candidate], kind: type) -> list[_Candidate]:
    """Those that cannot have been a part of something that broke off before them."""
    return [c for c in candidates if isinstance(c.value, kind) and not c.within_broken]


def _why_nothing(text: str, candidates: list[_Candidate], wanted: str) -> str:
    if not text.strip(BLANK):
        return "the model's answer is empty"
    if any(c.too_deep for c in candidates):
        return f"the model's answer is nested deeper than {MAX_DEPTH} levels: {_excerpt(text)}"
    if not wanted and any(c.usable for c in candidates):
        return f"the model's answer is a list where an object was asked for: {_excerpt(text)}"
    return f"the model's answer holds no JSON object with anything whole in it: {_excerpt(text)}"


def _excerpt(text: str) -> str:
    return repr(text.strip()[:60])


@dataclass(slots=True)
class _Open:
    """An object or list that is being read; `after`: opening, key, colon, value or comma came last."""

    value: Any
    after: str = "opening"
    key: str = ""

    def add(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value[self.key] = value
        self.after = "value"

    def takes_value(self) -> bool:
        return self.after == "colon" if isinstance(self.value, dict) else self.after in ("opening", "comma")

    def takes_key(self) -> bool:
        return isinstance(self.value, dict) and self.after in ("opening", "comma")

    def closes_with(self, mark: str) -> bool:
        """A comma may stand before the end: many models leave one there."""
        fits = mark == ("}" if isinstance(self.value, dict) else "]")
        return fits and self.after in ("opening", "comma", "value")


class _Broken(Exception):
    """What follows is no JSON."""


class _TooDeep(_Broken):
    """What follows may be JSON, but nobody could read it."""


@dataclass(slots=True)
class _Reading:
    """Reads one list or object with a stack of its own, so that no depth is too deep."""

    text: str
    at: int
    open: list[_Open] = field(default_factory=list)
    closed: Any = None

    def read(self) -> _Candidate:
        try:
            while self.closed is None:
                self._take_token()
        except _Broken as broken:
            too_deep = isinstance(broken, _TooDeep)
            return _Candidate(_whole_part(self.open), self.at, whole=False, too_deep=too_deep)
        return _Candidate(self.closed, self.at)

    def _take_token(self) -> None:
        token = TOKEN.match(self.text, self.at)
        if token is None:
            raise _Broken
        written = token[token.lastgroup or 0]
        if token.lastgroup == "mark":
            self._mark(written)
            self.at = token.end()
        elif token.lastgroup == "string":
            self._string(token.end() - 1)
        else:
            self._value(_number(written) if token.lastgroup == "number" else WORDS.get(written))
            self.at = token.end()

    def _mark(self, mark: str) -> None:
        if mark in "{[":
            self._open(mark)
        elif mark in "}]":
            self._close(mark)
        else:
            expected, now = ("key", "colon") if mark == ":" else ("value", "comma")
            if self.open[-1].after != expected:
                raise _Broken
            self.open[-1].after = now

    def _open(self, mark: str) -> None:
        if self.open and not self.open[-1].takes_value():
            raise _Broken
        if len(self.open) == MAX_DEPTH:
            raise _TooDeep
        self.open.append(_Open({} if mark == "{" else []))

    def _close(self, mark: str) -> None:
        if not self.open[-1].closes_with(mark):
            raise _Broken
        value = self.open.pop().value
        if self.open:
            self.open[-1].add(value)
        else:
            self.closed = value

    def _string(self, quote: int) -> None:
        container = self.open[-1]
        if not container.takes_key() and not container.takes_value():
            raise _Broken
        text, self.at = _string_at(self.text, quote)
        if container.takes_key():
            container.key, container.after = text, "key"
        else:
            container.add(text)

    def _value(self, value: Any) -> None:
        if not self.open[-1].takes_value():
            raise _Broken
        self.open[-1].add(value)


def _whole_part(open_values: list[_Open]) -> Any:
    """Close what is open: below the outermost list nothing is whole, above it there are only objects."""
    lists = [depth for depth, value in enumerate(open_values) if isinstance(value.value, list)]
    kept = open_values[: lists[0] + 1] if lists else open_values
    for outer, inner in zip(reversed(kept[:-1]), reversed(kept[1:]), strict=True):
        if inner.value:
            outer.value.setdefault(outer.key, inner.value)
    return kept[0].value


def _string_at(text: str, quote: int) -> tuple[str, int]:
    """The string that begins with that quote, and where it ends."""
    try:
        return DECODER.raw_decode(text, quote)
    except ValueError:  # an escape that JSON does not know, or no end
        for found in ESCAPE_OR_QUOTE.finditer(text, quote + 1):
            if found[0] == '"':
                return ESCAPE.sub(_unescaped, text[quote + 1 : found.start()]), found.end()
    raise _Broken


def _unescaped(escape: re.Match[str]) -> str:
    """Unknown escapes stay as they were written."""
    name = escape[1]
    return chr(int(name[1:], 16)) if len(name) == 5 else ESCAPED.get(name, escape[0])


def _number(written: str) -> int | float | None:
    try:
        return float(written) if re.search("[.eE]", written) else int(written)
    except ValueError:  # more digits than Python reads
        return None


def _harmless(value: Any, depth: int) -> Any:
    """The same without numbers that are none, and without halves of characters, which no store can write."""
    if isinstance(value, str):
        return _whole_characters(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        raise UnreadableOutput(f"the model's answer is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_whole_characters(str(key)): _harmless(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(inner, depth + 1) for inner in value]
    return value


def _whole_characters(text: str) -> str:
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

"""The words of data/values.json as tables and patterns: number words, units, months, days, abbreviations.

Lower-case words of units, scales and months match in any case, others only as they are written: `M` is a
million and `m` a minute or a metre, `May` is a month and `may` is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

ANY_LANGUAGE = "any"
DISTINCT = 6
"""Number words of so many letters mean the same in every language that has them."""


class NumberWords(NamedTuple):
    """The number words of a language, and the words that multiply."""

    pattern: re.Pattern[str]
    values: Mapping[str, int]
    scales: Mapping[str, int]

    @classmethod
    def of(cls, values: Mapping[str, int], scales: Mapping[str, int]) -> NumberWords:
        """The words with their pattern."""
        words = any_of([*values, *scales])
        pattern = re.compile(rf"(?<![\w./@-])(?:{words})(?!\w)(?![./@_]\w)", re.IGNORECASE)
        return cls(pattern, values, scales)


class Vocabulary:
    """What words mean, whatever the language; number words by language, because they collide."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.scales = {word: int(factor) for factor, words in data["scales"].items() for word in words}
        self.units: dict[str, list[str]] = {}
        for unit, spellings in data["units"].items():
            for spelling in spellings:
                self.units.setdefault(spelling, []).append(unit)
        self.currencies = frozenset(data["currencies"])
        self.months = _positions(data["months"])
        self.weekdays = _positions(data["weekdays"]) | _positions(data["short_weekdays"])
        self.day_halves = {word: half for half, words in data["day_halves"].items() for word in words}
        self.durations = {phrase: amount for amount, phrases in data["durations"].items() for phrase in phrases}
        self.moments = {word: time for time, words in data["moments"].items() for word in words}
        self.halves = re.compile(rf"(?<![\w.,])(\d{{1,9}}) (?:{any_of(data['and_a_half'])})(?!\w)")
        self.hours = frozenset(data["clock"])
        self.everyday = {token: group for group in data["everyday"] for token in group}
        self.abbreviations = frozenset(data["abbreviations"])
        self.written_out: Mapping[str, Sequence[str]] = data["written_out"]
        self.known_words: dict[str, frozenset[str]] = {}
        self.number_words: dict[str, NumberWords] = {}
        self.loose_numbers: dict[str, tuple[re.Pattern[str], Mapping[str, str]]] = {}
        common: set[str] = set()
        distinct: dict[str, int] = {}
        distinct_loose: dict[str, str] = {}
        scales = {word: factor for word, factor in self.scales.items() if len(word) > 2}
        for language, lists in data["numbers"].items():
            values = {word: int(value) for value, words in lists["words"].items() for word in words}
            counts = {word: value for value, words in lists["counts"].items() for word in words}
            counts |= {word: str(value) for word, value in values.items() if value < 2}
            ordinals = {word: value for value, words in lists["ordinals"].items() for word in words}
            loose = {word: f"number:{value}" for word, value in ordinals.items()}
            loose |= {word: f"bare:{value}" for word, value in counts.items()}
            self.number_words[language] = NumberWords.of(values, scales)
            distinct |= {word: value for word, value in values.items() if len(word) >= DISTINCT}
            distinct_loose |= {word: value for word, value in loose.items() if len(word) >= DISTINCT}
            self.loose_numbers[language] = _words(loose), loose
            common |= set(lists["common"])
            self.known_words[language] = frozenset(
                [*lists["common"], *(word for word, value in values.items() if value > 1)]
            )
        self.number_words[ANY_LANGUAGE] = NumberWords.of(distinct, scales)
        self.loose_numbers[ANY_LANGUAGE] = _words(distinct_loose), distinct_loose
        self.function_words = frozenset(common)
        self._data = data

    def units_of(self, spelling: str) -> Sequence[str]:
        """The units that a spelling may stand for."""
        return self.units.get(spelling) or self.units.get(spelling.casefold()) or ()

    def month(self, name: str) -> int:
        """The number of a month."""
        return self.months.get(name) or self.months[name.casefold()]

    def any_of(self, name: str) -> str:
        """A pattern for all words of a part of the data."""
        return any_of(_leaves(self._data[name]))

    def any_unit(self, min_length: int = 1) -> str:
        """A pattern for the spellings of units; a single letter has the least length, a sign none."""
        return _any_case(unit for unit in self.units if len(unit) >= min_length or not unit.isalpha())

    def any_scale(self) -> str:
        """A pattern for the words that multiply a number in digits."""
        return _any_case(self.scales)

    def any_month(self) -> str:
        """A pattern for the names of months."""
        return _any_case(self.months)


def any_of(words: Iterable[str]) -> str:
    """A pattern for any of some words, the longest first; common beginnings are tried once."""
    tails: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        tails.setdefault(word[:1], []).append(word[1:])
    is_optional = bool(tails.pop("", None))
    branches = [re.escape(first) + any_of(rest) for first, rest in tails.items()]
    if not branches:
        return ""
    pattern = branches[0] if len(branches) == 1 and not is_optional else f"(?:{'|'.join(branches)})"
    return f"{pattern}?" if is_optional else pattern


def _any_case(words: Iterable[str]) -> str:
    known = set(words)
    lower = {word for word in known if word == word.casefold()}
    return f"(?:{any_of(known - lower)}|(?i:{any_of(lower)}))"


def _words(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{any_of(words)})(?!\w)", re.IGNORECASE)


def _leaves(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for inner in part.values() if isinstance(part, Mapping) else part:
        yield from _leaves(inner)


def _positions(groups: Sequence[Sequence[str]]) -> dict[str, int]:
    return {name: number for number, names in enumerate(groups, 1) for name in names}


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that is shipped."""
    file = resources.files("casenotes.learn").joinpath("data/values.json")
    return Vocabulary(json.loads(file.read_text("utf-8")))

"""Find sequences of word classes in a text, in any of several languages at once, in time linear in the text.

A rule such as `if ~3 user ~12 asks ~25 ^say/do` names classes of words and phrases and how many words may
stand between them. `^` asks for the place where an order begins: the start of a clause, or behind words of
a class in OPENING; words of the class `lead` do not end it. There `send the list` is an order, while in
`it was sent` and `the job that should send` it is not. A phrase of the class `nothing` hides its words.

For every part of a rule only the last place where it was met is kept: no later part can be nearer to
another one. So each word is looked at once, however often the rules begin.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

from casenotes.characters import CJK
from casenotes.learn.disguise import folded

Classes = Mapping[str, Sequence[str]]

OPENING = frozenset(("urge", "opens", "from_now", "if_asked"))
GAP = 3
WORD, SENTENCE = 2, 60
"""What a word and the end of a sentence add to a distance; a single character, as in Chinese, adds 1."""

_ADDRESS = r"""https?://[^\s<>"'`)\]]+ | www\.[^\s<>"'`)\]]+
    | (?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}\.[\w.-]{2,63}
    | (?<![\w.-])(?:[a-z0-9-]{1,63}\.){1,4}(?:com|net|org|io|ru|cn|xyz|info|biz|top|site|online)(?!\w)"""
_MONEY = r"[$\u20ac\xa3]\x20?\d[\d.,]{0,20}"
_END = r"""\.(?=[\s"')\]]|$)|[!?\n\u3002\u2026]+"""
_MARK = r"(?:[:,;\u3001](?!\d)|(?<!\d)[:,])+|(?<!\S)[*>#\u2022-]+(?=\s)"
_TOKEN = re.compile(
    rf"""[a-z]++(?![\w'.@:/+-])  # most words, found fast
    | {_ADDRESS} | {_MONEY} | [{CJK}] | [^\W_{CJK}]+(?:['_][^\W_{CJK}]+)* | {_END}
    | {_MARK}""",
    re.VERBOSE,
)
_IBAN = r"[a-z]{2}\d{2}[a-z0-9]{11,30}"
_NAMED = (
    ("<sink>", re.compile(f"{_ADDRESS}|{_IBAN}", re.VERBOSE)),
    ("<amount>", re.compile(_MONEY)),
    ("<number>", re.compile(r"\d{5,}")),
    ("<named>", re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")),
    ("<end>", re.compile(_END)),
    (":", re.compile(r"[:,;\u3001]*:[:,;\u3001]*")),
    (",", re.compile(r"[,;\u3001]+|[*>#\u2022-]+")),
)
_PLAIN = 15
"""Words of letters below this length are nothing but words."""


class Found(NamedTuple):
    """Which rule a text fulfils, and where."""

    rule: int
    start: int
    end: int


class _Slot(NamedTuple):
    """One part of a rule: its place, and how far behind the part before it may begin."""

    rule: int
    part: int
    is_last: bool
    orders: bool
    distance: int


class _Phrase(NamedTuple):
    """Words in a row, what they mean for the orders around them, and the slots that they fill."""

    words: list[str]
    weight: int
    opens: bool
    leads: bool
    hides: bool
    slots: tuple[_Slot, ...]
    slots_of_order: tuple[_Slot, ...]


_Reached = tuple[int, int]
"""The word at which a rule began that was fulfilled up to some part, and where that part ended."""
_NEVER: _Reached = (0, sys.maxsize)


class Phrases:
    """Rules over the classes of all languages, made once for many texts."""

    def __init__(self, languages: Mapping[str, Classes], rules: Sequence[str]) -> None:
        slots: dict[str, list[_Slot]] = defaultdict(list)
        for number, rule in enumerate(rules):
            for name, slot in _parsed(rule, number):
                slots[name].append(slot)
        self.words: set[str] = set()
        self._phrases: dict[tuple[str, ...], list[_Phrase]] = defaultdict(list)
        for words, names in _by_phrase(languages).items():
            self.words.update(words)
            self._phrases[words[:2]].append(_phrase(words, names, slots))
        self._firsts = {words[0] for words in self._phrases}

    def find(self, text: str) -> Found | None:
        """The rule that is fulfilled first."""
        words = _words(text)
        scan = _Scan(words)
        for number in [number for number, word in enumerate(words) if word in self._firsts]:
            met = self._met(words, number)
            if met and (ended := scan.ended(met, number)):
                return Found(ended.rule, *_span(text, ended.first, ended.last))
        return None

    def _met(self, words: list[str], number: int) -> list[_Phrase]:
        """The phrases that begin here, looked up by one word and by two."""
        longer = self._phrases.get(tuple(words[number : number + 2]), ())
        return [
            *self._phrases.get((words[number],), ()),
            *(phrase for phrase in longer if words[number : number + len(phrase.words)] == phrase.words),
        ]


class _Ended(NamedTuple):
    """The rule that a text fulfils, its first word and its last."""

    rule: int
    first: int
    last: int


class _Scan:
    """What was met on the way through the words of a text."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._positions = list(accumulate(map(_weight, words), initial=0))
        self._order_at = 0
        self._heard_from = 0
        self._reached: dict[tuple[int, int], _Reached] = {}

    def ended(self, met: Sequence[_Phrase], number: int) -> _Ended | None:
        """The rule that ends with one of the phrases that begin at a word."""
        is_order = self._is_order(number)
        ended = None if self._is_hidden(met, number) else self._filled(met, number, is_order)
        for phrase in met:
            if phrase.opens or (phrase.leads and is_order):
                self._order_at = max(self._order_at, number + len(phrase.words))
        return ended

    def _filled(self, met: Sequence[_Phrase], number: int, is_order: bool) -> _Ended | None:
        position = self._positions[number]
        for slot, phrase in _slots(met, is_order):
            rule, part, is_last, _, distance = slot
            first, ended_at = self._reached.get((rule, part - 1), _NEVER) if part else (number, position)
            if not 0 <= position - ended_at <= distance:
                continue
            if is_last:
                return _Ended(rule, first, number + len(phrase.words) - 1)
            self._reached[rule, part] = (first, position + phrase.weight)
        return None

    def _is_hidden(self, met: Sequence[_Phrase], number: int) -> bool:
        for phrase in met:
            if phrase.hides:
                self._heard_from = max(self._heard_from, number + len(phrase.words))
        return number < self._heard_from

    def _is_order(self, number: int) -> bool:
        """Whether an order may begin at a word; numbers before it do not count."""
        while self._order_at < number and self._words[self._order_at].isdigit():
            self._order_at += 1
        return self._order_at == number


def _words(text: str) -> list[str]:
    """The words of a text, with marks, addresses and the like as words of their own."""
    return [word if len(word) < _PLAIN and word.isalpha() else _named(word) for word in _TOKEN.findall(text)]


@lru_cache(4096)
def _named(word: str) -> str:
    return next((name for name, pattern in _NAMED if pattern.fullmatch(word)), word)


def _span(text: str, first: int, last: int) -> tuple[int, int]:
    """Where some of the words stand; looked up at the end, since most texts fulfil no rule."""
    matches = list(islice(_TOKEN.finditer(text), first, last + 1))
    return matches[0].start(), matches[-1].end()


def _weight(word: str) -> int:
    if word == "<end>":
        return SENTENCE
    return WORD if len(word) > 1 else 1


def _parsed(rule: str, number: int) -> Iterator[tuple[str, _Slot]]:
    """The classes of a rule, each with its slot."""
    parts = re.findall(r"(?:~(\d+) )?(\^?)([\w/:]+)", rule)
    for part, (gap, order, names) in enumerate(parts):
        distance = WORD * int(gap or GAP)
        slot = _Slot(number, part, part == len(parts) - 1, bool(order), distance)
        yield from ((name, slot) for name in names.split("/"))


def _by_phrase(languages: Mapping[str, Classes]) -> Mapping[tuple[str, ...], set[str]]:
    """The classes of each phrase, folded and parted as texts are."""
    classes: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for lists in languages.values():
        for name, phrases in lists.items():
            for phrase in phrases:
                classes[tuple(_words(folded(phrase)))].add(name)
    for name in ("sink", "amount", "number", "named"):
        classes[f"<{name}>",].add(name)
    classes[":",].add(":")
    for mark in (",", ":", "<end>"):
        classes[mark,].add("opens")
    return classes


def _phrase(words: tuple[str, ...], names: set[str], slots: Mapping[str, Sequence[_Slot]]) -> _Phrase:
    own = sorted((slot for name in names for slot in slots.get(name, ())), key=_part, reverse=True)
    return _Phrase(
        list(words),
        sum(map(_weight, words)),
        not OPENING.isdisjoint(names),
        "lead" in names,
        "nothing" in names,
        tuple(slot for slot in own if not slot.orders),
        tuple(own),
    )


def _slots(met: Sequence[_Phrase], is_order: bool) -> list[tuple[_Slot, _Phrase]]:
    """The slots that phrases may fill, later parts first: one word is never two parts of a rule."""
    slots = [(slot, phrase) for phrase in met for slot in (phrase.slots_of_order if is_order else phrase.slots)]
    return slots if len(met) == 1 else sorted(slots, key=lambda item: -item[0].part)


def _part(slot: _Slot) -> int:
    return slot.part

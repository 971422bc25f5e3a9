"""Break text into the search terms that the lexical index counts.

Words are found by the default Unicode word boundaries (UAX #29), written as a pattern: letters, marks
and digits, joined by a point, apostrophe or colon between letters and by a point or comma between
digits. ASCII text takes a faster pattern that finds the same words. Scripts written without spaces
give overlapping character pairs, so that any part of a sentence can be found without a dictionary.
Search text is folded freely here (case, width, accents); quotes that count as evidence never pass
through this module.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

ASCII_WORD = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))[A-Za-z0-9_]+)*"
)
COMPOUND_PART = re.compile(r"[^\W\d_]+|\d+")
CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
JOINER = re.compile(r"[._'\u2019:,;]")
APOSTROPHE = re.compile(r"['\u2019]")
INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
LATIN_ACCENTS = re.compile("[\u0300-\u036f]")

MAX_KNOWN_WORDS = 200_000
MAX_TERM_LENGTH = 64
STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are aren't as at be because been before being
    but by can can't cannot could couldn't did didn't do does doesn't doing don't down during
    each few for from further had hadn't has hasn't have haven't having he her here hers him
    himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just let's me
    more most my myself no nor not of off on once only or other our ours ourselves out over own
    same she should shouldn't so some such than that that's the their theirs them themselves
    then there there's these they they're this those through to too under until up us very was
    wasn't we we're were weren't what what's when where which while who whom why will with
    won't would wouldn't you you're your yours yourself yourselves
    """.split()
)


def search_terms(text: str) -> list[str]:
    """The terms of a text in order, with repeats: stemmed, folded, without stop words."""
    if text.isascii():
        return list(chain.from_iterable(map(_known_words.__getitem__, ASCII_WORD.findall(text))))
    return list(_unicode_terms(text))


def _unicode_terms(text: str) -> Iterator[str]:
    folded = _patterns()["invisible"].sub("", unicodedata.normalize("NFKC", text))
    word = _patterns()["word"]
    position = 0
    for run in _patterns()["unspaced"].finditer(folded):
        yield from chain.from_iterable(
            map(_known_words.__getitem__, word.findall(folded, position, run.start()))
        )
        yield from _character_terms(run.group())
        position = run.end()
    yield from chain.from_iterable(map(_known_words.__getitem__, word.findall(folded, position)))


class _KnownWords(dict[str, tuple[str, ...]]):
    """The terms of words met before: a plain dict, because it is read for every word of every text."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        terms = _terms_of_word(word)
        if len(word) <= MAX_TERM_LENGTH:
            if len(self) >= MAX_KNOWN_WORDS:
                self.clear()
            self[word] = terms
        return terms


_known_words = _KnownWords()


def _terms_of_word(word: str) -> tuple[str, ...]:
    whole = _folded(word)
    if whole in STOP_WORDS:
        return ()
    parts = [part for part in _parts(word) if part not in STOP_WORDS]
    return tuple(dict.fromkeys(_stem(term)[:MAX_TERM_LENGTH] for term in (whole, *parts)))


def _parts(word: str) -> Iterator[str]:
    """The pieces of `snake_case`, `camelCase`, `host.name`, `1,000` and `l'été`; none of a plain word."""
    if INNER_CAPITAL.search(word):
        yield from (_folded(part) for part in CAMEL_PART.findall(word))
    elif JOINER.search(word):
        shortest = 3 if APOSTROPHE.search(word) else 1
        yield from (_folded(part) for part in COMPOUND_PART.findall(word) if len(part) >= shortest)


def _character_terms(run: str) -> Iterator[str]:
    """Neighbouring pairs; Han and Hangul characters also alone, as one may be a word."""
    yield from (run[i : i + 2] for i in range(len(run) - 1))
    alone = _patterns()["word_character"]
    yield from (c for c in run if len(run) == 1 or alone.match(c))


def _folded(word: str) -> str:
    folded = word.casefold().replace("\u2019", "'")
    if folded.isascii() or not _patterns()["latin"].match(folded):
        return folded
    bare = LATIN_ACCENTS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFC", bare)


def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word)) if word.isascii() else word


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english", 0)


@cache
def _patterns() -> dict[str, Any]:
    import regex

    unspaced = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    return {
        "word": regex.compile(
            r"[\p{L}\p{M}\p{N}\p{Pc}]+(?:(?:"
            r"(?<=[\p{L}\p{M}])[.':\u2018\u2019\u00b7\u2027\u05f4](?=\p{L})"
            r"|(?<=\p{N})[.',;\u2019\u060c\u066c](?=\p{N}))[\p{L}\p{M}\p{N}\p{Pc}]+)*"
        ),
        "unspaced": regex.compile(f"[{unspaced}]+"),
        "word_character": regex.compile(r"[\p{Han}\p{Hangul}]"),
        "invisible": regex.compile(r"\p{Cf}+"),
        "latin": regex.compile(r"\p{Latin}"),
    }

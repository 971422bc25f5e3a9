"""Decide whether two texts state the same fact.

They do if every word that carries the statement is the same and stands in the same place. Articles,
auxiliaries and fillers do not count, a preposition may be missing on one side, and a word may be inflected
(`fails`, `failed`). Numbers, names, days, opposites, negation and modal verbs are words like any other, so
any of them that differs keeps two facts apart. Word order counts, because it says who did what to whom;
only a phrase that shows where it begins may stand elsewhere (`On Mondays the backup runs`).

data/function_words.json describes the languages that are known: `ignored` words, `articles` and `weak`
prepositions (may be missing, not replaced), `joins` (`and`), `openers` and `determiners` (count and begin a
phrase; `alone` are those that are one by themselves), `adverbs` (stand anywhere), the auxiliaries `be`, `was`,
`have` and `had`, `ordinals`, the `endings` of inflected words with what they replace, words that are `exact`
although they look inflected, and irregular `past` forms. Texts in other languages and scripts must agree word
for word; so must names with joints, paths and options of commands in any text, character for character.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

from casenotes.characters import CJK, SOUTHEAST_ASIAN
from casenotes.learn.claims import identifiers
from casenotes.learn.numerals import RUN, plain_numbers, times, with_digits
from casenotes.learn.quotes import bare_text, map_text
from casenotes.learn.vocabulary import vocabulary

MIN_STEM = 3
MIN_REST = 2
"""Letters that must be left of a word without its ending."""

MAX_REORDERED = 100
"""In longer texts the order of the words must be the same."""

POSSESSIVE = "'s"
JOIN = "&"
ORDINAL = "th"
SENTENCE_MARKS = frozenset(".,;:!?)\u2026\u3002\uff0c")
_UNSPACED = CJK + SOUTHEAST_ASIAN
_TOKEN = re.compile(rf"{RUN}|'s(?!\w)|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+|[^\w\s'\"-]")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_SPELLED = re.compile(r"[^\W\d]\S*[/_.:@=\\-]\S|[/_@]")
_OPTION = re.compile(r"(?<![\w/-])--?[A-Za-z][\w-]*")
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_CLOCK = re.compile(r"(?<![\d:.,])(1[0-2]|0?[1-9])(:[0-5]\d)? ?([ap])\.?m\b\.?", re.IGNORECASE)
_REWRITTEN = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\b(it|that|there|he|she|who|what|here)'s\b", r"\1 is"),
        (r"\bcan(?:no|')t\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"(?<=\w)n't\b", " not"),
        (r"(?<=\w)'ll\b", " will"),
        (r"(?<=\w)'re\b", " are"),
        (r"(?<=\w)'ve\b", " have"),
        (r"\ba (few|little)\b", r"a\1"),
        (r"(?<![\w.])\.(?=\d)", "0."),
        (rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b", r"\2 \1"),
        (rf"\b({_MONTH} \d{{1,2}})(?:st|nd|rd|th)\b", r"\1"),
        (r"(?<=\d)(?:st|nd|rd)\b", ORDINAL),
        (r"(?<!\w)v(?:ersion)? ?(?=\d)", "version "),
        (r"(?<![\d:.,])(\d:\d\d)(?!\d)", r"0\1"),
        (r"(?<!\w)-(?=\d)", "\u2212"),
        (r"(?<=\d)-(?=\d)", "\u2212"),
        (r"(?<=\d)/(?=\d)", "\u2215"),
        (r"(?<=\d):(?=\d)", "\u2236"),
        (r"!=", "\u2260"),
    )
)
"""Contractions in full, and what a punctuation mark means beside a digit as the symbol for it."""

_SYMBOLS = {"%": "percent", "\uff1f": "?"}
_COUNTED = "%#@?\uff1f"
"""Punctuation that counts like a symbol."""

Tense = Literal["", "past", "ongoing"]


_SETS = frozenset(
    (
        "ignored",
        "articles",
        "weak",
        "joins",
        "determiners",
        "openers",
        "alone",
        "adverbs",
        "be",
        "was",
        "have",
        "had",
        "exact",
    )
)


@dataclass(frozen=True)
class _Language:
    """The function words and the inflection of one language."""

    ignored: frozenset[str] = frozenset()
    articles: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    joins: frozenset[str] = frozenset()
    determiners: frozenset[str] = frozenset()
    openers: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    adverbs: frozenset[str] = frozenset()
    be: frozenset[str] = frozenset()
    was: frozenset[str] = frozenset()
    have: frozenset[str] = frozenset()
    had: frozenset[str] = frozenset()
    endings: Sequence[tuple[str, str]] = ()
    exact: frozenset[str] = frozenset()
    past: Mapping[str, str] = field(default_factory=dict)
    ordinals: Sequence[str] = ()

    @cached_property
    def words(self) -> frozenset[str]:
        """The words by which the language is known."""
        auxiliaries = self.be | self.was | self.have | self.had
        return self.ignored | self.articles | self.weak | self.joins | self.openers | self.adverbs | auxiliaries


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that counts: its possible base forms, its tense, and the weak words right before it."""

    forms: frozenset[str]
    tense: Tense = ""
    marks: frozenset[str] = frozenset()

    def is_same(self, other: _Word) -> bool:
        """Whether both are forms of one word; what goes on is not what is over."""
        return not self.forms.isdisjoint(other.forms) and {self.tense, other.tense} != {"past", "ongoing"}

    def fits(self, other: _Word) -> bool:
        """Whether both are the same word in the same role, as far as prepositions say so."""
        return self.is_same(other) and (self.marks <= other.marks or self.marks >= other.marks)


def is_same_fact(a: str, b: str) -> bool:
    """Whether two texts state the same, word by word."""
    if _spelled(a) != _spelled(b):
        return False
    texts = sorted(map(bare_text, (a, b)))  # so that the answer is mutual
    language = _language_of(texts)
    first, second = (_read(text, language) for text in texts)
    if len(first) != len(second) or _joins(first) != _joins(second):
        return False
    return _all_fit(first, second) or (len(first) <= MAX_REORDERED and _is_reordered(first, second, language))


def _spelled(text: str) -> frozenset[str]:
    """Paths, names with joints such as `db-1` and options of commands, in which every character counts."""
    mapped = map_text(text)
    names = (name for name in identifiers(mapped) if _SPELLED.match(name))
    return frozenset([*names, *_OPTION.findall(mapped)])


def _joins(words: Sequence[_Word]) -> int:
    return sum(JOIN in word.marks for word in words)


def _all_fit(first: Sequence[_Word], second: Sequence[_Word]) -> bool:
    return all(word.fits(other) for word, other in zip(first, second, strict=True))


def _is_reordered(first: Sequence[_Word], second: Sequence[_Word], language: _Language) -> bool:
    """Whether two neighbouring blocks have changed places in a way that changes no role.

    A phrase may come first, two phrases may change places, an adverb may stand anywhere, and so may the
    parts of a list (`A and B`).
    """
    size = len(first)
    head = next(i for i in range(size) if not first[i].fits(second[i]))
    end = size - next(i for i in range(size) if not first[-1 - i].fits(second[-1 - i]))
    is_last = end == size or bool(first[end].marks or first[end].forms & language.openers)
    for start in sorted({0, head}):
        for middle in range(start + 1, end):
            left, right = first[start:middle], first[middle:end]
            border = start + len(right)
            if not _all_fit([*right, *left], second[start:end]):
                continue
            phrases = [
                _is_phrase(left, right, second[border], language),
                _is_phrase(right, left, second[start], language),
            ]
            is_list = JOIN in right[0].marks and JOIN in second[border].marks
            is_pair = len(left) == len(right) == 1
            if (
                all(phrases)
                or (start == 0 and any(phrases))
                or any(len(block) == 1 and block[0].forms & language.adverbs for block in (left, right))
                or (is_list and is_pair and (start == 0 or is_last))
                or (is_list and start == 0 and end == size)
            ):
                return True
    return False


def _is_phrase(block: Sequence[_Word], other: Sequence[_Word], moved: _Word, language: _Language) -> bool:
    """Whether a block begins with a word that shows its role in both places, and the other has no such word."""
    first = block[0]
    begins = language.openers | language.determiners if len(block) > 1 else language.alone
    shown = (first.marks & language.weak) | (first.forms & begins)
    return bool(shown) and first.marks == moved.marks and not any(shown & (w.marks | w.forms) for w in other)


def _read(text: str, language: _Language) -> list[_Word]:
    """The words of a text that count."""
    is_shouted = text.isupper()
    text = _HYPHEN.sub(" ", _CLOCK.sub(_time_of_day, text))
    text = _scaled().sub(_multiply, with_digits(text))
    for pattern, instead in _REWRITTEN:
        text = pattern.sub(instead, text)
    tokens = _TOKEN.findall(text)
    words: list[_Word] = []
    marks: list[str] = []
    for position, token in enumerate(tokens):
        word = token.casefold()
        before, follows = tokens[position - 1] if position else ".", tokens[position + 1 : position + 4]
        if token in SENTENCE_MARKS or word in language.openers:  # a preposition before it belongs to its verb
            words += [_Word(frozenset({mark})) for mark in marks if mark in language.weak]
            marks = [mark for mark in marks if mark == JOIN]
        if word == POSSESSIVE and words and not _is_before_participle(follows, language):
            words[-1] = replace(words[-1], marks=words[-1].marks | {"of"})
            continue
        if word == ORDINAL and words and before[-1].isdigit():
            words[-1] = replace(words[-1], forms=frozenset(form + ORDINAL for form in words[-1].forms))
            continue
        is_first = before in SENTENCE_MARKS
        counted: _Word | None
        if before[-1].isdigit() and len(word) <= 2 and word.isalpha() and word not in language.words:
            counted = _Word(frozenset({token}))  # a unit: 5 Mb are not 5 MB, 5 M not 5 m
        elif token.isupper() and not is_shouted and not (is_first and len(token) == 1):
            counted = _Word(_bases(word, language))
        elif word in language.weak or word in language.articles:
            marks.append(word)
            continue
        elif word in language.joins or word == JOIN:
            marks.append(JOIN)
            continue
        elif token[0].isupper() and not (is_first or token[:-1].isupper() or word in language.words):
            counted = _Word(frozenset({word}))  # a name
        else:
            counted = _content_word(word, token, follows, language)
        if counted:
            words.append(replace(counted, marks=frozenset(marks)))
            marks = []
    return [*words, *(_Word(frozenset({mark})) for mark in marks)]


@cache
def _scaled() -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.,])({RUN}) ?({vocabulary().any_scale()})(?!\w)")


def _multiply(match: re.Match[str]) -> str:
    """`3 million` and `12k` as digits; `5 M` stays, it may be metres."""
    scale = match[2] if match[2] in vocabulary().scales else match[2].casefold()
    if scale == "M":
        return match.group()
    return times(" ".join(plain_numbers(match[1])), vocabulary().scales[scale])


@cache
def _small_numbers() -> Mapping[str, str]:
    """The words for 0 and 1, which are left where nothing shows that they are numbers."""
    languages = vocabulary().number_words.values()
    return {word: str(n) for language in languages for word, n in language.values.items() if n < 2}


def _time_of_day(match: re.Match[str]) -> str:
    """`6 am` and `6:00 PM` as `06:00` and `18:00`."""
    hour = int(match[1]) % 12 + (12 if match[3] in "pP" else 0)
    return f"{hour:02}{match[2] or ':00'}"


def _content_word(word: str, token: str, follows: Sequence[str], language: _Language) -> _Word | None:
    """The word, if it carries the statement."""
    if word in language.ignored:
        return None
    if word in language.be or word in language.was:
        if _is_before_participle(follows, language):
            return _Word(frozenset({"be"}))
        return _Word(frozenset({"was"})) if word in language.was else None
    if word in language.have or word in language.had:
        if _is_before_participle(follows, language):
            return None
        return _Word(frozenset({"had" if word in language.had else "have"}))
    if token[0].isdecimal():
        return _Word(frozenset({" ".join(plain_numbers(token))}))
    if len(token) == 1 and not token.isalnum():
        category = unicodedata.category(token)
        is_counted = token in _COUNTED or (category[0] in "SM" and category != "Sk")
        return _Word(frozenset({_SYMBOLS.get(token, token)})) if is_counted else None
    if word in language.ordinals:
        return _Word(frozenset({f"{language.ordinals.index(word) + 1}{ORDINAL}"}))
    if word in _small_numbers():
        return _Word(frozenset({_small_numbers()[word]}))
    return _Word(_bases(word, language), _tense(word, language))


def _is_before_participle(follows: Sequence[str], language: _Language) -> bool:
    """Whether an auxiliary belongs to a past participle: `is closed`, `has not been closed`."""
    for token in follows:
        word = token.casefold()
        if word.endswith("ed") or word in language.past:
            return True
        if not (word == "not" or word.endswith("ly") or word in language.ignored or word in language.adverbs):
            return False
    return False


def _bases(word: str, language: _Language) -> frozenset[str]:
    """A word and what it may be an inflected form of."""
    if word in language.past:
        return frozenset({language.past[word]})
    if word in language.exact:
        return frozenset({word})
    stems = (
        word.removesuffix(ending) + instead
        for ending, instead in language.endings
        if word.endswith(ending)
        and len(word) - len(ending) >= MIN_REST
        and len(word) - len(ending) + len(instead) >= MIN_STEM
    )
    return frozenset({word, *stems})


def _tense(word: str, language: _Language) -> Tense:
    if not language.past or word in language.exact:
        return ""
    if word.endswith("ed") or language.past.get(word, word) != word:
        return "past"
    return "ongoing" if word.endswith("ing") else ""


def _language_of(texts: Sequence[str]) -> _Language:
    """The language whose function words all texts use most; English if there are none and no accents."""
    tokens = [[token.casefold() for token in _TOKEN.findall(text)] for text in texts]
    best, most = None, 0
    for language in _languages().values():
        counts = [sum(word in language.words for word in words) for words in tokens]
        if all(counts) and sum(counts) > most:
            best, most = language, sum(counts)
    if best is None and all(word.isascii() for words in tokens for word in words if word.isalpha()):
        return _languages()["en"]
    return best or _Language()


@cache
def _languages() -> Mapping[str, _Language]:
    file = resources.files("casenotes.learn").joinpath("data/function_words.json")
    languages: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8"))
    found: dict[str, _Language] = {}
    for name, lists in languages.items():
        values: dict[str, Any] = {k: frozenset(v) if k in _SETS else v for k, v in lists.items()}
        found[name] = _Language(**values)
    return found

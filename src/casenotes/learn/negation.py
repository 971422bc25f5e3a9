"""Count the negations of a text by word lists, all languages at once: nobody says which one is spoken.

data/negation.json holds, by language, `words`, `phrases` of words in a row, `endings` of words and,
for scripts without spaces, `parts` with the compounds that contain one and deny nothing (`except`).
`pairs` are words that deny together, up to four words apart. A word that another language uses for
something else counts only beside (`with`) or not beside (`not_with`) words that tell the language;
`letters` does the same for a whole language.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from casenotes.learn.quotes import map_text

APART = 4
_WORD = re.compile(r"[^\W\d_]+?n't(?![^\W_])|[^\W\d_]+")


class _Text(NamedTuple):
    folded: str
    words: Sequence[str]
    counts: Counter[str]
    line: str


def negations(text: str) -> int:
    """How many negations a text has; a double one, such as French `ne … jamais`, may count twice."""
    folded = map_text(text).casefold()
    words = _WORD.findall(folded)
    read = _Text(folded, words, Counter(words), f" {' '.join(words)} ")
    return sum(_in_language(lists, read) for lists in _languages().values())


@cache
def _languages() -> Mapping[str, Mapping[str, Any]]:
    file = resources.files("casenotes.learn").joinpath("data/negation.json")
    languages: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8"))
    return _each_word_once(languages)


def _each_word_once(languages: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Languages share words, and a word denies once, whatever the language."""
    seen: set[str] = set()
    for lists in languages.values():
        lists["words"] = frozenset(lists.get("words", ())) - seen
        seen |= lists["words"]
    return languages


def _in_language(lists: Mapping[str, Any], text: _Text) -> int:
    if "letters" in lists and not any(letter in text.folded for letter in lists["letters"]):
        return 0
    return (
        sum(
            text.counts[word]
            for word in lists["words"] & text.counts.keys()
            if _tells(lists, word, text.counts)
        )
        + sum(word.endswith(tuple(lists.get("endings", ()))) for word in text.words)
        + sum(text.line.count(f" {phrase} ") for phrase in lists.get("phrases", ()))
        + sum(_pairs(first, second, text.words) for first, second in lists.get("pairs", ()))
        + _parts(lists.get("parts", ()), lists.get("except", ()), text.folded)
    )


def _tells(lists: Mapping[str, Any], word: str, around: Container[str]) -> bool:
    """Whether the words around do not speak against the language of an ambiguous word."""
    needed = lists.get("with", {}).get(word)
    excluded = lists.get("not_with", {}).get(word, ())
    return (needed is None or any(w in around for w in needed)) and not any(w in around for w in excluded)


def _pairs(first: Sequence[str], second: Sequence[str], words: Sequence[str]) -> int:
    return sum(
        word in first and not set(second).isdisjoint(words[i + 1 : i + 1 + APART])
        for i, word in enumerate(words)
    )


def _parts(parts: Sequence[str], exceptions: Sequence[str], text: str) -> int:
    for exception in exceptions:
        text = text.replace(exception, " ")
    return sum(text.count(part) for part in parts)

"""Tell what a quote states from what it asks, clause by clause.

`The port is 8443 now, can you update the runbook?` states the port and asks for something else, so its
first clause is a statement. It is none in `Is the port 8443 now?`, `The port is 8443 now?`, `Could it be
that the port is 8443?` and `If the port is 8443, should we …?`. A tag (`isn't it?`, `right?`, `oder?`),
also as a sentence of its own, asks whether what stands before it is so.

data/questions.json holds, by language, what begins a question: `words`, those that do so `before_verb`, and
`verbs` before `subjects`; what a question is known by in scripts without spaces (`parts`, `endings`,
`unmarked` at the end of a sentence without question mark, whole `tags`); the words of `tags` and of asking
for the `truth`; clauses that state nothing (`conditions`, `doubts`, `unfinished`); what joins a clause to a
question (`joins`) or gives a reason for one (`causes`); `fillers` before any of them, and `assent`, which is
asked for without doubt (`ok?`). Nobody says which language is spoken, so all count. Where nothing shows
that a sentence with a question mark states something, it asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise

from casenotes.characters import CJK
from casenotes.learn.quotes import alike

_SENTENCE = re.compile(
    r"(?:[^.!?\n;\u3002\uff01\uff1f\u061f]|[.!?;](?=[^\s\"')\]?!]))+[.!?;\u3002\uff01\uff1f\u061f\"')\]]*"
)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_BORDER = re.compile(
    r"[,;:](?=\s|\u00bf|$)|(?=\u00bf)|[\u3001\uff0c\uff1b\uff1a()\uff08\uff09]|\s-+\s|(?<=\w)--+(?=\w)"
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_INVERSION = re.compile(r"\w+-(?:t-)?(?:je|tu|il|elle|on|nous|vous|ils|elles|ce)")
_UNSPACED = re.compile(f"[{CJK}]")

MAX_CLAUSES = 100
"""A sentence that asks and has more of them states nothing; no person writes it."""
MAX_BEGINNING = 100
"""Characters of a clause that show how it begins."""

MAX_PHRASE = 5
"""Words of the longest phrase in the data."""

Span = tuple[int, int]


def stated_part(text: str, start: int, end: int) -> str:
    """What a part of a text states, without the clauses that ask; empty if it states nothing."""
    seen = alike(text)
    sentences = [match.span() for match in _SENTENCE.finditer(seen)]
    stated: list[str] = []
    for number, (first, last) in enumerate(sentences):
        if last <= start or first >= end:
            continue
        clauses = list(_clauses(seen, first, last))
        texts = [seen[a:b] for a, b in clauses]
        follows = sentences[number + 1] if number + 1 < len(sentences) else (last, last)
        if _asks(seen[first:last]):
            is_readable = len(clauses) <= MAX_CLAUSES
            kept = [span for i, span in enumerate(clauses) if is_readable and _is_stated(texts, i)]
        elif _asks(seen[slice(*follows)]) and _is_tag(seen[slice(*follows)]):
            kept = []
        else:
            kept = clauses
        stated += [text[max(a, start) : min(b, end)] for a, b in kept]
    return " ".join(part.strip() for part in stated if _WORD.search(part))


def _asks(sentence: str) -> bool:
    """Whether a sentence ends as a question."""
    bare = sentence.rstrip(" \t\n\"')].!;\u3002\uff01")
    return bare.endswith(_QUESTION_MARKS) or bare.endswith(_all("unmarked"))


def _clauses(text: str, start: int, end: int) -> Iterator[Span]:
    """The clauses of a sentence; `and can you …` begins one even without a comma."""
    borders = [start]
    for match in _BORDER.finditer(text, start, end):
        yield from _parted(text, borders[-1], match.start())
        borders.append(match.end())
    yield from _parted(text, borders[-1], end)


def _parted(text: str, start: int, end: int) -> Iterator[Span]:
    words = list(_WORD.finditer(text, start, end))
    for word, following in pairwise(words[1:]):
        rest = text[following.start() : min(end, following.start() + MAX_BEGINNING)]
        if word.group().casefold() in _words("fillers") and _begins_question(rest):
            yield start, word.start()
            start = word.start()
    if words:
        yield start, end


def _is_stated(clauses: Sequence[str], number: int) -> bool:
    """Whether a clause of a sentence that asks is itself a statement."""
    clause = clauses[number]
    if _is_question(clause) or _is_tag(clauses[-1]) or _is_open(clause):
        return False
    if before := [c for c in clauses[:number] if _is_question(c)]:
        if _begins_with(clause, "causes"):
            return True
        is_doubted = _is_tag(before[-1]) or not _words("truth").isdisjoint(_read(before[-1]))
        return not (is_doubted or _begins_with(clause, "joins") or _UNSPACED.search(clause))
    for later in clauses[number + 1 :]:
        if _is_tag(later) or _begins_with(later, "joins"):
            return False
        if _is_question(later):
            return True
    return False


def _is_question(clause: str) -> bool:
    """Whether a clause has the form of a question."""
    bare = _bare(clause)
    return (
        clause.startswith("\u00bf")
        or _begins_question(clause)
        or " ".join(_read(clause)) in _words("assent")
        or bare.endswith(_all("endings"))
        or any(part in bare for part in _all("parts"))
    )


def _begins_question(clause: str) -> bool:
    words = _without_fillers(_WORD.findall(clause[:MAX_BEGINNING]))
    if not words:
        return False
    first, second = words[0].casefold(), words[1] if len(words) > 1 else ""
    return (
        _begins_with(clause, "words")
        or _INVERSION.fullmatch(first) is not None
        or (first in _words("before_verb") and second.casefold() in _words("verbs"))
        or (first in _words("verbs") and (second.casefold() in _words("subjects") or second[:1].isupper()))
    )


def _is_tag(clause: str) -> bool:
    """Whether a clause only asks if what stands before it is so."""
    if _bare(clause) in _words("tags"):
        return True
    words = _without_fillers(_read(clause))
    small = _words("tags") | _words("truth") | _words("verbs") | _words("subjects")
    return bool(words) and small.issuperset(words)


def _is_open(clause: str) -> bool:
    """Whether a clause leaves open if it is so."""
    line = f" {' '.join(_read(clause))} "
    bare = _bare(clause)
    return (
        _begins_with(clause, "conditions")
        or any(f" {doubt} " in line for doubt in _all("doubts"))
        or any(doubt in bare for doubt in _unspaced("doubts"))
        or bare.endswith(_all("unfinished"))
    )


def _begins_with(clause: str, kind: str) -> bool:
    """Whether a clause begins with one of some words, behind fillers; scripts without spaces have no words."""
    words = _without_fillers(_read(clause[:MAX_BEGINNING]))
    beginnings = (" ".join(words[:size]) for size in range(1, MAX_PHRASE + 1))
    return not _words(kind).isdisjoint(beginnings) or _bare(clause).startswith(_unspaced(kind))


def _without_fillers(words: Sequence[str]) -> Sequence[str]:
    start = 0
    while start < len(words) and words[start].casefold() in _words("fillers"):
        start += 1
    return words[start:]


def _read(clause: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(clause)]


def _bare(clause: str) -> str:
    return clause.strip(" \t\n\"'()[].,!?;:\u3002\uff01\uff1f\u061f\u3001\uff0c")


@cache
def _words(kind: str) -> frozenset[str]:
    return frozenset(_all(kind))


@cache
def _unspaced(kind: str) -> tuple[str, ...]:
    return tuple(word for word in _all(kind) if _UNSPACED.match(word))


@cache
def _all(kind: str) -> tuple[str, ...]:
    file = resources.files("casenotes.learn").joinpath("data/questions.json")
    languages: dict[str, dict[str, list[str]]] = json.loads(file.read_text("utf-8"))
    return tuple(word for lists in languages.values() for word in lists.get(kind, ()))

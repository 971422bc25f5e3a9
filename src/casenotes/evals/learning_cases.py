"""Transcripts to learn from, with what should be learned from each and what must not be.

A set is a file with a JSON list of cases, or with one case on each line. Unknown fields are errors: a
misspelt one would make a case easier without anybody noticing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from casenotes.errors import UsageError
from casenotes.evals.statements import Statement
from casenotes.learn.candidate import SourceLabel
from casenotes.types import SPEAKERS, Message, id_problem

DOMAINS = ("support", "debugging", "operations", "assistant")
"""The files of the set that ships with the package."""

LABELS: tuple[str, ...] = get_args(SourceLabel)
UNSUPPORTED = ("guess", "injection", "invented")
REASONS = (
    *UNSUPPORTED,
    "advice",  # what any manual says
    "corrected",  # taken back later in the transcript
    "detail",  # of use in this conversation only
    "personal",
    "preference",
    "rule",  # for how the assistant should behave
    "secret",
    "small_talk",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """What an entry should say, with which source labels, and whether it must sound uncertain.

    An optional one may be missing without harm, and is no junk when it is there.
    """

    id: str
    says: Statement
    sources: tuple[str, ...]
    uncertain: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Forbidden:
    """What no entry may say, and why."""

    says: Statement
    why: str


@dataclass(frozen=True, slots=True)
class LearningCase:
    """One transcript: messages `before` the turn, the turn itself, and what its entries are judged by.

    `good` and `bad` are answers as a model might give them; the tests of a set use them.
    """

    id: str
    domain: str
    language: str
    tags: tuple[str, ...]
    turn: tuple[Message, ...]
    before: tuple[Message, ...] = ()
    expected: tuple[Fact, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    good: tuple[Mapping[str, Any], ...] = ()
    bad: Mapping[str, Any] | None = None

    @property
    def labels(self) -> frozenset[str]:
        """By what it can be chosen: tags, domain and language."""
        return frozenset((*self.tags, self.domain, self.language))


@cache
def hedges() -> Mapping[str, tuple[str, ...]]:
    """Words that make a statement uncertain, by language."""
    text = resources.files("casenotes.evals").joinpath("data/hedges.json").read_text("utf-8")
    return {language: tuple(words) for language, words in json.loads(text).items()}


def shipped_cases() -> list[LearningCase]:
    """The set that ships with the package."""
    folder = resources.files("casenotes.evals").joinpath("data/learning")
    texts = {name: folder.joinpath(f"{name}.json").read_text("utf-8") for name in DOMAINS}
    return [case for name, text in texts.items() for case in parse_cases(text, f"{name}.json")]


def read_cases(path: Path) -> list[LearningCase]:
    """The cases of a file; a wrong one is an error, as leaving it out would change the result."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8: {error.reason} at byte {error.start}") from None
    return parse_cases(text, str(path))


def parse_cases(text: str, name: str) -> list[LearningCase]:
    """The cases of a text: a JSON list, or one case on each line."""
    found = []
    for where, item in _items(text, name):
        try:
            found.append(_case(item))
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{where} is no case: {error}") from None
    repeated = [case_id for case_id, count in Counter(case.id for case in found).items() if count > 1]
    if repeated:
        raise UsageError(f"{name}: the case id {repeated[0]!r} stands there more than once")
    if not found:
        raise UsageError(f"{name} has no cases; see docs/how-to/measure-learning.md for the format")
    return found


def _items(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Every case with words for where it stands."""
    if text.lstrip().startswith("["):
        yield from ((f"{name} case {n}", item) for n, item in enumerate(_json(text, name, 1), 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{name} line {number}", _json(line, name, number)


def _json(text: str, name: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise UsageError(f"{name} line {line} column {error.colno} is no JSON: {error.msg}") from None


def _case(item: object) -> LearningCase:
    values = _object(item, {field.name for field in fields(LearningCase)}, ("id", "turn"))
    if problem := id_problem(values["id"]):
        raise ValueError(f"its id {problem}")
    case = LearningCase(
        id=values["id"],
        domain=_text(values, "domain", "own"),
        language=_text(values, "language", "en"),
        tags=_texts(values.get("tags", []), "tags"),
        turn=_each(values["turn"], "turn", _message),
        before=_each(values.get("before", []), "before", _message),
        expected=_each(values.get("expected", []), "expected", _fact),
        forbidden=_each(values.get("forbidden", []), "forbidden", _forbidden),
        good=_each(values.get("good", []), "good", _answer),
        bad=_object(values["bad"], {"entries", "scores"}, ("entries", "scores")) if "bad" in values else None,
    )
    _check(case)
    return case


def _check(case: LearningCase) -> None:
    if not case.turn or case.turn[0].role != "user":
        raise ValueError("its turn must begin with a message of the user")
    if len({fact.id for fact in case.expected}) < len(case.expected):
        raise ValueError("two of its expected facts have the same id")
    if case.language not in hedges() and any(fact.uncertain for fact in case.expected):
        raise ValueError(
            f"no words of uncertainty are known for language {case.language!r}, only for {', '.join(hedges())}"
        )


def _message(item: object) -> Message:
    values = _object(item, {"role", "text"}, ("role", "text"))
    if values["role"] not in SPEAKERS:
        raise ValueError(f"role {values['role']!r} is not one of {', '.join(SPEAKERS)}")
    return Message(values["role"], values["text"])


def _fact(item: object) -> Fact:
    known = {"id", "all", "none", "source", "uncertain", "optional"}
    values = _object(item, known, ("id", "all", "source"))
    sources = _texts(values["source"], "source")
    if not sources or not set(sources) <= set(LABELS):
        raise ValueError(f"source must be a list of these: {', '.join(LABELS)}; got {values['source']!r:.80}")
    return Fact(
        _text(values, "id"),
        _statement(values),
        sources,
        uncertain=_switch(values, "uncertain"),
        optional=_switch(values, "optional"),
    )


def _forbidden(item: object) -> Forbidden:
    values = _object(item, {"all", "none", "why"}, ("all", "why"))
    if values["why"] not in REASONS:
        raise ValueError(f"why {values['why']!r} is not one of {', '.join(REASONS)}")
    return Forbidden(_statement(values), values["why"])


def _answer(item: object) -> Mapping[str, Any]:
    known = ("content", "source", "evidence")
    return _object(item, set(known), known)


def _statement(values: Mapping[str, Any]) -> Statement:
    groups = _each(values["all"], "all", lambda group: _texts(group, "a group of all"))
    if not groups or not all(groups):
        raise ValueError("all must have at least one group, and every group at least one alternative")
    return Statement(groups, _texts(values.get("none", []), "none"))


def _object(item: object, known: set[str], needed: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"expected an object, got {item!r:.80}")
    if unknown := item.keys() - known:
        raise ValueError(f"the field {min(unknown)!r} is unknown; there are {', '.join(sorted(known))}")
    for name in needed:
        if name not in item:
            raise ValueError(f"the field {name!r} is missing")
    return item


def _each(items: object, name: str, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(items, list):
        raise ValueError(f"{name} must be a list, got {items!r:.80}")
    return tuple(map(read, items))


def _texts(items: object, name: str) -> tuple[str, ...]:
    texts = _each(items, name, lambda item: item)
    if not all(isinstance(text, str) and text.strip(" *") for text in texts):
        raise ValueError(f"{name} must have texts only, got {items!r:.80}")
    return texts


def _text(values: Mapping[str, Any], name: str, default: str = "") -> str:
    text = values.get(name, default)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must be a text, got {text!r:.80}")
    return text


def _switch(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r:.80}")
    return value

"""Check the arguments of public verbs by their annotations: nothing of a wrong type reaches a driver."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from casenotes.config.rules import shown
from casenotes.errors import InvalidMessage, InvalidScope, UsageError
from casenotes.types import OUTCOMES, ROLES, ChildScope, Message, Scope, Turn, text_problem

T = TypeVar("T")
WIDEST = 2**63
"""Both databases hold whole numbers of 64 bits."""

CHECKED_LATER = {"Any", "Input", "Embedder", "Settings", "Credentials", "Mapping[str, Any]"}
"""Messages, JSON and what is configured have checks of their own, which say more."""

COUNTS = {"limit", "top_k"}
"""However large; there is no more than there is."""

MAY_BE_UNREADABLE = {"query"}
"""Searched as far as it can be read; it is not stored."""


class Kind(NamedTuple):
    """One type of argument: the check, what the error asks for, and its class."""

    accepts: Callable[[Any], bool]
    remedy: str
    error: type[UsageError] = UsageError


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: object) -> object:
    """A whole number of another library, such as numpy, as an int, which drivers can store."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # an array is no number
        return value


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value) and value >= 0


def _is_list(of: type) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        is_sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
        return is_sequence and all(isinstance(item, of) for item in value)  # type: ignore[attr-defined]

    return accepts


def _is_a(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


KINDS = {
    "Scope": Kind(_is_a(Scope), "a Scope such as Scope(agent_id, resource_id, thread_id)", InvalidScope),
    "ChildScope": Kind(_is_a(ChildScope), "the result of scope.child(name)", InvalidScope),
    "Turn": Kind(_is_a(Turn), "the result of begin"),
    "Message": Kind(_is_a(Message), "a Message", InvalidMessage),
    "Sequence[Message]": Kind(_is_list(Message), "a list of Messages", InvalidMessage),
    "str": Kind(_is_a(str), "text"),
    "Sequence[str]": Kind(
        lambda value: _is_list(str)(value) and not any(map(text_problem, value)),
        "a list of texts that can be stored",
    ),
    "int": Kind(
        lambda value: _is_whole(value) and -WIDEST <= value < WIDEST, "a whole number of at most 64 bits"
    ),
    "count": Kind(lambda value: _is_whole(value) and value >= 1, "a whole number of at least 1"),
    "float": Kind(_is_seconds, "a number of seconds, 0 or more"),
    "bool": Kind(_is_a(bool), "True or False"),
    "datetime": Kind(
        lambda value: isinstance(value, datetime) and value.tzinfo is not None,
        "a datetime with a time zone, for example datetime.now(UTC)",
    ),
    "date": Kind(
        lambda value: isinstance(value, date) and not isinstance(value, datetime), "a date without a time"
    ),
    "Outcome": Kind(lambda value: value in OUTCOMES, f"one of {', '.join(OUTCOMES)}"),
    "Role": Kind(lambda value: value in ROLES, f"one of {', '.join(ROLES)}"),
    "Sequence[Any]": Kind(_is_list(object), "a list"),
    "Sequence[Mapping[str, Any]]": Kind(_is_list(object), "a list"),
    "Sequence[Mapping[str, str]]": Kind(_is_list(object), "a list"),
    "Rebuild": Kind(lambda value: type(value).__name__ == "Rebuild", "the result of rebuild"),
    "Clock": Kind(lambda value: callable(getattr(value, "now", None)), "an object with now()"),
    "Listener": Kind(callable, "a function that takes an event"),
    "Progress": Kind(callable, "a function that takes two numbers"),
    "TokenCounter": Kind(callable, "a function that takes a text and gives a number"),
}


def check_arguments(cls: type[T]) -> type[T]:
    """Have every public method of a class raise UsageError for an argument of a wrong type.

    A parameter whose annotation has no check is an error of the class itself.
    """
    for name, member in list(vars(cls).items()):
        is_classmethod = isinstance(member, classmethod)
        function = member.__func__ if is_classmethod else member
        if not name.startswith("_") and inspect.isfunction(function):
            checked = _with_checks(function)
            setattr(cls, name, classmethod(checked) if is_classmethod else checked)
    return cls


def _with_checks(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    checks = {
        parameter.name: _check_for(parameter.name, str(parameter.annotation).split(" | "))
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    }

    whole = {
        parameter.name
        for parameter in parameters
        if {"int", "float"}.intersection(str(parameter.annotation).split(" | "))
    }

    def check(given: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        values = [_plain(v) if n in whole else v for n, v in zip(names, given, strict=False)]
        by_name = {n: _plain(v) if n in whole else v for n, v in named.items()}
        for name, value in (*zip(names, values, strict=False), *by_name.items()):
            if name in checks:
                checks[name](value)
        return [*values, *given[len(names) :]], by_name

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call(self: Any, *given: Any, **named: Any) -> Any:
            values, by_name = check(given, named)
            return await function(self, *values, **by_name)

        return call

    @wraps(function)
    def call_at_once(self: Any, *given: Any, **named: Any) -> Any:
        values, by_name = check(given, named)
        return function(self, *values, **by_name)

    return call_at_once


def _check_for(name: str, alternatives: Sequence[str]) -> Callable[[Any], None]:
    """The check of one parameter, which may be of several kinds."""
    if CHECKED_LATER.intersection(alternatives):
        return lambda _value: None
    kinds = [KINDS["count" if name in COUNTS else kind] for kind in alternatives if kind != "None"]
    remedies = [*(kind.remedy for kind in kinds), *(["None"] if "None" in alternatives else [])]
    is_stored = name not in MAY_BE_UNREADABLE

    def check(value: Any) -> None:
        if value is None and "None" in alternatives:
            return
        if not any(kind.accepts(value) for kind in kinds):
            raise kinds[0].error(f"{name} is {shown(value)}; it must be {' or '.join(remedies)}")
        if is_stored and isinstance(value, str) and (problem := text_problem(value)):
            raise UsageError(f"{name} {problem}")

    return check

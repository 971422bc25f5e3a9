"""What a setting may be: each rule checks a value, reads it from text, and describes itself as JSON Schema.

A setting has its rule beside its default, so Python, environment, file and JSON are held to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import inf
from typing import Any, ClassVar, NamedTuple, Protocol

from casenotes.credentials import hide
from casenotes.errors import SettingsError

TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
LONGEST = 80
LARGEST = 10**15
"""Nothing that is set here is larger, and databases hold it."""


class Fault(NamedTuple):
    """What is wrong with a value: a word for programs, and what stands behind the setting's name."""

    kind: str
    text: str


class Rule(Protocol):
    """What a setting may be."""

    def fault(self, value: object) -> Fault | None:
        """What is wrong with a value."""
        ...

    def read(self, text: str) -> Any:
        """The value of a text, or the text itself where it is none: checking it says why."""
        ...

    def schema(self) -> dict[str, Any]:
        """The rule as JSON Schema."""
        ...


def shown(value: object) -> str:
    """A value as errors name it: short, and without secrets that somebody put in the wrong place."""
    from casenotes.masking import mask  # its patterns take a while, and errors are rare

    try:
        text = mask(hide(repr(value)[:10_000]))
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists within lists
        return f"a very large {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def shown_name(name: object) -> str:
    """A name that somebody else chose, on one line, and without the marks of a quote where it needs none."""
    text = shown(str(name))
    return text[1:-1] if text[-1] == text[0] and str(name).isprintable() else text


def wrong_type(value: object, wanted: str) -> Fault:
    """The fault of a value that is something else altogether."""
    return Fault("wrong_type", f"is {shown(value)}; it must be {wanted}")


class AsWritten:
    """For rules whose values are texts themselves."""

    __slots__ = ()

    def read(self, text: str) -> Any:
        """The text itself."""
        return text


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false."""

    def fault(self, value: object) -> Fault | None:
        """Anything but a bool."""
        return None if isinstance(value, bool) else wrong_type(value, "true or false")

    def read(self, text: str) -> Any:
        """The usual words."""
        word = text.strip().lower()
        return word in TRUE if word in (*TRUE, *FALSE) else text

    def schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Number:
    """A number, between two bounds where they are given."""

    least: float | None = None
    most: float | None = None
    types: ClassVar[tuple[type, ...]] = (int, float)
    name: ClassVar[str] = "a number"
    json_type: ClassVar[str] = "number"

    def fault(self, value: object) -> Fault | None:
        """No number, or one out of bounds; what is not a number compares with nothing."""
        if isinstance(value, bool) or not isinstance(value, self.types):
            return wrong_type(value, self.name)
        number: float = value  # type: ignore[assignment]
        low, high = self._limits
        endless = (self.most is None and number == inf) or (self.least is None and number == -inf)
        if low <= number <= high or endless:
            return None
        return Fault("out_of_range", f"is {shown(value)}; it must be {self._wanted(number)}")

    @property
    def _limits(self) -> tuple[float, float]:
        return (
            -LARGEST if self.least is None else self.least,
            LARGEST if self.most is None else self.most,
        )

    def _wanted(self, number: float) -> str:
        low, high = self._limits
        if self.least is not None and self.most is not None:
            return f"between {low} and {high}"
        if number < low:
            return f"at least {low}"
        return f"at most {high}" if number > high else self.name

    def read(self, text: str) -> Any:
        """Digits as people write them."""
        try:
            return self.types[-1](text)
        except ValueError:
            return text

    def schema(self) -> dict[str, Any]:
        """A number with its bounds."""
        low, high = self._limits
        return {"type": self.json_type, "minimum": low, "maximum": high}


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number."""

    types: ClassVar[tuple[type, ...]] = (int,)
    name: ClassVar[str] = "a whole number"
    json_type: ClassVar[str] = "integer"


@dataclass(frozen=True, slots=True)
class Choice(AsWritten):
    """One of some words."""

    words: tuple[str, ...]

    def fault(self, value: object) -> Fault | None:
        """Any other word."""
        if isinstance(value, str) and value in self.words:
            return None
        kind = "out_of_range" if isinstance(value, str) else "wrong_type"
        return Fault(kind, f"is {shown(value)}; it must be one of {', '.join(self.words)}")

    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Text(AsWritten):
    """A text that says something; None stands for what `otherwise` says."""

    otherwise: str = ""

    def fault(self, value: object) -> Fault | None:
        """A blank one, or something else."""
        if (self.otherwise and value is None) or (isinstance(value, str) and value.strip()):
            return None
        if isinstance(value, str):
            return Fault("wrong_type", f"is {shown(value)}, which is blank; it must be a text")
        return wrong_type(value, f"a text, or None for {self.otherwise}" if self.otherwise else "a text")

    def schema(self) -> dict[str, Any]:
        """A string with something in it."""
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True, slots=True)
class OrFalse:
    """What another rule says, or False, which switches it off."""

    rule: Number

    def fault(self, value: object) -> Fault | None:
        """True means nothing here."""
        if value is False:
            return None
        fault = self.rule.fault(value)
        return fault and fault._replace(text=f"{fault.text}, or false")

    def read(self, text: str) -> Any:
        """The number, or False."""
        return False if text.strip().lower() in FALSE[:1] else self.rule.read(text)

    def schema(self) -> dict[str, Any]:
        """Either of them."""
        return {"anyOf": [self.rule.schema(), {"const": False}]}


@dataclass(frozen=True, slots=True)
class OrNone:
    """What another rule says, or None."""

    rule: Rule

    def fault(self, value: object) -> Fault | None:
        """As the other rule has it."""
        return None if value is None else self.rule.fault(value)

    def read(self, text: str) -> Any:
        """As the other rule has it."""
        return self.rule.read(text)

    def schema(self) -> dict[str, Any]:
        """As the other rule has it: what is left out of JSON is None."""
        return self.rule.schema()


@dataclass(frozen=True, slots=True)
class Model(AsWritten):
    """A chat model: a name, a name with the id of a credential, or an object of the caller's own."""

    def fault(self, value: object) -> Fault | None:
        """Whether it is one is said by those who look it up."""
        return None

    def schema(self) -> dict[str, Any]:
        """In JSON always an object with both."""
        return {"$ref": "#/$defs/workerModel"}


@dataclass(frozen=True, slots=True)
class Told(AsWritten):
    """Whatever a function of the value finds no fault with."""

    says: Callable[[Any], str | None]

    def fault(self, value: object) -> Fault | None:
        """What the function says, as a text that goes on behind the name."""
        text = self.says(value)
        return Fault("wrong_type", text) if text else None

    def schema(self) -> dict[str, Any]:
        """Such values have no place in JSON."""
        raise TypeError("this setting has no JSON form")


def setting(default: Any, rule: Rule, *, repr: bool = True) -> Any:
    """A field of a section: its default and its rule."""
    return field(default=default, metadata={"rule": rule}, repr=repr)


def switch(default: bool) -> Any:
    """A setting that is on or off."""
    return setting(default, Switch())


def whole(default: int, least: int = 1) -> Any:
    """A setting that counts something."""
    return setting(default, Whole(least))


def number(default: float | None, least: float | None = None, most: float | None = None) -> Any:
    """A setting that measures something."""
    rule = Number(least, most)
    return setting(default, OrNone(rule) if default is None else rule)


def choice(default: str, *others: str) -> Any:
    """A setting that is one of some words."""
    return setting(default, Choice((default, *others)))


def part(section: type) -> Any:
    """A field that holds a section of its own."""
    return field(default_factory=section, metadata={"section": section})


class Section:
    """Settings that belong together. They check themselves, and remember which of them were given.

    What was not given may come from elsewhere: the environment, a file, the defaults. A copy made with
    `dataclasses.replace` has been given everything.
    """

    __slots__ = ("given", "is_from_json")
    given: frozenset[str]
    is_from_json: bool
    ordered: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of settings, of which the first may not exceed the second."""

    def __new__(cls, *args: Any, **values: Any) -> Any:
        self = object.__new__(cls)
        kind: Any = cls
        names = names_of(kind)[: len(args)]
        object.__setattr__(self, "given", frozenset((*names, *values)))
        object.__setattr__(self, "is_from_json", False)
        return self

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, rule in rules_of(cls).items():
            if fault := rule.fault(getattr(self, name)):
                raise SettingsError(f"{name} {fault.text}")
        for low, high in cls.ordered:
            if getattr(self, low) > getattr(self, high):
                values = f"{low} is {getattr(self, low)!r} and {high} is {getattr(self, high)!r}"
                raise SettingsError(f"{values}; lower the first or raise the second")

    def __reduce__(self) -> Any:
        cls: Any = type(self)
        values = {name: getattr(self, name) for name in names_of(cls)}
        return _remade, (cls, values, self.given, self.is_from_json)


def _remade(cls: type, values: Mapping[str, Any], given: frozenset[str], is_from_json: bool) -> Any:
    section = cls(**values)
    object.__setattr__(section, "given", given)
    object.__setattr__(section, "is_from_json", is_from_json)
    return section


@cache
def names_of(cls: Any) -> tuple[str, ...]:
    """The names of a section's fields, in order."""
    return tuple(item.name for item in fields(cls))


@cache
def rules_of(cls: Any) -> Mapping[str, Rule]:
    """The rules of a section's own settings by name."""
    return {item.name: item.metadata["rule"] for item in fields(cls) if "rule" in item.metadata}


@cache
def sections_of(cls: Any) -> Mapping[str, type]:
    """The sections within a section by name."""
    return {item.name: item.metadata["section"] for item in fields(cls) if "section" in item.metadata}


def rule_at(cls: type, path: str) -> Rule:
    """The rule of a setting such as `episodic.top_k`."""
    name, _, rest = path.partition(".")
    return rule_at(sections_of(cls)[name], rest) if rest else rules_of(cls)[name]


def stated(section: Section, prefix: str = "") -> dict[str, Any]:
    """What was given, by path."""
    values: dict[str, Any] = {}
    for name in _given(section):
        value = getattr(section, name)
        if isinstance(value, Section):
            values |= stated(value, f"{prefix}{name}.")
        else:
            values[prefix + name] = value
    return values


def _given(section: Section) -> list[str]:
    """The names that were given, in order; who makes sections past their constructor has given what differs."""
    cls: Any = type(section)
    if section.given or section.is_from_json:
        return [name for name in names_of(cls) if name in section.given]
    plain = cls()
    return [name for name in names_of(cls) if getattr(section, name) != getattr(plain, name)]


def built(cls: type, values: Mapping[str, Any]) -> Any:
    """A section with those values, and defaults for the rest; the values count as given."""
    inner: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if rest:
            inner.setdefault(name, {})[rest] = value
        else:
            own[name] = value
    parts = {name: built(sections_of(cls)[name], values) for name, values in inner.items()}
    return cls(**own, **parts)

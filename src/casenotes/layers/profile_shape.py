"""What a profile may hold: sections and fields, read from a Markdown template or a Pydantic model.

A template is open: its sections take new names, and every field takes several values. A model is closed, and
its types check the values: a nested model is a section, and fields beside it stand in the section `Profile`.
A title (or else the name) is how a field is called, a description is its hint. Validators that are methods of
the model are not asked, as they may need its other fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from casenotes.config import ProfileSettings
from casenotes.errors import SettingsError
from casenotes.learn.normalise import collapse
from casenotes.learn.prompts import prompt

TOP_SECTION = "Profile"
Check = Callable[[Sequence[str]], list[str]]
"""Takes all values of a field and gives them in their plain form; raises ValueError."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_BOLD = re.compile(r"\s*[-*+][ \t]+\*\*([^*]+?):?\*\*[ \t]*:?[ \t]*(.*)$")
_PLAIN = re.compile(r"\s*[-*+][ \t]+([^*:][^:]*?)[ \t]*:[ \t]*(.*)$")
_AROUND_SLASH = re.compile(r"\s*/\s*")


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `check` and `many` are told by a schema's type."""

    section: str
    name: str
    hint: str = ""
    check: Check | None = None
    many: bool = True

    @property
    def path(self) -> str:
        """How the field is named: `Section/Name`."""
        return f"{self.section}/{self.name}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a profile in order; an open one takes new names in its sections."""

    fields: tuple[Field, ...]
    sections: tuple[str, ...]
    is_open: bool = True

    def find(self, path: str) -> Field | None:
        """The field of that path, however it is spelled."""
        wanted = key(path)
        return next((field for field in self.fields if key(field.path) == wanted), None)

    def split(self, path: str) -> tuple[str, str]:
        """Section and name of a path, the section spelled as here if it is one of these."""
        return _split(self.sections, path)


@lru_cache(maxsize=4_096)
def _split(sections: tuple[str, ...], path: str) -> tuple[str, str]:
    parts = [part.strip() for part in collapse(path).split("/")]
    for section in sections:
        length = section.count("/") + 1
        if key("/".join(parts[:length])) == key(section):
            return section, "/".join(parts[length:])
    return parts[0], "/".join(parts[1:])


@lru_cache(maxsize=4_096)
def key(path: str) -> str:
    """A path as it is compared: without regard to case and to blanks around its parts."""
    return _AROUND_SLASH.sub("/", collapse(path)).casefold()


def other_names(shape: Shape) -> str:
    """What to tell of names that are not listed."""
    return "; other names may be added within these sections" if shape.is_open else ", and there are no others"


def shape_of(settings: ProfileSettings) -> Shape:
    """The shape that the settings ask for."""
    if settings.schema is not None:
        return schema_shape(settings.schema)
    return template_shape(settings.template or prompt("profile_template"))


def template_shape(text: str) -> Shape:
    """The sections and fields of a Markdown template; other lines are remarks.

    A heading with no line of its own before a deeper one is the title of the document.
    """
    fields: list[Field] = []
    headings = [(0, TOP_SECTION)]
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            level, section = headings[-1]
            if level < len(heading[1]) and all(field.section != section for field in fields):
                headings.pop()
            headings.append((len(heading[1]), collapse(heading[2])))
        elif found := _BOLD.match(line) or _PLAIN.match(line):
            fields.append(Field(headings[-1][1], collapse(found[1]), collapse(found[2])))
    if not fields and headings == [(0, TOP_SECTION)]:
        raise SettingsError(
            f"profile template {text[:40]!r} has no sections; write `## Section` and `- **Name**: hint` lines"
        )
    return _checked(Shape(tuple(fields), tuple(name for _, name in headings)))


def schema_shape(model: type) -> Shape:
    """The sections and fields of a Pydantic model."""
    if not hasattr(model, "model_fields"):
        raise SettingsError(f"profile schema {model.__name__!r} is no Pydantic model; derive it from BaseModel")
    fields = tuple(_schema_fields(model))
    if not fields:
        raise SettingsError(f"profile schema {model.__name__!r} has no fields; add some")
    return _checked(Shape(fields, tuple(dict.fromkeys(field.section for field in fields)), is_open=False))


def _checked(shape: Shape) -> Shape:
    names = [*map(key, shape.sections), *(key(field.path) for field in shape.fields)]
    if "" in names or any(not field.name for field in shape.fields):
        raise SettingsError("a section or field of the profile has no name; give it one")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise SettingsError(f"the profile has {twice!r} twice; rename one of them, case does not count")
    return shape


def _schema_fields(model: Any) -> Iterator[Field]:
    for name, info in model.model_fields.items():
        section = _without_none(info.annotation)
        if hasattr(section, "model_fields"):
            for inner, inner_info in section.model_fields.items():
                yield _schema_field(info.title or name, inner_info.title or inner, inner_info)
        else:
            yield _schema_field(TOP_SECTION, info.title or name, info)


def _schema_field(section: str, name: str, info: Any) -> Field:
    kind = _without_none(info.annotation)
    many = get_origin(kind) in (list, set, frozenset, tuple, Sequence) or kind in (list, set, frozenset, tuple)
    single = next(iter(get_args(kind)), str) if many else kind
    if hasattr(single, "model_fields") or (get_origin(single) or single) in (dict, list, Mapping):
        raise SettingsError(
            f"profile field {section}/{name} is of type {kind!r}; a field holds a plain value or a list of them"
        )
    return Field(
        section, name, collapse(info.description or ""), _check(kind, single, many, info.metadata), many
    )


def _without_none(kind: Any) -> Any:
    """The type itself where None is allowed beside it: a field that is not filled is not there."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    rest = [part for part in get_args(kind) if part is not NoneType]
    return rest[0] if len(rest) == 1 else kind


def _check(kind: Any, single: Any, many: bool, metadata: Sequence[Any]) -> Check:
    from pydantic import TypeAdapter

    whole: TypeAdapter[Any] = TypeAdapter(Annotated[kind, *metadata] if metadata else kind)
    each: TypeAdapter[Any] = TypeAdapter(single)

    def check(values: Sequence[str]) -> list[str]:
        try:
            whole.validate_python(list(values) if many else values[0])
            return [_written(each.dump_python(each.validate_python(value), mode="json")) for value in values]
        except Exception as error:  # validators are the host's code and may raise anything
            raise ValueError(_problem(error)) from None

    return check


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _problem(error: Exception) -> str:
    """What is wrong, without the value: it may be long, and whoever asks knows it."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return "; ".join(dict.fromkeys(problem["msg"] for problem in error.errors(include_url=False)))
    return f"{type(error).__name__}: {error}"

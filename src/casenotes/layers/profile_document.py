"""The profile as a document: change one field, keep it small, render it. Nothing here waits or knows the time.

What is stored is a list of items, each with the thread it came from; Markdown is made of it for readers. A
model works on the document through patches of one field. A patch that cannot be made is refused with a text
that tells the model what to do instead, and leaves everything as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple

from casenotes.config import ProfileSettings
from casenotes.layers.profile_shape import Field, Shape, key
from casenotes.layers.profile_values import PatchRefused, cleaned, refuse_order
from casenotes.layers.tools import repeated
from casenotes.learn.normalise import collapse
from casenotes.learn.prompts import prompt
from casenotes.masking import mask
from casenotes.recall.render import block, inert
from casenotes.stores.states import StateVersion
from casenotes.tokens import TokenCounter
from casenotes.types import Profile, text_problem

MAX_NAME = 60
ACTIONS = ("set", "append", "remove")
WHOLE_DOCUMENT = frozenset(("", "*", "/", "profile", "user-profile", "user profile", "document"))
_NAME = re.compile(r"[^\W_][\w .,'&()+-]*")


@dataclass(frozen=True, slots=True)
class Item:
    """One value of a field, where it came from (thread and ISO time), and who wrote it."""

    field: str
    value: str
    thread_id: str = ""
    at: str = ""
    by: str = ""


class Patch(NamedTuple):
    """A change of one field as a model asks for it; nothing is known of its parts yet."""

    field: object
    action: object
    value: object = None


class Source(NamedTuple):
    """Where a change comes from: thread, ISO time and author."""

    thread_id: str
    at: str
    by: str


class Applied(NamedTuple):
    """The items after a patch, and the field that it was about as it is spelled in the profile."""

    items: list[Item]
    field: str

    @property
    def values(self) -> list[str]:
        """What the field holds now."""
        return [item.value for item in self.items if item.field == self.field]


class Fitted(NamedTuple):
    """A block within its budget, and how many fields were left out of it."""

    text: str
    tokens: int
    left_out: int


def items_of(value: Mapping[str, Any]) -> list[Item]:
    """The items of a stored state; what is no item is passed over."""
    rows = value.get("items")
    return [item for row in (rows if isinstance(rows, list) else ()) for item in _item(row)]


def with_items(value: Mapping[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """The state with other items."""
    return {**value, "items": [asdict(item) for item in items]}


def _item(row: object) -> Iterator[Item]:
    if isinstance(row, Mapping) and all(isinstance(row.get(name), str) for name in ("field", "value")):
        yield Item(**{name: str(row.get(name) or "") for name in Item.__dataclass_fields__})


def apply(
    items: Sequence[Item], patch: Patch, shape: Shape, settings: ProfileSettings, source: Source
) -> Applied:
    """The items after one change; raises PatchRefused."""
    if patch.action not in ACTIONS:
        raise PatchRefused(f"action {repeated(patch.action)} is unknown; it is one of {', '.join(ACTIONS)}")
    if patch.action == "remove":
        path = _stored_path(items, patch.field) or _field(items, patch.field, shape).path
        return Applied(_removed(items, path, patch.value), path)
    field = _field(items, patch.field, shape)
    text = cleaned(patch.value, settings.max_value_characters)
    change = _set if patch.action == "set" else _appended
    after = change(items, field, text, source)
    if after != list(items):
        _refuse_orders(field, text, shape)
        _refuse_large(items, after, shape, settings.max_characters)
    return Applied(after, field.path)


def _refuse_orders(field: Field, text: str, shape: Shape) -> None:
    """A name that a model made up is read together with its value: half an order may stand in each."""
    refuse_order(text, field.section, field.name)
    if not shape.find(field.path):
        refuse_order(f"{field.name} {text}", field.section, field.name)


def _set(items: Sequence[Item], field: Field, text: str, source: Source) -> list[Item]:
    """The new value in the place of what was there, so that other fields keep their order."""
    (text,) = _in_plain_form(field, [text])
    held = [position for position, item in enumerate(items) if item.field == field.path]
    if [items[position].value for position in held] == [text]:
        return list(items)
    first = held[0] if held else len(items)
    rest = [item for item in items if item.field != field.path]
    return [*rest[:first], Item(field.path, text, *source), *rest[first:]]


def _appended(items: Sequence[Item], field: Field, text: str, source: Source) -> list[Item]:
    values = [item.value for item in items if item.field == field.path]
    if values and not field.many:
        raise PatchRefused(
            f"{field.path} holds one value, and that is {repeated(values[0])}; use set to replace it",
            f"{field.path} holds one value",
        )
    text = _in_plain_form(field, [*values, text])[-1]
    if folded(text) in map(folded, values):
        return list(items)
    return [*items, Item(field.path, text, *source)]


def _removed(items: Sequence[Item], path: str, value: object) -> list[Item]:
    values = [item.value for item in items if item.field == path]
    if not values:
        raise PatchRefused(f"there is nothing in {path} to remove")
    if value is not None and not isinstance(value, str):
        raise PatchRefused(f"value is {type(value).__name__}; give it as text, or leave it out to clear {path}")
    wanted = folded(mask(collapse(value or "")))
    if wanted and wanted not in map(folded, values):
        there = "; ".join(map(repeated, values[:10]))
        missing = f"{repeated(value)} is not in {path}"
        raise PatchRefused(f"{missing}; what is there: {there}", missing)
    return [i for i in items if i.field != path or (wanted and folded(i.value) != wanted)]


def _in_plain_form(field: Field, values: Sequence[str]) -> Sequence[str]:
    """The values as the schema's type writes them."""
    try:
        return field.check(values) if field.check else values
    except ValueError as error:
        raise PatchRefused(f"{repeated(values[-1])} does not fit {field.path}: {str(error)[:300]}") from None


def _refuse_large(before: Sequence[Item], after: Sequence[Item], shape: Shape, most: int) -> None:
    size, was = len(markdown(after, shape)), len(markdown(before, shape))
    if size > most and size > was:
        raise PatchRefused(
            f"the profile would have {size} characters and at most {most} are allowed (it has {was}); remove "
            "what no longer holds, or set fields to shorter values, and call again"
        )


def folded(value: str) -> str:
    """A value as it is compared: as readers see it, without regard to case."""
    return inert(value).casefold()


def _stored_path(items: Sequence[Item], path: object) -> str | None:
    """A field that holds something, also one that template or schema no longer have."""
    wanted = key(path) if isinstance(path, str) else None
    return next((item.field for item in items if key(item.field) == wanted), None)


def _field(items: Sequence[Item], path: object, shape: Shape) -> Field:
    """The field that a patch is about; raises PatchRefused if it cannot be about one."""
    if not isinstance(path, str) or key(path) in WHOLE_DOCUMENT:
        raise PatchRefused(
            f"field is {repeated(path)}; the profile is changed one field at a time, name one as Section/Name: "
            f"{_some_fields(shape)}"
        )
    if known := shape.find(path):
        return known
    section, name = shape.split(path)
    if section not in shape.sections:
        raise PatchRefused(_unknown_section(path, shape))
    if not name:
        raise PatchRefused(f"{section!r} is a whole section; name one field in it, as {section}/Name")
    if not shape.is_open:
        there = ", ".join(field.path for field in shape.fields if field.section == section)
        raise PatchRefused(f"there is no field {repeated(path)}; the fields of this section are {there}")
    stored = _stored_path(items, f"{section}/{name}")
    return Field(*shape.split(stored)) if stored else _new_field(section, name)


def _new_field(section: str, name: str) -> Field:
    if len(name) > MAX_NAME or text_problem(name) or not _NAME.fullmatch(name) or mask(name) != name:
        raise PatchRefused(
            f"{repeated(name)} cannot be the name of a field; use a few plain words without / and "
            f"Markdown, at most {MAX_NAME} characters"
        )
    return Field(section, name)


def _unknown_section(path: str, shape: Shape) -> str:
    alike = [field.path for field in shape.fields if key(field.name) == key(path)]
    if alike:
        return f"field {repeated(path)} has no section; did you mean {' or '.join(alike)}?"
    return (
        f"there is no section for {repeated(path)}; field is Section/Name, and the sections are "
        f"{', '.join(shape.sections)}"
    )


def _some_fields(shape: Shape) -> str:
    names = [field.path for field in shape.fields[:3]] or [f"{section}/Name" for section in shape.sections[:3]]
    return ", ".join(names) + ", …"


def filled_fields(items: Sequence[Item], shape: Shape) -> dict[str, tuple[str, ...]]:
    """The values by field: in the order of the shape, new names behind the known ones of their section.

    Sections that template or schema no longer have come last; nothing is hidden from its reader.
    """
    values: dict[str, list[str]] = {}
    for item in items:
        values.setdefault(item.field, []).append(item.value)
    known = {field.path: position for position, field in enumerate(shape.fields)}
    sections = dict.fromkeys([*shape.sections, *(shape.split(path)[0] for path in values)])
    place = {section: position for position, section in enumerate(sections)}
    paths = sorted(values, key=lambda path: (place[shape.split(path)[0]], known.get(path, len(known))))
    return {path: tuple(values[path]) for path in paths}


def markdown(items: Sequence[Item], shape: Shape) -> str:
    """The whole document; nothing if no field is filled."""
    return "\n".join(_lines(list(filled_fields(items, shape).items()), shape))


def profile_of(state: StateVersion, shape: Shape) -> Profile:
    """The profile of a stored state."""
    items = items_of(state.value)
    return Profile(filled_fields(items, shape), state.version, markdown(items, shape), state.author, state.at)


def _lines(fields: Sequence[tuple[str, Sequence[str]]], shape: Shape) -> list[str]:
    lines: list[str] = []
    for section, group in groupby(fields, lambda field: shape.split(field[0])[0]):
        lines += [*([""] if lines else []), f"## {inert(section)}"]
        for path, values in group:
            lines += _field_lines(shape.split(path)[1], [inert(value) for value in values])
    return lines


def _field_lines(name: str, values: Sequence[str]) -> list[str]:
    if len(values) == 1:
        return [f"- **{inert(name)}**: {values[0]}"]
    return [f"- **{inert(name)}**:", *(f"  - {value}" for value in values)]


def fitted_block(items: Sequence[Item], shape: Shape, max_tokens: int, count_tokens: TokenCounter) -> Fitted:
    """The block with as many fields as its budget allows; the last ones go first."""
    fields = list(filled_fields(items, shape).items())

    def rendered(count: int) -> str:
        note = _left_out(len(fields) - count)
        lines = [*_lines(fields[:count], shape), *(["", note] if note else [])]
        return block("user-profile", lines, prompt("profile_description"), prompt("profile_guidance"))

    def size(count: int) -> int:
        return count_tokens(rendered(count))

    most = len(fields)
    whole = rendered(most)
    tokens = count_tokens(whole)
    if tokens <= max_tokens:
        return Fitted(whole, tokens, 0)
    fitting = bisect_right(range(1, most), max_tokens, key=size)
    text = rendered(fitting) if fitting else ""
    return Fitted(text, count_tokens(text), most - fitting)


def _left_out(count: int) -> str:
    return f"({count} more field{'s' if count > 1 else ''} left out for lack of room)" if count else ""


def field_list(shape: Shape) -> str:
    """The fields with their hints, one a line, for whoever writes them."""
    lines = [f"- {inert(f.path)}: {inert(f.hint)}" if f.hint else f"- {inert(f.path)}" for f in shape.fields]
    empty = [section for section in shape.sections if all(f.section != section for f in shape.fields)]
    return "\n".join([*lines, *(f"- {inert(section)}/…" for section in empty)])

"""Changes of the profile that a model proposes after a turn, checked against what the user said in it.

Only the user's messages of the turn go in. A value is kept if every number, URL and identifier of it stands in
them, and at least half of its words do, by their first letters; what is removed must have been spoken of in the
same way. What merely repeats the profile is refused, unless the user said it again. All that holds is written
at once, together with the turn's id, so that a turn that is learned from twice changes nothing twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from casenotes.characters import CJK
from casenotes.config import ProfileSettings
from casenotes.errors import UnreadableOutput
from casenotes.layers.profile_document import (
    ACTIONS,
    Item,
    Patch,
    Source,
    apply,
    field_list,
    folded,
    items_of,
    markdown,
    with_items,
)
from casenotes.layers.profile_shape import Shape, other_names
from casenotes.layers.profile_values import PatchRefused
from casenotes.learn.claims import Sources, unsupported
from casenotes.learn.echo import EchoGuard
from casenotes.learn.prompts import filled
from casenotes.learn.transcript import TAG_OPENERS
from casenotes.masking import mask
from casenotes.models.parse import parse_object
from casenotes.recall.words import STOP_WORDS
from casenotes.speakers import name_of
from casenotes.types import Message

MAX_MESSAGES = 20
MESSAGE_CHARACTERS = 8_000
MAX_PATCHES = 20
MAX_TURNS = 100
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "patch": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "action": {"type": "string", "enum": list(ACTIONS)},
                    "value": {"type": "string"},
                },
                "required": ["field", "action", "value"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["patch"],
    "additionalProperties": False,
}
_CJK = re.compile(f"[{CJK}]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W_]+")


def user_texts(messages: Sequence[Message]) -> list[str]:
    """What the user said, without secrets; of a very long turn the newest part.

    What is said under a name may be anybody's words, so it tells nothing about the user.
    """
    said = [
        message.text
        for message in messages
        if message.role == "user" and message.text.strip() and name_of(message) is None
    ]
    return [mask(text)[:MESSAGE_CHARACTERS] for text in said[-MAX_MESSAGES:]]


def update_prompt(value: Mapping[str, Any], texts: Sequence[str], shape: Shape) -> str:
    """What the updater is asked."""
    rows = ",\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    return filled(
        "profile_turn",
        others=other_names(shape),
        fields=field_list(shape),
        profile=markdown(items_of(value), shape),
        messages=f"[\n{rows}\n]".translate(TAG_OPENERS),
    )


def read_patches(output: str | Mapping[str, Any]) -> list[Patch]:
    """The patches of a model's answer, as they are; raises UnreadableOutput if there is no answer in it.

    An empty object says that nothing has to change; one with other things in it says nothing of the kind.
    """
    answer = parse_object(output, "patch")
    if answer and "patch" not in answer:
        raise UnreadableOutput(f"the model's answer has no patch, only {', '.join(answer)[:100]}")
    rows = answer.get("patch") or []
    if isinstance(rows, Mapping):
        rows = [rows]
    return [_patch(row) for row in rows[:MAX_PATCHES]] if isinstance(rows, list) else [_patch(rows)]


def _patch(row: object) -> Patch:
    """What is no object becomes a patch of no field, which is refused as such."""
    named = row if isinstance(row, Mapping) else {}
    return Patch(named.get("field"), named.get("action"), named.get("value"))


class Statements:
    """What the user said in a turn, in the forms that are asked for; made once for many patches."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._sources = Sources(texts)
        self._guard = EchoGuard(texts)
        self._stems = frozenset(stem for text in texts for stem in stems(text))
        self._plain = f" {' '.join(map(_plain, texts))} "

    def made_up(self, value: str) -> tuple[str, ...]:
        """The numbers, URLs and identifiers of a value that the user did not name."""
        return unsupported(value, self._sources)

    def speak_of(self, value: str) -> bool:
        """Whether the user said at least half of the words of a value; all of it, if it has no words."""
        wanted = stems(value)
        known = sum(stem in self._stems for stem in wanted)
        return 2 * known >= len(wanted) if wanted else self.hold(value)

    def hold(self, value: str) -> bool:
        """Whether the user said this themselves, or a good part of it."""
        plain = _plain(value) if _CJK.search(value) else f" {_plain(value)} "
        return plain in self._plain or self._guard.is_echo(value)


def stems(text: str) -> list[str]:
    """The telling words by their first four letters; pairs of characters where no blanks part words."""
    found: list[str] = []
    for word in _LETTERS.findall(text.casefold()):
        if _CJK.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif len(word) >= 3 and word not in STOP_WORDS:
            found.append(word[:4])
    return found


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


class Refused(NamedTuple):
    """A patch that was not made, and why."""

    field: str
    reason: str
    detail: str


class Update(NamedTuple):
    """The state after a turn, the fields that changed, and what was refused."""

    value: Mapping[str, Any]
    changed: list[str]
    refused: list[Refused]


def updated(
    value: Mapping[str, Any],
    patches: Sequence[Patch],
    said: Statements,
    turn_id: str,
    shape: Shape,
    settings: ProfileSettings,
    source: Source,
) -> Update:
    """The state with all patches that hold and the turn's id; as it was if none does or it has the turn."""
    turns = _turns(value)
    items = items_of(value)
    changed: list[str] = []
    refused: list[Refused] = []
    for patch in patches if turn_id not in turns else ():
        try:
            applied = apply(items, patch, shape, settings, source)
        except PatchRefused as error:
            refused.append(Refused(_named(patch), "refused", error.noted))
            continue
        if applied.items == items:
            continue
        if problem := _problem(items, applied.items, patch, said):
            refused.append(Refused(applied.field, *problem))
        else:
            items = applied.items
            changed.append(applied.field)
    after = {**with_items(value, items), "turns": [*turns, turn_id][-MAX_TURNS:]} if changed else value
    return Update(after, changed, refused)


def _problem(
    before: Sequence[Item], after: Sequence[Item], patch: Patch, said: Statements
) -> tuple[str, str] | None:
    """Why the user's words do not carry a change."""
    if patch.action == "remove":
        gone = [item.value for item in before if item not in after]
        if all(map(said.speak_of, gone)):
            return None
        return "unsupported", "the user did not speak of all that would go"
    value = mask(str(patch.value))
    if made_up := said.made_up(value):
        return "unsupported", f"the user did not name {', '.join(made_up)}"
    if not said.speak_of(value):
        return "unsupported", "most of its words are not the user's"
    if _is_echo(value, before) and not said.hold(value):
        return "echo", "it repeats what the profile has"
    return None


def _is_echo(value: str, items: Sequence[Item]) -> bool:
    known = [item.value for item in items]
    return folded(value) in map(folded, known) or EchoGuard(known).is_echo(value)


def has_turn(value: Mapping[str, Any], turn_id: str) -> bool:
    """Whether a turn was learned from."""
    return turn_id in _turns(value)


def _turns(value: Mapping[str, Any]) -> list[str]:
    turns = value.get("turns")
    return [turn for turn in turns if isinstance(turn, str)] if isinstance(turns, list) else []


def _named(patch: Patch) -> str:
    return mask(patch.field)[:100] if isinstance(patch.field, str) else ""

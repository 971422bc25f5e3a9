"""Read what the Observer answered, as leniently as can be: a bad line costs only itself.

It may answer with an object or with lines, `* PRIORITY (HH:MM) text`, whose children are indented. What has no
priority is `info`. An answer in which nothing can be read is a failure, an empty object is not: it says that
there was nothing to note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from casenotes.errors import UnreadableOutput
from casenotes.learn.normalise import collapse, cut, is_visible, storable
from casenotes.masking import mask
from casenotes.models.parse import parse_object
from casenotes.types import PRIORITIES, Priority, SessionState

MAX_ROWS = 500
MAX_TEXT = 2_000
MAX_CHARACTERS = 500_000
MAX_LINE = 10_000
MAX_SESSION_TEXT = 600
MAX_SESSION_ITEMS = 20

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "observations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "priority": {"type": "string", "enum": list(PRIORITIES)},
                    "time": {"type": "string"},
                    "text": {"type": "string"},
                    "parent": {"type": ["integer", "null"]},
                    "date": {"type": ["string", "null"]},
                },
                "required": ["priority", "time", "text", "parent", "date"],
                "additionalProperties": False,
            },
        },
        "session": {
            "type": "object",
            "properties": {
                "objective": {"type": "string"},
                "state": {"type": "string"},
                "decisions": {"type": "array", "items": {"type": "string"}},
                "follow_ups": {"type": "array", "items": {"type": "string"}},
                "hint": {"type": "string"},
            },
            "required": ["objective", "state", "decisions", "follow_ups", "hint"],
            "additionalProperties": False,
        },
    },
    "required": ["observations", "session"],
    "additionalProperties": False,
}

OTHER_WORDS: Mapping[str, Priority] = {
    "high": "critical",
    "urgent": "critical",
    "🔴": "critical",
    "medium": "important",
    "🟡": "important",
    "low": "info",
    "🟢": "info",
    "note": "info",
    "completed": "completion",
    "complete": "completion",
    "done": "completion",
    "✅": "completion",
}
"""What models say for priorities."""

_BULLET = re.compile(r"(?P<indent>[ \t]*)(?:[*\-•‣]|\d{1,3}[.)])[ \t]+(?P<rest>\S.*)")
_MARK = re.compile(r"[*_\[]{0,3}(?P<word>[a-z]+|🔴|🟡|🟢|✅)[\])*_]{0,3}[ \t]*[:\-–]?[ \t]*", re.IGNORECASE)
_TIME = re.compile(r"\(?(?P<time>(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2})(?::\d{2})?\)?[ \t]*[:\-–]?[ \t]*")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_ABOUT = re.compile(r" ?\((?:about|meaning|on|refers to)\s+(?P<day>\d{4}-\d{2}-\d{2})\)$", re.IGNORECASE)
_SESSION_LINE = re.compile(
    r"[*\- \t]*+(?P<name>objective|state|decisions?|follow[- _]?ups?|hint)\**[ \t]*:\**[ \t]*(?P<text>\S.*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Noted:
    """One thing that the Observer noted; `parent` is the place of another one before it."""

    priority: Priority
    text: str
    time: str = ""
    parent: int | None = None
    date: date | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the Observer answered; of the session only what it said something about."""

    rows: tuple[Noted, ...] = ()
    session: Mapping[str, Any] | None = None


def read_answer(output: str | Mapping[str, Any]) -> Answer:
    """The rows of an answer; raises UnreadableOutput if there is no answer in it."""
    if isinstance(output, str) and not _looks_like_json(output):
        return _read_lines(output)
    answer = parse_object(output, "observations")
    if answer and not {"observations", "session"} & answer.keys():
        raise UnreadableOutput(f"the model's answer has no observations, only {', '.join(answer)[:100]}")
    items = answer.get("observations") or []
    if isinstance(items, str):
        return replace(_read_lines(items), session=_session(answer.get("session")))
    rows = _rows(items) if isinstance(items, list) else []
    return Answer(tuple(rows), _session(answer.get("session")))


def updated(session: SessionState, answer: Answer) -> SessionState:
    """Where the conversation stands now: what the answer leaves out stays, hints do not."""
    said = answer.session or {}
    return SessionState(
        said.get("objective", session.objective),
        said.get("state", session.state),
        tuple(said.get("decisions", session.decisions)),
        tuple(said.get("follow_ups", session.follow_ups)),
        said.get("hint", ""),
    )


def _looks_like_json(text: str) -> bool:
    stripped = text.lstrip("\ufeff \t\r\n`")
    return stripped.startswith(("{", "[", "json")) or '"observations"' in text


def _rows(items: Sequence[Any]) -> list[Noted]:
    """Rows one by one; the places of parents are counted as the model counts, bad rows included."""
    rows: list[Noted] = []
    places: dict[int, int] = {}
    for number, item in enumerate(items[:MAX_ROWS], 1):
        row = _row(item)
        if row is None:
            continue
        given = item.get("parent") if isinstance(item, Mapping) else None
        places[number] = len(rows)
        rows.append(replace(row, parent=_parent(given, places, number, rows)))
    return rows


def _row(item: Any) -> Noted | None:
    if isinstance(item, str):
        return _line(item)
    if not isinstance(item, Mapping) or not isinstance(item.get("text"), str):
        return None
    text = _clean(item["text"], MAX_TEXT)
    time = item.get("time")
    said = str(time) if isinstance(time, str | int) else ""
    return Noted(_priority(item.get("priority")), text, said, None, _day(item.get("date"))) if text else None


def _parent(given: Any, places: Mapping[int, int], number: int, rows: Sequence[Noted]) -> int | None:
    """The place of a parent that stands before its child: named by its number, or by its words."""
    if isinstance(given, str) and not given.strip().isdigit():
        words = _clean(given, MAX_TEXT)
        return next((place for place, row in enumerate(rows) if row.text == words), None)
    try:
        wanted = int(given)
    except (TypeError, ValueError):
        return None
    return places.get(wanted) if wanted < number else None


def _read_lines(text: str) -> Answer:
    """Lines with children below their parents; dates on lines of their own count for those that follow."""
    rows: list[Noted] = []
    indents: list[tuple[int, int]] = []
    session: dict[str, Any] = {}
    day = ""
    for line in (given[:MAX_LINE] for given in text[:MAX_CHARACTERS].splitlines()):
        if said := _SESSION_LINE.fullmatch(line.rstrip()):
            _note_session(session, said["name"], said["text"])
            continue
        bullet = _BULLET.fullmatch(line.rstrip())
        if bullet is None:
            day = found[0] if (found := _DAY.search(line)) else day
            continue
        row = _line(bullet["rest"])
        if row is None or len(rows) >= MAX_ROWS:
            continue
        depth = len(bullet["indent"].expandtabs(4))
        while indents and indents[-1][0] >= depth:
            indents.pop()
        time = f"{day} {row.time}" if day and row.time and len(row.time) < 6 else row.time
        rows.append(replace(row, time=time, parent=indents[-1][1] if indents else None))
        indents.append((depth, len(rows) - 1))
    if not rows and not session:
        raise UnreadableOutput(f"no observation can be read in the model's answer: {mask(text)[:100]!r}")
    return Answer(tuple(rows), _session(session) if session else None)


def _line(text: str) -> Noted | None:
    """A line without its bullet: a priority and a time if it has them, and the rest."""
    time = ""
    priority, rest = _marked(text.strip())
    if stamp := _TIME.match(rest):
        time, rest = stamp["time"], rest[stamp.end() :]
    if priority is None:
        priority, rest = _marked(rest)
    rest = collapse(rest)
    about = _ABOUT.search(rest)
    words = _clean(rest[: about.start()] if about else rest, MAX_TEXT)
    return (
        Noted(priority or "info", words, time, None, _day(about["day"] if about else None)) if words else None
    )


def _marked(text: str) -> tuple[Priority | None, str]:
    """The priority that a text begins with, and the rest; a word that merely begins a sentence is none."""
    mark = _MARK.match(text)
    if mark is None or (priority := _known_priority(mark["word"])) is None:
        return None, text
    rest = text[mark.end() :]
    is_mark = mark["word"].isupper() or mark[0].strip() != mark["word"] or _TIME.match(rest) is not None
    return (priority, rest) if is_mark or not mark["word"].isascii() else (None, text)


def _note_session(session: dict[str, Any], name: str, text: str) -> None:
    key = name.lower().replace("-", "_").replace(" ", "_")
    if key.startswith(("decision", "follow")):
        session.setdefault("decisions" if key.startswith("d") else "follow_ups", []).append(text)
    else:
        session[key] = text


def _session(given: Any) -> dict[str, Any] | None:
    """What is said of where the conversation stands, cleaned; what has another shape is left out."""
    if not isinstance(given, Mapping):
        return None
    read: dict[str, Any] = {}
    for name in ("objective", "state", "hint"):
        if isinstance(given.get(name), str):
            read[name] = _clean(given[name], MAX_SESSION_TEXT)
    for name in ("decisions", "follow_ups"):
        items = given.get(name)
        items = [items] if isinstance(items, str) else items
        if isinstance(items, list):
            texts = [_clean(item, MAX_SESSION_TEXT) for item in items if isinstance(item, str)]
            read[name] = [text for text in texts if text][-MAX_SESSION_ITEMS:]
    return read


def _clean(text: str, most: int) -> str:
    """One line without secrets; empty if nobody would see anything of it."""
    clean = cut(mask(collapse(storable(text))), most)
    return clean if is_visible(clean) else ""


def _priority(given: Any) -> Priority:
    return _known_priority(str(given)) or "info"


def _known_priority(word: str) -> Priority | None:
    plain = word.strip().lower()
    return next((name for name in PRIORITIES if name == plain), OTHER_WORDS.get(plain))


def _day(given: Any) -> date | None:
    found = _DAY.search(given) if isinstance(given, str) else None
    try:
        return date.fromisoformat(found[0]) if found else None
    except ValueError:
        return None

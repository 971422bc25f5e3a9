"""Check what the Reflector proposes: fewer rows, none made up, nothing critical lost, never nothing left.

A merge or a drop that does not hold costs only itself. What is left of a proposal is a candidate for the new
log; the best of several is kept, and none that does not make the log shorter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any

from casenotes.errors import UnreadableOutput
from casenotes.learn.claims import unsupported
from casenotes.learn.instructions import instruction_in
from casenotes.learn.normalise import collapse, cut, is_visible, storable
from casenotes.learn.prompts import filled, prompt
from casenotes.learn.transcript import TAG_OPENERS
from casenotes.masking import mask
from casenotes.models.parse import parse_object
from casenotes.observe.log import log_tokens, union
from casenotes.observe.repetition import repeats_itself
from casenotes.observe.transcript import local_time
from casenotes.tokens import TokenCounter
from casenotes.types import PRIORITIES, Observation, Priority

LEVELS = (0.6, 0.4, 0.25)
"""What is to be left, by the strength of the compression."""

GOOD_SHARE = 0.7
"""A candidate that leaves no more than this is good enough; otherwise a stronger level is tried."""

WORTH_SHARE = 0.9
"""What leaves more than this is not worth a new prompt."""

LEAST_KEPT_SHARE = 0.02
LARGE = 2_000
"""Of a log that large more must be left than that, unless it was put into other words."""

RAISE = 1.25
"""When nothing shrinks, or it stays too large, the next try comes when the log has grown by a quarter."""

NEWEST_KEPT = 3
MAX_TEXT = 4_000
DIGITS_OF_A_CODE = 3

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "drop": {"type": "array", "items": {"type": "string"}},
        "merge": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "supersedes": {"type": "array", "items": {"type": "string"}},
                    "priority": {"type": "string", "enum": list(PRIORITIES)},
                    "text": {"type": "string"},
                },
                "required": ["supersedes", "priority", "text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["drop", "merge"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows that one text shall stand for."""

    sources: tuple[str, ...]
    priority: str
    text: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the model wants done."""

    drops: tuple[str, ...] = ()
    merges: tuple[Merge, ...] = ()


@dataclass(slots=True)
class Candidate:
    """What is left of a proposal: new rows, rows taken out, tokens before and after, and what was refused."""

    before: int
    after: int = 0
    rows: list[Observation] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """How much of the log is left."""
        return self.after / self.before if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Measure:
    """How rows are written and counted, and what the new ones are called."""

    zone: tzinfo
    count_tokens: TokenCounter
    prefix: str
    at: datetime
    change: int = 0


def reflector_prompt(rows: Sequence[Observation], level: int, zone: tzinfo) -> str:
    """What the Reflector is asked at a level of compression, counted from 0."""
    tokens = sum(row.tokens for row in rows)
    notes = ",\n".join(json.dumps(_note(row, zone), ensure_ascii=False).translate(TAG_OPENERS) for row in rows)
    return filled(
        "reflect_log",
        tokens=str(tokens),
        target=str(int(tokens * LEVELS[level])),
        how=prompt(f"reflect_level_{level + 1}"),
        notes=f"[\n{notes}\n]",
    )


def _note(row: Observation, zone: tzinfo) -> dict[str, Any]:
    note = {"id": row.id, "time": local_time(row.at, zone), "priority": row.priority, "text": row.text}
    return note | ({"about": [day.isoformat() for day in row.dates]} if row.dates else {})


def input_hash(rows: Sequence[Observation]) -> str:
    """Names a log: the same rows are not reflected on twice."""
    return hashlib.sha256("\n".join(row.id for row in rows).encode()).hexdigest()


def read_proposal(output: str | Mapping[str, Any]) -> Proposal:
    """What the model wants; an empty object wants nothing, and what cannot be read is passed over."""
    answer = parse_object(output, "merge")
    if answer and not {"drop", "merge"} & answer.keys():
        raise UnreadableOutput(f"the model's answer has neither drop nor merge: {', '.join(answer)[:100]}")
    drops = [item for item in _list(answer.get("drop")) if isinstance(item, str)]
    merges = [merge for item in _list(answer.get("merge")) if (merge := _merge(item))]
    return Proposal(tuple(drops), tuple(merges))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _merge(item: Any) -> Merge | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("text"), str):
        return None
    sources = tuple(source for source in _list(item.get("supersedes")) if isinstance(source, str))
    text = cut(mask(collapse(storable(item["text"]))), MAX_TEXT)
    return Merge(sources, str(item.get("priority", "")).lower(), text) if sources else None


def judged(rows: Sequence[Observation], proposal: Proposal, measure: Measure) -> Candidate:
    """What holds of a proposal."""
    candidate = Candidate(sum(row.tokens for row in rows))
    known = {row.id: row for row in rows}
    used: set[str] = set()
    for merge in proposal.merges:
        named = [known[name] for name in dict.fromkeys(merge.sources) if name in known and name not in used]
        sources = [row for row in named if row.priority != "critical" or _says(merge.text, row.text)]
        candidate.refused += [f"{row.id} is critical and stays" for row in named if row not in sources]
        problem = _merge_problem(merge, sources, measure.zone)
        if problem:
            candidate.refused.append(problem)
            continue
        used.update(row.id for row in sources)
        candidate.rows.append(_merged(merge, sources, len(candidate.rows), measure))
    newest = {row.id for row in rows[-NEWEST_KEPT:]}
    for name in dict.fromkeys(proposal.drops):
        if name not in known or name in used:
            continue
        if known[name].priority == "critical" or name in newest:
            candidate.refused.append(f"{name} is {known[name].priority} or new and stays")
            continue
        used.add(name)
        candidate.dropped.append(name)
    kept = sum(row.tokens for row in rows if row.id not in used)
    candidate.after = kept + sum(row.tokens for row in candidate.rows)
    return candidate


def _merge_problem(merge: Merge, sources: Sequence[Observation], zone: tzinfo) -> str:
    """Why a merge does not hold; empty if it does."""
    if not sources:
        return f"nothing to merge under {', '.join(merge.sources)[:100]}"
    if not is_visible(merge.text):
        return f"no text for {', '.join(merge.sources)[:100]}"
    invented = unsupported(merge.text, [row.text for row in sources] + [_days(row, zone) for row in sources])
    if made_up := [name for name in invented if _is_code(name)]:
        return f"names what no row says: {', '.join(made_up)[:200]}"
    if instruction_in(merge.text):
        return "reads like an instruction"
    texts = [row.text for row in sources]
    return "repeats itself" if repeats_itself([merge.text], texts) else ""


def _is_code(name: str) -> bool:
    """Whether a name would be taken for that of a real thing; small numbers may be counted."""
    return "://" in name or sum(map(str.isdigit, name)) >= DIGITS_OF_A_CODE


def _says(text: str, critical: str) -> bool:
    """Whether a text has the very words of a critical row: other words may say the opposite."""
    return collapse(critical).casefold().strip(".!;") in collapse(text).casefold()


def _days(row: Observation, zone: tzinfo) -> str:
    """When a row happened and what days it speaks of: a merge may say so in its text."""
    times = [local_time(time, zone) for time in (row.at, row.until) if time]
    return " ".join([*times, *(day.isoformat() for day in row.dates)])


def _merged(merge: Merge, sources: Sequence[Observation], number: int, measure: Measure) -> Observation:
    first = min(row.at for row in sources)
    last = max(row.until or row.at for row in sources)
    row = Observation(
        f"{measure.prefix}.{number}",
        _priority(merge.priority, sources),
        first,
        merge.text,
        union(span for row in sources for span in row.covers),
        until=last if last != first else None,
        dates=tuple(sorted({day for row in sources for day in row.dates})),
        supersedes=tuple(row.id for row in sources),
        position=min(row.position for row in sources),
        seen_change=measure.change,
        created_at=measure.at,
    )
    return _counted(row, measure)


def _counted(row: Observation, measure: Measure) -> Observation:
    return replace(row, tokens=log_tokens(row, measure.zone, measure.count_tokens))


def _priority(wanted: str, sources: Sequence[Observation]) -> Priority:
    """Critical if one of them is; else what the model says, or the highest of them."""
    highest = min((row.priority for row in sources), key=PRIORITIES.index)
    if highest == "critical":
        return highest
    return next((name for name in PRIORITIES if name == wanted), highest)


def is_usable(candidate: Candidate, rows: Sequence[Observation]) -> bool:
    """Whether a candidate may take the place of the log: shorter, not empty, not caught in a loop."""
    gone = {*candidate.dropped, *(name for row in candidate.rows for name in row.supersedes)}
    left = [row for row in rows if row.id not in gone]
    if not (left or candidate.rows) or candidate.share > WORTH_SHARE:
        return False
    if candidate.before >= LARGE and not candidate.rows and candidate.share < LEAST_KEPT_SHARE:
        return False
    return not repeats_itself([row.text for row in candidate.rows], [row.text for row in rows])


def best(candidates: Sequence[Candidate]) -> Candidate | None:
    """The one that leaves least."""
    return min(candidates, key=lambda candidate: candidate.after, default=None)


def next_reflection(tokens: int, threshold: int) -> int:
    """At how many tokens of observations to reflect again: the threshold, unless that much is left already."""
    return threshold if tokens < threshold else int(tokens * RAISE)

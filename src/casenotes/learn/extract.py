"""Ask the model what a turn taught, and read its answer entry by entry: one bad entry costs only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from casenotes.errors import UnreadableOutput
from casenotes.learn.candidate import Candidate
from casenotes.masking import mask
from casenotes.models.chat import ChatReply
from casenotes.models.parse import parse_object
from casenotes.types import CandidateReceipt

MAX_CONTENT = 20_000
MAX_LABEL = 100
MAX_QUOTES = 20
MAX_CANDIDATES = 100
"""More than this from one turn is a model gone wrong; the rest is refused without a receipt for each."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "source": {
                        "type": "string",
                        "enum": [
                            "user_assertion",
                            "user_accepted_assistant_proposal",
                            "verified_assistant_finding",
                        ],
                    },
                    "evidence": {"type": "string"},
                },
                "required": ["content", "source", "evidence"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["entries"],
    "additionalProperties": False,
}


class Proposed(NamedTuple):
    """What a model proposed: candidates, and receipts for what could not be read."""

    candidates: list[Candidate]
    unreadable: list[CandidateReceipt]


async def read_reply(reply: ChatReply) -> Proposed:
    """The entries of an answer; what a token limit cut off is told, as nobody knows what it was."""
    proposed = await asyncio.to_thread(read_entries, reply.output)
    if reply.cut_off:
        detail = "the answer reached its token limit (setting max_output_tokens); what came after is lost"
        proposed.unreadable.append(CandidateReceipt("rejected", "", reason="cut_off", detail=detail))
    return proposed


def read_entries(output: str | Mapping[str, Any]) -> Proposed:
    """The entries of a model's answer; raises UnreadableOutput if there is no answer in it.

    An empty object says that there is nothing to tell; one with other things in it says nothing of the kind.
    """
    answer = parse_object(output, "entries")
    if answer and "entries" not in answer:
        raise UnreadableOutput(f"the model's answer has no entries, only {', '.join(answer)[:100]}")
    entries = answer.get("entries") or []
    if not isinstance(entries, list):
        return Proposed([], [malformed(entries, "entries is no list")])
    read = [_candidate(item) for item in entries[:MAX_CANDIDATES]]
    unreadable = [item for item in read if isinstance(item, CandidateReceipt)]
    if (surplus := len(entries) - MAX_CANDIDATES) > 0:
        detail = f"{surplus} more entries than the {MAX_CANDIDATES} that are looked at"
        unreadable.append(CandidateReceipt("rejected", "", reason="too_many", detail=detail))
    return Proposed([item for item in read if isinstance(item, Candidate)], unreadable)


def _candidate(item: object) -> Candidate | CandidateReceipt:
    if not isinstance(item, Mapping):
        return malformed(item, f"an entry is {type(item).__name__}, not an object")
    content, source, evidence = (item.get(name) for name in ("content", "source", "evidence"))
    quotes = [evidence] if isinstance(evidence, str) else evidence if evidence is not None else []
    if not isinstance(content, str):
        return malformed(item, f"content is {type(content).__name__}, not text")
    if not isinstance(source, str | None):
        return malformed(item, f"source is {type(source).__name__}, not text")
    if not _are_texts(quotes):
        return malformed(item, f"evidence is neither text nor a list of at most {MAX_QUOTES} texts")
    content, source = _storable(content)[:MAX_CONTENT], _storable(source or "")[:MAX_LABEL]
    return Candidate(content, source, tuple(map(_storable, quotes)))


def _are_texts(quotes: object) -> bool:
    if not isinstance(quotes, Sequence) or len(quotes) > MAX_QUOTES:
        return False
    return all(isinstance(quote, str) for quote in quotes)


def _storable(text: str) -> str:
    """Without what no database takes: NUL characters and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")


def malformed(item: object, detail: str) -> CandidateReceipt:
    """The receipt for something that is no entry."""
    return CandidateReceipt(
        "rejected", mask(_storable(repr(item)[:5_000]))[:500], reason="malformed", detail=detail
    )

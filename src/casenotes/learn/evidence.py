"""Judge by code whether a candidate's quotes are really there and its values come from the turn.

A quote proves something only in one message of the turn whose role the source label allows. The user
is always believed to have said what they said; the assistant is not when it repeats what memory had
shown to it. Context messages and tool outputs prove nothing; context supports values, tools do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from casenotes.learn.candidate import Candidate
from casenotes.learn.claims import Sources, unsupported
from casenotes.learn.echo import EchoGuard
from casenotes.learn.quotes import MappedText, is_too_short, map_text
from casenotes.masking import placeholder, secrets_in
from casenotes.types import SPEAKERS, Evidence, Message, Role

Reason = Literal[
    "",  # accepted
    "source_invalid",  # the label is none of the known ones
    "evidence_missing",  # no quote, or a blank one
    "evidence_too_short",  # too short to prove anything, and not a whole message
    "evidence_not_found",  # in no message
    "evidence_wrong_role",  # in the turn, but not in a message of an allowed role
    "evidence_in_context",  # only in a message before the turn
    "echo",  # the assistant repeating what memory had shown
    "unsupported",  # values in the text that nobody named
]
ALLOWED_ROLES: Mapping[str, tuple[Role, ...]] = {
    "user_assertion": ("user",),
    "user_accepted_assistant_proposal": ("user",),
    "verified_assistant_finding": ("user", "assistant"),
}
MAX_DETAIL = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """The text of one message, ready to be searched for quotes."""

    message_id: str
    role: Role
    text: MappedText


class Verdict(NamedTuple):
    """The evidence found, or why the candidate is refused: `detail` names the quote or the values."""

    evidence: tuple[Evidence, ...]
    reason: Reason = ""
    detail: str = ""


def judge(
    candidate: Candidate,
    turn: Sequence[Passage],
    context: Sequence[Passage],
    echoes: EchoGuard,
    sources: Sources | None = None,
) -> Verdict:
    """Find every quote of a candidate and check its values; the first fault refuses it.

    Whoever judges many candidates of one turn makes the `sources` of what was `said` in it once.
    """
    roles = ALLOWED_ROLES.get(candidate.source)
    if not roles:
        return _refused("source_invalid", candidate.source)
    if not candidate.quotes or not all(map_text(quote).strip() for quote in candidate.quotes):
        return _refused("evidence_missing", "")
    evidence = []
    for quote in candidate.quotes:
        found = _find(quote, _in_order(turn, roles))
        if not found:
            return _refused(_why_not(quote, turn, context), quote)
        passage, exact = found
        if passage.role == "assistant" and echoes.is_echo(quote):
            return _refused("echo", quote)
        evidence.append(exact)
    if missing := unsupported(candidate.content, sources or said(turn, context)):
        return _refused("unsupported", ", ".join(missing))
    return Verdict(tuple(dict.fromkeys(evidence)))


def _refused(reason: Reason, detail: str) -> Verdict:
    return Verdict((), reason, detail[:MAX_DETAIL])


def _in_order(turn: Sequence[Passage], roles: Sequence[Role]) -> Iterator[Passage]:
    """The passages that may prove something: what the user said first, then earlier ones first."""
    for role in roles:
        yield from (passage for passage in turn if passage.role == role)


def _find(quote: str, passages: Iterable[Passage]) -> tuple[Passage, Evidence] | None:
    """The first passage that has the quote; a short one must be all that it says."""
    short = is_too_short(quote)
    for passage in passages:
        span = passage.text.find(quote)
        if span and (not short or passage.text.is_whole(quote)):
            return passage, Evidence(passage.message_id, *span, passage.text.original[slice(*span)])
    return None


def find_quote(quote: str, passages: Sequence[Passage]) -> Evidence | None:
    """Where a quote stands in one of some passages; None if nowhere, or if it is too short for proof."""
    found = _find(quote, passages)
    return found[1] if found else None


def _why_not(quote: str, turn: Sequence[Passage], context: Sequence[Passage]) -> Reason:
    if _find(quote, turn):
        return "evidence_wrong_role"
    if _find(quote, context):
        return "evidence_in_context"
    return "evidence_too_short" if is_too_short(quote) else "evidence_not_found"


def passage(message: Message) -> Passage:
    """A message as evidence is looked for in it: secrets by their placeholders."""
    hidden = [(secret.start, secret.end, placeholder(secret.kind)) for secret in secrets_in(message.text)]
    return Passage(str(message.id), message.role, MappedText(message.text, hidden))


def said(turn: Sequence[Passage], context: Sequence[Passage]) -> list[str]:
    """The texts that support values: what user and assistant said."""
    return [passage.text.mapped for passage in (*turn, *context) if passage.role in SPEAKERS]

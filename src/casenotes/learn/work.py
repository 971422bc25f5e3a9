"""What travels along the write path: a finished turn, and the drafts of entries made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from casenotes.learn.candidate import Candidate
from casenotes.learn.instructions import Instruction
from casenotes.learn.transcript import spoken
from casenotes.models.embed import Matrix
from casenotes.types import CandidateReceipt, Message, Scope


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn to learn from: what was said in it, before it, and what its model had been shown.

    `observed` tells of its messages up to `observed_seq`, where observations are to be read instead.
    """

    scope: Scope
    turn_id: str
    messages: Sequence[Message]
    before: Sequence[Message]
    shown: Sequence[str]
    known: Sequence[str]
    profile: Sequence[str] = ()
    observed: Sequence[str] = ()
    observed_seq: int = 0

    @property
    def to_read(self) -> list[Message]:
        """What the extractor reads: observations in place of the messages that they were made of."""
        notes = [Message("system", text) for text in self.observed]
        return [*notes, *spoken([m for m in self.messages if (m.seq or 0) > self.observed_seq])]


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate on its way; `same_as` is an earlier draft, `corroborates` a stored entry that says it.

    One with an `instruction` in it is stored apart, in quarantine.
    """

    candidate: Candidate
    hash: str = ""
    same_as: int | None = None
    corroborates: str | None = None
    instruction: Instruction | None = None
    receipt: CandidateReceipt | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may still become an entry of its own."""
        return self.receipt is None and self.same_as is None


@dataclass(frozen=True, slots=True)
class Work:
    """All drafts of a turn in the order they were proposed."""

    turn: FinishedTurn
    drafts: tuple[Draft, ...] = ()
    unreadable: tuple[CandidateReceipt, ...] = ()
    vectors: Matrix | None = None
    space_id: int = 0
    seen: int = 0
    verified: bool = True

    def changed(self, change: Callable[[Draft], Draft]) -> Work:
        """With every open draft changed."""
        return replace(self, drafts=tuple(change(d) if d.is_open else d for d in self.drafts))

    def root(self, position: int) -> int:
        """The draft that a repeat, or a repeat of a repeat, says the same as."""
        while (same := self.drafts[position].same_as) is not None:
            position = same
        return position

    @property
    def open(self) -> list[int]:
        """Positions of the drafts that may still become entries."""
        return [position for position, draft in enumerate(self.drafts) if draft.is_open]


def refused(draft: Draft, reason: str, detail: str) -> Draft:
    """The draft with a receipt that says why it goes no further."""
    candidate = draft.candidate
    receipt = CandidateReceipt(
        "rejected", candidate.content, candidate.source, reason, detail, tuple(candidate.quotes)
    )
    return replace(draft, receipt=receipt)

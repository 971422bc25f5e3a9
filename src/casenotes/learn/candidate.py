"""What an extractor proposes to remember, before and after its quotes were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from casenotes.types import Evidence

SourceLabel = Literal["user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible entry: its text, where it claims to come from and the quotes that shall prove it.

    `source` is whatever the model wrote; `evidence` is empty until the quotes were found.
    """

    content: str
    source: str
    quotes: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()

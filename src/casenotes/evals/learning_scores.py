"""Score what was learned from transcripts: what was covered, and every kind of fault; pure functions.

A fact is credited to the one entry that serves it best. An entry that says something forbidden is at
fault even if it covers a fact as well; one that no fact is credited to is superfluous, also when it
only repeats another. Faults are counted beside coverage and never subtracted from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from casenotes.evals.learning_cases import UNSUPPORTED, Fact, LearningCase, hedges
from casenotes.evals.statements import says_any
from casenotes.types import CandidateReceipt

Verdict = Literal["covered", "forbidden", "superfluous"]
REFUSED = ("rejected", "quarantined")


class Stored(NamedTuple):
    """An entry as it was stored."""

    content: str
    source: str


@dataclass(frozen=True, slots=True)
class ScoredFact:
    """A fact and the entry it is credited to, by position; None if none covers it."""

    fact: Fact
    entry: int | None = None
    wrong_label: bool = False
    lost_uncertainty: bool = False


@dataclass(frozen=True, slots=True)
class ScoredEntry:
    """An entry, the facts credited to it, and the reasons why it should not say what it says."""

    content: str
    source: str
    facts: tuple[str, ...]
    forbidden: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """What it is in one word."""
        if self.forbidden:
            return "forbidden"
        return "covered" if self.facts else "superfluous"

    @property
    def is_unsupported(self) -> bool:
        """Whether it says something that nobody stands behind."""
        return not set(UNSUPPORTED).isdisjoint(self.forbidden)


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted in one case; `told` are the covered facts with the optional ones."""

    expected: int = 0
    covered: int = 0
    told: int = 0
    uncertain: int = 0
    entries: int = 0
    forbidden: int = 0
    unsupported: int = 0
    superfluous: int = 0
    wrong_label: int = 0
    lost_uncertainty: int = 0
    refused: int = 0

    @property
    def is_flawless(self) -> bool:
        """Whether everything was covered without a fault; what code refused does no harm."""
        faults = self.forbidden + self.superfluous + self.wrong_label + self.lost_uncertainty
        return self.covered == self.expected and not faults


@dataclass(frozen=True, slots=True)
class CaseScore:
    """One case's facts, entries and refused candidates; `failure` is why there are none."""

    case: LearningCase
    facts: tuple[ScoredFact, ...]
    entries: tuple[ScoredEntry, ...]
    refused: tuple[CandidateReceipt, ...] = ()
    failure: str = ""

    @property
    def counts(self) -> Counts:
        """The score in numbers."""
        told = [item for item in self.facts if item.entry is not None]
        return Counts(
            expected=sum(not item.fact.optional for item in self.facts),
            covered=sum(not item.fact.optional for item in told),
            told=len(told),
            uncertain=sum(item.fact.uncertain for item in told),
            entries=len(self.entries),
            forbidden=sum(entry.verdict == "forbidden" for entry in self.entries),
            unsupported=sum(entry.is_unsupported for entry in self.entries),
            superfluous=sum(entry.verdict == "superfluous" for entry in self.entries),
            wrong_label=sum(item.wrong_label for item in told),
            lost_uncertainty=sum(item.lost_uncertainty for item in told),
            refused=len(self.refused),
        )

    @property
    def is_flawless(self) -> bool:
        """Whether there is nothing to complain about."""
        return not self.failure and self.counts.is_flawless


@dataclass(frozen=True, slots=True)
class Share:
    """A count and of how many; without any there is no ratio."""

    count: int
    of: int

    @property
    def ratio(self) -> float | None:
        """The count as a part of one."""
        return self.count / self.of if self.of else None

    def to_json(self) -> dict[str, Any]:
        """The share as plain values."""
        return {"count": self.count, "of": self.of, "ratio": self.ratio}


def score_case(
    case: LearningCase,
    entries: Sequence[Stored],
    receipts: Iterable[CandidateReceipt] = (),
    failure: str = "",
) -> CaseScore:
    """Judge the entries that were stored of a case; receipts tell what code refused."""
    facts = tuple(_scored_fact(fact, entries, case.language) for fact in case.expected)
    scored = tuple(
        ScoredEntry(
            entry.content,
            entry.source,
            tuple(item.fact.id for item in facts if item.entry == position),
            tuple(dict.fromkeys(bad.why for bad in case.forbidden if bad.says.is_in(entry.content))),
        )
        for position, entry in enumerate(entries)
    )
    refused = tuple(receipt for receipt in receipts if receipt.status in REFUSED)
    return CaseScore(case, facts, scored, refused, failure)


def _scored_fact(fact: Fact, entries: Sequence[Stored], language: str) -> ScoredFact:
    """The fact with the entry that has the fewest faults in telling it, of equal ones the first."""
    tellings = [
        ScoredFact(
            fact,
            position,
            wrong_label=entry.source not in fact.sources,
            lost_uncertainty=fact.uncertain and not is_hedged(entry.content, language),
        )
        for position, entry in enumerate(entries)
        if fact.says.is_in(entry.content)
    ]
    return min(tellings, key=lambda item: item.wrong_label + item.lost_uncertainty, default=ScoredFact(fact))


def is_hedged(text: str, language: str) -> bool:
    """Whether a text says that something may be so; English words count in every language."""
    return says_any(text, (*hedges().get(language, ()), *hedges()["en"]))


def summary(scores: Iterable[CaseScore]) -> dict[str, Any]:
    """The numbers of several cases: how many, and shares with their counts."""
    collected = list(scores)
    all_counts = [score.counts for score in collected]
    total = Counts(**{f.name: sum(getattr(c, f.name) for c in all_counts) for f in fields(Counts)})
    return {
        "cases": len(collected),
        "failed": sum(bool(score.failure) for score in collected),
        "flawless": Share(sum(score.is_flawless for score in collected), len(collected)),
        "coverage": Share(total.covered, total.expected),
        "junk": Share(total.forbidden + total.superfluous, total.entries),
        "forbidden": Share(total.forbidden, total.entries),
        "superfluous": Share(total.superfluous, total.entries),
        "unsupported": Share(total.unsupported, total.entries),
        "wrong_label": Share(total.wrong_label, total.told),
        "lost_uncertainty": Share(total.lost_uncertainty, total.uncertain),
        "refused": Share(total.refused, total.entries + total.refused),
    }


def summaries(scores: Sequence[CaseScore]) -> dict[str, Any]:
    """The numbers overall, by domain, by tag and by language."""
    return {
        "overall": summary(scores),
        "by_domain": _grouped(scores, lambda case: (case.domain,)),
        "by_tag": _grouped(scores, lambda case: case.tags),
        "by_language": _grouped(scores, lambda case: (case.language,)),
    }


def _grouped(
    scores: Sequence[CaseScore], groups: Callable[[LearningCase], tuple[str, ...]]
) -> dict[str, dict[str, Any]]:
    names = Counter(name for score in scores for name in groups(score.case))
    return {name: summary(score for score in scores if name in groups(score.case)) for name in sorted(names)}

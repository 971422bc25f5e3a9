"""Evaluate learning: let a model learn from every transcript of a set, and score what was stored.

Every case has a scope of its own in a throw-away store and goes through the whole pipeline, with all
checks of evidence. What a model fails at is reported and counts as not covered; but one that never
answers, for example because its key is wrong, ends the evaluation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from casenotes.clock import FrozenClock
from casenotes.config import Settings
from casenotes.errors import ModelError, UnreadableOutput, UsageError
from casenotes.evals.learning_cases import LearningCase
from casenotes.evals.learning_scores import CaseScore, Share, Stored, score_case, summaries
from casenotes.evals.retrieval import EmbeddingFailures, patient
from casenotes.events import Event
from casenotes.memory import Memory
from casenotes.models.chat import Usage, resolve_model
from casenotes.models.embed import Embedder
from casenotes.stores.learning import DayUsage
from casenotes.tasks import end
from casenotes.types import CandidateReceipt, Receipt, Scope

AGENT, THREAD = "learning-evaluation", "transcript"
START = datetime(2024, 1, 8, 9, 0, tzinfo=UTC)
CONCURRENCY = 4
GIVE_UP_AFTER = 3
"""So many cases without any answer, and none with one: the others would fail, too."""

MAX_RECEIPTS = 1_000
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class LearningEvaluation:
    """Everything measured; `to_json` is what `--json` prints."""

    model: str
    scores: list[CaseScore] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    @property
    def failures(self) -> dict[str, str]:
        """Cases that the model failed at, with what went wrong."""
        return {score.case.id: score.failure for score in self.scores if score.failure}

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "model": self.model,
            **_plain(summaries(self.scores)),
            "usage": asdict(self.usage),
            "failures": self.failures,
            "cases": list(map(_case_values, self.scores)),
        }


class ModelFailures:
    """Why cases could not be learned from, by their ids."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def note(self, event: Event) -> None:
        """Keep what went wrong."""
        if event.name == "learning.failed" and event.scope:
            self.errors[str(event.scope.resource_id)] = event.data["error"]


async def evaluate_learning(
    cases: Sequence[LearningCase],
    model: Any,
    *,
    embedder: str | Embedder = "local",
    settings: Settings | None = None,
    concurrency: int = CONCURRENCY,
    progress: Progress = lambda _done, _total: None,
) -> LearningEvaluation:
    """Run the whole evaluation; `model` and `embedder` are what `Memory.open` takes."""
    if (chat := resolve_model(model)) is None:
        raise UsageError("no model to learn with; name one as provider:name, or pass an object")
    result = LearningEvaluation(chat.label)
    config = _one_attempt(patient(settings or Settings()), concurrency)
    clock = FrozenClock(START)
    async with Memory.open(
        "sqlite:///:memory:", model=model, embedder=embedder, config=config, clock=clock
    ) as memory:
        failures, embedding = ModelFailures(), EmbeddingFailures()
        memory.listen(failures.note)
        memory.listen(embedding.note)
        scores: dict[str, CaseScore] = {}
        async with aclosing(_learned(memory, cases, concurrency, failures)) as learned:
            async for score, usage in learned:
                scores[score.case.id] = score
                result.usage += usage
                _check_answers(list(scores.values()))
                embedding.check()
                progress(len(scores), len(cases))
    result.scores = [scores[case.id] for case in cases]
    return result


def _check_answers(scores: Sequence[CaseScore]) -> None:
    """Raise if there was no answer to any of the cases so far; one that cannot be read is an answer."""
    silent = [
        score.failure
        for score in scores
        if score.failure and not score.failure.startswith(UnreadableOutput.__name__)
    ]
    if len(silent) == len(scores) >= GIVE_UP_AFTER:
        raise ModelError(
            f"the model answered none of the first {len(scores)} cases; check its name, its key and whether it "
            f"can be reached: {silent[0]}"
        )


def _one_attempt(settings: Settings, concurrency: int) -> Settings:
    """A turn that failed is not tried again later: by then its case has been scored."""
    return replace(settings, jobs=replace(settings.jobs, attempts=1, concurrency=concurrency, in_process=True))


async def _learned(
    memory: Memory, cases: Sequence[LearningCase], concurrency: int, failures: ModelFailures
) -> AsyncGenerator[tuple[CaseScore, Usage], None]:
    """Cases as they are finished, a few at once."""
    places = asyncio.Semaphore(concurrency)

    async def in_place(case: LearningCase) -> tuple[CaseScore, Usage]:
        async with places:
            return await _learn(memory, case, failures)

    tasks = [asyncio.create_task(in_place(case)) for case in cases]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        await end(tasks)


async def _learn(memory: Memory, case: LearningCase, failures: ModelFailures) -> tuple[CaseScore, Usage]:
    scope = Scope(AGENT, case.id, THREAD)
    if case.before:
        await memory.append(scope, case.before)
    turn = await memory.begin(scope, case.turn[0])
    receipt = await memory.complete(turn, case.turn[1:], sync=True)
    failure = "" if receipt.status == "learned" else failures.errors.get(case.id) or _unfinished(receipt)
    rows = await memory.ledger(scope, limit=MAX_RECEIPTS)
    receipts = [row.receipt for row in rows]
    score = score_case(case, await _stored(memory, scope, receipts), receipts, failure)
    return score, sum((_usage(used) for used in await memory.usage(scope)), Usage())


def _unfinished(receipt: Receipt) -> str:
    return f"the turn is {receipt.status} {receipt.reason}".strip()


async def _stored(memory: Memory, scope: Scope, receipts: Sequence[CandidateReceipt]) -> list[Stored]:
    """The entries that are there now, in the order in which they were proposed."""
    ids = list(dict.fromkeys(receipt.entry_id for receipt in receipts if receipt.entry_id))
    found = await memory.entries(scope, ids) if ids else {}
    entries = [found[entry_id] for entry_id in ids if entry_id in found]
    return [Stored(entry.content, entry.source) for entry in entries if entry.status == "active"]


def _usage(used: DayUsage) -> Usage:
    return Usage(used.calls, used.input_tokens, used.output_tokens, used.cost)


def _plain(value: Any) -> Any:
    if isinstance(value, Share):
        return value.to_json()
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def _case_values(score: CaseScore) -> dict[str, Any]:
    case = score.case
    return {
        "id": case.id,
        "domain": case.domain,
        "language": case.language,
        "tags": list(case.tags),
        "failure": score.failure,
        "flawless": score.is_flawless,
        "counts": asdict(score.counts),
        "facts": [
            {
                "id": item.fact.id,
                "optional": item.fact.optional,
                "entry": item.entry,
                "wrong_label": item.wrong_label,
                "lost_uncertainty": item.lost_uncertainty,
            }
            for item in score.facts
        ],
        "entries": [{**asdict(entry), "verdict": entry.verdict} for entry in score.entries],
        "refused": [
            {"content": item.content, "reason": item.reason or item.status, "detail": item.detail}
            for item in score.refused
        ],
    }

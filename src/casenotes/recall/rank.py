"""Order a scope's items by relevance: two rankers, both pure functions of the signals.

`default` adds the two signals, each scaled by its best value, a little for the user's own words and
a share of the best item of the same thread; recency only decides between near-equals. What each
part brings is measured in docs/benchmarks.md. `rrf-decay` is reciprocal-rank fusion times
exponential decay, kept exactly as specified for those who compare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from casenotes.config import DEFAULT_LEXICAL_WEIGHT, SearchSettings
from casenotes.recall.lexical import Floats, LexicalIndex
from casenotes.recall.words import search_terms
from casenotes.types import Scores

RRF_K = 60
AGE_ONLY_WEIGHT = 0.0001
LEAST_SCORE = 1e-9
SECONDS_A_DAY = 86_400.0
PLAIN_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of every item of a scope in view of one query; all of one length.

    `centred` is the cosine seen from near the scope's centre. `verbosity` is how many times longer
    than the user the assistant writes. `eligible` leaves items out of the result, for example those
    after an `as_of` time.
    """

    ids: Sequence[str]
    created: NDArray[np.float64]
    threads: NDArray[np.int32]
    lexical: Floats
    vector: Floats
    centred: Floats
    from_user: NDArray[np.bool_]
    verbosity: float = 0.0
    eligible: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item's position in the signals and why it stands where it stands."""

    position: int
    scores: Scores


@dataclass(frozen=True, slots=True)
class Ranker:
    """How text becomes terms, terms become lexical scores, and signals become an order.

    A tuned ranker looks at the centred similarity and may find nothing relevant.
    """

    terms: Callable[[str], list[str]]
    lexical: Callable[[LexicalIndex, Sequence[str], SearchSettings], Floats]
    rank: Callable[[Signals, int, float, SearchSettings], list[Ranked]]
    is_tuned: bool


class Verbosity:
    """How many times longer than the user the assistant writes, counted message by message."""

    def __init__(self) -> None:
        self._messages = {"user": 0, "assistant": 0}
        self._characters = {"user": 0, "assistant": 0}

    def count(self, role: str, characters: int) -> None:
        """Take one message into account."""
        if role in self._messages:
            self._messages[role] += 1
            self._characters[role] += characters

    @property
    def ratio(self) -> float:
        """Mean length of the assistant's messages over that of the user's; 0 if one never spoke."""
        if not self._characters["user"] or not self._messages["assistant"]:
            return 0.0
        mean = {role: self._characters[role] / count for role, count in self._messages.items()}
        return mean["assistant"] / mean["user"]


def recency_factor(age_days: float, half_life_days: float) -> float:
    """1 for something new, a half after each half-life; no decay without a half-life."""
    if half_life_days <= 0:
        return 1.0
    return float(0.5 ** (max(0.0, age_days) / half_life_days))


def plain_words(text: str) -> list[str]:
    """Lower-case ASCII words of two characters or more, as `rrf-decay` counts them."""
    return [word for word in PLAIN_WORD.findall(text.lower()) if len(word) >= 2]


def rank_default(signals: Signals, top_k: int, now: float, settings: SearchSettings) -> list[Ranked]:
    """Relevance first: scaled lexical and vector score, thread share, recency as tie-breaker."""
    if signals.eligible is not None:  # what is left out must not influence the rest either
        signals = replace(
            signals,
            lexical=np.where(signals.eligible, signals.lexical, np.float32(0)),
            vector=np.where(signals.eligible, signals.vector, np.float32(-1)),
            centred=np.where(signals.eligible, signals.centred, np.float32(-1)),
        )
    fused = _fuse(signals, settings)
    relevant = (signals.lexical > 0) | (signals.vector >= settings.vector_floor)
    if signals.eligible is not None:
        relevant &= signals.eligible
    candidates = _near_the_top(fused, np.flatnonzero(relevant), top_k, settings.recency_weight)
    ranked = []
    for i in candidates.tolist():
        recency = recency_factor((now - signals.created[i]) / SECONDS_A_DAY, settings.half_life_days)
        final = float(fused[i]) + settings.recency_weight * recency
        ranked.append(_ranked(signals, i, float(fused[i]), recency, final))
    return _best(signals, ranked, top_k)


def _fuse(signals: Signals, settings: SearchSettings) -> Floats:
    similar = np.maximum(signals.centred, np.float32(0))
    weight = DEFAULT_LEXICAL_WEIGHT if settings.lexical_weight is None else settings.lexical_weight
    fused = _scaled(signals.lexical, weight) + _scaled(similar, 1 - weight, settings.full_similarity)
    if bonus := settings.user_weight * _share_for_the_user(signals.verbosity):
        fused += np.float32(bonus) * signals.from_user
    if settings.thread_share and len(fused):
        best = np.zeros(int(signals.threads.max()) + 1, dtype=np.float32)
        np.maximum.at(best, signals.threads, fused)
        fused += settings.thread_share * best[signals.threads]
    return fused


def _share_for_the_user(verbosity: float) -> float:
    """0 where both write alike, 1 where the assistant writes four times as much or more.

    Long answers share words with many questions, while what is asked for is mostly what the user said.
    Between people nobody is preferred.
    """
    return min(1.0, max(0.0, math.log(verbosity) / math.log(4))) if verbosity > 0 else 0.0


def is_anything_relevant(cosines: Sequence[float], coverage: Floats, settings: SearchSettings) -> bool:
    """Whether one of the best hits is near the question in meaning, in words, or in both together."""
    return any(
        cosine + float(share) >= settings.relevance_floor
        for cosine, share in zip(cosines, coverage, strict=True)
    )


def _scaled(scores: Floats, weight: float, full: float = 0.0) -> Floats:
    """Scores times a factor that gives the best one `weight`, or less if it is below a `full` score.

    Where nothing is similar, the least dissimilar must not outweigh an exact word.
    """
    best = max(full, float(scores.max(initial=0.0)))
    return scores * np.float32(weight / best) if best > LEAST_SCORE else np.zeros_like(scores)


def _near_the_top(fused: Floats, candidates: NDArray[np.intp], top_k: int, margin: float) -> NDArray[np.intp]:
    """All that can still reach the top k when recency adds at most `margin`."""
    if len(candidates) <= top_k:
        return candidates
    scores = fused[candidates]
    kth_best = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
    near: NDArray[np.intp] = candidates[scores >= kth_best - np.float32(margin)]
    return near


def rank_rrf_decay(signals: Signals, top_k: int, now: float, settings: SearchSettings) -> list[Ranked]:
    """Reciprocal-rank fusion of both lists, times recency; by age alone where neither matches."""
    fused = _reciprocal_ranks(signals, signals.lexical) + _reciprocal_ranks(signals, signals.vector)
    eligible = range(len(signals.ids)) if signals.eligible is None else np.flatnonzero(signals.eligible)
    ranked = []
    for i in map(int, eligible):
        recency = recency_factor((now - signals.created[i]) / SECONDS_A_DAY, settings.half_life_days)
        final = (float(fused[i]) or AGE_ONLY_WEIGHT * recency) * recency
        ranked.append(_ranked(signals, i, float(fused[i]), recency, final))
    return _best(signals, ranked, top_k)


def _reciprocal_ranks(signals: Signals, scores: Floats) -> NDArray[np.float64]:
    """1 / (60 + rank) for each item with a positive score, ranks from 1."""
    matching = np.flatnonzero(scores > 0 if signals.eligible is None else (scores > 0) & signals.eligible)
    order = sorted(matching.tolist(), key=lambda i: (-scores[i], -signals.created[i], signals.ids[i]))
    ranks = np.zeros(len(signals.ids), dtype=np.float64)
    ranks[order] = 1.0 / (RRF_K + np.arange(1, len(order) + 1))
    return ranks


def _ranked(signals: Signals, i: int, fused: float, recency: float, final: float) -> Ranked:
    vector = max(0.0, float(signals.vector[i]))
    return Ranked(i, Scores(float(signals.lexical[i]), vector, fused, recency, final))


def _best(signals: Signals, ranked: list[Ranked], top_k: int) -> list[Ranked]:
    """Highest final score first; ties by newer time, then by id."""
    ranked.sort(key=lambda r: (-r.scores.final, -signals.created[r.position], signals.ids[r.position]))
    return ranked[:top_k]


RANKERS = {
    "default": Ranker(
        search_terms,
        lambda index, terms, settings: index.bm25(terms, settings.bm25_k1, settings.bm25_b),
        rank_default,
        is_tuned=True,
    ),
    "rrf-decay": Ranker(
        plain_words,
        lambda index, terms, _settings: index.word_counts(terms),
        rank_rrf_decay,
        is_tuned=False,
    ),
}

"""Retrieval metrics over ranked ids; pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

CUTOFFS = (1, 5, 10, 20)
NDCG_CUTOFF = 10
Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Judged:
    """One query's ranking and what should be in it."""

    query_id: str
    category: str
    ranked: Sequence[str]
    relevant: frozenset[str]


def query_metrics(ranked: Sequence[str], relevant: Collection[str]) -> Metrics:
    """Every metric of one query."""
    wanted = set(relevant)
    found = [item in wanted for item in ranked]
    result: Metrics = {}
    for k in CUTOFFS:
        result[f"recall@{k}"] = sum(found[:k]) / len(wanted)
        result[f"hit@{k}"] = float(any(found[:k]))
    result[f"ndcg@{NDCG_CUTOFF}"] = ndcg(found, len(wanted), NDCG_CUTOFF)
    result["mrr"] = next((1 / rank for rank, hit in enumerate(found, 1) if hit), 0.0)
    return result


def ndcg(found: Sequence[bool], relevant_count: int, k: int) -> float:
    """Gain of the hits in the first k, each discounted by its rank, over the best possible."""
    gain = sum(1 / math.log2(rank + 1) for rank, hit in enumerate(found[:k], 1) if hit)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, relevant_count) + 1))
    return gain / best


def mean_metrics(rows: Iterable[Metrics]) -> Metrics:
    """Means over queries, and how many there were as `queries`."""
    collected = list(rows)
    if not collected:
        return {"queries": 0}
    means = {name: sum(row[name] for row in collected) / len(collected) for name in collected[0]}
    return {"queries": len(collected), **means}


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """One metric of two runs over the same queries; the standard error is that of the mean difference."""

    queries: int
    first: float
    second: float
    difference: float
    standard_error: float
    better: int
    worse: int

    @property
    def is_clear(self) -> bool:
        """Whether the difference is larger than two of its standard errors."""
        return self.queries > 1 and abs(self.difference) > 2 * self.standard_error


def paired_difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """How the second run differs from the first, query by query."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    count = len(differences)
    mean = sum(differences) / count
    variance = sum((d - mean) ** 2 for d in differences) / max(1, count - 1)
    return PairedDifference(
        queries=count,
        first=sum(first) / count,
        second=sum(second) / count,
        difference=mean,
        standard_error=math.sqrt(variance / count),
        better=sum(d > 0 for d in differences),
        worse=sum(d < 0 for d in differences),
    )


def report(judged: Iterable[Judged]) -> dict[str, object]:
    """Metrics overall and by category."""
    rows = [(item.category, query_metrics(item.ranked, item.relevant)) for item in judged]
    categories = sorted({category for category, _ in rows})
    return {
        "overall": mean_metrics(metrics for _, metrics in rows),
        "by_category": {
            name: mean_metrics(metrics for category, metrics in rows if category == name) for name in categories
        },
    }

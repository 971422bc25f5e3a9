"""Compare two evaluations of the same queries: paired differences with their standard errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from casenotes.errors import UsageError
from casenotes.evals.metrics import PairedDifference, paired_difference, query_metrics

LEVELS = ("message", "thread")
METRICS = tuple(query_metrics([], {"any"}))
PerQuery = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every metric at every level, over the queries that both runs answered."""

    queries: int
    left_out: int
    levels: Mapping[str, Mapping[str, PairedDifference]]


def read_run(path: Path) -> dict[str, Mapping[str, Any]]:
    """The queries of a file written by `casenotes eval retrieval --json`, by id."""
    try:
        queries = json.loads(path.read_bytes())["queries"]
        return {str(query["id"]): {level: _numbers(query[level]) for level in LEVELS} for query in queries}
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{str(path)!r} is no saved evaluation ({error!r}); make one with "
            "casenotes eval retrieval --json > FILE"
        ) from None


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {metric: float(metrics[metric]) for metric in METRICS}


def compare_runs(first: PerQuery, second: PerQuery) -> Comparison:
    """The second run against the first."""
    common = [query_id for query_id in first if query_id in second]
    if not common:
        raise UsageError("the two evaluations have no query in common; compare runs of the same queries")
    levels = {
        level: _level([first[q][level] for q in common], [second[q][level] for q in common]) for level in LEVELS
    }
    return Comparison(len(common), len(first.keys() ^ second.keys()), levels)


def _level(
    first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]
) -> dict[str, PairedDifference]:
    return {
        metric: paired_difference([row[metric] for row in first], [row[metric] for row in second])
        for metric in first[0]
    }

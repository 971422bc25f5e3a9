"""Retrieval metrics, with numbers worked out by hand."""

import math

import pytest

from casenotes.evals.metrics import Judged, mean_metrics, query_metrics, report


def test_metrics_by_hand() -> None:
    metrics = query_metrics(["x", "a", "y", "b"], {"a", "b", "missing"})
    assert metrics["recall@1"] == 0
    assert metrics["recall@5"] == pytest.approx(2 / 3)
    assert (metrics["hit@1"], metrics["hit@5"]) == (0, 1)
    assert metrics["mrr"] == 0.5
    best = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert metrics["ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)


def test_nothing_found_is_zero_everywhere() -> None:
    assert set(query_metrics([], {"a"}).values()) == {0.0}


def test_reports_are_means_overall_and_by_category() -> None:
    judged = [
        Judged("1", "names", ["a"], frozenset("a")),
        Judged("2", "dates", ["b"], frozenset("a")),
        Judged("3", "names", ["a"], frozenset("a")),
    ]
    result = report(judged)
    assert result["overall"]["queries"] == 3
    assert result["overall"]["recall@1"] == pytest.approx(2 / 3)
    assert result["by_category"]["names"]["mrr"] == 1
    assert result["by_category"]["dates"]["mrr"] == 0
    assert mean_metrics([]) == {"queries": 0}

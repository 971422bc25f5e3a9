"""Retrieval metrics, with numbers worked out by hand."""

import math
from pathlib import Path

import pytest

from casenotes.errors import UsageError
from casenotes.evals.compare import compare_runs, read_run
from casenotes.evals.metrics import Judged, mean_metrics, paired_difference, query_metrics, report


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


def test_paired_differences_and_their_standard_error() -> None:
    result = paired_difference([0.0, 0.5, 1.0, 0.0], [1.0, 0.5, 0.5, 1.0])
    assert (result.first, result.second) == (0.375, 0.75)
    assert result.difference == pytest.approx(0.375)
    # differences 1, 0, -0.5, 1: variance 0.5625 over three degrees of freedom
    assert result.standard_error == pytest.approx(math.sqrt(0.5625 / 4))
    assert (result.better, result.worse) == (2, 1)
    assert not result.is_clear


def test_one_query_or_equal_runs_have_no_clear_difference() -> None:
    assert not paired_difference([0.0], [1.0]).is_clear
    assert not paired_difference([0.5, 0.1], [0.5, 0.1]).is_clear
    assert paired_difference([0.0], [0.0]).standard_error == 0


def run_of(**recalls: float) -> dict[str, dict[str, object]]:
    return {
        name: {"id": name, "message": {"recall@10": value}, "thread": {"recall@10": 1.0}}
        for name, value in recalls.items()
    }


def test_runs_are_compared_over_their_common_queries() -> None:
    result = compare_runs(run_of(a=0.0, b=1.0, c=1.0), run_of(b=1.0, a=0.5, d=0.0))
    assert (result.queries, result.left_out) == (2, 2)
    assert result.levels["message"]["recall@10"].difference == 0.25
    assert result.levels["thread"]["recall@10"].difference == 0
    with pytest.raises(UsageError, match="no query in common"):
        compare_runs(run_of(a=1.0), run_of(b=1.0))


NO_LEVEL = '{"queries": [{"id": "1", "message": {}}]}'
NO_NUMBER = '{"queries": [{"id": "1", "message": {"recall@1": "x"}, "thread": {}}]}'


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"queries": 7}', '{"queries": [{}]}', '{"queries": [7]}', NO_LEVEL, NO_NUMBER]
)
def test_a_file_that_is_no_evaluation_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"run.json' is no saved evaluation.*--json"):
        read_run(file)

"""Near-duplicates: alike in meaning, and the same fact word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest

from casenotes.learn.similar import Threshold, decide, same_turn


def at(*degrees: float) -> list[list[float]]:
    """Vectors of different lengths at these angles."""
    return [
        [(i + 1) * math.cos(math.radians(a)), (i + 1) * math.sin(math.radians(a))]
        for i, a in enumerate(degrees)
    ]


def test_r46_09_a_near_duplicate_joins_the_earlier_candidate() -> None:
    assert same_turn(at(0, 10, 90, 95), ["it runs"] * 4, 0.86) == [None, 0, None, 2]
    assert same_turn(at(0, 40), ["it runs"] * 2, 0.86) == [None, None]


def test_r46_09_at_the_threshold_is_a_duplicate() -> None:
    exactly = [[1.0, 0.0], [0.86, math.sqrt(1 - 0.86**2)]]
    assert same_turn(np.array(exactly, dtype=np.float32), ["it runs"] * 2, 0.86) == [None, 0]
    assert same_turn(exactly, ["it runs"] * 2, 0.8601) == [None, None]
    assert same_turn(np.full((2, 7), 0.1, dtype=np.float32), ["it runs"] * 2, 1.0) == [None, 0]


def test_r46_09_only_a_kept_candidate_is_joined() -> None:
    # 0 and 25 degrees are alike, 25 and 50 are, 0 and 50 are not: the third has no kept one near it
    assert same_turn(at(0, 25, 50), ["it runs"] * 3, 0.9) == [None, 0, None]


def test_r46_15_of_several_the_most_alike_is_joined() -> None:
    assert same_turn(at(0, 40, 25), ["it runs"] * 3, 0.86) == [None, None, 1]
    assert same_turn(at(0, 0, 0), ["on 1", "on 2", "on 2"], 0.86) == [None, None, 1]
    assert same_turn(at(0, 0, 0), ["on x_1", "on x_2", "is on x_1"], 0.86) == [None, None, 0]


def test_of_equally_alike_ones_the_first_is_joined() -> None:
    assert same_turn([[1, 0], [-1, 0], [0, 1]], ["it runs"] * 3, -1) == [None, 0, 0]
    assert same_turn([[1, 0], [0, 1], [1, 1]], ["it runs"] * 3, 0.7) == [None, None, 0]


def test_r46_11_different_numbers_keep_both() -> None:
    assert same_turn(at(0, 0), ["retries: 7", "retries: 8"], 0.86) == [None, None]
    assert decide("retries: 7", [("e", "retries: 8", 1.0)], 0.86) is None


def test_r46_12_different_identifiers_keep_both() -> None:
    assert same_turn(at(0, 0), ["uses OpenAI", "uses OpenBSD"], 0.86) == [None, None]
    assert decide("uses OpenAI", [("e", "uses OpenBSD", 1.0)], 0.86) is None


def test_r46_13_different_negation_keeps_both() -> None:
    assert same_turn(at(0, 0), ["the proxy is used", "the proxy isn't used"], 0.86) == [None, None]
    assert decide("der Proxy hilft", [("e", "der Proxy hilft nicht", 1.0)], 0.86) is None


@pytest.mark.parametrize("threshold", [None, False])
def test_r46_14_similarity_can_be_off(threshold: Threshold) -> None:
    assert same_turn(at(0, 0), ["a", "a"], threshold) == [None, None]
    assert decide("a", [("e", "a", 1.0)], threshold) is None


def test_a_threshold_of_zero_is_not_off() -> None:
    assert same_turn(at(0, 80), ["it runs"] * 2, 0.0) == [None, 0]
    assert decide("it runs", [("e", "it runs", 0.1)], 0) == "e"


def test_r46_10_the_most_similar_entry_is_corroborated() -> None:
    neighbours = [("1", "clock is late", 0.95), ("2", "The clock is late.", 0.9)]
    assert decide("the clock is late", neighbours, 0.86) == "1"
    assert decide("the clock is late", neighbours, 0.95) == "1"
    assert decide("the clock is late", neighbours, 0.96) is None
    assert decide("the clock is late", [], 0.86) is None


def test_r46_15_an_entry_that_differs_is_passed_over() -> None:
    neighbours = [("1", "7 minutes", 0.99), ("2", "8 minutes", 0.9), ("3", "8 minutes", 0.88)]
    assert decide("8 minutes", neighbours, 0.86) == "2"
    assert decide("8 minutes", neighbours, 0.95) is None


def test_unusable_vectors_are_like_nothing() -> None:
    vectors = [[0.0, 0.0], [0.0, 0.0], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, 0.0], [1.0, 0.0]]
    assert same_turn(vectors, ["a"] * 6, 0.1) == [None] * 6
    assert decide("a", [("e", "a", math.nan)], 0.1) is None
    assert same_turn([], [], 0.86) == []

"""The token budget: worked examples, and the promises that hold for any demands."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from casenotes.errors import UsageError
from casenotes.recall.budget import Demand, allocate

MANY = 1_000_000
LAYERS = (
    Demand("profile", 200, 1_500, MANY),
    Demand("observations", 500, 20_000, MANY),
    Demand("session", 100, 800, MANY),
    Demand("plan", 100, 3_000, MANY),
    Demand("episodic", 300, 6_000, MANY),
)


def test_r10_15_the_rest_is_divided_by_weight_when_all_have_their_minimum() -> None:
    assert allocate(1_200 + 301, LAYERS) == {
        "profile": 200 + 13,
        "observations": 500 + 195,
        "session": 100 + 7,
        "plan": 100 + 29,
        "episodic": 300 + 57,
    }


def test_everybody_gets_the_maximum_if_there_is_enough() -> None:
    assert allocate(128_000, LAYERS) == {layer.name: layer.max for layer in LAYERS}


def test_r10_14_minimums_that_do_not_fit_are_scaled_down_together() -> None:
    assert allocate(600, LAYERS) == {
        "profile": 100,
        "observations": 250,
        "session": 50,
        "plan": 50,
        "episodic": 150,
    }


def test_r10_16_what_a_layer_cannot_use_is_offered_again() -> None:
    demands = [Demand("a", 0, 1_000, 30), Demand("b", 0, 1_000, 250), Demand("c", 0, 1_000, MANY)]
    assert allocate(900, demands) == {"a": 30, "b": 250, "c": 620}


def test_a_layer_with_nothing_to_show_takes_nothing_of_the_minimums() -> None:
    demands = [Demand("plan", 100, 3_000, 0), Demand("profile", 200, 1_500, 150), Demand("rest", 300, 300, 300)]
    assert allocate(450, demands) == {"plan": 0, "profile": 150, "rest": 300}


def test_layers_without_weight_share_what_nobody_else_can_use() -> None:
    idle = [Demand("x", 10, 500, MANY, weight=0), Demand("y", 10, 500, 60, weight=0)]
    assert allocate(140, [*idle, Demand("z", 0, 100, 100)]) == {"x": 20, "y": 20, "z": 100}
    assert allocate(300, [*idle, Demand("z", 0, 100, 100)]) == {"x": 140, "y": 60, "z": 100}


def test_ties_go_to_the_first() -> None:
    demands = [Demand(name, 0, 9, 9) for name in "cab"]
    assert allocate(4, demands) == {"c": 2, "a": 1, "b": 1}
    assert allocate(5, demands) == {"c": 2, "a": 2, "b": 1}


def test_the_third_layer_keeps_its_share_where_largest_remainders_would_take_some_back() -> None:
    """Fair shares of 10 are 4.3, 4.3 and 1.4, of 11 they are 4.7, 4.7 and 1.6: remainders give 2, then 1."""
    demands = [
        Demand("a", 0, 99, 99, weight=6),
        Demand("b", 0, 99, 99, weight=6),
        Demand("c", 0, 99, 99, weight=2),
    ]
    assert allocate(10, demands) == {"a": 5, "b": 4, "c": 1}
    assert allocate(11, demands) == {"a": 5, "b": 5, "c": 1}


@pytest.mark.parametrize("total", [0, -1, -MANY])
def test_nothing_to_divide(total: int) -> None:
    assert allocate(total, LAYERS) == {layer.name: 0 for layer in LAYERS}
    assert allocate(total, []) == {}


def test_totals_of_any_size_are_divided_exactly() -> None:
    huge = 10**60
    demands = [Demand("a", 0, huge, huge, weight=0.1), Demand("b", 7, huge, huge, weight=0.3)]
    shares = allocate(huge, demands)
    assert sum(shares.values()) == huge
    assert abs((shares["b"] - 7) * Fraction(0.1) - shares["a"] * Fraction(0.3)) <= 1


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("min", -1, "budget of 'plan': min -1 is negative"),
        ("max", -2, "budget of 'plan': max -2 is negative"),
        ("need", -3, "budget of 'plan': need -3 is negative"),
        ("min", 3_001, "min 3001 is greater than max 3000"),
        ("weight", -0.5, "weight -0.5 is no number from 0 upwards"),
        ("weight", float("nan"), "weight nan is no number"),
        ("weight", float("inf"), "weight inf is no number"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: float, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        replace(LAYERS[3], **{field: value})


def test_a_name_stands_for_one_layer() -> None:
    with pytest.raises(UsageError, match="more than one budget for 'plan', 'session'; names must differ"):
        allocate(100, [LAYERS[3], LAYERS[2], LAYERS[3], LAYERS[0], LAYERS[2]])


def some_demands(most: int) -> st.SearchStrategy[list[Demand]]:
    weights = st.none() | st.integers(0, 9).map(float) | st.floats(0, 1e9, allow_subnormal=False)
    sizes = st.tuples(st.integers(0, most), st.integers(0, most)).map(sorted)
    demand = st.tuples(sizes, st.integers(0, most), weights)
    return st.lists(demand, max_size=7).map(
        lambda drawn: [
            Demand(f"layer {number}", low, high, need, weight)
            for number, ((low, high), need, weight) in enumerate(drawn)
        ]
    )


SMALL = some_demands(12)
ANY = some_demands(12) | some_demands(5_000) | some_demands(10**40)


def near(demands: list[Demand]) -> st.SearchStrategy[int]:
    """Totals around the points where something changes: where minimums and caps begin to fit."""
    points = [0, sum(min(d.min, d.cap) for d in demands), sum(d.cap for d in demands)]
    around = st.tuples(st.sampled_from(points), st.integers(-9, 9)).map(sum)
    return around | st.integers(0, points[-1] + 1)


def with_totals(demands: st.SearchStrategy[list[Demand]]) -> st.SearchStrategy[tuple[list[Demand], int]]:
    return demands.flatmap(lambda drawn: st.tuples(st.just(drawn), near(drawn)))


def token_key(demand: Demand, token: int) -> tuple[int, Fraction]:
    """When a layer gets its next token, counted from 1: the round, and how much it then has by its weight."""
    minimum = min(demand.min, demand.cap)
    weight = Fraction(demand.max - demand.min if demand.weight is None else demand.weight)
    if token <= minimum:
        return 0, Fraction(token, minimum)
    extra = token - minimum
    return (1, extra / weight) if weight else (2, Fraction(extra))


def one_by_one(total: int, demands: list[Demand]) -> dict[str, int]:
    """The same allocation, handed out token by token."""
    tokens = [(token_key(d, n), i) for i, d in enumerate(demands) for n in range(1, d.cap + 1)]
    given = [i for _, i in sorted(tokens)[: max(total, 0)]]
    return {demand.name: given.count(i) for i, demand in enumerate(demands)}


@given(with_totals(SMALL))
def test_it_gives_what_handing_out_tokens_one_by_one_would_give(drawn: tuple[list[Demand], int]) -> None:
    demands, total = drawn
    assert allocate(total, demands) == one_by_one(total, demands)


@given(with_totals(ANY))
def test_nothing_is_wasted_and_nothing_is_exceeded(drawn: tuple[list[Demand], int]) -> None:
    demands, total = drawn
    shares = allocate(total, demands)
    assert list(shares) == [demand.name for demand in demands]
    assert all(0 <= shares[demand.name] <= demand.cap for demand in demands)
    assert sum(shares.values()) == min(max(total, 0), sum(demand.cap for demand in demands))


@given(with_totals(ANY))
def test_minimums_are_honoured_when_they_fit_and_scaled_in_proportion_when_not(
    drawn: tuple[list[Demand], int],
) -> None:
    demands, total = drawn[0], max(drawn[1], 0)
    minimums = {demand.name: min(demand.min, demand.cap) for demand in demands}
    wanted = sum(minimums.values())
    shares = allocate(drawn[1], demands)
    for name, minimum in minimums.items():
        if total >= wanted:
            assert shares[name] >= minimum
        else:
            assert total * minimum // wanted <= shares[name] <= minimum


@given(with_totals(ANY), st.integers(1, 20) | st.integers(1, 10**40))
def test_a_larger_total_never_gives_a_layer_less(drawn: tuple[list[Demand], int], more: int) -> None:
    demands, total = drawn
    before, after = allocate(total, demands), allocate(total + more, demands)
    assert all(before[name] <= after[name] for name in before)


@given(SMALL)
def test_each_further_token_goes_to_one_layer_and_is_taken_from_none(demands: list[Demand]) -> None:
    total = sum(demand.cap for demand in demands)
    steps = [allocate(size, demands) for size in range(total + 1)]
    for before, after in pairwise(steps):
        assert sorted(after[name] - before[name] for name in after) == [0] * (len(demands) - 1) + [1]


@given(with_totals(ANY), st.data())
def test_needing_more_never_gives_less_and_never_gives_others_more(
    drawn: tuple[list[Demand], int], data: st.DataObject
) -> None:
    demands, total = drawn
    assume(demands)
    index = data.draw(st.integers(0, len(demands) - 1))
    needier = replace(demands[index], need=demands[index].need + data.draw(st.integers(1, 30)))
    before = allocate(total, demands)
    after = allocate(total, [*demands[:index], needier, *demands[index + 1 :]])
    assert after[needier.name] >= before[needier.name]
    assert all(after[name] <= before[name] for name in before if name != needier.name)


@given(with_totals(ANY), st.randoms(use_true_random=False))
def test_the_order_of_demands_decides_about_ties_only(drawn: tuple[list[Demand], int], random: object) -> None:
    demands, total = drawn
    shuffled = list(demands)
    random.shuffle(shuffled)
    one, other = allocate(total, demands), allocate(total, shuffled)
    differing = [demand for demand in demands if one[demand.name] != other[demand.name]]
    assert all(abs(one[demand.name] - other[demand.name]) == 1 for demand in differing)
    assert len({token_key(d, max(one[d.name], other[d.name])) for d in differing}) <= 1

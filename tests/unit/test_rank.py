"""Both rankers as pure functions. The golden numbers of `rrf-decay` were worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.config import SearchSettings
from casenotes.recall.lexical import LexicalIndex
from casenotes.recall.rank import (
    RANKERS,
    Ranked,
    Signals,
    Verbosity,
    is_anything_relevant,
    plain_words,
    rank_default,
    rank_rrf_decay,
    recency_factor,
)

DAY = 86_400.0
NOW = 1_000 * DAY
SETTINGS = SearchSettings()


def signals(
    lexical: list[float],
    vector: list[float],
    ages_days: list[float] | None = None,
    threads: list[int] | None = None,
) -> Signals:
    count = len(lexical)
    return Signals(
        ids=[f"m{n}" for n in range(count)],
        created=NOW - DAY * np.array(ages_days or [0.0] * count),
        threads=np.array(threads or range(count), dtype=np.int32),
        lexical=np.array(lexical, dtype=np.float32),
        vector=np.array(vector, dtype=np.float32),
        centred=np.array(vector, dtype=np.float32),
        from_user=np.zeros(count, dtype=np.bool_),
    )


def order(ranked: list[Ranked]) -> list[int]:
    return [item.position for item in ranked]


def test_recency_halves_with_each_half_life() -> None:
    assert recency_factor(0, 180) == 1
    assert recency_factor(180, 180) == 0.5
    assert recency_factor(360, 180) == 0.25
    assert recency_factor(-5, 180) == 1
    assert recency_factor(9_999, 0) == 1
    assert recency_factor(9_999, -1) == 1


def test_plain_words_are_lower_case_ascii_of_two_characters() -> None:
    assert plain_words("A Webhook, e-mail x2 über 401!") == ["webhook", "mail", "x2", "ber", "401"]


def test_rrf_decay_golden() -> None:
    # lexical list: m1, m0. vector list: m0, m2. m3 matches nothing, and m4's cosine is negative
    given = signals([1, 3, 0, 0, 0], [0.9, 0, 0.5, 0, -0.2], [0, 180, 360, 0, 180])
    ranked = rank_rrf_decay(given, 5, NOW, SETTINGS)
    assert order(ranked) == [0, 1, 2, 3, 4]
    finals = [item.scores.final for item in ranked]
    assert finals == pytest.approx(
        [
            (1 / 62 + 1 / 61) * 1.0,
            (1 / 61) * 0.5,
            (1 / 62) * 0.25,
            0.0001 * 1.0 * 1.0,
            0.0001 * 0.5 * 0.5,
        ],
        abs=1e-12,
    )
    assert ranked[0].scores.fused == pytest.approx(1 / 62 + 1 / 61)
    assert ranked[4].scores.vector == 0


def test_rrf_decay_lexical_score_golden() -> None:
    # words of two characters or more: red 2 times, fox once, of 4 words; the query names red twice
    index = LexicalIndex()
    ranker = RANKERS["rrf-decay"]
    index.add([ranker.terms("Red fox, a red box"), ranker.terms("blue")])
    scores = ranker.lexical(index, ranker.terms("red RED fox z"), SETTINGS)
    assert scores == pytest.approx([(2 + 2 + 1) / 2, 0])


def test_rrf_decay_breaks_ties_by_newer_time_then_id() -> None:
    given = signals([1, 1, 1], [0, 0, 0], [5, 1, 1])
    assert order(rank_rrf_decay(given, 3, NOW, SETTINGS)) == [1, 2, 0]
    without_decay = replace(SETTINGS, half_life_days=0)
    assert order(rank_rrf_decay(signals([0, 0], [0, 0], [9, 3]), 2, NOW, without_decay)) == [1, 0]


def test_default_puts_relevance_before_age() -> None:
    given = signals([5, 1], [0.8, 0.3], [900, 0])
    assert order(rank_default(given, 2, NOW, SETTINGS)) == [0, 1]
    assert order(rank_rrf_decay(given, 2, NOW, SETTINGS)) == [1, 0]


def test_default_lets_an_exact_word_win_where_nothing_is_similar() -> None:
    weak = signals([0, 5], [0.15, 0.05])
    assert order(rank_default(weak, 2, NOW, SETTINGS)) == [1, 0]
    strong = signals([0, 5], [0.6, 0.05])
    assert order(rank_default(strong, 2, NOW, SETTINGS)) == [0, 1]


def test_default_is_not_shaken_by_dissimilar_items() -> None:
    given = signals([0, 5, 1], [0.02, -0.4, -0.3])
    ranked = rank_default(given, 3, NOW, SETTINGS)
    assert order(ranked) == [1, 2]
    assert all(item.scores.fused >= 0 for item in ranked)


def test_default_breaks_near_ties_by_recency() -> None:
    assert order(rank_default(signals([2, 2], [0.5, 0.5], [400, 10]), 2, NOW, SETTINGS)) == [1, 0]


def test_default_scores_by_hand() -> None:
    (best, second) = rank_default(signals([4, 2], [0.25, 0.5], [0, 180]), 2, NOW, SETTINGS)
    # second item: 0.35 * 2/4 + 0.65 * 0.5/0.5 = 0.825; first: 0.35 + 0.65 * 0.5 = 0.675; each is its own thread
    assert (best.position, second.position) == (1, 0)
    assert best.scores.fused == pytest.approx(0.825 * 1.15, abs=1e-6)
    assert best.scores.final == pytest.approx(0.825 * 1.15 + 0.005 * 0.5, abs=1e-6)
    assert second.scores.fused == pytest.approx(0.675 * 1.15, abs=1e-6)
    assert second.scores.recency == 1


def test_default_gives_a_share_of_the_best_in_the_thread() -> None:
    alone = signals([9, 1, 1], [0, 0, 0], threads=[0, 1, 2])
    together = signals([9, 1, 1], [0, 0, 0], threads=[0, 1, 0])
    assert order(rank_default(alone, 3, NOW, SETTINGS)) == [0, 1, 2]
    assert order(rank_default(together, 3, NOW, SETTINGS)) == [0, 2, 1]


def test_default_says_nothing_where_nothing_is_relevant() -> None:
    assert rank_default(signals([0, 0], [0.1, -0.4]), 5, NOW, SETTINGS) == []
    assert order(rank_default(signals([0, 0], [0.1, 0.2]), 5, NOW, SETTINGS)) == [1]


def test_default_ranks_by_the_centred_similarity_and_reports_the_cosine() -> None:
    given = replace(signals([0, 0], [0.6, 0.5]), centred=np.array([0.1, 0.4], dtype=np.float32))
    ranked = rank_default(given, 2, NOW, SETTINGS)
    assert order(ranked) == [1, 0]
    assert [item.scores.vector for item in ranked] == pytest.approx([0.5, 0.6])


@pytest.mark.parametrize(("verbosity", "bonus"), [(0, 0), (0.5, 0), (1, 0), (2, 0.5), (4, 1), (40, 1)])
def test_default_favours_the_user_where_the_assistant_writes_much_more(verbosity: float, bonus: float) -> None:
    given = replace(signals([1, 1], [0.5, 0.5]), from_user=np.array([False, True]), verbosity=verbosity)
    first, second = rank_default(given, 2, NOW, SETTINGS)
    assert first.scores.fused - second.scores.fused == pytest.approx(1.15 * 0.08 * bonus, abs=1e-6)


def test_verbosity_is_the_ratio_of_mean_lengths() -> None:
    verbosity = Verbosity()
    assert verbosity.ratio == 0
    verbosity.count("user", 10)
    verbosity.count("user", 30)
    assert verbosity.ratio == 0
    for role, characters in (("assistant", 100), ("tool", 9_999), ("system", 9_999)):
        verbosity.count(role, characters)
    assert verbosity.ratio == 5


def test_words_and_meaning_together_decide_whether_anything_is_relevant() -> None:
    def relevant(cosines: list[float], coverage: list[float]) -> bool:
        return is_anything_relevant(cosines, np.array(coverage, dtype=np.float32), SETTINGS)

    assert relevant([0.1, 0.3], [0.2, 0.15])
    assert relevant([0.0], [1.0])
    assert not relevant([0.3, 0.1], [0.04, 0.2])
    assert not relevant([], [])


@pytest.mark.parametrize("name", ["default", "rrf-decay"])
def test_what_is_not_eligible_is_left_out(name: str) -> None:
    given = replace(signals([3, 2, 1], [0.5, 0.5, 0.5]), eligible=np.array([False, True, True]))
    for floor in (SETTINGS.vector_floor, -1):
        settings = replace(SETTINGS, vector_floor=floor)
        assert order(RANKERS[name].rank(given, 3, NOW, settings)) == [1, 2]


numbers = st.floats(0, 10, width=32)


@given(
    st.lists(st.tuples(numbers, st.floats(-1, 1, width=32), st.floats(0, 900)), min_size=1, max_size=30),
    st.integers(1, 40),
    st.sampled_from(["default", "rrf-decay"]),
)
def test_the_top_k_is_the_beginning_of_the_whole_order(
    items: list[tuple[float, float, float]], top_k: int, name: str
) -> None:
    given_signals = signals(*(list(column) for column in zip(*items, strict=True)))
    rank = RANKERS[name].rank
    everything = rank(given_signals, len(items), NOW, SETTINGS)
    assert rank(given_signals, top_k, NOW, SETTINGS) == everything[:top_k]
    finals = [item.scores.final for item in everything]
    assert finals == sorted(finals, reverse=True)

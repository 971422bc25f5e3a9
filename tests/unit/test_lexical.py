"""Lexical scores, with numbers worked out by hand."""

import math

import numpy as np
import pytest

from casenotes.recall.lexical import LexicalIndex


def filled(*documents: str) -> LexicalIndex:
    index = LexicalIndex()
    index.add([document.split() for document in documents])
    return index


def test_bm25_by_hand() -> None:
    index = filled("red red fox", "blue fox", "green")
    # three documents of 3, 2 and 1 terms: mean length 2; k1 1.5, b 0.75
    idf_red = math.log(1 + (3 - 1 + 0.5) / 1.5)
    norm = 1.5 * (1 - 0.75 + 0.75 * 3 / 2)
    assert index.bm25(["red"], 1.5, 0.75) == pytest.approx([idf_red * 2.5 * 2 / (2 + norm), 0, 0])


def test_a_repeated_query_term_counts_with_its_root() -> None:
    index = filled("red fox", "blue fox")
    once, four_times = index.bm25(["red"], 1.5, 0.9), index.bm25(["red"] * 4, 1.5, 0.9)
    assert four_times == pytest.approx(2 * once)


def test_several_terms_add_up() -> None:
    index = filled("red fox", "blue fox", "red blue")
    both = index.bm25(["red", "blue"], 1.5, 0.9)
    assert both == pytest.approx(index.bm25(["red"], 1.5, 0.9) + index.bm25(["blue"], 1.5, 0.9))
    assert int(np.argmax(both)) == 2


def test_adding_one_by_one_or_at_once_is_the_same() -> None:
    texts = ["red fox red", "blue", "", "fox fox fox green", "red green"]
    at_once, one_by_one = filled(*texts), LexicalIndex()
    for text in texts:
        one_by_one.add([text.split()])
    for query in (["red"], ["fox", "green"], ["none"], []):
        assert one_by_one.bm25(query, 1.5, 0.9).tolist() == at_once.bm25(query, 1.5, 0.9).tolist()
    assert len(one_by_one) == 5
    assert one_by_one.nbytes > 0


def test_word_counts_by_hand() -> None:
    index = filled("red fox red jumps", "blue fox")
    assert index.word_counts(["red", "fox"]) == pytest.approx([3 / 2, 1 / math.sqrt(2)])
    assert index.word_counts(["fox", "fox"]) == pytest.approx([2 / 2, 2 / math.sqrt(2)])
    assert index.word_counts(["none"]).tolist() == [0, 0]


def test_coverage_is_the_share_of_the_query_that_a_document_has() -> None:
    index = LexicalIndex()
    index.add([["disk", "full"], ["disk"], ["fan"], []])
    everything, half, nothing, empty = index.coverage(["disk", "full", "full"], [0, 1, 2, 3])
    assert everything == 1
    assert 0 < half < 0.5, "the rarer and repeated word weighs more"
    assert nothing == empty == 0
    assert index.coverage(["unknown"], [0]).tolist() == [0]
    assert index.coverage(["disk", "unknown"], [0])[0] == pytest.approx(0.41, abs=0.01)
    assert index.coverage([], [0]).tolist() == [0]
    assert index.coverage(["disk"], []).tolist() == []

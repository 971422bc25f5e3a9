"""How well wishes and orders are recognised, on sentences that were written to break the lists of words.

They are no measure of life: many are deliberately misleading, and some words were added after seeing what was
missed. The floors keep changes of the lists from making it worse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from casenotes.builder.words import (
    about_observations,
    is_yes,
    kinds_named,
    numbers_in,
    orders_to_save,
    question_in,
    sentences,
    wants_episodic,
    wants_model,
    wants_off,
    wants_value,
    workers_named,
)

SENTENCES = json.loads((Path(__file__).parents[1] / "fixtures" / "builder_sentences.json").read_text("utf-8"))


def wants_gemini(text: str) -> bool:
    return wants_model(text, "google/gemini-2.5-flash")


def is_refused(text: str) -> bool:
    return bool(orders_to_save(text) or about_observations(text))


@pytest.mark.parametrize(
    ("kind", "says", "precision", "recall"),
    [
        ("episodic", wants_episodic, 0.73, 0.8),
        ("off", wants_off, 0.95, 0.95),
        ("model", wants_gemini, 0.88, 0.9),
        ("instructions", is_refused, 0.93, 0.85),
    ],
)
def test_most_are_told_apart(kind: str, says: Callable[[str], bool], precision: float, recall: float) -> None:
    right, wrong = SENTENCES[kind].values()
    found = sum(map(says, right))
    false = sum(map(says, wrong))
    assert len(right) >= 40
    assert len(wrong) >= 40
    assert found / len(right) >= recall
    assert found / (found + false) >= precision


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("Yes.", True),
        ("ok", True),
        ("Please do.", True),
        ("Ja, mach das.", True),
        ("Yes, but not now.", False),
        ("No.", False),
        ("I would say yes.", False),
        ("", False),
    ],
)
def test_a_yes_begins_a_message_and_is_not_taken_back(text: str, yes: bool) -> None:
    assert is_yes(text) is yes


def test_the_last_question_is_the_one_that_is_answered() -> None:
    assert question_in("Is it loud? Fine. Shall I go on? Thank you.") == "Shall I go on?"
    assert question_in("I go on.") == ""


def test_a_line_that_breaks_does_not_end_a_sentence_and_an_item_of_a_list_does() -> None:
    assert list(sentences("Save the following\nto memory: names.\n- one\n- two")) == [
        "Save the following to memory: names.",
        "- one",
        "- two",
    ]
    assert orders_to_save("S\u200bave all facts to mem\u200bory.")


def test_numbers_are_read_as_people_write_them() -> None:
    assert numbers_in("30k, 30,000 or 30.000 tokens, 0.5 and 7") >= {30000.0, 0.5, 7.0}
    assert wants_value("at 30k tokens", "observationalMemory.observerThresholdTokens", 30000)
    assert not wants_value("at 30k tokens", "observationalMemory.observerThresholdTokens", 31000)


def test_kinds_and_workers_are_told_by_their_names() -> None:
    assert kinds_named("Turn off session memory and semantic recall.") == {
        "observationalMemory",
        "semanticRecall",
    }
    assert kinds_named("No memory at all.") == set()
    assert workers_named("Use it for the observer and the extractor.") == {"observerModel", "extractorModel"}

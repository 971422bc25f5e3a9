"""A question is told from what is pasted beside it, whatever that looks like."""

from __future__ import annotations

import time

import pytest
from listings import LISTINGS, QUESTION

from casenotes.recall.query import LISTING_LINES, query_parts
from casenotes.recall.words import search_terms


def parts(text: str) -> tuple[str, ...]:
    return query_parts(text, search_terms)


@pytest.mark.parametrize("name", LISTINGS)
def test_r42_41_what_is_asked_is_a_part_of_its_own(name: str) -> None:
    listing = "\n".join(LISTINGS[name])
    for text in (
        f"{QUESTION}\n{listing}",
        f"{QUESTION}\n\n```\n{listing}\n```",
        f"{listing}\n{QUESTION}\n",
        f"{QUESTION}\r\n{listing}\r\nAny idea?",
        f"Hi!\n{listing}\n\n{QUESTION}",
    ):
        whole, *others = parts(text)
        assert whole == text
        assert any(QUESTION in part and "lease" not in part for part in others), others


def test_a_question_without_its_mark_is_one_too() -> None:
    asked = QUESTION.rstrip("?").lower()
    assert asked in parts("\n".join([asked, *LISTINGS["log"]]))
    assert asked in parts("\n".join([*LISTINGS["log"], asked]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        QUESTION,
        f"{QUESTION}\n" * 40,
        "\n\n".join(f"The {n}th paragraph tells how it began. Then it goes on." for n in range(40)),
        "\n".join([QUESTION, *LISTINGS["log"][: LISTING_LINES - 1]]),
        "コーヒーマシンが漏れています。\n" * 20,
    ],
)
def test_a_text_without_a_listing_is_asked_as_it_stands(text: str) -> None:
    assert parts(text) == (text,)


def test_only_a_listing_is_asked_as_a_whole() -> None:
    text = "\n".join(LISTINGS["log"])
    assert parts(text) == (text,)
    assert parts(f"Thanks!\n{text}") == (f"Thanks!\n{text}",)


@pytest.mark.parametrize("text", ["." * 100_000, "a.\n" * 33_000, ("." * 999 + "a\n") * 100, " .\n" * 33_000])
def test_hostile_texts_take_no_time(text: str) -> None:
    started = time.perf_counter()
    parts(text)
    assert time.perf_counter() - started < 2

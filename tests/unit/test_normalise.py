"""The stored form of an entry's text."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.learn.normalise import collapse, content_hash, cut, is_visible


def test_r46_02_whitespace_is_collapsed() -> None:
    assert collapse(" a\t b\n\n\u3000c\xa0 ") == "a b c"
    assert collapse(" \n ") == ""


def test_r46_03_content_is_cut_at_a_word_if_one_ends_near() -> None:
    assert cut("one two three", 13) == "one two three"
    assert cut("one two three", 12) == "one two"
    assert cut("one two three", 7) == "one two"
    assert cut("one two three", 8) == "one two"
    assert cut("one two three", 3) == "one"
    assert cut("one two three", 2) == "on"
    assert cut("one two three", 0) == "o"
    assert cut("a bcd", 3) == "a"
    assert cut("x" * 50 + " " + "y" * 50, 90) == "x" * 50
    assert cut("x" * 50 + " " + "y" * 50, 91) == "x" * 50 + " " + "y" * 40
    assert cut("漢" * 50, 20) == "漢" * 20
    assert cut("", 0) == ""
    assert cut("  ab", 2) == "  "
    assert cut("a  bc", 4) == "a"


@given(st.text(max_size=120), st.integers(1, 120))
def test_r46_03_a_cut_is_a_beginning_and_never_empty(text: str, limit: int) -> None:
    given_text = collapse(text)
    shortened = cut(given_text, limit)
    assert given_text.startswith(shortened)
    assert len(shortened) <= limit
    assert bool(shortened) == bool(given_text)


def test_r46_05_the_hash_is_of_the_lower_cased_collapsed_text() -> None:
    expected = hashlib.sha256(b"the clock is late").hexdigest()
    assert content_hash("  The CLOCK\n is\tlate ") == expected
    assert content_hash("the clock was late") != expected
    assert len(content_hash("\ud800")) == 64


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_r46_05_blank_texts_have_one_hash(text: str) -> None:
    assert content_hash(text) == hashlib.sha256(b"").hexdigest()


def test_r46_04_what_nobody_sees_is_empty() -> None:
    assert is_visible(".")
    assert is_visible("\u200ba\u200b")
    assert not is_visible("")
    assert not is_visible(" \u200b\u00ad \u2060\x00\ufeff\u3000")

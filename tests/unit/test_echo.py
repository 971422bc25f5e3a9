"""The echo guard: 8 consecutive words or 40 characters of what was shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.learn.echo import EchoGuard, _hashes

SHOWN = "Webhooks fail with 401 as the clock of pay-2 is seven minutes late"


def test_r44_07_eight_words_in_a_row_are_an_echo() -> None:
    guard = EchoGuard(["x", "a b c d e f g h i j"])
    assert guard.is_echo("so a b c d e f g h.")
    assert guard.is_echo("c d e f g h i j")
    assert not guard.is_echo("a b c d e f g")
    assert not guard.is_echo("a b c d e f g x h i j")
    assert not guard.is_echo("b a c d e f g h j i")
    assert not guard.is_echo("xa b c d e f g h")
    assert not guard.is_echo("a b c d e f g hx")


def test_r44_07_punctuation_around_words_does_not_hide_an_echo() -> None:
    guard = EchoGuard(["one, two (three) *four* five six seven eight"])
    assert guard.is_echo("**one** two - three four five six:  seven\neight!")
    assert not guard.is_echo("one two three four five six sev en eight")


def test_words_keep_what_is_inside_them() -> None:
    assert not EchoGuard(["a b-c d e'f g h i j"]).is_echo("b c d e f g h i")


def test_r44_08_forty_characters_are_an_echo() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(60))
    guard = EchoGuard([text])
    assert guard.is_echo("x" + text[20:60] + "x")
    assert guard.is_echo(text[:40])
    assert not guard.is_echo(text[:39] + "x")
    assert not guard.is_echo("x" + text[21:60])


def test_r44_09_case_and_quotation_marks_do_not_matter() -> None:
    guard = EchoGuard(["the USER\u2019s key \u2013 straße \xab1\xbb is late again"])
    assert guard.is_echo('The user\'s Key - STRASSE "1" is late again')
    assert EchoGuard(["\ud800" * 40]).is_echo("\ud800" * 40)
    assert EchoGuard(["\u201c" + "A" * 39]).is_echo('"' + "a" * 39)


@pytest.mark.parametrize("quote", ["", " ", "Webhooks fail with 401", "the clock of pay-2 is seven", "." * 39])
def test_r44_10_less_is_no_echo(quote: str) -> None:
    assert not EchoGuard([SHOWN, "." * 39]).is_echo(quote)


def test_r44_10_a_short_text_shown_is_never_echoed() -> None:
    assert not EchoGuard(["The clock is late"]).is_echo("The clock is late")
    assert not EchoGuard([]).is_echo(SHOWN)
    assert not EchoGuard([""]).is_echo(SHOWN)


def test_r44_10_two_texts_shown_do_not_join() -> None:
    assert not EchoGuard(["a b c d", "e f g h"]).is_echo("a b c d e f g h")
    halves = ["\u4e00" * 20, "\u4e8c" * 20]
    assert not EchoGuard(halves).is_echo("".join(halves))


def common(a: str, b: str, length: int) -> bool:
    return any(a[i : i + length] in b for i in range(len(a) - length + 1))


@given(st.lists(st.text("ab", max_size=60), max_size=4), st.text("ab", max_size=60))
def test_r44_08_characters_as_by_comparing_all(shown: list[str], quote: str) -> None:
    assert EchoGuard(shown).is_echo(quote) == any(common(quote, text, 40) for text in shown)


words = st.lists(st.sampled_from("ab"), max_size=16)


@given(st.lists(words, max_size=4), words)
def test_r44_07_words_as_by_comparing_all(shown: list[list[str]], quote: list[str]) -> None:
    runs = [tuple(text[i : i + 8]) for text in shown for i in range(len(text) - 7)]
    expected = any(tuple(quote[i : i + 8]) in runs for i in range(len(quote) - 7))
    assert EchoGuard([" ".join(text) for text in shown]).is_echo(" ".join(quote)) == expected


def test_runs_are_told_apart_by_their_hashes() -> None:
    for units in ("abcdab", list("abcdab")):
        hashes = _hashes(units, 2)
        assert hashes.dtype == "uint64"
        assert hashes[0] == hashes[4]
        assert len(set(hashes.tolist())) == 4
        assert _hashes(units[:1], 2).tolist() == _hashes(units[:0], 3).tolist() == []


def test_many_large_texts_are_bounded() -> None:
    shown = ["".join(chr(97 + (i * j * j) % 23) for j in range(2_000)) for i in range(300)]
    guard = EchoGuard([*shown, "a" * 30 + "b"] + ["a" * 30 + chr(0x4E00 + i) for i in range(500)])
    assert not guard.is_echo(("a" * 30 + "z ") * 300)
    assert guard.is_echo("z" * 5_000 + shown[7][100:140])


def test_r44_12_markdown_marks_and_decomposed_letters_hide_no_echo() -> None:
    guard = EchoGuard(["the caf\xe9's clock is seven whole minutes late"])
    assert guard.is_echo("the **cafe\u0301's** clock\nis `seven` whole minutes _late_")

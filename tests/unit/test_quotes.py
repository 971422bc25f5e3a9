"""Finding quotes: exact up to the character map, with offsets into the original text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from casenotes.learn.quotes import MappedText, alike, is_too_short, map_text, without_unseen

SPECIAL = "\u2019'\u201c\"\u2013-\u2212\xa0\u3000\t\n\r \u200b\xad\u202e\ufe0f\ufeff\U000e0041\x1bＡAaéß漢 한"
texts = st.text(st.sampled_from(SPECIAL) | st.characters(exclude_categories=["Cs"]), max_size=60)


def found(text: str, quote: str) -> str | None:
    span = MappedText(text).find(quote)
    return text[slice(*span)] if span else None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("the user\u2019s key", "the user's key"),
        ("the user's key", "the user\u2019s key"),
        ("\u201cno space\u201d left", '"no space" left'),
        ("\xabno space\xbb left", '"no space" left'),
        ("5\u2032 and 6\u2033", "5' and 6\""),
        ("a\u2013b \u2014 c\u2212d", "a-b - c-d"),
        ("non\u2011breaking\u2010hyphen", "non-breaking-hyphen"),
        ("one\xa0two\tthree\nfour\u3000five\u2003six", "one two three four five six"),
        ("one\r\ntwo", "one\ntwo"),
        ("zero\u200bwid\u2060th so\xadft \u202eright\u202c", "zerowidth soft right"),
        ("warning \u26a0\ufe0f sign", "warning \u26a0 sign"),
        ("\ufefftagged\U000e0041\U000e007f text", "tagged text"),
        ("two  blanks\n\n here", "two blanks here"),
        ("two \u200b blanks", "two blanks"),
        ("caf\xe9 is closed", "cafe\u0301 is closed"),
        ("caf\xe9 is closed", "cafe\u200b\u0301 is closed"),
        ("M\xe1y ch\u1ee7 b\u1ecb l\u1ed7i", unicodedata.normalize("NFD", "M\xe1y ch\u1ee7 b\u1ecb l\u1ed7i")),
        ("서버가 다운되었습니다", unicodedata.normalize("NFD", "서버가 다운되었습니다")),
        ("für Größen über", unicodedata.normalize("NFD", "für Größen über")),
        ("l\u0323\u0307 two marks", "l\u0307\u0323 two marks"),
        ("273 \u212a is cold", "273 K is cold"),
    ],
)
def test_r45_11_like_characters_match_on_both_sides(text: str, quote: str) -> None:
    assert map_text(text) == map_text(quote)
    assert found(text, quote) is not None
    assert found(quote, text) is not None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("the server is down", "the ｓerver is down"),
        ("the server is down", "the s\u0435rver is down"),
        ("the \ufb01le is missing", "the file is missing"),
        ("port ８０８０ is open", "port 8080 is open"),
        ("caf\xe9 is closed", "cafe is closed"),
        ("two blanks here", "twoblanks here"),
        ("x\xb2 is wrong", "x2 is wrong"),
        ("it\u2026 stopped", "it... stopped"),
        ("straße", "strasse"),
        ("a＜b", "a<b"),
        ("run `ls` now", "run 'ls' now"),
        ('5" wide', "5' wide"),
    ],
)
def test_r45_12_what_a_reader_can_tell_apart_does_not_match(text: str, quote: str) -> None:
    assert found(text, quote) is None
    assert found(quote, text) is None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("so **the disk** is full", "so the disk is full"),
        ("so the *disk* is __full__", "so the disk is full"),
        ("so ~~the~~ `disk` is full", "so the disk is full"),
        ("so **_the_ disk** is\nfull", "so the disk is full"),
        ("so:\n\n- the disk\n- is full", "so: the disk is full"),
        ("so:\n\n- the disk\n- is full", "so: - the disk - is full"),
        ("so:\r\n  * the disk\r\n  + is full", "so: the disk is full"),
        ("# Disk\n\n> it is full\n> now", "Disk it is full now"),
        ("run\n```bash\ndf -h /tmp\n```\n\nfirst", "run df -h /tmp first"),
    ],
)
def test_r45_28_markdown_marks_may_be_missing_on_either_side(text: str, quote: str) -> None:
    assert found(text, quote) is not None
    assert found(quote, text) is not None
    assert found(f"well, {text}.", quote) is not None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("set no_proxy to it", "set noproxy to it"),
        ("it is 2*3 in all", "it is 23 in all"),
        ("it is 2 * 3 in all", "it is 2 3 in all"),
        ("the sum is 5 - 3 now", "the sum is 5 3 now"),
        ("if a > b then stop", "if a b then stop"),
        ("ticket #12 is open", "ticket 12 is open"),
        ("1. first 2. second", "first second"),
        ("about ~5 of them", "about 5 of them"),
    ],
)
def test_r45_12_marks_that_are_no_markdown_stay(text: str, quote: str) -> None:
    assert found(text, quote) is None
    assert found(quote, text) is None


def test_r45_13_a_quote_never_parts_a_letter_from_its_marks() -> None:
    assert found("the cafe\u0301 is closed", "the cafe") is None
    assert found("the cafe\u0301 is closed", "\u0301 is closed") is None
    assert found("the cafe\u0301 is closed", "the caf\xe9") == "the cafe\u0301"
    assert found("an x\u0302 and an x here", "an x") == "an x"
    assert MappedText("an x\u0302 and an x here").find("an x") == (10, 14)
    assert found("นี่คือเซิร์ฟเวอร์", "นี่คือเซ") is None
    assert found("**the disk** is full", "disk** is") == "disk** is"
    assert found("**the disk** is full", "the disk is") == "the disk** is"


def test_r45_10_case_must_be_equal() -> None:
    assert found("The server is down", "the server is down") is None


def test_r45_13_offsets_leave_out_what_surrounds_the_quote() -> None:
    text = "so: \u200b\u201cdisk\u200b full\u201d\u200b\xa0 now"
    assert MappedText(text).find(' "disk full"\u200b ') == (5, 17)
    assert text[5:17] == "\u201cdisk\u200b full\u201d"
    assert MappedText("abc").find("abc") == (0, 3)
    assert MappedText("abc abc").find("abc") == (0, 3)
    assert MappedText("\u200babc").find("abc") == (1, 4)
    assert MappedText("a\u200b\u200bb\r\nc").find("b c") == (3, 7)
    assert MappedText("a\u200b\u200bb\r\nc").find("a") == (0, 1)


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u200b", "\xad \ufeff", "\x00"])
def test_a_blank_quote_is_nowhere(blank: str) -> None:
    assert MappedText(" \u200b text").find(blank) is None
    assert MappedText("").find(blank) is None


def test_r45_14_a_replaced_span_counts_whole() -> None:
    text = "the key hunter2 and tok\u200bEN are mine"
    mapped = MappedText(text, [(16, 16 + 4, "and"), (8, 15, "[secret \u2014 1]"), (20, 26, "<2>")])
    assert mapped.mapped == "the key [secret - 1] and<2> are mine"
    assert mapped.original == text
    for quote, original in {
        "key [secret - 1] and": "key hunter2 and ",
        "the key [secret": "the key hunter2",
        "1] and": "hunter2 and ",
        "secret": "hunter2",
        "<2> are": "tok\u200bEN are",
        "are mine": "are mine",
        "the key": "the key",
    }.items():
        span = mapped.find(quote)
        assert span
        assert text[slice(*span)] == original
    assert mapped.find("hunter2") is None
    assert mapped.find("hunter") is None


def test_replaced_spans_must_lie_in_the_text_side_by_side() -> None:
    for wrong in [[(0, 3, ""), (2, 4, "")], [(3, 2, "")], [(0, 9, "")], [(-1, 2, "")]]:
        with pytest.raises(ValueError, match="replaced span"):
            MappedText("12345", wrong)
    assert MappedText("12345", [(0, 2, "x"), (2, 5, "y")]).mapped == "xy"
    assert MappedText("12345", [(5, 5, "!")]).find("5!") == (4, 5)


def test_r45_15_a_quote_of_less_than_12_characters_is_short() -> None:
    assert is_too_short("twelve char")
    assert not is_too_short("twelve chars")
    assert is_too_short("  eleven char\u200b\n ")
    assert is_too_short("")


@pytest.mark.parametrize("character", "漢字ひカ한ｶᄀ々𠀀")
def test_r45_16_with_cjk_less_than_6_characters_are_short(character: str) -> None:
    assert is_too_short(character + "1234")
    assert not is_too_short(character + "12345")


@pytest.mark.parametrize("character", "éяשกα\u3001\uff21")
def test_other_scripts_need_12_characters(character: str) -> None:
    assert is_too_short(character * 11)


def test_r45_15_the_whole_message_is_recognised() -> None:
    assert MappedText(" Yes\u200b, it\u2019s\n").is_whole("Yes, it's")
    assert not MappedText("Yes, it's so").is_whole("Yes, it's")
    assert not MappedText("Yes").is_whole("yes")


@given(texts)
def test_mapping_twice_is_mapping_once(text: str) -> None:
    assert map_text(map_text(text)) == map_text(text)
    assert len(alike(text)) == len(text)
    assert map_text(text) == re.sub(" +", " ", alike(unicodedata.normalize("NFC", without_unseen(text))))


@given(texts)
def test_r45_11_canonically_equivalent_texts_are_one(text: str) -> None:
    assert map_text(unicodedata.normalize("NFD", text)) == map_text(unicodedata.normalize("NFC", text))


@given(texts, texts)
def test_r45_11_the_map_is_symmetric(a: str, b: str) -> None:
    assert (MappedText(a).find(b) is not None and MappedText(a).is_whole(b)) == (
        MappedText(b).find(a) is not None and MappedText(b).is_whole(a)
    )


@given(texts, st.integers(0, 60), st.integers(0, 60))
def test_r45_13_offsets_give_any_slice_back(text: str, a: int, b: int) -> None:
    assume(all(unicodedata.category(c)[0] != "M" and not "\u1100" <= c <= "\u11ff" for c in text))
    quote = text[min(a, b) : max(a, b)]
    span = MappedText(text).find(quote)
    if not map_text(quote).strip(" "):
        assert span is None
    else:
        assert span
        assert map_text(text[slice(*span)]) == map_text(quote).strip(" ")
        assert map_text(text[span[0]])
        assert map_text(text[span[1] - 1])


@given(st.text("abc \u200b\u2019'漢", min_size=1, max_size=30), st.data())
def test_r45_14_offsets_hold_with_spans_replaced(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    mapped = MappedText(text, [(start, end, "[X]")])
    assert mapped.mapped == map_text(text[:start]) + "[X]" + map_text(text[end:])
    span = mapped.find("[X]")
    assert span == (start, end)
    before, after = mapped.mapped[: mapped.mapped.index("[")], mapped.mapped[mapped.mapped.index("]") + 1 :]
    if before.strip():
        assert (mapped.find(before + "[") or ())[1] == end
    if after.strip():
        assert (mapped.find("]" + after) or ())[0] == start


@given(
    st.text(st.characters(categories=["Lu", "Ll", "Nd", "Zs", "Po"]), min_size=12, max_size=40),
    st.integers(0, 39),
    st.characters(categories=["Lu", "Ll", "Nd"]),
)
def test_r45_09_a_changed_letter_is_never_found(text: str, position: int, other: str) -> None:
    assume(position < len(text) and text[position].isalnum() and map_text(text[position]) != map_text(other))
    forged = text[:position] + other + text[position + 1 :]
    assert MappedText(text).find(forged) is None


def test_format_characters_that_are_drawn_stay() -> None:
    for character in "\u0600\u06dd\u070f":
        assert unicodedata.category(character) == "Cf"
        assert map_text(character) == character


def test_a_large_hostile_text_takes_no_time() -> None:
    for text in (
        "a" * 1_000_000,
        "a\u200b" * 500_000,
        "\u200b" * 1_000_000,
        "ab" * 500_000 + "!",
        "\r" * 1_000_000,
        "a" + "\u0301\u0323" * 500_000,
        "e\u0301" * 250_000,
        "* " * 500_000,
        "\n- " * 250_000,
        "```\n" * 250_000,
    ):
        mapped = MappedText(text)
        assert mapped.find("a" * 5_000 + "b") is None

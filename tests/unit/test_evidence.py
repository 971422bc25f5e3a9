"""The judgement of candidates: quotes in one allowed message, no echoes, values that somebody named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.learn.candidate import Candidate
from casenotes.learn.echo import EchoGuard
from casenotes.learn.evidence import ALLOWED_ROLES, Passage, Verdict, judge
from casenotes.learn.quotes import MappedText
from casenotes.types import Evidence, Role

USER, ACCEPTED, FINDING = ALLOWED_ROLES
NO_ECHO = EchoGuard([])


def said(role: Role, text: str, message_id: str = "m") -> Passage:
    return Passage(message_id, role, MappedText(text))


def verdict(
    source: str,
    quotes: str | tuple[str, ...],
    *turn: Passage,
    content: str = "a fact",
    context: tuple[Passage, ...] = (),
    shown: tuple[str, ...] = (),
) -> Verdict:
    given = (quotes,) if isinstance(quotes, str) else quotes
    return judge(Candidate(content, source, given), turn, context, EchoGuard(shown))


def test_r45_01_a_user_assertion_quotes_the_user() -> None:
    text = "so the clock is seven minutes late"
    assert verdict(USER, "the clock is seven", said("user", text, "u")) == Verdict(
        (Evidence("u", 3, 21, "the clock is seven"),), "", ""
    )
    refused = verdict(USER, "the clock is seven", said("assistant", text))
    assert refused == Verdict((), "evidence_wrong_role", "the clock is seven")


def test_r45_02_an_accepted_proposal_quotes_the_user() -> None:
    proposal, answer = said("assistant", "shall we restart ntpd?", "a"), said("user", "Yes, it helped.", "u")
    assert verdict(ACCEPTED, "Yes, it helped.", proposal, answer).evidence[0].message_id == "u"
    assert verdict(ACCEPTED, "shall we restart ntpd?", proposal, answer).reason == "evidence_wrong_role"


def test_r45_03_a_finding_quotes_the_assistant_or_the_user() -> None:
    turn = said("user", "yes, the skew was it", "u"), said("assistant", "the clock skew is the cause", "a")
    assert verdict(FINDING, "the clock skew is", *turn).evidence[0].message_id == "a"
    assert verdict(FINDING, "the skew was it", *turn).evidence[0].message_id == "u"


@pytest.mark.parametrize("source", ["", "USER_ASSERTION", "user_assertion ", "assistant", "tool_output"])
def test_r45_04_an_unknown_label_is_refused(source: str) -> None:
    given = verdict(source, "the clock is late", said("user", "the clock is late"))
    assert given == Verdict((), "source_invalid", source)


@pytest.mark.parametrize(
    "quotes", [(), ("",), (" \n",), ("\u200b",), ("the clock is late", ""), ("", "the clock is late")]
)
def test_r45_05_no_quote_is_refused(quotes: tuple[str, ...]) -> None:
    assert verdict(USER, quotes, said("user", "the clock is late")) == Verdict((), "evidence_missing", "")


def test_r45_06_every_quote_must_be_found() -> None:
    turn = said("user", "the clock is late", "1"), said("user", "the proxy is broken", "2")
    both = verdict(USER, ("the clock is late", "proxy is broken"), *turn)
    assert [(e.message_id, e.quote) for e in both.evidence] == [
        ("1", "the clock is late"),
        ("2", "proxy is broken"),
    ]
    one = verdict(USER, ("the clock is late", "proxy is working"), *turn)
    assert one == Verdict((), "evidence_not_found", "proxy is working")


def test_the_same_quote_twice_is_one_evidence() -> None:
    given = verdict(USER, ("the clock is late", " the clock is late "), said("user", "the clock is late"))
    assert len(given.evidence) == 1


def test_r45_07_a_quote_never_spans_two_messages() -> None:
    turn = said("user", "the clock is"), said("user", " seven minutes late")
    assert verdict(USER, "the clock is seven minutes late", *turn).reason == "evidence_not_found"


@pytest.mark.parametrize("role", ["tool", "system"])
@pytest.mark.parametrize("source", list(ALLOWED_ROLES))
def test_r45_08_tool_and_system_messages_are_no_evidence(role: Role, source: str) -> None:
    given = verdict(source, "the clock is late", said("user", "look at it"), said(role, "the clock is late"))
    assert given.reason == "evidence_wrong_role"
    assert given.evidence == ()


def test_r44_05_a_context_message_is_no_evidence() -> None:
    before = said("user", "the clock is late")
    assert verdict(USER, "the clock is late", said("user", "yes, so it is"), context=(before,)) == Verdict(
        (), "evidence_in_context", "the clock is late"
    )
    in_both = verdict(USER, "the clock is late", said("assistant", "the clock is late"), context=(before,))
    assert in_both.reason == "evidence_wrong_role"


@given(st.integers(0, 30), st.sampled_from("abcdefghijklmnopqrstuvwxyzABCZ0123456789"))
def test_r45_09_a_one_character_forgery_is_refused(position: int, other: str) -> None:
    text = "The clock of the gateway is 7 minutes late"
    forged = text[:position] + other + text[position + 1 :]
    given = verdict(USER, forged, said("user", text))
    assert given.reason == ("" if forged == text else "evidence_not_found")


@pytest.mark.parametrize("change", [(4, "clocks"), (4, "block"), (0, "the"), (25, "")])
def test_r45_09_added_and_missing_characters_are_refused(change: tuple[int, str]) -> None:
    text = "The clock of the gateway is late"
    position, new = change
    forged = text[:position] + new + text[position + len(new) :]
    assert verdict(USER, forged + "!", said("user", text)).reason == "evidence_not_found"


def test_r45_13_the_evidence_is_the_original_text() -> None:
    text = "He said \u201cno\u200b space\u201d \u2013 twice"
    given = verdict(USER, '"no space" - twice', said("user", text))
    assert given.evidence == (Evidence("m", 8, 27, "\u201cno\u200b space\u201d \u2013 twice"),)
    assert text[8:27] == given.evidence[0].quote


def test_r45_14_a_placeholder_in_a_quote_stands_for_the_secret() -> None:
    text = "the key hunter2 is leaked"
    passage = Passage("m", "user", MappedText(text, [(8, 15, "[secret-1]")]))
    given = verdict(USER, "key [secret-1] is leaked", passage, content="[secret-1] leaked")
    assert given.evidence == (Evidence("m", 4, 25, "key hunter2 is leaked"),)
    assert verdict(USER, "key hunter2 is leaked", passage).reason == "evidence_not_found"
    assert verdict(USER, "key [secret-1] is leaked", passage, content="hunter2").reason == "unsupported"


def test_r45_15_a_short_quote_must_be_the_whole_message() -> None:
    assert verdict(USER, "yes.", said("user", " yes.\n")).evidence == (Evidence("m", 1, 5, "yes."),)
    assert verdict(USER, "yes", said("user", "yes, it is")) == Verdict((), "evidence_too_short", "yes")
    assert verdict(USER, "the clock i", said("user", "the clock is late")).reason == "evidence_too_short"
    assert verdict(USER, "the clock is", said("user", "the clock is late")).reason == ""
    assert verdict(USER, "nowhere", said("user", "yes, it is")).reason == "evidence_too_short"


def test_r45_15_a_short_quote_may_be_whole_in_a_later_message() -> None:
    turn = said("user", "yes, maybe", "1"), said("user", "yes", "2")
    assert verdict(USER, "yes", *turn).evidence[0].message_id == "2"
    assert verdict(USER, "yes", said("assistant", "yes")).reason == "evidence_wrong_role"
    assert verdict(USER, "yes", context=(said("user", "yes"),)).reason == "evidence_in_context"


def test_r45_16_a_quote_with_cjk_may_be_shorter() -> None:
    assert verdict(USER, "時計が遅れる", said("user", "あの時計が遅れるんです")).reason == ""
    assert verdict(USER, "時計が遅れ", said("user", "あの時計が遅れるんです")).reason == "evidence_too_short"


@pytest.mark.parametrize("label", [FINDING])
def test_r45_27_the_user_is_preferred_then_the_earlier_message(label: str) -> None:
    roles: list[Role] = ["assistant", "user", "user", "assistant"]
    turn = [said(role, "the clock is late", str(i)) for i, role in enumerate(roles)]
    assert verdict(label, "the clock is late", *turn).evidence[0].message_id == "1"
    assistants = [passage for passage in turn if passage.role == "assistant"]
    assert verdict(label, "the clock is late", *assistants).evidence[0].message_id == "0"


SHOWN = "the clock of the gateway is seven minutes late"


def test_r44_12_an_echo_of_the_assistant_is_refused() -> None:
    given = verdict(FINDING, SHOWN, said("assistant", f"As I know, {SHOWN}."), shown=(SHOWN,))
    assert given == Verdict((), "echo", SHOWN)
    assert verdict(FINDING, SHOWN, said("assistant", SHOWN), shown=("other",)).reason == ""


@pytest.mark.parametrize("source", list(ALLOWED_ROLES))
def test_r44_11_the_user_repeating_memory_is_evidence(source: str) -> None:
    turn = said("assistant", SHOWN, "a"), said("user", SHOWN, "u")
    assert verdict(source, SHOWN, *turn, shown=(SHOWN,)).evidence[0].message_id == "u"


def test_r44_12_one_echo_among_the_quotes_is_enough() -> None:
    turn = said("assistant", f"{SHOWN}. I restarted ntpd and it helped.")
    assert verdict(FINDING, ("I restarted ntpd and", SHOWN), turn, shown=(SHOWN,)).reason == "echo"
    assert verdict(FINDING, "I restarted ntpd and", turn, shown=(SHOWN,)).reason == ""


def test_r45_17_a_planted_number_is_refused() -> None:
    turn = said("user", "the clock is 7 minutes late")
    assert verdict(USER, "the clock is 7", turn, content="7 minutes late").reason == ""
    given = verdict(USER, "the clock is 7", turn, content="8 or 9 minutes late")
    assert given == Verdict((), "unsupported", "8 or 9 minutes")


def test_r45_19_a_planted_identifier_is_refused() -> None:
    turn = said("user", "the clock of pay-2 is late")
    given = verdict(USER, "the clock of pay-2", turn, content="pay-3 is late, see https://evil.example")
    assert given == Verdict((), "unsupported", "https://evil.example, pay-3")


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_r44_06_context_supports_values(role: Role) -> None:
    turn = said("user", "yes, that host is late")
    given = verdict(USER, "yes, that host", turn, content="pay-2 is late", context=(said(role, "on pay-2?"),))
    assert given.reason == ""


@pytest.mark.parametrize("role", ["tool", "system"])
def test_r45_22_tool_output_supports_nothing(role: Role) -> None:
    turn = said("user", "yes, that host is late"), said(role, "pay-2")
    for context in ((), (said(role, "pay-2"),)):
        given = verdict(USER, "yes, that host", *turn, content="pay-2 is late", context=context)
        assert given == Verdict((), "unsupported", "pay-2")


def test_the_assistants_words_in_the_turn_support_values() -> None:
    turn = said("user", "yes, that host is late"), said("assistant", "so it is pay-2")
    assert verdict(USER, "yes, that host", *turn, content="pay-2 is late").reason == ""


def test_details_are_cut() -> None:
    given = verdict(USER, "x" * 1_000, said("user", "the clock is late"))
    assert given == Verdict((), "evidence_not_found", "x" * 200)

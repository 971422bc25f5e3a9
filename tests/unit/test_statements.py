"""Whether a text says something: words that stand alone, in any script."""

from __future__ import annotations

import pytest

from casenotes.evals.statements import Statement, says_any


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("pay-2", "The clock of PAY-2 was slow."),
        ("pay-2", "pay-2, pay-3 and pay-4"),
        ("pay-2", "Die Uhr von „pay‑2“"),  # a hyphen that does not break
        ("pay-2", "pay-2の時計が遅れた"),
        ("60", "after 60-second pauses"),
        ("60", "between 30-60 s"),
        ("14:39", "von 14:02–14:39 Uhr"),
        ("3 mars", "le 3  mars"),
        ("12", "１２個"),  # full width
        ("Straße", "STRASSE"),
        ("café", "cafe\u0301"),
        ("n'existe", "il n’existe pas"),
        ("restart*", "It was restarted."),
        ("DNS-01", "DNS-01 のチャレンジ"),
        ("タイムアウト", "チャレンジのタイムアウトで"),
        ("电池", "换了电池以后"),
        ("גיבוי", "כי הגיבוי תפס"),
        ("بطارية", "البطارية تالفة"),
        ("-mavx2", "because -mavx2 is passed"),
        ("/tmp/cache", "in /tmp/cache."),
        ("today", "calls today() twice"),
        ("инод*", "кончились Иноды"),
    ],
)
def test_a_term_is_found(term: str, text: str) -> None:
    assert says_any(text, (term,))


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("pay-2", "pay-23"),
        ("pay-2", "pay-2-eu and eu-pay-2"),
        ("pay-2", "pay-2.example"),
        ("60", "600"),
        ("60", "60.5 and 0,60"),
        ("60", "rack-60"),
        ("2.3.0", "12.3.0"),
        ("2.3.0", "2.3.0.1"),
        ("3 mars", "23 mars"),
        ("3月20日", "13月20日"),
        ("proxy", "proxy_read_timeout"),
        ("art", "start the cart"),
        ("stopped", "unstopped"),
        ("сбор", "сборка"),
    ],
)
def test_part_of_something_longer_is_something_else(term: str, text: str) -> None:
    assert not says_any(text, (term,))


def test_every_group_needs_one_of_its_alternatives_and_none_may_occur() -> None:
    statement = Statement((("chronyd",), ("stopped", "not running")), ("pay-3",))
    assert statement.is_in("chronyd was not running on pay-2")
    assert not statement.is_in("chronyd runs on pay-2")
    assert not statement.is_in("chronyd was stopped on pay-3")
    assert not says_any("anything", ())

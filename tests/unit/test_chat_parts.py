"""The deciding parts of `casenotes chat`: what the test model quotes, and how a turn's end is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from casenotes.cli.chat_model import NOTHING, quote
from casenotes.cli.chat_screen import learned_lines
from casenotes.cli.chat_turn import Item, Told
from casenotes.types import CandidateReceipt, Context, Receipt, Scope

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
WAITS = "saved; still learning, /memory will show it"
SCOPE = Scope("default", "ann", "one")


def hit(content: str, speaker: str | None = "user", days: int = 0) -> dict[str, Any]:
    said_by = {"speaker": speaker} if speaker else {}
    return {"content": content, "created_at": (NOW - timedelta(days)).isoformat(), "thread_id": "t", **said_by}


def test_the_best_hit_is_quoted_with_age_and_thread() -> None:
    assert quote([], NOW) == NOTHING
    assert (
        quote([hit("It is loud.", days=15), hit("No.")], NOW)
        == "You said 2 weeks ago, in thread t: “It is loud.”"
    )
    assert quote([hit("It is loud.", None)], NOW) == "I noted today, in thread t: “It is loud.”"


def test_statements_count_before_questions_and_answers() -> None:
    hits = [hit("Is it loud?"), hit("I see.", "assistant"), hit("It is loud.")]
    assert "“It is loud.”" in quote(hits, NOW)
    assert "“Is it loud?”" in quote(hits[:2], NOW)
    assert quote(hits[1:2], NOW) == "I said today, in thread t: “I see.”"


def told(**values: Any) -> Told:
    return Told(SCOPE, "Is it loud?", **{"context": Context(), "is_saved": True, **values})


@pytest.mark.parametrize(
    ("turn", "learns", "line"),
    [
        (told(is_saved=False), True, "not saved; nothing is learned from it"),
        (told(outcome="aborted"), True, "saved as aborted; nothing is learned from it"),
        (told(outcome="aborted", context=None), True, "saved as aborted; nothing is learned from it"),
        (told(), False, "saved; nothing learned: no model"),
        (told(), True, "saved; still learning, /memory will show it"),
        (
            told(receipt=Receipt("t", "success", (), "queued")),
            True,
            "saved; still learning, /memory will show it",
        ),
        (told(receipt=Receipt("t", "success", (), "failed", "busy")), True, "saved; learning failed: busy"),
        (told(receipt=Receipt("t", "success", (), "learned")), True, "saved; there was nothing to learn"),
    ],
)
def test_how_a_turn_ends_is_told_in_a_line(turn: Told, learns: bool, line: str) -> None:
    assert learned_lines(turn, learns) == [line]


def test_numbers_go_on_behind_what_was_shown() -> None:
    candidates = (
        CandidateReceipt("rejected", "Nobody said so.", reason="evidence_not_found"),
        CandidateReceipt("stored", "It is\x1b[2J loud.", entry_id="e2"),
    )
    receipt = Receipt("t", "success", (), "learned", candidates=candidates)
    turn = told(shown=(Item("entry", "e1", "It was replaced."),), receipt=receipt)
    assert [item.id for item in turn.items] == ["e1", "e2"]
    assert learned_lines(turn, True) == [
        "rejected (evidence_not_found): Nobody said so.",
        "stored 2. It is\ufffd[2J loud.",
    ]

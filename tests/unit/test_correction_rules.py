"""What code accepts of a reflector's proposals, rule by rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from casenotes.learn.corrections import (
    Correction,
    Merge,
    Proposal,
    View,
    decide,
    merge_problem,
    proof,
    read_proposal,
)
from casenotes.types import Entry, Evidence, Message

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST = "The cache of web-1 holds 512 megabytes."
THEN = "We raised it today: the cache of web-1 holds 900 megabytes."


def said(text: str, hours: float = 0, seq: int = 1, role: str = "user", thread: str = "t") -> Message:
    at = NOON + timedelta(hours=hours)
    return Message(role, text, id=f"{thread}-{seq}", created_at=at, thread_id=thread, seq=seq)  # type: ignore[arg-type]


def noted(entry_id: str, content: str, message: Message) -> Entry:
    at = message.created_at or NOON
    quote = Evidence(str(message.id), 0, len(message.text), message.text)
    return Entry(entry_id, content, "user_assertion", "active", True, "t", message.id, at, at, (quote,))


def view(*pairs: tuple[Entry, Message], said_last: tuple[Message, ...] = ()) -> View:
    return View({e.id: e for e, _ in pairs}, {str(m.id): m for _, m in pairs}, said_last)


def two(second: Message, first: Message | None = None) -> tuple[Entry, Entry, View]:
    first = first or said(FIRST)
    old, new = noted("old", FIRST, first), noted("new", "The cache of web-1 holds 900 megabytes.", second)
    return old, new, view((old, first), (new, second))


class TestProof:
    def test_the_users_later_words_prove_a_change(self) -> None:
        message = said(THEN, 1, 2)
        old, new, seen = two(message)
        found = proof("We raised it today", old, new, seen)
        assert not isinstance(found, str)
        assert (found[0], found[1].quote) == (message, "We raised it today")

    def test_words_of_the_turn_count_though_the_new_entry_quotes_others(self) -> None:
        old, new, seen = two(said("It holds 900 megabytes.", 1, 2))
        later = said("That is since this morning, we changed it.", 2, 3)
        assert not isinstance(proof("we changed it", old, new, View(seen.entries, seen.messages, [later])), str)

    def test_equal_times_are_told_apart_by_their_place_in_the_thread(self) -> None:
        old, new, seen = two(said(THEN, 0, 2))
        assert not isinstance(proof("We raised it today", old, new, seen), str)

    def test_equal_times_of_two_threads_prove_nothing(self) -> None:
        old, new, seen = two(said(THEN, 0, 2, thread="other"))
        assert proof("We raised it today", old, new, seen) == "evidence_not_later"

    def test_words_from_before_the_old_entry_prove_nothing(self) -> None:
        early = said("We raised it today, I think.", -5, 1, thread="other")
        old, new, seen = two(said(THEN, 1, 2))
        assert proof("We raised it today, I", old, new, View(seen.entries, seen.messages, [early])) == (
            "evidence_not_later"
        )

    def test_an_older_entry_corrects_nothing(self) -> None:
        old, new, seen = two(said(THEN, 1, 2))
        assert proof("We raised it today", new, old, seen) == "correction_is_older"

    @pytest.mark.parametrize(
        "quote", ["We RAISED it today", "we raised it", "We raised ittoday", "raised it tonight"]
    )
    def test_quotes_are_exact(self, quote: str) -> None:
        old, new, seen = two(said(THEN, 1, 2))
        assert isinstance(proof(quote, old, new, seen), str)

    @pytest.mark.parametrize(
        ("text", "quote"),
        [
            ("Did we raise the cache to 900?", "Did we raise the cache"),
            ("Did we raise the cache to 900?", "Did we raise the cache to 900?"),
            ("Wurde der Cache auf 900 erhöht？", "Wurde der Cache auf 900"),
        ],
    )
    def test_a_question_is_no_statement(self, text: str, quote: str) -> None:
        old, new, seen = two(said(text, 1, 2))
        assert proof(quote, old, new, seen) == "evidence_is_a_question"

    def test_a_question_after_the_statement_does_no_harm(self) -> None:
        old, new, seen = two(said("We raised the cache to 900. Is that enough?", 1, 2))
        assert not isinstance(proof("We raised the cache to 900", old, new, seen), str)
        assert not isinstance(proof("We raised the cache to 900.", old, new, seen), str)

    @pytest.mark.parametrize(
        ("text", "quote"),
        [
            (
                "The cache of web-1 holds 900 megabytes now, can you update the runbook?",
                "holds 900 megabytes now",
            ),
            (
                "The cache of web-1 holds 900 megabytes, can you update the runbook?",
                "The cache of web-1 holds 900 megabytes, can you update the runbook?",
            ),
            (
                "Can you update the runbook, because the cache holds 900 megabytes?",
                "the cache holds 900 megabytes",
            ),
        ],
    )
    def test_r47_14_a_statement_beside_a_question_proves_a_change(self, text: str, quote: str) -> None:
        old, new, seen = two(said(text, 1, 2))
        assert not isinstance(proof(quote, old, new, seen), str)

    def test_r47_14_a_question_does_not_hide_the_same_words_said_as_a_statement(self) -> None:
        old, new, seen = two(said("Is it so that the cache holds 900 megabytes?", 1, 2))
        later = said("Yes, the cache holds 900 megabytes.", 2, 3)
        found = proof("the cache holds 900 megabytes", old, new, View(seen.entries, seen.messages, [later]))
        assert not isinstance(found, str)
        assert found[0] == later

    @pytest.mark.parametrize(
        ("text", "quote"),
        [
            ("Hi Bob, does the cache hold 900 megabytes?", "Hi Bob, does the cache hold 900 megabytes?"),
            (
                "I saw web-1 today, does it hold 900 megabytes?",
                "I saw web-1 today, does it hold 900 megabytes?",
            ),
            ("The cache holds 900 megabytes, doesn't it?", "The cache holds 900 megabytes"),
            ("Could it be that the cache holds 900 megabytes?", "the cache holds 900 megabytes"),
        ],
    )
    def test_r47_14_what_only_the_question_names_proves_nothing(self, text: str, quote: str) -> None:
        old, new, seen = two(said(text, 1, 2))
        assert proof(quote, old, new, seen) == "evidence_is_a_question"


class TestDecide:
    def test_validity_ends_when_both_the_statement_and_the_new_entry_are_there(self) -> None:
        _old, _new, seen = two(said(THEN, 1, 2))
        (change,) = decide(Proposal([Correction("old", "new", "We raised it today")]), seen, 2000).changes
        assert (change.item_id, change.successor, change.after) == ("old", "new", "superseded")
        assert change.valid_until == NOON + timedelta(hours=1)

    def test_two_entries_cannot_supersede_each_other(self) -> None:
        _old, _new, seen = two(said(THEN, 1, 2))
        both = [Correction("old", "new", "We raised it today"), Correction("new", "old", "We raised it today")]
        decision = decide(Proposal(both), seen, 2000)
        assert [change.item_id for change in decision.changes] == ["old"]
        assert [receipt.status for receipt in decision.receipts] == ["superseded", "rejected"]

    def test_the_first_word_on_an_entry_counts(self) -> None:
        _old, _new, seen = two(said(THEN, 1, 2))
        proposal = Proposal(
            [Correction("old", "new", "We raised it today")],
            [Merge(("old", "new"), "The cache of web-1 holds 512, then 900 megabytes.")],
            ["old"],
        )
        decision = decide(proposal, seen, 2000)
        assert (len(decision.changes), decision.merged) == (1, [])
        assert [receipt.reason for receipt in decision.receipts] == [
            "corrected",
            "unknown_entry",
            "unknown_entry",
        ]

    def test_every_item_is_changed_at_most_once(self) -> None:
        _old, _new, seen = two(said(THEN, 1, 2))
        proposal = Proposal([Correction("old", "new", "never said")] * 2, drops=["old", "old"])
        decision = decide(proposal, seen, 2000)
        assert [(change.item_id, change.action) for change in decision.changes] == [("old", "conflicting")]

    def test_at_most_half_is_dropped(self) -> None:
        entries = [
            (noted(f"e{n}", f"Note {n}.", said(f"Note {n}.", n, n)), said(f"Note {n}.", n, n)) for n in range(5)
        ]
        decision = decide(Proposal(drops=[f"e{n}" for n in range(5)]), view(*entries), 2000)
        assert [change.item_id for change in decision.changes] == ["e0", "e1"]


class TestMerge:
    ONE = noted("a", "web-1 ran out of memory at 512 MB.", said("web-1 ran out of memory at 512 MB."))
    TWO = noted("b", "The swap file of web-1 was missing.", said("The swap file of web-1 was missing.", 1, 2))

    def problem(self, content: str) -> str:
        found = merge_problem(content, [self.ONE, self.TWO], 200)
        return found[0] if found else ""

    def test_all_values_are_kept(self) -> None:
        assert not self.problem("web-1 ran out of memory at 512 MB because its swap file was missing.")
        assert self.problem("web-1 ran out of memory because its swap file was missing.") == "merge_loses"
        assert self.problem("A host ran out of memory at 512 MB: no swap file.") == "merge_loses"

    def test_nothing_is_added(self) -> None:
        assert self.problem("web-1 ran out of memory at 512 MB, swap missing since 2024.") == "unsupported"
        assert self.problem("web-1 and web-2 ran out of memory at 512 MB.") == "unsupported"

    def test_negation_is_neither_added_nor_lost(self) -> None:
        assert self.problem("web-1 did not run out of memory at 512 MB.") == "merge_loses"
        never = noted("c", "web-1 was not restarted.", said("web-1 was not restarted.", 2, 3))
        nor = noted("d", "web-1 has no swap.", said("web-1 has no swap.", 2, 4))
        assert merge_problem("web-1 was restarted.", [never, nor], 200) == ("merge_loses", "a negation")

    def test_length_and_emptiness(self) -> None:
        assert self.problem("web-1 512 MB " * 30) == "merge_too_long"
        assert self.problem("") == "empty"


class TestReading:
    def test_what_is_sound_is_read_and_the_rest_left(self) -> None:
        answer = {
            "supersede": [{"old": "a", "new": "b", "evidence": "c"}, {"old": 1}, None],
            "merge": [{"supersedes": ["a", "a", "b"], "content": "x"}, {"supersedes": "a", "content": "x"}],
            "drop": ["a", 3, None],
        }
        proposal = read_proposal(answer)
        assert proposal.corrections == [Correction("a", "b", "c")]
        assert proposal.merges == [Merge(("a", "b"), "x")]
        assert proposal.drops == ["a"]

    @pytest.mark.parametrize(
        "answer", ["{}", {}, '{"supersede": [], "merge": [], "drop": []}', {"entries": []}]
    )
    def test_nothing_to_do(self, answer: object) -> None:
        assert read_proposal(answer) == Proposal([], [], [])  # type: ignore[arg-type]

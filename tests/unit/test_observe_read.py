"""What the Observer answers is read as leniently as can be."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observing import NOON, numbered, user

from casenotes.errors import UnreadableOutput
from casenotes.observe.moments import Moments
from casenotes.observe.read import MAX_TEXT, Answer, Noted, read_answer, updated
from casenotes.types import SessionState

KEY = "sk-proj-" + "a1B2" * 10


def rows(output: Any) -> list[tuple[str, str, str, int | None]]:
    return [(row.priority, row.time, row.text, row.parent) for row in read_answer(output).rows]


class TestObjects:
    def test_r05_13_rows_with_priority_time_text_and_parent(self) -> None:
        answer = {
            "observations": [
                {"priority": "critical", "time": "14:05", "text": "Reservation NO6JO3", "parent": None},
                {"priority": "info", "time": "14:06", "text": "two bags", "parent": 1},
            ]
        }
        assert rows(answer) == [
            ("critical", "14:05", "Reservation NO6JO3", None),
            ("info", "14:06", "two bags", 0),
        ]

    @pytest.mark.parametrize(
        ("item", "expected"),
        [
            ({"text": "bare"}, ("info", "", "bare", None)),
            ({"text": "  two \n lines ", "priority": "HIGH"}, ("critical", "", "two lines", None)),
            ({"text": "x", "priority": "nonsense", "time": 7}, ("info", "7", "x", None)),
            ({"text": "x", "time": ["12:00"], "parent": {"a": 1}}, ("info", "", "x", None)),
            ("* IMPORTANT (09:15) as a line", None),
            ("important (09:15) as a text", ("important", "09:15", "as a text", None)),
            ({"text": "x", "priority": None, "parent": "no such row"}, ("info", "", "x", None)),
            ({"text": "x", "parent": 1}, ("info", "", "x", None)),
            ({"text": "x", "parent": 99}, ("info", "", "x", None)),
        ],
    )
    def test_r05_13_odd_rows(self, item: Any, expected: tuple[str, str, str, int | None] | None) -> None:
        read = rows({"observations": [item]})
        assert (read[0] == expected) if expected else read

    @pytest.mark.parametrize(
        "bad", [None, 7, [], {}, {"text": 5}, {"text": ""}, {"text": "\u200b"}, {"priority": "info"}]
    )
    def test_r05_13_a_bad_row_costs_only_itself(self, bad: Any) -> None:
        answer = {"observations": [{"text": "first"}, bad, {"text": "child of the first", "parent": 1}]}
        assert [text for _, _, text, _ in rows(answer)] == ["first", "child of the first"]
        assert rows(answer)[1][3] == 0

    def test_parents_are_counted_as_the_model_counts(self) -> None:
        answer = {"observations": [{"text": ""}, {"text": "parent"}, {"text": "child", "parent": 2}]}
        assert rows(answer)[1][3] == 0

    def test_a_parent_may_be_named_by_its_words(self) -> None:
        answer = {"observations": [{"text": "the  parent"}, {"text": "child", "parent": "the parent"}]}
        assert rows(answer)[1][3] == 0

    def test_days_are_read_and_wrong_ones_passed_over(self) -> None:
        answer = {"observations": [{"text": "a", "date": "2026-12-01"}, {"text": "b", "date": "2026-13-01"}]}
        assert [row.date for row in read_answer(answer).rows] == [date(2026, 12, 1), None]

    @pytest.mark.parametrize(
        "empty", [{}, "{}", {"observations": []}, {"observations": None}, '{"observations": []}']
    )
    def test_r05_15_nothing_to_note_is_an_answer(self, empty: Any) -> None:
        assert read_answer(empty) == Answer()

    @pytest.mark.parametrize("nothing", ["", "   ", "I cannot do that.", {"entries": []}, "null", '{"foo": 1}'])
    def test_what_cannot_be_read_is_a_failure(self, nothing: Any) -> None:
        with pytest.raises(UnreadableOutput):
            read_answer(nothing)

    def test_an_answer_that_broke_off_keeps_what_was_whole(self) -> None:
        cut = '{"observations": [{"priority": "info", "time": "10:00", "text": "whole"}, {"priority": "inf'
        assert rows(cut) == [("info", "10:00", "whole", None)]

    def test_an_object_in_prose_and_fences(self) -> None:
        assert rows('```json\n{"observations": [{"text": "fenced"}]}\n```')[0][2] == "fenced"

    def test_lines_within_the_object(self) -> None:
        assert rows({"observations": "* INFO (10:00) one\n* two"}) == [
            ("info", "10:00", "one", None),
            ("info", "", "two", None),
        ]

    def test_r05_10_secrets_are_masked_in_what_was_written(self) -> None:
        answer = {"observations": [{"text": f"the key is {KEY}"}], "session": {"state": f"uses {KEY}"}}
        read = read_answer(answer)
        assert KEY not in read.rows[0].text
        assert "[secret" in read.rows[0].text
        assert KEY not in str(read.session)

    def test_endless_texts_are_cut(self) -> None:
        assert len(rows({"observations": [{"text": "word " * 100_000}]})[0][2]) <= MAX_TEXT


class TestLines:
    def test_r05_13_children_are_indented_and_unmarked_ones_are_info(self) -> None:
        text = """
        * CRITICAL (14:05) Reservation NO6JO3
          * INFO (14:06) two bags
          * a window seat
            - deeper
        * COMPLETION (14:10) booked
        """
        assert rows(text) == [
            ("critical", "14:05", "Reservation NO6JO3", None),
            ("info", "14:06", "two bags", 0),
            ("info", "", "a window seat", 0),
            ("info", "", "deeper", 2),
            ("completion", "14:10", "booked", None),
        ]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("- [IMPORTANT] (9:05) text", ("important", "9:05", "text", None)),
            ("* **critical**: text", ("critical", "", "text", None)),
            ("• 🔴 14:30 text", ("critical", "14:30", "text", None)),
            ("1. (14:30) IMPORTANT text", ("important", "14:30", "text", None)),
            ("* completed - all of it", ("completion", "", "all of it", None)),
            ("* Information was given", ("info", "", "Information was given", None)),
            ("* Low tide at 12:30", ("info", "", "Low tide at 12:30", None)),
            ("* Critical path analysis failed", ("info", "", "Critical path analysis failed", None)),
            ("* critical (9:05) text", ("critical", "9:05", "text", None)),
        ],
    )
    def test_r05_13_spellings(self, line: str, expected: tuple[str, str, str, None]) -> None:
        assert rows(line) == [expected]

    def test_r05_13_prose_between_costs_only_itself(self) -> None:
        text = "Here are my notes:\n* INFO (10:00) one\nand that is all\n*\n* (10:01) two"
        assert [text for _, _, text, _ in rows(text)] == ["one", "two"]

    def test_a_date_on_its_own_line_counts_for_what_follows(self) -> None:
        assert rows("Date: 2026-11-17\n* INFO (10:00) one")[0][1] == "2026-11-17 10:00"

    def test_a_day_at_the_end_of_a_line(self) -> None:
        (row,) = read_answer("* INFO (10:00) the deadline (about 2026-12-01)").rows
        assert (row.text, row.date) == ("the deadline", date(2026, 12, 1))

    def test_where_the_conversation_stands(self) -> None:
        text = "* INFO one\nObjective: book a flight\nState: searching\nDecision: economy\n"
        text += "Follow-up: pay\nFollow-up: send"
        assert read_answer(text).session == {
            "objective": "book a flight",
            "state": "searching",
            "decisions": ["economy"],
            "follow_ups": ["pay", "send"],
        }

    @pytest.mark.parametrize(
        "endless", ["*" * 300_000, "* x" + " " * 300_000 + "y", "- " * 150_000, "(" * 300_000]
    )
    def test_no_text_takes_long(self, endless: str) -> None:
        """Each took minutes with a pattern that tries again from every place."""
        for text in (endless, f"* INFO {endless}"):
            with suppress(UnreadableOutput):
                read_answer(text)

    @given(st.text(max_size=300))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            answer = read_answer(text)
        except UnreadableOutput:
            return
        assert all(
            row.text.strip() and (row.parent is None or row.parent < n) for n, row in enumerate(answer.rows)
        )

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["text", "priority", "time", "parent", "date", "x"]), inner, max_size=4
                )
            ),
            max_leaves=20,
        )
    )
    def test_any_value_is_read_or_refused(self, value: Any) -> None:
        try:
            answer = read_answer({"observations": value, "session": value})
        except UnreadableOutput:
            return
        assert isinstance(answer, Answer)


class TestSession:
    KNOWN = SessionState("book", "searching", ("economy",), ("pay",), "go on with Seattle")

    def test_what_is_left_out_stays_but_for_the_hint(self) -> None:
        assert updated(self.KNOWN, Answer()) == SessionState("book", "searching", ("economy",), ("pay",), "")
        assert updated(self.KNOWN, Answer((), {"state": "paid", "follow_ups": []})) == SessionState(
            "book", "paid", ("economy",), (), ""
        )

    def test_an_objective_that_is_reached_can_be_taken_back(self) -> None:
        assert updated(self.KNOWN, Answer((), {"objective": ""})).objective == ""

    @pytest.mark.parametrize(
        "odd", ["text", 7, [], {"decisions": 5, "objective": ["x"]}, {"follow_ups": [1, None, "x"]}]
    )
    def test_odd_sessions(self, odd: Any) -> None:
        session = read_answer({"observations": [], "session": odd}).session
        assert session is None or set(session) <= {"decisions", "objective", "follow_ups"}
        if isinstance(odd, dict) and "follow_ups" in odd:
            assert session == {"follow_ups": ["x"]}


class TestMoments:
    BERLIN = ZoneInfo("Europe/Berlin")

    def test_a_time_of_day_gets_the_day_of_its_messages(self) -> None:
        said = numbered([user(), user()])
        assert Moments(said, UTC).at("12:02") == NOON + timedelta(minutes=2)
        assert Moments(said, self.BERLIN).at("13:02") == NOON + timedelta(minutes=2)

    def test_across_midnight_the_day_that_fits(self) -> None:
        late = datetime(2026, 11, 18, 23, 50, tzinfo=UTC)
        said = [user(), user()]
        said = [
            type(m)(m.role, m.text, created_at=late + timedelta(minutes=20 * n)) for n, m in enumerate(said)
        ]
        assert Moments(said, UTC).at("00:05") == datetime(2026, 11, 19, 0, 5, tzinfo=UTC)
        assert Moments(said, UTC).at("23:55") == datetime(2026, 11, 18, 23, 55, tzinfo=UTC)

    def test_of_several_days_the_one_on_which_something_was_said_then(self) -> None:
        said = [type(user())("user", "x", created_at=NOON + timedelta(days=n, minutes=7 * n)) for n in range(3)]
        assert Moments(said, UTC).at("12:07") == NOON + timedelta(days=1, minutes=7)
        assert Moments(said, UTC).at("2026-11-20 12:14") == NOON + timedelta(days=2, minutes=14)

    @pytest.mark.parametrize("year", [1, 9999])
    @pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
    def test_the_ends_of_the_calendar(self, year: int, zone: str) -> None:
        moment = datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, 0, 30, tzinfo=UTC)
        said = [type(user())("user", "x", created_at=moment)]
        for text in ("00:30", "12:00", ""):
            assert Moments(said, ZoneInfo(zone)).at(text) == moment

    @pytest.mark.parametrize("odd", ["", "noon", "25:99", "03:00", "2020-01-01 12:01", "2026-13-45 12:01"])
    def test_what_lies_outside_is_the_first_message(self, odd: str) -> None:
        assert Moments(numbered([user(), user()]), UTC).at(odd) == NOON + timedelta(minutes=1)

    def test_r05_30_a_clock_that_goes_backwards(self) -> None:
        times = [NOON, NOON - timedelta(hours=2)]
        said = [type(user())("user", "x", created_at=time) for time in times]
        assert Moments(said, UTC).at("10:00") == times[1]


def test_a_noted_row_has_defaults() -> None:
    assert Noted("info", "x") == Noted("info", "x", "", None, None)

"""Loops are noticed, faithful logs of dull tasks are not taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.observe.repetition import repeats_itself

SENTENCE = "The user asked for a refund of the second ticket and waits for an answer."
LOOPS = {
    "one word": ["the " * 200],
    "one sentence in one row": [f"{SENTENCE} " * 20],
    "one sentence in many rows": [SENTENCE] * 20,
    "two rows in turn": [SENTENCE, "Then the agent looked up the booking again."] * 12,
    "after a good beginning": ["Booked flight HAT136 for Mia Li.", "Paid with card 7447.", *[SENTENCE] * 30],
    "a good row whose end is stuck": [f"Booked HAT136 and then {'and then ' * 100}"],
    "in other case": [SENTENCE, SENTENCE.upper()] * 10,
    "among others": [line for n in range(10) for line in (SENTENCE, f"Another thing, number {n}, was said.")],
    "without spaces between scripts": ["繰り返し 繰り返し " * 60],
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_r05_24_loops_are_noticed(loop: list[str]) -> None:
    assert repeats_itself(loop, ["What do you know of my ticket?", "Let me look.", '{"status": "open"}'])


FAITHFUL = {
    "numbers differ": [f"Attempt {n}: the tests ran, {n % 4} failed in test_{n}.py." for n in range(60)],
    "paths differ": [f"Read src/module_{n}/main.py, nothing unusual." for n in range(60)],
    "a short log": ["Ran the tests: 3 failed."] * 3,
    "lists": ["Seats: 12A, 12B, 12C, 14A, 14B, 14C, 15A, 15B, 15C, 16A, 16B, 16C"],
    "tables": [f"| HAT{n:03} | JFK | SEA | economy | available |" for n in range(80)],
    "prose": [
        "It was a long day, and the day was long: the build failed, was mended, failed again and passed."
    ],
    "nothing": [],
}


@pytest.mark.parametrize("log", FAITHFUL.values(), ids=FAITHFUL.keys())
def test_r05_24_faithful_logs_are_accepted(log: list[str]) -> None:
    assert not repeats_itself(log, ["whatever was read"])


def test_r05_24_what_really_happened_again_and_again_may_be_told_so() -> None:
    """A job is polled forty times and says the same each time; the notes say the same each time, too."""
    polls = ['{"status": "pending"}'] * 40
    noted = ["Asked for the job's status: still pending."] * 40
    assert not repeats_itself(noted, polls)
    assert repeats_itself(noted, ['{"status": "pending"}'])


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=30))
def test_any_lines(lines: list[str]) -> None:
    assert repeats_itself(lines, lines) is False

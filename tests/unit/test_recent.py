"""The window over a thread: whole pairs, within its budget, and the same beginning for as long as possible."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.recall.recent import (
    MESSAGE_OVERHEAD,
    MessageTokens,
    staying_tokens,
    window,
    without_broken_pairs,
)
from casenotes.types import Message, ToolCall, ToolResult

SIZE = MessageTokens(lambda text: len(text.split()))
KINDS = ("user", "assistant", "call", "result", "system")


def message(number: int, kind: str, words: int, call: int) -> Message:
    text = " ".join(["word"] * words)
    if kind == "call":
        return Message("assistant", text, f"m{number}", parts=(ToolCall(f"c{call}", "look"),))
    if kind == "result":
        return Message("tool", "", f"m{number}", parts=(ToolResult(f"c{call}", text),))
    return Message(kind, text, f"m{number}")  # type: ignore[arg-type]


threads = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 3)), min_size=1, max_size=30
).map(lambda rows: [message(number, *row) for number, row in enumerate(rows)])


@given(threads, st.data())
def test_r07_02_any_window_has_whole_pairs_in_order_and_keeps_to_its_budget(
    thread: list[Message], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(thread) - 1))
    own = {str(said.id) for said in thread[start:]}
    most = data.draw(st.integers(0, 400))
    jump = data.draw(st.integers(1, 200))
    thread = list(without_broken_pairs(thread))
    shown = window(thread, own, most, jump, SIZE)
    order = [said.id for said in thread]
    places = [order.index(said.id) for said in shown.messages]
    assert places == sorted(places)
    assert list(without_broken_pairs(shown.messages)) == list(shown.messages)
    assert shown.tokens == sum(map(SIZE, shown.messages)) <= max(most, staying_tokens(thread, own, SIZE))
    assert shown.left_out == len(thread) - len(shown.messages)


@given(threads, st.integers(0, 400))
def test_r07_05_any_window_holds_the_input(thread: list[Message], most: int) -> None:
    asked = [Message("user", "do it", "a1"), Message("user", "and this", "a2")]
    steps = [replace(said, id=f"s{said.id}") for said in thread if said.role in ("assistant", "tool")]
    own = {"a1", "a2", *(str(said.id) for said in steps)}
    shown = window(list(without_broken_pairs([*thread, *asked, *steps])), own, most, 50, SIZE)
    assert [said.id for said in shown.messages if said.id in ("a1", "a2")] == ["a1", "a2"]


@pytest.mark.parametrize("before", [0, 10, 19])
@pytest.mark.parametrize("budget", [300, 500, 1_000])
def test_r07_07_the_beginning_moves_in_jumps(before: int, budget: int) -> None:
    log = [message(number, KINDS[number % 2], 20, 0) for number in range(before)]
    log.append(Message("user", "do it", "own"))
    own, heads = {"own"}, []
    for number in range(60):
        pair = [message(100 + 2 * number + n, kind, 5, number) for n, kind in enumerate(("call", "result"))]
        log += pair
        own |= {str(said.id) for said in pair}
        heads.append([said.id for said in window(log, own, budget, budget // 4, SIZE).messages])
    changed = sum(new[: len(old)] != old for old, new in pairwise(heads))
    tokens = sum(SIZE(said) for said in log) - budget
    assert changed <= tokens / (budget // 4) + 1
    assert len(heads[-1]) >= 2 * (budget * 0.7 - 30) // (10 + 2 * MESSAGE_OVERHEAD)


def test_r07_03_a_call_without_result_is_no_reason_to_keep_anything() -> None:
    log = list(without_broken_pairs([Message("user", "do it", "own"), message(1, "call", 0, 1)]))
    assert [said.id for said in window(log, {"own", "m1"}, 1_000, 250, SIZE).messages] == ["own"]
    assert staying_tokens(log, {"own", "m1"}, SIZE) == 2 + MESSAGE_OVERHEAD


def test_an_empty_thread_has_an_empty_window() -> None:
    assert window([], set(), 100, 25, SIZE) == ((), 0, 0)
    assert staying_tokens([], set(), SIZE) == 0


def test_r07_04_an_id_used_twice_in_one_message_is_answered_in_order() -> None:
    calls = tuple(ToolCall("0", "weather", {"city": city}) for city in ("Rome", "Oslo"))
    asked, answered = (
        Message("assistant", "", parts=calls),
        [Message("tool", "", parts=[ToolResult("0", "31")])],
    )
    (shown, _) = without_broken_pairs([asked, *answered])
    assert shown.parts == calls[:1]
    assert list(without_broken_pairs([asked, *answered, *answered])) == [asked, *answered, *answered]

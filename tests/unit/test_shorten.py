"""What is too long for a prompt is shown shortened: within its budget, fairly, and the same in every call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casenotes.recall.recent import MESSAGE_OVERHEAD, MessageTokens, window, without_broken_pairs
from casenotes.recall.shorten import Memo, read_page, shorten_call, shorten_steps, shorten_text, whole_text
from casenotes.tokens import estimate_tokens
from casenotes.types import Message, ToolCall, ToolResult, part_text

NOTE = re.compile(
    r'\n\[… (\d+) characters left out; read_message\(id="([^"]+)", offset=(\d+)\) gives them …\]\n'
)
COUNTERS: dict[str, Callable[[str], int]] = {
    "estimate": estimate_tokens,
    "words": lambda text: len(text.split()),
    "characters": len,
    "bytes": lambda text: len(text.encode()) // 3,
}
COUNT = MessageTokens(estimate_tokens)
LINES = "".join(f"line {number}: the proxy answered {number * 7919 % 1000}\n" for number in range(9_000))


def call(number: int, arguments: dict[str, object] | None = None) -> Message:
    return Message("assistant", "", f"a{number}", parts=(ToolCall(f"c{number}", "look", arguments or {}),))


def result(number: int, text: str) -> Message:
    return Message("tool", "", f"r{number}", parts=(ToolResult(f"c{number}", text),))


def content(message: Message) -> str:
    (part,) = message.parts
    assert isinstance(part, ToolResult)
    return part.content


def shorten(log: list[Message], own: set[str], budget: int, memo: Memo | None = None) -> list[Message]:
    return shorten_steps(log, own, budget, COUNT, {} if memo is None else memo)


class TestFairness:
    def test_r07_16_the_longest_results_are_cut_to_one_length_and_short_ones_stay_whole(self) -> None:
        long, short = LINES[:200_000], "all is well " * 20
        calls = Message("assistant", "I look.", "a", parts=[ToolCall(f"c{n}", "look") for n in range(8)])
        results = [result(n, short if n in (2, 5) else long[n * 1_000 :]) for n in range(8)]
        log = [Message("user", "Look at all.", "u"), calls, *results]
        shown = shorten(log, {"u", "a", *(f"r{n}" for n in range(8))}, 20_000)
        assert 13_000 <= sum(map(COUNT, shown)) <= 15_000
        assert shown[:2] == log[:2]
        assert [shown[2 + n] == results[n] for n in range(8)] == [n in (2, 5) for n in range(8)]
        sizes = [COUNT(shown[2 + n]) for n in range(8) if n not in (2, 5)]
        assert max(sizes) <= 1.15 * min(sizes)

    def test_r07_16_head_tail_and_a_note_that_leads_on(self) -> None:
        log = [Message("user", "Look.", "u"), call(1), result(1, LINES)]
        shown = content(shorten(log, {"u", "a1", "r1"}, 4_000)[2])
        (note,) = NOTE.finditer(shown)
        head, tail = shown[: note.start()], shown[note.end() :]
        assert LINES.startswith(head)
        assert LINES.endswith(tail)
        assert len(head) > len(tail) > 1_000
        assert (int(note[1]), note[2], int(note[3])) == (len(LINES) - len(head) - len(tail), "r1", len(head))

    def test_r07_16_what_fits_stays_as_it_was_said(self) -> None:
        log = [Message("user", "Look.", "u"), call(1), result(1, LINES[:8_000])]
        budget = sum(map(COUNT, log))
        assert shorten(log, {"u", "a1", "r1"}, budget) == log
        assert shorten(log, {"u", "a1", "r1"}, budget - 1) != log

    def test_r07_16_an_input_that_is_not_long_is_not_cut_for_a_result(self) -> None:
        log = [Message("user", LINES[:12_000], "u"), call(1), result(1, LINES)]
        shown = shorten(log, {"u", "a1", "r1"}, 12_000)
        assert shown[0] == log[0]
        assert NOTE.search(content(shown[2]))

    def test_r07_16_a_huge_input_leaves_room_for_its_steps(self) -> None:
        log = [Message("user", LINES, "u")]
        alone = shorten(log, {"u"}, 12_000)
        assert NOTE.search(alone[0].text)
        log += [call(1), result(1, "found it " * 300)]
        assert shorten(log, {"u", "a1", "r1"}, 12_000) == [*alone, *log[1:]], "and stays as it was shown"

    def test_r07_16_secrets_are_masked_before_the_cut(self) -> None:
        key = "sk-proj-" + "Ab3dE5fG7h" * 5
        log = [Message("user", "Look.", "u"), call(1), result(1, f"key {key} " * 3_000)]
        shown = content(shorten(log, {"u", "a1", "r1"}, 2_000)[2])
        assert "[secret:" in shown
        assert "Ab3dE5fG7h" not in shown

    def test_r07_06_where_notes_alone_have_no_room_the_first_calls_go_with_their_results(self) -> None:
        calls = Message("assistant", "", "a", parts=[ToolCall(f"c{n}", "look") for n in range(60)])
        results = Message("tool", "", "r", parts=[ToolResult(f"c{n}", LINES[n:2_000]) for n in range(60)])
        log = [Message("user", "Look.", "u"), calls, results]
        shown = shorten(log, {"u", "a", "r"}, 1_000)
        assert sum(map(COUNT, shown)) <= 750
        numbers = [int(part.id[1:]) for part in shown[1].parts if isinstance(part, ToolCall)]
        assert numbers == list(range(numbers[0], 60))
        assert 3 <= len(numbers) <= 8
        assert list(without_broken_pairs(shown)) == shown


class TestCalls:
    def test_r07_21_long_arguments_keep_their_keys_and_types(self) -> None:
        arguments = {"path": "a.py", "edits": [{"old": "x", "new": LINES}], "line": 7, "deep": {"on": True}}
        log = [Message("user", "Edit.", "u"), call(1, arguments), result(1, "done")]
        shown = shorten(log, {"u", "a1", "r1"}, 4_000)
        assert sum(map(COUNT, shown)) <= 3_000
        (part,) = shown[1].parts
        assert isinstance(part, ToolCall)
        assert part.arguments | {"edits": None} == arguments | {"edits": None}
        ((edit,), short) = part.arguments["edits"], part.arguments["edits"][0]["new"]
        assert edit["old"] == "x"
        assert NOTE.search(short)
        assert len(short) > 1_000
        assert shown[2] == log[2]

    @pytest.mark.parametrize(
        "arguments",
        [
            {"numbers": list(range(50_000))},
            {f"key {n}": n for n in range(20_000)},
            {"k" * 90_000: 1},
            {"deep": [[['"\\\n' * 30_000]]]},
        ],
        ids=["numbers", "keys", "key", "escapes"],
    )
    @pytest.mark.parametrize("most", [2_000, 120, 30, 3])
    def test_r07_21_any_arguments_become_an_object_that_fits(
        self, arguments: dict[str, object], most: int
    ) -> None:
        made = ToolCall("c", "write", arguments)
        short = shorten_call(made, most, estimate_tokens, lambda left, at: f"[{left} left out from {at}]")
        assert isinstance(json.loads(json.dumps(short.arguments)), dict)
        assert estimate_tokens(part_text(short)) <= max(most, estimate_tokens("write {}"))


class TestCharacters:
    CLUSTERS = ("e\u0301", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "각", "षि", "❤️", "\r\n", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "a\u0300\u0301\u0302")

    @pytest.mark.parametrize("cluster", CLUSTERS)
    def test_r07_16_no_cut_is_within_a_character(self, cluster: str) -> None:
        text = cluster * 700
        shown = [
            shorten_text(text, most, len, lambda left, head: f"<{left}|{head}>") for most in range(60, 190)
        ]
        for short in shown:
            head, _, rest = short.partition("<")
            tail = rest.partition(">")[2]
            assert len(head) % len(cluster) == len(tail) % len(cluster) == 0
            assert head + tail == cluster * ((len(head) + len(tail)) // len(cluster))
        assert any(short.partition("<")[0] for short in shown)

    def test_a_text_without_room_for_a_note_is_begun(self) -> None:
        note = "left out " * 20
        assert shorten_text("word " * 90, 12, len, lambda _left, _at: note) == "word word …"
        assert shorten_text("word " * 90, 0, len, lambda _left, _at: note) == ""


class TestPages:
    def test_r07_18_pages_give_the_whole_message_from_any_offset(self) -> None:
        said = Message(
            "tool", "Two results:", "r", parts=[ToolResult("c1", LINES[:9_000]), ToolResult("c2", "é" * 999)]
        )
        whole = whole_text(said)
        pages, offset = [], 0
        while offset is not None:
            page = read_page(said, offset, 500, estimate_tokens)
            assert (page.total, estimate_tokens(json.dumps(page.text, ensure_ascii=False)) <= 500) == (
                len(whole),
                True,
            )
            assert page.next_offset is None or page.next_offset > offset
            pages.append(page.text)
            offset = page.next_offset
        assert "".join(pages) == whole
        assert len(pages) < 20

    def test_r07_18_the_offset_of_a_note_is_where_its_gap_begins(self) -> None:
        calls = Message(
            "assistant",
            "I look twice.",
            "a",
            parts=[ToolCall("c1", "look", {"at": "x" * 200}), ToolCall("c2", "look")],
        )
        results = Message("tool", "", "r", parts=[ToolResult("c1", LINES), ToolResult("c2", LINES[5:])])
        log = [Message("user", "Look.", "u"), calls, results]
        shown = shorten(log, {"u", "a", "r"}, 6_000)[2]
        for part, raw in zip(shown.parts, results.parts, strict=True):
            assert isinstance(part, ToolResult)
            assert isinstance(raw, ToolResult)
            (note,) = NOTE.finditer(part.content)
            page = read_page(results, int(note[3]), 100, estimate_tokens)
            assert raw.content[note.start() :].startswith(page.text)

    def test_r07_19_pages_hold_no_secret(self) -> None:
        key = "sk-proj-" + "Ab3dE5fG7h" * 5
        said = Message("tool", "", "r", parts=[ToolResult("c1", f"the key is {key}. " * 40)])
        pages = [read_page(said, offset, 40, estimate_tokens).text for offset in range(0, 900, 7)]
        assert not any("Ab3dE5" in page for page in pages)
        assert any("[secret:" in page for page in pages)

    def test_a_page_goes_on_however_little_room_there_is(self) -> None:
        said = Message("user", "💚" * 40, "u")
        assert read_page(said, 3, 0, estimate_tokens) == ("💚", 4, 40)
        assert read_page(said, 40, 9, estimate_tokens) == ("", None, 40)


class TestStability:
    def test_r07_17_what_was_shortened_stays_the_same_while_the_turn_goes_on(self) -> None:
        log = [Message("user", LINES[:30_000], "u"), call(1), result(1, LINES)]
        memo: Memo = {}
        before = shorten(log, {said.id or "" for said in log}, 9_000, memo)
        for number in range(2, 9):
            log += [call(number), result(number, LINES[: 4_000 * (number % 3)])]
            after = shorten(log, {said.id or "" for said in log}, 9_000, memo)
            assert after[: len(before)] == before
            before = after
        assert shorten(log, {said.id or "" for said in log}, 9_000) == before, "without what was kept as well"

    def test_r07_17_an_earlier_turn_is_shown_as_it_was_when_it_was_under_way(self) -> None:
        log = [Message("user", "Look.", "u"), call(1), result(1, LINES), Message("assistant", "I see.", "end")]
        before = shorten(log, {said.id or "" for said in log}, 9_000)
        log += [Message("user", "And now?", "next")]
        assert shorten(log, {"next"}, 9_000) == [*before, log[-1]]


def text_of(size: int, kind: int) -> str:
    return ("word " * size, "日本語" * size, "\n\n<a b='1'>" * size, "x" * size, '"\\' * size)[kind]


texts = st.builds(text_of, st.sampled_from([0, 1, 3, 40, 400, 1_500]), st.integers(0, 4))
said = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), texts),
    st.tuples(st.just("step"), st.lists(st.tuples(texts, texts), min_size=1, max_size=4)),
)


def conversation(rows: list[tuple[str, object]]) -> list[Message]:
    log: list[Message] = []
    for number, (kind, value) in enumerate(rows):
        if kind != "step":
            log.append(Message(kind, str(value), f"m{number}"))  # type: ignore[arg-type]
            continue
        pairs = [
            (ToolCall(f"c{n}", "write", {"text": a, "n": n}), ToolResult(f"c{n}", b))
            for n, (a, b) in enumerate(value)
        ]  # type: ignore[arg-type]
        log.append(Message("assistant", "", f"m{number}", parts=tuple(made for made, _ in pairs)))
        log.append(Message("tool", "", f"n{number}", parts=tuple(found for _, found in pairs)))
    return log


@settings(max_examples=40, deadline=None)
@given(
    st.lists(said, min_size=1, max_size=6),
    st.integers(0, 20),
    st.sampled_from([12, 40, 90, 300, 1_000, 5_000]),
    st.sampled_from(sorted(COUNTERS)),
)
def test_r10_19_any_conversation_fits_into_any_budget(
    rows: list[tuple[str, object]], start: int, budget: int, counter: str
) -> None:
    log, size = conversation(rows), MessageTokens(COUNTERS[counter])
    own = {str(message.id) for message in log[min(start, len(log) - 1) :]}
    whole = list(without_broken_pairs(log))
    shown = shorten_steps(whole, own, budget, size, {})
    kept = window(list(without_broken_pairs(shown)), own, budget, budget // 4, size)
    assert kept.tokens == sum(map(size, kept.messages)) <= budget
    assert list(without_broken_pairs(kept.messages)) == list(kept.messages)
    assert shorten_steps(whole, own, budget, size, {}) == shown
    for message in shown:
        assert all(
            isinstance(json.loads(json.dumps(p.arguments)), dict)
            for p in message.parts
            if isinstance(p, ToolCall)
        )
    if budget >= 40 + MESSAGE_OVERHEAD and counter == "estimate":
        asked = next((message for message in whole if message.id in own), None)
        assert asked is None or asked.role == "tool" or asked.parts or any(m.id in own for m in kept.messages)

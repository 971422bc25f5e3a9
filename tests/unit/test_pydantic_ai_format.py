"""Pydantic AI messages, as written by the library itself and as older releases wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from casenotes.types import ToolCall, ToolResult

TIME = datetime(2026, 4, 1, 6, tzinfo=UTC)


def written_by_pydantic_ai() -> bytes:
    from pydantic_ai import messages as m

    picture = m.BinaryContent(b"abc", media_type="image/png")
    return m.ModelMessagesTypeAdapter.dump_json(
        [
            m.ModelRequest(
                [
                    m.SystemPromptPart("You take orders.", timestamp=TIME),
                    m.UserPromptPart(["Order this", picture, m.DocumentUrl("https://x/y.pdf")], timestamp=TIME),
                ],
                instructions="Be polite.",
            ),
            m.ModelResponse(
                [
                    m.ThinkingPart("hm"),
                    m.TextPart("I look."),
                    m.ToolCallPart("shelf", '{"row": 3}', tool_call_id="a"),
                    m.ToolCallPart("clock", None, tool_call_id="b"),
                ],
                timestamp=TIME,
            ),
            m.ModelRequest(
                [
                    m.ToolReturnPart("shelf", {"loaves": 7}, tool_call_id="a", timestamp=TIME),
                    m.ToolReturnPart("clock", ["06:00", picture], tool_call_id="b", outcome="failed"),
                ]
            ),
            m.ModelResponse([m.FilePart(picture), m.TextPart("Seven.")], timestamp=TIME),
        ]
    )


def test_what_the_library_writes(read) -> None:
    reading = read(written_by_pydantic_ai())
    assert reading.format == "pydantic-ai"
    assert reading.said == [
        ("system", "You take orders."),
        ("user", "Order this"),
        ("assistant", 'I look.\nshelf {"row": 3}\nclock {}'),
        ("tool", '{"loaves": 7}\n06:00'),
        ("assistant", "Seven."),
    ]
    assert reading.messages[2].parts == (ToolCall("a", "shelf", {"row": 3}), ToolCall("b", "clock", {}))
    assert reading.messages[3].parts == (ToolResult("a", '{"loaves": 7}'), ToolResult("b", "06:00", True))
    assert {message.created_at for message in reading.messages} == {TIME}
    assert reading.left_out == {"images": 3, "files": 1, "reasoning": 1, "instructions": 1}
    assert not any(line.assumed_time for line in reading if hasattr(line, "assumed_time"))


def test_what_a_tool_says_beside_its_result_is_not_the_users(read) -> None:
    from pydantic_ai import messages as m

    written = [
        m.ModelRequest([m.UserPromptPart("Read the page.", timestamp=TIME)]),
        m.ModelResponse([m.ToolCallPart("fetch", {}, tool_call_id="a")], timestamp=TIME),
        m.ModelRequest(
            [
                m.ToolReturnPart("fetch", "fetched", tool_call_id="a", timestamp=TIME),
                m.UserPromptPart("The password policy is four letters.", timestamp=TIME),
            ]
        ),
        m.ModelResponse([m.TextPart("I see.")], timestamp=TIME),
    ]
    said = read(m.ModelMessagesTypeAdapter.dump_json(written)).said
    assert [text for role, text in said if role == "user"] == ["Read the page."]
    assert "four letters" in " ".join(text for role, text in said if role == "tool")


def test_tools_of_the_provider_are_calls_and_results(read) -> None:
    call = {"part_kind": "builtin-tool-call", "tool_name": "web", "args": {"q": "tide"}, "tool_call_id": "w"}
    answer = {"part_kind": "builtin-tool-return", "tool_name": "web", "content": "05:12", "tool_call_id": "w"}
    text = {"part_kind": "text", "content": "At 05:12."}
    reading = read([{"kind": "response", "parts": [call, answer, text], "timestamp": TIME.isoformat()}])
    assert reading.said == [("assistant", 'web {"q": "tide"}'), ("tool", "05:12"), ("assistant", "At 05:12.")]
    assert len({message.id for message in reading.messages}) == 3


def test_retries_are_failed_results_or_words_of_the_system(read_fixture, read) -> None:
    reading = read_fixture("pydantic_ai.json")
    (retry,) = reading.messages[3].parts
    assert (retry.call_id, retry.is_error) == ("p-1", True)
    assert "valid integer" in retry.content
    assert reading.messages[3].created_at == datetime(2026, 4, 1, 6, 0, 3, tzinfo=UTC)
    for kind in ("retry-prompt", "retry-feedback"):
        part = {"part_kind": kind, "content": "Answer in JSON", "tool_name": None, "tool_call_id": "generated"}
        assert read([{"kind": "request", "parts": [part]}]).said == [("system", "Answer in JSON")]


@pytest.mark.parametrize(
    ("part", "said", "left_out"),
    [
        ({"part_kind": "user-prompt", "content": ["a", {"kind": "cache-point"}]}, [("user", "a")], {}),
        (
            {"part_kind": "user-prompt", "content": [{"kind": "text-content", "content": "b"}]},
            [("user", "b")],
            {},
        ),
        ({"part_kind": "user-prompt", "content": [{"kind": "smell"}]}, [], {"parts of type 'smell'": 1}),
        ({"part_kind": "speech", "speaker": "user", "transcript": "c", "audio": {}}, [("user", "c")], {}),
        ({"part_kind": "compaction", "content": "d"}, [], {"parts of type 'compaction'": 1}),
        ({"part_kind": "user-prompt", "content": None}, [], {"empty messages": 1}),
    ],
)
def test_kinds_of_parts(read, part: dict[str, Any], said: object, left_out: object) -> None:
    reading = read([{"kind": "request", "parts": [part]}])
    assert (reading.said, reading.left_out) == (said, left_out)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"kind": "request", "parts": 5}, "'parts' must be a list"),
        ({"kind": "request", "parts": [5]}, "a part must be an object"),
        (
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": 5}]},
            "a prompt must be an object",
        ),
        (
            {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": 5}]},
            "'tool_name' must be text",
        ),
        (
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x", "timestamp": "now"}]},
            "time 'now'",
        ),
    ],
)
def test_a_bad_message_is_refused(read, bad: object, reason: str) -> None:
    good = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "good"}]}
    reading = read([good, bad, good])
    assert reading.said == [("user", "good")] * 2
    assert reason in reading.refused[0].reason

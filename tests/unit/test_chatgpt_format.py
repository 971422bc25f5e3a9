"""The ChatGPT export: the shown branch, tools, what is hidden, and trees that are none."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from reading import FIXTURES

from casenotes.types import ToolCall, ToolResult

EXPORT = json.loads((FIXTURES / "chatgpt.json").read_text())


def node(key: str, parent: str | None, **message: Any) -> dict[str, Any]:
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [key]}, **message}
    return {"id": key, "parent": parent, "children": [], "message": {"id": key, **said}}


def tree(*nodes: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"id": "c", "mapping": {n["id"]: n for n in nodes}, **fields}]


def test_the_shown_branch_is_kept_with_its_tools(read_fixture) -> None:
    reading = read_fixture("chatgpt.json")
    assert reading.format == "chatgpt"
    assert reading.threads == ["conv-boom", "conv-tide"]
    assert [message.id for message in reading.messages[:4]] == ["ask", "code", "output", "answer"]
    (call,), (answer,) = reading.messages[1].parts, reading.messages[2].parts
    assert call == ToolCall("code", "python", {"input": "import math\nmath.degrees(math.atan2(3, 4))"})
    assert answer == ToolResult("code", "36.87")
    assert reading.messages[0].created_at == datetime(2026, 1, 2, 8, 0, 1, 500_000, tzinfo=UTC)
    assert [line.title for line in reading if hasattr(line, "title")] == ["Boom angle of crane 4"]
    assert reading.left_out == {
        "hidden messages": 2,
        "images": 1,
        "files": 1,
        "reasoning": 1,
        "messages of other branches": 1,
    }


def test_without_current_node_the_newest_message_ends_the_branch(read_fixture, read) -> None:
    assert read_fixture("chatgpt.json").said[-1] == ("tool", "High water at 05:12")
    fork = [node("a", None, create_time=1), node("new", "a", create_time=3), node("old", "a", create_time=2)]
    assert [text for _, text in read(tree(*fork)).said] == ["a", "new"]
    timeless = [node("a", None), node("b", "a"), node("c", "b")]
    assert [text for _, text in read(tree(*timeless, current_node="gone")).said] == ["a", "b", "c"]


def test_circles_are_refused_and_the_next_conversation_is_read(read) -> None:
    circle = tree(node("a", "b"), node("b", "a"), current_node="a")
    reading = read([*circle, *tree(node("x", "x"), current_node="x"), *tree(node("fine", None))])
    assert reading.said == [("user", "fine")]
    assert [(line.number, "circle" in line.reason) for line in reading.refused] == [(1, True), (2, True)]


def test_a_long_thread_takes_no_recursion(read) -> None:
    nodes = [node(str(i), str(i - 1) if i else None) for i in range(20_000)]
    assert len(read(tree(*nodes, current_node="19999")).messages) == 20_000


@pytest.mark.parametrize(
    ("content", "said", "left_out"),
    [
        ({"content_type": "text", "parts": []}, [], {"empty messages": 1}),
        ({"content_type": "text", "parts": ["a", "b"]}, [("user", "a\nb")], {}),
        ({"content_type": "code", "text": "x = 1"}, [("user", "x = 1")], {}),
        ({"content_type": "reasoning_recap", "content": "Thought for 3 s"}, [], {"reasoning": 1}),
        ({"content_type": "model_editable_context"}, [], {"hidden messages": 1}),
        ({"content_type": "computer_output"}, [], {"images": 1}),
        ({"content_type": "hologram"}, [], {"parts of type 'hologram'": 1}),
        (
            {"content_type": "tether_quote", "url": "file.txt", "title": "Tides", "text": "05:12"},
            [("user", "Tides\nfile.txt\n05:12")],
            {},
        ),
        (
            {
                "content_type": "multimodal_text",
                "parts": [
                    {"content_type": "audio_transcription", "text": "spoken"},
                    {"content_type": "audio_asset_pointer"},
                    {"content_type": "real_time_user_audio_video_asset_pointer"},
                    {"content_type": "unheard_of"},
                ],
            },
            [("user", "spoken")],
            {"audio": 2, "parts of type 'unheard_of'": 1},
        ),
    ],
)
def test_kinds_of_content(read, content: object, said: object, left_out: object) -> None:
    reading = read(tree(node("a", None, content=content)))
    assert (reading.said, reading.left_out) == (said, left_out)


def test_tools_that_the_app_hides_are_kept_and_other_hidden_messages_are_not(read) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    nodes = [
        node("system", None, author={"role": "system"}, metadata=hidden),
        node("context", "system", metadata=hidden),
        node("call", "context", author={"role": "assistant"}, recipient="web", metadata=hidden),
        node("result", "call", author={"role": "tool", "name": "web"}, metadata=hidden),
    ]
    reading = read(tree(*nodes))
    assert reading.said == [("assistant", 'web {"input": "call"}'), ("tool", "result")]
    assert reading.left_out == {"hidden messages": 2}


def test_a_tool_that_failed_and_one_that_answers_twice(read) -> None:
    tool = {"role": "tool", "name": "python"}
    failed = {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}
    error = {"content_type": "system_error", "name": "x", "text": "timeout"}
    nodes = [
        node("call", None, author={"role": "assistant"}, recipient="python"),
        node("one", "call", author=tool, metadata=failed),
        node("two", "one", author=tool, content=error),
    ]
    parts = [message.parts[0] for message in read(tree(*nodes)).messages]
    assert parts[1:] == [ToolResult("call", "one", True), ToolResult("call", "timeout", True)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mapping": []}, "'mapping' must be an object"),
        ({"mapping": {"a": 5}}, "a node must be an object"),
        ({"title": 5}, "'title' must be text"),
        ({"id": "", "conversation_id": ["x"]}, "'id' must be"),
        ({"conversation_id": "x" * 600}, "600 bytes"),
    ],
)
def test_a_bad_conversation_is_refused(read, change: dict[str, Any], reason: str) -> None:
    reading = read([EXPORT[1], {**EXPORT[0], **change}])
    assert reading.threads == ["conv-tide"]
    (refused,) = reading.refused
    assert (refused.number, refused.message_number) == (2, None)
    assert reason in refused.reason


@pytest.mark.parametrize("name", ["author", "content", "metadata", "create_time", "recipient", "id"])
@pytest.mark.parametrize("value", [5, "x", [1], {"a": 1}, True])
def test_wrong_types_in_a_message_refuse_at_most_that_message(read, name: str, value: object) -> None:
    export = copy.deepcopy(EXPORT[:1])
    export[0]["mapping"]["answer"]["message"][name] = value
    reading = read(export)
    assert len(reading.refused) <= 1
    assert [message.id for message in reading.messages[:3]] == ["ask", "code", "output"]

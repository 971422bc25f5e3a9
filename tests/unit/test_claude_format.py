"""The Claude export: blocks, attachments, versions of a message, and older files with plain text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from casenotes.types import ToolCall, ToolResult

ROOT = "00000000-0000-4000-8000-000000000000"


def message(uuid: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "sender": "human", "text": uuid, "parent_message_uuid": parent, **fields}


def conversation(*messages: object, **fields: Any) -> list[dict[str, Any]]:
    return [{"uuid": "c", "name": "Flour", "chat_messages": list(messages), **fields}]


def test_blocks_attachments_and_tools(read_fixture) -> None:
    reading = read_fixture("claude.json")
    assert reading.format == "claude"
    assert reading.said[:4] == [
        ("user", "Plan the ovens from this list.\norders.txt:\nrye 40, baguette 120"),
        ("assistant", 'I look at the ovens.\nlist_ovens {"site": "mill lane"}'),
        ("tool", "oven 2 is being repaired"),
        ("assistant", "Rye in oven 1, baguettes in oven 3."),
    ]
    assert [message.id for message in reading.messages[:4]] == ["m-1", "m-3", "m-3:2", "m-3:3"]
    (call,), (answer,) = reading.messages[1].parts, reading.messages[2].parts
    assert call == ToolCall(answer.call_id, "list_ovens", {"site": "mill lane"})
    assert answer == ToolResult(call.id, "oven 2 is being repaired")
    assert reading.messages[0].created_at == datetime(2026, 2, 1, 4, tzinfo=UTC)
    assert reading.left_out == {"files": 2, "reasoning": 1, "messages of other branches": 1}
    assert [line.title for line in reading if hasattr(line, "title")] == ["Oven schedule"]


def test_older_exports_have_text_alone(read_fixture) -> None:
    assert read_fixture("claude.json").said[4:] == [
        ("user", "Which flour is in silo 3?"),
        ("assistant", "Spelt."),
    ]


def test_the_branch_of_the_last_message_or_of_the_named_leaf(read) -> None:
    fork = [message("a", ROOT), message("b", "a"), message("c", "a"), message("d", "c")]
    assert [text for _, text in read(conversation(*fork)).said] == ["a", "c", "d"]
    named = read(conversation(*fork, current_leaf_message_uuid="b"))
    assert [text for _, text in named.said] == ["a", "b"]
    assert named.left_out == {"messages of other branches": 2}


@pytest.mark.parametrize(
    "messages",
    [
        [message("a"), message("b")],
        [message("a", "gone"), message("b", "a")],
        [message("a", "b"), message("b", "a")],
        [message("a", ROOT), message("b", 5)],
    ],
)
def test_where_the_links_form_no_tree_everything_is_kept(read, messages: list[Any]) -> None:
    assert [text for _, text in read(conversation(*messages)).said] == ["a", "b"]


def test_a_failed_tool_and_an_empty_conversation(read) -> None:
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "no flour"}
    reading = read([*conversation(message("a", content=[failed])), *conversation()])
    assert reading.messages[0].parts == (ToolResult("t", "no flour", True),)
    assert reading.refused == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (5, "a message must be an object"),
        (message("x", content="text"), "'content' must be a list"),
        (message("x", text=5), "'text' must be text"),
        (message("x", sender=5), "'sender' must be text"),
        (message("x", attachments=[5]), "an attachment must be an object"),
        (message("x", created_at="once upon a time"), "is not understood"),
    ],
)
def test_a_bad_message_is_refused_with_its_place(read, bad: object, reason: str) -> None:
    reading = read(conversation(message("a"), bad, message("b")))
    assert [text for _, text in reading.said] == ["a", "b"]
    (refused,) = reading.refused
    assert (refused.number, refused.message_number) == (1, 2)
    assert reason in refused.reason

"""LangChain messages, as written by langchain-core itself and as older releases wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from casenotes.types import ToolCall, ToolResult


def written_by_langchain(form: str) -> object:
    from langchain_core.load import dumpd, dumps
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict

    messages = [
        SystemMessage("You run the crane desk."),
        HumanMessage(
            [{"type": "text", "text": "Raise the boom"}, {"type": "image_url", "image_url": {"url": "x"}}],
            id="h",
        ),
        AIMessage(
            [
                {"type": "thinking", "thinking": "careful"},
                {"type": "text", "text": "I try."},
                {"type": "tool_use", "id": "t-1", "name": "raise_boom", "input": {"metres": 2}},
            ],
            tool_calls=[{"name": "raise_boom", "args": {"metres": 2}, "id": "t-1"}],
            invalid_tool_calls=[{"name": "lower", "args": "{oops", "id": "t-2", "error": "no JSON"}],
        ),
        ToolMessage("wind too strong", tool_call_id="t-1", status="error", artifact={"knots": 41}),
    ]
    if form == "dumps":
        return dumps(messages).encode()
    return {
        "dict": lambda: messages_to_dict(messages),
        "dumpd": lambda: dumpd(messages),
        "dumpd one by one": lambda: [dumpd(message) for message in messages],
        "model_dump": lambda: [message.model_dump() for message in messages],
        "state": lambda: {"messages": messages_to_dict(messages)},
    }[form]()


@pytest.mark.parametrize("form", ["dict", "dumpd", "dumps", "dumpd one by one", "model_dump", "state"])
def test_every_form_that_langchain_writes(read, form: str) -> None:
    reading = read(written_by_langchain(form))
    assert reading.format == "langchain"
    assert [role for role, _ in reading.said] == ["system", "user", "assistant", "tool"]
    assert reading.messages[1].id == "h"
    assert reading.messages[2].text == "I try."
    assert reading.messages[2].parts == (
        ToolCall("t-1", "raise_boom", {"metres": 2}),
        ToolCall("t-2", "lower", {"input": "{oops"}),
    )
    assert reading.messages[3].parts == (ToolResult("t-1", "wind too strong", True),)
    assert reading.left_out == {"images": 1, "reasoning": 1, "artifacts": 1}


def test_files_of_both_forms(read_fixture) -> None:
    assert read_fixture("langchain.json").said[2:] == [
        ("assistant", 'crane_status {"crane": 2}'),
        ("tool", "booked until 14:30"),
        ("assistant", "It is booked until 14:30."),
    ]
    chunk = read_fixture("langchain_constructors.json").messages[1]
    assert chunk.parts == (ToolCall("t-1", "raise_boom", {"metres": 2}),)


def test_calls_where_older_releases_kept_them(read) -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    data = {"content": "", "additional_kwargs": {"tool_calls": [{"id": "c", "function": function}]}}
    answer = {"type": "function", "data": {"name": "f", "content": "r"}}
    messages = read([{"type": "ai", "data": data}, answer]).messages
    assert messages[0].parts == (ToolCall("c", "f", {"a": 1}),)
    assert messages[1].parts == (ToolResult("c", "r"),)


def test_other_speakers_and_removals(read) -> None:
    chat = {"type": "chat", "data": {"content": "too loud", "role": "critic"}}
    reading = read([chat, {"type": "remove", "data": {"content": "", "id": "x"}}])
    assert reading.said == [("user", "too loud")]
    assert reading[0].replaced_role == "critic"
    assert reading.left_out == {"removals of messages": 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"type": "human", "data": 5}, "data of a message must be an object"),
        ({"type": "alien", "data": {}}, "'alien' is no kind of LangChain message"),
        ({"lc": 1, "type": "not_implemented", "id": ["x", "Tool"], "repr": "Tool()"}, "must be an object"),
        ({"lc": 1, "type": "constructor", "id": 5, "kwargs": {}}, "no kind of LangChain message"),
        ({"type": "ai", "data": {"content": "", "tool_calls": {}, "additional_kwargs": []}}, "must be a list"),
    ],
)
def test_a_bad_message_is_refused(read, bad: dict[str, Any], reason: str) -> None:
    good = json.loads('{"type": "human", "data": {"content": "good"}}')
    reading = read([good, bad, good])
    assert reading.said == [("user", "good")] * 2
    assert [line.number for line in reading.refused] == [2]
    assert reason in reading.refused[0].reason

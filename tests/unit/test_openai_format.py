"""OpenAI-style messages: chat, older function calls, Responses items, and JSONL of conversations."""

from __future__ import annotations

import json

import pytest

from casenotes.types import ToolCall, ToolResult


def test_a_chat_with_tools_and_a_picture(read_fixture) -> None:
    reading = read_fixture("openai.json")
    assert reading.format == "openai"
    assert reading.said == [
        ("system", "You look after the cranes of the north quay."),
        ("user", "Crane 4 stops half-way. Why?"),
        ("assistant", 'read_faults {"crane": 4}'),
        ("tool", "F-117 limit switch of the boom is stuck"),
        ("assistant", "The limit switch of the boom is stuck (F-117)."),
    ]
    assert reading.messages[2].parts == (ToolCall("call_a", "read_faults", {"crane": 4}),)
    assert reading.messages[3].parts == (ToolResult("call_a", "F-117 limit switch of the boom is stuck"),)
    assert reading.messages[1].metadata == {"name": "dispatcher"}
    assert reading.left_out == {"images": 1}
    assert reading.threads == ["openai"]


def test_older_function_calls_get_ids_that_pair_them(read_fixture) -> None:
    reading = read_fixture("openai_legacy.json")
    (call,), (answer,) = reading.messages[1].parts, reading.messages[2].parts
    assert call == ToolCall(answer.call_id, "count_orders", {"input": "Friday, sourdough"})
    assert reading[-1].title == "Sourdough stock"
    assert reading == read_fixture("openai_legacy.json")


def test_responses_items(read_fixture) -> None:
    reading = read_fixture("openai_responses.json")
    assert [role for role, _ in reading.said] == ["user", "assistant", "tool", "assistant"]
    assert reading.messages[1].parts == (ToolCall("call_1", "oven", {"number": 2}),)
    assert reading.messages[2].parts == (ToolResult("call_1", '{"celsius": 231}'),)
    assert [message.id for message in reading.messages][1::2] == ["fc_1", "msg_1"]
    assert reading.left_out == {"reasoning": 1}


def test_conversations_in_lines_are_threads_of_their_own(read_fixture, read) -> None:
    reading = read_fixture("openai_conversations.jsonl")
    assert reading.threads == ["openai_conversations-1", "openai_conversations-2"]
    assert len({message.id for message in reading.messages}) == 6
    one = json.dumps({"messages": [{"role": "user", "content": "a"}]}).encode()
    broken = read(one + b"\n{broken\n" + one + b"\n")
    assert broken.threads == ["chat-1", "chat-3"]
    assert [(line.number, line.message_number) for line in broken.refused] == [(2, None)]


@pytest.mark.parametrize(
    "layout",
    [
        [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]],
        [{"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "user", "content": "b"}]}],
        b'[{"role": "user", "content": "a"}]\n[{"role": "user", "content": "b"}]\n',
        b'{"messages": [\n{"role": "user", "content": "a"}\n]}\n'
        b'{"messages": [{"role": "user", "content": "b"}]}',
    ],
)
def test_several_conversations_however_they_are_laid_out(read, layout: object) -> None:
    reading = read(layout)
    assert reading.threads == ["chat-1", "chat-2"]
    assert reading.said == [("user", "a"), ("user", "b")]


def test_one_message_a_line_is_one_conversation(read) -> None:
    reading = read(b'{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}\n')
    assert reading.threads == ["chat"]
    assert read(b'{"id": "t", "messages": [{"role": "user", "content": "a"}]}').threads == ["t"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("[1]", {"input": "[1]"}),
        ("{broken", {"input": "{broken"}),
        ('{"a": NaN}', {"input": '{"a": NaN}'}),
        ("[" * 100_000, {"input": "[" * 100_000}),
        (7, {"input": 7}),
    ],
)
def test_arguments_are_an_object_or_kept_as_input(read, arguments: object, kept: object) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (message,) = read([{"role": "assistant", "tool_calls": [call]}]).messages
    assert message.parts == (ToolCall("c", "f", kept),)


@pytest.mark.parametrize(
    ("message", "said", "left_out"),
    [
        ({"role": "user", "content": None}, [], {"empty messages": 1}),
        ({"role": "user", "content": "  "}, [], {"empty messages": 1}),
        ({"role": "user", "content": ["a", {"type": "input_text", "text": "b"}]}, [("user", "a\nb")], {}),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, [("assistant", "no")], {}),
        ({"role": "user", "content": [{"type": "text", "text": {"value": "v"}}]}, [("user", "v")], {}),
        ({"role": "user", "content": [{"type": "input_audio"}]}, [], {"audio": 1}),
        ({"role": "user", "content": [{"type": "hologram"}]}, [], {"parts of type 'hologram'": 1}),
        (
            {"role": "assistant", "content": "x", "reasoning_content": "hm"},
            [("assistant", "x")],
            {"reasoning": 1},
        ),
        (
            {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "t"}},
            [("assistant", "t")],
            {"audio": 1},
        ),
        ({"role": "tool", "content": [{"type": "text", "text": "a"}, {"n": 1}]}, [("tool", 'a\n{"n": 1}')], {}),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]},
            [("tool", "r")],
            {},
        ),
        ({"role": "critic", "content": "x"}, [("user", "x")], {}),
    ],
)
def test_contents(read, message: object, said: object, left_out: object) -> None:
    reading = read([message])
    assert (reading.said, reading.left_out) == (said, left_out)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (5, "a message must be an object, got int"),
        ({}, "neither 'role' nor 'type'"),
        ({"role": 5, "content": "x"}, "the field 'role' must be text, got int"),
        ({"role": "user", "content": 5}, "the content must be an object, got int"),
        ({"role": "user", "content": [5]}, "a part of the content must be an object, got int"),
        ({"role": "assistant", "tool_calls": "x"}, "the field 'tool_calls' must be a list, got str"),
        ({"role": "assistant", "tool_calls": [{}]}, "a tool call has no name"),
        ({"role": "user", "content": "x", "id": []}, "'id' must be"),
        ({"role": "user", "content": "x", "created_at": "soon"}, "time 'soon'"),
    ],
)
def test_a_bad_message_is_refused_with_its_place_and_the_rest_is_read(
    read, message: object, reason: str
) -> None:
    good = {"role": "user", "content": "good"}
    loose = read([good, message, good])
    assert loose.said == [("user", "good")] * 2
    assert (loose.refused[0].number, loose.refused[0].message_number) == (2, None)
    assert reason in loose.refused[0].reason
    inside = read([{"messages": [good]}, {"messages": [good, message, good]}])
    assert (inside.refused[0].number, inside.refused[0].message_number) == (2, 2)
    assert len(inside.messages) == 3


def test_results_find_their_calls_without_ids(read) -> None:
    def call(name: str) -> dict[str, object]:
        return {"role": "assistant", "function_call": {"name": name, "arguments": "{}"}}

    def answer(name: str | None) -> dict[str, object]:
        return {"role": "function", "name": name, "content": "r"}

    messages = read([call("a"), call("b"), answer("b"), answer("a"), answer("a"), answer(None)]).messages
    ids = [getattr(part, "id", None) or part.call_id for message in messages for part in message.parts]
    first, second = ids[:2]
    assert ids == [first, second, second, first, first, "call:6:1:1"]


def test_a_message_without_time_takes_that_of_the_one_before(read) -> None:
    first = {"role": "user", "content": "when?", "created_at": "2024-05-01T08:00:00Z"}
    reading = read([first, {"role": "assistant", "content": "soon"}])
    assert [message.created_at.year for message in reading.messages] == [2024, 2024]


def test_lines_with_a_scope_are_ours_even_if_they_say_content(read) -> None:
    lines = [
        {
            "scope": name,
            "thread": f"{name}-1",
            "time": "2024-01-01",
            "role": "user",
            "content": f"{name} speaks",
        }
        for name in ("alice", "bob")
    ]
    reading = read("\n".join(map(json.dumps, lines)).encode())
    assert reading.format == "jsonl"
    assert [(line.scope.resource_id, line.message.text) for line in reading] == [
        ("alice", "alice speaks"),
        ("bob", "bob speaks"),
    ]
    forced = read([{"role": "user", "content": "fine"}, lines[0]], format="openai")
    assert [refused.reason for refused in forced.refused] == [
        "it names a scope of its own; import the file with --format jsonl"
    ]

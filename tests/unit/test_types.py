"""Values refuse what could not be stored or would be ambiguous."""

import pytest

from casenotes import Message, Scope, ToolCall, ToolResult
from casenotes.errors import InvalidMessage, InvalidScope


@pytest.mark.parametrize("field", ["agent_id", "resource_id", "thread_id"])
@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (7, "int"),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 513, "513 bytes"),
        ("ж" * 257, "514 bytes"),
    ],
)
def test_scope_refuses_unusable_ids(field: str, value: object, named: str) -> None:
    values = {"agent_id": "a", "resource_id": "r", "thread_id": "t", field: value}
    with pytest.raises(InvalidScope, match=named) as caught:
        Scope(**values)
    assert field in str(caught.value)


def test_scope_needs_an_agent_but_neither_resource_nor_thread() -> None:
    assert Scope("a").resource_id is None
    with pytest.raises(InvalidScope, match="agent_id"):
        Scope(None)


def test_message_refuses_unknown_roles_and_texts_that_are_none() -> None:
    with pytest.raises(InvalidMessage, match="'bot'"):
        Message("bot", "hello")
    with pytest.raises(InvalidMessage, match="NoneType"):
        Message("user", None)


def test_search_text_holds_text_tool_calls_and_results() -> None:
    message = Message(
        "assistant",
        "Looking.",
        parts=[ToolCall("1", "find", {"q": "ü"}), ToolResult("1", "found it")],
    )
    assert message.search_text == 'Looking.\nfind {"q": "ü"}\nfound it'
    assert isinstance(message.parts, tuple)
    assert Message("user", "plain").search_text == "plain"

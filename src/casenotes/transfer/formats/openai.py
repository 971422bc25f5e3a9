"""Messages as the OpenAI API takes them: chat messages, their older forms, and items of Responses.

Many other tools write the same shape, so blocks of Anthropic's API in the content are understood too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from casenotes.errors import InvalidMessage
from casenotes.transfer.formats.blocks import content_blocks, result, tool_call
from casenotes.transfer.formats.transcript import (
    AUDIO,
    REASONING,
    Content,
    Grammar,
    Piece,
    Spoken,
    as_object,
    conversation_format,
    list_field,
    listed_conversation,
    object_field,
    recognises_listed,
    text_field,
)

ROLES = {"developer": "system", "function": "tool"}
SAID = ("content", "tool_calls", "function_call")
ITEMS = {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}


def _is_message(item: Mapping[str, Any]) -> bool:
    if "scope" in item:  # a line of ours that says `content` instead of `text`
        return False
    has_role = isinstance(item.get("role"), str) and any(name in item for name in SAID)
    return has_role or (isinstance(item.get("type"), str) and item["type"] in ITEMS)


def _message(item: Mapping[str, Any]) -> Spoken:
    if "scope" in item:
        raise InvalidMessage("it names a scope of its own; import the file with --format jsonl")
    time = item.get("created_at") or item.get("timestamp")
    role = text_field(item, "role")
    if role is None:
        if "type" not in item:
            raise InvalidMessage("not a message: it has neither 'role' nor 'type'")
        return Spoken(content_blocks("assistant", item), item.get("id"), time)
    return Spoken(_content(ROLES.get(role, role), item), item.get("id"), time, item.get("name"))


def _content(role: str, item: Mapping[str, Any]) -> Iterator[Content]:
    if role == "tool":
        call = text_field(item, "tool_call_id")
        yield from result(call, text_field(item, "name"), item.get("content"), failed=False)
        return
    yield from content_blocks(role, item.get("content"))
    yield from _spoken_answer(role, object_field(item, "audio"))
    if item.get("reasoning_content") or item.get("reasoning"):
        yield REASONING
    yield from tool_calls(item)


def _spoken_answer(role: str, audio: Mapping[str, Any]) -> Iterator[Content]:
    if audio:
        yield AUDIO
        yield Piece(role, text_field(audio, "transcript") or "")


def tool_calls(item: Mapping[str, Any]) -> Iterator[Piece]:
    """The calls of an assistant's message; LangChain keeps them in the same shape."""
    for call in list_field(item, "tool_calls"):
        given = as_object(call, "a tool call")
        yield tool_call({**given, **object_field(given, "function"), **object_field(given, "custom")})
    if legacy := object_field(item, "function_call"):
        yield tool_call(legacy)


FORMAT = conversation_format(
    "openai",
    "OpenAI-style messages (a list, an object with 'messages', or JSONL of these)",
    partial(recognises_listed, _is_message),
    Grammar(listed_conversation, _message),
)

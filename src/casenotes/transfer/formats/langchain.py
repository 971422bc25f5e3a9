"""LangChain messages: what `messages_to_dict`, `dumpd` and `dumps`, or `model_dump` write.

Providers leave a call both in the content and in `tool_calls`; it is kept once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from casenotes.errors import InvalidMessage
from casenotes.transfer.formats.blocks import content_blocks, result, tool_call
from casenotes.transfer.formats.openai import tool_calls
from casenotes.transfer.formats.transcript import (
    Content,
    Grammar,
    LeftOut,
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
from casenotes.types import ToolCall

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
KINDS = {*ROLES, "chat", "remove"}


def _is_message(item: Mapping[str, Any]) -> bool:
    return "role" not in item and _kind(item) in KINDS and isinstance(_data(item), Mapping)


def _data(item: Mapping[str, Any]) -> object:
    """The fields of a message, wherever the form puts them."""
    if item.get("lc") is not None:
        return item.get("kwargs")
    return item.get("data", item)


def _kind(item: Mapping[str, Any]) -> str:
    """human, ai, … from the type, or from the name of the class: AIMessageChunk is ai."""
    path = item.get("id")
    name = path[-1] if item.get("lc") is not None and isinstance(path, list) and path else item.get("type")
    return str(name).removesuffix("Chunk").removesuffix("Message").lower()


def _message(item: Mapping[str, Any]) -> Spoken:
    kind, data = _kind(item), as_object(_data(item), "the data of a message")
    if kind not in KINDS:
        raise InvalidMessage(f"{kind!r:.80} is no kind of LangChain message")
    role = ROLES.get(kind) or text_field(data, "role") or "user"
    name = data.get("name")
    return Spoken(_content(kind, role, data), data.get("id"), name=name)


def _content(kind: str, role: str, data: Mapping[str, Any]) -> Iterator[Content]:
    if kind == "remove":
        yield LeftOut("removals of messages")
    elif role == "tool":
        failed = data.get("status") == "error"
        call = text_field(data, "tool_call_id")
        yield from result(call, text_field(data, "name"), data.get("content"), failed)
        if data.get("artifact") is not None:
            yield LeftOut("artifacts")
    else:
        calls = list(_calls(data))
        known = {piece.part.id for piece in calls if isinstance(piece.part, ToolCall)}
        for piece in content_blocks(role, data.get("content")):
            if not _is_call_of(piece, known):
                yield piece
        yield from calls


def _calls(data: Mapping[str, Any]) -> Iterator[Piece]:
    """Calls in the field of today, or in the one that older releases used."""
    listed = [*list_field(data, "tool_calls"), *list_field(data, "invalid_tool_calls")]
    for call in listed:
        yield tool_call(as_object(call, "a tool call"))
    if not listed:
        yield from tool_calls(object_field(data, "additional_kwargs"))


def _is_call_of(piece: Content, known: set[str]) -> bool:
    return isinstance(piece, Piece) and isinstance(piece.part, ToolCall) and piece.part.id in known


FORMAT = conversation_format(
    "langchain",
    "LangChain messages (messages_to_dict, dumpd or dumps)",
    partial(recognises_listed, _is_message),
    Grammar(listed_conversation, _message),
)

"""Content blocks: text, calls, results and media as OpenAI, Anthropic and LangChain write them.

The three agree on the idea and differ in names, so one reader knows all names. A block of a kind that
nobody has told us about is kept if it carries text, and counted if it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from casenotes.errors import InvalidMessage
from casenotes.transfer.formats.transcript import (
    AUDIO,
    FILE,
    IMAGE,
    REASONING,
    Content,
    LeftOut,
    Piece,
    as_object,
    text_field,
)
from casenotes.types import ToolCall, ToolResult

MEDIA = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_file"), IMAGE),
    **dict.fromkeys(("audio", "audio_url", "input_audio", "output_audio"), AUDIO),
    **dict.fromkeys(("file", "input_file", "document", "video", "video_url", "container_upload"), FILE),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning", "reasoning_content"), REASONING),
}
CALLS = {
    *("tool_use", "server_tool_use", "mcp_tool_use"),
    *("tool_call", "invalid_tool_call", "server_tool_call"),
    *("function_call", "custom_tool_call"),
}
TEXTS = {"text", "input_text", "output_text"}
ANSWERED = ("tool_use_id", "call_id", "tool_call_id")  # tie a result to its call; its own id does not
RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")


def content_blocks(role: str, content: object) -> Iterator[Content]:
    """The pieces of a message's content: nothing, a text, a block or a list of blocks."""
    if isinstance(content, str):
        yield Piece(role, content)
    elif content is not None:
        for block in _listed(content):
            yield from _block(role, block)


def tool_call(item: Mapping[str, Any]) -> Piece:
    """A call, whose arguments may be JSON text."""
    name = text_field(item, "name")
    if not name:
        raise InvalidMessage("a tool call has no name")
    arguments = next((item[key] for key in ("input", "arguments", "args") if item.get(key) is not None), None)
    return Piece(
        "assistant", part=ToolCall(_first_text(item, (*ANSWERED, "id")), name, call_arguments(arguments))
    )


def tool_result(item: Mapping[str, Any]) -> Iterator[Content]:
    """A result: its text, and what of it is not kept."""
    content = item["output"] if item.get("content") is None and "output" in item else item.get("content")
    failed = item.get("is_error") is True or item.get("status") in ("error", "failed")
    yield from result(_first_text(item, ANSWERED), text_field(item, "name"), content, failed)


def result(call: str | None, tool: str | None, content: object, failed: bool) -> Iterator[Content]:
    """A tool message of a result's content."""
    said = list(_result_content(content))
    text = "\n".join(piece.text for piece in said if isinstance(piece, Piece))
    yield Piece("tool", part=ToolResult(call or "", text, failed), tool=tool)
    yield from (piece for piece in said if isinstance(piece, LeftOut))


def call_arguments(given: object) -> Mapping[str, Any]:
    """The arguments as an object; anything else is kept under the key `input`."""
    if isinstance(given, Mapping):
        return given
    parsed = _parsed(given) if isinstance(given, str) else given
    if isinstance(parsed, Mapping):
        return parsed
    return {} if given is None or given == "" else {"input": given}


def json_text(value: object) -> str:
    """A value as JSON, unless it is text already."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise InvalidMessage("nested too deeply") from None


def _first_text(item: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((text for name in names if (text := text_field(item, name))), "")


def _parsed(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _listed(content: object) -> list[Any]:
    if isinstance(content, list):
        return content
    return [as_object(content, "the content")]


def _block(role: str, block: object) -> Iterator[Content]:
    if isinstance(block, str):
        yield Piece(role, block)
        return
    block = as_object(block, "a part of the content")
    kind = str(block.get("type"))
    if kind in MEDIA:
        yield MEDIA[kind]
    elif kind in CALLS:
        yield tool_call(block)
    elif kind.endswith(RESULTS):
        yield from tool_result(block)
    else:
        yield _text_block(role, kind, block)


def _text_block(role: str, kind: str, block: Mapping[str, Any]) -> Content:
    text = block.get("text", block.get("refusal"))
    if isinstance(text, Mapping):
        text = text.get("value")
    return Piece(role, text) if isinstance(text, str) else LeftOut(f"parts of type {kind!r:.60}")


def _result_content(content: object) -> Iterator[Content]:
    """Results hold text, media or plain data; data of any shape is kept as JSON."""
    if content is None:
        return
    for item in content if isinstance(content, list) else [content]:
        block = item if isinstance(item, Mapping) else {}
        kind, text = str(block.get("type")), block.get("text")
        said = text if kind in TEXTS and isinstance(text, str) else json_text(item)
        yield MEDIA.get(kind) or Piece("tool", said)

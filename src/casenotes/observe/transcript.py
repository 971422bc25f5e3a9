"""What the Observer is asked: messages with their times as JSON, tool calls and results among them.

All of it is data of others: it stands in an envelope that it cannot close, without secrets, long results cut
in the middle. What memory itself has put in front of the model is left out, and so are system messages: an
observer that reads its own notes notes them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from casenotes.learn.prompts import filled
from casenotes.learn.transcript import TAG_OPENERS, pieces, windows
from casenotes.masking import mask
from casenotes.tokens import TokenCounter
from casenotes.types import RECALL_TOOL, Message, ToolCall, ToolResult, part_text

MAX_REQUEST_TOKENS = 24_000
MAX_REQUESTS = 8
"""What a single message says beyond that is left out; the log still has it."""

MAX_RESULT_CHARACTERS = 6_000
MAX_ARGUMENT_CHARACTERS = 2_000
RECALLED = "[recalled memory, left out]"
_BLOCKS = "memory|observations|session-memory|user-profile|episodes|plan|semantic-recall|known-memory"
_BLOCK = re.compile(rf"<({_BLOCKS})>.*?</\1>", re.DOTALL)


def observer_prompts(
    messages: Sequence[Message], log: str, session: str, zone: tzinfo, count_tokens: TokenCounter
) -> list[str]:
    """The requests for a batch, mostly one; none if there is nothing to read in it."""
    tools = _tool_names(messages)
    rows = [
        row
        for message in messages
        if message.role != "system"
        for row in _rows(message, tools, zone, count_tokens)
    ]
    lines = [json.dumps(row, ensure_ascii=False).translate(TAG_OPENERS) for row in rows]
    sizes = [count_tokens(line) for line in lines]
    return [
        filled("observe_messages", log=log, session=session, transcript=_array(lines[first:end]))
        for first, end in list(windows(sizes, MAX_REQUEST_TOKENS))[:MAX_REQUESTS]
    ]


def read_texts(messages: Sequence[Message]) -> list[str]:
    """All that a batch says, text by text."""
    return [text for message in messages for text in (message.text, *map(part_text, message.parts)) if text]


def without_blocks(text: str) -> str:
    """A text without the blocks that memory has put into it."""
    return _BLOCK.sub("", text) if "<" in text else text


def local_time(time: datetime, zone: tzinfo) -> str:
    """A full date and the time of day, in the user's zone."""
    return time.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def cut_in_the_middle(text: str, most: int) -> str:
    """The beginning and the end of a long text, and how much is missing between them."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]} [… {len(text) - head - tail} characters left out …] {text[-tail:]}"


def _rows(
    message: Message, tools: Mapping[str, str], zone: tzinfo, count_tokens: TokenCounter
) -> Iterable[dict[str, Any]]:
    """A message as one row; a text that is too long for one request goes on in others."""
    head: dict[str, Any] = {"role": message.role}
    if message.created_at is not None:
        head = {"time": local_time(message.created_at, zone)} | head
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    results = [_result(part, tools) for part in message.parts if isinstance(part, ToolResult)]
    parts = ({"calls": calls} if calls else {}) | ({"results": results} if results else {})
    text = mask(without_blocks(message.text))
    if message.role == "tool" and results:
        text = cut_in_the_middle(text, MAX_RESULT_CHARACTERS)
    said = Message(message.role, text)
    for number, piece in enumerate(pieces(said, MAX_REQUEST_TOKENS // 2, count_tokens)):
        yield head | {"text": piece.text} | (parts if not number else {})
    if parts and not text.strip():
        yield head | parts


def _call(call: ToolCall) -> dict[str, str]:
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return {"tool": call.name, "arguments": cut_in_the_middle(mask(arguments), MAX_ARGUMENT_CHARACTERS)}


def _result(result: ToolResult, tools: Mapping[str, str]) -> dict[str, Any]:
    name = tools.get(result.call_id, "")
    content = RECALLED if name == RECALL_TOOL else mask(without_blocks(result.content))
    row: dict[str, Any] = {"tool": name} if name else {}
    row["content"] = cut_in_the_middle(content, MAX_RESULT_CHARACTERS)
    return row | ({"failed": True} if result.is_error else {})


def _tool_names(messages: Sequence[Message]) -> dict[str, str]:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolCall))
    return {call.id: call.name for call in calls}


def _array(lines: Sequence[str]) -> str:
    return "[\n" + ",\n".join(lines) + "\n]"

"""What the Observer is asked: messages with their times as JSON, tool calls and results among them.

All of it is data of others: it stands in an envelope that it cannot close, without secrets, long results cut
in the middle. What memory itself has put in front of the model is left out, and so are system messages: an
observer that reads its own notes notes them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

from casenotes.learn.prompts import filled
from casenotes.learn.speakers import shown_name
from casenotes.learn.transcript import TAG_OPENERS, pieces, windows
from casenotes.masking import mask
from casenotes.pairs import answered
from casenotes.tokens import TokenCounter
from casenotes.types import RECALL_TOOL, Message, ToolCall, ToolResult, part_text

MAX_REQUEST_TOKENS = 24_000
MAX_REQUESTS = 8
"""What a single message says beyond that is left out; the log still has it."""

MAX_RESULT_CHARACTERS = 6_000
MAX_ARGUMENT_CHARACTERS = 2_000
RECALLED = "[recalled memory, left out]"
LEFT_OUT = "[memory block, left out]"
BLOCKS = ("memory", "observations", "session-memory", "user-profile", "episodes", "plan", "semantic-recall")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Requests(NamedTuple):
    """What is asked about a batch: the transcripts, mostly one, and the messages that they hold.

    `is_whole` is false where a single message says more than all of them can hold.
    """

    transcripts: list[str]
    messages: Sequence[Message]
    is_whole: bool = True


def requests_for(messages: Sequence[Message], zone: tzinfo, count_tokens: TokenCounter) -> Requests:
    """The requests for a batch, or for as much of it as a few can hold; none if nothing can be read."""
    tools = _tool_names(messages)
    rows = [
        (place, json.dumps(row, ensure_ascii=False).translate(TAG_OPENERS))
        for place, message in enumerate(messages)
        if message.role != "system"
        for row in _rows(message, tools.get(place, {}), zone, count_tokens)
    ]
    parts = list(windows([count_tokens(line) for _, line in rows], MAX_REQUEST_TOKENS))
    held, is_whole = len(messages), True
    if len(parts) > MAX_REQUESTS:
        first_left_out = rows[parts[MAX_REQUESTS][0]][0]
        is_whole = first_left_out > 0
        held = first_left_out or 1
    lines = [line for place, line in rows if place < held]
    ends = [(first, min(end, len(lines))) for first, end in parts[:MAX_REQUESTS] if first < len(lines)]
    return Requests([_array(lines[first:end]) for first, end in ends], messages[:held], is_whole)


def observer_prompt(transcript: str, log: str, session: str) -> str:
    """One request."""
    return filled("observe_messages", log=log, session=session, transcript=transcript)


def read_texts(messages: Sequence[Message]) -> list[str]:
    """All that a batch says, text by text."""
    return [
        text
        for message in messages
        for text in (shown_name(message), message.text, *map(part_text, message.parts))
        if text
    ]


def without_blocks(text: str) -> str:
    """A text without the blocks that memory has put into it, known by their shape: `<plan>` alone is a word."""
    for name in BLOCKS:
        text = _without(text, f"<{name}>\n<description>", f"</value>\n</{name}>") if "<" in text else text
    return text


def _without(text: str, opening: str, closing: str) -> str:
    """Everything from an opening to its closing is left out; in one pass, however often there is no closing."""
    kept, at = [], 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept += [text[at:start], LEFT_OUT]
        at = end + len(closing)
    return "".join([*kept, text[at:]]) if kept else text


def local_time(time: datetime, zone: tzinfo) -> str:
    """A full date and the time of day, in the user's zone."""
    return f"{localised(time, zone).isoformat(' ', 'minutes')[:16]}"


def localised(time: datetime, zone: tzinfo) -> datetime:
    """A time in the user's zone; as it is at the very ends of the calendar."""
    try:
        return time.astimezone(zone)
    except (ValueError, OverflowError):
        return time


def weekday(day: date) -> str:
    """The same in every locale: it stands in texts that must not change."""
    return DAYS[day.weekday()]


def cut_in_the_middle(text: str, most: int) -> str:
    """The beginning and the end of a long text, and how much is missing between them."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]} [… {len(text) - head - tail} characters left out …] {text[-tail:]}"


def _rows(
    message: Message, tools: Mapping[int, str], zone: tzinfo, count_tokens: TokenCounter
) -> Iterable[dict[str, Any]]:
    """A message as one row; what is too long for one request goes on in others."""
    head: dict[str, Any] = {"role": message.role}
    if name := shown_name(message):
        head["speaker"] = name
    if message.created_at is not None:
        moment = local_time(message.created_at, zone)
        head = {"time": f"{weekday(date.fromisoformat(moment[:10]))} {moment}"} | head
    parts = [
        ("calls", _call(part))
        if isinstance(part, ToolCall)
        else ("results", _result(part, tools.get(place, "")))
        for place, part in enumerate(message.parts)
    ]
    sizes = [count_tokens(json.dumps(row, ensure_ascii=False)) for _, row in parts]
    groups = [parts[first:end] for first, end in windows(sizes, MAX_REQUEST_TOKENS // 2)]
    text = mask(without_blocks(message.text))
    if message.role == "tool" and any(name == "results" for name, _ in parts):
        text = cut_in_the_middle(text, MAX_RESULT_CHARACTERS)
    said = Message(message.role, text)
    for piece in pieces(said, MAX_REQUEST_TOKENS // 2, count_tokens):
        yield head | {"text": piece.text} | _named(groups.pop(0) if groups else [])
    for group in groups:
        yield head | _named(group)


def _named(parts: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Calls and results, each kind under its name."""
    named: dict[str, list[dict[str, Any]]] = {}
    for name, row in parts:
        named.setdefault(name, []).append(row)
    return named


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return {"tool": call.name, "arguments": cut_in_the_middle(mask(arguments), MAX_ARGUMENT_CHARACTERS)}


def _result(result: ToolResult, name: str) -> dict[str, Any]:
    content = RECALLED if name == RECALL_TOOL else mask(without_blocks(result.content))
    row: dict[str, Any] = {"tool": name} if name else {}
    row["content"] = cut_in_the_middle(content, MAX_RESULT_CHARACTERS)
    return row | ({"failed": True} if result.is_error else {})


def _tool_names(messages: Sequence[Message]) -> dict[int, dict[int, str]]:
    """By message and place of a result, the tool that gave it; ids of calls may be used again."""
    names: dict[int, dict[int, str]] = {}
    for (call, place), (result, where) in answered(messages).items():
        part = messages[call].parts[place]
        if isinstance(part, ToolCall):
            names.setdefault(result, {})[where] = part.name
    return names


def _array(lines: Sequence[str]) -> str:
    return "[\n" + ",\n".join(lines) + "\n]"

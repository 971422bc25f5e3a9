"""Render a context for chat APIs: what seldom changes first, what changes with every call at the very end.

System text and stable blocks, then the messages, then the volatile blocks. All that stands before the volatile
blocks is rendered the same in the next call, so that a provider's cache of prompts keeps hitting.

Histories are mended on the way, because an API refuses the whole request otherwise: results stand directly
behind their calls even if somebody spoke in between, calls without a result are left out, a result without a
call becomes a text, ids and names of tools have only characters and lengths that all APIs take, no text is
empty. Nothing that a message says can add another message or speak in another role.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal, NamedTuple

from casenotes.characters import BLANK, LESS_THAN, UNSEEN
from casenotes.pairs import Place, answered
from casenotes.types import Context, Message, Role, ToolCall, ToolResult

MAX_ID = 40
MAX_NAME = 64
OPENING = "(The conversation so far.)"
"""Stands before an assistant that speaks first: Anthropic wants a user to begin."""
NO_OUTPUT = "(no output)"

_USABLE_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_ID}}}")
_UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")
_LESS_THAN = re.compile(f"[{LESS_THAN}]")
_GAP = f"[{UNSEEN}{BLANK}]{{0,9}}"
_WRAPPER_TAG = re.compile(
    rf"[{LESS_THAN}](?=\W{{0,9}}(?:{_GAP.join('system')}|{_GAP.join('tool')}){_GAP}-{_GAP}m)", re.IGNORECASE
)

ChatRole = Literal["user", "assistant"]


def plain_text(context: Context, system: str = "") -> str:
    """One text for models without roles; each message is a paragraph that begins with who speaks.

    Further lines of a message are indented and every line end is a plain one. So a line that begins
    with `assistant:` was written here, whatever the messages say.
    """
    paragraphs = [paragraph for said in _conversation(context.messages) for paragraph in _paragraphs(said)]
    return _joined(system, context.stable_text, *paragraphs, context.volatile_text)


def openai_messages(context: Context, system: str = "") -> list[dict[str, Any]]:
    """The messages of a Chat Completions request; the tail ends the last message if that is the user's."""
    head = _joined(system, context.stable_text)
    messages: list[dict[str, Any]] = [{"role": "system", "content": head}] if head else []
    for said in _conversation(context.messages):
        messages += _openai(said)
    tail = context.volatile_text
    if not tail.strip():
        return messages
    if messages and messages[-1]["role"] == "user":
        tail = _joined(messages.pop()["content"], tail)
    return [*messages, {"role": "user", "content": tail}]


def anthropic_request(context: Context, system: str = "") -> dict[str, Any]:
    """`system` and `messages` of a Messages request, with up to three cache breakpoints; no empty `system`.

    They stand at the end of the system text, before the newest user input and before the tail. One of the
    four that a request may have is left for the host's tools.
    """
    head = [_text(text) for text in (system, context.stable_text) if text.strip()]
    spoken = [placed for said in _conversation(context.messages) for placed in _anthropic(said)]
    if spoken and spoken[0].role == "assistant":
        spoken.insert(0, _Placed("user", _text(OPENING)))
    for block in [*head[-1:], *(spoken[position].block for position in _breakpoints(spoken))]:
        block["cache_control"] = {"type": "ephemeral"}
    if context.volatile_text.strip():
        spoken.append(_Placed("user", _text(context.volatile_text)))
    messages = [
        {"role": role, "content": [placed.block for placed in group]}
        for role, group in groupby(spoken, key=lambda placed: placed.role)
    ]
    return {"system": head, "messages": messages} if head else {"messages": messages}


class _Exchange(NamedTuple):
    """A call of a tool and its result."""

    id: str
    name: str
    arguments: str
    result: str
    failed: bool


@dataclass(frozen=True, slots=True)
class _Said:
    """What somebody said; only the assistant has exchanges, and without any there is a text."""

    role: Role
    text: str
    exchanges: tuple[_Exchange, ...] = ()


class _Placed(NamedTuple):
    """A content block, the role it is sent in, and whether it is the user's own input."""

    role: ChatRole
    block: dict[str, Any]
    is_input: bool = False


def _conversation(messages: Sequence[Message]) -> Iterator[_Said]:
    """What was said, in order; every call with its result, and nothing empty."""
    messages = [_with_text_in_result(message) for message in messages]
    answers, loose = _answers(messages)
    used_ids: Counter[str] = Counter()
    for i, message in enumerate(messages):
        exchanges = tuple(
            _exchange(part, answers[i, j], used_ids)
            for j, part in enumerate(message.parts)
            if isinstance(part, ToolCall) and (i, j) in answers
        )
        for said in _spoken(message, exchanges, loose.get(i, ())):
            if said.exchanges or said.text.strip():
                yield said


def _with_text_in_result(message: Message) -> Message:
    """A tool message whose own text ends its last result: APIs take no text between results."""
    last = message.parts[-1] if message.parts else None
    if message.role != "tool" or not isinstance(last, ToolResult):
        return message
    if message.text.strip() != last.content.strip():
        last = replace(last, content=_joined(last.content, message.text))
    return replace(message, text="", parts=(*message.parts[:-1], last))


def _answers(messages: Sequence[Message]) -> tuple[dict[Place, ToolResult], dict[int, list[str]]]:
    """Results by the place of their call, and by message those that answer no call, or answer it again."""
    pairs = answered(messages)
    results = {
        (i, j): part
        for i, message in enumerate(messages)
        for j, part in enumerate(message.parts)
        if isinstance(part, ToolResult)
    }
    loose: dict[int, list[str]] = {}
    for place in sorted(results.keys() - set(pairs.values())):
        loose.setdefault(place[0], []).append(results[place].content)
    return {call: results[place] for call, place in pairs.items()}, loose


def _spoken(message: Message, exchanges: tuple[_Exchange, ...], loose: Sequence[str]) -> Iterator[_Said]:
    """What becomes of a message: the assistant calls tools, tools answer, then its own role speaks."""
    is_caller = bool(exchanges) and message.role == "assistant"
    if exchanges:
        yield _Said("assistant", message.text if is_caller else "", exchanges)
    for content in loose:
        yield _Said("tool", content)
    if not is_caller:
        yield _Said(message.role, message.text)


def _exchange(call: ToolCall, result: ToolResult, used_ids: Counter[str]) -> _Exchange:
    arguments = json.loads(json.dumps(call.arguments, default=_plain))
    name = _UNUSABLE.sub("_", call.name)[:MAX_NAME] or "tool"
    return _Exchange(
        id=_unique(_usable_id(call.id), used_ids),
        name=name,
        arguments=json.dumps(arguments, ensure_ascii=False, sort_keys=True),
        result=result.content,
        failed=result.is_error,
    )


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _usable_id(given: str) -> str:
    """The id itself, or one that follows from it and has only what every API takes."""
    if _USABLE_ID.fullmatch(given):
        return given
    digest = hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{_UNUSABLE.sub('_', given)[: MAX_ID - 13]}_{digest}"


def _unique(name: str, used: Counter[str]) -> str:
    used[name] += 1
    return name if used[name] == 1 else _unique(f"{name[: MAX_ID - 9]}-{used[name]}", used)


def _paragraphs(said: _Said) -> Iterator[str]:
    if said.text.strip():
        yield _paragraph(said.role, said.text)
    for exchange in said.exchanges:
        yield _paragraph(f"assistant calls {exchange.name}", exchange.arguments)
    for exchange in said.exchanges:
        yield _paragraph(f"tool {exchange.name}{' failed' if exchange.failed else ''}", exchange.result)


def _paragraph(speaker: str, text: str) -> str:
    return "\n  ".join(f"{speaker}: {text.strip()}".rstrip().splitlines())


def _openai(said: _Said) -> Iterator[dict[str, Any]]:
    if said.role == "tool":
        yield {"role": "user", "content": _wrapped("tool-message", said.text)}
    elif not said.exchanges:
        yield {"role": said.role, "content": said.text}
    else:
        calls = [
            {"id": e.id, "type": "function", "function": {"name": e.name, "arguments": e.arguments}}
            for e in said.exchanges
        ]
        text = said.text if said.text.strip() else None
        yield {"role": "assistant", "content": text, "tool_calls": calls}
        for exchange in said.exchanges:
            yield {"role": "tool", "tool_call_id": exchange.id, "content": exchange.result}


def _anthropic(said: _Said) -> Iterator[_Placed]:
    if said.role in ("system", "tool"):
        yield _Placed("user", _text(_wrapped(f"{said.role}-message", said.text)))
    elif said.role == "user":
        yield _Placed("user", _text(_without_wrappers(said.text)), is_input=True)
    elif said.text.strip():
        # The API refuses white space at the end of a request; elsewhere the text must read the same as there.
        yield _Placed("assistant", _text(said.text.rstrip()))
    for e in said.exchanges:
        call = {"type": "tool_use", "id": e.id, "name": e.name, "input": json.loads(e.arguments)}
        yield _Placed("assistant", call)
    for exchange in said.exchanges:
        yield _Placed("user", _tool_result(exchange))


def _tool_result(exchange: _Exchange) -> dict[str, Any]:
    """A result's block; the content may be missing, but neither be empty nor be missing from a failure."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": exchange.id}
    if exchange.result.strip():
        block["content"] = _without_wrappers(exchange.result)
    return {"content": NO_OUTPUT, **block, "is_error": True} if exchange.failed else block


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _wrapped(tag: str, text: str) -> str:
    """What a system or tool said, for an API that takes it from the user only; it cannot close its tag."""
    return f"<{tag}>\n{_LESS_THAN.sub('&lt;', text)}\n</{tag}>"


def _without_wrappers(text: str) -> str:
    """The text without tags that would make a part of it look like a wrapped message."""
    return _WRAPPER_TAG.sub("&lt;", text)


def _breakpoints(spoken: Sequence[_Placed]) -> list[int]:
    """Where prefixes worth caching end: before the newest input, which may change, and at the last block."""
    start = next((i for i in reversed(range(len(spoken))) if spoken[i].is_input), 0)
    while start and spoken[start - 1].is_input:
        start -= 1
    ends = [start - 1, len(spoken) - 1]
    return [end for end in ends if end >= 0]


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())

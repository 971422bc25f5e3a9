"""Pydantic AI: what `ModelMessagesTypeAdapter.dump_json` writes, requests and responses made of parts.

A request may hold the system prompt, the user's words and the results of tools at once; every part has
its own time. Feedback of the framework to the model is nobody's words, so it is kept as `system`. What stands
as a prompt beside results was said by a tool (`ToolReturn.content`) as far as anybody can tell, and is not
taken for the user's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from casenotes.transfer.formats.blocks import call_arguments, json_text
from casenotes.transfer.formats.transcript import (
    AUDIO,
    FILE,
    IMAGE,
    REASONING,
    Content,
    Grammar,
    LeftOut,
    Piece,
    Spoken,
    as_object,
    conversation_format,
    list_field,
    listed_conversation,
    recognises_listed,
    text_field,
)
from casenotes.types import ToolCall, ToolResult

FAILED = {"failed", "retried"}
MEDIA = {"image-url": IMAGE, "audio-url": AUDIO, "video-url": FILE, "document-url": FILE, "uploaded-file": FILE}


def _is_message(item: Mapping[str, Any]) -> bool:
    return item.get("kind") in ("request", "response") and isinstance(item.get("parts"), list)


def _message(item: Mapping[str, Any]) -> Spoken:
    return Spoken(_content(item), time=item.get("timestamp"))


def _content(item: Mapping[str, Any]) -> Iterator[Content]:
    """Instructions are repeated in every request, so they are counted and not kept."""
    if item.get("instructions"):
        yield LeftOut("instructions")
    parts = [as_object(given, "a part") for given in list_field(item, "parts")]
    kinds = [str(part.get("part_kind")) for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        beside_results = kind == "user-prompt" and "tool-return" in kinds
        read = partial(_prompt, "tool") if beside_results else _READERS.get(kind, partial(_other, kind))
        yield from read(part)


def _prompt(role: str, part: Mapping[str, Any]) -> Iterator[Content]:
    content = part.get("content")
    for item in content if isinstance(content, list) else [content]:
        if media := _media(item):
            yield media
        elif isinstance(item, str):
            yield Piece(role, item, time=part.get("timestamp"))
        elif item is not None:
            yield from _text_content(role, as_object(item, "a prompt"), part.get("timestamp"))


def _text_content(role: str, item: Mapping[str, Any], time: object) -> Iterator[Content]:
    kind, text = str(item.get("kind")), item.get("content")
    if isinstance(text, str):
        yield Piece(role, text, time=time)
    elif kind != "cache-point":
        yield LeftOut(f"parts of type {kind!r:.60}")


def _media(item: object) -> LeftOut | None:
    kind = str(item.get("kind")) if isinstance(item, Mapping) else ""
    if isinstance(item, Mapping) and kind == "binary":
        return {"image": IMAGE, "audio": AUDIO}.get(str(item.get("media_type")).partition("/")[0], FILE)
    return MEDIA.get(kind)


def _call(part: Mapping[str, Any]) -> Iterator[Content]:
    name = text_field(part, "tool_name") or ""
    call = ToolCall(text_field(part, "tool_call_id") or "", name, call_arguments(part.get("args")))
    yield Piece("assistant", part=call)


def _return(part: Mapping[str, Any]) -> Iterator[Content]:
    failed = part.get("part_kind") == "retry-prompt" or str(part.get("outcome")) in FAILED
    content = part.get("content")
    listed = content if isinstance(content, list) and any(map(_media, content)) else [content]
    kept = [json_text(item) for item in listed if item is not None and not _media(item)]
    tool = text_field(part, "tool_name")
    result = ToolResult(text_field(part, "tool_call_id") or "", "\n".join(kept), failed)
    yield Piece("tool", part=result, tool=tool, time=part.get("timestamp"))
    yield from filter(None, map(_media, listed))


def _retry(part: Mapping[str, Any]) -> Iterator[Content]:
    """A call that failed, or an answer that did not fit."""
    if part.get("tool_name"):
        return _return(part)
    return iter([Piece("system", json_text(part.get("content")), time=part.get("timestamp"))])


def _speech(part: Mapping[str, Any]) -> Iterator[Content]:
    yield Piece(text_field(part, "speaker") or "user", text_field(part, "transcript") or "")
    if part.get("audio"):
        yield AUDIO


def _thinking(_part: Mapping[str, Any]) -> Iterator[Content]:
    yield REASONING


def _file(part: Mapping[str, Any]) -> Iterator[Content]:
    yield _media(part.get("content")) or FILE


def _other(kind: str, _part: Mapping[str, Any]) -> Iterator[Content]:
    yield LeftOut(f"parts of type {kind!r:.60}")


_READERS: dict[str, Callable[[Mapping[str, Any]], Iterator[Content]]] = {
    "system-prompt": partial(_prompt, "system"),
    "user-prompt": partial(_prompt, "user"),
    "text": partial(_prompt, "assistant"),
    "tool-call": _call,
    "builtin-tool-call": _call,
    "tool-return": _return,
    "builtin-tool-return": _return,
    "retry-prompt": _retry,
    "retry-feedback": _retry,
    "speech": _speech,
    "thinking": _thinking,
    "file": _file,
}

FORMAT = conversation_format(
    "pydantic-ai",
    "Pydantic AI messages (ModelMessagesTypeAdapter.dump_json)",
    partial(recognises_listed, _is_message),
    Grammar(listed_conversation, _message),
)

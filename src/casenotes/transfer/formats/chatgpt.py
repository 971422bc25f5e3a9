"""The ChatGPT data export: each conversation is a tree of messages, of which one branch is shown.

The branch is followed from `current_node` to the root. What the app hides (custom instructions, the
message of the system every conversation starts with) is no part of what was said. Code or JSON sent to a tool
is a call; there are no call ids, so a call takes the id of its message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from casenotes.errors import InvalidMessage
from casenotes.transfer.formats.blocks import call_arguments
from casenotes.transfer.formats.transcript import (
    AUDIO,
    FILE,
    HIDDEN,
    IMAGE,
    REASONING,
    Content,
    Conversation,
    Grammar,
    LeftOut,
    Piece,
    Spoken,
    as_object,
    conversation_format,
    list_field,
    object_field,
    text_field,
)
from casenotes.types import ToolCall, ToolResult

REASONING_TYPES = {"thoughts", "reasoning_recap"}
HIDDEN_FLAG = "is_visually_hidden_from_conversation"
HIDDEN_TYPES = {"user_editable_context", "model_editable_context"}
TEXT_FIELDS = ("text", "result", "summary")


def _recognises(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


def _conversation(value: object) -> Conversation:
    given = as_object(value, "a conversation")
    if not _recognises(given):
        raise InvalidMessage("not a ChatGPT conversation: the field 'mapping' must be an object")
    nodes = {key: as_object(node, "a node") for key, node in given["mapping"].items()}
    branch = _branch(nodes, _leaf(nodes, given.get("current_node")))
    messages = [_with_id(key, nodes[key]["message"]) for key in branch if nodes[key].get("message") is not None]
    shown = set(branch)
    others = sum(key not in shown and _says_something(node) for key, node in nodes.items())
    thread_id = given.get("conversation_id") or given.get("id")
    return Conversation(messages, thread_id, text_field(given, "title"), others)


def _leaf(nodes: dict[str, Mapping[str, Any]], current: object) -> str | None:
    """The end of the branch that is shown; where the export does not say, the newest message."""
    if isinstance(current, str) and current in nodes:
        return current
    return max(reversed(nodes), key=lambda key: _time(nodes[key]), default=None)


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, Mapping) else None
    return float(time) if isinstance(time, (int, float)) and abs(time) < 1e12 else 0.0


def _branch(nodes: Mapping[str, Mapping[str, Any]], leaf: str | None) -> list[str]:
    """The keys of the nodes from the root to a leaf."""
    branch: dict[str, None] = {}
    key: object = leaf
    while isinstance(key, str) and key in nodes:
        if key in branch:
            raise InvalidMessage(f"the messages form a circle at node {key!r:.80}")
        branch[key] = None
        key = nodes[key].get("parent")
    return list(reversed(branch))


def _with_id(key: str, message: object) -> object:
    return {"id": key, **message} if isinstance(message, Mapping) else message


def _says_something(node: Mapping[str, Any]) -> bool:
    message = node.get("message")
    try:
        return isinstance(message, Mapping) and any(
            isinstance(piece, Piece) and not piece.is_empty for piece in _message(message).content
        )
    except InvalidMessage:
        return True


def _message(message: Mapping[str, Any]) -> Spoken:
    author = object_field(message, "author")
    role = text_field(author, "role") or "user"
    return Spoken(
        _content(role, author, message), message.get("id"), message.get("create_time"), author.get("name")
    )


def _content(role: str, author: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[Content]:
    content, metadata = object_field(message, "content"), object_field(message, "metadata")
    kind = str(content.get("content_type"))
    if kind in HIDDEN_TYPES or (metadata.get(HIDDEN_FLAG) is True and not _is_tool_traffic(role, message)):
        yield HIDDEN
        return
    if kind in REASONING_TYPES:
        yield REASONING
        return
    said = list(_said(content, kind))
    text = "\n".join(piece for piece in said if isinstance(piece, str))
    yield from (piece for piece in said if isinstance(piece, LeftOut))
    yield from _attachments(metadata)
    yield from _in_its_role(role, author, message, text)


def _in_its_role(
    role: str, author: Mapping[str, Any], message: Mapping[str, Any], text: str
) -> Iterator[Content]:
    if role == "tool":
        yield Piece("tool", part=ToolResult("", text, _failed(message)), tool=text_field(author, "name"))
    elif _is_tool_traffic(role, message):
        call = ToolCall(text_field(message, "id") or "", message["recipient"], call_arguments(text))
        yield Piece(role, part=call)
    else:
        yield Piece(role, text)


def _is_tool_traffic(role: str, message: Mapping[str, Any]) -> bool:
    """A call or a result; the app hides some of them, and still they are what happened."""
    return role == "tool" or (role == "assistant" and (text_field(message, "recipient") or "all") != "all")


def _said(content: Mapping[str, Any], kind: str) -> Iterator[str | LeftOut]:
    texts = [text for name in TEXT_FIELDS if (text := text_field(content, name))]
    yield from (text_field(content, name) or "" for name in ("title", "url") if texts and content.get(name))
    yield from texts[:1]
    for part in list_field(content, "parts"):
        yield _part(part)
    if not texts and "parts" not in content and kind not in ("text", "None"):
        yield IMAGE if kind == "computer_output" else LeftOut(f"parts of type {kind!r:.60}")


def _part(part: object) -> str | LeftOut:
    if isinstance(part, str):
        return part
    part = as_object(part, "a part of the content")
    kind = str(part.get("content_type"))
    if "image" in kind:
        return IMAGE
    text = part.get("text")
    if isinstance(text, str):
        return text
    return AUDIO if "audio" in kind else LeftOut(f"parts of type {kind!r:.60}")


def _attachments(metadata: Mapping[str, Any]) -> Iterator[LeftOut]:
    """Uploads lie beside the conversations in the export; pictures are counted where they are shown."""
    for attachment in list_field(metadata, "attachments"):
        kind = attachment.get("mime_type") if isinstance(attachment, Mapping) else None
        if not str(kind).startswith("image/"):
            yield FILE


def _failed(message: Mapping[str, Any]) -> bool:
    result = object_field(message, "metadata").get("aggregate_result")
    status = result.get("status") if isinstance(result, Mapping) else None
    is_error = object_field(message, "content").get("content_type") == "system_error"
    return is_error or str(status).startswith("failed")


FORMAT = conversation_format(
    "chatgpt",
    "the ChatGPT data export (conversations.json, or the .zip it came in)",
    _recognises,
    Grammar(_conversation, _message),
)

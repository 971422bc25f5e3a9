"""The Claude data export: a list of conversations, each with its messages in order.

Where a message was edited or an answer repeated, the export holds every version; they are linked by
`parent_message_uuid`, and the branch that ends in the last message is the one to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from casenotes.errors import InvalidMessage
from casenotes.transfer.formats.blocks import content_blocks
from casenotes.transfer.formats.transcript import (
    FILE,
    Content,
    Conversation,
    Grammar,
    Piece,
    Spoken,
    as_object,
    conversation_format,
    list_field,
    text_field,
)

ROLES = {"human": "user"}
NO_PARENT = "00000000-0000-4000-8000-000000000000"


def _recognises(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _conversation(value: object) -> Conversation:
    given = as_object(value, "a conversation")
    if not _recognises(given):
        raise InvalidMessage("not a Claude conversation: the field 'chat_messages' must be a list")
    messages = given["chat_messages"]
    branch = _branch(messages, given.get("current_leaf_message_uuid"))
    return Conversation(branch, given.get("uuid"), text_field(given, "name"), len(messages) - len(branch))


def _branch(messages: Sequence[Any], leaf: object) -> Sequence[Any]:
    """The messages that lead to the leaf, or all where the links do not form a tree."""
    parents = _parents(messages)
    if not parents or not messages:
        return messages
    key = leaf if isinstance(leaf, str) and leaf in parents else messages[-1]["uuid"]
    kept: set[str] = set()
    while key in parents:
        if key in kept:
            return messages
        kept.add(key)
        key = parents[key]
    return [message for message in messages if message["uuid"] in kept]


def _parents(messages: Sequence[Any]) -> dict[str, str]:
    """The parent of each message, nothing unless every link leads to a message or to the beginning."""
    parents: dict[str, str] = {}
    for message in messages:
        link = message if isinstance(message, Mapping) else {}
        own, parent = link.get("uuid"), link.get("parent_message_uuid")
        if not isinstance(own, str) or not isinstance(parent, str) or own in parents:
            return {}
        parents[own] = parent
    return parents if all(p == NO_PARENT or p in parents for p in parents.values()) else {}


def _message(message: Mapping[str, Any]) -> Spoken:
    sender = text_field(message, "sender") or "human"
    return Spoken(_content(ROLES.get(sender, sender), message), message.get("uuid"), message.get("created_at"))


def _content(role: str, message: Mapping[str, Any]) -> Iterator[Content]:
    """Older exports have only the text, newer ones repeat it in the blocks."""
    blocks = list(content_blocks(role, list_field(message, "content")))
    yield from blocks
    if not any(isinstance(block, Piece) and not block.is_empty for block in blocks):
        yield Piece(role, text_field(message, "text") or "")
    for attachment in list_field(message, "attachments"):
        yield _attachment(role, as_object(attachment, "an attachment"))
    for _ in list_field(message, "files"):
        yield FILE


def _attachment(role: str, attachment: Mapping[str, Any]) -> Content:
    text, name = text_field(attachment, "extracted_content"), text_field(attachment, "file_name")
    return Piece(role, f"{name}:\n{text}" if name else text) if text else FILE


FORMAT = conversation_format(
    "claude",
    "the Claude data export (conversations.json, or the .zip it came in)",
    _recognises,
    Grammar(_conversation, _message),
)

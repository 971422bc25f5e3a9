"""Ask a worker model for a few words instead of an object: a summary, a title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from casenotes.errors import UnreadableOutput
from casenotes.learn.ask import Asker
from casenotes.learn.normalise import collapse, cut, is_visible
from casenotes.masking import mask
from casenotes.models.parse import parse_object
from casenotes.types import Scope

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


async def ask_for_text(
    asker: Asker, scope: Scope, task: str, system: str, question: str, max_characters: int
) -> str:
    """The model's words on one line, without secrets; empty if it has nothing to say."""
    reply = await asker.ask(scope, task, system, question, SCHEMA)
    return cut(mask(collapse(text_in(reply.output))), max_characters)


def text_in(output: str | Mapping[str, Any]) -> str:
    """The text that a model answered with, wrapped in an object or not."""
    if isinstance(output, str) and not output.lstrip().startswith(("{", "`")):
        return output.strip()
    try:
        found = parse_object(output, "text").get("text", "")
    except UnreadableOutput:
        found = output if isinstance(output, str) else ""
    return found.strip() if isinstance(found, str) and is_visible(found) else ""

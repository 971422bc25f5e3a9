"""The tools for any framework: `recall_memory`, the search over a user's memory, and `read_message`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Any

from casenotes.config.rules import shown
from casenotes.errors import CasenotesError, UsageError
from casenotes.events import Events
from casenotes.layers.base import Layer, ToolRequest
from casenotes.layers.stored_state import States
from casenotes.learn.prompts import prompt
from casenotes.masking import mask
from casenotes.recall.shorten import read_page
from casenotes.tokens import TokenCounter
from casenotes.types import READ_TOOL, RECALL_TOOL, Hit, Message, Scope, Tool

Search = Callable[[str], Awaitable[Sequence[Hit]]]
Find = Callable[[str], Awaitable[Message | None]]
PARAMETERS = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What to look for, in plain words, with names and identifiers as they are.",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}

READ_PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id that the note in the message names."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in characters."},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def recall_tool(search: Search, instruction: str | None) -> Tool:
    """The tool over a search that is bound to one scope: the model has no say in whose memory it reads."""

    async def call(query: Any = None, **unknown: Any) -> dict[str, Any]:
        """A wrong call is answered, not raised: models make them, and the host's turn goes on."""
        if unknown or not isinstance(query, str):
            return {"hits": [], "error": "Call it with one argument, query, which is text."}
        try:
            hits = [hit_values(hit) for hit in await search(query)]
        except CasenotesError as error:
            return {"hits": [], "error": mask(str(error))}
        return {"hits": hits} if hits else {"hits": [], "note": "Nothing relevant is remembered."}

    return Tool(RECALL_TOOL, instruction or prompt("recall_tool"), PARAMETERS, call)


def read_tool(find: Find, page_tokens: int, count_tokens: TokenCounter) -> Tool:
    """The tool that gives what was left out of a message; `find` is bound to one conversation."""

    async def call(id: Any = None, offset: Any = 0, **unknown: Any) -> dict[str, Any]:
        """A wrong call is answered, not raised: models make them, and the host's turn goes on."""
        if isinstance(offset, str) and offset.strip().isascii() and offset.strip().isdigit():
            offset = int(offset)
        if unknown or not isinstance(id, str) or isinstance(offset, bool) or not isinstance(offset, int):
            return {"error": "Call it with id, which is text, and offset, which is a whole number."}
        try:
            message = await find(id)
        except CasenotesError as error:
            return {"error": mask(str(error))}
        if message is None:
            return {"error": f"There is no message {repeated(id)} in this conversation."}
        page = await asyncio.to_thread(read_page, message, max(0, offset), page_tokens, count_tokens)
        if offset < 0 or offset >= max(1, page.total):
            return {"error": f"offset is {repeated(offset)}; the message has {page.total} characters."}
        return {
            READ_TOOL: id,
            "offset": offset,
            "next_offset": page.next_offset,
            "total": page.total,
            "text": page.text,
        }

    return Tool(READ_TOOL, prompt("read_tool"), READ_PARAMETERS, call)


def layer_tools(
    layers: Sequence[Layer], states: States, scope: Scope, turn_id: str, events: Events
) -> tuple[Tool, ...]:
    """The tools of layers for a turn; a layer that fails to give its own gives none."""
    tools: list[Tool] = []
    for layer in layers:
        state = states.of(layer.name, layer.scope, scope, turn_id=turn_id)
        try:
            taken = {RECALL_TOOL, READ_TOOL, *(tool.name for tool in tools)}
            tools += _checked(layer.tools(ToolRequest(scope, turn_id, state)), taken)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            events.emit("layer.failed", scope, source=layer.name, error=problem)
    return tuple(tools)


def _checked(given: Sequence[Tool], taken: Set[str]) -> list[Tool]:
    """A layer's tools; raises if a host could not offer them to its model."""
    tools = list(given)
    if wrong := [tool for tool in tools if not isinstance(tool, Tool)]:
        raise TypeError(f"tools must give Tool, not {type(wrong[0]).__name__}")
    if twice := [tool.name for tool in tools if tool.name in taken]:
        raise UsageError(f"there is a tool named {twice[0]} already; rename it")
    return tools


def check_names(ours: Sequence[Tool], theirs: Iterable[str]) -> None:
    """Raise if the host has a tool of a name that is ours: its model could not tell them apart."""
    taken = {tool.name for tool in ours} & set(theirs)
    if taken:
        names = ", ".join(sorted(taken))
        raise UsageError(f"there is a tool named {names} already; rename it, or switch its layer off")


def hit_values(hit: Hit) -> dict[str, Any]:
    """A hit as plain JSON values."""
    scores = hit.scores
    values: dict[str, Any] = {
        "kind": hit.kind,
        "content": hit.content,
        "created_at": hit.created_at.isoformat(),
        "thread_id": hit.thread_id,
        "evidence": [quote.quote for quote in hit.evidence],
        "scores": {
            "lexical": round(scores.lexical, 4),
            "vector": round(scores.vector, 4),
            "fused": round(scores.fused, 4),
            "recency": round(scores.recency, 4),
            "final": round(scores.final, 4),
        },
    }
    if hit.speaker:
        values["speaker"] = hit.speaker
    if not hit.verified:
        values["unverified"] = True
    if hit.conflicts:
        values["conflict"] = "another note says otherwise; the newer one comes first"
    return values


def repeated(value: object) -> str:
    """What a model gave to a tool, short and without secrets, to be named in the answer."""
    return shown(str(value))

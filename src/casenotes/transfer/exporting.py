"""Export as JSONL that `import` reads back: messages in order, then each thread's title."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from casenotes.memory import Memory
from casenotes.stores.rows import parts_to_json
from casenotes.types import Message, Scope, Thread

WINDOW = 500


async def export_lines(
    memory: Memory, agent: str | None = None, resource: str | None = None
) -> AsyncIterator[str]:
    """The lines of every scope that matches; vectors are never exported."""
    for size in await memory.scopes():
        if agent in (None, size.agent_id) and resource in (None, size.resource_id):
            for thread in await memory.threads(size.scope):
                async for line in _thread_lines(memory, size.scope, thread):
                    yield json.dumps(line, ensure_ascii=False)


async def _thread_lines(memory: Memory, owner: Scope, thread: Thread) -> AsyncIterator[dict[str, Any]]:
    scope = Scope(owner.agent_id, owner.resource_id, thread.thread_id)
    place: dict[str, Any] = {"agent": scope.agent_id, "scope": scope.resource_id, "thread": scope.thread_id}
    if thread.parent_id is not None:
        place |= {"parent": thread.parent_id, "shares_memory": not thread.apart}
    after = 0
    while messages := await memory.history(scope, WINDOW, after=after):
        for message in messages:
            yield _message_line(message, place)
        after = messages[-1].seq or 0
    title = thread.title if thread.named else None
    if title or thread.metadata:
        yield {"kind": "thread", **place, "title": title, "metadata": dict(thread.metadata)}


def _message_line(message: Message, place: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {
        "id": message.id,
        **place,
        "role": message.role,
        "time": message.created_at.isoformat() if message.created_at else None,
        "text": message.text,
    }
    if message.parts:
        line["parts"] = parts_to_json(message.parts)
    if message.metadata:
        line["metadata"] = dict(message.metadata)
    return line

"""Short ways to hold conversations with a memory whose model is scripted."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from casenotes import (
    EpisodicSettings,
    Memory,
    Message,
    Receipt,
    Scope,
    Settings,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from casenotes.config import JobSettings, ModelSettings
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel
from casenotes.types import Context

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
MIRA = Scope("support", "mira", "monday")
LATER = Scope("support", "mira", "tuesday")
JONAS = Scope("support", "jonas", "monday")
SKEW = "The webhook failed with 401 because the clock of pay-2 was 90 seconds slow."
SAID = "It was the clock: pay-2 was 90 seconds slow, so the webhook failed with 401."


def entry(content: str, evidence: Any, source: str = "user_assertion") -> dict[str, Any]:
    return {"content": content, "source": source, "evidence": evidence}


def proposes(*entries: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(lambda _request: {"entries": list(entries)})


def quoting(**answers: dict[str, Any]) -> ScriptedModel:
    """Answers with the entries of every key that occurs in the turn; each is proposed whenever it is said."""
    return ScriptedModel(
        lambda request: {"entries": [item for key, item in answers.items() if key in said_in(request.prompt)]}
    )


def transcript(prompt: str) -> list[dict[str, Any]]:
    found = re.search(r"<(transcript|run)>\n(.*)\n</\1>", prompt, re.DOTALL)
    assert found
    return json.loads(found[2])


def said_in(prompt: str) -> str:
    return "\n".join(row["text"] for row in transcript(prompt) if not row.get("context"))


def settings(**episodic: Any) -> Settings:
    return Settings(
        episodic=EpisodicSettings(**episodic),
        jobs=JobSettings(first_retry_seconds=0.05, poll_seconds=0.2),
        models=ModelSettings(first_pause_seconds=0.01, request_seconds=5),
    )


@asynccontextmanager
async def opened(url: str, model: Any = None, **options: Any) -> AsyncIterator[Memory]:
    given = {"embedder": HashEmbedder(256), "clock": FrozenClock(NOW), "config": settings()}
    async with Memory.open(url, model=model or "", **{**given, **options}) as memory:
        yield memory


async def turn(
    memory: Memory, scope: Scope, user: str, assistant: str | Message = "I see.", **values: Any
) -> Receipt:
    """One turn, learned from before this returns."""
    under_way = await memory.begin(scope, user)
    return await memory.complete(under_way, assistant, sync=True, **values)


def statuses(receipt: Receipt) -> list[tuple[str, str]]:
    return [(candidate.status, candidate.reason) for candidate in receipt]


def looked(number: int | str, found: str) -> list[Message]:
    """A step of an agent: it calls a tool and gets a result."""
    call = Message("assistant", "", parts=(ToolCall(f"c{number}", "look", {"at": number}),))
    return [call, Message("tool", "", parts=(ToolResult(f"c{number}", found),))]


def block(context: Context, name: str) -> str:
    """The text of a block, empty if there is none."""
    return next((found.text for found in context.blocks if found.name == name), "")


def tool(under_way: Turn, name: str) -> Tool:
    """A tool of a turn."""
    return next(found for found in under_way.tools if found.name == name)

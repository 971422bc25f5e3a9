"""Scripted Observers and Reflectors, and loops of tool calls for them to look at."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from casenotes import JobSettings, Memory, Message, Scope, Settings, ToolCall, ToolResult, Turn
from casenotes.config import EpisodicSettings, ModelSettings, ObservationalSettings
from casenotes.models.chat import ChatRequest
from casenotes.testing import ScriptedModel
from casenotes.tokens import estimate_tokens
from casenotes.types import Context

SESSION = {
    "objective": "find the fault",
    "state": "looking",
    "decisions": ["start with pay-2"],
    "follow_ups": ["pay-3"],
}
Answer = Callable[[ChatRequest], Any]


def transcript(request: ChatRequest) -> list[dict[str, Any]]:
    """What the Observer was given to read."""
    inner = request.prompt.split("<untrusted-transcript>\n")[1].split("\n</untrusted-transcript>")[0]
    return json.loads(inner)


def notes(request: ChatRequest) -> list[dict[str, Any]]:
    """The rows that the Reflector was given."""
    return json.loads(request.prompt.split("<notes>\n")[1].split("\n</notes>")[0])


def observe_each(request: ChatRequest) -> dict[str, Any]:
    """One row for every message, with its first words."""
    rows = [
        {"priority": "info", "time": row["time"][-5:], "text": f"noted: {words(row)}"}
        for row in transcript(request)
    ]
    return {"observations": rows, "session": SESSION}


def words(row: dict[str, Any]) -> str:
    said = row.get("text") or " ".join(part.get("content", part.get("arguments", "")) for part in parts(row))
    return said[:60]


def parts(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [*row.get("calls", ()), *row.get("results", ())]


def drop_half(request: ChatRequest) -> dict[str, Any]:
    names = [row["id"] for row in notes(request)]
    return {"drop": names[: len(names) // 2], "merge": []}


def model(
    observe: Answer = observe_each, reflect: Answer = drop_half, extract: Answer | None = None
) -> ScriptedModel:
    """Answers each task by its function; what may raise is raised."""
    answers: dict[str, Answer] = {
        "observe": observe,
        "reflect": reflect,
        "extract": extract or (lambda _: {"entries": []}),
    }
    return ScriptedModel(lambda request: answers.get(request.task, lambda _: {})(request))


def asked(scripted: ScriptedModel, task: str = "observe") -> list[ChatRequest]:
    return [request for request in scripted.requests if request.task == task]


ROW_TOKENS = 9
"""What a row takes besides its text: time, priority, the end of its line."""


def of_ratio(ratio: int) -> Answer:
    """An Observer that leaves one part in so many of what it reads, in the words that it read."""

    def observe(request: ChatRequest) -> dict[str, Any]:
        rows = transcript(request)
        texts = [words_of(row) for row in rows]
        room = sum(4 + estimate_tokens(text) for text in texts) / ratio
        words = re.findall(r"[A-Za-z0-9_.-]{4,}", " ".join(texts)) or ["nothing"]
        observations = []
        while room > 0:
            count = max(1, min(14, int((room - ROW_TOKENS) / 1.5)))
            start = len(observations) * 14 * ratio % len(words)
            text = " ".join([*words[start:], *words][:count])
            room -= ROW_TOKENS + estimate_tokens(text)
            observations.append({"priority": "info", "time": rows[0]["time"][-5:], "text": text})
        return {"observations": observations, "session": SESSION}

    return observe


def words_of(row: dict[str, Any]) -> str:
    return " ".join([row.get("text", ""), *(str(value) for part in parts(row) for value in part.values())])


def observing(**values: Any) -> Settings:
    """Small thresholds, quick retries, and nothing but session memory."""
    given = {"observer_threshold_tokens": 1_000, "reflector_threshold_tokens": 100_000, "raw_tail_tokens": 200}
    jobs = {name: values.pop(name) for name in list(values) if name in JobSettings.__slots__}
    return Settings(
        last_messages=values.pop("last_messages", 4),
        episodic=values.pop("episodic", EpisodicSettings(enabled=False)),
        observational=ObservationalSettings(**{**given, **values}),
        jobs=JobSettings(**{"first_retry_seconds": 0.05, "poll_seconds": 0.2, **jobs}),
        models=ModelSettings(first_pause_seconds=0.01, request_seconds=5, attempts=1),
    )


def step(number: int, tokens: int = 100) -> list[Message]:
    """A call and its result, of about so many tokens together."""
    found = f"result {number} " + "word " * max(1, tokens - 30)
    return [
        Message("assistant", "", parts=(ToolCall(f"c{number}", "look", {"at": number}),)),
        Message("tool", "", parts=(ToolResult(f"c{number}", found),)),
    ]


async def loop(memory: Memory, turn: Turn, steps: Sequence[int], tokens: int = 100) -> list[Context]:
    """Steps of a turn, as fast as they go; background work may keep up or not."""
    return [await memory.step(turn, step(number, tokens)) for number in steps]


async def talked(memory: Memory, scope: Scope, turns: int, tokens: int = 100, first: int = 0) -> None:
    """Turns of a user and an assistant, all of them observed that can be."""
    for number in range(first, first + turns):
        turn = await memory.begin(scope, f"question {number} " + "word " * (tokens // 2))
        await memory.complete(turn, f"answer {number} " + "word " * (tokens // 2))
    await memory.settled(scope)


def fixed_part(context: Context) -> str:
    """All of a prompt that stands before the volatile blocks."""
    return context.stable_text + "\n" + "\n".join(repr(message) for message in context.messages)

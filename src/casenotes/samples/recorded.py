"""The turns of `casenotes demo` and what a worker model answers to them, read from a file.

The answers were written for the demo, with mistakes of the kind that models make: there is no model
behind them. Everything that happens to them is real.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any

from casenotes.errors import ModelError
from casenotes.models.chat import ChatReply, ChatRequest, Usage


@dataclass(frozen=True, slots=True)
class SampleTurn:
    """One turn of a sample conversation, the recorded answer of the worker to it, and what to look at."""

    thread: str
    time: datetime
    user: str
    assistant: str
    worker: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleTurns:
    """Turns to learn from, and the one after them that shows what was learned."""

    learned: Sequence[SampleTurn]
    next: SampleTurn


def sample_turns() -> SampleTurns:
    """The turns that ship with the samples."""
    text = resources.files("casenotes.samples").joinpath("harbour_turns.json").read_text("utf-8")
    values = json.loads(text)
    return SampleTurns([_turn(item) for item in values["turns"]], _turn(values["next"]))


def _turn(values: Mapping[str, Any]) -> SampleTurn:
    return SampleTurn(**{**values, "time": datetime.fromisoformat(values["time"])})


class RecordedModel:
    """A chat model that answers from the recording, by what the user says in the transcript."""

    label = "recorded"

    def __init__(self, turns: Sequence[SampleTurn]) -> None:
        self._answers = {turn.user: turn.worker for turn in turns}

    async def ask(self, request: ChatRequest) -> ChatReply:
        """The recorded answer; a turn that is not in the recording is an error, not an empty answer."""
        for row in _transcript(request.prompt):
            if not row.get("context") and row["text"] in self._answers:
                return ChatReply(self._answers[row["text"]], Usage(calls=1))
        raise ModelError("this turn is not in the recording", may_pass=False)


def _transcript(prompt: str) -> list[dict[str, Any]]:
    lines = prompt.split("<transcript>\n", 1)[-1].rsplit("\n</transcript>", 1)[0]
    rows: list[dict[str, Any]] = json.loads(lines)
    return rows

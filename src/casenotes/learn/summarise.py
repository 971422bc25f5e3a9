"""Put a finished run into a few words: by a model, by what was asked and answered last, or by its beginning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from casenotes.learn.instructions import instruction_in
from casenotes.learn.normalise import collapse, cut, storable
from casenotes.learn.prompts import filled
from casenotes.learn.speakers import shown_name
from casenotes.learn.transcript import TAG_OPENERS, masked, spoken
from casenotes.masking import mask
from casenotes.tokens import TokenCounter
from casenotes.types import Message, Outcome, ToolCall

MAX_MESSAGE_CHARACTERS = 2_000
ENDED = {"success": "It ended well", "failure": "It failed", "aborted": "It was broken off"}


def heuristic(messages: Sequence[Message], outcome: Outcome, max_characters: int) -> str:
    """What was asked first and what was answered last."""
    half = max(1, max_characters // 2 - 40)
    asked = next((m.text for m in messages if m.role == "user" and m.text.strip()), "")
    answered = next((m.text for m in reversed(messages) if m.role == "assistant" and m.text.strip()), "")
    parts = [f"Asked: {_short(asked, half)}"] if asked else []
    parts.append(
        f"{ENDED[outcome]}: {_short(answered, half)}" if answered else f"{ENDED[outcome]}, without an answer"
    )
    return cut(" | ".join(parts), max_characters)


def truncated(messages: Sequence[Message], outcome: Outcome, max_characters: int) -> str:
    """The beginning of the run, word for word."""
    said = " | ".join(f"{shown_name(m) or m.role}: {m.text}" for m in spoken(messages))
    return _short(said, max_characters) or f"{ENDED[outcome]}, and nothing was said."


def presentable(summary: str, outcome: Outcome) -> str:
    """The summary, unless it reads like an instruction: it will stand in front of later runs."""
    summary = storable(summary)
    if summary and instruction_in(summary) is None:
        return summary
    return f"{ENDED[outcome]}. What was said in it reads like an instruction and is left out."


def run_prompt(
    messages: Sequence[Message], outcome: Outcome, max_tokens: int, count_tokens: TokenCounter
) -> str:
    """What a model is asked: the run's texts as JSON; of a long one the beginning and the end."""
    rows = [json.dumps(_row(message), ensure_ascii=False).translate(TAG_OPENERS) for message in messages]
    kept = _within([row for row in rows if row], max_tokens, count_tokens)
    return filled("summarise_run", outcome=outcome, transcript="[\n" + ",\n".join(kept) + "\n]")


def _row(message: Message) -> dict[str, Any]:
    text = masked(message).text if message.role != "tool" else ""
    called = [part.name for part in message.parts if isinstance(part, ToolCall)]
    row: dict[str, Any] = {"role": message.role, "text": text[:MAX_MESSAGE_CHARACTERS]}
    if name := shown_name(message):
        row["speaker"] = name
    return row | ({"tools_called": called} if called else {})


def _within(rows: Sequence[str], max_tokens: int, count_tokens: TokenCounter) -> list[str]:
    """The first row, and the newest ones that have room."""
    left = max_tokens - sum(count_tokens(row) for row in rows[:1])
    newest: list[str] = []
    for row in reversed(rows[1:]):
        left -= count_tokens(row)
        if left < 0:
            break
        newest.insert(0, row)
    return [*rows[:1], *newest]


def _short(text: str, max_characters: int) -> str:
    return cut(mask(collapse(text)), max_characters)

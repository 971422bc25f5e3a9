"""What the extractor is asked about a turn: its texts as JSON, what came before, what is known already.

Only what user and assistant said goes in, never tool output, and secrets are masked. A turn that is too
long for one request is read in windows, each with the messages before it as context. Observations may stand
for the beginning of a long turn; they travel as system messages, of which a transcript has none otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from casenotes.learn.prompts import filled
from casenotes.learn.speakers import shown_name
from casenotes.masking import mask
from casenotes.recall.render import inert
from casenotes.tokens import TokenCounter
from casenotes.types import SPEAKERS, Message

CONTEXT_MESSAGES = 6
CONTEXT_CHARACTERS = 4_000
OBSERVATION = "observation"
TAG_OPENERS = {ord(character): f"\\u{ord(character):04x}" for character in "<\uff1c\ufe64"}


def spoken(messages: Sequence[Message]) -> list[Message]:
    """What user and assistant said."""
    return [message for message in messages if message.role in SPEAKERS and message.text.strip()]


def prompts(
    messages: Sequence[Message],
    before: Sequence[Message],
    known: str,
    max_tokens: int,
    count_tokens: TokenCounter,
) -> list[str]:
    """The requests for one turn; none if nobody said anything."""
    rows = [piece for message in messages for piece in pieces(masked(message), max_tokens, count_tokens)]
    earlier = [*map(masked, before), *rows]
    requests = []
    for first, end in windows([count_tokens(row.text) for row in rows], max_tokens):
        context = [_short(row) for row in earlier[: len(before) + first][-CONTEXT_MESSAGES:]]
        requests.append(turn_prompt(rows[first:end], context, known))
    return requests


def masked(message: Message) -> Message:
    """A message without secrets. Whatever is cut is masked before: half a key is no longer known as one."""
    return replace(message, text=mask(message.text))


def pieces(message: Message, max_tokens: int, count_tokens: TokenCounter) -> Iterator[Message]:
    """A message in parts that fit into one request, each cut at a blank where one is near."""
    text = message.text
    size = max(1, len(text) * max_tokens // max(1, count_tokens(text)))
    while len(text) > size:
        end = text.rfind(" ", size - size // 8, size) + 1 or size
        yield replace(message, text=text[:end])
        text = text[end:]
    if text.strip():
        yield replace(message, text=text)


def windows(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Neighbouring messages that together stay within a size; one that is larger stands alone."""
    first = total = 0
    for position, size in enumerate(sizes):
        if position > first and total + size > limit:
            yield first, position
            first, total = position, 0
        total += size
    if first < len(sizes):
        yield first, len(sizes)


def turn_prompt(messages: Sequence[Message], context: Sequence[Message], known: str) -> str:
    """One request."""
    rows = [_row(message) | {"context": True} for message in context] + [_row(m) for m in messages]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows).translate(TAG_OPENERS)
    return filled("extract_turn", known=known, transcript=f"[\n{lines}\n]")


def known_memory(entries: Sequence[str], profile: Sequence[str] = ()) -> str:
    """What is known already, for dedupe and exclusion only; nothing if nothing is."""
    parts = []
    for tag, texts in (("user-profile", profile), ("memory", entries)):
        if texts:
            lines = "\n".join(f"- {inert(mask(text))}" for text in texts)
            parts.append(f"<{tag}>\n{lines}\n</{tag}>")
    return "\n" + filled("known_memory", known="\n".join(parts)) + "\n" if parts else ""


def _row(message: Message) -> dict[str, Any]:
    row = {"role": OBSERVATION if message.role == "system" else message.role}
    if name := shown_name(message):
        row["speaker"] = name
    return {**row, "text": message.text}


def _short(message: Message) -> Message:
    return replace(message, text=message.text[:CONTEXT_CHARACTERS])

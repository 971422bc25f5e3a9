"""Show shortened what is too long for a prompt: the input of a turn and a step that exceed the budget together.

What stands in the log decides alone, so the same message is shown the same in every later call and the prompt
keeps its beginning. Brought to three quarters of the budget, a step leaves room for blocks and for steps to
come; the input takes at most half of that. The longest texts are cut first, to one common length, each behind
its head and before its tail, with a note that says how to read the rest. Secrets are masked before the cut:
half a key is no longer known as one. Offsets count characters of the masked message.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from casenotes.intake import redacted
from casenotes.pairs import Place, answered
from casenotes.recall.recent import MESSAGE_OVERHEAD, MessageTokens, steps
from casenotes.tokens import TokenCounter
from casenotes.types import READ_TOOL, Message, Part, ToolCall, part_text

QUARTERS = 4
"""Over budget, messages go by a quarter of what the prompt may take, and what is cut leaves that much room."""

LEAST_TOKENS = 100
"""A text with less room says too little; earlier calls and their results are left out instead."""

MIN_EXCERPT_TOKENS = 8
MIN_STRING_CHARACTERS = 40
MAX_TRIES = 10
GOOD_FILL = 0.9
WORD = 40
"""A cut moves back to a blank that is no further away."""

MAX_CLUSTER = 100
ELLIPSIS = "…"

Memo = MutableMapping[tuple[str, int, int], Message]
"""What was shortened in a turn, by id, tokens for a text, and number of parts."""


class Page(NamedTuple):
    """A piece of a message; `next_offset` is None at the end."""

    text: str
    next_offset: int | None
    total: int


def shorten_steps(
    messages: Sequence[Message], own: Set[str], budget: int, size: MessageTokens, memo: Memo
) -> list[Message]:
    """The messages, in which no input and step exceed the budget together.

    Those with an id in `own` belong to the turn under way. Messages that have no room even so are left out.
    """
    sizes = [size(message) for message in messages]
    if sum(sizes) <= budget:
        return list(messages)
    until = [0, *accumulate(sizes)]
    target = budget - budget // QUARTERS
    shown: dict[int, Message | None] = dict(enumerate(messages))
    for asked, step in steps(messages, own):
        if sum(until[part.stop] - until[part.start] for part in (asked, step)) <= budget:
            continue
        room = target
        for part, limit in ((asked, target // 2), (step, target)):
            fitted = _fit([messages[i] for i in part], min(limit, room), size, memo)
            room -= sum(size(message) for message in fitted if message)
            shown.update(zip(part, fitted, strict=True))
    kept = [message for message in shown.values() if message]
    if len(kept) == len(messages):
        return kept
    return shorten_steps(kept, own, budget, size, memo)  # without an answer, what follows it is input


def _fit(messages: Sequence[Message], room: int, size: MessageTokens, memo: Memo) -> list[Message | None]:
    """Messages within so many tokens: long texts are cut, and where that is not enough the first units go."""
    if sum(map(size, messages)) <= room:
        return list(messages)
    units = _units(messages)
    count = len(units)
    while count:
        kept = _only(messages, {place for unit in units[-count:] for place in unit})
        texts = [text for message in kept if message for text in _texts(message)]
        overhead = MESSAGE_OVERHEAD * sum(message is not None for message in kept)
        level = _level([size.of_text(text) for text in texts], room - overhead)
        if level >= LEAST_TOKENS or count == 1:
            fitted = [
                part and shorten(message, part, level, size.of_text, memo)
                for message, part in zip(messages, kept, strict=True)
            ]
            if sum(size(message) for message in fitted if message) <= room:
                return fitted
        count -= max(1, count // 16)
    return [None] * len(messages)


def _units(messages: Sequence[Message]) -> list[tuple[Place, ...]]:
    """What can be left out by itself: a text, or a call with its result. Place -1 is that of a text."""
    pairs = answered(messages)
    results = set(pairs.values())
    units: list[tuple[Place, ...]] = []
    for i, message in enumerate(messages):
        if message.text.strip():
            units.append(((i, -1),))
        for place in ((i, j) for j in range(len(message.parts))):
            if place not in results:
                units.append((place, pairs[place]) if place in pairs else (place,))
    return units


def _only(messages: Sequence[Message], places: Set[Place]) -> list[Message | None]:
    kept: list[Message | None] = []
    for i, message in enumerate(messages):
        parts = tuple(part for j, part in enumerate(message.parts) if (i, j) in places)
        text = message.text if (i, -1) in places else ""
        if not parts and not text:
            kept.append(None)
        elif len(parts) == len(message.parts) and text == message.text:
            kept.append(message)
        else:
            kept.append(replace(message, text=text, parts=parts))
    return kept


def _level(sizes: Sequence[int], room: int) -> int:
    """The size that none may exceed so that all have room together: small ones leave the rest to large ones."""
    for number, tokens in enumerate(sorted(sizes)):
        share = max(0, room) // (len(sizes) - number)
        if tokens > share:
            return share
        room -= tokens
    return max(sizes, default=0)


def _texts(message: Message) -> list[str]:
    return [text for text in (message.text, *map(part_text, message.parts)) if text]


def whole_text(message: Message) -> str:
    """All that a message says, in which offsets count."""
    return "\n".join(_texts(message))


def shorten(message: Message, kept: Message, most: int, count_tokens: TokenCounter, memo: Memo) -> Message:
    """What is kept of a message, with no text or part of more than so many tokens."""
    texts = _texts(kept)
    if kept is message and all(count_tokens(text) <= most for text in texts):
        return message
    key = (str(message.id), most, len(texts))
    if key not in memo:
        memo[key] = _shortened(message, kept, most, count_tokens)
    return memo[key]


def _shortened(message: Message, kept: Message, most: int, count_tokens: TokenCounter) -> Message:
    masked = redacted(message)
    name = json.dumps(str(message.id), ensure_ascii=False)
    at = len(masked.text) + 1 if masked.text else 0

    def note(left_out: int, offset: int) -> str:
        return f"\n[… {left_out} characters left out; {READ_TOOL}(id={name}, offset={offset}) gives them …]\n"

    parts: list[Part] = []
    for original, part in zip(message.parts, masked.parts, strict=True):
        if any(original is other for other in kept.parts):
            is_short = count_tokens(part_text(original)) <= most
            parts.append(original if is_short else _shorten_part(part, most, count_tokens, note, at))
        at += len(part_text(part)) + 1 if part_text(part) else 0
    is_short = count_tokens(kept.text) <= most
    text = kept.text if is_short else shorten_text(masked.text, most, count_tokens, note)
    return replace(message, text=text, parts=tuple(parts), tokens=None)


def _shorten_part(part: Part, most: int, count_tokens: TokenCounter, note: Note, at: int) -> Part:
    def note_here(left_out: int, offset: int) -> str:
        return note(left_out, at + offset)

    if isinstance(part, ToolCall):
        return shorten_call(part, most, count_tokens, note_here)
    return replace(part, content=shorten_text(part.content, most, count_tokens, note_here))


Note = Callable[[int, int], str]
"""Says how many characters are left out, and where they begin."""


def shorten_text(text: str, most: int, count_tokens: TokenCounter, note: Note) -> str:
    """Head and tail of a text within so many tokens and a note between them; without room its beginning."""
    total = count_tokens(text)
    if total <= most:
        return text
    best, room = "", most - count_tokens(note(len(text), len(text)))
    characters = len(text) * room // total if room >= MIN_EXCERPT_TOKENS else 0
    for _ in range(MAX_TRIES):
        if characters <= 0:
            break
        shown = _head_and_tail(text, characters, note)
        tokens = count_tokens(shown)
        if tokens <= most:
            best = max(best, shown, key=len)
            if tokens >= GOOD_FILL * most:
                break
        characters = min(len(text) - 1, int(characters * 0.97 * most / max(1, tokens)))
    return best or _beginning(text, most, count_tokens)


def _head_and_tail(text: str, characters: int, note: Note) -> str:
    head = _border(text, characters * 2 // 3)
    tail = max(head, _border(text, len(text) - characters // 3))
    return f"{text[:head]}{note(tail - head, head)}{text[tail:]}"


def _beginning(text: str, most: int, count_tokens: TokenCounter) -> str:
    """As much of a text as so many tokens hold, to its last whole character."""

    def beginning(characters: int) -> str:
        return text[: _border(text, characters)] + ELLIPSIS

    length = bisect_right(range(len(text)), most, key=lambda size: count_tokens(beginning(size))) - 1
    found = beginning(length) if length >= 0 else ""
    return found if count_tokens(found) <= most else ""


def shorten_call(call: ToolCall, most: int, count_tokens: TokenCounter, note: Note) -> ToolCall:
    """A call whose long texts are cut; arguments stay an object, with the same keys if they can."""
    if count_tokens(part_text(call)) <= most:
        return call
    longest = min(8 * most, max(map(len, _strings(call.arguments)), default=0))
    while longest >= MIN_STRING_CHARACTERS:
        shorter = replace(call, arguments=_with_short_strings(call.arguments, longest, note))
        if count_tokens(part_text(shorter)) <= most:
            return shorter
        longest = longest * 3 // 4
    written = json.dumps(call.arguments, ensure_ascii=False, default=str)
    room = most
    while room > 0:
        head = shorten_text(written, room, count_tokens, lambda left, at: note(left, len(call.name) + 1 + at))
        shorter = replace(call, arguments={"shortened": head})
        if count_tokens(part_text(shorter)) <= most:
            return shorter
        room = room * 3 // 4
    return replace(call, arguments={})


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _with_short_strings(value: Any, longest: int, note: Note) -> Any:
    if isinstance(value, str):
        shown = _head_and_tail(value, longest, lambda left_out, _head: note(left_out, 0))
        return shown if len(shown) < len(value) else value
    if isinstance(value, Mapping):
        return {key: _with_short_strings(item, longest, note) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_short_strings(item, longest, note) for item in value]
    return value


def read_page(message: Message, offset: int, most: int, count_tokens: TokenCounter) -> Page:
    """What a message says from an offset on, without secrets: as much as so many tokens hold."""
    text = whole_text(redacted(message))
    end = min(len(text), offset + max(1, 8 * most))
    while end - offset > 1:
        page = text[offset:end]
        tokens = max(count_tokens(page), count_tokens(json.dumps(page, ensure_ascii=False)))
        if tokens <= most:
            break
        end = offset + max(1, min(end - offset - 1, int((end - offset) * 0.97 * most / tokens)))
    end = max(_border(text, end), min(len(text), offset + 1)) if end > offset else offset
    return Page(text[offset:end], end if end < len(text) else None, len(text))


def _border(text: str, at: int) -> int:
    """Where to cut, at a place or just before it: at a blank if one is near, never within a character."""
    at = max(0, min(len(text), at))
    if at in (0, len(text)):
        return at
    blank = max(text.rfind(" ", max(0, at - WORD), at), text.rfind("\n", max(0, at - WORD), at))
    at = blank + 1 if blank >= 0 else at
    first = max(0, at - MAX_CLUSTER)
    while at > first and _joins(text, at):
        at -= 1
    return at


def _joins(text: str, at: int) -> bool:
    """Whether the characters before and behind a place are drawn as one."""
    before, behind = text[at - 1], text[at]
    if behind.isascii():
        return before == "\r" and behind == "\n"
    if _is_flag(before) and _is_flag(behind):
        start = at
        while start and _is_flag(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 1
    return (
        unicodedata.category(behind)[0] == "M"
        or before == "\u200d"
        or behind == "\u200d"
        or "\u1160" <= behind <= "\u11ff"  # the rest of a Korean syllable
        or "\U0001f3fb" <= behind <= "\U0001f3ff"  # tones of skin
        or "\U000e0020" <= behind <= "\U000e007f"  # the rest of a flag of a region
    )


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"

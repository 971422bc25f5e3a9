"""The messages of a thread as a model may see them: tool calls and results in pairs, within a budget.

What is over the budget goes from the old end, in jumps: while a conversation grows, its beginning stays the
same for a while, so that a provider's prompt cache keeps hitting. The input of the turn under way and its
newest step always stay; `shorten` sees to it that they have room.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from casenotes.intake import characters
from casenotes.pairs import answered
from casenotes.tasks import INLINE_CHARACTERS, compute
from casenotes.tokens import CountedOnce, TokenCounter
from casenotes.types import Message, part_text

MAX_COUNTED = 20_000
MESSAGE_OVERHEAD = 4
"""Tokens that say who speaks."""


class Window(NamedTuple):
    """The messages to show, their tokens, and how many were left out."""

    messages: tuple[Message, ...]
    tokens: int
    left_out: int


class MessageTokens:
    """Counts the tokens of messages, each text once: results of tools come back with every call."""

    def __init__(self, count_tokens: TokenCounter) -> None:
        self._count = CountedOnce(count_tokens, MAX_COUNTED)

    def __call__(self, message: Message) -> int:
        return MESSAGE_OVERHEAD + sum(map(self.of_text, _texts(message)))

    def of_text(self, text: str) -> int:
        """The tokens of a text alone."""
        return self._count(text) if text else 0

    async def count_ahead(self, messages: Sequence[Message]) -> None:
        """Count what was not counted yet: long texts in a thread, beside the host's loop."""
        if sum(map(characters, messages)) <= INLINE_CHARACTERS:
            return
        texts = [text for message in messages for text in _texts(message) if not self._count.knows(text)]
        await compute(lambda: list(map(self._count, texts)), sum(map(len, texts)))


def _texts(message: Message) -> list[str]:
    return [text for text in (message.text, *map(part_text, message.parts)) if text]


class TokensOfCall(MessageTokens):
    """The same for one call, in which a message is looked at several times; it keeps the messages."""

    def __init__(self, size: MessageTokens) -> None:
        self._count = size._count
        self._known: dict[int, tuple[Message, int]] = {}

    def __call__(self, message: Message) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, super().__call__(message)
        return known[1]


def window(
    messages: Sequence[Message], own: Set[str], max_tokens: int, jump: int, size: MessageTokens
) -> Window:
    """Messages of a thread, oldest first, of which those with an id in `own` belong to the turn under way.

    They have no broken pairs. Over the budget, `jump` tokens go at a time. It should stay the same from call to
    call.
    """
    sizes = [size(message) for message in messages]
    if sum(sizes) <= max_tokens:
        return Window(tuple(messages), sum(sizes), 0)
    kept = list(without_broken_pairs(_newest(messages, sizes, _staying(messages, own), max_tokens, jump)))
    return Window(tuple(kept), sum(map(size, kept)), len(messages) - len(kept))


def staying_tokens(messages: Sequence[Message], own: Set[str], size: MessageTokens) -> int:
    """What cannot be left out, however small the budget: the turn's input and the newest step after it."""
    return sum(size(messages[position]) for position in _staying(messages, own))


def _newest(
    messages: Sequence[Message], sizes: Sequence[int], staying: Set[int], max_tokens: int, jump: int
) -> list[Message]:
    """What stays, and what has room of the rest: first go messages before the turn, then its first steps."""
    others = [position for position in range(len(messages)) if position not in staying]
    room = max(0, max_tokens - sum(sizes[position] for position in staying))
    kept = staying | set(others[_first_kept([sizes[position] for position in others], room, jump) :])
    return [message for position, message in enumerate(messages) if position in kept]


def _staying(messages: Sequence[Message], own: Set[str]) -> Set[int]:
    """Where the input of the turn and its newest step stand: without a result the step would be done again."""
    asked, newest = list(steps(messages, own))[-1] if messages else (range(0), range(0))
    return frozenset((*asked, *newest))


def steps(messages: Sequence[Message], own: Set[str]) -> Iterator[tuple[range, range]]:
    """Every step of every turn, with the input of its turn; the last is the newest of the turn under way.

    Where earlier turns began is told by their roles: someone speaks after an assistant or a tool.
    """
    start = next((i for i, message in enumerate(messages) if message.id in own), max(0, len(messages) - 1))
    answers = [message.role in ("assistant", "tool") for message in messages]
    begins = [i for i in range(1, start) if answers[i - 1] and not answers[i]]
    turns = sorted({*([0] if messages else []), *begins, *([start] if messages else [])})
    for first, last in pairwise([*turns, len(messages)]):
        answered_at = next((i for i in range(first, last) if answers[i]), last)
        starts = [answered_at, *(i for i in range(answered_at + 1, last) if messages[i].role == "assistant")]
        for begin, end in pairwise([*starts, last]):
            yield range(first, answered_at), range(begin, end)


def _first_kept(sizes: Sequence[int], room: int, jump: int) -> int:
    """Where the newest messages begin that have room; the point moves in jumps as the list grows."""
    surplus = sum(sizes) - room
    if surplus <= 0:
        return 0
    jump = max(1, min(jump, room // 2))
    return bisect_left(list(accumulate(sizes)), math.ceil(surplus / jump) * jump) + 1


def without_broken_pairs(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages without calls that have no result here and results that have no call before them.

    A window over a thread may begin between a call and its result, and the last call may still be
    unanswered; chat models refuse such histories. A message of which nothing is left is left out.
    """
    pairs = answered(messages)
    paired = {*pairs.keys(), *pairs.values()}
    for number, message in enumerate(messages):
        parts = tuple(part for place, part in enumerate(message.parts) if (number, place) in paired)
        if len(parts) == len(message.parts):
            yield message
        elif parts or message.text.strip():
            yield replace(message, parts=parts)

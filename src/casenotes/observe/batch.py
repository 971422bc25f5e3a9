"""Which messages are observed next: old enough, enough of them, and no call without its result.

The newest step stays as it was said, because the model is about to go on from it. A call that is still
waiting for its result stays, too. It waits no longer when the user has spoken since, or much has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from casenotes.observe.limits import Limits
from casenotes.pairs import answered
from casenotes.types import Message, ToolCall

CATCH_UP_TOKENS = 24_000
ALL_AT_ONCE = 1.5
PATIENT_MESSAGES = 20
"""A call is waited for while no more than so many messages have come after it."""


def next_batch(
    messages: Sequence[Message], sizes: Sequence[int], ready: int, limits: Limits, *, flush: bool
) -> list[Message]:
    """The next messages to observe, of those that come after the cursor; none if it is too early.

    `ready` is what was observed and waits to be activated. A flush takes all: nobody is at it any more.
    """
    observable = len(messages) if flush else _observable(messages, sizes, limits.tail)
    borders = [border for border in _borders(messages) if border <= observable]
    if not borders:
        return []
    until = list(accumulate(sizes))
    total, step = until[borders[-1] - 1], limits.next_step(ready)
    if total < step and not flush:
        return []
    if total <= ALL_AT_ONCE * step:
        return list(messages[: borders[-1]])
    most = min(limits.threshold, CATCH_UP_TOKENS) if total >= 2 * limits.threshold else step
    fitting = [border for border in borders if until[border - 1] <= most]
    return list(messages[: fitting[-1] if fitting else borders[0]])


def halved(messages: Sequence[Message]) -> list[Message]:
    """The first half of a batch that cannot be read as a whole; all of it if it is one message.

    Rather a call is parted from its result than that nothing can be read.
    """
    middle = len(messages) // 2
    borders = [border for border in _borders(messages) if border < len(messages)]
    best = min(borders, key=lambda border: abs(border - middle), default=middle)
    return list(messages[: best or len(messages)])


def _observable(messages: Sequence[Message], sizes: Sequence[int], tail: int) -> int:
    """How many messages come before the newest step and before a call that waits."""
    return min([_newest_step(messages, sizes, tail), *_waiting_calls(messages)])


def _newest_step(messages: Sequence[Message], sizes: Sequence[int], tail: int) -> int:
    """Where the last answer begins with what tools said to it, or what the user has said last."""
    start = len(messages)
    while start and messages[start - 1].role not in ("assistant", "user"):
        start -= 1
    if start and messages[start - 1].role == "assistant":
        return start - 1
    taken = 0
    while start and messages[start - 1].role in ("user", "system") and (not taken or taken <= tail):
        start -= 1
        taken += sizes[start]
    return start


def _waiting_calls(messages: Sequence[Message]) -> list[int]:
    """Messages with a call that may still get its result."""
    pairs = answered(messages)
    spoke = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    first = max(spoke + 1, len(messages) - 1 - PATIENT_MESSAGES)
    return [
        i
        for i in range(first, len(messages))
        for j, part in enumerate(messages[i].parts)
        if isinstance(part, ToolCall) and (i, j) not in pairs
    ]


def _borders(messages: Sequence[Message]) -> list[int]:
    """The places at which no call is parted from its result."""
    held = [0] * (len(messages) + 1)
    for (call, _), (result, _) in answered(messages).items():
        held[call] += 1
        held[result] -= 1
    depth, borders = 0, []
    for place in range(len(messages)):
        depth += held[place]
        if not depth:
            borders.append(place + 1)
    return borders

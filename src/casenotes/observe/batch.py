"""Which messages are observed next: old enough, enough of them, and no call without its result.

The newest step stays as it was said, because the model is about to go on from it. A call that is still
waiting for its result stays, too. It waits no longer when the user has spoken since, or much has happened.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    `ready` is what was observed and waits to be activated. A flush takes what there is.
    """
    whole = _borders(messages)
    end = max((border for border in whole if border <= _observable(messages, flush=flush)), default=0)
    total, step = sum(sizes[:end]), limits.next_step(ready)
    if not end or (total < step and not flush):
        return []
    if total > ALL_AT_ONCE * step:
        most = min(limits.threshold, CATCH_UP_TOKENS) if total >= 2 * limits.threshold else step
        end = _within(sizes, [border for border in whole if border <= end], most)
    return list(messages[:end])


def halved(messages: Sequence[Message]) -> list[Message]:
    """The first half of a batch whose answer was cut off; all of it if it cannot be parted."""
    borders = [border for border in _borders(messages) if border < len(messages)]
    if not borders:
        return list(messages)
    return list(messages[: min(borders, key=lambda border: abs(border - len(messages) // 2))])


def _observable(messages: Sequence[Message], *, flush: bool) -> int:
    """How many messages come before the newest step and before a call that waits; a flush takes every step."""
    end = len(messages) if flush else _newest_step(messages)
    return min([end, *_waiting_calls(messages)])


def _newest_step(messages: Sequence[Message]) -> int:
    """Where the last answer begins with what tools said to it, or what the user has said since."""
    start = len(messages)
    while start and messages[start - 1].role not in ("assistant", "user"):
        start -= 1
    if start and messages[start - 1].role == "assistant":
        return start - 1
    while start and messages[start - 1].role in ("user", "system"):
        start -= 1
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


def _within(sizes: Sequence[int], borders: Sequence[int], most: int) -> int:
    """The last border within a size; the first one if a single piece is larger."""
    fitting = [border for border in borders if sum(sizes[:border]) <= most]
    return fitting[-1] if fitting else borders[0]

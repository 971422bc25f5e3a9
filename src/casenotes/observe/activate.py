"""When observations take the place of messages, and which messages are still shown after that.

Between two activations a prompt only grows at its end, so a provider's cache keeps hitting.
"""

from __future__ import annotations

from collections.abc import Sequence

from casenotes.observe.limits import Limits
from casenotes.stores.observations import Activation, Batch, Ready, Size
from casenotes.types import Span


def activation(
    ready: Ready, limits: Limits, *, flush: bool = False, asked: Sequence[Size] = ()
) -> Activation | None:
    """What is to be activated now, None if nothing is.

    At the threshold as many batches as leave the newest messages as they were said; a flush takes all. What the
    turn under way was asked stays before them, if it is short.
    """
    state = ready.state
    if not flush and state.raw_tokens < limits.threshold:
        return None
    batches = ready.batches if flush else _due(ready.batches, state.raw_tokens, limits)
    if not batches:
        return None
    to_seq = batches[-1].last_seq
    to_tokens = state.active_tokens + sum(batch.tokens for batch in batches)
    log = state.log_tokens + state.ready_tokens
    window = _window(ready.newest, to_seq, limits.newest, limits.besides(log))
    return Activation(state.version, to_seq, to_tokens, window, _kept(asked, limits.tail))


def _due(batches: Sequence[Batch], raw: int, limits: Limits) -> Sequence[Batch]:
    """The first one in any case, and all that leave enough, or whose leaving it out would be too much."""
    count = 0
    for batch in batches:
        left = raw - batch.tokens
        if count and left < limits.tail and raw < limits.threshold:
            break
        raw, count = left, count + 1
    return batches[:count]


def _kept(asked: Sequence[Size], room: int) -> Span:
    if not asked or sum(tokens for _, tokens in asked) > room:
        return 0, 0
    return asked[0][0], asked[-1][0]


def _window(newest: Sequence[Size], to_seq: int, wanted: int, room: int) -> int:
    """The message after which all are shown: so many of the newest, as far as the observed ones have room."""
    shown_from = to_seq
    for seq, tokens in newest[:wanted]:
        if seq > to_seq:
            continue
        room -= tokens
        if room < 0:
            break
        shown_from = seq - 1
    return shown_from

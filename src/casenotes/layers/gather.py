"""Ask all layers at once what to put in front of the model call, each within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from casenotes.events import Events
from casenotes.layers.base import Layer, Recalled, RecallRequest
from casenotes.masking import mask
from casenotes.stores.base import Shown
from casenotes.tokens import TokenCounter
from casenotes.types import Block


class Gathered(NamedTuple):
    """The blocks in order, what was shown in them, and how it went, layer by layer."""

    blocks: tuple[Block, ...]
    shown: tuple[Shown, ...]
    trace: dict[str, Any]


async def gather(
    layers: Sequence[Layer],
    request: RecallRequest,
    deadline_seconds: float,
    count_tokens: TokenCounter,
    events: Events,
) -> Gathered:
    """The blocks of all layers; one that fails or is late gives none and an event."""
    asked = [layer for layer in layers if layer.scope == "thread" or request.scope.resource_id is not None]
    asked.sort(key=lambda layer: layer.slot)
    answers = await asyncio.gather(*(_ask(layer, request, deadline_seconds, events) for layer in asked))
    blocks = tuple(
        Block(layer.name, answer.text, count_tokens(answer.text) if answer.tokens is None else answer.tokens)
        for layer, (answer, _) in zip(asked, answers, strict=True)
        if answer.text
    )
    shown = tuple(item for answer, _ in answers for item in answer.shown)
    trace = {
        layer.name: {"seconds": seconds, "left_out": list(answer.left_out)}
        for layer, (answer, seconds) in zip(asked, answers, strict=True)
    }
    return Gathered(blocks, shown, trace)


async def _ask(
    layer: Layer, request: RecallRequest, deadline_seconds: float, events: Events
) -> tuple[Recalled, float]:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(deadline_seconds):
            answer = await layer.recall(replace(request, max_tokens=layer.budget.max))
    except Exception as error:
        problem = "late" if isinstance(error, TimeoutError) else mask(f"{type(error).__name__}: {error}")
        events.emit("layer.failed", request.scope, source=layer.name, error=problem)
        answer = Recalled(left_out=(f"failed: {problem}",))
    return answer, time.perf_counter() - started

"""Ask all layers at once what to put in front of the model call, and fit their answers into the budget.

Each layer has a deadline. One that is late is cancelled and waited for no longer: should it not let itself
be cancelled, it goes on by itself and its answer counts for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from casenotes.events import Events
from casenotes.layers.base import Layer, Recalled, RecallRequest
from casenotes.layers.stored_state import States
from casenotes.masking import mask
from casenotes.recall.budget import Demand, allocate
from casenotes.stores.base import OVER_BUDGET, Shown
from casenotes.tasks import is_asked_to_stop, leave
from casenotes.tokens import TokenCounter
from casenotes.types import Block

GRACE_SECONDS = 0.02
"""How long a cancelled layer may take to end before it is left to itself."""


class Answer(NamedTuple):
    """What a layer was asked and said, how many tokens that is, and how long it took."""

    layer: Layer
    request: RecallRequest
    recalled: Recalled
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """The blocks in order, what was shown in them, and how it went, layer by layer."""

    blocks: tuple[Block, ...]
    shown: tuple[Shown, ...]
    trace: dict[str, Any]

    @property
    def tokens(self) -> int:
        """What all blocks take together."""
        return sum(block.tokens for block in self.blocks)


class Gatherer:
    """Asks layers and fits their answers."""

    def __init__(
        self, states: States, deadline_seconds: float, count_tokens: TokenCounter, events: Events
    ) -> None:
        self._states = states
        self._deadline_seconds = deadline_seconds
        self._count_tokens = count_tokens
        self._events = events

    async def ask(
        self,
        layers: Sequence[Layer],
        request: RecallRequest,
        total: int,
        previous: Mapping[str, Block] = MappingProxyType({}),
    ) -> list[Answer]:
        """The answers of all layers, in the order of their slots; `previous` blocks are of the same turn."""
        ordered = sorted(layers, key=lambda layer: layer.slot)
        requests = list(self._requests(ordered, request, total, previous))
        tasks = [
            asyncio.create_task(self._ask(layer, own)) for layer, own in zip(ordered, requests, strict=True)
        ]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._deadline_seconds)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
        await self._let_end(late)
        return [
            self._late(layer, own) if task in late or task.cancelled() else task.result()
            for layer, own, task in zip(ordered, requests, tasks, strict=True)
        ]

    def _requests(
        self, layers: Sequence[Layer], request: RecallRequest, total: int, previous: Mapping[str, Block]
    ) -> Iterator[RecallRequest]:
        """The request for each layer, with what it may take if all others use up their budgets."""
        rooms = allocate(total, [_demand(layer, layer.budget.max) for layer in layers])
        for layer in layers:
            state = self._states.of(layer.name, layer.scope, request.scope, turn_id=request.turn_id)
            shown = previous.get(layer.name)
            yield replace(request, max_tokens=rooms[layer.name], state=state, previous=shown)

    async def _let_end(self, late: Sequence[asyncio.Task[Answer]]) -> None:
        if not late:
            return
        _done, stubborn = await asyncio.wait(late, timeout=GRACE_SECONDS)
        leave(stubborn)

    async def _ask(self, layer: Layer, request: RecallRequest) -> Answer:
        started = time.perf_counter()
        try:
            recalled = _checked(await layer.recall(request))
            tokens = self._size(recalled)
        except Exception as error:
            recalled, tokens = Recalled(), 0
            if not is_asked_to_stop():
                recalled = self._failed(layer, request, error)
                tokens = self._size(recalled)
        return Answer(layer, request, recalled, tokens, time.perf_counter() - started)

    def _late(self, layer: Layer, request: RecallRequest) -> Answer:
        recalled = self._failed(layer, request, "late")
        return Answer(layer, request, recalled, self._size(recalled), self._deadline_seconds)

    def _failed(self, layer: Layer, request: RecallRequest, error: Exception | str) -> Recalled:
        problem = error if isinstance(error, str) else mask(f"{type(error).__name__}: {error}")
        self._events.emit("layer.failed", request.scope, source=layer.name, error=problem)
        told = (f"failed: {problem}",)
        if layer.stable and request.previous is not None:  # a prompt must not lose its beginning for that
            return Recalled(request.previous.text, left_out=told, version=request.previous.version)
        return Recalled(left_out=told)

    def _size(self, recalled: Recalled) -> int:
        """Counted here, whatever the layer says."""
        return self._count_tokens(recalled.text) if recalled.text else 0

    def fit(self, answers: Sequence[Answer], total: int) -> Fitted:
        """The blocks within a budget: a layer that takes less than its share leaves the rest to others."""
        answers = [self._widened(answer) for answer in answers]
        wanted = [answer for answer in answers if answer.recalled.text]
        demands = [_demand(answer.layer, answer.tokens) for answer in wanted]
        shares = allocate(total, demands)
        fitted = [self._fitted(answer, shares.get(answer.layer.name, 0)) for answer in answers]
        blocks = tuple(
            Block(a.layer.name, a.recalled.text, a.tokens, a.layer.stable, a.recalled.version)
            for a in fitted
            if a.recalled.text
        )
        shown = tuple(item for answer in fitted for item in answer.recalled.shown)
        return Fitted(blocks, shown, {answer.layer.name: _trace(answer) for answer in fitted})

    def _widened(self, answer: Answer) -> Answer:
        """All that a layer has to show, if it was asked for less: others may leave room for it."""
        most = answer.layer.budget.max
        if answer.recalled.fit is None or most <= answer.request.max_tokens:
            return answer
        wider = self._within(answer, most)
        return wider if wider.tokens > answer.tokens else answer

    def _fitted(self, answer: Answer, share: int) -> Answer:
        if not answer.recalled.text or answer.tokens <= share:
            return answer
        shorter = self._within(answer, share)
        if shorter.tokens > share or not shorter.recalled.text:
            reasons = shorter.recalled.left_out if not shorter.recalled.text else ()
            reasons = reasons or (f"{answer.tokens} tokens, and there is room for {share}",)
            found = answer.recalled.shown
            dropped = tuple(replace(item, left_out=item.left_out or OVER_BUDGET) for item in found)
            return answer._replace(recalled=Recalled("", dropped, reasons), tokens=0)
        return shorter

    def _within(self, answer: Answer, room: int) -> Answer:
        """The answer again in so many tokens, as far as the layer keeps to it; it can be asked once more."""
        if answer.recalled.fit is None:
            return answer._replace(recalled=Recalled(), tokens=0)
        try:
            other = replace(_checked(answer.recalled.fit(room)), fit=answer.recalled.fit)
            return answer._replace(recalled=other, tokens=self._size(other))
        except Exception as error:
            return answer._replace(recalled=self._failed(answer.layer, answer.request, error), tokens=0)


def _checked(given: object) -> Recalled:
    """A layer may answer with plain text; what is neither is refused before it can do harm."""
    if isinstance(given, str):
        return Recalled(given)
    if not isinstance(given, Recalled):
        raise TypeError(f"recall must give text or Recalled, not {type(given).__name__}")
    lists = (("shown", given.shown, Shown), ("left_out", given.left_out, str))
    for name, items, kind in (("text", (given.text,), str), *lists):
        if not isinstance(items, (tuple, list)) or not all(isinstance(item, kind) for item in items):
            raise TypeError(f"{name} of Recalled is {getattr(given, name)!r:.80}")
    return given


def _demand(layer: Layer, need: int) -> Demand:
    return Demand(layer.name, layer.budget.min, layer.budget.max, need)


def _trace(answer: Answer) -> dict[str, Any]:
    return {
        "tokens": answer.tokens,
        "seconds": answer.seconds,
        "left_out": list(answer.recalled.left_out),
    }


def least(answers: Sequence[Answer]) -> int:
    """What layers are to get in any case: their minimum, or all they have if that is less."""
    return sum(min(answer.tokens, answer.layer.budget.min) for answer in answers)


def kept_within(blocks: Sequence[Block], room: int) -> list[Block]:
    """The blocks that still have room: volatile ones go first, and of those the last."""
    kept = list(blocks)
    for stable in (False, True):
        for block in [block for block in reversed(blocks) if block.stable is stable]:
            if sum(one.tokens for one in kept) > room:
                kept.remove(block)
    return kept


def trace_without(trace: Mapping[str, Any], gone: Iterable[Block]) -> dict[str, Any]:
    """How it went, layer by layer, when blocks had to go later in the turn."""
    reasons = {
        block.name: f"{block.tokens} tokens, and the turn has no room for them any more" for block in gone
    }
    return {**trace, **{name: {**trace[name], "tokens": 0, "left_out": [reasons[name]]} for name in reasons}}

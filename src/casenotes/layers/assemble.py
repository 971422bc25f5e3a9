"""Make the context of a model call: blocks of all layers, messages of the thread, and how it came about.

A turn keeps the window over its thread that it began with, and most of its blocks: from call to call the
prompt only grows at its end. Layers that change within a turn, such as the plan, are asked again. What is too
long for a prompt is shown shortened.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from casenotes.clock import Clock
from casenotes.config import Settings
from casenotes.intake import characters
from casenotes.layers.base import Layer, RecallRequest
from casenotes.layers.gather import Gatherer, kept_within, least, trace_without
from casenotes.layers.observing import SessionMemory, still_shown
from casenotes.layers.registered import gives_blocks
from casenotes.recall.recent import MessageTokens, TokensOfCall, staying_tokens, window, without_broken_pairs
from casenotes.recall.shorten import QUARTERS, shorten_steps
from casenotes.stores.base import Shown, Store
from casenotes.types import Context, Message, Scope, Turn

MAX_CHARACTERS_AT_ONCE = 200_000
"""Longer logs are counted and cut in a thread, so that the host's loop goes on."""


class ContextMaker:
    """Makes the contexts of turns."""

    def __init__(
        self,
        store: Store,
        layers: Sequence[Layer],
        gatherer: Gatherer,
        settings: Settings,
        clock: Clock,
        size: MessageTokens,
        session: SessionMemory,
    ) -> None:
        self._store = store
        self._session = session
        self._layers = [layer for layer in layers if gives_blocks(layer)]
        self._order = [layer.name for layer in sorted(layers, key=lambda layer: layer.slot)]
        self._gatherer = gatherer
        self._last_messages = settings.last_messages
        self._prompt_tokens = settings.budget.prompt_tokens
        self._clock = clock
        self._size = size

    async def first(
        self,
        turn: Turn,
        given: Sequence[Message],
        seconds: dict[str, float],
        provider: str | None,
    ) -> tuple[Context, list[Message], tuple[Shown, ...]]:
        """The context of a turn's first call, the messages of its window, and the items shown.

        A turn that is apart has no layers of the resource, as for sub-agents.
        """
        started = time.perf_counter()
        scope, apart = turn.scope, turn.is_apart
        raw = _with(given, await self._log(scope, len(given), provider))
        own = {str(message.id) for message in given}
        size = TokensOfCall(self._size)
        log, cut = await self._shorten(turn, raw, own, size)
        seconds["recent_messages"] = time.perf_counter() - started
        layers = in_reach(self._layers, scope, apart=apart)
        total = self._room(log, own, size)
        request = self._request(scope, turn.id, given, self._sure_to_be_shown(log, own, layers, size))
        answers = await self._gatherer.ask(layers, request, total)
        fitted = self._gatherer.fit(answers, total)
        context = self._context(fitted.blocks, log, own, cut, len(raw), fitted.trace, seconds, size)
        return context, raw, fitted.shown

    async def _log(self, scope: Scope, given: int, provider: str | None) -> list[Message]:
        """All that no observation stands for, where the thread is observed; else the last few."""
        if self._session.is_on:
            return await self._session.window(scope, provider)
        return await self._store.recent(scope, max(self._last_messages, given))

    async def next(self, turn: Turn, seconds: dict[str, float]) -> tuple[Context, tuple[Shown, ...]]:
        """The context of a further call of a turn, whose log has grown."""
        own = set(turn.message_ids)
        await self._size.count_ahead(turn.log)
        raw = await self._still_shown(turn, own)
        size = TokensOfCall(self._size)
        log, cut = await self._shorten(turn, raw, own, size)
        again = [layer for layer in in_reach(self._layers, turn.scope, apart=turn.is_apart) if layer.every_step]
        said = [message for message in turn.log if str(message.id) in own]
        total = self._room(log, own, size)
        request = self._request(turn.scope, turn.id, said, log)
        answers = await self._gatherer.ask(again, request, total, turn.blocks)
        names = {layer.name for layer in again}
        old = [block for block in turn.context.blocks if block.name not in names]
        kept = kept_within(old, total - least(answers))
        fitted = self._gatherer.fit(answers, total - sum(block.tokens for block in kept))
        blocks = sorted([*kept, *fitted.blocks], key=lambda block: self._order.index(block.name))
        gone = [block for block in old if block not in kept]
        layers = {**trace_without(turn.context.trace.get("layers", {}), gone), **fitted.trace}
        return self._context(blocks, log, own, cut, len(raw), layers, seconds, size), fitted.shown

    async def _shorten(
        self, turn: Turn, messages: list[Message], own: set[str], size: MessageTokens
    ) -> tuple[list[Message], dict[str, int]]:
        """The messages in whole pairs, too long ones cut, and the tokens that those have as a whole."""
        whole = list(without_broken_pairs(messages))

        def shorten() -> tuple[list[Message], dict[str, int]]:
            if sum(map(size, whole)) <= self._prompt_tokens:
                return whole, {}
            shown = shorten_steps(whole, own, self._prompt_tokens, size, turn.shortened)
            if shown == whole:
                return whole, {}
            uncut = {message.id: message for message in whole}
            cut = [message for message in shown if message is not uncut[message.id]]
            return list(without_broken_pairs(shown)), {str(m.id): size(uncut[m.id]) for m in cut}

        is_long = sum(map(characters, whole)) > MAX_CHARACTERS_AT_ONCE
        return await asyncio.to_thread(shorten) if is_long else shorten()

    async def _still_shown(self, turn: Turn, own: set[str]) -> list[Message]:
        """The turn's window without what observations stand for since."""
        if not self._session.is_on:
            return turn.log
        asked = [(message.seq or 0, self._size(message)) for message in _input(turn.log, own)]
        return still_shown(turn.log, await self._session.after_step(turn.scope, asked))

    def _request(
        self, scope: Scope, turn_id: str, said: Sequence[Message], log: Sequence[Message]
    ) -> RecallRequest:
        asked = [message for message in said if message.role == "user"]
        query = "\n".join(message.text for message in asked)
        last = max((message.seq or 0 for message in asked), default=0)
        visible = {str(message.id) for message in log}
        return RecallRequest(scope, turn_id, query, self._clock.now(), visible, input_seq=last)

    def _sure_to_be_shown(
        self, log: Sequence[Message], own: set[str], layers: Sequence[Layer], size: MessageTokens
    ) -> Sequence[Message]:
        """The messages that have room however much the blocks take."""
        left = self._prompt_tokens - sum(layer.budget.max for layer in layers)
        return window(log, own, left, self._prompt_tokens // QUARTERS, size).messages

    def _room(self, log: Sequence[Message], own: set[str], size: MessageTokens) -> int:
        """What blocks may take: all but what must stay of the turn; other messages get what is left.

        In an observed thread messages that nothing stands for yet have their room, too.
        """
        staying = staying_tokens(log, own, size)
        if self._session.is_on:
            staying = max(staying, min(sum(map(size, log)), self._session.limits.threshold))
        return max(0, self._prompt_tokens - staying)

    def _context(
        self,
        blocks: Sequence[Any],
        log: Sequence[Message],
        own: set[str],
        cut: Mapping[str, int],
        count: int,
        layers: Mapping[str, Any],
        seconds: Mapping[str, float],
        size: MessageTokens,
    ) -> Context:
        used = sum(block.tokens for block in blocks)
        shown = window(log, own, self._prompt_tokens - used, self._prompt_tokens // QUARTERS, size)
        messages = {
            "tokens": shown.tokens,
            "shown": len(shown.messages),
            "left_out": count - len(shown.messages),
            "shortened": [
                {"id": message.id, "tokens": cut[str(message.id)], "shown": size(message)}
                for message in shown.messages
                if str(message.id) in cut
            ],
        }
        trace = {
            "seconds": seconds,
            "layers": layers,
            "messages": messages,
            "tokens": {"budget": self._prompt_tokens, "blocks": used, "messages": shown.tokens},
        }
        return Context(tuple(blocks), shown.messages, trace)


def _with(given: Sequence[Message], log: list[Message]) -> list[Message]:
    """The thread with the input: it may be a message that was forgotten and is said again."""
    shown = {message.id for message in log}
    return [*log, *(message for message in given if message.id not in shown)]


def _input(log: Sequence[Message], own: set[str]) -> list[Message]:
    """What a turn began with: its messages before anybody has answered."""
    mine = (message for message in log if str(message.id) in own)
    return list(takewhile(lambda message: message.role not in ("assistant", "tool"), mine))


def in_reach(layers: Sequence[Layer], scope: Scope, *, apart: bool) -> list[Layer]:
    """The layers of a turn: without a resource, and for sub-agents, only what belongs to the thread."""
    whole = scope.resource_id is not None and not apart
    return [layer for layer in layers if whole or layer.scope == "thread"]

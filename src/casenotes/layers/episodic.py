"""Episodic memory: entries of earlier conversations, and what was said in them, in front of the model call.

Entries come first; free places are filled with messages of earlier threads, word for word, so that it
works without any model. What stands verbatim in the current thread anyway is not shown again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from functools import partial

from casenotes.config import EpisodicSettings
from casenotes.errors import LeaseLost
from casenotes.layers.base import (
    BaseLayer,
    LearnRequest,
    Recalled,
    RecallRequest,
    TokenRange,
)
from casenotes.layers.fit import Fitting
from casenotes.learn.pipeline import Tools, learn
from casenotes.learn.prompts import prompt
from casenotes.learn.reflect_entries import reflect
from casenotes.recall.render import age_label, entry_line, memory_block, message_line
from casenotes.recall.search import Searcher
from casenotes.stores.base import IN_THREAD, OVER_TOP_K, QUOTED, Shown
from casenotes.tokens import TokenCounter
from casenotes.tracing import span
from casenotes.types import CandidateReceipt, Hit, HitKind

MAX_QUOTE_CHARACTERS = 1_200


class EpisodicLayer(BaseLayer):
    """See Layer."""

    name = "memory"
    slot = 300

    def __init__(
        self, searcher: Searcher, settings: EpisodicSettings, count_tokens: TokenCounter, tools: Tools | None
    ) -> None:
        self._searcher = searcher
        self._settings = settings
        self._count_tokens = count_tokens
        self._tools = tools
        self.learns_from = ("success",) if tools else ()
        self.budget = TokenRange(
            min(settings.min_block_tokens, settings.max_block_tokens), settings.max_block_tokens
        )

    async def recall(self, request: RecallRequest) -> Recalled:
        """The block for the current input; empty if nothing is relevant."""
        if not self._settings.auto_inject:
            return Recalled(left_out=("auto_inject is off",))
        hits, left_out = await self._search(request)
        if not hits:
            reason = "all that is relevant stands in this thread" if left_out else "nothing relevant"
            return Recalled("", left_out, (reason,))
        render = partial(self._rendered, now=request.now)
        fitting = Fitting(hits, render, self._count_tokens, "hits", _shown, left_out=left_out)
        return fitting.within(request.max_tokens)

    async def _search(self, request: RecallRequest) -> tuple[list[Hit], tuple[Shown, ...]]:
        """The best entries, then messages where places are left; and what was found beside them."""
        limit = self._settings.auto_inject_top_k
        counts: dict[HitKind, int] = {"entry": 2 * limit}
        if self._settings.inject_messages == "fill":
            counts["message"] = 4 * limit
        found = await self._searcher.search_apart(request.scope, request.query, counts)
        entries = await self._searcher.read(request.scope, found["entry"], as_block=True)
        verbatim = [hit for hit in entries if stands_verbatim(hit, request.visible)]
        others = [hit for hit in entries if hit not in verbatim]
        shown = others[:limit]
        quoted = {quote.message_id for hit in shown for quote in hit.evidence}
        free = limit - len(shown)
        fresh = [item for item in found.get("message", []) if item[1] not in quoted][: 2 * free]
        messages = await self._searcher.read(request.scope, fresh, as_block=True)
        left_out = [Shown("entry", hit.id, IN_THREAD) for hit in verbatim]
        left_out += [Shown(hit.kind, hit.id, OVER_TOP_K) for hit in (*others[limit:], *messages[free:])]
        left_out += [
            Shown("message", item[1], QUOTED) for item in found.get("message", []) if item[1] in quoted
        ]
        return [*shown, *messages[:free]], tuple(left_out)

    def _rendered(self, hits: Sequence[Hit], now: datetime) -> str:
        guidance = self._settings.injection_prompt or prompt("memory_guidance")
        return memory_block(block_lines(hits, now), prompt("memory_description"), guidance)

    async def learn(self, request: LearnRequest) -> None:
        """Run the write path for a finished turn."""
        if self._tools is None:
            return
        with span("learn memory", "update_memory", request.scope) as about:
            receipts = await learn(self._tools, request.scope, request.turn_id, request.lease)
            receipts += await self._reflect(self._tools, request)
            about("casenotes.candidates", len(receipts))
        counts = dict.fromkeys(("stored", "corroborated", "quarantined", "superseded", "rejected"), 0)
        for receipt in receipts:
            counts[receipt.status] += 1
        self._tools.events.emit("learning.finished", request.scope, turn_id=request.turn_id, **counts)

    async def _reflect(self, tools: Tools, request: LearnRequest) -> list[CandidateReceipt]:
        """Have a second look at what was learned; should that fail, entries stay as they are."""
        if not self._settings.reflect:
            return []
        try:
            return await reflect(tools, request.scope, request.turn_id, request.lease)
        except LeaseLost:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            tools.events.emit("reflection.failed", request.scope, source="episodic-memory", error=problem)
            return []


def _shown(hit: Hit) -> list[Shown]:
    return [Shown(hit.kind, hit.id)]


def stands_verbatim(hit: Hit, visible: Set[str]) -> bool:
    """Whether everything an entry quotes can be read in the current thread."""
    return bool(hit.evidence) and all(quote.message_id in visible for quote in hit.evidence)


def block_lines(hits: Sequence[Hit], now: datetime) -> list[str]:
    """Entries, then messages, each kind newest first."""
    newest = sorted(hits, key=lambda hit: hit.created_at, reverse=True)
    return [_line(hit, now) for kind in ("entry", "message") for hit in newest if hit.kind == kind]


def _line(hit: Hit, now: datetime) -> str:
    age = age_label(hit.created_at, now)
    if hit.kind == "entry":
        return entry_line(hit.content, age, not hit.verified, bool(hit.conflicts))
    return message_line(hit.speaker or "user", hit.content, age, MAX_QUOTE_CHARACTERS)

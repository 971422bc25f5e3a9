"""Semantic recall: messages like the current input, word for word, each with those around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from casenotes.config import SemanticRecallSettings
from casenotes.layers.base import BaseLayer, LayerScope, Recalled, RecallRequest, TokenRange
from casenotes.layers.fit import Fitting
from casenotes.learn.prompts import prompt
from casenotes.learn.speakers import shown_name
from casenotes.masking import mask
from casenotes.recall.render import block, message_line, time_label
from casenotes.recall.search import Searcher
from casenotes.stores.base import Shown, Store
from casenotes.tokens import TokenCounter
from casenotes.types import Message

NAME = "semantic-recall"
MAX_QUOTE_CHARACTERS = 1_200
Passage = tuple[Message, ...]


class SemanticRecallLayer(BaseLayer):
    """See Layer."""

    name = NAME
    slot = 400

    def __init__(
        self, store: Store, searcher: Searcher, settings: SemanticRecallSettings, count_tokens: TokenCounter
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._count_tokens = count_tokens
        self.scope: LayerScope = "thread" if settings.scope == "thread" else "resource"
        self.budget = TokenRange(
            min(settings.min_block_tokens, settings.max_block_tokens), settings.max_block_tokens
        )

    async def recall(self, request: RecallRequest) -> Recalled:
        """The block for the current input; empty if nothing is alike."""
        found = await self._search(request)
        if not found:
            return Recalled(left_out=("nothing alike",))
        near = await self._store.passages(request.scope, found, self._settings.before, self._settings.after)
        fresh = [message for message in near if message.id not in request.visible]
        passages = sorted(merged(fresh), key=lambda passage: _rank(passage, found))
        fitting = Fitting(passages, _rendered, self._count_tokens, "passages", _shown)
        return fitting.within(request.max_tokens)

    async def _search(self, request: RecallRequest) -> list[str]:
        """The best messages that the model does not see anyway."""
        thread = request.scope.thread_id if self.scope == "thread" else None
        wanted = self._settings.top_k + len(request.visible)
        found = await self._searcher.search_messages(request.scope, request.query, wanted, thread)
        return [item for item in found if item not in request.visible][: self._settings.top_k]


def merged(messages: Sequence[Message]) -> Iterator[Passage]:
    """Neighbours of one thread as one passage: those around two hits may overlap or touch."""
    passage: list[Message] = []
    for message in messages:
        if passage and not _follows(passage[-1], message):
            yield tuple(passage)
            passage = []
        passage.append(message)
    if passage:
        yield tuple(passage)


def _follows(first: Message, second: Message) -> bool:
    return first.thread_id == second.thread_id and (second.seq or 0) == (first.seq or 0) + 1


def _rank(passage: Passage, found: Sequence[str]) -> int:
    """Where the best hit of a passage stands; one that lost its hit to the visible messages stands last."""
    return min((found.index(str(m.id)) for m in passage if m.id in found), default=len(found))


def _rendered(passages: Sequence[Passage]) -> str:
    """The block, in the order of time."""
    in_time = sorted(passages, key=lambda passage: (_time(passage[0]), passage[0].seq or 0))
    lines = [line for passage in in_time for line in (*_lines(passage), "")]
    return block(NAME, lines[:-1], prompt("semantic_description"), "")


def _shown(passage: Passage) -> list[Shown]:
    return [Shown("message", str(message.id)) for message in passage]


def _lines(passage: Passage) -> Iterator[str]:
    for message in passage:
        if message.text.strip():
            said = mask(message.text)
            speaker = shown_name(message) or message.role
            yield message_line(speaker, said, time_label(_time(message)), MAX_QUOTE_CHARACTERS)


def _time(message: Message) -> datetime:
    assert message.created_at is not None  # noqa: S101
    return message.created_at

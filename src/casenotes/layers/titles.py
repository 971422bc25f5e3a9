"""Threads named by a model after their first turn that ended well; without one, listing derives a title."""

from __future__ import annotations

from collections.abc import Sequence

from casenotes.layers.base import BaseLayer, LayerScope, LearnRequest
from casenotes.learn.ask import Asker
from casenotes.learn.plain import ask_for_text
from casenotes.learn.prompts import prompt
from casenotes.learn.titles import model_title, title_prompt
from casenotes.stores.base import Store
from casenotes.tokens import TokenCounter
from casenotes.types import Outcome

MAX_ANSWER_CHARACTERS = 200


class TitleLayer(BaseLayer):
    """See Layer. It gives no block; it only learns."""

    name = "title"
    scope: LayerScope = "thread"
    learns_from: Sequence[Outcome] = ("success",)

    def __init__(self, store: Store, asker: Asker, count_tokens: TokenCounter) -> None:
        self._store = store
        self._asker = asker
        self._count_tokens = count_tokens

    async def learn(self, request: LearnRequest) -> None:
        """Name the thread, unless it has a name."""
        if await self._store.title(request.scope) is not None:
            return
        question = title_prompt(request.messages, self._count_tokens)
        answer = await ask_for_text(
            self._asker, request.scope, "title", prompt("title"), question, MAX_ANSWER_CHARACTERS
        )
        if title := model_title(answer):
            await self._store.name_thread(request.scope, request.turn_id, title)

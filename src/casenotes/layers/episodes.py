"""Episodes: what became of earlier runs of the agent for this user, in a few words each.

A run is all that was said in a thread since the last one was finished; finishing it twice writes nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import lru_cache

from casenotes.config import EpisodesSettings
from casenotes.events import Events
from casenotes.intake import new_id
from casenotes.layers.base import BaseLayer, CompleteRequest, Recalled, RecallRequest, TokenRange
from casenotes.layers.fit import Fitting
from casenotes.learn.ask import Asker
from casenotes.learn.normalise import collapse, cut, is_visible
from casenotes.learn.plain import ask_for_text
from casenotes.learn.prompts import prompt
from casenotes.learn.summarise import heuristic, presentable, run_prompt, truncated
from casenotes.masking import mask
from casenotes.recall.render import block, inert
from casenotes.recall.words import search_terms
from casenotes.stores.base import Store
from casenotes.tasks import is_asked_to_stop
from casenotes.tokens import TokenCounter
from casenotes.types import Episode, Message, Outcome, Scope

FIRST_MESSAGES = 10
LAST_MESSAGES = 200
MAX_PROMPT_TOKENS = 16_000
CHARACTERS_A_TOKEN = 4
SHARED = "summaries of all users of this agent are shown (share_across_users)"


class EpisodesLayer(BaseLayer):
    """See Layer."""

    name = "episodes"
    slot = 300
    learns_from: Sequence[Outcome] = ()

    def __init__(
        self,
        store: Store,
        settings: EpisodesSettings,
        count_tokens: TokenCounter,
        measure: TokenCounter,
        events: Events,
        asker: Asker | None,
        summary_seconds: float,
    ) -> None:
        self._store = store
        self._settings = settings
        self._count_tokens = count_tokens
        self._measure = measure
        self._summary_seconds = summary_seconds
        self._events = events
        self._asker = asker if settings.summariser in ("auto", "model") else None
        self.budget = TokenRange(
            min(settings.min_block_tokens, settings.max_block_tokens), settings.max_block_tokens
        )

    async def recall(self, request: RecallRequest) -> Recalled:
        """The newest summaries, or those nearest to the input, that fit; oldest first."""
        shared = self._settings.share_across_users
        newest = await self._store.episodes.newest(request.scope, self._settings.max_kept, of_all_users=shared)
        if self._settings.select == "relevant":
            newest = by_relevance(newest, request.query)
        notes = (SHARED,) if shared else ()
        if not newest:
            return Recalled(left_out=(*notes, "no run was finished yet"))
        return Fitting(newest, rendered, self._count_tokens, "runs", notes=notes).within(request.max_tokens)

    async def complete(self, request: CompleteRequest) -> None:
        """Write one summary of the run that has ended, if anything was said in it."""
        scope = request.scope
        if scope.thread_id is None or scope.resource_id is None:
            return
        messages = await self._told(scope, await self._run(scope))
        if not messages:
            return
        summary = presentable(await self._summary(scope, messages, request.outcome), request.outcome)
        episode = Episode(
            new_id(request.now), summary, request.now, request.outcome, self._tokens(summary), scope.thread_id
        )
        await self._store.episodes.add(scope, episode, messages[-1], self._settings.max_kept)

    async def _run(self, scope: Scope) -> list[Message]:
        """What was said since the last run was finished; of a long run the beginning and the end."""
        start = await self._store.episodes.run_start(scope)
        newest = await self._store.history(scope, limit=LAST_MESSAGES)
        own = [message for message in newest if (message.seq or 0) > start]
        if len(own) < LAST_MESSAGES:
            return own
        first = await self._store.history(scope, limit=FIRST_MESSAGES, after=start)
        return [*(message for message in first if message not in own), *own]

    async def _told(self, scope: Scope, messages: Sequence[Message]) -> list[Message]:
        """Without what the user had forgotten, and what was said to sub-agents that share no memory."""
        hidden = await self._store.entries.hidden(scope, [str(message.id) for message in messages])
        return [message for message in messages if message.id not in hidden]

    def _tokens(self, summary: str) -> int:
        """By the host's counter, or a quarter of the characters if it fails, as it was agreed."""
        try:
            return int(self._measure(summary))
        except Exception:
            return math.ceil(len(summary) / CHARACTERS_A_TOKEN)

    async def _summary(self, scope: Scope, messages: Sequence[Message], outcome: Outcome) -> str:
        """By the summariser that was chosen; should it fail, by the heuristic."""
        limit = self._settings.max_summary_characters
        try:
            async with asyncio.timeout(self._summary_seconds):
                text = await self._chosen(scope, messages, outcome, limit)
        except (Exception, asyncio.CancelledError) as error:
            if is_asked_to_stop():
                raise
            problem = f"{type(error).__name__}: {error}"
            self._events.emit("summary.failed", scope, source=self.name, error=problem)
            text = ""
        return text if is_visible(text) else heuristic(messages, outcome, limit)

    async def _chosen(self, scope: Scope, messages: Sequence[Message], outcome: Outcome, limit: int) -> str:
        summariser = self._settings.summariser
        if callable(summariser):
            return cut(mask(collapse(str(await summariser(messages, outcome)))), limit)
        if summariser == "truncate":
            return truncated(messages, outcome, limit)
        if self._asker is None:
            return ""
        question = run_prompt(messages, outcome, MAX_PROMPT_TOKENS, self._count_tokens)
        return await ask_for_text(self._asker, scope, "summarise", prompt("summarise"), question, limit)


def rendered(episodes: Sequence[Episode]) -> str:
    """The block, oldest first."""
    oldest_first = sorted(episodes, key=lambda episode: (episode.timestamp, episode.id))
    return block("episodes", [*map(_line, oldest_first)], prompt("episodes_description"), "")


@lru_cache(maxsize=1_024)
def _line(episode: Episode) -> str:
    return f"[{episode.timestamp.isoformat()}] {inert(episode.summary)}"


def by_relevance(newest: Sequence[Episode], query: str) -> list[Episode]:
    """Those that share most words with the input first; of equals the newer one."""
    asked = set(search_terms(query))
    return sorted(newest, key=lambda episode: -len(asked & set(search_terms(episode.summary))))

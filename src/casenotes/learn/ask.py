"""Ask a worker model within its daily budget, and count what was used by task and scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

from casenotes.clock import Clock
from casenotes.config import JobSettings
from casenotes.errors import BudgetExceeded
from casenotes.events import Events
from casenotes.models.chat import ChatModel, ChatReply, ChatRequest, Usage
from casenotes.stores.base import Store
from casenotes.stores.learning import DayUsage
from casenotes.tracing import span
from casenotes.types import Scope

UNLIMITED = 10**15


class Asker:
    """One model, asked on behalf of many scopes."""

    def __init__(
        self,
        model: ChatModel,
        store: Store,
        settings: JobSettings,
        max_output_tokens: int,
        clock: Clock,
        events: Events,
    ) -> None:
        self._model = model
        self._store = store
        self._settings = settings
        self._max_output_tokens = max_output_tokens
        self._clock = clock
        self._events = events

    def without_limit(self) -> Asker:
        """The same for work that an operator asked for and knows the price of; it is counted all the same."""
        settings = replace(self._settings, max_calls_a_day=UNLIMITED, max_tokens_a_day=UNLIMITED)
        return Asker(self._model, self._store, settings, self._max_output_tokens, self._clock, self._events)

    async def ask(
        self, scope: Scope, task: str, system: str, prompt: str, schema: Mapping[str, Any]
    ) -> ChatReply:
        """The model's answer as it came; BudgetExceeded before asking if the day's budget is used up."""
        await self._check_budget(scope)
        request = ChatRequest(task, system, prompt, schema, self._max_output_tokens)
        with span(f"chat {self._model.label}", "chat", scope, model=self._model.label, task=task) as about:
            try:
                reply = await self._model.ask(request)
            except Exception as error:
                await self._count(scope, task, Usage(getattr(error, "calls", 1)))  # a call that fails is a call
                raise
            about("gen_ai.usage.input_tokens", reply.usage.input_tokens)
            about("gen_ai.usage.output_tokens", reply.usage.output_tokens)
        await self._count(scope, task, reply.usage)
        return reply

    @property
    def _day(self) -> str:
        return self._clock.now().astimezone(UTC).date().isoformat()

    async def _check_budget(self, scope: Scope) -> None:
        used = await self._store.jobs.usage(scope, self._day)
        calls = sum(usage.calls for usage in used)
        tokens = sum(usage.input_tokens + usage.output_tokens for usage in used)
        for name, count in (("max_calls_a_day", calls), ("max_tokens_a_day", tokens)):
            if count >= getattr(self._settings, name):
                raise BudgetExceeded(
                    f"{count} on {self._day} for resource {scope.resource_id!r} reach the limit of "
                    f"{getattr(self._settings, name)} (setting {name}); learning goes on the next day"
                )

    async def _count(self, scope: Scope, task: str, usage: Usage) -> None:
        counted = DayUsage(task, max(1, usage.calls), usage.input_tokens, usage.output_tokens, usage.cost)
        await self._store.jobs.add_usage(scope, self._day, counted)
        self._events.emit(
            "model.usage",
            scope,
            task=task,
            model=self._model.label,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
        )

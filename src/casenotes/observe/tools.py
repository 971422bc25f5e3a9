"""What Observer and Reflector work with, and how they ask: within the day's budget of a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from casenotes.clock import Clock
from casenotes.config import ObservationalSettings, zone_named
from casenotes.errors import BudgetExceeded, ModelError
from casenotes.events import Events
from casenotes.learn.ask import Asker
from casenotes.models.chat import ChatReply
from casenotes.observe.breaker import Breaker
from casenotes.observe.limits import Limits
from casenotes.recall.recent import MessageTokens
from casenotes.stores.base import Store
from casenotes.stores.observations import Observing
from casenotes.tokens import TokenCounter
from casenotes.types import Scope


@dataclass(frozen=True, slots=True)
class ObservingTools:
    """One Observer and one Reflector for many threads."""

    store: Store
    observer: Asker
    reflector: Asker
    settings: ObservationalSettings
    limits: Limits
    clock: Clock
    events: Events
    count_tokens: TokenCounter
    size: MessageTokens
    breaker: Breaker

    @property
    def day(self) -> str:
        """Today in UTC."""
        return self.clock.now().astimezone(UTC).date().isoformat()


def zone_for(settings: ObservationalSettings, scope: Scope) -> tzinfo:
    """The user's time zone; where the host's function fails or names none, UTC."""
    if not callable(settings.timezone):
        return zone_named(settings.timezone)
    try:
        return zone_named(settings.timezone(scope))
    except Exception:
        return UTC


async def ask(
    tools: ObservingTools,
    asker: Asker,
    scope: Scope,
    task: str,
    question: tuple[str, str],
    schema: Mapping[str, Any],
) -> ChatReply:
    """The answer to a system text and a prompt; what is used counts for the thread."""
    _check_budget(tools, await tools.store.observations.state(scope))
    system, prompt = question
    try:
        reply = await asker.ask(scope, task, system, prompt, schema)
    except ModelError as error:
        await tools.store.observations.add_usage(scope, tools.day, error.calls, 0)
        if not error.is_final and tools.breaker.failed():  # what is refused says nothing of others
            pause = tools.settings.breaker_seconds
            tools.events.emit("observing.paused", scope, source="observer", seconds=pause, error=str(error))
        raise
    tools.breaker.succeeded()
    used = reply.usage
    tokens = used.input_tokens + used.output_tokens
    await tools.store.observations.add_usage(scope, tools.day, max(1, used.calls), tokens)
    return reply


def _check_budget(tools: ObservingTools, state: Observing) -> None:
    if state.usage_day != tools.day:
        return
    settings = tools.settings
    for name, used in (("max_calls_a_day", state.usage_calls), ("max_tokens_a_day", state.usage_tokens)):
        limit = getattr(settings, name)
        if used >= limit:
            raise BudgetExceeded(
                f"{used} on {tools.day} for thread {state.scope.thread_id!r} reach the limit of {limit} "
                f"(setting observational.{name}); observing goes on the next day"
            )

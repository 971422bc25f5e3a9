"""Session memory as the memory sees it: long threads are observed in the background and shown in short.

A turn reads how far its thread has come, lets observations that are ready take over at the threshold, and
wakes the Observer when enough was said. It waits only for an Observer that is late, and only a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from casenotes.clock import Clock
from casenotes.config import ObservationalSettings, Settings
from casenotes.errors import BudgetExceeded, CasenotesError, InvalidScope, LeaseLost, ModelError
from casenotes.events import Events
from casenotes.jobs import Failed, Jobs, longest_wait
from casenotes.observe.activate import activation
from casenotes.observe.batch import next_batch
from casenotes.observe.limits import Limits
from casenotes.observe.observer import observe
from casenotes.observe.reflector import is_due, put_off, reflect
from casenotes.observe.tools import ObservingTools
from casenotes.stores.base import Store, Watch
from casenotes.stores.learning import LONGEST_WAIT, Lease, has_come
from casenotes.stores.observations import Observing, Size
from casenotes.types import Message, Scope

MAX_MESSAGES = 5_000
MAX_TRIES = 3
GRACE_SECONDS = 0.05
"""How long an activation waits for observations that are on their way."""

LATE_SHARE = 10
"""The time of a flush is put off when it is late by a tenth: not every step of a turn writes it."""


def longest_idle(settings: ObservationalSettings) -> timedelta:
    """No flush waits longer, by the memory's clock; what seems to was noted while that was wrong."""
    return timedelta(seconds=settings.idle_flush_seconds) + LONGEST_WAIT


class ObservingWork:
    """Observing threads and condensing their logs. See Work."""

    task = "observe"
    source = "observer"

    def __init__(self, tools: ObservingTools, longest: timedelta) -> None:
        self._tools = tools
        self._store = tools.store.observations
        self._longest = longest
        self._idle = longest_idle(tools.settings)

    async def due_threads(self, now: datetime, limit: int) -> list[Scope]:
        """See Work.due_threads. A model that is left alone has nothing to do."""
        if self._tools.breaker.seconds_left:
            return []
        return await self._store.due_threads(now, self._tools.clock.now(), limit, self._longest, self._idle)

    async def due(self, scope: Scope, now: datetime) -> list[Observing]:
        """See Work.due."""
        if self._tools.breaker.seconds_left:
            return []
        states = await self._store.states(scope)
        ready = [
            state for state in states if state.due_at is None or has_come(state.due_at, now, self._longest)
        ]
        return [state for state in ready if await self._has_work(state)]

    async def _has_work(self, state: Observing) -> bool:
        if self._is_flushed(state) or is_due(state, self._tools.limits):
            return True
        if state.observe_at is None:  # nobody has had a turn in it
            return False
        due = state.observed_tokens + self._tools.limits.next_step(state.observed_tokens - state.active_tokens)
        if state.total_tokens < due:
            if state.total_tokens >= state.observe_at:  # noted with other limits, or before an activation
                await self._store.postpone(state.scope, state.total_tokens, due)
            return False
        found, batch = await self._next(state.scope)
        if not batch:  # what was said last is too new, or waits for a tool
            await self._store.postpone(state.scope, found.total_tokens, found.total_tokens + 1)
        return bool(batch)

    def _is_flushed(self, state: Observing) -> bool:
        at = state.flush_at
        return at is not None and has_come(at, self._tools.clock.now(), self._idle)

    async def _next(self, scope: Scope) -> tuple[Observing, list[Message]]:
        state, messages = await self._store.unobserved(scope, MAX_MESSAGES)
        await self._tools.size.count_ahead(messages)
        sizes = [self._tools.size(message) for message in messages]
        ready = state.observed_tokens - state.active_tokens
        flush = self._is_flushed(state) and not state.is_open
        return state, next_batch(messages, sizes, ready, self._tools.limits, flush=flush)

    async def perform(self, lease: Lease, item: Observing) -> None:
        """Batch after batch; then condense the log, if that is due."""
        while True:
            state, batch = await self._next(lease.scope)
            if not batch:
                break
            if not await observe(self._tools, lease, state, batch):
                return  # somebody else has come further
        if self._is_flushed(state) and state.flush_at is not None:
            if not state.is_open:  # whoever is in the middle of a turn keeps what it sees
                tools = self._tools
                await activate(tools.store, tools.events, lease.scope, tools.limits, flush=True)
            await self._store.flushed(lease.scope, state.flush_at)
        await self._reflect(lease)

    async def _reflect(self, lease: Lease) -> None:
        state = await self._store.state(lease.scope)
        if not is_due(state, self._tools.limits):
            return
        try:
            await reflect(self._tools, lease, state)
        except LeaseLost:
            raise
        except (ModelError, BudgetExceeded) as error:
            told = {"source": "reflector", "error": str(error), "given_up": False}
            self._tools.events.emit("learning.failed", lease.scope, **told)
            await put_off(self._tools, lease, state)

    async def failed(self, lease: Lease, item: Observing, note: Failed) -> None:
        """See Work.failed. What was given up is tried again when the thread goes on, after a pause."""
        await self._store.failed(lease, note.error, note.due, counts=note.counts, dead=note.dead)

    def told(self, item: Observing) -> dict[str, Any]:
        """See Work.told."""
        return {"unobserved_tokens": item.unobserved_tokens}


async def activate(
    store: Store,
    events: Events,
    scope: Scope,
    limits: Limits,
    *,
    flush: bool = False,
    asked: Sequence[Size] = (),
) -> bool:
    """Let observations that are ready take the place of messages, where it is time; says whether they did."""
    for _ in range(MAX_TRIES):  # another process may do so in the same moment
        ready = await store.observations.ready(scope, limits.newest)
        wanted = activation(ready, limits, flush=flush, asked=asked)
        if wanted is None:
            return False
        if await store.observations.activate(scope, wanted):
            events.emit(
                "observing.activated",
                scope,
                messages_until=wanted.to_seq,
                raw_tokens_before=ready.state.raw_tokens,
                raw_tokens=ready.state.total_tokens - wanted.to_tokens,
                reflected=ready.state.reflecting,
            )
            return True
    return False


class SessionMemory:
    """Observing in one process. It is on where there is a model to observe with, here or in a worker."""

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, events: Events, tools: ObservingTools | None
    ) -> None:
        self._store = store
        self._settings = settings.observational
        self._clock = clock
        self._events = events
        self.limits = Limits.of(settings)
        self._in_process = settings.jobs.in_process
        self.is_on = self._settings.enabled and (tools is not None or not self._in_process)
        self._tools = tools if self._settings.enabled else None
        self._waited_for: dict[Scope, int] = {}
        self._jobs: Jobs[Observing] | None = None
        if self._tools is not None:
            leases = replace(settings.jobs, lease_seconds=self._settings.lock_ttl_ms / 1_000)
            self._jobs = Jobs(store, ObservingWork(self._tools, longest_wait(settings.jobs)), leases, events)
            if self._in_process:
                self._jobs.start()

    @property
    def can_work(self) -> bool:
        """Whether this process has a model to observe with."""
        return self._jobs is not None

    def watch(self) -> Watch | None:
        """What an append says of the thread that it goes to."""
        if not self.is_on:
            return None
        idle = self._settings.idle_flush_seconds
        if not idle:
            return Watch(self.limits.step)
        at = self._clock.now() + timedelta(seconds=idle)
        return Watch(self.limits.step, at, at - timedelta(seconds=idle / LATE_SHARE))

    async def window(self, scope: Scope, provider: str | None) -> list[Message]:
        """The messages of a thread that a turn begins with, as they were said."""
        state, messages = await self._store.observations.window(scope, MAX_MESSAGES)
        seen = state.version
        if provider and provider != state.provider:
            await self._change_provider(scope, state, provider)
            state = await self._store.observations.state(scope)
        state = await self._in_time(scope, state)
        if state.version != seen:
            state, messages = await self._store.observations.window(scope, MAX_MESSAGES)
        return still_shown(messages, state)

    async def _change_provider(self, scope: Scope, state: Observing, provider: str) -> None:
        """Another provider has no prompt of this thread in its cache: all that is ready may take over."""
        await self._store.observations.note_provider(scope, provider)
        ready = state.observed_tokens - state.active_tokens
        if state.provider and ready >= self.limits.step:  # a little is not worth it: providers may take turns
            await activate(self._store, self._events, scope, self.limits, flush=True)

    async def after_step(self, scope: Scope, asked: Sequence[Size]) -> Observing:
        """How far the thread has come, when room was made where it was due; `asked` began the turn."""
        return await self._in_time(scope, await self._store.observations.state(scope), asked)

    async def _in_time(self, scope: Scope, state: Observing, asked: Sequence[Size] = ()) -> Observing:
        """Make room at the threshold, and let the Observer go on with the rest."""
        with suppress(CasenotesError):  # what cannot be shortened now is shown as it was said
            state = await self._make_room(scope, state, asked)
        if state.observe_at is not None and state.total_tokens >= state.observe_at:
            self.wake(scope)
        return state

    async def _make_room(self, scope: Scope, state: Observing, asked: Sequence[Size]) -> Observing:
        """Activate until the messages are below the threshold; an Observer that is late gets a moment."""
        if state.raw_tokens < self.limits.threshold:
            return state
        await self._wait(scope, state, min(GRACE_SECONDS, self._settings.patience_seconds))
        while state.raw_tokens >= self.limits.threshold:
            if not await activate(self._store, self._events, scope, self.limits, asked=asked):
                await self._wait(scope, state, self._settings.patience_seconds)
                if (await self._store.observations.state(scope)).observed_seq == state.observed_seq:
                    break
            state = await self._store.observations.state(scope)
        return state

    async def _wait(self, scope: Scope, state: Observing, seconds: float) -> None:
        """For observations that are on their way, unless they fail or were waited for in vain before.

        What is as good as observed may go as well: the more goes at once, the later prompts change again.
        """
        in_vain = self._waited_for.get(scope) == state.observed_seq
        if self._jobs is None or not self._in_process or state.attempts or in_vain:
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self._jobs.settle(scope, seconds)
        if seconds > GRACE_SECONDS and loop.time() - started >= seconds:
            if len(self._waited_for) >= MAX_MESSAGES:
                self._waited_for.clear()
            self._waited_for[scope] = state.observed_seq

    def wake(self, scope: Scope) -> None:
        """There may be something to observe."""
        if self._jobs is not None and self._in_process:
            self._jobs.wake(scope)

    async def flush(self, scope: Scope, timeout: float) -> bool:
        """Observe what is left of a thread now, and wait for it where it is done in this process.

        Says whether all of it is observed; of a turn that is under way the newest step is not.
        """
        if scope.thread_id is None:
            raise InvalidScope(f"{scope!r} has no thread_id; this call works on one thread")
        if not self.is_on:
            return False
        await self._store.observations.request_flush(scope, self._clock.now())
        self.wake(scope)
        if self._in_process:
            await self.settle(scope, timeout)
        state = await self._store.observations.state(scope)
        return state.flush_at is None and not state.attempts

    async def settle(self, scope: Scope | None, timeout: float) -> None:
        """Wait until all that is due was observed or has failed once."""
        if self._jobs is not None:
            await self._jobs.settle(scope, timeout)

    async def is_settled(self, scope: Scope | None) -> bool:
        """Whether nothing is due in a scope, or at work here."""
        if self._jobs is None or self._tools is None:
            return True
        return not self._tools.breaker.seconds_left and not await self._jobs.first_tries(scope)

    async def run(self, *, once: bool) -> None:
        """Observe threads of the whole store."""
        if self._jobs is not None:
            await self._jobs.run(once=once)

    async def close(self, timeout: float) -> None:
        """Finish what is under way."""
        if self._jobs is not None:
            await self._jobs.close(timeout)


def still_shown(messages: Sequence[Message], state: Observing) -> list[Message]:
    """The messages that no observation stands for yet, and those that are shown besides."""
    return [message for message in messages if state.shows(message.seq or 0)]

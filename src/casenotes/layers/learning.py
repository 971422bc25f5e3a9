"""Learning as the memory sees it: queue a finished turn, wait for it, and say what became of it.

Every layer that learns from a turn is noted with it. Each does its part by itself: one that fails is tried
again later and keeps no other from being done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from casenotes.config import JobSettings
from casenotes.errors import LeaseLost, SettingsError
from casenotes.events import Events
from casenotes.jobs import Failed, Failure, Jobs, LearningFailed, as_failure, longest_wait
from casenotes.layers.base import Layer, LearnRequest
from casenotes.layers.stored_state import States
from casenotes.stores.base import Store
from casenotes.stores.learned_rows import EPISODIC
from casenotes.stores.learning import Lease, TurnState, has_come
from casenotes.tasks import is_asked_to_stop
from casenotes.types import OUTCOMES, LearnStatus, Outcome, Receipt, Scope

MAX_REMEMBERED_TURNS = 10_000
SOURCE = "episodic-memory"


class TurnWork:
    """Learning from finished turns. See Work."""

    task = "extract"
    source = SOURCE

    def __init__(
        self, store: Store, layers: Mapping[str, Layer], states: States, settings: JobSettings
    ) -> None:
        self._store = store
        self._layers = layers
        self._states = states
        self._hook_seconds = settings.hook_seconds
        self._longest = longest_wait(settings)

    async def due_threads(self, now: datetime, limit: int) -> list[Scope]:
        """See Work.due_threads."""
        return await self._store.jobs.due_threads(now, limit, tuple(self._layers), self._longest)

    async def due(self, scope: Scope, now: datetime) -> list[TurnState]:
        """See Work.due."""
        queued = await self._store.jobs.queued(scope)
        ready = [turn for turn in queued if has_come(turn.due_at, now, self._longest)]
        return [turn for turn in ready if set(turn.pending) & self._layers.keys()]

    async def failed(self, lease: Lease, item: TurnState, note: Failed) -> None:
        """See Work.failed."""
        await self._store.jobs.failed(
            lease, item.turn_id, note.error, note.due, counts=note.counts, dead=note.dead
        )

    def told(self, item: TurnState) -> dict[str, Any]:
        """See Work.told."""
        return {"turn_id": item.turn_id}

    async def perform(self, lease: Lease, item: TurnState) -> None:
        """Every layer that waits for the turn does its part; those that fail do not hold up others."""
        failures = []
        for layer in (self._layers[name] for name in item.pending if name in self._layers):
            try:
                await self._learn_one(layer, lease, item)
            except LeaseLost:
                raise
            except (Exception, asyncio.CancelledError) as error:
                if is_asked_to_stop():
                    raise asyncio.CancelledError from error
                source = SOURCE if layer.name == EPISODIC else layer.name
                failures.append(Failure(source, as_failure(error)))
        if failures:
            raise LearningFailed(failures)

    async def _learn_one(self, layer: Layer, lease: Lease, turn: TurnState) -> None:
        """Entries are saved together with the note that they are; other layers are noted here."""
        if layer.name == EPISODIC:
            await layer.learn(LearnRequest(turn.scope, turn.turn_id, lease))
            return
        messages = (await self._store.jobs.log(turn.scope, turn.turn_id, 0)).messages
        state = self._states.of(layer.name, layer.scope, turn.scope, turn_id=turn.turn_id)
        request = LearnRequest(turn.scope, turn.turn_id, lease, messages, state, _outcome(turn))
        if messages:  # what was said may have been forgotten meanwhile
            async with asyncio.timeout(self._hook_seconds):
                await layer.learn(request)
        await self._store.jobs.learned(lease, turn.turn_id, layer.name)


class Learning:
    """Background learning of one process. `elsewhere` are layers whose work is left to other processes."""

    def __init__(
        self,
        store: Store,
        layers: Sequence[Layer],
        states: States,
        settings: JobSettings,
        events: Events,
        elsewhere: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._in_process = settings.in_process
        self._layers = {layer.name: layer for layer in layers if layer.learns_from}
        self._elsewhere = () if settings.in_process else tuple(elsewhere)
        self._jobs = Jobs(store, TurnWork(store, self._layers, states, settings), settings, events)
        self._completed: dict[tuple[Scope, str], None] = {}
        self._noticed: set[Scope] = set()
        if self._layers and self._in_process:
            self._jobs.start()

    def learners(self, scope: Scope, outcome: Outcome) -> tuple[str, ...]:
        """The layers that are to learn from a turn with that outcome."""
        names = [
            layer.name
            for layer in self._layers.values()
            if outcome in layer.learns_from and (layer.scope == "thread" or scope.resource_id is not None)
        ]
        if outcome == "success" and scope.resource_id is not None:
            names += [name for name in self._elsewhere if name not in names]
        return tuple(names)

    @property
    def can_learn_entries(self) -> bool:
        """Whether there is a model to learn entries with, in this process or in a worker."""
        return EPISODIC in self._layers or EPISODIC in self._elsewhere

    def notice(self, scope: Scope) -> None:
        """A thread is used by this process for the first time: a turn may be left from before."""
        if self._layers and self._in_process and scope not in self._noticed:
            if len(self._noticed) >= MAX_REMEMBERED_TURNS:
                self._noticed.clear()
            self._noticed.add(scope)
            self._jobs.wake(scope)

    def queue(self, scope: Scope, turn_id: str, learners: Sequence[str]) -> None:
        """A turn was saved that these layers are to learn from; receipts tell of entries."""
        if EPISODIC in learners:
            self._completed[scope, turn_id] = None
        while len(self._completed) > MAX_REMEMBERED_TURNS:
            del self._completed[next(iter(self._completed))]
        if self._in_process:
            self._jobs.wake(scope)

    async def settle(self, scope: Scope | None, timeout: float) -> None:
        """Wait until every queued turn was learned from or has failed once."""
        if self._layers:
            await self._jobs.settle(scope, timeout)

    @property
    def can_work(self) -> bool:
        """Whether any layer learns in this process."""
        return bool(self._layers)

    async def is_settled(self, scope: Scope | None) -> bool:
        """Whether nothing is due in a scope, or at work here."""
        return not self._layers or not await self._jobs.first_tries(scope)

    async def new_receipts(self, scope: Scope | None) -> list[Receipt]:
        """Receipts of the turns completed here since the last call."""
        mine = [key for key in self._completed if scope is None or _covers(scope, key[0])]
        receipts = [await self.receipt(*key) for key in mine]
        for key in mine:
            self._completed.pop(key, None)
        return receipts

    async def receipt(self, scope: Scope, turn_id: str) -> Receipt:
        """What has become of a turn so far."""
        turn = await self._store.jobs.turn(scope, turn_id)
        if turn is None:
            return Receipt(turn_id, "aborted", reason="the turn is not in the store")
        outcome = _outcome(turn)
        ids = tuple(str(m.id) for m in (await self._store.jobs.log(scope, turn_id, 0)).messages)
        if turn.learning == "done" or (turn.pending and EPISODIC not in turn.pending):
            candidates = await self._store.entries.receipts(scope, turn_id)
            return Receipt(turn_id, outcome, ids, "learned", candidates=tuple(candidates))
        status: LearnStatus = "queued" if turn.learning == "queued" and not turn.attempts else "failed"
        reason = turn.error or ""
        if turn.learning == "dead":
            reason = f"given up after {turn.attempts} attempts: {reason}"
        return Receipt(turn_id, outcome, ids, status, reason)

    async def run(self, *, once: bool) -> None:
        """Learn from queued turns of the whole store."""
        if not self._layers:
            raise SettingsError("no model is configured to learn with; set CASENOTES_MODEL or pass model=")
        await self._jobs.run(once=once)

    async def close(self, timeout: float) -> None:
        """Finish what is under way."""
        await self._jobs.close(timeout)


def _outcome(turn: TurnState) -> Outcome:
    return next((known for known in OUTCOMES if known == turn.status), "aborted")


def _covers(scope: Scope, thread: Scope) -> bool:
    return scope == thread if scope.thread_id else scope == thread.owner

"""Learning as the memory sees it: queue a finished turn, wait for it, and say what became of it."""

from __future__ import annotations

from casenotes.config import JobSettings
from casenotes.errors import SettingsError
from casenotes.events import Events
from casenotes.jobs import Jobs
from casenotes.layers.base import LearnRequest
from casenotes.layers.episodic import EpisodicLayer
from casenotes.stores.base import Store
from casenotes.stores.learning import Lease, TurnState
from casenotes.types import LearnStatus, Outcome, Receipt, Scope

MAX_REMEMBERED_TURNS = 10_000


class Learning:
    """Background learning of one process."""

    def __init__(self, store: Store, layer: EpisodicLayer, settings: JobSettings, events: Events) -> None:
        self._store = store
        self._layer = layer
        self._in_process = settings.in_process
        self._jobs = Jobs(store, self._learn, settings, events)
        self._completed: dict[tuple[Scope, str], None] = {}
        self._noticed: set[Scope] = set()
        if self.is_possible and self._in_process:
            self._jobs.start()

    @property
    def is_possible(self) -> bool:
        """Whether there is a model to learn with."""
        return self._layer.learns

    @property
    def is_wanted(self) -> bool:
        """Whether finished turns are queued: for a model of this process, or for a worker elsewhere."""
        return self.is_possible or not self._in_process

    async def _learn(self, lease: Lease, turn: TurnState) -> None:
        await self._layer.learn(LearnRequest(turn.scope, turn.turn_id, lease))

    def notice(self, scope: Scope) -> None:
        """A thread is used by this process for the first time: a turn may be left from before."""
        if self.is_possible and self._in_process and scope not in self._noticed:
            if len(self._noticed) >= MAX_REMEMBERED_TURNS:
                self._noticed.clear()
            self._noticed.add(scope)
            self._jobs.wake(scope)

    def queue(self, scope: Scope, turn_id: str) -> None:
        """A turn was saved that is to be learned from."""
        self._completed[scope, turn_id] = None
        while len(self._completed) > MAX_REMEMBERED_TURNS:
            del self._completed[next(iter(self._completed))]
        if self._in_process:
            self._jobs.wake(scope)

    async def settle(self, scope: Scope | None, timeout: float) -> None:
        """Wait until every queued turn was learned from or has failed once."""
        if self.is_possible:
            await self._jobs.settle(scope, timeout)

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
        outcome: Outcome = "success" if turn.status == "success" else "aborted"
        ids = tuple(str(m.id) for m in (await self._store.jobs.log(scope, turn_id, 0)).messages)
        if turn.learning == "done":
            candidates = await self._store.entries.receipts(scope, turn_id)
            return Receipt(turn_id, outcome, ids, "learned", candidates=tuple(candidates))
        status: LearnStatus = "queued" if turn.learning == "queued" and not turn.attempts else "failed"
        reason = turn.error or ""
        if turn.learning == "dead":
            reason = f"given up after {turn.attempts} attempts: {reason}"
        return Receipt(turn_id, outcome, ids, status, reason)

    async def run(self, *, once: bool) -> None:
        """Learn from queued turns of the whole store."""
        if not self.is_possible:
            raise SettingsError("no model is configured to learn with; set CASENOTES_MODEL or pass model=")
        await self._jobs.run(once=once)

    async def close(self, timeout: float) -> None:
        """Finish what is under way."""
        await self._jobs.close(timeout)


def _covers(scope: Scope, thread: Scope) -> bool:
    return scope == thread if scope.thread_id else scope == thread.owner

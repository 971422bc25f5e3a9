"""The part of the store contract that concerns session memory: observations, and how far observing has come.

Two pointers move along a thread, by sequence numbers and never by time. `observed_seq` moves together with
the rows that were made of the messages, under a lease; a run that found nothing to say leaves a batch
without rows. `active_seq` moves when rows that are ready take the place of their messages in prompts; rows
of a reflection, which wait as well, take their places with it. So prompts change at activations only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from casenotes.stores.learning import LONGEST_WAIT, Lease
from casenotes.types import Message, Observation, ObservationStatus, Scope, SessionState, Span

BatchOutcome = Literal["observed", "empty", "refused"]


@dataclass(frozen=True, slots=True)
class Observing:
    """How far observing a thread has come, and the counters that tell what is due.

    `total_tokens` is all that was said; tokens of other names are its share up to the pointer of that name.
    `is_open` while a turn is under way; `change` is the scope's change number.
    """

    scope: Scope
    last_seq: int = 0
    total_tokens: int = 0
    observe_at: int | None = None
    flush_at: datetime | None = None
    change: int = 0
    is_open: bool = False
    observed_seq: int = 0
    observed_tokens: int = 0
    active_seq: int = 0
    active_tokens: int = 0
    window_seq: int = 0
    asked_first: int = 0
    asked_last: int = 0
    log_tokens: int = 0
    ready_tokens: int = 0
    version: int = 0
    reflecting: bool = False
    reflect_at: int = 0
    reflected: str = ""
    session: SessionState = field(default_factory=SessionState)
    session_seq: int = 0
    session_change: int = 0
    provider: str = ""
    attempts: int = 0
    due_at: datetime | None = None
    error: str | None = None
    dead: bool = False
    usage_day: str = ""
    usage_calls: int = 0
    usage_tokens: int = 0

    def shows(self, seq: int) -> bool:
        """Whether a message is shown as it was said."""
        return seq > self.window_seq or self.asked_first <= seq <= self.asked_last

    @property
    def raw_tokens(self) -> int:
        """What is said and stands in prompts as it was said."""
        return self.total_tokens - self.active_tokens

    @property
    def unobserved_tokens(self) -> int:
        """What nobody has observed yet."""
        return self.total_tokens - self.observed_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that were observed together; `rows` is 0 where there was nothing to say."""

    first_seq: int
    last_seq: int
    tokens: int
    rows: int
    outcome: BatchOutcome
    at: datetime


@dataclass(frozen=True, slots=True)
class Observed:
    """What was made of the messages after the cursor `seen` up to `last_seq`.

    The next observation is due when so many tokens as `step` have come after it. The messages were read at
    that `change` of the scope.
    """

    seen: int
    last_seq: int
    rows: Sequence[Observation]
    outcome: BatchOutcome
    session: SessionState
    step: int
    at: datetime
    change: int = 0


@dataclass(frozen=True, slots=True)
class Reflected:
    """A condensed log: `rows` stand for those that they supersede, `dropped` ones for nothing.

    Without both, only the note is made that `input` was reflected on, and when to reflect again.
    """

    input: str
    reflect_at: int
    rows: Sequence[Observation] = ()
    dropped: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """Ready observations up to a message take its place; messages after `window_seq` are still shown.

    So is what the turn under way was `asked`: without it the model would not know what it is at.
    """

    seen: int
    to_seq: int
    to_tokens: int
    window_seq: int
    asked: Span = (0, 0)


Size = tuple[int, int]
"""The sequence number of a message, and its tokens."""


class Ready(NamedTuple):
    """What can be activated: batches after the active pointer, and the sizes of the newest messages."""

    state: Observing
    batches: Sequence[Batch]
    newest: Sequence[Size]
    """Newest first."""


class Forgotten(NamedTuple):
    """A message that was forgotten, and at which change of its scope: rows that were made of it before are
    not shown any more. Clocks of several machines could not tell what came first."""

    seq: int
    change: int


def is_touched(row: Observation, forgotten: Iterable[Forgotten]) -> bool:
    """Whether a row was made of a message that was forgotten since."""
    return any(
        first <= message.seq <= last and row.seen_change < message.change
        for message in forgotten
        for first, last in row.covers
    )


def session_without(state: Observing, forgotten: Iterable[Forgotten]) -> SessionState:
    """Where a conversation stands; nothing of it if something was forgotten since that it may tell."""
    is_old = any(one.seq <= state.session_seq and state.session_change < one.change for one in forgotten)
    return SessionState() if is_old else state.session


class ObservationStore(Protocol):
    """Observations of threads."""

    async def state(self, scope: Scope) -> Observing:
        """How far a thread has come: one cheap read. All zero for one that does not exist."""
        ...

    async def states(self, scope: Scope) -> list[Observing]:
        """Of all threads of a resource, or of the one given, that are observed and not at their end."""
        ...

    async def window(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """The state with the messages that are shown as they were said, oldest first; the newest so many."""
        ...

    async def unobserved(self, scope: Scope, limit: int) -> tuple[Observing, list[Message]]:
        """The state with the first messages after the cursor, without what was forgotten."""
        ...

    async def ready(self, scope: Scope, newest: int) -> Ready:
        """What can be activated, with the sizes of so many messages."""
        ...

    async def log(self, scope: Scope, statuses: Sequence[ObservationStatus]) -> list[Observation]:
        """Rows of a thread by status, in the order of the log."""
        ...

    async def dated(self, scope: Scope) -> list[Observation]:
        """Active rows that speak of a day, in the order of the log."""
        ...

    async def tail(self, scope: Scope, limit: int) -> list[Observation]:
        """The newest rows that are shown or will be, in the order of the log."""
        ...

    async def batches(self, scope: Scope) -> list[Batch]:
        """Every run of the Observer in a thread, oldest first."""
        ...

    async def forgotten(self, scope: Scope) -> list[Forgotten]:
        """Messages of a thread that the user had forgotten."""
        ...

    async def save(self, lease: Lease, observed: Observed) -> bool:
        """Store rows, batch and session, and move the cursor, all or nothing; forgets failures before.

        False if the cursor is not where it was seen any more. LeaseLost if somebody else has taken over.
        """
        ...

    async def reflect(self, lease: Lease, reflected: Reflected) -> bool:
        """Store rows for the next activation; False if a row that they stand for is not active any more.

        LeaseLost as in save.
        """
        ...

    async def activate(self, scope: Scope, activation: Activation) -> bool:
        """Let ready rows take their places; False if the log is not as it was seen."""
        ...

    async def request_flush(self, scope: Scope, at: datetime) -> None:
        """The rest of a thread is to be observed from that time on."""
        ...

    async def postpone(self, scope: Scope, tokens: int, until: int) -> None:
        """Nothing can be observed before so many tokens were said; `tokens` had been when that was decided."""
        ...

    async def flushed(self, scope: Scope, until: datetime) -> None:
        """What was asked for up to that time was done."""
        ...

    async def note_provider(self, scope: Scope, provider: str) -> None:
        """Who is asked in a thread from now on."""
        ...

    async def due_threads(
        self,
        now: datetime,
        at: datetime,
        limit: int,
        longest: timedelta = LONGEST_WAIT,
        idle: timedelta = LONGEST_WAIT,
    ) -> list[Scope]:
        """Threads of the whole store with something to observe and nobody at it.

        Failures wait for `now` on the machine's clock, flushes for `at` on the memory's. What would wait for
        more than `longest` or `idle` is due.
        """
        ...

    async def failed(self, lease: Lease, error: str, due: datetime, *, counts: bool, dead: bool) -> None:
        """Note a failure; `counts` as an attempt or only waits. LeaseLost as in save."""
        ...

    async def add_usage(self, scope: Scope, day: str, calls: int, tokens: int) -> None:
        """Count what was used for a thread on a day."""
        ...

    async def dead(self, limit: int) -> list[Observing]:
        """Threads of the whole store whose observing was given up; for operators."""
        ...

    async def revive(self) -> int:
        """Try all of them once more; says how many."""
        ...

    async def reset(self, scope: Scope) -> bool:
        """Forget all observations of a thread, so that it is observed anew; False if there are none."""
        ...

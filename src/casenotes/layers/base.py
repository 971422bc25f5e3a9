"""What a layer is: it recalls a block before the model call and learns from the finished turn.

Anyone can write one. A layer that fails or is late gives no block; it never fails the turn.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from casenotes.stores.base import Shown
from casenotes.stores.learning import Lease
from casenotes.types import Outcome, Scope


@dataclass(frozen=True, slots=True)
class TokenRange:
    """How many tokens a layer wants at least, and gets at most."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What a layer is asked before the model call; `visible` are messages that the model sees anyway."""

    scope: Scope
    turn_id: str
    query: str
    now: datetime
    visible: Set[str]
    max_tokens: int = 0  # the layer's own budget, filled in for each


@dataclass(frozen=True, slots=True)
class Recalled:
    """A layer's answer: rendered text, the items shown in it, and what was left out and why.

    `tokens` may say how long the text is by the request's counter; otherwise it is counted.
    """

    text: str = ""
    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """A finished turn to learn from, and the lease under which it is written."""

    scope: Scope
    turn_id: str
    lease: Lease


class Layer(Protocol):
    """One kind of memory. Blocks are ordered by slot; equal slots keep the order of registration."""

    @property
    def name(self) -> str:
        """Names its block and its events."""
        ...

    @property
    def slot(self) -> int:
        """Where its block stands."""
        ...

    @property
    def scope(self) -> Literal["thread", "resource"]:
        """What it remembers for: without a resource id, layers of a resource are not asked."""
        ...

    @property
    def budget(self) -> TokenRange:
        """How much of the context it may take."""
        ...

    @property
    def stable(self) -> bool:
        """Whether its block changes so seldom that it belongs into the cached prefix."""
        ...

    async def init(self) -> None:
        """Called once before first use."""
        ...

    async def recall(self, request: RecallRequest) -> Recalled:
        """What to put in front of the model call."""
        ...

    async def learn(self, request: LearnRequest) -> None:
        """Learn from a finished turn."""
        ...

    async def complete(self, scope: Scope, outcome: Outcome) -> None:
        """A run has ended."""
        ...

"""What a layer is: it recalls a block before the model call and learns from the finished turn.

Anyone can write one: subclass `BaseLayer`, override the hooks that matter, and pass it to `Memory.open`.
A layer that fails or is late gives no block; it never fails the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from casenotes.layers.state import LayerState
from casenotes.stores.base import Shown
from casenotes.stores.learning import Lease
from casenotes.types import OUTCOMES, Block, Message, Outcome, Scope, Tool

LayerScope = Literal["thread", "resource"]


@dataclass(frozen=True, slots=True)
class TokenRange:
    """How many tokens a layer wants at least, and gets at most."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What a layer is asked before the model call; `visible` are messages that the model sees anyway.

    `max_tokens` and `state` are the layer's own, and so is the block that it gave `previous`ly in this turn.
    `input_seq` is the sequence number of what the user said last.
    """

    scope: Scope
    turn_id: str
    query: str
    now: datetime
    visible: Set[str]
    max_tokens: int = 0
    state: LayerState | None = None
    previous: Block | None = None
    input_seq: int = 0


@dataclass(frozen=True, slots=True)
class Recalled:
    """A layer's answer: rendered text, the items shown in it, and what was left out and why.

    `fit` gives the answer again in fewer tokens, for the case that not all of it has room; without it, a
    text that has no room is left out. A layer that has only text to give may give just that. A `version` comes
    back with the block when the layer is asked again in the same turn.
    """

    text: str = ""
    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    fit: Callable[[int], Recalled] | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """The turn that tools are wanted for, and the layer's own state."""

    scope: Scope
    turn_id: str
    state: LayerState


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """A finished turn to learn from: what was said in it, how it ended, and the layer's own state.

    A turn may come twice, should the process die in between. What is written under the lease, or by
    compare-and-set together with a note of the turn, takes effect once.
    """

    scope: Scope
    turn_id: str
    lease: Lease
    messages: Sequence[Message] = ()
    state: LayerState | None = None
    outcome: Outcome = "success"


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """A run that has ended, and the layer's own state."""

    scope: Scope
    outcome: Outcome
    now: datetime
    state: LayerState | None = None


class Layer(Protocol):
    """One kind of memory. Blocks are ordered by slot; equal slots keep the order of registration."""

    @property
    def name(self) -> str:
        """Names its block, its state and its events."""
        ...

    @property
    def slot(self) -> int:
        """Where its block stands."""
        ...

    @property
    def scope(self) -> LayerScope:
        """What it remembers for: without a resource id, layers of a resource are not asked."""
        ...

    @property
    def budget(self) -> TokenRange:
        """How much of the context it may take."""
        ...

    @property
    def stable(self) -> bool:
        """Whether its block changes so seldom that it belongs before the messages."""
        ...

    @property
    def every_step(self) -> bool:
        """Whether it is asked again before every further model call of a turn."""
        ...

    @property
    def learns_from(self) -> Sequence[Outcome]:
        """How a turn must have ended for it to learn from it; empty if it never learns."""
        ...

    async def init(self) -> None:
        """Called once before first use."""
        ...

    async def recall(self, request: RecallRequest) -> Recalled:
        """What to put in front of the model call."""
        ...

    def tools(self, request: ToolRequest) -> Sequence[Tool]:
        """What the model may call during the turn."""
        ...

    async def learn(self, request: LearnRequest) -> None:
        """Learn from a finished turn."""
        ...

    async def complete(self, request: CompleteRequest) -> None:
        """A run has ended."""
        ...


class BaseLayer:
    """A layer that does nothing yet: give it a name, and override what matters."""

    name = ""
    slot = 350
    scope: LayerScope = "resource"
    budget = TokenRange(0, 1_000)
    stable = False
    every_step = False
    learns_from: Sequence[Outcome] = OUTCOMES

    async def init(self) -> None:
        """Called once before first use."""

    async def recall(self, request: RecallRequest) -> Recalled:
        """What to put in front of the model call."""
        return Recalled()

    def tools(self, request: ToolRequest) -> Sequence[Tool]:
        """What the model may call during the turn."""
        return ()

    async def learn(self, request: LearnRequest) -> None:
        """Learn from a finished turn."""

    async def complete(self, request: CompleteRequest) -> None:
        """A run has ended."""

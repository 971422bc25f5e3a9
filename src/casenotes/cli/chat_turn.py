"""One turn of `casenotes chat`: ask the agent, pass its words on, gather what memory did.

A turn that is cancelled or fails is told, not raised: it is saved, and the conversation goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    AgentStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.run import AgentRunResultEvent

from casenotes.cli.chat_model import Partner
from casenotes.errors import CasenotesError
from casenotes.integrations.pydantic_ai import MemoryCapability
from casenotes.masking import mask
from casenotes.memory import Memory
from casenotes.types import Context, ContextItem, HitKind, Outcome, Receipt, Scope


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be named by its number: an entry, or a message that was said."""

    kind: HitKind
    id: str
    content: str
    source: ContextItem | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """A turn as it ended; `context` is None until a model was asked, `receipt` until something was learned."""

    scope: Scope
    question: str
    answer: str = ""
    outcome: Outcome = "success"
    error: str = ""
    is_saved: bool = False
    context: Context | None = None
    turn_id: str = ""
    shown: tuple[Item, ...] = ()
    receipt: Receipt | None = None

    @property
    def items(self) -> list[Item]:
        """What the model was shown, then what was learned."""
        learned = [Item("entry", c.entry_id, c.content) for c in self.receipt or () if c.entry_id]
        return [*self.shown, *learned]


@dataclass
class Talk:
    """An agent with memory, what it was shown last, and what became of its last turn."""

    memory: Memory
    partner: Partner
    system: str
    context: Context | None = field(default=None, init=False)
    saved: Receipt | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        ability: MemoryCapability[Scope] = MemoryCapability(
            self.memory, scope=lambda ctx: ctx.deps, on_context=self._see, on_complete=self._note
        )
        self._agent = Agent(deps_type=Scope, instructions=self.system, capabilities=[ability])

    def _see(self, context: Context) -> None:
        self.context = context

    def _note(self, receipt: Receipt | None) -> None:
        self.saved = receipt

    async def ask(self, scope: Scope, question: str, say: Callable[[str], None]) -> Told:
        """The agent's answer to a question; `say` gets it piece by piece."""
        self.context = self.saved = None
        told, found = Told(scope, question), _Found()
        try:
            told = replace(told, answer=await self._answer(scope, question, say, found))
        except asyncio.CancelledError:
            told = replace(told, answer=found.text, outcome="aborted")
        except Exception as error:  # providers have errors of many kinds, and none of them ends the chat
            problem = mask(f"{type(error).__name__}: {error}")
            told = replace(told, answer=found.text, outcome="failure", error=problem)
        told = replace(told, context=self.context)
        return replace(told, is_saved=True, turn_id=self.saved.turn_id) if self.saved else told

    async def _answer(self, scope: Scope, question: str, say: Callable[[str], None], found: _Found) -> str:
        model = self.partner.model_for(question)
        async with self._agent.run_stream_events(question, deps=scope, model=model) as events:
            async for event in events:
                for piece in found.pieces(event):
                    say(piece)
        return found.output

    async def finish(self, scope: Scope, outcome: Outcome, seconds: float) -> None:
        """End a thread's run; what takes longer, or fails, must not hold up whoever leaves."""
        with suppress(TimeoutError, CasenotesError):
            async with asyncio.timeout(seconds):
                await self.memory.finish(scope, outcome)

    async def shown_in(self, told: Told) -> Told:
        """The turn with what its model was shown or has looked up."""
        if not told.is_saved:
            return told
        try:
            found = await self.memory.turn_context(told.scope, told.turn_id)
        except CasenotesError:
            return told
        shown = [item for item in found if not item.left_out]
        return replace(told, shown=tuple(Item(item.kind, item.id, item.text, item) for item in shown))

    async def learned_from(self, told: Told, seconds: float) -> Told:
        """The turn with its receipt, as far as it was learned from in that time."""
        try:
            receipts = await self.memory.flush(told.scope, timeout=seconds)
        except CasenotesError:
            return told
        return replace(told, receipt=receipts[-1]) if receipts and told.outcome == "success" else told


@dataclass
class _Found:
    """What the events of a run have told so far."""

    text: str = ""
    output: str = ""

    def pieces(self, event: AgentStreamEvent | AgentRunResultEvent[Any]) -> Iterator[str]:
        """The words in an event; a new part of an answer begins on a new line."""
        if isinstance(event, AgentRunResultEvent):
            self.output = str(event.result.output)
        elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            yield self._add(f"\n{event.part.content}" if self.text else event.part.content)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            yield self._add(event.delta.content_delta)

    def _add(self, piece: str) -> str:
        self.text += piece
        return piece

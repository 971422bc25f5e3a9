"""A memory that is switched off: turns pass as they are, nothing is kept, and verbs that would keep refuse.

It lies in an empty database in the process, so that whoever asks it anything is told that there is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Never

from casenotes.arguments import check_arguments
from casenotes.errors import UsageError
from casenotes.intake import Input, as_messages, check_outcome, new_id
from casenotes.memory import Memory
from casenotes.types import (
    Appended,
    ChildScope,
    Context,
    Message,
    Outcome,
    Receipt,
    Role,
    Scope,
    Turn,
)

REASON = "memory is switched off"


@check_arguments
class MemoryOff(Memory):
    """`Memory` with `enabled` set to false."""

    async def begin(self, scope: Scope | ChildScope, user_input: Input, *, provider: str | None = None) -> Turn:
        """A turn that sees its own messages and nothing else."""
        child = scope if isinstance(scope, ChildScope) else None
        own = scope.scope if isinstance(scope, ChildScope) else scope
        turn = Turn(new_id(self._clock.now()), own, Context(), child=child)
        return replace(turn, context=await self._note_messages(turn, as_messages(user_input, "user")))

    async def step(self, turn: Turn, messages: Input) -> Context:
        """What was said in the turn."""
        return await self._note_messages(turn, as_messages(messages, "assistant"))

    async def _note_messages(self, turn: Turn, said: Sequence[Message]) -> Context:
        checked = await self._prepare(said, turn.id, len(turn.message_ids))
        turn.message_ids.extend(str(message.id) for message in checked)
        turn.log.extend(checked)
        return Context(messages=tuple(turn.log), trace={"off": REASON})

    async def complete(
        self,
        turn: Turn,
        messages: Input = (),
        outcome: Outcome = "success",
        *,
        error: str = "",
        sync: bool | None = None,
    ) -> Receipt:
        """The receipt says that nothing was kept."""
        check_outcome(outcome)
        await self._prepare(as_messages(messages, "assistant"), turn.id, len(turn.message_ids))
        return Receipt(turn.id, outcome, reason=REASON)

    async def finish(self, scope: Scope | ChildScope, outcome: Outcome = "success") -> None:
        """There is nothing to end."""
        check_outcome(outcome)

    async def append(
        self, scope: Scope | ChildScope, messages: Input, *, role: Role = "user", embed: bool = True
    ) -> Appended:
        """Refused."""
        _refuse("append")

    async def remember(self, scope: Scope, text: str, *, turn: Turn | None = None) -> Never:
        """Refused."""
        _refuse("remember")

    async def record_attempt(
        self, scope: Scope, task: str, tried: str, error: str, outcome: Outcome = "failure"
    ) -> Never:
        """Refused."""
        _refuse("record_attempt")

    async def update_profile(self, scope: Scope, field: str, action: str, value: str | None = None) -> Never:
        """Refused."""
        _refuse("update_profile")

    async def update_plan(self, scope: Scope, **changes: Any) -> Never:
        """Refused."""
        _refuse("update_plan")


def _refuse(verb: str) -> Never:
    raise UsageError(
        f"{verb} cannot keep anything: {REASON}; set enabled to true in the settings of the memory"
    )

"""Play a long tool loop to a memory, and measure what its prompts take and how much of them stays the same.

Every model call of the loop gets the context that the memory gives for it. Beside that stands what it would
have been sent without: everything that was said so far. A provider's cache knows the beginning that a prompt
shares with the one before it; what is known costs a tenth.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from casenotes.memory import Memory
from casenotes.prompt import plain_text
from casenotes.tokens import estimate_tokens
from casenotes.types import Context, Message, Scope, ToolCall, ToolResult, Turn

CACHED_PRICE = 0.1
"""What a token costs that the provider's cache knows, against one that it does not."""


@dataclass(slots=True)
class SessionReport:
    """What a loop's model calls took; sizes in tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    whole_tokens: int = 0
    largest_prompt: int = 0
    largest_messages: int = 0
    largest_step: int = 0
    unchanged: int = 0
    cached_tokens: float = 0.0
    whole_cached_tokens: float = 0.0
    seconds: list[float] = field(default_factory=list)

    @property
    def saved(self) -> float:
        """How many times fewer tokens prompts take than the whole conversation would."""
        return self.whole_tokens / max(1, self.prompt_tokens)

    @property
    def same_prefix(self) -> float:
        """The share of calls whose prompt only grew at its end."""
        return self.unchanged / max(1, self.calls - 1)

    @property
    def cheaper_by_cache(self) -> float:
        """How many times cheaper the prompts get by a provider's cache."""
        return self.prompt_tokens / _price(self.prompt_tokens, self.cached_tokens)

    @property
    def cheaper_than_whole(self) -> float:
        """How many times cheaper they are than the whole conversation, both with a cache."""
        whole = _price(self.whole_tokens, self.whole_cached_tokens)
        return whole / _price(self.prompt_tokens, self.cached_tokens)


def _price(tokens: int, cached: float) -> float:
    return max(1.0, tokens - cached * (1 - CACHED_PRICE))


def read_loops(path: Path) -> list[list[Message]]:
    """Conversations of a JSONL file: `messages` with `tool_calls`, or `steps` with `thought` and `action`."""
    lines = path.read_text("utf-8").splitlines()
    return [list(_messages(json.loads(line), number)) for number, line in enumerate(lines) if line.strip()]


def _messages(loop: dict[str, Any], number: int) -> Iterator[Message]:
    if "steps" in loop:
        yield Message("user", f"Task {loop.get('id', number)}")
        for place, step in enumerate(loop["steps"]):
            name = f"{number}-{place}"
            call = ToolCall(name, "run", {"command": step["action"]})
            yield Message("assistant", step["thought"], parts=(call,))
            yield Message("tool", "", parts=(ToolResult(name, step["observation"] or "(no output)"),))
        return
    waiting: list[str] = []
    for place, said in enumerate(loop["messages"]):
        calls = [
            ToolCall(f"{number}-{place}-{i}", call["name"], json.loads(call["arguments"] or "{}"))
            for i, call in enumerate(said.get("tool_calls", ()))
        ]
        waiting += [call.id for call in calls]
        if said["role"] == "tool":
            name = waiting.pop(0) if waiting else f"{number}-{place}"
            yield Message("tool", "", parts=(ToolResult(name, said["text"]),))
        else:
            yield Message(said["role"], said["text"] or "", parts=tuple(calls))


def joined(loops: Sequence[Sequence[Message]], tokens: int) -> list[Message]:
    """One loop after the other, and from the beginning again, until they take so many tokens."""
    said: list[Message] = []
    for number, loop in enumerate(cycle([loop for loop in loops if loop])):
        said += [_renamed(message, number) for message in loop]
        tokens -= sum(1 + estimate_tokens(message.search_text) for message in loop)
        if tokens <= 0:
            return said
    return said


def _renamed(message: Message, number: int) -> Message:
    """Calls of a loop that is played again have ids of their own."""
    parts = [
        replace(part, id=f"{number}-{part.id}")
        if isinstance(part, ToolCall)
        else replace(part, call_id=f"{number}-{part.call_id}")
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


async def play(memory: Memory, scope: Scope, messages: Sequence[Message]) -> SessionReport:
    """Run a conversation through a memory: each user message begins a turn, each step is a model call."""
    player = _Player(memory, scope)
    for said in messages:
        await player.hear(said)
    await player.end()
    return player.report


class _Player:
    """Hands messages to a memory as an agent would, and looks at every prompt."""

    def __init__(self, memory: Memory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._turn: Turn | None = None
        self._step: list[Message] = []
        self._said = 0
        self._before = ""
        self._whole_before = 0
        self.report = SessionReport()

    async def hear(self, said: Message) -> None:
        """One message; what an assistant says after results was said in answer to a prompt with them."""
        answers = said.role == "assistant" and any(message.role == "tool" for message in self._step)
        if answers and self._turn is not None:
            await self._go_on(self._turn)
        if said.role == "user":
            await self.end()
            await self._begin(said)
        else:
            self._step.append(said)
        self._said += self._memory.size_of(said)

    async def _begin(self, said: Message) -> None:
        started = time.perf_counter()
        self._turn = await self._memory.begin(self._scope, said)
        self._note(self._turn.context, time.perf_counter() - started, self._memory.size_of(said))

    async def _go_on(self, turn: Turn) -> None:
        size = sum(self._memory.size_of(message) for message in self._step)
        started = time.perf_counter()
        context = await self._memory.step(turn, self._step)
        self._step = []
        self._note(context, time.perf_counter() - started, size)

    async def end(self) -> None:
        """Complete the turn that is under way."""
        if self._turn is not None:
            await self._memory.complete(self._turn, self._step)
        self._turn, self._step = None, []

    def _note(self, context: Context, seconds: float, step: int) -> None:
        report, tokens = self.report, context.trace["tokens"]
        size = tokens["blocks"] + tokens["messages"]
        whole = self._said
        fixed = plain_text(Context(tuple(b for b in context.blocks if b.stable), context.messages))
        common = _common(self._before, fixed)
        report.calls += 1
        report.prompt_tokens += size
        report.whole_tokens += whole
        report.largest_prompt = max(report.largest_prompt, size)
        report.largest_messages = max(report.largest_messages, tokens["messages"])
        report.largest_step = max(report.largest_step, step)
        report.unchanged += bool(self._before) and common == len(self._before)
        report.cached_tokens += size * common / max(1, len(fixed) + len(context.volatile_text))
        report.whole_cached_tokens += self._whole_before
        report.seconds.append(seconds)
        self._before, self._whole_before = fixed, whole


def _common(before: str, after: str) -> int:
    """How many characters two texts share at their beginning."""
    if after.startswith(before):
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

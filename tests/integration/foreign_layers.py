"""Layers as hosts write them, for tests of what becomes of their answers."""

from __future__ import annotations

from typing import Any

from casenotes.layers.base import Recalled, RecallRequest


def words(text: str) -> int:
    """A counter of tokens that is easy to reckon with."""
    return len(text.split())


class Saying:
    """A layer with a name, a text, and whatever else is given; nothing of ours is inherited."""

    def __init__(self, name: Any, answer: Any = "something", **attributes: Any) -> None:
        self.name = name
        self.answer = answer
        self.requests: list[RecallRequest] = []
        vars(self).update(attributes)

    async def recall(self, request: RecallRequest) -> Any:
        self.requests.append(request)
        return Recalled(self.answer) if isinstance(self.answer, str) else self.answer


class Wordy(Saying):
    """Wants a number of words and can do with fewer; says no more than it is allowed to."""

    def __init__(self, name: str, wants: int, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.wants = wants

    async def recall(self, request: RecallRequest) -> Recalled:
        self.requests.append(request)
        return self.within(request.max_tokens)

    def within(self, room: int) -> Recalled:
        said = min(self.wants, room)
        left_out = (f"{self.wants - said} words",) if said < self.wants else ()
        return Recalled(" ".join([self.name] * said), left_out=left_out, fit=self.within)

"""Show as many items as have room, the best first to stay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from casenotes.layers.base import Recalled
from casenotes.stores.base import OVER_BUDGET, Shown
from casenotes.tokens import TokenCounter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fitting(Generic[T]):
    """Items, best first, and how they become a block; `what` names them where some are left out.

    `left_out` are items that were found and have no place whatever the room."""

    items: Sequence[T]
    render: Callable[[Sequence[T]], str]
    count_tokens: TokenCounter
    what: str
    shown: Callable[[T], Sequence[Shown]] = lambda _item: ()
    notes: tuple[str, ...] = ()
    left_out: tuple[Shown, ...] = ()

    def within(self, max_tokens: int) -> Recalled:
        """The block with as many items as have room; empty if none has."""
        text = self.render(self.items)
        if self.count_tokens(text) <= max_tokens:
            return self._answer(self.items, text)
        count = bisect_right(range(1, len(self.items)), max_tokens, key=self._size)
        if not count:
            none = f"none of the {self.what} fits into {max_tokens} tokens"
            return Recalled("", self._items([]), (*self.notes, none), self.within)
        return self._answer(self.items[:count], self.render(self.items[:count]))

    def _size(self, count: int) -> int:
        return self.count_tokens(self.render(self.items[:count]))

    def _answer(self, kept: Sequence[T], text: str) -> Recalled:
        dropped = len(self.items) - len(kept)
        over = (f"{dropped} {self.what} over the token budget",) if dropped else ()
        return Recalled(text, self._items(kept), (*self.notes, *over), self.within)

    def _items(self, kept: Sequence[T]) -> tuple[Shown, ...]:
        shown = [item for one in kept for item in self.shown(one)]
        dropped = [item for one in self.items[len(kept) :] for item in self.shown(one)]
        return (*shown, *(replace(item, left_out=OVER_BUDGET) for item in dropped), *self.left_out)

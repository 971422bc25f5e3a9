"""Tell the assistant's own findings from memory that it merely repeats.

What was shown to the assistant in a thread may come back in its answers; taken as evidence, a
memory would confirm itself. Runs of 8 words or 40 characters are compared by rolling hashes, which
stay small when thousands of texts were shown, and every hit is looked up in the text before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from casenotes.learn.quotes import map_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORDS = 8
CHARACTERS = 40
BASE = 0x9E3779B97F4A7C15
BETWEEN = "\x00"  # never part of a mapped text


class EchoGuard:
    """Knows the texts that were shown in a thread."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._shown = [_folded(text) for text in shown]

    def is_echo(self, quote: str) -> bool:
        """Whether the quote shares 8 consecutive words or 40 characters with a text shown."""
        folded = _folded(quote)
        return bool(self._shown) and (
            self._characters.shares_a_run(folded) or self._words.shares_a_run(_spaced_words(folded))
        )

    @cached_property
    def _characters(self) -> _Runs:
        return _Runs(self._shown, CHARACTERS, list, "")

    @cached_property
    def _words(self) -> _Runs:
        return _Runs([_spaced_words(text) for text in self._shown], WORDS, str.split, " ")


class _Runs:
    """All runs of `length` units in some texts, as sorted hashes."""

    def __init__(
        self, texts: Sequence[str], length: int, units: Callable[[str], list[str]], joint: str
    ) -> None:
        import numpy as np

        self._length, self._units, self._joint = length, units, joint
        self._text = BETWEEN.join(texts)
        self._hashes = np.unique(np.concatenate([_hashes(units(text), length) for text in texts]))

    def shares_a_run(self, text: str) -> bool:
        import numpy as np

        units = self._units(text)
        known = np.isin(_hashes(units, self._length), self._hashes)
        return any(self._has(units[i : i + self._length]) for i in np.flatnonzero(known).tolist())

    def _has(self, run: Sequence[str]) -> bool:
        return f"{self._joint}{self._joint.join(run)}{self._joint}" in self._text


def _folded(text: str) -> str:
    return map_text(text).casefold()


def _spaced_words(text: str) -> str:
    """The words without punctuation around them, each between blanks."""
    words = (word.strip(_punctuation(word)) for word in text.split())
    return f" {' '.join(word for word in words if word)} "


def _punctuation(word: str) -> str:
    return "" if word.isalnum() else "".join({character for character in word if not character.isalnum()})


def _hashes(units: Sequence[str], length: int) -> NDArray[np.uint64]:
    """One number per run of units; equal runs give equal numbers wherever they stand."""
    import numpy as np

    count = len(units) - length + 1
    sums = np.zeros(max(count, 0), dtype=np.uint64)
    codes = np.fromiter((hash(unit) & 0xFFFFFFFFFFFFFFFF for unit in units), dtype=np.uint64, count=len(units))
    for offset in range(length if count > 0 else 0):
        sums = sums * np.uint64(BASE) + codes[offset : offset + count]
    return sums

"""Tell the assistant's own findings from memory that it merely repeats.

What was shown to the assistant in a thread may come back in its answers; taken as evidence, a
memory would confirm itself. Runs of 8 words or 40 characters are compared by rolling hashes, which
stay small when thousands of texts were shown, and every hit is looked up in the text before it counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from casenotes.learn.quotes import bare_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORDS = 8
CHARACTERS = 40
BASE = 0x9E3779B97F4A7C15
_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
BETWEEN = "\x00"  # never part of a mapped text


class EchoGuard:
    """Knows the texts that were shown in a thread."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._shown = [_folded(text) for text in shown]

    def is_echo(self, quote: str) -> bool:
        """Whether the quote shares 8 consecutive words or 40 characters with a text shown."""
        folded = _folded(quote)
        return bool(self._shown) and (
            self._characters.has_run_of(folded) or self._words.has_run_of(_words(folded))
        )

    @cached_property
    def _characters(self) -> _Runs:
        return _Runs(self._shown, CHARACTERS, "")

    @cached_property
    def _words(self) -> _Runs:
        return _Runs([_words(text) for text in self._shown], WORDS, " ")


class _Runs:
    """All runs of `length` characters or words in some texts, as sorted hashes."""

    def __init__(self, texts: Sequence[Sequence[str]], length: int, blank: str) -> None:
        import numpy as np

        self._length, self._blank = length, blank
        self._text = BETWEEN.join(map(self._joined, texts))
        self._hashes = np.sort(np.concatenate([_hashes(text, length) for text in texts]))

    def has_run_of(self, units: Sequence[str]) -> bool:
        """Whether one of the runs of a text is known."""
        import numpy as np

        wanted = _hashes(units, self._length)
        known = np.searchsorted(self._hashes, wanted, "right") > np.searchsorted(self._hashes, wanted)
        runs = (units[i : i + self._length] for i in np.flatnonzero(known).tolist())
        return any(self._joined(run) in self._text for run in runs)

    def _joined(self, units: Sequence[str]) -> str:
        return f"{self._blank}{self._blank.join(units)}{self._blank}"


def _folded(text: str) -> str:
    return bare_text(text).casefold()


def _words(text: str) -> list[str]:
    """The words without punctuation around them."""
    return [match.group() for match in map(_CORE.search, text.split()) if match]


def _hashes(units: Sequence[str], length: int) -> NDArray[np.uint64]:
    """One number per run of units; equal runs give equal numbers wherever they stand."""
    import numpy as np

    codes = _codes(units)
    count = max(0, len(codes) - length + 1)
    sums = np.zeros(count, dtype=np.uint64)
    if count:
        for offset in range(length):
            sums = sums * np.uint64(BASE) + codes[offset : offset + count]
    return sums


def _codes(units: Sequence[str]) -> NDArray[np.uint64]:
    """One number per character of a string or per word of a list."""
    import numpy as np

    if isinstance(units, str):
        return np.frombuffer(units.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    return np.fromiter((hash(unit) & 0xFFFFFFFFFFFFFFFF for unit in units), dtype=np.uint64)

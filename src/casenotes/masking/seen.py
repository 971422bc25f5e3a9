"""A text as a reader sees it: every blank is a space, and characters that nobody sees are gone.

Pasted text is full of no-break spaces, and an invisible character within a key would hide it from the
rules but not from whoever copies it. Offsets lead back to the text as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from casenotes.characters import CONTROL, UNSEEN

CONTROL_BYTES = re.findall(f"[{CONTROL}]".encode("latin-1"), bytes(range(128)))
NO_CONTROLS = b"".join(CONTROL_BYTES)
UNSEEN_RUN = re.compile(f"[{UNSEEN}]+")
BLANKS = ("\xa0", "\u1680", "\u202f", "\u205f", "\u3000", *map(chr, range(0x2000, 0x200B)))


class Seen(NamedTuple):
    """The visible text, and where its pieces begin in it and in the original."""

    text: str
    begins: Sequence[int] = (0,)
    originals: Sequence[int] = (0,)

    def original(self, position: int) -> int:
        """Where the character at a position stands in the original."""
        piece = bisect_right(self.begins, position) - 1
        return self.originals[piece] + position - self.begins[piece]

    def end(self, position: int) -> int:
        """Behind the last character before a position."""
        return self.original(position - 1) + 1 if position else 0


def as_seen(text: str) -> Seen:
    """The text as its reader sees it; the same object if it is plain."""
    if text.isascii():
        plain = text.encode()
        if len(plain.translate(None, NO_CONTROLS)) == len(plain):
            return Seen(text)
    else:
        for blank in BLANKS:  # one search each: a table of all of them takes twenty times as long
            text = text.replace(blank, " ")
    dropped = [match.span() for match in UNSEEN_RUN.finditer(text)]
    if not dropped:
        return Seen(text)
    edges = [0, *(edge for span in dropped for edge in span), len(text)]
    kept = [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]
    lengths = accumulate((end - start for start, end in kept), initial=0)
    visible = "".join(text[start:end] for start, end in kept)
    return Seen(visible, [*lengths][:-1] or [0], [start for start, _ in kept] or [0])

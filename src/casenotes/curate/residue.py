"""Look for remains of erased data in every byte of the store's files.

What was stored is cut into pieces of 32 bytes, and the files are compared with all of them at once: a
remnant of 63 bytes or more contains a whole piece. Pieces that living rows contain are no remains.

Eight bytes of each piece are looked for first, mostly its head; where that is blank, as in vectors full of
zeros, others are taken, because files are full of blanks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PIECE = 32
SHORTEST = 12
"""Anything shorter stands everywhere by chance."""

DISTINCT = 8
HEAD = 8
TELLING = 4
"""A head of fewer different bytes stands everywhere."""

CHUNK = 8_000_000

ByHead = dict[int, list[tuple[int, bytes]]]
"""Pieces by eight of their bytes, each with the place of these."""


@dataclass(frozen=True, slots=True)
class Residue:
    """What a scan found: how much was read, for how many pieces, and which are left; `skipped` says why not."""

    files: int
    bytes_read: int
    pieces: int
    left: tuple[bytes, ...] = ()
    skipped: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether it was looked for and nothing was found."""
        return not self.left and not self.skipped


def pieces_of(texts: Iterable[bytes]) -> set[bytes]:
    """What to look for; a piece of few different bytes, such as zeros, may stand anywhere."""
    return {piece for text in texts for piece in _pieces(text) if len(set(piece)) >= DISTINCT}


def _pieces(text: bytes) -> Iterator[bytes]:
    if SHORTEST <= len(text) < PIECE:
        yield text
    for start in range(0, len(text) - PIECE + 1, PIECE):
        yield text[start : start + PIECE]


def scan(files: Sequence[Path], pieces: set[bytes]) -> tuple[int, set[bytes]]:
    """The bytes read, and the pieces found in them."""
    by_head: ByHead = {}
    for piece in pieces:
        place = telling_place(piece)
        by_head.setdefault(int.from_bytes(piece[place : place + HEAD], "little"), []).append((place, piece))
    heads = np.array(sorted(by_head), dtype=np.uint64)
    size, found = 0, set[bytes]()
    for file in files:
        for chunk, fresh in _chunks(file):
            size += fresh
            found.update(_in_chunk(chunk, heads, by_head))
    return size, found


def telling_place(piece: bytes) -> int:
    """Where the bytes of a piece stand that are looked for first."""
    if len(set(piece[:HEAD])) >= TELLING:
        return 0
    return max(range(len(piece) - HEAD + 1), key=lambda place: len(set(piece[place : place + HEAD])))


def _chunks(file: Path) -> Iterator[tuple[bytes, int]]:
    """A file in overlapping parts, each with the count of bytes that are new in it; nothing if it is gone."""
    rest = b""
    try:
        with file.open("rb") as opened:
            while data := opened.read(CHUNK):
                yield rest + data, len(data)
                rest = data[-PIECE:]
    except FileNotFoundError:
        return


def _in_chunk(chunk: bytes, heads: NDArray[np.uint64], by_head: ByHead) -> Iterator[bytes]:
    for offset in range(min(HEAD, max(0, len(chunk) - HEAD + 1)) if len(heads) else 0):
        count = (len(chunk) - offset) // HEAD
        numbers = np.frombuffer(chunk, dtype="<u8", count=count, offset=offset)
        places = np.searchsorted(heads, numbers)
        places[places == len(heads)] = 0
        for index in np.flatnonzero(heads[places] == numbers).tolist():
            start = offset + HEAD * index
            candidates = by_head[int(numbers[index])]
            yield from (p for place, p in candidates if start >= place and chunk.startswith(p, start - place))

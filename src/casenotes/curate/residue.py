"""Look for remains of erased data in every byte of the store's files.

What was stored is cut into pieces of 32 bytes, and the files are compared with all of them at once: a
remnant of 63 bytes or more contains a whole piece. Pieces that living rows contain are no remains.
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
CHUNK = 8_000_000


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
    by_head: dict[int, list[bytes]] = {}
    for piece in pieces:
        by_head.setdefault(int.from_bytes(piece[:HEAD], "little"), []).append(piece)
    heads = np.array(sorted(by_head), dtype=np.uint64)
    size, found = 0, set[bytes]()
    for file in files:
        for chunk, fresh in _chunks(file):
            size += fresh
            found.update(_in_chunk(chunk, heads, by_head))
    return size, found


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


def _in_chunk(chunk: bytes, heads: NDArray[np.uint64], by_head: dict[int, list[bytes]]) -> Iterator[bytes]:
    for offset in range(min(HEAD, max(0, len(chunk) - HEAD + 1)) if len(heads) else 0):
        count = (len(chunk) - offset) // HEAD
        numbers = np.frombuffer(chunk, dtype="<u8", count=count, offset=offset)
        places = np.searchsorted(heads, numbers)
        places[places == len(heads)] = 0
        for index in np.flatnonzero(heads[places] == numbers).tolist():
            start = offset + HEAD * index
            yield from (p for p in by_head[int(numbers[index])] if chunk.startswith(p, start))

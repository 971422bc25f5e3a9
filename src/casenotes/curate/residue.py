"""Look for remains of erased data in every byte of the store's files.

What was stored is cut into pieces of 32 bytes, and the files are compared with all of them at once: a
remnant of 63 bytes or more contains a whole piece. Pieces that living rows contain are no remains.

Eight bytes of each piece are looked for first, mostly its head; where that is blank, as in vectors full of
zeros, others are taken, because files are full of blanks.

What an erasure could not prove, a later one looks for again. By then its text is gone, so it goes by
fingerprints: a keyed hash of 59 bits and the length of each piece, kept in the store until nothing is found.

Files are read by a child process and come through a pipe. Closing a database file here would drop the locks
that SQLite holds on it for this whole process, and what is looked for never leaves this process.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

PIECE = 32
SHORTEST = 12
"""Anything shorter stands everywhere by chance."""

DISTINCT = 8
HEAD = 8
WORDS = PIECE // HEAD
TELLING = 4
"""A head of fewer different bytes stands everywhere."""

CHUNK = 8_000_000
LENGTH_BYTES = 8
LENGTH_BITS = np.uint64(PIECE - 1)
READER = """
import sys
output = sys.stdout.buffer
for name in sys.stdin.buffer.read().split(b"\\0"):
    try:
        with open(name, "rb") as file:
            while data := file.read(CHUNK):
                output.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
    except FileNotFoundError:
        pass
    output.write(bytes(LENGTH_BYTES))
"""
"""What the child runs: every file in parts behind their lengths, and a length of zero at its end."""


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


def fingerprints_of(pieces: Iterable[bytes], key: bytes) -> bytes:
    """Eight bytes for each piece: a hash, and in its lowest bits the length of the piece."""
    by_length: dict[int, list[bytes]] = {}
    for piece in pieces:
        by_length.setdefault(len(piece), []).append(piece.ljust(PIECE, b"\0"))
    hashes = []
    for length, padded in by_length.items():
        words = np.frombuffer(b"".join(padded), dtype="<u8")
        hashes.append(_hash([words[place::WORDS] for place in range(WORDS)], length, key))
    return b"".join(found.astype("<u8").tobytes() for found in hashes)


def _hash(words: Sequence[NDArray[np.uint64]], length: int, key: bytes) -> NDArray[np.uint64]:
    """The hashes of texts of one length, given as their first words, second words and so on."""
    factors = np.frombuffer(hashlib.blake2b(key, digest_size=PIECE).digest(), dtype="<u8") | np.uint64(1)
    hashes = np.zeros(len(words[0]), dtype=np.uint64)
    for place, (word, factor) in enumerate(zip(words, factors, strict=False)):
        rest = length - HEAD * place
        if rest <= 0:
            break
        if rest < HEAD:
            word = word & np.uint64((1 << 8 * rest) - 1)
        hashes = (hashes ^ word) * factor
        hashes ^= hashes >> np.uint64(29)
    return hashes & ~LENGTH_BITS | np.uint64(length) & LENGTH_BITS


def scan(
    files: Sequence[Path], pieces: set[bytes], fingerprints: bytes = b"", key: bytes = b""
) -> tuple[int, set[bytes]]:
    """The bytes read, and what was found in them by piece or fingerprint; OSError if a file cannot be read."""
    earlier = np.unique(np.frombuffer(fingerprints, dtype="<u8"))
    wanted = Wanted(pieces)
    size, found = 0, set[bytes]()
    for chunk, fresh in _chunks(files):
        size += fresh
        found.update(wanted.in_chunk(chunk))
        found.update(_by_fingerprint(chunk, earlier, key))
    return size, found


class Wanted:
    """The pieces by eight of their bytes; in arrays, as to build and free a dict of so many holds the loop."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)
        self._places = [telling_place(piece) for piece in self._pieces]
        numbers = (
            int.from_bytes(piece[place : place + HEAD], "little")
            for piece, place in zip(self._pieces, self._places, strict=True)
        )
        heads = np.fromiter(numbers, dtype=np.uint64, count=len(self._pieces))
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def in_chunk(self, chunk: bytes) -> Iterator[bytes]:
        """The pieces that stand in a part of a file."""
        heads = self._heads
        for offset in range(min(HEAD, max(0, len(chunk) - HEAD + 1)) if len(heads) else 0):
            count = (len(chunk) - offset) // HEAD
            numbers = np.frombuffer(chunk, dtype="<u8", count=count, offset=offset)
            firsts = np.searchsorted(heads, numbers)
            firsts[firsts == len(heads)] = 0
            hits = np.flatnonzero(heads[firsts] == numbers)
            ends = np.searchsorted(heads, numbers[hits], side="right")
            for index, first, end in zip(hits.tolist(), firsts[hits].tolist(), ends.tolist(), strict=True):
                start = offset + HEAD * index
                for number in self._order[first:end].tolist():
                    piece, place = self._pieces[number], self._places[number]
                    if start >= place and chunk.startswith(piece, start - place):
                        yield piece


def telling_place(piece: bytes) -> int:
    """Where the bytes of a piece stand that are looked for first."""
    if len(set(piece[:HEAD])) >= TELLING:
        return 0
    return max(range(len(piece) - HEAD + 1), key=lambda place: len(set(piece[place : place + HEAD])))


def _chunks(files: Sequence[Path]) -> Iterator[tuple[bytes, int]]:
    """Every file in overlapping parts, each with the count of its new bytes; nothing of a file that is gone."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise OSError("this program cannot start a Python process; run `casenotes erase` instead")
    program = f"CHUNK, LENGTH_BYTES = {CHUNK}, {LENGTH_BYTES}\n{READER}"
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", "-c", program], stdin=pipe, stdout=pipe, stderr=pipe
    ) as child:
        assert child.stdin and child.stdout and child.stderr  # noqa: S101, PT018
        try:
            child.stdin.write(b"\0".join(os.fsencode(file) for file in files))
            child.stdin.close()
            for _ in files:
                rest = b""
                while data := _part(child.stdout):
                    yield rest + data, len(data)
                    rest = data[-PIECE:]
        except EOFError:
            reason = child.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise OSError(reason or f"{sys.executable!r} cannot be run as Python") from None
        finally:
            child.kill()


def _part(pipe: IO[bytes]) -> bytes:
    """The next part of a file, empty at its end; EOFError if the child has failed."""
    length = int.from_bytes(pipe.read(LENGTH_BYTES).ljust(LENGTH_BYTES, b"\xff"), "little")
    data = pipe.read(length) if length <= CHUNK else b""
    if len(data) < length:
        raise EOFError
    return data


def _by_fingerprint(chunk: bytes, wanted: NDArray[np.uint64], key: bytes) -> Iterator[bytes]:
    if not len(wanted):
        return
    is_likely = np.zeros(2**16, dtype=bool)  # by the upper bits, which is faster than a search
    is_likely[wanted >> np.uint64(48)] = True
    padded = chunk + bytes(PIECE)  # short texts may stand at the very end
    for offset in range(HEAD):
        words = np.frombuffer(padded, dtype="<u8", count=(len(padded) - offset) // HEAD, offset=offset)
        count = len(words) - WORDS + 1
        columns = [words[place : place + count] for place in range(WORDS)]
        for length in np.unique(wanted & LENGTH_BITS).tolist():
            hashes = _hash(columns, length or PIECE, key)
            likely = np.flatnonzero(is_likely[hashes >> np.uint64(48)])
            for index in likely[np.isin(hashes[likely], wanted)].tolist():
                yield chunk[offset + HEAD * index : offset + HEAD * index + (length or PIECE)]

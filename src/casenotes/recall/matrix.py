"""The vectors of one scope as a compact table, and the similarity of every row with a query.

A row is kept as 16-bit whole numbers with one scale: half the memory of float32, with an error of
about a hundred-thousandth in a cosine, and a scan that is faster because it moves half the bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from casenotes.config import usable_cores
from casenotes.models.embed import Matrix, unpack_vectors
from casenotes.recall.lexical import Floats

LARGEST = 32_767
BLOCK_BYTES = 1_000_000
ROWS_FOR_A_CORE = 25_000
"""Fewer rows are multiplied sooner than another thread is started."""

CENTRE_PRIOR = 10
"""The centre of a scope counts as if ten more vectors stood at the origin: a few say little about it."""


class Similarities(NamedTuple):
    """Of every row with a query: the cosine, and the cosine seen from near the centre of the scope."""

    cosine: Floats
    centred: Floats


class VectorTable:
    """Rows that grow by doubling; a row without vector is zero and matches nothing."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._rows: NDArray[np.int16] = np.zeros((0, dimensions), dtype=np.int16)
        self._scales: Floats = np.zeros(0, dtype=np.float32)
        self._sum = np.zeros(dimensions, dtype=np.float64)
        self._mean_products: Floats | None = None
        self._filled = 0
        self._exempt: set[int] = set()
        self._count = 0

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return int(self._rows.nbytes + self._scales.nbytes)

    @property
    def stored_row_bytes(self) -> int:
        """Size of one vector as the store keeps it."""
        return 2 * self._dimensions

    @property
    def missing(self) -> int:
        """How many rows still wait for a vector."""
        return self._count - self._filled - len(self._exempt)

    def has(self, row: int) -> bool:
        """Whether a row has its vector."""
        return bool(self._scales[row])

    def missing_rows(self) -> list[int]:
        """The rows that still wait for a vector."""
        empty = np.flatnonzero(self._scales[: self._count] == 0).tolist()
        return [row for row in empty if row not in self._exempt]

    def grow(self, count: int) -> None:
        """Have at least `count` rows."""
        self._count = count
        self._mean_products = None
        if count > len(self._rows):
            room = max(count, len(self._rows) * 2, 16)
            self._rows = np.concatenate(
                [self._rows, np.zeros((room - len(self._rows), self._dimensions), np.int16)]
            )
            self._scales = np.concatenate([self._scales, np.zeros(room - len(self._scales), np.float32)])

    def fill(self, rows: list[int], vectors: list[bytes]) -> None:
        """Set those rows; a vector that is not finite or all zero is damaged and leaves its row missing."""
        values = unpack_vectors(vectors, self._dimensions)
        usable = np.isfinite(values).all(axis=1) & np.any(values != 0, axis=1)
        if not usable.all():
            values, rows = values[usable], [row for row, good in zip(rows, usable, strict=True) if good]
        known = [row for row in rows if self._scales[row]]
        self._sum += values.sum(axis=0, dtype=np.float64) - self.unfolded(known).sum(axis=0, dtype=np.float64)
        self._scales[rows] = np.abs(values).max(axis=1) / LARGEST
        self._rows[rows] = np.rint(values / self._scales[rows][:, None]).astype(np.int16)
        self._filled += len(rows) - len(known)
        self._mean_products = None

    def unfolded(self, rows: list[int]) -> Matrix:
        """Those rows as they were filled in, up to rounding."""
        return self._rows[rows] * self._scales[rows][:, None]

    def cosines(self, rows: list[int], vectors: Matrix) -> Matrix:
        """The cosine of those rows with each of some unit vectors, one column a vector."""
        return self.unfolded(rows) @ vectors.T

    def exempt(self, row: int) -> None:
        """That row will never have a vector: its text is blank."""
        self._exempt.add(row)

    def similarities(self, query: Floats | None, centring: float) -> Similarities:
        """Similarity of every row with a unit vector; `centring` is how far the view moves to the centre."""
        if query is None or not self._count:
            nothing = np.zeros(self._count, dtype=np.float32)
            return Similarities(nothing, nothing)
        mean = (self._sum / (self._filled + CENTRE_PRIOR)).astype(np.float32)
        if not centring or not mean.any():
            (cosine,) = self._products(query)
            return Similarities(cosine, cosine)
        if self._mean_products is None:
            cosine, self._mean_products = self._products(query, mean)
        else:
            (cosine,) = self._products(query)
        weight = np.float32(centring)
        centred = centred_cosine(cosine, weight * self._mean_products, query, weight * mean)
        centred[self._scales[: self._count] == 0] = 0
        return Similarities(cosine, centred)

    def _products(self, *vectors: Floats) -> list[Floats]:
        """Every row times each vector; large tables are cut into parts for several cores."""
        results = [np.empty(self._count, dtype=np.float32) for _ in vectors]
        parts = max(1, min(usable_cores(), self._count // ROWS_FOR_A_CORE))
        ends = [self._count * part // parts for part in range(parts + 1)]
        if parts == 1:
            self._multiply(0, self._count, vectors, results)
        else:
            with ThreadPoolExecutor(parts) as workers:
                multiply = partial(self._multiply, vectors=vectors, results=results)
                list(workers.map(multiply, ends[:-1], ends[1:]))
        for result in results:
            result *= self._scales[: self._count]
        return results

    def _multiply(self, first: int, end: int, vectors: Sequence[Floats], results: Sequence[Floats]) -> None:
        """Those rows, in blocks that stay in the processor's cache while they are unfolded."""
        size = max(1, BLOCK_BYTES // (4 * self._dimensions))
        block = _scratch(min(size, end - first), self._dimensions)
        for start in range(first, end, size):
            stop = min(start + size, end)
            part = block[: stop - start]
            np.copyto(part, self._rows[start:stop])
            for vector, result in zip(vectors, results, strict=True):
                np.dot(part, vector, out=result[start:stop])


class _Scratch(threading.local):
    """Room to unfold rows in, one for each thread that searches: new memory would cost more than the work."""

    floats: Floats = np.zeros(0, dtype=np.float32)

    def __call__(self, rows: int, dimensions: int) -> Matrix:
        if len(self.floats) < rows * dimensions:
            self.floats = np.empty(rows * dimensions, dtype=np.float32)
        return self.floats[: rows * dimensions].reshape(rows, dimensions)


_scratch = _Scratch()


def centred_cosine(cosine: Floats, centre_products: Floats, query: Floats, centre: Floats) -> Floats:
    """Cosine of rows and query after both moved away from the centre, from products already known.

    What all messages of a scope have in common says nothing about any of them, and messages that
    resemble everything are found for every question. Seen from near the centre, both lose their hold.
    """
    query_product = float(query @ centre)
    centre_square = float(centre @ centre)
    moved_rows = np.sqrt(np.maximum(1 - 2 * centre_products + centre_square, np.float32(1e-6)))
    moved_query = max(1 - 2 * query_product + centre_square, 1e-6) ** 0.5
    result: Floats = (cosine - centre_products + (centre_square - query_product)) / (
        moved_rows * np.float32(moved_query)
    )
    return result

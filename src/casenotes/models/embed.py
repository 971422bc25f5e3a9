"""What an embedder is, which space its vectors live in, and the check every vector passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from casenotes.errors import BadVector

Matrix = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors. Two embedders with one label must give the same vectors.

    One that embeds questions in another way has `async embed_query(texts)` too; one that must ask
    for its dimensions has `async prepare(dimensions)`, which gets them where a store knows them.
    """

    @property
    def label(self) -> str:
        """Names the model; stored with the vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Any:
        """One vector a text, in order: an array or nested sequences of numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Space:
    """Identity of an embedding space; vectors of two spaces are never compared."""

    model: str
    dimensions: int
    normalised: bool = True

    @classmethod
    def of(cls, embedder: Embedder) -> Space:
        """The space of an embedder; Casenotes scales all vectors to length one."""
        return cls(embedder.label, embedder.dimensions)

    @property
    def key(self) -> tuple[str, int, bool]:
        """The same as a plain value, as stores keep it."""
        return self.model, self.dimensions, self.normalised

    def __str__(self) -> str:
        return f"{self.model} ({self.dimensions} dimensions)"


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed, check and scale to length one; raises BadVector for anything unusable."""
    if not texts:
        return np.zeros((0, embedder.dimensions), dtype=np.float32)
    return unit_vectors(await embedder.embed(texts), Space.of(embedder), len(texts))


async def embed_queries(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """The unit vectors of questions; an embedder may have a method of its own for those."""
    embed = getattr(embedder, "embed_query", embedder.embed)
    return unit_vectors(await embed(texts), Space.of(embedder), len(texts))


def pack_vectors(matrix: Matrix) -> list[bytes]:
    """Each row as stores keep it: 16-bit floats, little-endian."""
    return [row.tobytes() for row in matrix.astype("<f2")]


def unpack_vectors(packed: Sequence[bytes], dimensions: int) -> Matrix:
    """The rows of such vectors."""
    rows: Matrix = np.frombuffer(b"".join(packed), dtype="<f2").reshape(-1, dimensions).astype(np.float32)
    return rows


def unit_vectors(raw: Any, space: Space, count: int) -> Matrix:
    """The vectors as one float32 matrix with rows of length one."""
    try:
        matrix = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise BadVector(f"embedder {space.model!r} returned no matrix of numbers: {error}") from None
    if matrix.shape != (count, space.dimensions):
        raise BadVector(
            f"embedder {space.model!r} returned shape {matrix.shape}; "
            f"expected {count} vectors of {space.dimensions} dimensions"
        )
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise BadVector(f"embedder {space.model!r}: vector {int(np.argmin(finite))} is not finite")
    lengths = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise BadVector(f"embedder {space.model!r}: vector {int(np.argmin(lengths))} is all zero")
    return np.ascontiguousarray(matrix / lengths, dtype=np.float32)

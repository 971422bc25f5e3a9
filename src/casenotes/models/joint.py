"""Several embedders as one space: the similarity in it is the weighted sum of theirs.

Each part's unit vectors are scaled by the root of its weight and put side by side, so a single dot
product adds up the parts and a store sees one embedder with one label.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from casenotes.models.embed import Embedder, Matrix, embed_texts
from casenotes.models.minilm import MiniLmEmbedder
from casenotes.models.static import StaticEmbedder

MINILM_WEIGHT = 0.6
"""Measured: docs/benchmarks.md. Another weight is another space and needs another label."""


@dataclass(frozen=True, slots=True)
class JointEmbedder:
    """Embedders with their weights, which add up to one."""

    label: str
    parts: Sequence[tuple[Embedder, float]]

    @property
    def dimensions(self) -> int:
        """All parts together."""
        return sum(embedder.dimensions for embedder, _ in self.parts)

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """The parts' vectors, scaled and side by side."""
        vectors = await asyncio.gather(*(embed_texts(embedder, texts) for embedder, _ in self.parts))
        return np.hstack([math.sqrt(weight) * v for v, (_, weight) in zip(vectors, self.parts, strict=True)])


def minilm_and_static() -> JointEmbedder:
    """MiniLM for meaning and static vectors for the whole of long texts; 640 dimensions."""
    parts = ((MiniLmEmbedder(), MINILM_WEIGHT), (StaticEmbedder(), 1 - MINILM_WEIGHT))
    return JointEmbedder(f"minilm+static:{MINILM_WEIGHT}", parts)

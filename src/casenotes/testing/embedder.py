"""An embedder for tests: fast, deterministic, and texts that share words are similar."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


class HashEmbedder:
    """Adds one to the dimension that each word hashes to."""

    def __init__(self, dimensions: int = 64) -> None:
        self.label = f"hash-{dimensions}"
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text; a text without words points along the first dimension."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.lower().split() or [""]:
            digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            vector[int.from_bytes(digest, "little") % self.dimensions if word else 0] += 1.0
        return vector

"""Remember vectors by space and text, so that a second evaluation embeds nothing.

The file is a cache and nothing else: it may be deleted at any time. Texts are kept as hashes only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from casenotes.errors import UsageError
from casenotes.models.embed import Embedder, Space

SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    space TEXT NOT NULL, text_hash TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (space, text_hash)
) WITHOUT ROWID
"""
FIND = """
SELECT text_hash, vector FROM vectors
 WHERE space = ? AND text_hash IN (SELECT value FROM json_each(?))
"""


class CachedEmbedder:
    """An embedder that asks another one only for texts that are new to its file."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self._path = path
        self.label = embedder.label
        self.dimensions = embedder.dimensions
        self.embedded = 0
        self._connect().close()  # a file that cannot be used is reported at once

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        """Vectors from the file where it has them, fresh ones for the rest."""
        return await self._embed(texts, str(Space.of(self._embedder)), self._embedder.embed)

    async def embed_query(self, texts: Sequence[str]) -> list[Any]:
        """The same for questions, which an embedder may treat in a way of its own."""
        own_way = getattr(self._embedder, "embed_query", None)
        if own_way is None:
            return await self.embed(texts)
        return await self._embed(texts, f"{Space.of(self._embedder)}, questions", own_way)

    async def _embed(self, texts: Sequence[str], space: str, embed: Any) -> list[Any]:
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        known = await asyncio.to_thread(self._find, space, hashes)
        new = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        if new:
            made = np.asarray(await embed(list(new.values())), dtype="<f4")
            fresh = dict(zip(new, made, strict=True))
            await asyncio.to_thread(self._save, space, fresh)
            self.embedded += len(fresh)
            known |= fresh
        return [known[key] for key in hashes]

    def _find(self, space: str, hashes: Sequence[str]) -> dict[str, Any]:
        with closing(self._connect()) as connection:
            rows = connection.execute(FIND, (space, json.dumps(hashes))).fetchall()
        whole = [(key, vector) for key, vector in rows if len(vector) == 4 * self.dimensions]
        return {key: np.frombuffer(vector, dtype="<f4") for key, vector in whole}

    def _save(self, space: str, vectors: dict[str, Any]) -> None:
        rows = [(space, key, vector.tobytes()) for key, vector in vectors.items()]
        with closing(self._connect()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # readable by its owner alone
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self._path, timeout=30)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"the cache of vectors {str(self._path)!r} cannot be used: {error}; delete it, name another "
                "with --cache, or go without: --no-cache"
            ) from None
        return connection

"""The built-in embedder: the mean of static token vectors over the whole text.

Token table and tokenizer are data files inside the `wordllama` package (MIT licence). They are read
directly: that package's own loader looks elsewhere and then tries to download. Nothing here needs
a network, a key or a GPU; a short text takes about 0.1 ms.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from casenotes.errors import EmbeddingError
from casenotes.models.embed import Matrix
from casenotes.models.packaged import package_folder

TABLE_FILE = "weights/l2_supercat_256.safetensors"
TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"
INLINE_CHARACTERS = 4_000
BATCH_CHARACTERS = 1_000_000
MEAN_TOKENS = 16_384


class StaticEmbedder:
    """256 dimensions, offline, English first; longer texts lose nothing to a window."""

    label = "static:l2-supercat"
    dimensions = 256

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Short inputs are embedded at once; loading and long ones go to a thread."""
        loaded = bool(_token_table.cache_info().currsize)
        if loaded and sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self.embed_now(texts)
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """The same without a loop."""
        table = _token_table()
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, token_ids in enumerate(_token_ids(texts)):
            vectors[row] = _mean(table, token_ids) if token_ids else table[0]
        return vectors


def _mean(table: Matrix, token_ids: list[int]) -> Matrix:
    """The mean of the tokens' rows; those of a long text are not held in memory all at once."""
    if len(token_ids) <= MEAN_TOKENS:
        return cast(Matrix, table[token_ids].mean(axis=0))
    parts = (token_ids[start : start + MEAN_TOKENS] for start in range(0, len(token_ids), MEAN_TOKENS))
    total = sum(table[part].sum(axis=0, dtype=np.float64) for part in parts)
    return np.asarray(total / len(token_ids), dtype=np.float32)


def _token_ids(texts: Sequence[str]) -> list[list[int]]:
    """Batches are bounded because an encoded batch takes many times the room of its text."""
    tokenizer = _tokenizer()
    if len(texts) == 1 and len(texts[0]) <= INLINE_CHARACTERS:  # batches let other threads run meanwhile
        return [tokenizer.encode(texts[0], add_special_tokens=False).ids]
    ids: list[list[int]] = []
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            ids += _encode_batch(tokenizer, batch)
            batch, size = [], 0
    return ids + _encode_batch(tokenizer, batch)


def _encode_batch(tokenizer: Any, batch: list[str]) -> list[list[int]]:
    return [e.ids for e in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_data_folder() / TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def _token_table() -> Matrix:
    """Read one float16 tensor of a safetensors file: header length, JSON header, raw numbers."""
    path = _data_folder() / TABLE_FILE
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))[TENSOR]
        start, end = header["data_offsets"]
        file.seek(8 + header_bytes + start)
        numbers = np.frombuffer(file.read(end - start), dtype="<f2")
    if header["dtype"] != "F16" or header["shape"][1] != StaticEmbedder.dimensions:
        raise EmbeddingError(f"{path} holds {header}; expected float16 rows of 256; reinstall wordllama")
    return numbers.reshape(header["shape"]).astype(np.float32)


def _data_folder() -> Path:
    return package_folder("wordllama", "reinstall casenotes")

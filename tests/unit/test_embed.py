"""Vectors are checked and scaled; the built-in embedder works offline and knows what is similar."""

import math

import numpy as np
import pytest

from casenotes.errors import BadVector, MissingExtra, SettingsError
from casenotes.models.embed import Space, embed_texts, unit_vectors
from casenotes.models.minilm import MiniLmEmbedder
from casenotes.models.registry import embedder_of_label, resolve_embedder
from casenotes.models.static import StaticEmbedder
from casenotes.testing import HashEmbedder

SPACE = Space("test", 2)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ([[1.0, math.nan]], "vector 0 is not finite"),
        ([[1.0, 0.0], [math.inf, 0.0]], "vector 1 is not finite"),
        ([[0.0, 0.0]], "vector 0 is all zero"),
        ([[1.0, 0.0, 0.0]], "expected 1 vectors of 2 dimensions"),
        ([], "expected 1 vectors"),
        ([["a", "b"]], "no matrix of numbers"),
        ([[1.0], [1.0, 2.0]], "no matrix of numbers"),
    ],
)
def test_unusable_vectors_are_refused(raw: list[object], named: str) -> None:
    with pytest.raises(BadVector, match=named):
        unit_vectors(raw, SPACE, max(1, len(raw)))


def test_vectors_get_length_one() -> None:
    extreme = unit_vectors([[1e38, 1e38], [1e-30, 0]], SPACE, 2)
    assert np.linalg.norm(extreme, axis=1) == pytest.approx([1, 1])
    assert unit_vectors([[3.0, 4.0]], SPACE, 1).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]


async def test_no_text_needs_no_embedder() -> None:
    assert (await embed_texts(HashEmbedder(4), [])).shape == (0, 4)


async def test_the_built_in_embedder_puts_similar_texts_together() -> None:
    texts = [
        "The database server ran out of disk space.",
        "no space left on the db host",
        "I love strawberry cake",
    ]
    vectors = await embed_texts(StaticEmbedder(), texts)
    assert vectors.shape == (3, 256)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


async def test_one_text_or_many_give_the_same_vector() -> None:
    texts = ["short", "a longer text " * 300, "東京", "\n", "🦊"]
    together = await embed_texts(StaticEmbedder(), texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal((await embed_texts(StaticEmbedder(), [text]))[0], vector)


def test_embedders_are_found_by_name() -> None:
    assert isinstance(resolve_embedder("static"), StaticEmbedder)
    assert isinstance(resolve_embedder("minilm"), MiniLmEmbedder)
    assert resolve_embedder("minilm+static").dimensions == 640
    own = HashEmbedder(8)
    assert resolve_embedder(own) is own


def test_local_is_the_best_installed_unless_the_store_remembers_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given in (None, "local"):
        assert resolve_embedder(given).label == "minilm+static:0.6"
        assert resolve_embedder(given, "static:l2-supercat").label == "static:l2-supercat"
        assert resolve_embedder(given, "somebody's own").label == "minilm+static:0.6"
    monkeypatch.setattr("casenotes.models.registry.minilm_is_installed", lambda: False)
    assert resolve_embedder(None).label == "static:l2-supercat"
    monkeypatch.setattr("casenotes.models.minilm.minilm_is_installed", lambda: False)
    with pytest.raises(MissingExtra, match=r"casenotes\[minilm\].*casenotes reembed static"):
        resolve_embedder(None, "minilm+static:0.6")  # never silently another space


def test_the_embedder_of_a_space_is_found_by_its_label() -> None:
    for name in ("static", "minilm", "minilm+static"):
        label = resolve_embedder(name).label
        assert embedder_of_label(label).label == label
    assert embedder_of_label("somebody's own") is None


def test_a_wrong_embedder_is_named() -> None:
    with pytest.raises(SettingsError, match="'gpt'"):
        resolve_embedder("gpt")
    with pytest.raises(SettingsError, match="label, dimensions, embed"):
        resolve_embedder(object())

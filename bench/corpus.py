"""Made-up texts and vectors for benchmarks: word frequencies follow Zipf's law, as in real text."""

from __future__ import annotations

import itertools

import numpy as np

WORDS = 30_000
SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "ki",
    "lo",
    "mu",
    "ne",
    "pa",
    "ri",
    "so",
    "tu",
    "ve",
    "za",
)


def _vocabulary() -> np.ndarray:
    words = ("".join(parts) for parts in itertools.product(SYLLABLES, repeat=4))
    return np.array(list(itertools.islice(words, WORDS)))


def _sample(generator: np.random.Generator, count: int) -> np.ndarray:
    """Ranks drawn by Zipf's law; the commonest fifty are left out, as stop words are in real text."""
    weights = 1.0 / np.arange(51, WORDS + 51)
    return generator.choice(WORDS, size=count, p=weights / weights.sum())


def make_texts(count: int, seed: int, words: int = 40) -> list[str]:
    """Texts of about `words` words."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(words // 2, words * 3 // 2, size=count)
    chosen = _vocabulary()[_sample(generator, int(lengths.sum()))]
    ends = np.cumsum(lengths)
    return [" ".join(chosen[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def make_queries(count: int) -> list[str]:
    """Questions of about eight words."""
    return make_texts(count, seed=99, words=8)


def make_vectors(count: int, seed: int, dimensions: int) -> np.ndarray:
    """Unit vectors that lean to one side, as those of real texts do."""
    matrix = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    matrix += 0.5
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix

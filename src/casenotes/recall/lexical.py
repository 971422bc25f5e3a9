"""An inverted index over one scope's documents, and the lexical scores that rankers ask it for.

A posting packs document number and term count into one 64-bit number, so that a term is one
array and a batch of documents is counted by one sort.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
COUNT_BITS = 20
COUNT_MASK = (1 << COUNT_BITS) - 1
HAS_DIGIT = re.compile(r"\d")
SHORTEST_NUMBER = 4
RARE_DOCUMENTS = 3
INFORMATION_DOCUMENTS = 1_000
"""In a small scope every word is rare; it is judged as if there were this many documents."""

COVERAGE_DOCUMENTS = 100
"""Coverage weighs terms as if there were at least so many documents: a few say little about rarity."""


class _Vocabulary(dict[str, int]):
    """Terms to numbers, given out in order of first use."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class LexicalIndex:
    """Term counts by document. Statistics are this scope's own: no tenant's words touch another's."""

    def __init__(self) -> None:
        self._vocabulary = _Vocabulary()
        self._postings: list[array[int]] = []
        self._lengths = array("f")
        self._posting_count = 0
        self._norms: tuple[float, float, Floats] | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        per_term = sys.getsizeof(array("q")) + 160
        return 8 * self._posting_count + 4 * len(self) + per_term * len(self._postings)

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Add the next documents, each given by its terms."""
        first = len(self._lengths)
        numbers = array("q")
        for terms in documents:
            numbers.extend(map(self._vocabulary.__getitem__, terms))
            self._lengths.append(len(terms))
        lengths = np.array(self._lengths[first:], dtype=np.int64)
        owners = np.repeat(np.arange(first, len(self._lengths)), lengths)
        self._norms = None
        if numbers:
            self._add_postings(np.frombuffer(numbers, dtype=np.int64), owners)

    def _add_postings(self, terms: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        while len(self._postings) < len(self._vocabulary):
            self._postings.append(array("q"))
        pairs, counts = np.unique((terms << 32) | owners, return_counts=True)
        packed = ((pairs & 0xFFFFFFFF) << COUNT_BITS) | np.minimum(counts, COUNT_MASK)
        starts = np.flatnonzero(np.diff(pairs >> 32, prepend=-1)).tolist()
        content = memoryview(packed.tobytes())
        for start, end in zip(starts, [*starts[1:], len(packed)], strict=True):
            self._postings[int(pairs[start]) >> 32].frombytes(content[8 * start : 8 * end])
        self._posting_count += len(packed)

    def bm25(self, terms: Sequence[str], k1: float, b: float) -> Floats:
        """BM25 of every document; a repeated query term counts with the root of its repetitions."""
        found = self._found(terms)
        if not found:
            return np.zeros(len(self), dtype=np.float32)
        documents, counts = self._unpacked(found)
        weights = [math.sqrt(n) * _idf(len(posting), len(self)) * (k1 + 1) for posting, n in found]
        scores = counts / (counts + self._length_norms(k1, b)[documents])
        return self._sum(found, weights, documents, scores)

    def coverage(self, terms: Sequence[str], documents: Sequence[int]) -> Floats:
        """How much of the query stands in each of those documents: from 0 to 1, rare terms count more."""
        covered, total = [0.0] * len(documents), 0.0
        for term, repetitions in Counter(terms).items():
            posting = self._postings[self._vocabulary[term]] if term in self._vocabulary else ()
            weight = math.sqrt(repetitions) * _idf(len(posting), max(len(self), COVERAGE_DOCUMENTS))
            total += weight
            for place, document in enumerate(documents):
                covered[place] += weight * _contains(posting, document)
        return np.array(covered, dtype=np.float32) / np.float32(total or 1.0)

    def weight(self, terms: Sequence[str]) -> float:
        """What terms weigh together, known here or not: rare ones more."""
        documents = max(len(self), COVERAGE_DOCUMENTS)
        known = self._vocabulary
        return sum(
            math.sqrt(n) * _idf(len(self._postings[known[t]]) if t in known else 0, documents)
            for t, n in Counter(terms).items()
        )

    def information(self, terms: Sequence[str], document: int) -> float:
        """How much the query's terms in a document tell: a rare one 6 or more, a common one almost none."""
        postings = [self._postings[self._vocabulary[t]] for t in set(terms) if t in self._vocabulary]
        documents = max(len(self), INFORMATION_DOCUMENTS)
        return sum(_idf(len(posting), documents) for posting in postings if _contains(posting, document))

    def share_a_rare_number(self, terms: Sequence[str], documents: Sequence[int]) -> bool:
        """Whether one of those documents has a number or identifier of the query that few others have."""
        few = max(RARE_DOCUMENTS, len(self) // 100)
        numbers = [t for t in set(terms) if len(t) >= SHORTEST_NUMBER and HAS_DIGIT.search(t)]
        postings = [self._postings[self._vocabulary[t]] for t in numbers if t in self._vocabulary]
        rare = [posting for posting in postings if len(posting) <= few]
        return any(_contains(posting, document) for posting in rare for document in documents)

    def word_counts(self, terms: Sequence[str]) -> Floats:
        """How often the query's words stand in each document, over the root of its word count."""
        found = self._found(terms)
        if not found:
            return np.zeros(len(self), dtype=np.float32)
        documents, counts = self._unpacked(found)
        lengths = np.frombuffer(self._lengths, dtype=np.float32)
        roots: Floats = np.sqrt(np.maximum(lengths, np.float32(1)))
        return self._sum(found, [float(n) for _, n in found], documents, counts) / roots

    def _found(self, terms: Sequence[str]) -> list[tuple[array[int], int]]:
        """The postings of the query's terms that occur here, with their repetitions in the query."""
        known = self._vocabulary
        return [(self._postings[known[t]], n) for t, n in Counter(terms).items() if t in known]

    def _unpacked(self, found: Sequence[tuple[array[int], int]]) -> tuple[NDArray[np.int64], Floats]:
        packed = np.concatenate([np.frombuffer(posting, dtype=np.int64) for posting, _ in found])
        return packed >> COUNT_BITS, (packed & COUNT_MASK).astype(np.float32)

    def _sum(
        self,
        found: Sequence[tuple[array[int], int]],
        weights: Sequence[float],
        documents: NDArray[np.int64],
        scores: Floats,
    ) -> Floats:
        """The scores of each term's postings times the term's weight, added up by document."""
        weighted = scores * np.repeat(weights, [len(posting) for posting, _ in found])
        return np.bincount(documents, weights=weighted, minlength=len(self)).astype(np.float32)

    def _length_norms(self, k1: float, b: float) -> Floats:
        if self._norms is None or self._norms[:2] != (k1, b):
            lengths = np.frombuffer(self._lengths, dtype=np.float32)
            mean = float(lengths.mean()) or 1.0
            self._norms = (k1, b, (k1 * (1 - b + b * lengths / mean)).astype(np.float32))
        return self._norms[2]


def _idf(containing: int, documents: int) -> float:
    """Inverse document frequency, never negative."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


def _contains(posting: Sequence[int], document: int) -> bool:
    """Whether a document is among the packed numbers, which are in order."""
    place = bisect_left(posting, document << COUNT_BITS)
    return place < len(posting) and posting[place] >> COUNT_BITS == document

"""Decide which entries say the same: alike in meaning, and the same fact word by word.

A sentence and its correction are alike in meaning too; what tells them apart is the word that was corrected.
Where such a word differs both are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from casenotes.learn.same_fact import is_same_fact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Threshold = float | Literal[False] | None
ROUNDING = 1e-6  # vectors have 32 bits, so that equal ones may seem a little less than equal


def same_turn(vectors: ArrayLike, contents: Sequence[str], threshold: Threshold) -> list[int | None]:
    """For each candidate of a turn the earlier one, itself kept, that says the same; None keeps it.

    Of several the most alike counts, of equally alike ones the first.
    """
    if threshold is None or threshold is False or not contents:
        return [None] * len(contents)
    cosines = _cosines(vectors)
    same: list[int | None] = []
    for i, content in enumerate(contents):
        kept = [j for j, duplicate in enumerate(same) if duplicate is None]
        kept.sort(key=lambda j: -cosines[i, j])
        same.append(next((j for j in kept if _is_same(content, contents[j], cosines[i, j], threshold)), None))
    return same


def decide(content: str, neighbours: Sequence[tuple[str, str, float]], threshold: Threshold) -> str | None:
    """The id of the stored entry that a text corroborates, None if the text is new.

    `neighbours` are (entry id, content, cosine), the most alike first.
    """
    if threshold is None or threshold is False:
        return None
    same = (entry for entry, other, cosine in neighbours if _is_same(content, other, cosine, threshold))
    return next(same, None)


def _is_same(content: str, other: str, cosine: float, threshold: float) -> bool:
    return cosine >= threshold - ROUNDING and is_same_fact(content, other)


def _cosines(vectors: ArrayLike) -> NDArray[np.float64]:
    """All cosines; a vector without length or with unusable numbers is like nothing."""
    import numpy as np

    rows = np.nan_to_num(np.asarray(vectors, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit = rows / lengths
    cosines: NDArray[np.float64] = unit @ unit.T
    return cosines

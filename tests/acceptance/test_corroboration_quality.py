"""How often different facts are taken for one, and repeats for new ones: pairs written for it, real embedders.

`pytest -s` prints the figures. Every third pair was held back while the rule was written; the pairs named
`second set` were written after it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from casenotes.config import EpisodicSettings
from casenotes.learn.similar import decide
from casenotes.models.embed import Embedder, embed_texts
from casenotes.models.joint import minilm_and_static
from casenotes.models.minilm import minilm_is_installed
from casenotes.models.static import StaticEmbedder

FIXTURES = Path(__file__).parent.parent / "fixtures"
MOST_SWALLOWED = 0.02
LEAST_RECOGNISED = 0.6


def pairs(name: str) -> list[list[str]]:
    """Rows of a set; the last three columns are language and two texts."""
    rows: list[list[str]] = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    return rows


def taken_for_one(embedder: Embedder, rows: list[list[str]]) -> list[bool]:
    """For each pair whether the second text would corroborate the first, at the default threshold."""
    threshold = EpisodicSettings().similarity_threshold
    vectors = asyncio.run(embed_texts(embedder, [text for row in rows for text in row[-2:]]))
    cosines = (vectors[::2] * vectors[1::2]).sum(axis=1)
    return [
        decide(row[-1], [("first", row[-2], float(cosine))], threshold) is not None
        for row, cosine in zip(rows, cosines, strict=True)
    ]


@pytest.mark.parametrize("name", ["static", "minilm+static"])
def test_r46_26_different_facts_stay_and_repeats_are_recognised(name: str) -> None:
    if name != "static" and not minilm_is_installed():
        pytest.skip("the extra casenotes[minilm] is not installed")
    embedder = StaticEmbedder() if name == "static" else minilm_and_static()
    for kind in ("close_facts", "unrelated_facts"):
        rows = pairs(kind)
        outcomes = taken_for_one(embedder, rows)
        swallowed = [row for row, same in zip(rows, outcomes, strict=True) if same]
        print(f"\n{name}: {kind}: {len(swallowed)} of {len(rows)} taken for one")
        assert len(swallowed) <= MOST_SWALLOWED * len(rows), swallowed
    rows = pairs("repeated_facts")
    outcomes = taken_for_one(embedder, rows)
    languages = ["en" if row[1] == "en" else "other" for row in rows]
    totals = Counter(languages)
    found = Counter(language for language, same in zip(languages, outcomes, strict=True) if same)
    print(f"{name}: repeats recognised:", *(f"{found[key]} of {total} {key}" for key, total in totals.items()))
    assert found["en"] >= LEAST_RECOGNISED * totals["en"]

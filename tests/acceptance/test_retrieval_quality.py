"""Retrieval quality on real data, and on our own sample where that data is not at hand."""

from __future__ import annotations

import json
import math
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from casenotes.evals.retrieval import Query, evaluate_retrieval, read_queries
from casenotes.recall.matrix import VectorTable

REQUIRED = {
    "static": {"longmemeval_blocks": 0.828, "beam_100k": 0.484, "ms_support_cases": 0.856},
    "minilm+static": {"longmemeval_blocks": 0.86, "beam_100k": 0.60, "ms_support_cases": 0.905},
}
AT_LEAST = 0.25
SETS = (*REQUIRED["static"], "runbooks", "codemem")
IS_WHOLE = os.environ.get("CASENOTES_QUALITY") == "whole"
"""`make quality`: every question, and all messages for the sentence encoder, which takes it minutes."""

SAMPLES = {"longmemeval_blocks": 100, "beam_100k": 100, "ms_support_cases": 60}
"""Of the first user so many messages, and those that answer a question; of the other sets all messages."""

MOST_QUERIES = {"static": 200, "minilm+static": 40}
REQUIRED_OF_SAMPLES = {
    "static": REQUIRED["static"],
    "minilm+static": {"longmemeval_blocks": 0.89, "beam_100k": 0.58, "ms_support_cases": 0.84},
}
"""One question may lose its answer: measured were 0.937 for 24 questions, 0.637 for 18 and 0.872 for 39."""

OWN_QUERIES = [
    ("mira", "payment hook says unauthorised", {"webhooks-1", "webhooks-5"}),
    ("mira", "wrong characters in customer names", {"csv-import-1", "csv-import-3"}),
    ("mira", "db-3 exit code 28", {"nightly-backup-1", "nightly-backup-2"}),
    ("mira", "too many requests at the shipping partner", {"rate-limits-1", "rate-limits-2"}),
    ("mira", "Papierformat Drucker", {"berlin-office-2", "berlin-office-3"}),
    ("mira", "VPN 切断", {"tokyo-office-1"}),
    ("mira", "COOKIE_DOMAIN", {"login-loop-3"}),
    ("jonas", "VAT rate on the invoice", {"invoices-1", "invoices-3"}),
]


def eval_folder() -> Path:
    folder = os.environ.get("CASENOTES_EVAL_DATA")
    if not folder:
        pytest.skip("CASENOTES_EVAL_DATA is not set: only the project's own sample is evaluated")
    return Path(folder)


def spread(rows: list[Any], most: int) -> list[Any]:
    """Every row, or every second or third and so on, until there are no more than that."""
    return rows[:: math.ceil(len(rows) / most)]


def sample(folder: Path, target: Path, messages: int) -> Path:
    """A smaller set: questions of the first user, what answers them, and the first messages besides."""
    rows = {
        name: [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    }
    user = min(row["scope"] for row in rows["corpus.jsonl"])
    said = [row for row in rows["corpus.jsonl"] if row["scope"] == user]
    asked = [row for row in rows["queries.jsonl"] if row["scope"] == user and row["relevant"]]
    queries = spread(asked, MOST_QUERIES["minilm+static"])
    answers = {id for row in queries for id in row["relevant"]}
    corpus = [row for number, row in enumerate(said) if number < messages or row["id"] in answers]
    for name, kept in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (target / name).write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
    return target


async def overall(corpus: Path, queries: list[Query], embedder: str) -> dict[str, float]:
    evaluation = await evaluate_retrieval(corpus, queries, embedder=embedder)
    result: dict[str, float] = evaluation.to_json()["message"]["overall"]
    return result


@pytest.mark.parametrize("embedder", REQUIRED)
async def test_our_own_sample(tmp_path: Path, embedder: str) -> None:
    queries = tmp_path / "queries.jsonl"
    rows = (
        {"id": str(n), "scope": scope, "query": text, "relevant": sorted(relevant)}
        for n, (scope, text, relevant) in enumerate(OWN_QUERIES)
    )
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = Path(str(resources.files("casenotes.samples") / "harbour.jsonl"))
    metrics = await overall(sample, read_queries(queries), embedder)
    assert metrics["hit@1"] >= 0.85
    assert metrics["recall@5"] >= 0.9


def check(metrics: dict[str, float], recall: float) -> None:
    assert metrics["queries"] >= 10
    assert metrics["hit@20"] > 0.5
    assert metrics["recall@10"] >= recall


@pytest.mark.parametrize("name", [*SETS, "tau2_banking"])
async def test_real_conversations_with_static_vectors(name: str) -> None:
    folder = eval_folder() / name
    queries, required = read_queries(folder / "queries.jsonl"), REQUIRED
    if not IS_WHOLE:
        queries, required = spread(queries, MOST_QUERIES["static"]), REQUIRED_OF_SAMPLES
    metrics = await overall(folder / "corpus.jsonl", queries, "static")
    check(metrics, required["static"].get(name, AT_LEAST))


class WholeFloats(VectorTable):
    """The same table in float32, to see what the compact one changes."""

    def fill(self, rows: list[int], vectors: list[bytes]) -> None:
        super().fill(rows, vectors)
        if not hasattr(self, "exact") or len(self.exact) < len(self._rows):
            larger = np.zeros(self._rows.shape, np.float32)
            larger[: len(getattr(self, "exact", ()))] = getattr(self, "exact", 0)
            self.exact = larger
        self.exact[rows] = np.frombuffer(b"".join(vectors), "<f2").reshape(len(rows), -1)

    def _products(self, *vectors: np.ndarray) -> list[np.ndarray]:
        return [self.exact[: self._count] @ vector for vector in vectors]


@pytest.mark.parametrize("name", SETS)
async def test_real_conversations_with_a_sentence_encoder(
    name: str, vector_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that compact vectors find the same ten; in one test, so that texts are embedded once."""
    folder, required = eval_folder() / name, REQUIRED
    if not IS_WHOLE:
        required = REQUIRED_OF_SAMPLES
        folder = sample(folder, tmp_path, SAMPLES[name]) if name in SAMPLES else folder
    corpus, queries = folder / "corpus.jsonl", read_queries(folder / "queries.jsonl")
    if not IS_WHOLE:
        queries = spread(queries, MOST_QUERIES["minilm+static"])
    compact = await evaluate_retrieval(corpus, queries, embedder="minilm+static", cache=vector_cache)
    check(compact.to_json()["message"]["overall"], required["minilm+static"].get(name, AT_LEAST))
    monkeypatch.setattr("casenotes.recall.index.VectorTable", WholeFloats)
    exact = await evaluate_retrieval(corpus, queries, embedder="minilm+static", cache=vector_cache)
    differing = [
        a.query_id
        for a, b in zip(compact.message, exact.message, strict=True)
        if set(a.ranked[:10]) != set(b.ranked[:10])
    ]
    assert differing == []

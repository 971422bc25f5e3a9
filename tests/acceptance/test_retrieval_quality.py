"""Retrieval quality on real data, and on our own sample where that data is not at hand."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path

import pytest

from casenotes.evals.retrieval import evaluate_retrieval, read_queries

REQUIRED = {"longmemeval_blocks": 0.80, "beam_100k": 0.475, "ms_support_cases": 0.845}
OTHERS = ("runbooks", "tau2_banking", "codemem")
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


async def overall(corpus: Path, queries: Path) -> dict[str, float]:
    evaluation = await evaluate_retrieval(corpus, read_queries(queries))
    result: dict[str, float] = evaluation.to_json()["message"]["overall"]
    return result


async def test_our_own_sample(tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    rows = (
        {"id": str(n), "scope": scope, "query": text, "relevant": sorted(relevant)}
        for n, (scope, text, relevant) in enumerate(OWN_QUERIES)
    )
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = Path(str(resources.files("casenotes.samples") / "harbour.jsonl"))
    metrics = await overall(sample, queries)
    assert metrics["hit@1"] >= 0.85
    assert metrics["recall@5"] >= 0.9


@pytest.mark.parametrize("name", REQUIRED)
async def test_real_conversations(name: str) -> None:
    folder = eval_folder() / name
    metrics = await overall(folder / "corpus.jsonl", folder / "queries.jsonl")
    assert metrics["recall@10"] >= REQUIRED[name]


@pytest.mark.parametrize("name", OTHERS)
async def test_every_other_set_runs(name: str) -> None:
    folder = eval_folder() / name
    metrics = await overall(folder / "corpus.jsonl", folder / "queries.jsonl")
    assert metrics["queries"] >= 10
    assert metrics["hit@20"] > 0.5

"""SQLite and PostgreSQL give the same ids in the same order with the same scores."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import pytest

from casenotes import Memory, Scope
from casenotes.testing import FrozenClock
from casenotes.transfer.importing import import_file
from casenotes.transfer.lines import ReadOptions

NOW = datetime(2026, 11, 2, tzinfo=UTC)
RANDOM_QUERIES = 250


def corpus_file(name: str) -> Path:
    if name == "own":
        return Path(str(resources.files("casenotes.samples") / "harbour.jsonl"))
    folder = os.environ.get("CASENOTES_EVAL_DATA")
    if not folder:
        pytest.skip("CASENOTES_EVAL_DATA is not set: only the project's own sample is compared")
    return Path(folder) / name / "corpus.jsonl"


def random_queries(rows: list[dict[str, str]], count: int) -> list[tuple[str, str]]:
    """A scope and a few words out of its messages, sometimes with a word nobody used."""
    chance = random.Random(7)
    queries = []
    for _ in range(count):
        row = chance.choice(rows)
        words = chance.choices(row["text"].split(), k=chance.randint(1, 8))
        queries.append((row["scope"], " ".join([*words, *chance.sample(["zyzzyva", "the"], k=1)])))
    return queries


@pytest.mark.parametrize("name", ["own", "runbooks", "codemem"])
async def test_both_stores_give_the_same_results(name: str, sqlite_url: str, postgres_url: str) -> None:
    path = corpus_file(name)
    options = ReadOptions("agent", None, "t", UTC, NOW)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    clock = FrozenClock(NOW)
    async with (
        Memory.open(sqlite_url, clock=clock, embedder="static") as lite,
        Memory.open(postgres_url, clock=clock, embedder="static") as server,
    ):
        for memory in (lite, server):
            await import_file(memory, path, options)
        for resource, query in random_queries(rows, RANDOM_QUERIES):
            scope = Scope("agent", resource)
            one, two = await lite.recall(scope, query, 10), await server.recall(scope, query, 10)
            assert [hit.id for hit in one] == [hit.id for hit in two], query
            assert [hit.content for hit in one] == [hit.content for hit in two]
            for a, b in zip(one, two, strict=True):
                assert a.scores.final == pytest.approx(b.scores.final, abs=1e-6)
                assert a.scores.lexical == pytest.approx(b.scores.lexical, abs=1e-6)
                assert a.scores.vector == pytest.approx(b.scores.vector, abs=1e-6)

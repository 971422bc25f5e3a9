"""What each part of the default ranker brings: recall@10 without it, paired with the whole, on every set.

    CASENOTES_EVAL_DATA=... python bench/quality.py [--cache FILE] [--sets NAME ...]

A difference is followed by its standard error and marked where it exceeds two of them. The last column
of each set is the share of questions from other sets, asked where they have no answer, that got no hit.
Vectors are kept in the cache: the first run embeds everything, the next ones nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from casenotes.config import SearchSettings, Settings
from casenotes.evals.metrics import paired_difference, query_metrics
from casenotes.evals.retrieval import Evaluation, Query, evaluate_retrieval, read_queries

JOINT = "minilm+static"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (JOINT, {}),
    "without centring": (JOINT, {"centring": 0.0}),
    "without the user's weight": (JOINT, {"user_weight": 0.0}),
    "without thread share": (JOINT, {"thread_share": 0.0}),
    "without recency": (JOINT, {"recency_weight": 0.0}),
    "words only": (JOINT, {"lexical_weight": 1.0}),
    "vectors only": (JOINT, {"lexical_weight": 0.0}),
    "minilm alone": ("minilm", {}),
    "static alone": ("static", {}),
    "static, none of the new parts": (
        "static",
        {"lexical_weight": 0.45, "centring": 0.0, "user_weight": 0.0, "thread_share": 0.1},
    ),
    "rrf-decay": (JOINT, {"ranker": "rrf-decay"}),
}
OFF_TOPIC = 100


def off_topic(name: str, queries: dict[str, list[Query]]) -> list[Query]:
    """Questions of other sets, put to the scopes of this one, where nothing answers them."""
    chance = random.Random(3)
    scopes = sorted({query.scope for query in queries[name]})
    others = [query for other in queries if other != name for query in queries[other]]
    asked = chance.sample(others, min(OFF_TOPIC, len(others)))
    return [
        replace(query, id=f"off-topic-{n}", scope=chance.choice(scopes), relevant=frozenset())
        for n, query in enumerate(asked)
    ]


async def run(folder: Path, queries: list[Query], variant: str, cache: Path) -> Evaluation:
    embedder, values = VARIANTS[variant]
    settings = Settings(search=SearchSettings(**values))
    return await evaluate_retrieval(
        folder / "corpus.jsonl", queries, embedder=embedder, settings=settings, cache=cache
    )


def per_query(evaluation: Evaluation, metric: str) -> list[float]:
    return [query_metrics(judged.ranked, judged.relevant)[metric] for judged in evaluation.message]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("quality-vectors.db"))
    parser.add_argument("--sets", nargs="+")
    arguments = parser.parse_args()
    data = Path(os.environ["CASENOTES_EVAL_DATA"])
    names = arguments.sets or sorted(path.parent.name for path in data.glob("*/queries.jsonl"))
    queries = {name: read_queries(data / name / "queries.jsonl") for name in names}
    for name in names:
        answerable = [query for query in queries[name] if query.relevant]
        print(f"\n{name} ({len(answerable)} queries)", flush=True)
        whole: list[float] = []
        for variant in VARIANTS:
            asked = [*answerable, *off_topic(name, queries)]
            result = await run(data / name, asked, variant, arguments.cache)
            values = per_query(result, "recall@10")
            whole = whole or values
            d = paired_difference(whole, values)
            ndcg = sum(per_query(result, "ndcg@10")) / len(values)
            nothing = result.abstained / max(1, result.unanswerable)
            print(
                f"  {variant:30} recall@10 {d.second:.3f}  {d.difference:+.3f} ({d.standard_error:.3f})"
                f"{'*' if d.is_clear else ' '}  ndcg@10 {ndcg:.3f}  off-topic without hits {nothing:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main())

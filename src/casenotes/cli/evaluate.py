"""`casenotes eval`: measure retrieval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from casenotes.cli.options import Json
from casenotes.cli.output import console, heading, print_json, print_table, progress_bar
from casenotes.config import SearchSettings, Settings

app = typer.Typer(help="Measure how well memory works.", no_args_is_help=True)
SHOWN = ("queries", "recall@1", "recall@5", "recall@10", "recall@20", "hit@10", "ndcg@10", "mrr")


class Level(StrEnum):
    """What counts as found."""

    message = "message"
    thread = "thread"


@app.callback()
def group() -> None:
    """Measure how well memory works."""


@app.command("retrieval")
def retrieval_command(
    corpus: Annotated[Path, typer.Option(metavar="FILE", help="Messages as JSONL, as for import.")],
    queries: Annotated[
        Path,
        typer.Option(metavar="FILE", help="JSONL: id, scope, query, time, relevant (ids), category."),
    ],
    level: Annotated[Level | None, typer.Option(help="Show this level only.")] = None,
    ranker: Annotated[str, typer.Option(help="default or rrf-decay.")] = "default",
    embedder: Annotated[str, typer.Option(help="Name of the embedder.")] = "local",
    json: Json = False,
) -> None:
    """Import a corpus into a throw-away store, ask every query, and score what comes back.

    Queries without relevant ids do not count for recall: for them the right answer is nothing.
    """
    from casenotes.evals.retrieval import evaluate_retrieval, read_queries

    settings = replace(Settings(), search=SearchSettings(ranker=ranker))
    asked = read_queries(queries)
    with progress_bar(not json) as bar:
        evaluation = asyncio.run(
            evaluate_retrieval(
                corpus, asked, embedder=embedder, settings=settings, progress=_shown_on(bar, corpus)
            )
        )
    result = evaluation.to_json()
    levels = [level] if level else list(Level)
    for hidden in set(Level) - set(levels):
        del result[hidden]
    if json:
        print_json(result)
    else:
        _print_result(result, levels)


def _shown_on(bar: Progress | None, corpus: Path) -> Callable[[str, int, int], None]:
    if bar is None:
        return lambda _what, _done, _total: None
    tasks = {
        "import": bar.add_task("importing", total=corpus.stat().st_size if corpus.exists() else None),
        "queries": bar.add_task("asking", total=None),
    }

    def show(what: str, done: int, total: int) -> None:
        bar.update(tasks[what], completed=done)
        if total:
            bar.update(tasks[what], total=total)

    return show


def _print_result(result: dict[str, Any], levels: list[Level]) -> None:
    for level in levels:
        heading(f"{level.value.capitalize()} level")
        report = result[level]
        rows = [("overall", report["overall"]), *report["by_category"].items()]
        print_table(
            ["category", *SHOWN],
            [[name, *(metrics.get(column, "") for column in SHOWN)] for name, metrics in rows],
        )
    abstention, timings = result["abstention"], result["timings"]
    heading("Abstention and timings")
    console.print(
        f"{abstention['queries']} queries have no answer; {abstention['no_hits']} of them got no hits.\n"
        f"Import {timings['import_seconds']:.2f} s; recall median {timings['recall_ms_median']:.2f} ms, "
        f"95th percentile {timings['recall_ms_p95']:.2f} ms (100 hits each)."
    )

"""`casenotes eval`: measure retrieval, and compare two runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from casenotes.cli.options import Json
from casenotes.cli.output import console, heading, print_json, print_table, progress_bar
from casenotes.config import SearchSettings, Settings, cache_folder
from casenotes.errors import UsageError

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
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A search setting, e.g. centring=0; repeatable."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where vectors are kept for the next evaluation.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Embed everything anew.")] = False,
    json: Json = False,
) -> None:
    """Import a corpus into a throw-away store, ask every query, and score what comes back.

    Queries without relevant ids do not count for recall: for them the right answer is nothing.
    What --json prints can be kept in a file for `casenotes eval compare`.
    """
    from casenotes.evals.retrieval import evaluate_retrieval, read_queries

    settings = Settings(search=_search_settings(ranker, setting or []))
    kept = None if no_cache else cache or cache_folder() / "eval-vectors.db"
    asked = read_queries(queries)
    with progress_bar(not json) as bar:
        evaluation = asyncio.run(
            evaluate_retrieval(
                corpus,
                asked,
                embedder=embedder,
                settings=settings,
                cache=kept,
                progress=_shown_on(bar, corpus),
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


def _search_settings(ranker: str, given: list[str]) -> SearchSettings:
    types = {field.name: field.type for field in fields(SearchSettings)}
    values: dict[str, Any] = {"ranker": ranker}
    for text in given:
        name, _, value = text.partition("=")
        if name not in types:
            raise UsageError(
                f"--set {text!r}: there is no search setting {name!r}; see docs/reference/settings.md"
            )
        try:
            values[name] = int(value) if types[name] == "int" else float(value)
        except ValueError:
            raise UsageError(f"--set {text!r}: {value!r} is not a number") from None
    return SearchSettings(**values)


@app.command("compare")
def compare_command(
    first: Annotated[Path, typer.Argument(metavar="A", help="Saved with: eval retrieval --json > A")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another run of the same queries.")],
    json: Json = False,
) -> None:
    """Compare two evaluations query by query: B minus A, with standard errors.

    A difference of more than two standard errors is marked: it is unlikely to be chance.
    """
    from casenotes.evals.compare import compare_runs, read_run

    comparison = compare_runs(read_run(first), read_run(second))
    if json:
        print_json({"queries": comparison.queries, "left_out": comparison.left_out, **comparison.levels})
        return
    console.print(f"{comparison.queries} queries in both; {comparison.left_out} in one only.")
    for level, metrics in comparison.levels.items():
        heading(f"{level.capitalize()} level")
        print_table(
            ["metric", "A", "B", "B - A", "standard error", "better", "worse", ""],
            [
                [name, d.first, d.second, d.difference, d.standard_error, d.better, d.worse, "*" * d.is_clear]
                for name, d in metrics.items()
            ],
        )


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
    abstention, timings, embedder = result["abstention"], result["timings"], result["embedder"]
    heading("Abstention and timings")
    console.print(
        f"{abstention['queries']} queries have no answer; {abstention['no_hits']} of them got no hits.\n"
        f"Import {timings['import_seconds']:.2f} s; recall median {timings['recall_ms_median']:.2f} ms, "
        f"95th percentile {timings['recall_ms_p95']:.2f} ms (100 hits each).\n"
        f"Embedder {embedder['label']}"
        + (
            "."
            if embedder["texts_embedded"] is None
            else f"; {embedder['texts_embedded']} texts were new to the cache."
        )
    )

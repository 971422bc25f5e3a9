"""`casenotes eval learning`: measure how well a model learns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.progress import Progress
from rich.text import Text

from casenotes.cli.options import Json
from casenotes.cli.output import console, excerpt, heading, print_json, print_table, progress_bar, safe
from casenotes.config import effective
from casenotes.errors import UsageError

if TYPE_CHECKING:
    from casenotes.evals.learning import LearningEvaluation
    from casenotes.evals.learning_cases import LearningCase
    from casenotes.evals.learning_scores import CaseScore, ScoredEntry, Share

SHOWN = ("flawless", "coverage", "unsupported", "junk", "wrong_label", "lost_uncertainty", "refused")
STYLE = {"covered": "green", "superfluous": "yellow", "forbidden": "red"}
EXCERPT_CHARACTERS = 300


def register(app: typer.Typer) -> None:
    """Add the command to its group."""
    app.command("learning")(learning_command)


def learning_command(
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="provider:name. Default: CASENOTES_MODEL.", show_default=False
        ),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Cases of your own instead of those that are built in.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="TAG", help="Only cases with this tag, domain or language.")
    ] = None,
    embedder: Annotated[str, typer.Option(help="Name of the embedder.")] = "local",
    concurrency: Annotated[int, typer.Option(min=1, help="Cases worked on at once.")] = 4,
    show: Annotated[bool, typer.Option("--show", help="Show every case with its entries.")] = False,
    json: Json = False,
) -> None:
    """Let a model learn from transcripts, and score what it stored and what it left out.

    Every transcript goes through the whole pipeline in a throw-away store. How well something is
    learned can be judged with a real model only; each case takes one or more requests to it.
    Exit code 1 if the model failed at a case.
    """
    from casenotes.evals.learning import evaluate_learning

    chosen = model or effective().model
    if not chosen:
        raise UsageError("no model to learn with; give --model provider:name, or set CASENOTES_MODEL")
    wanted = _cases(cases, only)
    with progress_bar(not json) as bar:
        evaluation = asyncio.run(
            evaluate_learning(
                wanted, chosen, embedder=embedder, concurrency=concurrency, progress=_shown_on(bar, len(wanted))
            )
        )
    if json:
        print_json(evaluation.to_json())
    else:
        _print_evaluation(evaluation, show)
    if evaluation.failures:
        raise typer.Exit(1)


def _cases(path: Path | None, only: str | None) -> list[LearningCase]:
    from casenotes.evals.learning_cases import read_cases, shipped_cases

    cases = read_cases(path) if path else shipped_cases()
    chosen = [case for case in cases if only is None or only in case.labels]
    if not chosen:
        known = ", ".join(sorted({label for case in cases for label in case.labels}))
        raise UsageError(f"--only {only!r}: no case has this tag; there are {known}")
    return chosen


def _shown_on(bar: Progress | None, total: int) -> Callable[[int, int], None]:
    if bar is None:
        return lambda _done, _total: None
    task = bar.add_task("learning", total=total)
    return lambda done, _total: bar.update(task, completed=done)


def _print_evaluation(evaluation: LearningEvaluation, show: bool) -> None:
    from casenotes.evals.learning_scores import summaries

    if show:
        for score in evaluation.scores:
            _print_case(score)
    result = summaries(evaluation.scores)
    _print_summaries("Domains", {**result["by_domain"], "all": result["overall"]})
    _print_summaries("Tags", result["by_tag"])
    _print_summaries("Languages", result["by_language"])
    _print_usage(evaluation)


def _print_summaries(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    heading(title)
    print_table(
        ["", "cases", *(name.replace("_", " ") for name in SHOWN)],
        [[name, row["cases"], *(_in_words(row[column]) for column in SHOWN)] for name, row in rows.items()],
    )


def _in_words(share: Share) -> str:
    """The ratio with what it was counted of."""
    return f"{share.ratio:.2f} ({share.count}/{share.of})" if share.ratio is not None else "-"


def _print_usage(evaluation: LearningEvaluation) -> None:
    used = evaluation.usage
    cost = f", {used.cost:.4f} dollars" if used.cost else ""
    heading("Model")
    console.print(
        f"{safe(evaluation.model)}: {used.calls} calls, {used.input_tokens} tokens in, "
        f"{used.output_tokens} out{cost}",
        markup=False,
    )
    for case, failure in evaluation.failures.items():
        console.print(Text(f"failed: {safe(case)}: {excerpt(failure, EXCERPT_CHARACTERS)}", style="red"))


def _print_case(score: CaseScore) -> None:
    case = score.case
    heading(safe(f"{case.id} ({', '.join((case.domain, case.language, *case.tags))})"))
    for line in (*_entry_lines(score), *_missing_lines(score)):
        console.print(Padding(line, (0, 0, 0, 2)))


def _entry_lines(score: CaseScore) -> Iterator[Text]:
    for position, entry in enumerate(score.entries):
        about = ", ".join(_about(score, position, entry))
        mark = f"{entry.verdict} ({about})" if about else entry.verdict
        style = "yellow" if entry.verdict == "covered" and _faults(score, position) else STYLE[entry.verdict]
        yield Text.assemble((mark, style), f"  {excerpt(entry.content, EXCERPT_CHARACTERS)}")


def _about(score: CaseScore, position: int, entry: ScoredEntry) -> Sequence[str]:
    return [*entry.forbidden, *entry.facts, *_faults(score, position)]


def _faults(score: CaseScore, position: int) -> list[str]:
    told = [item for item in score.facts if item.entry == position]
    wrong = ["wrong label"] if any(item.wrong_label for item in told) else []
    return wrong + (["uncertainty lost"] if any(item.lost_uncertainty for item in told) else [])


def _missing_lines(score: CaseScore) -> Iterator[Text]:
    """What is not there: facts that nothing covers, candidates that code refused, answers that failed."""
    for item in score.facts:
        if item.entry is None and not item.fact.optional:
            yield Text(f"missing ({item.fact.id})", style="red")
    for receipt in score.refused:
        reason = receipt.reason or receipt.status
        yield Text(f"refused ({reason})  {excerpt(receipt.content, EXCERPT_CHARACTERS)}", style="dim")
    if score.failure:
        yield Text(f"failed  {excerpt(score.failure, EXCERPT_CHARACTERS)}", style="red")
    elif not score.entries and score.is_flawless:
        yield Text("nothing to store, nothing stored", style="green")

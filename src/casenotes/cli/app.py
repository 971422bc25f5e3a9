"""The command `casenotes`: puts the groups together and turns errors into exit codes.

Exit codes: 0 done; 1 failed, or done with something to look at; 2 the call was wrong.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from casenotes import __version__
from casenotes.cli import (
    chat,
    config,
    curate,
    demo,
    eval_learning,
    evaluate,
    explain,
    health,
    learning,
    notebook,
    profile,
    search,
    session,
    transfer,
    upkeep,
    vectors,
)
from casenotes.cli.output import console, errors, print_json, safe
from casenotes.errors import CasenotesError, UsageError


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"casenotes {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="casenotes",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group in (
    demo,
    chat,
    transfer,
    search,
    learning,
    curate,
    explain,
    profile,
    notebook,
    session,
    upkeep,
    vectors,
    health,
):
    group.register(app)
eval_learning.register(evaluate.app)
app.add_typer(evaluate.app, name="eval")
app.add_typer(config.app, name="config")


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Memory for AI agents that can say where every memory came from."""


def main() -> None:
    """Run the command line; with `--json` everything is told as JSON, also what is wrong with the call."""
    for_machines = "--json" in sys.argv
    try:
        sys.exit(app(standalone_mode=not for_machines))  # else it would print what is wrong itself
    except CasenotesError as error:
        _tell(type(error).__name__, str(error), for_machines)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:  # the reader of our output, for example `head`, has gone
        sys.stderr.close()
        sys.exit(1)
    except typer.Abort:
        errors.print("Aborted!")
        sys.exit(1)
    except Exception as error:
        if (problem := _wrong_call(error)) is None:
            raise
        _tell("UsageError", problem, for_machines)
        sys.exit(2)


def _tell(kind: str, message: str, for_machines: bool) -> None:
    if for_machines:
        print_json({"error": {"type": kind, "message": message}})
    else:
        errors.print(f"error: {safe(message)}", style="red", markup=False)


def _wrong_call(error: Exception) -> str | None:
    """What is wrong with options or arguments; the class of such errors has no public name in all versions."""
    message = getattr(error, "format_message", None)
    return str(message()) if callable(message) else None

"""`casenotes import` and `casenotes export`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from casenotes.cli.files import write_file
from casenotes.cli.options import Agent, Db, Json, open_memory
from casenotes.cli.output import console, errors, escape_json, print_json, print_table, progress_bar, safe
from casenotes.config import DEFAULT_AGENT, zone_named
from casenotes.errors import UsageError
from casenotes.stores.sqlite.connect import is_part_of_store
from casenotes.transfer.exporting import export_lines
from casenotes.transfer.formats.detect import AUTO, CHOICES, check_format
from casenotes.transfer.importing import ImportSummary, import_file
from casenotes.transfer.lines import ReadOptions, RefusedLine
from casenotes.transfer.source import file_size

SHOWN_REFUSALS = 20
SHOWN_KINDS = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("import")(import_command)
    app.command("export")(export_command)


def import_command(
    file: Annotated[Path, typer.Argument(help="A JSONL file, a data export, or messages as JSON.")],
    db: Db = None,
    agent: Agent = DEFAULT_AGENT,
    resource: Annotated[
        str | None,
        typer.Option(help="Whose conversations they are, where the file does not say.", metavar="ID"),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(help="The thread of messages that name none; the file's name if left out.", metavar="ID"),
    ] = None,
    format: Annotated[
        str, typer.Option(help=f"The file's format: {', '.join(CHOICES)}.", metavar="NAME")
    ] = AUTO,
    timezone: Annotated[str, typer.Option(help="Zone of times that have none.")] = "UTC",
    json: Json = False,
) -> None:
    """Import conversations: our own JSONL, or what other tools write.

    In JSONL each line is an object with the fields id, scope (the resource), thread, role, time and
    text; only text is required. The other formats do not say whose conversations they are, so they
    need --resource. Importing a file again adds nothing; a killed import can be repeated. What cannot
    be used is listed with its place in the file, and the exit code is then 1.
    """
    options = ReadOptions(agent, resource, thread or file.stem, zone_named(timezone), datetime.now(UTC))
    started = time.perf_counter()
    summary, location = asyncio.run(_import(file, db, options, format, show_progress=not json))
    seconds = time.perf_counter() - started
    if json:
        print_json(_summary_json(summary, seconds))
    else:
        _print_summary(summary, location, seconds)
    if summary.refused:
        raise typer.Exit(1)


async def _import(
    file: Path, db: str | None, options: ReadOptions, format: str, show_progress: bool
) -> tuple[ImportSummary, str]:
    size = file_size(file)
    check_format(file, format, options)
    with progress_bar(show_progress) as bar:
        task = bar.add_task(f"importing {file.name}", total=size) if bar else None

        def show(done: int) -> None:
            if bar and task is not None:
                bar.update(task, completed=done)

        async with open_memory(db, create=True) as memory:
            return await import_file(memory, file, options, show, format), memory.location


def _summary_json(summary: ImportSummary, seconds: float) -> dict[str, Any]:
    return {
        "format": summary.format,
        "added": summary.added,
        "known": summary.known,
        "threads": len(summary.threads),
        "vectors": summary.vectors,
        "assumed_times": summary.assumed_times,
        "replaced_roles": dict(summary.replaced_roles),
        "left_out": dict(summary.left_out),
        "refused": [_refusal_json(summary.format, line) for line in summary.refused],
        "seconds": seconds,
    }


def _refusal_json(format: str, line: RefusedLine) -> dict[str, Any]:
    place = {_entry(format): line.number, "message": line.message_number}
    return {**{name: value for name, value in place.items() if value is not None}, "reason": line.reason}


def _entry(format: str) -> str:
    return "line" if format == "jsonl" else "entry"


def _print_summary(summary: ImportSummary, location: str, seconds: float) -> None:
    console.print(
        f"Imported {summary.added} messages in {len(summary.threads)} threads "
        f"into {location} in {seconds:.1f} s.",
        markup=False,
    )
    if summary.known:
        console.print(f"{summary.known} were there already.")
    for role, count in summary.replaced_roles.most_common():
        console.print(f"{count} with role {safe(role)!r} are stored as 'user'.", markup=False)
    if summary.assumed_times:
        console.print(f"{summary.assumed_times} had no time and got the time of the import.")
    if summary.left_out:
        kinds = ", ".join(
            f"{safe(what)} ({count})" for what, count in summary.left_out.most_common(SHOWN_KINDS)
        )
        console.print(f"Left out: {kinds}.", markup=False)
    if summary.refused:
        _print_refusals(summary)


def _print_refusals(summary: ImportSummary) -> None:
    entry = _entry(summary.format)
    unit = "lines" if entry == "line" else "entries or messages"
    errors.print(f"{len(summary.refused)} {unit} were refused:", style="yellow")
    for line in summary.refused[:SHOWN_REFUSALS]:
        message = f", message {line.message_number}" if line.message_number else ""
        errors.print(f"  {entry} {line.number}{message}: {safe(line.reason)}", markup=False)
    if len(summary.refused) > SHOWN_REFUSALS:
        errors.print(f"  … and {len(summary.refused) - SHOWN_REFUSALS} more; --json lists all")


def export_command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; standard output if left out."),
    ] = None,
    db: Db = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    resource: Annotated[str | None, typer.Option(help="Only this resource.")] = None,
    json: Json = False,
) -> None:
    """Export messages and thread titles as JSONL, which `import` reads back.

    Vectors are not exported: they are made again on import. With --json a file is needed.
    """
    if json and output is None:
        raise UsageError("--json needs --output: standard output would carry the export itself")
    count = asyncio.run(_export(output, db, agent, resource))
    if json:
        print_json({"lines": count, "file": str(output)})
    elif output:
        print_table(["lines", "file"], [[count, str(output)]])


async def _export(output: Path | None, db: str | None, agent: str | None, resource: str | None) -> int:
    async with open_memory(db) as memory:
        with _output(output, memory.location) as file:
            count = 0
            async for line in export_lines(memory, agent, resource):
                file.write(escape_json(line) + "\n")
                count += 1
            return count


@contextmanager
def _output(output: Path | None, location: str) -> Iterator[TextIO]:
    """Standard output, or a private file that takes its name only when it is complete."""
    if output is None:
        yield sys.stdout
        return
    if is_part_of_store(location, output):
        raise UsageError(f"{str(output)!r} is the store itself; choose another file for the export")
    if output.exists() and not (output.is_file() or output.is_dir()):  # it would take the place of a device
        raise UsageError(f"{str(output)!r} is no regular file; leave out --output to write to standard output")
    try:
        with write_file(output) as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {str(output)!r}: {error.strerror}") from None

"""What commands print: readable on a terminal, one JSON object with `--json`, errors without traceback.

Stored text is hostile data: control characters never reach the terminal.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
STATUS_STYLE = {"ok": "green", "warning": "yellow", "failed": "bold red"}

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def print_json(value: Mapping[str, Any], indent: int | None = 2) -> None:
    """One JSON object on standard output, in ASCII: no character of stored text can reach a terminal."""
    sys.stdout.write(json.dumps(value, indent=indent, default=_plain_value) + "\n")
    sys.stdout.flush()


def _plain_value(value: object) -> object:
    if isinstance(value, date):  # times are dates, too
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def safe(text: str) -> str:
    """Text that cannot move the cursor, change colours or reorder the line."""
    return CONTROL.sub("\ufffd", text)


def escape_json(text: str) -> str:
    """JSON that says the same and cannot move the cursor, change colours or reorder the line."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def excerpt(text: str, characters: int) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(safe(text).split())
    return flat if len(flat) <= characters else flat[: characters - 1].rstrip() + "…"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; numbers to the right, text to the left."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(columns):
        numeric = bool(rows) and isinstance(rows[0][position], (int, float))
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else _cell(cell) for cell in row))
    console.print(table)


def _cell(value: object) -> Text:
    return Text(f"{value:.3f}" if isinstance(value, float) else safe(str(value)))


def heading(text: str) -> None:
    """A line that starts a section."""
    console.print(Text(f"\n{text}", style="bold cyan"))


@contextmanager
def spinner(what: str, wanted: bool) -> Iterator[None]:
    """A turning sign on the terminal while something takes its time; nothing where nobody would see it."""
    if not wanted or not errors.is_terminal:
        yield
        return
    with errors.status(what):
        yield


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Progress | None]:
    """A progress bar on the terminal; nothing where nobody would see it."""
    if not wanted or not errors.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as progress:
        yield progress

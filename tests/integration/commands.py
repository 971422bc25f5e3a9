"""Run `casenotes` in this process, with its exit codes and errors; a process of its own costs a second."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from casenotes.cli.app import main
from casenotes.cli.output import console, errors


def invoke(
    *words: str,
    code: int = 0,
    input: str | bytes = b"",
    directory: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Call the entry point, check its exit code and return what it printed."""
    variables = {"COLUMNS": "120", **environment}
    console.width = errors.width = int(variables["COLUMNS"])  # they keep what they met when they were made
    arguments = sys.argv
    with contextlib.chdir(directory or os.curdir), CliRunner().isolation(input, variables) as streams:
        sys.argv = ["casenotes", *words]
        try:
            main()
            status: object = 0
        except SystemExit as ended:
            status = ended.code or 0
        finally:
            sys.argv = arguments
            sys.stdout.flush()
            sys.stderr.flush()
            out, err = (stream.getvalue().decode() for stream in streams[:2])
    assert status == code, out + err
    return subprocess.CompletedProcess(words, code, out, err)

"""The documentation is true: its examples run, its reference is current, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest
from commands import invoke

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = ("pydantic-ai", "sub-agents")
"""Pages that show what their program prints."""

LINK = re.compile(r"\]\(([^)#]+)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text("utf-8"))


def run_program(program: str, directory: Path) -> str:
    """Run a program and give what it prints: in this process, as starting another takes a second and more.

    `run_sync` of Pydantic AI leaves an event loop open, which is for a process of its own.
    """
    if ".run_sync(" in program:
        return run_process(program, directory)
    module = ModuleType("example")
    with (
        chdir(directory),
        redirect_stdout(StringIO()) as printed,
        patch.dict(os.environ),
        patch.dict(sys.modules, example=module),
    ):
        exec(compile(program, "example", "exec"), module.__dict__)
    return printed.getvalue()


def run_process(program: str, directory: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """Python blocks of a page run as one program; console lines run after it in the same place."""
    printed = run_program("\n".join(code for kind, code in blocks(page) if kind == "python"), tmp_path)
    if page.stem in PRINTED:
        assert re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL) == [
            printed
        ]
    for kind, text in blocks(page):
        for line in text.splitlines() if kind == "console" else ():
            if line.startswith("$ casenotes "):
                invoke(*shlex.split(line)[2:], directory=tmp_path)


def test_the_example_of_the_readme_is_a_program(tmp_path: Path) -> None:
    run_process("\n".join(code for kind, code in blocks(ROOT / "README.md") if kind == "python"), tmp_path)


def test_the_reference_is_current() -> None:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    for name, page in generator.PAGES.items():
        current = (ROOT / "docs" / "reference" / name).read_text("utf-8")
        assert current == page(), f"{name} is out of date: run python docs/generate_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_is_short_and_shows_code_early() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 150
    assert lines.index("```python") < 30

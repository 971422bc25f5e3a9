"""The documentation is true: its examples run, its reference is current, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """Python blocks of a page run as one program; console lines run after it in the same place."""
    program = "\n".join(code for kind, code in blocks(page) if kind == "python")
    commands = [[sys.executable, "-W", "error", "-c", program]]
    for kind, text in blocks(page):
        if kind == "console":
            lines = [line[2:] for line in text.splitlines() if line.startswith("$ casenotes ")]
            commands += [[sys.executable, "-m", *shlex.split(line)] for line in lines]
    for command in commands:
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", ["pydantic-ai", "sub-agents"])
def test_what_is_shown_is_what_is_printed(name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / f"{name}.md"
    program = "\n".join(code for kind, code in blocks(page) if kind == "python")
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL) == [
        result.stdout
    ]


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

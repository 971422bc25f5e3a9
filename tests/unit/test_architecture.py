"""The shape of the code, checked: imports go one way, importing is light, SQL names its scope."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import casenotes
from casenotes.stores.rows import named_queries

SOURCE = Path(casenotes.__file__).parent
TIERS = (
    {"types", "errors", "characters"},
    {"masking"},
    {"credentials"},
    {"config", "clock", "pairs", "speakers", "tasks"},
    {"tokens", "events", "intake", "arguments", "tracing", "prompt"},
    {"models", "stores"},
    {"recall"},
    {"learn"},
    {"observe"},
    {"curate"},
    {"jobs", "event_log"},
    {"layers"},
    {"memory"},
    {"memory_off", "sync", "transfer"},
    {"testing", "evals", "samples"},
    {"builder"},
    {"integrations"},
    {"cli"},
    {"__main__"},
)
WITHIN = {("types", "errors"), ("memory", "memory_off")}
"""The second is part of the first, in a file of its own."""

TIER = {name: number for number, names in enumerate(TIERS) for name in names}
SPACES = {
    "spaces",
    "insert_space",
    "deactivate_spaces",
    "activate_space",
    "renew_scopes",
    "drop_vectors_of_space",
    "drop_space",
}
WORKERS = {"times_ahead", "dead_turns", "revive_turns", "revive_observing"}
ERASING = {"count_erasure", "is_live", "fingerprints", "add_fingerprints", "drop_fingerprints"}
WHOLE_STORE = {
    "sqlite": {*SPACES, *WORKERS, *ERASING, "stats", "table_sizes"},
    "postgres": {
        *SPACES,
        *WORKERS,
        *ERASING,
        "data_directory",
        "limit_transaction",
        "lock_spaces",
        "hold_space",
        "sees_one_scope",
        "stats",
        "table_sizes",
        "server_facts",
    },
}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports() -> Iterator[tuple[str, str]]:
    """Every import inside the package, lazy ones included, as (importing part, imported part)."""
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if name == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = (
                    [node.module]
                    if node.module != "casenotes"
                    else [f"casenotes.{alias.name}" for alias in node.names]
                )
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            yield from ((name, part_of(m)) for m in modules if m.startswith("casenotes."))


def test_imports_go_one_way() -> None:
    found = {(importing, imported) for importing, imported in imports() if imported in TIER}
    wrong = [(a, b) for a, b in found if a != b and TIER[a] <= TIER[b] and (a, b) not in WITHIN]
    assert wrong == []
    assert len(found) > 30


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert parts - {"__init__"} == set(TIER)


def test_importing_pulls_in_neither_numpy_nor_pydantic() -> None:
    code = (
        "import sys, casenotes; from casenotes import Memory, Scope, Message; import casenotes.sync; "
        "heavy = ('numpy', 'pydantic', 'rich', 'typer', 'tokenizers', 'regex', 'psycopg'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_there_are_few_public_names_and_all_of_them_exist() -> None:
    assert len(casenotes.__all__) <= 25
    assert all(hasattr(casenotes, name) for name in casenotes.__all__)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_every_statement_names_its_scope(backend: str) -> None:
    for name, sql in named_queries(f"casenotes.stores.{backend}").items():
        if name not in WHOLE_STORE[backend]:
            assert "agent_id" in sql, name
            assert "resource_id" in sql, name


def test_python_builds_no_sql() -> None:
    """Statements live in files or stand as they are; only pragmas, which cannot be bound, are put together."""
    for path in (SOURCE / "stores").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("execute"):
                statement = node.args[0]
                built = isinstance(statement, ast.JoinedStr | ast.BinOp)
                assert not built or "PRAGMA" in ast.unparse(statement), f"{path.name}:{node.lineno}"

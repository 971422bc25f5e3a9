"""Every rule of the specification has a test that carries its id, and no test claims an unknown rule."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parents[1]
CARRIED = re.compile(r"^\s*(?:async )?def test_(r\d\d_\d\d)_\w+\(", re.MULTILINE)


def rules() -> set[str]:
    return set(tomllib.loads((TESTS / "rules.toml").read_text("utf-8")))


def carried() -> set[str]:
    return {rule for path in TESTS.rglob("test_*.py") for rule in CARRIED.findall(path.read_text("utf-8"))}


def test_every_rule_has_a_test() -> None:
    assert sorted(rules() - carried()) == []


def test_every_test_names_a_known_rule() -> None:
    assert sorted(carried() - rules()) == []

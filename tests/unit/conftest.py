"""Fixtures of the tests that read files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from reading import FIXTURES, Reading, read_path


@pytest.fixture
def read_fixture() -> Callable[..., Reading]:
    """Read a file of tests/fixtures."""
    return lambda name, format="auto": read_path(FIXTURES / name, format)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Reading]:
    """Write a value as JSON, or bytes as they are, and read the file."""

    def read(content: object, format: str = "auto", name: str = "chat.json") -> Reading:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / name).write_bytes(raw)
        return read_path(tmp_path / name, format)

    return read

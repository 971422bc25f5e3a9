"""The documents of a file to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from casenotes.errors import UsageError


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be read from its beginning as often as needed."""

    size: int
    open: Callable[[], IO[bytes]]


def file_size(path: Path) -> int:
    """The size of a file that can be read; UsageError if it cannot."""
    try:
        with path.open("rb") as file:
            return file.seek(0, 2)
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None


@contextmanager
def open_documents(path: Path) -> Iterator[list[Document]]:
    """The documents of a file."""
    size = file_size(path)
    yield [Document(size, lambda: path.open("rb"))]

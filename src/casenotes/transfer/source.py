"""The documents of a file to import: the file itself, or the conversations inside a zip.

Data exports arrive packed. They are read where they lie, in a stream; nothing is unpacked to disk.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from casenotes.errors import UsageError

MEMBER = re.compile(r"(.*/)?conversations(-\d+)?\.json")
MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAX_UNPACKED_BYTES = 4 * 2**30
MAX_RATIO = 200
RATIO_MATTERS_FROM_BYTES = 10 * 2**20


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
    """The documents of a file; whether it is a zip is seen by its first bytes, not by its name."""
    size = file_size(path)
    with path.open("rb") as file:
        packed = file.read(4) in MAGIC
    if not packed:
        yield [Document(size, lambda: path.open("rb"))]
        return
    try:
        with zipfile.ZipFile(path) as archive:
            yield [Document(m.file_size, partial(archive.open, m)) for m in _members(archive, path)]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} is a damaged zip: {error}") from None


def _members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    members = [info for info in archive.infolist() if MEMBER.fullmatch(info.filename)]
    if not members:
        raise UsageError(
            f"the zip {str(path)!r} has no conversations.json; unpack it and import the file you want"
        )
    for info in members:
        if info.flag_bits & 1 or info.compress_type not in PACKINGS:
            raise UsageError(
                f"{info.filename!r} in {str(path)!r} is encrypted or packed in a way we do not read"
            )
        if info.file_size > max(RATIO_MATTERS_FROM_BYTES, MAX_RATIO * info.compress_size):
            raise UsageError(
                f"{info.filename!r} in {str(path)!r} unpacks to more than {MAX_RATIO} times its size, which "
                "no conversations do; unpack it yourself if you trust it"
            )
    if (total := sum(info.file_size for info in members)) > MAX_UNPACKED_BYTES:
        raise UsageError(
            f"the conversations in {str(path)!r} unpack to {total} bytes; at most {MAX_UNPACKED_BYTES} are "
            "read from a zip, so unpack it and import the file itself"
        )
    return sorted(members, key=lambda info: info.filename)

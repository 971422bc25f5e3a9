"""Write files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def write_file(path: Path, mode: int = 0o600) -> Iterator[TextIO]:
    """A new file beside the path that takes its name when the block ends well, and is removed otherwise.

    Its name cannot be guessed and it must not exist yet, so whoever may write to the folder cannot lend it an
    owner, a mode or a link of theirs.
    """
    unfinished = path.parent / f".casenotes-{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(unfinished, flags, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)

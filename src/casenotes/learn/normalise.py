"""Bring an entry's text into the form that is stored, and name it by its hash."""

from __future__ import annotations

import hashlib
import re

from casenotes.characters import BLANK, UNSEEN

NEAR = 40
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")
_SEEN = re.compile(f"[^{UNSEEN}{BLANK}]")


def collapse(text: str) -> str:
    """The text on one line: each run of whitespace is one space, none at the ends."""
    return " ".join(text.split())


def cut(text: str, max_length: int) -> str:
    """At most `max_length` characters, up to the last whole word if it ends within the last 40.

    What is not empty does not become so: at least one character stays.
    """
    if len(text) <= max_length:
        return text
    limit = max(1, max_length)
    border = text.rfind(" ", max(1, limit - NEAR), limit + 1)
    return text[: border if border > 0 else limit].rstrip() or text[:limit]


def is_visible(text: str) -> bool:
    """Whether a reader sees anything of it."""
    return _SEEN.search(text) is not None


def storable(text: str) -> str:
    """The text without the few characters that no database takes."""
    return _NOT_STORABLE.sub("\ufffd", text)


def content_hash(text: str) -> str:
    """SHA-256 of the lower-cased, whitespace-collapsed text: equal texts are one entry."""
    return hashlib.sha256(collapse(text.lower()).encode("utf-8", "surrogatepass")).hexdigest()

"""Small values that the store contract is written with."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from casenotes.stores.base import Unembedded
from casenotes.types import Message, Role, Scope

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Scope("support", "ann", "t1")
BOB = Scope("support", "bob", "t1")
OTHER_AGENT = Scope("sales", "ann", "t1")
NOBODY = Scope("support", None, "t1")
STRANGERS = (BOB, OTHER_AGENT, NOBODY)


def said(message_id: str, text: str = "hello", role: Role = "user", **values: Any) -> Message:
    """A message ready to be stored."""
    return Message(role, text, id=message_id, **{"created_at": NOON, **values})


def vector(*numbers: float) -> bytes:
    """Numbers as a store keeps them."""
    return struct.pack(f"<{len(numbers)}e", *numbers)


def ids(messages: Sequence[Message] | Sequence[Unembedded]) -> list[str | None]:
    """The ids in order."""
    return [message.id for message in messages]


@contextmanager
def refused(kind: type[Exception], naming: str) -> Iterator[None]:
    """The block must raise that error, and its text must name what was wrong."""
    try:
        yield
    except kind as error:
        if naming not in str(error):
            raise AssertionError(f"the error does not name {naming!r}: {error}") from error
    else:
        raise AssertionError(f"expected {kind.__name__}")

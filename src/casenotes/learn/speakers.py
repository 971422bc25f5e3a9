"""The name of a speaker as a model may read it: without secrets, and never an order to it."""

from __future__ import annotations

from functools import lru_cache

from casenotes.learn.instructions import instruction_in
from casenotes.masking import mask
from casenotes.speakers import name_of
from casenotes.types import Message


def shown_name(message: Message) -> str | None:
    """Who said a message, by name; None if nobody is named, or if the name reads like an instruction."""
    name = name_of(message)
    return _checked_name(name) if name else None


@lru_cache(maxsize=4096)
def _checked_name(name: str) -> str | None:
    return None if instruction_in(name) else mask(name)

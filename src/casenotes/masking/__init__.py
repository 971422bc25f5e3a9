"""Replace secrets in a text by placeholders, so that keys and passwords are not kept, found or shown.

A text passes three sets of rules: telling shapes, secret numbers, and values that stand beside telling
names. All of them look for short literals first and run a pattern only where one occurs, since most
texts hold no secret and every text is read. Each step is bounded, so time grows with the text and no
faster. What is masked once is never masked again: a placeholder counts as no secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from casenotes.masking.named import named
from casenotes.masking.numbers import numeric
from casenotes.masking.shapes import Span, shaped

__all__ = ["Secret", "mask", "placeholder", "secrets_in"]


class Secret(NamedTuple):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    kind: str


def secrets_in(text: str) -> list[Secret]:
    """The secrets of a text in order; none overlaps another."""
    lowered = lower(text)
    found = [*shaped(text), *numeric(text, lowered), *named(text, lowered)]
    return _joined(found) if found else []


def placeholder(kind: str) -> str:
    """What stands in a text instead of a secret."""
    return f"[secret:{kind}]"


def mask(text: str) -> str:
    """The text with its secrets replaced; the same object if it has none."""
    while found := secrets_in(text):
        text = _replaced(text, found)
    return text


def lower(text: str) -> str:
    """The text in lower case with every character in its place; one letter would become two."""
    return text.lower() if text.isascii() else text.replace("İ", "I").lower()


def _joined(spans: Iterable[Span]) -> list[Secret]:
    """Spans in order, overlapping ones as one; the first rule to find a secret names its kind."""
    secrets: list[Secret] = []
    for start, end, kind in sorted(spans, key=lambda span: span[0]):
        if secrets and start < secrets[-1].end:
            last = secrets[-1]
            secrets[-1] = last._replace(end=max(last.end, end))
        else:
            secrets.append(Secret(start, end, kind))
    return secrets


def _replaced(text: str, secrets: Iterable[Secret]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end, kind in secrets:
        pieces += (text[position:start], placeholder(kind))
        position = end
    return "".join((*pieces, text[position:]))

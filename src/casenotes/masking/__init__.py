"""Replace secrets in a text by placeholders, so that keys and passwords are not kept, found or shown.

A text passes three sets of rules: telling shapes, secret numbers, and values that stand beside telling
names. All of them look for short literals first and run a pattern only where one occurs, since most
texts hold no secret and every text is read. Each step is bounded, so time grows with the text and no
faster. What is masked once is never masked again: a placeholder counts as no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from casenotes.masking.named import named
from casenotes.masking.numbers import numeric
from casenotes.masking.seen import as_seen
from casenotes.masking.shapes import Span, shaped

__all__ = ["Secret", "mask", "placeholder", "secrets_in"]


MOST_PASSES = 10


class Secret(NamedTuple):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    kind: str


def secrets_in(text: str) -> list[Secret]:
    """The secrets of a text in order; none overlaps another.

    Once a secret is masked, another may show beside it: it is looked for until nothing is found.
    """
    secrets = _found(text)
    for _ in range(MOST_PASSES if secrets else 0):
        more = _found(_replaced(text, secrets))
        if not more:
            break
        secrets = _joined([*secrets, *_in_original(more, secrets)])
    return secrets


def _found(text: str) -> list[Secret]:
    seen = as_seen(text)
    lowered = lower(seen.text)
    found = [*shaped(seen.text), *numeric(seen.text, lowered), *named(seen.text, lowered)]
    return _joined((seen.original(start), seen.end(end), kind) for start, end, kind in found) if found else []


def _in_original(found: Iterable[Secret], masked: Iterable[Secret]) -> list[Secret]:
    """Where secrets of a masked text stand in the original; to touch a placeholder is to cover its secret."""
    places = []
    shift = 0
    for secret in masked:
        start = secret.start + shift
        end = start + len(placeholder(secret.kind))
        places.append(_Place(start, end, secret))
        shift = end - secret.end
    return [Secret(_start(s.start, places), _end(s.end, places), s.kind) for s in found]


class _Place(NamedTuple):
    """Where a placeholder stands in a masked text, and the secret it stands for."""

    start: int
    end: int
    secret: Secret


def _start(position: int, places: Iterable[_Place]) -> int:
    return _moved(position, places, lambda secret: secret.start)


def _end(position: int, places: Iterable[_Place]) -> int:
    return _moved(position, places, lambda secret: secret.end)


def _moved(position: int, places: Iterable[_Place], within: Callable[[Secret], int]) -> int:
    shift = 0
    for place in places:
        if position <= place.start:
            break
        if position < place.end:
            return within(place.secret)
        shift = place.secret.end - place.end
    return position + shift


def placeholder(kind: str) -> str:
    """What stands in a text instead of a secret."""
    return f"[secret:{kind}]"


def mask(text: str) -> str:
    """The text with its secrets replaced; the same object if it has none."""
    found = secrets_in(text)
    return _replaced(text, found) if found else text


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

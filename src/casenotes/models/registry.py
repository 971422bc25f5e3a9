"""Find an embedder by name, or by the label that a store remembers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static

from casenotes.config.settings import LOCAL
from casenotes.errors import SettingsError
from casenotes.models.embed import Embedder
from casenotes.models.joint import MINILM_WEIGHT, minilm_and_static
from casenotes.models.minilm import MiniLmEmbedder, minilm_is_installed
from casenotes.models.static import StaticEmbedder

BUILT_IN: dict[str, Callable[[], Embedder]] = {
    "minilm+static": minilm_and_static,
    "minilm": MiniLmEmbedder,
    "static": StaticEmbedder,
}

LABELS = {
    f"minilm+static:{MINILM_WEIGHT}": "minilm+static",
    MiniLmEmbedder.label: "minilm",
    StaticEmbedder.label: "static",
}
"""What stores remember, to the names above."""


def resolve_embedder(given: str | Embedder | None, remembered: str | None = None) -> Embedder:
    """The embedder of that name, or the object itself.

    None and `local` mean a built-in one: the one that the store remembers, in a new store the best
    that is installed.
    """
    if given is None or given == LOCAL:
        return (remembered and built_in_of_label(remembered)) or _best_installed()
    if isinstance(given, str):
        return _by_name(given)
    needed = ("label", "dimensions", "embed")
    missing = [name for name in needed if getattr_static(given, name, None) is None]
    if missing:
        raise SettingsError(f"embedder {given!r:.80} has no {', '.join(missing)}")
    return given


def embedder_of_label(label: str) -> Embedder | None:
    """The embedder that made the vectors of a space; None if it was an object of the caller's own."""
    try:
        return built_in_of_label(label) or _by_name(label)
    except SettingsError:
        return None


def built_in_of_label(label: str) -> Embedder | None:
    """The embedder of a space if it is one that needs no key."""
    return BUILT_IN[LABELS[label]]() if label in LABELS else None


def _best_installed() -> Embedder:
    return BUILT_IN["minilm+static" if minilm_is_installed() else "static"]()


def _by_name(name: str) -> Embedder:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if ":" in name or "/" in name:
        from casenotes.models.provider import ProviderEmbedder

        return ProviderEmbedder(name)
    raise SettingsError(
        f"embedder {name!r} is unknown; use {LOCAL}, {', '.join(BUILT_IN)}, a hosted one such as "
        "openai:text-embedding-3-small, or pass an object with `label`, `dimensions` and `async embed(texts)`"
    )

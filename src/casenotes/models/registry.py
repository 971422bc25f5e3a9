"""Find an embedder by name."""

from __future__ import annotations

from casenotes.errors import SettingsError
from casenotes.models.embed import Embedder
from casenotes.models.static import StaticEmbedder

LOCAL_NAMES = ("local", "static")


def resolve_embedder(given: str | Embedder | None) -> Embedder:
    """The embedder of that name, or the object itself; None and `local` mean the built-in one."""
    if given is None or given in LOCAL_NAMES:
        return StaticEmbedder()
    if isinstance(given, str):
        raise SettingsError(
            f"embedder {given!r} is unknown; use one of {', '.join(LOCAL_NAMES)}, or pass an object "
            "with `label`, `dimensions` and `async embed(texts)`"
        )
    missing = [name for name in ("label", "dimensions", "embed") if not hasattr(given, name)]
    if missing:
        raise SettingsError(f"embedder {given!r:.80} has no {', '.join(missing)}")
    return given

"""Every default, next to each other, with its unit in the name; the only reader of the environment.

Settings check themselves when they are made, so a wrong value fails at once and by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from casenotes.errors import SettingsError

DEFAULT_DATABASE_URL = "sqlite:///casenotes.db"
DEFAULT_AGENT = "default"
DEFAULT_LAST_MESSAGES = 20
DEFAULT_LEXICAL_WEIGHT = 0.35
LEXICAL_WEIGHTS = {"static:l2-supercat": 0.65, "minilm:all-MiniLM-L6-v2-int8": 0.4}
"""By embedder, as measured: the less an embedder understands, the more words count."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How memory is searched. The weights were measured: docs/benchmarks.md.

    Without a `lexical_weight` the one measured for the embedder is taken.
    """

    ranker: str = "default"
    top_k: int = 5
    half_life_days: float = 180.0
    lexical_weight: float | None = None
    thread_share: float = 0.15
    user_weight: float = 0.08
    centring: float = 0.5
    recency_weight: float = 0.005
    vector_floor: float = 0.15
    full_similarity: float = 0.3
    relevance_floor: float = 0.35
    bm25_k1: float = 1.5
    bm25_b: float = 0.9
    index_cache_bytes: int = 512 * 1024 * 1024
    deadline_seconds: float = 2.0

    def __post_init__(self) -> None:
        _choice("ranker", self.ranker, ("default", "rrf-decay"))
        _at_least("top_k", self.top_k, 1)
        _at_least("index_cache_bytes", self.index_cache_bytes, 0)
        if self.lexical_weight is not None:
            _between("lexical_weight", self.lexical_weight, 0, 1)
        for name in ("thread_share", "user_weight", "centring", "full_similarity", "recency_weight", "bm25_b"):
            _between(name, getattr(self, name), 0, 1)
        _between("vector_floor", self.vector_floor, -1, 1)
        _between("relevance_floor", self.relevance_floor, -1, 2)
        _at_least("bm25_k1", self.bm25_k1, 0)
        _at_least("deadline_seconds", self.deadline_seconds, 0)

    def for_embedder(self, label: str) -> SearchSettings:
        """These settings with the lexical weight that suits an embedder, unless one was given."""
        if self.lexical_weight is not None:
            return self
        return replace(self, lexical_weight=LEXICAL_WEIGHTS.get(label, DEFAULT_LEXICAL_WEIGHT))


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How the store is used."""

    max_message_characters: int = 1_000_000
    max_queued_writes: int = 10_000
    busy_timeout_seconds: float = 10.0
    postgres_pool_size: int = 8
    connect_timeout_seconds: float = 10.0
    close_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("max_message_characters", "max_queued_writes", "postgres_pool_size"):
            _at_least(name, getattr(self, name), 1)
        for name in ("busy_timeout_seconds", "connect_timeout_seconds", "close_timeout_seconds"):
            _at_least(name, getattr(self, name), 0)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one Memory."""

    last_messages: int = DEFAULT_LAST_MESSAGES
    search: SearchSettings = field(default_factory=SearchSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)

    def __post_init__(self) -> None:
        _at_least("last_messages", self.last_messages, 1)


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment variables say; every field is one variable."""

    database_url: str = DEFAULT_DATABASE_URL
    embedder_model: str = "local"
    last_messages: int = DEFAULT_LAST_MESSAGES

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """Read `CASENOTES_DATABASE_URL` and its siblings; an empty variable counts as unset."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            name = f"CASENOTES_{item.name.upper()}"
            if text := variables.get(name, ""):
                values[item.name] = _whole_number(name, text) if item.type == "int" else text
        return cls(**values)

    def settings(self) -> Settings:
        """The settings with what the environment overrides."""
        return Settings(last_messages=self.last_messages)


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Where files may lie that can be made again: `XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache", "casenotes")


def usable_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{name} is {text!r}; it must be a whole number") from None


def _at_least(name: str, value: float, minimum: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(f"{name} must be a number, got {value!r}")
    if not value >= minimum:
        raise SettingsError(f"{name} is {value!r}; it must be at least {minimum}")


def _between(name: str, value: float, low: float, high: float) -> None:
    _at_least(name, value, low)
    if not value <= high:
        raise SettingsError(f"{name} is {value!r}; it must be between {low} and {high}")


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")

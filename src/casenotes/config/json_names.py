"""The names of settings in JSON: camelCase under `memory`, in three sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

ROOT = "memory"
OBSERVATIONAL, EPISODIC, SIMILAR = "observationalMemory", "episodicMemory", "semanticRecall"
RUN, TURN = "maxEntriesPerRun", "maxEntriesPerTurn"
FIELDS: Mapping[str, Sequence[str]] = {
    "": ("enabled", "last_messages"),
    "semantic_recall": ("enabled", "top_k", "before", "after", "scope"),
    "observational": (
        "enabled",
        "observer_model",
        "reflector_model",
        "observer_threshold_tokens",
        "reflector_threshold_tokens",
        "render_token_budget",
        "observation_log_tail_limit",
        "lock_ttl_ms",
        "buffer_ratio",
        "idle_flush_seconds",
    ),
    "episodic": (
        "enabled",
        "credential",
        "top_k",
        "auto_inject",
        "auto_inject_top_k",
        "half_life_days",
        "max_entries_per_run",
        "max_entries_per_turn",
        "max_entry_length",
        "dedupe_similarity_threshold",
        "extractor_model",
        "reflector_model",
    ),
}
"""The settings that JSON knows, by section."""
KINDS = (OBSERVATIONAL, EPISODIC)
"""Sections that are never a switch for short."""
SECTIONS = {SIMILAR: "semantic_recall", OBSERVATIONAL: "observational", EPISODIC: "episodic"}
IN_JSON = {python: json for json, python in SECTIONS.items()}


def camel(name: str) -> str:
    """`top_k` as `topK`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def snake(name: str) -> str:
    """`lastMessages` as `last_messages`."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def json_fields() -> Iterator[tuple[str, str]]:
    """Every field of JSON with its setting, for the reference."""
    yield f"{ROOT}.storage", "storage.database, storage.credential"
    for section, names in FIELDS.items():
        for name in names:
            path = f"{section}.{name}" if section else name
            yield json_path(path), path


def json_path(path: str) -> str:
    """The place in JSON of a setting, or of a field within a model or database, for errors."""
    if path.startswith("storage."):
        return f"{ROOT}.{path}"
    setting, _, inner = path.partition("_model.")
    section, _, name = (f"{setting}_model" if inner else setting).rpartition(".")
    return ".".join(filter(None, (ROOT, IN_JSON.get(section, section), camel(name), inner)))

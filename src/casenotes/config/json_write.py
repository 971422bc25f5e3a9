"""Settings as JSON: what was given, in the names of JSON; what has no JSON form is refused by name."""

from __future__ import annotations

from math import isfinite
from typing import Any

from casenotes.config.json_names import FIELDS, IN_JSON, ROOT, RUN, SIMILAR, camel
from casenotes.config.rules import Model, rule_at, shown, stated
from casenotes.config.settings import Settings, WorkerModel
from casenotes.credentials import looks_like_a_secret
from casenotes.errors import SettingsError


def json_of(settings: Settings) -> dict[str, Any]:
    """What was given, as JSON; `maxEntriesPerRun` is the name that is written."""
    memory: dict[str, Any] = {}
    for path, value in stated(settings).items():
        section, name = _place(path)
        if path == "storage.credential" and _is_id(value):
            memory["storage"] = {"url": settings.storage.database, "credential": value}
        elif path == "storage.database":
            memory.setdefault("storage", value)
        elif section is None or not _has_json_form(path, value):
            raise SettingsError(f"{path} is {shown(value)}, which has no JSON form; leave it to Python")
        else:
            (memory.setdefault(section, {}) if section else memory)[name] = _plain(value)
    similar = memory.get(SIMILAR, {})
    if similar.keys() == {"enabled"}:
        memory[SIMILAR] = similar["enabled"]
    return {ROOT: memory}


def _place(path: str) -> tuple[str | None, str]:
    """The section of a setting in JSON, empty at the top, None if it has none; and its name there."""
    section, _, name = path.rpartition(".")
    if name not in FIELDS.get(section, ()):
        return None, name
    return IN_JSON.get(section, ""), RUN if name == "max_entries_per_turn" else camel(name)


def _has_json_form(path: str, value: object) -> bool:
    if isinstance(rule_at(Settings, path), Model):
        return isinstance(value, WorkerModel) and _is_id(value.credential)
    if path.endswith(".credential"):
        return _is_id(value)
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value))


def _is_id(value: object) -> bool:
    return isinstance(value, str) and not looks_like_a_secret(value)


def _plain(value: Any) -> Any:
    return {"model": value.model, "credential": value.credential} if isinstance(value, WorkerModel) else value

"""The JSON Schema of a configuration, made from the rules that settings are checked with."""

from __future__ import annotations

from typing import Any

from casenotes.config.json_names import EPISODIC, FIELDS, OBSERVATIONAL, RUN, SECTIONS, SIMILAR, TURN, camel
from casenotes.config.rules import rule_at, rules_of, sections_of
from casenotes.config.settings import HOSTED_EMBEDDER, LOCAL, STORAGE_NAMES, Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODEL_PATTERN = r"^(?!.*@http)[A-Za-z][\w.-]*[/:]\S+$"
CREDENTIAL = {"type": "string", "pattern": r"\S", "description": "The id of a credential, never a secret."}


def schema() -> dict[str, Any]:
    """The schema of `{"memory": {…}}`. What stands beside `memory` belongs to the host."""
    return {
        "$schema": DIALECT,
        "title": "Casenotes memory",
        "type": "object",
        "properties": {"memory": _memory()},
        "required": ["memory"],
        "$defs": {
            "workerModel": _both("model", {"type": "string", "pattern": MODEL_PATTERN}),
            "storage": {
                "anyOf": [
                    {"enum": list(STORAGE_NAMES)},
                    {"type": "string", "pattern": "^(sqlite:///|postgres(ql)?://)."},
                    _both("url", {"type": "string", "pattern": "^postgres(ql)?://"}),
                ],
                "description": "A name for the database of the environment, or a URL without password.",
            },
        },
    }


def _both(name: str, rule: dict[str, Any]) -> dict[str, Any]:
    """An object of a value and the credential that goes with it."""
    credential = CREDENTIAL | {"not": {"const": LOCAL}}
    return _object({name: rule, "credential": credential}) | {"required": [name, "credential"]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _memory() -> dict[str, Any]:
    properties = {camel(name): _field("", name) for name in FIELDS[""]}
    properties["storage"] = {"$ref": "#/$defs/storage"}
    sections = {json: _section(python) for json, python in SECTIONS.items()}
    sections[SIMILAR] = {"anyOf": [{"type": "boolean"}, sections[SIMILAR]]}
    sections[OBSERVATIONAL]["description"] = "Session memory: how long conversations are compressed."
    sections[EPISODIC]["description"] = "What is remembered across conversations; off where it is left out."
    whole = _object(properties | sections)
    off = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    return whole | {"if": {"not": off}, "then": {"properties": {EPISODIC: _with_credential()}}}


def _with_credential() -> dict[str, Any]:
    """Episodic memory that is on has a credential."""
    off = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    return {"if": {"not": off}, "then": {"required": ["credential"]}}


def _section(section: str) -> dict[str, Any]:
    return _object({camel(name): _field(section, name) for name in FIELDS[section]})


def _field(section: str, name: str) -> dict[str, Any]:
    """A field with its default; one that is a model, a credential or another's name has none."""
    if name == "credential":
        text = f"For embeddings with {HOSTED_EMBEDDER}; '{LOCAL}' is the built-in embedder."
        return CREDENTIAL | {"description": text}
    described = rule_at(Settings, f"{section}.{name}" if section else name).schema()
    default = _default(section, name)
    if camel(name) in (RUN, TURN):
        default = _default(section, "max_entries_per_turn")
    return described if default is None else described | {"default": default}


def _default(section: str, name: str) -> Any:
    cls = sections_of(Settings)[section] if section else Settings
    return getattr(cls(), name) if name in rules_of(cls) else None

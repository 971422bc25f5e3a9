"""What the environment and the file `casenotes.toml` say; the only place that reads them.

Both have the same nine names, in upper case with a prefix and in lower case. Each stands for one setting, whose
rule it is held to under its own name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from casenotes.config.rules import Model, Rule, Text, rule_at
from casenotes.config.settings import DEFAULT_DATABASE_URL, LOCAL, Settings
from casenotes.errors import SettingsError

PREFIX = "CASENOTES_"
FILE_NAME = "casenotes.toml"
OUTSIDE: Mapping[str, str] = {"database_url": DEFAULT_DATABASE_URL, "model": "", "embedder_model": LOCAL}
"""What is not part of Settings, since Python callers pass it to `Memory.open`, with its default."""

PATHS: Mapping[str, str] = {
    "database_url": "database_url",
    "model": "model",
    "last_messages": "last_messages",
    "embedder_model": "embedder_model",
    "semantic_recall": "semantic_recall.enabled",
    "semantic_recall_top_k": "semantic_recall.top_k",
    "observer_model": "observational.observer_model",
    "observer_message_tokens": "observational.observer_threshold_tokens",
    "reflector_observation_tokens": "observational.reflector_threshold_tokens",
}
"""The setting of each name."""


class Stated(NamedTuple):
    """A value and where it stands."""

    value: Any
    origin: str


def variable(name: str) -> str:
    """The environment variable of a name."""
    return PREFIX + name.upper()


def from_environment(variables: Mapping[str, str] = os.environ) -> dict[str, Stated]:
    """The settings that variables give; an empty one counts as unset."""
    found: dict[str, Stated] = {}
    for name, path in PATHS.items():
        if text := variables.get(variable(name), ""):
            value = _checked(variable(name), _rule(path).read(text), _rule(path))
            found[path] = Stated(value, variable(name))
    return found


def unknown_variables(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that look like settings and are none, each with what may be meant."""
    known = {variable(name) for name in PATHS}
    odd = [name for name in variables if name.startswith(PREFIX) and name not in known]
    alike = {name: get_close_matches(name, known, 1, 0.85) for name in odd}
    return {name: f"; did you mean {found[0]}?" for name, found in alike.items() if found}


def from_file(path: Path | None = None) -> dict[str, Stated]:
    """The settings that `casenotes.toml` in the working directory gives; none if there is no such file."""
    path = path or Path(FILE_NAME)
    found: dict[str, Stated] = {}
    for name, value in _toml(path).items():
        if name not in PATHS:
            raise SettingsError(f"{name} in {path} is unknown; use {', '.join(PATHS)}")
        if value != "":
            setting = PATHS[name]
            found[setting] = Stated(_checked(f"{name} in {path}", value, _rule(setting)), str(path))
    return found


def _toml(path: Path) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a number of thousands of digits
        raise SettingsError(f"{path} is not understood: {str(error)[:80]}; it is a TOML file") from None


def _rule(path: str) -> Rule:
    rule = Text() if path in OUTSIDE else rule_at(Settings, path)
    return Text() if isinstance(rule, Model) else rule  # it is named by a text here


def _checked(name: str, value: Any, rule: Rule) -> Any:
    if fault := rule.fault(value):
        raise SettingsError(f"{name} {fault.text}")
    return value


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Where files may lie that can be made again: `XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache", "casenotes")


def usable_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

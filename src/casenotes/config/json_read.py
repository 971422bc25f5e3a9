"""Settings as JSON: camelCase names under `memory`, read strictly, and all that is wrong told at once.

What stands beside `memory` belongs to the host and is left alone. A secret has no place in the object: models,
embeddings and databases name credentials by id. A model may not name the address of a server here, because the
key of its credential would be sent there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple

from casenotes.config.json_names import (
    EPISODIC,
    FIELDS,
    OBSERVATIONAL,
    ROOT,
    RUN,
    SECTIONS,
    SIMILAR,
    TURN,
    camel,
    snake,
)
from casenotes.config.rules import (
    Model,
    OrNone,
    Rule,
    Whole,
    built,
    rule_at,
    rules_of,
    sections_of,
    shown,
    shown_name,
)
from casenotes.config.settings import (
    LOCAL,
    POSTGRES,
    STORAGE_NAMES,
    EpisodicSettings,
    Settings,
    WorkerModel,
    has_password,
    leads_elsewhere,
    without_password,
)
from casenotes.credentials import looks_like_a_secret
from casenotes.errors import SettingsError

LONGEST_TEXT = 1_000_000
LONGEST_NAME = 80
MOST_PROBLEMS = 50
"""So many lines of an error help; there may be more of them in the object."""
MODEL_NAME = re.compile(r"[A-Za-z][\w.-]*[/:]\S+", re.ASCII)
STORAGE_REMEDY = (
    "use default or n8n for the database of the environment, or a URL such as sqlite:///agent.db or "
    "postgresql://user@host/name"
)


class Problem(NamedTuple):
    """A violated rule, and the path to the field that violates it."""

    path: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path} {self.text}"


@dataclass(frozen=True, slots=True)
class JsonConfig:
    """What a JSON object says: values by path of Settings, and what is wrong with it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def checked(self) -> dict[str, Any]:
        """The values; raises if anything is wrong."""
        if self.problems:
            lines = [str(problem) for problem in self.problems[:MOST_PROBLEMS]]
            more = len(self.problems) - len(lines)
            raise SettingsError("\n".join([*lines, *([f"and {more:,} more"] if more else [])]))
        return self.values


def settings_of(config: Mapping[str, Any] | str) -> Settings:
    """The settings of a JSON object or text; credentials are not looked up yet."""
    return built_from_json(read_json(config).checked())


def built_from_json(values: Mapping[str, Any]) -> Settings:
    """Settings of what was read. Episodic memory needs a credential, so it is off where it is not mentioned."""
    settings: Settings = built(Settings, values)
    if not any(path.startswith("episodic.") for path in values):
        object.__setattr__(settings, "episodic", EpisodicSettings(enabled=False))
    object.__setattr__(settings, "is_from_json", True)  # no key of the environment is for its embeddings
    return settings


def read_json(
    config: Mapping[str, Any] | str,
    *,
    any_storage: bool = False,
    storage: str | None = None,
    has_embedder: bool = False,
) -> JsonConfig:
    """What the object says.

    A caller that names the database itself takes any name for it; `storage` is one that the host has for its
    own. A caller that brings an embedder needs no credential for one.
    """
    given = _parsed(config) if isinstance(config, str) else config
    read = _Reader(given, (*STORAGE_NAMES, storage), any_storage, has_embedder)
    read.read(given)
    return read.result


def _parsed(text: str) -> Any:
    if len(text) > LONGEST_TEXT:
        raise SettingsError(f"the configuration has {len(text):,} characters; {LONGEST_TEXT:,} are the most")
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        remedy = "pass what is in the file" if text.strip().endswith((".json", ".toml")) else "mend it there"
        raise SettingsError(f"the configuration is no JSON ({at}); {remedy}") from None
    except SettingsError:
        raise
    except (ValueError, RecursionError):
        raise SettingsError(
            "the configuration is nested too deeply, or has a number that is too long; make it smaller"
        ) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise SettingsError(f"the configuration has {shown(twice)} twice in one object; leave one of them")
    return found


def _no_constant(name: str) -> Any:
    raise SettingsError(f"the configuration has {name}, which is no JSON; write a number")


def json_object(config: object) -> Mapping[str, Any] | str:
    """The configuration if it has a form that JSON comes in."""
    if isinstance(config, (Mapping, str)):
        return config
    raise SettingsError(f"config is a {type(config).__name__}; pass a JSON object with `memory`, or its text")


class _Reader:
    """Reads one object; goes on after each problem."""

    def __init__(self, given: Any, names: Sequence[str | None], any_storage: bool, has_embedder: bool) -> None:
        self._names = names
        self._any_storage = any_storage
        self._has_embedder = has_embedder
        self.result = JsonConfig(given if isinstance(given, Mapping) else {})

    def _wrong(self, path: str, rule: str, text: str) -> None:
        self.result.problems.append(Problem(path, rule, text))

    def read(self, config: object) -> None:
        """The whole object."""
        if not isinstance(config, Mapping):
            self._wrong("the configuration", "wrong_type", f"is {_said(config)}; it must be an object")
            return
        for name in sorted(config.keys() & SECTIONS.keys()):
            self._wrong(name, "misplaced", f"stands beside {ROOT}; put it into {ROOT}")
        if ROOT not in config:
            self._wrong(ROOT, "missing_field", 'is missing; write {"memory": {"enabled": true}}')
        elif self._is_object(ROOT, config[ROOT]):
            self._memory(config[ROOT])

    def _memory(self, memory: Mapping[str, Any]) -> None:
        for name, value in memory.items():
            read = KNOWN.get(name)
            if read is None:
                self._unknown(ROOT, name, KNOWN)
            elif value is None:
                self._null(f"{ROOT}.{name}")
            else:
                read(self, f"{ROOT}.{name}", value)
        if EPISODIC in memory and memory.get("enabled") is not False:
            self._needs_credential(memory[EPISODIC])
        self._conflicts()

    def _unknown(self, path: str, name: object, known: Mapping[str, Any]) -> None:
        self._wrong(f"{path}.{shown_name(name)}", "unknown_field", f"is unknown; {_instead(path, name, known)}")

    def _null(self, path: str) -> None:
        self._wrong(path, "wrong_type", "is null; give a value, or leave the field out")

    def _is_object(self, path: str, value: object) -> bool:
        if not isinstance(value, Mapping):
            self._wrong(
                path, "wrong_type", f'is {_said(value)}; it must be an object such as {{"enabled": true}}'
            )
        return isinstance(value, Mapping)

    def plain(self, path: str, value: Any) -> None:
        """A setting of the top."""
        self._setting(path, snake(path.removeprefix(f"{ROOT}.")), value)

    def _setting(self, path: str, setting: str, value: Any) -> None:
        rule = rule_at(Settings, setting)
        if _counts(rule) and isinstance(value, float) and value.is_integer():
            value = int(value)  # in JSON 20.0 is the same number as 20
        if isinstance(value, float) and not isfinite(value):
            self._wrong(path, "out_of_range", "is no finite number; write a smaller one")
        elif isinstance(rule, Model):
            self._worker(path, setting, value)
        elif setting.endswith(".credential"):
            self._credential(path, setting, value)
        elif fault := rule.fault(value):
            self._wrong(path, fault.kind, fault.text)
        else:
            self.result.values[setting] = value

    def similar(self, path: str, value: Any) -> None:
        """Semantic recall may be a switch for short."""
        if isinstance(value, bool):
            self.result.values["semantic_recall.enabled"] = value
        elif isinstance(value, Mapping):
            self.section(path, {"enabled": True} | dict(value))
        else:
            self._wrong(path, "wrong_type", f"is {shown(value)}; it must be true or false, or an object")

    def section(self, path: str, value: Any) -> None:
        """An object of settings."""
        if not self._is_object(path, value):
            return
        section = SECTIONS[path.removeprefix(f"{ROOT}.")]
        if not value and section == SECTIONS[EPISODIC]:
            self.result.values["episodic.enabled"] = True  # being mentioned is what switches it on
        names = {camel(name): name for name in FIELDS[section]}
        for name, given in value.items():
            if name not in names:
                self._unknown(path, name, names)
            elif given is None:
                self._null(f"{path}.{name}")
            else:
                self._setting(f"{path}.{name}", f"{section}.{names[name]}", given)

    def storage(self, path: str, value: Any) -> None:
        """A name, a URL without password, or a URL with the credential of its password."""
        if isinstance(value, Mapping):
            self._url_with_credential(path, value)
        elif not isinstance(value, str):
            self._wrong(path, "wrong_type", f"is {shown(value)}; {STORAGE_REMEDY}")
        elif self._is_usable_storage(path, value):
            self.result.values["storage.database"] = value

    def _url_with_credential(self, path: str, value: Mapping[str, Any]) -> None:
        if not self._has_exactly(path, value, ("url", "credential")):
            return
        url = value["url"]
        if not isinstance(url, str) or not url.startswith(POSTGRES):
            remedy = "it must be a URL such as postgresql://user@host/name, as only such have a password"
            self._wrong(f"{path}.url", "wrong_type", f"is {_shown_url(url)}; {remedy}")
        elif self._is_usable_storage(f"{path}.url", url):
            self.result.values["storage.database"] = url
            self._credential(f"{path}.credential", "storage.credential", value["credential"])

    def _has_exactly(self, path: str, value: Mapping[str, Any], names: Sequence[str]) -> bool:
        before = len(self.result.problems)
        for name in value:
            if name not in names:
                self._unknown(path, name, dict.fromkeys(names))
        for name in names:
            if value.get(name) is None:
                kind = "missing_credential" if name == "credential" else "missing_field"
                self._wrong(f"{path}.{name}", kind, f"is missing; give {' and '.join(names)}")
        return len(self.result.problems) == before

    def _is_usable_storage(self, path: str, value: str) -> bool:
        if value in self._names or (self._any_storage and "://" not in value):
            return True
        if has_password(value):
            remedy = 'write {"url": …, "credential": id}, or set CASENOTES_DATABASE_URL and write default'
            self._wrong(path, "password_in_url", f"is a URL with a password; {remedy}")
            return False
        if value.startswith(POSTGRES) and leads_elsewhere(value):
            remedy = "leave host, hostaddr, port, service and passfile out of its query"
            self._wrong(path, "out_of_range", f"is a URL whose query names another server; {remedy}")
            return False
        if value.startswith((*POSTGRES, "sqlite:///")) and value.partition("://")[2].strip("/ \t\n"):
            return True
        self._wrong(path, "out_of_range", f"is {_shown_url(value)}; {STORAGE_REMEDY}")
        return False

    def _credential(self, path: str, setting: str, value: Any) -> None:
        if not isinstance(value, str) or not value.strip():
            self._wrong(path, "wrong_type", f"is {shown(value)}; it must be the id of a credential")
        elif looks_like_a_secret(value):
            self._wrong(path, "secret_in_config", "looks like a secret; keep that elsewhere and write its id")
        elif value == LOCAL and setting != "episodic.credential":
            self._wrong(path, "out_of_range", f"is '{LOCAL}', which is for embeddings; name another credential")
        else:
            self.result.values[setting] = value

    def _worker(self, path: str, setting: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            remedy = 'write {"model": "provider/name", "credential": id}'
            self._wrong(path, "wrong_type", f"is {shown(value)}; {remedy}")
            return
        if not self._has_exactly(path, value, ("model", "credential")):
            return
        key = f"{setting}.credential"
        self._credential(f"{path}.credential", key, value["credential"])
        credential = self.result.values.pop(key, None)
        if fault := _model_fault(value["model"]):
            self._wrong(f"{path}.model", *fault)
        elif credential:
            self.result.values[setting] = WorkerModel(value["model"], credential)

    def _needs_credential(self, section: Any) -> None:
        if not isinstance(section, Mapping) or section.get("enabled", True) is not True or self._has_embedder:
            return
        if "credential" not in section:
            remedy = (
                f"give the id of an OpenAI key for embeddings, or '{LOCAL}' for the built-in embedder, or set "
                "enabled to false"
            )
            self._wrong(f"{ROOT}.{EPISODIC}.credential", "missing_credential", f"is missing; {remedy}")

    def _conflicts(self) -> None:
        """Both names of one setting, with different values."""
        values = self.result.values
        run, turn = values.get("episodic.max_entries_per_run"), values.get("episodic.max_entries_per_turn")
        if None not in (run, turn) and run != turn:
            text = f"is {run} and {TURN} is {turn}; they are two names of one setting, give one"
            self._wrong(f"{ROOT}.{EPISODIC}.{RUN}", "conflict", text)
        elif run is not None:
            values["episodic.max_entries_per_turn"] = values.pop("episodic.max_entries_per_run")


KNOWN: Mapping[str, Callable[[_Reader, str, Any], None]] = {
    "enabled": _Reader.plain,
    "storage": _Reader.storage,
    "lastMessages": _Reader.plain,
    SIMILAR: _Reader.similar,
    OBSERVATIONAL: _Reader.section,
    EPISODIC: _Reader.section,
}
"""How each field of `memory` is read."""


def _shown_url(value: object) -> str:
    """A URL without what may be a password in it."""
    return shown(without_password(value) if isinstance(value, str) else value)


def _said(value: object) -> str:
    """A value in the words of JSON."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else shown(value)


def _model_fault(name: object) -> tuple[str, str] | None:
    if not isinstance(name, str) or not name.strip():
        return "wrong_type", f"is {shown(name)}; it must be a text such as openai/gpt-5-mini"
    if "@http" in name.lower():
        return "out_of_range", (
            "names the address of a server, to which the key of its credential would be sent; pass such a "
            "model in Python"
        )
    if not MODEL_NAME.fullmatch(name):
        return "out_of_range", f"is {shown(name)}; it must be provider/name, such as openai/gpt-5-mini"
    return None


def _instead(path: str, name: object, known: Mapping[str, Any]) -> str:
    """What to write in place of an unknown name."""
    text = str(name)[:LONGEST_NAME]
    if _is_of_python(path, text) and camel(text) not in known:
        return "it can be set in Python only"
    alike = get_close_matches(camel(text), known, 1)
    return f"did you mean {alike[0]}?" if alike else f"use {', '.join(known)}"


def _counts(rule: Rule) -> bool:
    return isinstance(rule.rule if isinstance(rule, OrNone) else rule, Whole)


def _is_of_python(path: str, name: str) -> bool:
    """Whether a name that JSON does not know is one of a setting in Python."""
    section = SECTIONS.get(path.removeprefix(f"{ROOT}."), "")
    own = sections_of(Settings).get(section, Settings)
    return snake(name) in rules_of(own) or (own is Settings and name in sections_of(own))

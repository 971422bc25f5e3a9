"""Which value counts: that of the call, else of the settings, the environment, the file, the default.

All sources become values by path (`episodic.top_k`), so that each value can say where it came from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from casenotes.config.rules import Section, built, rules_of, sections_of, stated
from casenotes.config.settings import STORAGE_NAMES, Settings
from casenotes.config.sources import OUTSIDE, Stated, from_environment, from_file
from casenotes.errors import SettingsError

NOWHERE, LIGHT = "sqlite:///:memory:", "static"
"""Where a memory lies that is off, and its embedder: nothing is put there, and nothing is embedded."""

ON = Stated(True, "default")
CALL, JSON, PYTHON, DEFAULT = "call", "JSON", "Settings", "default"


class Shown(NamedTuple):
    """An effective value and where it came from."""

    path: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Effective:
    """What counts, from all sources together."""

    settings: Settings
    database_url: str = field(repr=False)  # it may have a password
    model: Any
    embedder: Any
    origins: Mapping[str, str]
    from_json: bool = False

    def values(self) -> Iterator[Shown]:
        """Every value with its origin, sections in the order of `Settings`."""
        outside = (self.database_url, self.model, self.embedder)
        for path, value in (*zip(OUTSIDE, outside, strict=True), *_leaves(self.settings)):
            yield Shown(path, value, self.origins.get(path, DEFAULT))


def effective(
    config: Settings | Mapping[str, Any] | str | None = None,
    *,
    url: str | None = None,
    model: Any = None,
    embedder: Any = None,
    storage: str | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Effective:
    """What counts for a call with these arguments; raises if any source is wrong.

    `storage` is a name that the host has for its own database.
    """
    url = url or None
    values = from_file() | from_environment(variables) | _own(config, url, embedder, storage)
    values |= _of_call({"database_url": url, "model": model, "embedder_model": embedder})
    is_json = config.is_from_json if isinstance(config, Settings) else config is not None
    if values.get("enabled", ON).value is False:
        return _switched_off(values["enabled"].origin, is_json)
    return _switched_on(values, is_json)


def _switched_on(values: dict[str, Stated], is_json: bool) -> Effective:
    origins = {path: value.origin for path, value in values.items()}
    if is_json and not any(path.startswith("episodic.") for path in values):
        origins["episodic.enabled"] = JSON  # by saying nothing of it
    url, model, embedder = (
        values.pop(name, Stated(default, DEFAULT)).value for name, default in OUTSIDE.items()
    )
    chosen = {path: value.value for path, value in values.items()}
    settings = _built_from_json(chosen) if is_json else built(Settings, chosen)
    _check_reach(settings, url)
    return Effective(settings, url, model, embedder, origins, is_json)


def _check_reach(settings: Settings, url: str) -> None:
    if not settings.jobs.in_process and url == NOWHERE:
        raise SettingsError(
            f"jobs.in_process is False and the database is {NOWHERE}, which no worker can reach; name a "
            "file or a server, or leave the work in the process"
        )


def _switched_off(origin: str, is_json: bool) -> Effective:
    """Nothing of a memory that is off: no file, no server, no key."""
    sections = [f"{name}.enabled" for name in sections_of(Settings) if _can_be_off(name)]
    off = dict.fromkeys(["enabled", *sections], False)
    origins = dict.fromkeys([*off, *OUTSIDE], origin)
    return Effective(built(Settings, off), NOWHERE, "", LIGHT, origins, is_json)


def _can_be_off(section: str) -> bool:
    return "enabled" in rules_of(sections_of(Settings)[section])


def _own(config: object, url: str | None, embedder: Any, storage: str | None) -> dict[str, Stated]:
    """What the settings say, whichever form they have."""
    if config is None:
        return {}
    if isinstance(config, Settings):
        given = stated(config)
        if not config.episodic.enabled:  # settings from JSON may have it off by saying nothing of it
            given["episodic.enabled"] = False
        return _with_database({path: Stated(value, PYTHON) for path, value in given.items()})
    if isinstance(config, (Mapping, str)):
        from casenotes.config.json_read import read_json  # most programs have no JSON

        has_embedder = embedder is not None
        read = read_json(config, any_storage=url is not None, storage=storage, has_embedder=has_embedder)
        return _with_database({path: Stated(value, JSON) for path, value in read.checked().items()})
    raise SettingsError(f"config is a {type(config).__name__}; pass Settings, or a JSON object with `memory`")


def _built_from_json(values: Mapping[str, Any]) -> Settings:
    from casenotes.config.json_read import built_from_json

    return built_from_json(values)


def _with_database(values: dict[str, Stated]) -> dict[str, Stated]:
    """The URL of the settings is the database; a name stands for that of the environment."""
    given = values.get("storage.database")
    if given and given.value not in STORAGE_NAMES:
        values["database_url"] = given
    return values


def _of_call(given: Mapping[str, Any]) -> dict[str, Stated]:
    return {name: Stated(value, CALL) for name, value in given.items() if value is not None}


def _leaves(section: Section, prefix: str = "") -> Iterator[tuple[str, Any]]:
    cls: Any = type(section)
    for name in rules_of(cls):
        yield prefix + name, getattr(section, name)
    for name in sections_of(cls):
        yield from _leaves(getattr(section, name), f"{prefix}{name}.")

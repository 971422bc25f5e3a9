"""Change a configuration without losing what the change does not mention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from casenotes.config.json_names import KINDS, RUN, SIMILAR, TURN


def updated(config: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with a change: objects are merged, null takes a field out, all else is replaced.

    What the change does not mention stays as it is. A model or database with its credential is one value, and a
    switch stands for an object with `enabled`.
    """
    result = dict(config)
    for name, value in change.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif _is_section(value) or (isinstance(value, bool) and (name in KINDS or _is_section(before))):
            merged = updated(_as_section(before), _as_section(value))
            if merged or name in result:
                result[name] = merged
        else:
            result[name] = value
    if (RUN in change) != (TURN in change):  # two names of one setting: the one that was given counts
        result.pop(TURN if RUN in change else RUN, None)
    return result


def _is_section(value: object) -> bool:
    return isinstance(value, Mapping) and value.keys().isdisjoint(("model", "url"))


def _as_section(value: object) -> Mapping[str, Any]:
    if isinstance(value, bool):
        return {"enabled": value}
    return value if isinstance(value, Mapping) and _is_section(value) else {}


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a configuration with its path; a model or database with its credential is one."""
    for name, value in config.items():
        if isinstance(value, Mapping) and _is_section(value):
            yield from leaves(value, f"{prefix}{name}.")
        elif name == SIMILAR and isinstance(value, bool):
            yield f"{prefix}{name}.enabled", value
        else:
            yield f"{prefix}{name}", value

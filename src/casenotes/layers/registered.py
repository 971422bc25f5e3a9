"""Take layers of others as they come: what is left out has a default, what cannot work is refused by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from typing import Any, get_args

from casenotes.errors import SettingsError
from casenotes.layers.base import BaseLayer, Layer, LayerScope, TokenRange
from casenotes.types import OUTCOMES, Outcome

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
HOOKS = ("init", "recall", "tools", "learn", "complete")


class RegisteredLayer:
    """A layer of somebody else, complete and checked. See Layer."""

    def __init__(self, given: Any) -> None:
        self.name = _name(given)
        self.slot = _slot(given, self.name)
        self.scope = _scope(given, self.name)
        self.budget = _budget(given, self.name)
        self.stable = _switch(given, "stable", self.name)
        self.every_step = _switch(given, "every_step", self.name)
        self.learns_from = _learns_from(given, self.name)
        self.init, self.recall, self.tools, self.learn, self.complete = (
            _hook(given, hook, self.name) for hook in HOOKS
        )


def registered(given: Sequence[Any], own: Sequence[Layer], reserved: Set[str]) -> list[Layer]:
    """Layers of others behind our own; no two may share a name, as they would share a state.

    The names of our own are reserved, also of those that are switched off: what they keep is still there.
    """
    others = [RegisteredLayer(layer) for layer in given]
    names = [layer.name for layer in others]
    if ours := sorted(reserved & set(names)):
        raise SettingsError(f"a layer is named {ours[0]!r}, which is built in; give it a name of its own")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"two layers are named {', '.join(twice)}; give each a name of its own")
    return [*own, *others]


def gives_blocks(layer: Layer) -> bool:
    """Whether asking it can bring anything."""
    return getattr(layer.recall, "__func__", None) is not BaseLayer.recall


def _value(given: Any, name: str) -> Any:
    return getattr(given, name, getattr(BaseLayer, name))


def _hook(given: Any, name: str, layer: str) -> Any:
    hook = getattr(given, name, getattr(BaseLayer(), name))
    if not callable(hook):
        raise SettingsError(f"layer {layer!r}: {name} is {hook!r:.80}; it must be a function, or left out")
    return hook


def _switch(given: Any, name: str, layer: str) -> bool:
    value = _value(given, name)
    if not isinstance(value, bool):
        raise SettingsError(f"layer {layer!r}: {name} is {value!r:.80}; it must be True or False")
    return value


def _learns_from(given: Any, layer: str) -> tuple[Outcome, ...]:
    """The outcomes that it wants; none where learning would do nothing."""
    value = _value(given, "learns_from")
    if isinstance(value, str) or not isinstance(value, Collection):
        raise SettingsError(f"layer {layer!r}: learns_from is {value!r:.80}; it must be a list of outcomes")
    if unknown := [outcome for outcome in value if outcome not in OUTCOMES]:
        raise SettingsError(f"layer {layer!r}: learns_from has {unknown}; use {', '.join(OUTCOMES)}")
    is_inherited = isinstance(given, BaseLayer) and type(given).learn is BaseLayer.learn
    return tuple(value) if hasattr(given, "learn") and not is_inherited else ()


def _name(given: Any) -> str:
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise SettingsError(
            f"layer {given!r:.80} is named {name!r}; give it a `name` of letters, digits, '-', '_' and '.'"
        )
    return name


def _slot(given: Any, name: str) -> int:
    slot = _value(given, "slot")
    if not isinstance(slot, int) or isinstance(slot, bool):
        raise SettingsError(f"layer {name!r}: slot is {slot!r}; it must be a whole number such as 350")
    return slot


def _scope(given: Any, name: str) -> LayerScope:
    scope: LayerScope = _value(given, "scope")
    if scope not in get_args(LayerScope):
        raise SettingsError(f"layer {name!r}: scope is {scope!r}; it must be 'thread' or 'resource'")
    return scope


def _budget(given: Any, name: str) -> TokenRange:
    budget = _value(given, "budget")
    low, high = (budget.min, budget.max) if isinstance(budget, TokenRange) else _pair(budget, name)
    if not all(isinstance(size, int) for size in (low, high)) or not 0 <= low <= high:
        raise SettingsError(f"layer {name!r}: budget is {budget!r}; it must be (min, max) with 0 <= min <= max")
    return TokenRange(low, high)


def _pair(budget: Any, name: str) -> tuple[Any, Any]:
    try:
        low, high = budget
    except (TypeError, ValueError):
        raise SettingsError(f"layer {name!r}: budget is {budget!r}; it must be (min, max) in tokens") from None
    return low, high

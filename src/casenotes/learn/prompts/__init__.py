"""The built-in texts for models, as files; settings can replace those that users may want to change."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def prompt(name: str) -> str:
    """The text of that name."""
    return resources.files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


def filled(name: str, **values: str) -> str:
    """The text of that name with its `{{places}}` filled in; what is filled in is not looked at again."""
    pieces = prompt(name).split("{{")
    rest = [piece.split("}}", 1) for piece in pieces[1:]]
    return pieces[0] + "".join(values[place] + text for place, text in rest)

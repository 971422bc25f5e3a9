"""List every rule that a finished configuration violates, with the path to the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from casenotes.builder.judge import INSTRUCTIONS, judge_instructions
from casenotes.config.json_read import Problem, read_json
from casenotes.config.rules import shown


def verify(config: Mapping[str, Any] | str, *, storage: str | None = None) -> list[Problem]:
    """What is wrong with a configuration in itself, its instructions included; credentials are not looked up.

    `storage` is the name that the host has for its own, if it has one. Text that is no JSON raises
    SettingsError.
    """
    read = read_json(config, storage=storage)
    instructions = read.config.get(INSTRUCTIONS)
    if isinstance(instructions, str):
        return [*read.problems, *judge_instructions(instructions)]
    wrong = Problem(INSTRUCTIONS, "wrong_type", f"are {shown(instructions)}; they must be a text")
    return [*read.problems, *([] if instructions is None else [wrong])]

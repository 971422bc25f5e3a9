"""Write docs/reference/ from the code: commands, settings, errors, schema. The tests fail if it is outdated."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from casenotes import config, errors
from casenotes.cli.app import app
from casenotes.config import json_schema, sources
from casenotes.config.json_names import json_fields

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- written by docs/generate_reference.py -->\n"


def cli_page() -> str:
    """Every command with its options."""
    lines = ["# Commands", NOTE, *_command_lines("casenotes", typer.main.get_command(app))]
    return "\n".join(lines) + "\n"


def _command_lines(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for sub_name, sub_command in command.commands.items():
            yield from _command_lines(f"{name} {sub_name}", sub_command)
        return
    yield f"## {name}\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    yield "| option | meaning | default |\n|---|---|---|"
    for parameter in command.params:
        shown = ", ".join(f"`{option}`" for option in parameter.opts)
        if parameter.param_type_name == "argument":
            shown = f"`{parameter.name.upper()}`"
        default = "required" if parameter.required else _shown_default(parameter.default)
        yield f"| {shown} | {getattr(parameter, 'help', '') or ''} | {default} |"
    yield ""


def _shown_default(value: object) -> str:
    return "" if value is None or value is False or callable(value) else f"`{value}`"


def settings_page() -> str:
    """Every setting with its default, and the environment variables."""
    lines = ["# Settings", NOTE]
    for cls in (config.Settings, *_parts(config.Settings)):
        lines += [
            f"## {cls.__name__}\n",
            inspect.cleandoc(cls.__doc__ or "") + "\n",
            "| setting | default |\n|---|---|",
        ]
        for item in dataclasses.fields(cls):
            default = item.default
            if default is dataclasses.MISSING:
                default = f"{type(item.default_factory()).__name__}()"
            lines.append(f"| `{item.name}` | `{default}` |")
        lines.append("")
    lines += [
        "## Environment\n",
        f"A file `{sources.FILE_NAME}` in the working directory has the same names in lower case.\n",
        "| variable | in the file | setting |\n|---|---|---|",
    ]
    for name, path in sources.PATHS.items():
        lines.append(f"| `{sources.variable(name)}` | `{name}` | `{path}` |")
    lines += [
        "",
        "## JSON\n",
        'The JSON Schema of `{"memory": {…}}` is [memory.schema.json](memory.schema.json).\n',
    ]
    lines += ["| field | setting |\n|---|---|", *(f"| `{field}` | `{path}` |" for field, path in json_fields())]
    return "\n".join(lines) + "\n"


def _parts(cls: type) -> Iterator[type]:
    """The classes of settings that another one holds."""
    made = [item.default_factory for item in dataclasses.fields(cls)]
    yield from (type(factory()) for factory in made if factory is not dataclasses.MISSING)


def errors_page() -> str:
    """The tree of errors."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    return f"# Errors\n\n{NOTE}\n{tree[0]}\n\n```text\n{inspect.cleandoc(tree[2])}\n```\n"


def schema_page() -> str:
    """The JSON Schema of a configuration."""
    return json.dumps(json_schema.schema(), indent=2, ensure_ascii=False) + "\n"


PAGES = {
    "cli.md": cli_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "memory.schema.json": schema_page,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")

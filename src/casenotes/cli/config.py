"""`casenotes config`: what is set and by whom, the JSON Schema, checking a configuration, and making one."""

from __future__ import annotations

import asyncio
import json as json_module
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from casenotes.cli.config_questions import Answers, Given, asked
from casenotes.cli.files import write_file
from casenotes.cli.options import Db, Json
from casenotes.cli.output import console, errors, escape_json, print_json, print_table, safe
from casenotes.config import Effective, effective
from casenotes.config.json_names import ROOT
from casenotes.config.json_read import Problem, read_json
from casenotes.config.json_schema import schema as json_schema
from casenotes.config.json_update import updated
from casenotes.config.rules import shown
from casenotes.config.settings import LOCAL, without_password
from casenotes.config.sources import unknown_variables
from casenotes.credentials import FileCredentials
from casenotes.errors import SettingsError, UsageError
from casenotes.masking import mask

app = typer.Typer(no_args_is_help=True, help="See, check and make the settings of a memory.")
DEFAULT_FILE = "memory.json"
STDIN = "-"
File = Annotated[str, typer.Argument(metavar="FILE", help='A JSON file with "memory"; - reads standard input.')]
Credentials = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML or JSON with secrets by id, mode 0600: looks up what is named."),
]


@app.command()
def show(
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help='Also take a JSON file with "memory".')
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what was set somewhere.")] = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Print every effective value and where it came from.

    The order is: call, then JSON or Settings, then the environment, then casenotes.toml, then the default.
    """
    chosen = effective(_text(config) if config else None, url=db)
    for name, meant in unknown_variables().items():
        errors.print(f"warning: {name} is no setting{meant}", style="yellow", markup=False, soft_wrap=True)
    rows = [row for row in _rows(chosen) if not changed or row["origin"] != "default"]
    if json:
        print_json({"settings": rows})
        return
    print_table(
        ("setting", "value", "from"),
        [(row["setting"], json_module.dumps(row["value"], ensure_ascii=False), row["origin"]) for row in rows],
    )


def _rows(chosen: Effective) -> list[dict[str, Any]]:
    return [
        {"setting": item.path, "value": _shown_value(item.path, item.value), "origin": item.origin}
        for item in chosen.values()
    ]


def _shown_value(setting: str, value: object) -> Any:
    """A value for the screen: what is no plain one by its name, and nothing with a password."""
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, str):
        return mask(without_password(value) if "://" in value or "database" in setting else value)
    model = getattr(value, "model", None)
    return {"model": model, "credential": getattr(value, "credential", None)} if model else shown(value)


@app.command()
def schema(json: Json = True) -> None:
    """Print the JSON Schema of a configuration, for editors and other programs. It is JSON in any case."""
    print_json(json_schema())


@app.command()
def verify(
    file: File,
    credentials: Credentials = None,
    storage: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name that your product has for its storage.")
    ] = None,
    json: Json = False,
) -> None:
    """List every rule that a configuration violates, with the path to the field.

    The exit code is 1 if there is any.
    """
    from casenotes.builder import verify as violations

    text = _text(file)
    try:
        problems = violations(text, storage=storage)
    except SettingsError as error:
        problems = [Problem("the configuration", "no_json", str(error).removeprefix("the configuration "))]
    if credentials and not problems:
        problems = asyncio.run(_unknown_credentials(text, credentials, storage))
    _tell(problems, json)
    if problems:
        raise typer.Exit(1)


async def _unknown_credentials(text: str, file: Path, storage: str | None) -> list[Problem]:
    from casenotes.models.keys import missing

    found = await missing(effective(text, storage=storage), FileCredentials(file))
    return [Problem(path, "unknown_credential", problem) for path, problem in found]


def _tell(problems: list[Problem], json: bool) -> None:
    if json:
        told = [{"path": p.path, "rule": p.rule, "message": str(p)} for p in problems]
        print_json({"ok": not problems, "violations": told})
    elif not problems:
        console.print("No rule is violated.")
    else:
        for problem in problems:
            console.print(f"{problem.rule}: {safe(str(problem))}", markup=False, soft_wrap=True)


@app.command()
def init(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Where to write it; - prints it.")
    ] = DEFAULT_FILE,
    storage: Annotated[
        str | None, typer.Option(help="default for the database of the environment, or a URL without password.")
    ] = None,
    session: Annotated[bool | None, typer.Option("--session/--no-session", help="Session memory.")] = None,
    episodic: Annotated[
        bool | None, typer.Option("--episodic/--no-episodic", help="Memory across conversations.")
    ] = None,
    credential: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help=f"For embeddings: the id of an OpenAI key. Default: {LOCAL}, which needs none.",
        ),
    ] = None,
    observer_model: Annotated[
        str | None, typer.Option(metavar="PROVIDER/NAME", help="A model of its own for session memory.")
    ] = None,
    observer_credential: Annotated[
        str | None, typer.Option(metavar="ID", help="The id of the key of that model.")
    ] = None,
    last_messages: Annotated[int | None, typer.Option(metavar="N", help="How many messages are shown.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Change a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Make a configuration: asks in a terminal, and takes flags everywhere else.

    In a file that exists, --force changes what is named here and keeps everything else.
    """
    if not file:
        raise UsageError("FILE is empty; name a file, or - to print")
    before = _existing(file, force)
    given = Given(storage, session, episodic, credential, observer_model, observer_credential, last_messages)
    wants_questions = sys.stdin.isatty() and not yes and not json
    memory = asked(given, Answers(wants_questions), before.get(ROOT, {}))
    config = updated(before, {ROOT: memory})
    read_json(config).checked()
    if not (json and file == STDIN):
        _write(file, config)
    if json:
        print_json({"file": None if file == STDIN else file, "config": config})
    elif file != STDIN:
        console.print(f"Wrote {safe(file)}. Check it with: casenotes config verify {safe(file)}", markup=False)


def _existing(file: str, force: bool) -> Mapping[str, Any]:
    if file == STDIN or not os.path.lexists(file):
        return {}
    if not force:
        raise UsageError(f"{file!r} exists; name another file, or change it with --force")
    read = read_json(_text(file))
    if any(
        problem.path in ("the configuration", ROOT) and problem.rule == "wrong_type"
        for problem in read.problems
    ):
        raise UsageError(f"{file!r} is no configuration: {read.problems[0]}; name another file")
    return read.config


def _write(file: str, config: Mapping[str, Any]) -> None:
    """All of it or nothing: a file that is half written would be no JSON."""
    text = json_module.dumps(config, indent=2, ensure_ascii=False) + "\n"
    if file == STDIN:
        sys.stdout.write(escape_json(text))
        return
    path = Path(os.path.realpath(file))  # a link stays one
    try:
        with write_file(path, 0o666) as output:
            output.write(text)
            if path.exists() and hasattr(os, "fchmod"):
                os.fchmod(output.fileno(), path.stat().st_mode & 0o777)
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no proper text"
        raise UsageError(f"{file!r} cannot be written: {reason}") from None


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"{file!r} cannot be read: {reason}") from None

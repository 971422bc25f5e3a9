"""`casenotes profile`: what an agent knows about a user, changed field by field."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.options import Agent, Db, Json, Resource, check_known, open_memory
from casenotes.cli.output import console, excerpt, print_json, print_table
from casenotes.config import DEFAULT_AGENT, ProfileSettings, Settings
from casenotes.errors import UsageError
from casenotes.layers.stored_state import VERSIONS_KEPT
from casenotes.types import Profile, Scope

EXCERPT_CHARACTERS = 500
FIELD_CHARACTERS = 120
ACTIONS = {
    "show": "",
    "set": "FIELD VALUE",
    "append": "FIELD VALUE",
    "remove": "FIELD [VALUE]",
    "history": "",
    "undo": "",
}
"""With what each of them is called."""

CREATING = ("set", "append")
NOTHING = Profile({}, 0, "")


class Call(NamedTuple):
    """What to do, and with what."""

    action: str
    field: str | None
    value: str | None


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("profile")(profile_command)


def profile_command(
    resource: Resource,
    action: Annotated[str, typer.Argument(help=f"One of {', '.join(ACTIONS)}.")] = "show",
    field: Annotated[str | None, typer.Argument(help="One field, such as 'User Context/Role'.")] = None,
    value: Annotated[
        str | None,
        typer.Argument(help="One short line. With remove: the value that goes; without it all values go."),
    ] = None,
    agent: Agent = DEFAULT_AGENT,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="FILE",
            help="The Markdown template of the profile. Default: the built-in one.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="With history: at most so many versions.")] = 20,
    db: Db = None,
    json: Json = False,
) -> None:
    """Show what an agent knows about a user, or change one field of it.

    `set` puts a value in the place of what is there, `append` adds one, `remove` takes one out or all.
    `history` lists the versions, newest first, with what each of them changed; `undo` takes the last change
    back, called again the one before it.

    What reads like an order to the agent is refused and secrets are masked, as when an agent writes. If your
    program sets a template, name it with --template; where it sets a schema, only it can add values.
    """
    call = Call(action, field, value)
    _check_call(call)
    found = asyncio.run(_profiles(db, Scope(agent, resource), call, _settings(template), limit))
    if json:
        print_json({"versions": found[:limit]} if action == "history" else {"profile": found[0]})
    elif action == "history":
        _print_history(found, limit)
    else:
        print_profile(found[0], resource)


def _check_call(call: Call) -> None:
    """Raise unless an action has what it needs, and nothing besides."""
    if call.action not in ACTIONS:
        raise UsageError(f"action {call.action!r} is unknown; use one of {', '.join(ACTIONS)}")
    wanted = ACTIONS[call.action]
    given = [word for word in (call.field, call.value) if word is not None]
    if not len(wanted.replace("[VALUE]", "").split()) <= len(given) <= len(wanted.split()):
        words = f"profile {call.action} {wanted}".strip()
        raise UsageError(f"call it as `casenotes {words} --resource ID`; use quotes where there are blanks")


def _settings(template: Path | None) -> Settings:
    if template is None:
        return Settings()
    try:
        text = template.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"template {str(template)!r} cannot be read: {error}") from None
    return Settings(profile=ProfileSettings(template=text))


async def _profiles(db: str | None, scope: Scope, call: Call, settings: Settings, limit: int) -> list[Profile]:
    """The profile after the call; for its history the versions, and one more to compare the last with."""
    creates = call.action in CREATING
    async with open_memory(db, create=creates, config=settings) as memory:
        if not creates:
            await check_known(memory, scope)
        if call.action == "history":
            return await memory.profile_history(scope, limit + 1)
        if call.action == "undo":
            return [await memory.undo_profile(scope)]
        if call.action == "show":
            return [await memory.profile(scope)]
        return [await memory.update_profile(scope, call.field or "", call.action, call.value)]


def print_profile(profile: Profile, resource: str) -> None:
    """A profile as a person reads it, every field under the name by which it is changed."""
    if profile.fields:
        print_table(["field", "value"], _rows(profile))
    else:
        console.print(f"Nothing is known about {resource!r}.", markup=False)
    if profile.version:
        console.print(Text(_origin(profile), style="dim"))


def _rows(profile: Profile) -> list[list[str]]:
    """One row a value; a field's further values stand below its first."""
    return [
        ["" if number else excerpt(path, FIELD_CHARACTERS), excerpt(value, EXCERPT_CHARACTERS)]
        for path, values in profile.fields.items()
        for number, value in enumerate(values)
    ]


def _origin(profile: Profile) -> str:
    when = f", {profile.at:%Y-%m-%d %H:%M}" if profile.at else ""
    return f"version {profile.version}{when}, {_author(profile.author)}"


def _author(author: str) -> str:
    """Who wrote a version; of one that goes back, where to."""
    kind, _, number = author.partition(":")
    if kind == "undo":
        return "undone: nothing is left" if number == "0" else f"undone: as in version {excerpt(number, 20)}"
    return f"by {excerpt(author, 40)}"


def _print_history(found: Sequence[Profile], limit: int) -> None:
    if not found:
        console.print("Nothing was written yet.")
    for number, version in enumerate(found[:limit]):
        console.print(Text(_origin(version), style="bold"))
        is_first = len(found) < VERSIONS_KEPT
        before = found[number + 1] if number + 1 < len(found) else NOTHING if is_first else None
        lines = ["(the version before is not kept)"] if before is None else changed_lines(before, version)
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 3)))


def changed_lines(before: Profile, after: Profile) -> list[str]:
    """What a version took out of the one before it, and what it added."""
    old, new = _items(before), _items(after)
    gone, added = ([item for item in a if item not in b] for a, b in ((old, new), (new, old)))
    return [*(f"- {item}" for item in gone), *(f"+ {item}" for item in added)]


def _items(profile: Profile) -> list[str]:
    return [
        f"{excerpt(path, FIELD_CHARACTERS)}: {excerpt(value, EXCERPT_CHARACTERS)}"
        for path, values in profile.fields.items()
        for value in values
    ]

"""The questions of `casenotes config init`. A flag answers its question; without a terminal defaults do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from casenotes.cli.output import console
from casenotes.config.json_form import EPISODIC, OBSERVATIONAL, STORAGE_REMEDY
from casenotes.config.settings import LOCAL, has_password
from casenotes.errors import UsageError

SUGGESTED_OBSERVER = "google/gemini-2.5-flash"


@dataclass(frozen=True, slots=True)
class Given:
    """What the flags say."""

    storage: str | None = None
    session: bool | None = None
    episodic: bool | None = None
    credential: str | None = None
    observer_model: str | None = None
    observer_credential: str | None = None
    last_messages: int | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """Asks the user, or takes the default where nobody can be asked."""

    asks: bool

    def yes(self, question: str, default: bool) -> bool:
        """Yes or no."""
        return typer.confirm(question, default=default) if self.asks else default

    def text(self, question: str, default: str) -> str:
        """A line of text."""
        return str(typer.prompt(question, default=default)).strip() if self.asks else default


def asked(given: Given, answers: Answers) -> dict[str, Any]:
    """The `memory` of a configuration."""
    if answers.asks:
        console.print("Return takes what stands in brackets.")
    memory: dict[str, Any] = {"enabled": True, "storage": _storage(given, answers)}
    if given.last_messages is not None:
        memory["lastMessages"] = given.last_messages
    memory[OBSERVATIONAL] = _session(given, answers)
    memory[EPISODIC] = _episodic(given, answers)
    return memory


def _storage(given: Given, answers: Answers) -> str:
    storage = given.storage or answers.text(f"Where is it kept? ({STORAGE_REMEDY})", "default")
    if has_password(storage):
        raise UsageError(
            "--storage is a URL with a password; put it into CASENOTES_DATABASE_URL, and use default"
        )
    return storage


def _session(given: Given, answers: Answers) -> dict[str, Any]:
    wanted = given.session
    if wanted is None:
        wanted = answers.yes("Compress long conversations (session memory)?", True)
    section: dict[str, Any] = {"enabled": wanted}
    if wanted and (model := _observer(given, answers)):
        section["observerModel"] = model
    return section


def _observer(given: Given, answers: Answers) -> dict[str, str] | None:
    if given.observer_credential and not given.observer_model:
        raise UsageError("--observer-credential is given without --observer-model; give both or neither")
    name = given.observer_model
    if name is None:
        if not answers.yes("A model of its own for that, apart from the agent's?", False):
            return None
        name = answers.text("Which model (provider/name)?", SUGGESTED_OBSERVER)
    credential = given.observer_credential or answers.text("The id of its credential (not the key)?", "")
    if not credential:
        raise UsageError("--observer-model needs --observer-credential, the id of the key it is asked with")
    return {"model": name, "credential": credential}


def _episodic(given: Given, answers: Answers) -> dict[str, Any]:
    wanted = given.episodic
    if wanted is None:
        wanted = given.credential is not None or answers.yes("Remember across conversations?", False)
    if not wanted:
        return {"enabled": False}
    question = f"The id of a credential for embeddings, or {LOCAL} for the built-in ones?"
    return {"enabled": True, "credential": given.credential or answers.text(question, LOCAL)}

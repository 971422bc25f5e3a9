"""The questions of `casenotes config init`. A flag answers its question; without a terminal defaults do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from casenotes.cli.output import console, safe
from casenotes.config.json_names import EPISODIC, OBSERVATIONAL, ROOT
from casenotes.config.json_read import STORAGE_REMEDY, read_json
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

    def text(self, question: str, default: str, memory: Callable[[str], Mapping[str, Any]]) -> str:
        """A line of text; asked again while the memory that it would make is wrong."""
        if not self.asks:
            return default
        while True:
            answer = str(typer.prompt(question, default=default)).strip()
            problems = read_json({ROOT: memory(answer)}).problems
            if not problems:
                return answer
            console.print(f"{safe(str(problems[0]))}", style="yellow", markup=False)


def asked(given: Given, answers: Answers, before: Mapping[str, Any]) -> dict[str, Any]:
    """What changes in the `memory` of a configuration: what flags or answers say, and defaults for the rest.

    Where a value is there already and nobody says otherwise, it stays.
    """
    _check(given)
    if answers.asks:
        console.print("Return takes what stands in brackets.")
    memory: dict[str, Any] = {} if "enabled" in before else {"enabled": True}
    storage = _storage(given, answers, before)
    if storage is not None:
        memory["storage"] = storage
    if given.last_messages is not None:
        memory["lastMessages"] = given.last_messages
    memory[OBSERVATIONAL] = _session(given, answers, _section(before, OBSERVATIONAL))
    memory[EPISODIC] = _episodic(given, answers, _section(before, EPISODIC))
    return memory


def _with_storage(answer: str) -> Mapping[str, Any]:
    return {"storage": answer}


def _with_model(answer: str) -> Mapping[str, Any]:
    return {OBSERVATIONAL: {"observerModel": {"model": answer, "credential": "id"}}}


def _with_key(answer: str) -> Mapping[str, Any]:
    return {OBSERVATIONAL: {"observerModel": {"model": SUGGESTED_OBSERVER, "credential": answer}}}


def _with_credential(answer: str) -> Mapping[str, Any]:
    return {EPISODIC: {"credential": answer}}


def _check(given: Given) -> None:
    """Flags that take each other back."""
    if given.observer_credential and not given.observer_model:
        raise UsageError("--observer-credential is given without --observer-model; give both or neither")
    if given.session is False and given.observer_model:
        raise UsageError("--no-session and --observer-model are given; give one of them")
    if given.episodic is False and given.credential:
        raise UsageError("--no-episodic and --credential are given; give one of them")


def _section(memory: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = memory.get(name)
    return section if isinstance(section, Mapping) else {}


def _storage(given: Given, answers: Answers, before: Mapping[str, Any]) -> str | None:
    if given.storage is None and "storage" in before:
        return None
    storage = given.storage or answers.text(f"Where is it kept? ({STORAGE_REMEDY})", "default", _with_storage)
    if has_password(storage):
        raise UsageError("--storage is a URL with a password; put that into CASENOTES_DATABASE_URL")
    return storage


def _session(given: Given, answers: Answers, before: Mapping[str, Any]) -> dict[str, Any]:
    is_on = bool(before.get("enabled", True))
    if given.session is not None:
        is_on = given.session
    elif not given.observer_model:
        is_on = answers.yes("Compress long conversations (session memory)?", is_on)
    section: dict[str, Any] = {"enabled": is_on}
    if is_on and (model := _observer(given, answers, before)):
        section["observerModel"] = model
    return section


def _observer(given: Given, answers: Answers, before: Mapping[str, Any]) -> dict[str, str] | None:
    name = given.observer_model
    if name is None:
        if "observerModel" in before:
            return None
        if not answers.yes("A model of its own for that, apart from the agent's?", False):
            return None
        name = answers.text("Which model (provider/name)?", SUGGESTED_OBSERVER, _with_model)
    credential = given.observer_credential or answers.text(
        "The id of its credential (not the key)?", "", _with_key
    )
    if not credential:
        raise UsageError("--observer-model needs --observer-credential, the id of the key it is asked with")
    return {"model": name, "credential": credential}


def _episodic(given: Given, answers: Answers, before: Mapping[str, Any]) -> dict[str, Any]:
    is_on = bool(before) and bool(before.get("enabled", True))
    if given.episodic is not None:
        is_on = given.episodic
    elif given.credential is not None:
        is_on = True
    else:
        is_on = answers.yes("Remember across conversations?", is_on)
    if not is_on:
        return {"enabled": False}
    if given.credential is None and "credential" in before:
        return {"enabled": True}
    question = f"The id of a credential for embeddings, or {LOCAL} for the built-in ones?"
    return {"enabled": True, "credential": given.credential or answers.text(question, LOCAL, _with_credential)}

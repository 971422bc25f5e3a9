"""The tools of an assistant that sets up an agent's memory, for any framework.

The host brings three callbacks, sync or async: they ask the user for a credential, find a model that was named,
and let the user choose one. The configuration is kept here; the host takes it from `config` when it changes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from importlib import resources
from typing import Any

from casenotes.builder.conversation import Conversation
from casenotes.builder.grants import PURPOSES, WORKERS, Grant, Grants, provider_of_model, provider_of_type
from casenotes.builder.judge import (
    INSTRUCTIONS,
    Change,
    Facts,
    changed_values,
    default_memory,
    judge,
    judge_instructions,
    judge_quote,
)
from casenotes.builder.schemas import ASK_CREDENTIAL, ASK_LLM, NO_ARGUMENTS, RESOLVE_LLM, SET_CONFIG
from casenotes.builder.verify import verify
from casenotes.builder.words import is_named
from casenotes.config.json_names import ROOT
from casenotes.config.json_read import Problem
from casenotes.config.json_update import updated
from casenotes.config.rules import shown
from casenotes.config.settings import HOST_STORAGE, has_password
from casenotes.credentials import looks_like_a_secret
from casenotes.errors import SettingsError
from casenotes.types import Message, Role, Tool

DEEPEST = 3
Host = Callable[..., Any | Awaitable[Any]]
Answer = dict[str, Any]
SKIPPED = (
    "The user has skipped this. Leave it switched off or as it is, and tell the user that it needs a "
    "credential, which can be added at any time."
)


def guidance() -> str:
    """What the assistant is told."""
    return resources.files("casenotes.builder").joinpath("guidance.md").read_text("utf-8").strip()


class MemoryBuilder:
    """One conversation in which an assistant sets up the memory of one agent.

    `config` is the agent's JSON, None for a new agent; fields beside `memory` and `instructions` are left
    alone. `ask_credential(credential_type=, purpose=)` returns the id of a credential, or None if the user
    skips; `resolve_llm(model=, purpose=)` and `ask_llm(purpose=)` return `{"model", "credential"}`, or None.
    `storage` is the name that the host has for its storage. `on_change` is called with the
    whole configuration; if it fails, nothing was changed. A builder is for one conversation.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        ask_credential: Host,
        resolve_llm: Host,
        ask_llm: Host,
        storage: str = HOST_STORAGE,
        on_change: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        if has_password(storage):
            raise SettingsError("storage is a URL with a password; give a name, or a URL without one")
        self._config = _plain_copy(config or {})
        self._first = deepcopy(self._config)
        self._host = {"ask_credential": ask_credential, "resolve_llm": resolve_llm, "ask_llm": ask_llm}
        self._facts = Facts(Conversation(), Grants(), storage)
        self._settled: dict[str, Any] = {}
        self._changing = asyncio.Lock()
        self._on_change = on_change

    @property
    def config(self) -> dict[str, Any]:
        """The agent's JSON as it is now."""
        return deepcopy(self._config)

    def hear(self, text: str, role: Role = "user") -> None:
        """Add a message of the conversation; only what the user said can be quoted."""
        self._facts.conversation.messages.append(Message(role, text))

    def hear_all(self, messages: Sequence[Message]) -> None:
        """The conversation as the host has it, in place of what was heard before.

        If it begins with other words it is another conversation, and credentials have to be asked for again.
        """
        heard = self._facts.conversation.messages
        if heard and (not messages or heard[0].text != messages[0].text):
            self._facts.grants.clear()
        heard[:] = messages

    def replace_config(self, config: Mapping[str, Any], *, accept: bool = False) -> None:
        """Take over what the host has changed by other means.

        `verify` says what of it nobody asked for, unless the host answers for it with `accept`.
        """
        self._config = _plain_copy(config)
        if accept:
            self._first, self._settled = deepcopy(self._config), {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The six tools. Each answers with an object; what is wrong with a call is answered, not raised."""
        return (
            Tool("read_memory_config", READ, NO_ARGUMENTS, self._read),
            Tool("set_memory_config", SET, SET_CONFIG, self._set),
            Tool("ask_credential", ASK, ASK_CREDENTIAL, self._ask_credential),
            Tool("resolve_llm", RESOLVE, RESOLVE_LLM, self._resolve_llm),
            Tool("ask_llm", CHOOSE, ASK_LLM, self._ask_llm),
            Tool("verify_memory_config", VERIFY, NO_ARGUMENTS, self._verify),
        )

    def verify(self) -> list[Problem]:
        """Every rule that the configuration violates: in itself, and as a change of what it was at first."""
        found = verify(self._config, storage=self._facts.storage)
        before, after = self._before(self._first), self._config.get(ROOT)
        if isinstance(after, Mapping):
            found += judge(before, after, (), self._facts, self._settled)
        return list({(problem.path, problem.rule): problem for problem in found}.values())

    def _before(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a change starts from: a new agent from the default."""
        memory = config.get(ROOT)
        return memory if isinstance(memory, Mapping) and memory else default_memory(self._facts.storage)

    async def _read(self, /, **unknown: Any) -> Answer:
        if problem := _unknown(unknown):
            return problem
        is_new = not self._config.get(ROOT)
        answer: Answer = {"memory": self.config.get(ROOT), "is_new": is_new}
        if is_new:
            answer["default"] = default_memory(self._facts.storage)
        if INSTRUCTIONS in self._config:
            answer[INSTRUCTIONS] = self._config[INSTRUCTIONS]
        return answer

    async def _set(
        self,
        /,
        changes: Any = (),
        instructions: Any = None,
        instructions_request: Any = "",
        **unknown: Any,
    ) -> Answer:
        async with self._changing:
            try:
                wanted = _changes(changes, instructions, unknown)
                self._check_memory()
            except SettingsError as error:
                return {"error": str(error)}
            return await self._judged(wanted, instructions, instructions_request)

    def _check_memory(self) -> None:
        memory = self._config.get(ROOT)
        if memory is not None and not isinstance(memory, dict):
            raise SettingsError(
                f"memory is {shown(memory)}, which is no object; tell the user, it is not ours to change"
            )

    async def _judged(self, wanted: list[Change], instructions: str | None, request: Any) -> Answer:
        before = self._before(self._config)
        after: dict[str, Any] = deepcopy(dict(before))
        for change in wanted:
            after = updated(after, change.as_update())
        problems = judge(before, after, wanted, self._facts)
        if instructions is not None:
            problems += self._of_instructions(instructions, request)
        if problems:
            return {"refused": [_told(problem) for problem in problems], "changed": False}
        return await self._change({ROOT: after} | ({INSTRUCTIONS: instructions} if instructions else {}))

    def _of_instructions(self, text: str, quote: Any) -> list[Problem]:
        """Instructions that are there are changed when the user asks for it."""
        problems = judge_instructions(text)
        if self._config.get(INSTRUCTIONS) not in (None, "", text):
            broken = judge_quote(quote if isinstance(quote, str) else "", self._facts.conversation)
            problems += [Problem(INSTRUCTIONS, *broken)] if broken else []
        return problems

    async def _change(self, update: Mapping[str, Any]) -> Answer:
        """Make the change and tell the host; if that fails nothing was changed."""
        before, self._config = self._config, {**self._config, **update}
        try:
            told = self._on_change(self.config) if self._on_change else None
            if inspect.isawaitable(told):
                await told
        except Exception as error:
            self._config = before
            return {"error": f"saving it failed ({type(error).__name__}); tell the user, nothing was changed"}
        self._settled |= changed_values(self._before(before), self._config[ROOT])
        return {"changed": True, "memory": self.config[ROOT]}

    async def _ask_credential(
        self, /, credential_type: Any = None, purpose: Any = None, **unknown: Any
    ) -> Answer:
        if problem := _wrong_call({"credential_type": credential_type}, purpose, PURPOSES, unknown):
            return problem
        found, problem = await self._asked("ask_credential", credential_type=credential_type, purpose=purpose)
        if problem or found is None:
            return problem or self._skipped(purpose)
        if problem := _unusable(found):
            return problem
        self._facts.grants.add(Grant(found, purpose, provider_of_type(credential_type)))
        return {"credential": found, "purpose": purpose}

    async def _resolve_llm(self, /, model: Any = None, purpose: Any = None, **unknown: Any) -> Answer:
        if problem := _wrong_call({"model": model}, purpose, WORKERS, unknown):
            return problem
        if not is_named(model, self._facts.conversation.of_user):
            return {"error": f"the user has not named {shown(model)}; give the model in the user's words"}
        found, problem = await self._asked("resolve_llm", model=model, purpose=purpose)
        if not problem and found is None:
            return {
                "found": None,
                "note": "There is no such model with a credential; let the user choose with ask_llm.",
            }
        return problem or self._pair(found, purpose)

    async def _ask_llm(self, /, purpose: Any = None, **unknown: Any) -> Answer:
        if problem := _wrong_call({}, purpose, WORKERS, unknown):
            return problem
        found, problem = await self._asked("ask_llm", purpose=purpose)
        if problem or found is None:
            return problem or self._skipped(purpose)
        return self._pair(found, purpose)

    def _pair(self, found: Any, purpose: str) -> Answer:
        """A model with its credential, as the host returned it."""
        if not isinstance(found, Mapping) or not isinstance(found.get("model"), str):
            return {"error": "the host returned no model; tell the user that this does not work at the moment"}
        model, credential = found["model"], found.get("credential")
        if problem := _unusable(credential):
            return problem
        self._facts.grants.add(Grant(str(credential), purpose, provider_of_model(model), model))
        return {"model": model, "credential": credential, "purpose": purpose}

    def _skipped(self, purpose: str) -> Answer:
        self._facts.grants.skip(purpose)
        return {"skipped": True, "purpose": purpose, "note": SKIPPED}

    async def _asked(self, name: str, **arguments: str) -> tuple[Any, Answer | None]:
        """What the host answers; a callback that fails may tell anything, so only its kind is told on."""
        try:
            found = self._host[name](**arguments)
            return (await found if inspect.isawaitable(found) else found), None
        except Exception as error:
            return None, {"error": f"{name} failed ({type(error).__name__}); tell the user and go on without"}

    async def _verify(self, /, **unknown: Any) -> Answer:
        if problem := _unknown(unknown):
            return problem
        problems = self.verify()
        return {"ok": not problems, "violations": [_told(problem) for problem in problems]}


def _plain_copy(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as JSON has it, so that nobody else's changes reach it."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(config)))
    except (TypeError, ValueError, RecursionError):
        raise SettingsError(
            "config is not plain JSON; pass an object of texts, numbers, lists and objects"
        ) from None
    return copied


def _changes(changes: Any, instructions: Any, unknown: Mapping[str, Any]) -> list[Change]:
    if unknown:
        raise SettingsError(f"argument {shown(next(iter(unknown)))} is unknown; use changes and instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise SettingsError(f"instructions is {shown(instructions)}; it must be a text")
    if instructions is not None and not instructions.strip():
        raise SettingsError("instructions is empty; leave it out to keep what is there")
    if not isinstance(changes, (list, tuple)):
        raise SettingsError(f"changes is {shown(changes)}; it must be a list of {{field, value, user_request}}")
    return [_change(change) for change in changes]


def _change(given: Any) -> Change:
    if not isinstance(given, Mapping) or not isinstance(given.get("field"), str) or "value" not in given:
        raise SettingsError(f"change {shown(given)} is not understood; give field, value and user_request")
    if extra := given.keys() - {"field", "value", "user_request"}:
        raise SettingsError(f"change has {shown(next(iter(extra)))}; give field, value and user_request")
    if given["field"].count(".") > DEEPEST or _depth(given["value"]) > DEEPEST:
        raise SettingsError(f"change of {shown(given['field'])} is nested too deeply; no setting is")
    quote = given.get("user_request") or ""
    if not isinstance(quote, str):
        raise SettingsError(f"user_request is {shown(quote)}; it must be a text")
    return Change(given["field"].removeprefix(f"{ROOT}."), given["value"], quote)


def _depth(value: Any, most: int = 10) -> int:
    """How many objects and lists lie within each other, counted up to a limit."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return 1 + max((_depth(item, most - 1) for item in inner), default=0) if most else 1


def _wrong_call(
    texts: Mapping[str, Any], purpose: Any, purposes: Sequence[str], unknown: Mapping[str, Any]
) -> Answer | None:
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            return {"error": f"{name} is {shown(value)}; it must be a text"}
    if purpose not in purposes:
        return {"error": f"purpose is {shown(purpose)}; it must be one of {', '.join(purposes)}"}
    return _unknown(unknown)


def _unknown(arguments: Mapping[str, Any]) -> Answer | None:
    return {"error": f"argument {shown(next(iter(arguments)))} is unknown"} if arguments else None


def _unusable(credential: Any) -> Answer | None:
    """A host that returns a key instead of an id must not have it shown to a model."""
    if isinstance(credential, str) and credential.strip() and not looks_like_a_secret(credential):
        return None
    return {"error": "the host returned no usable id of a credential; tell the user that this does not work"}


def _told(problem: Problem) -> Answer:
    return {"path": problem.path, "rule": problem.rule, "message": str(problem)}


READ = "The memory settings of the agent, and whether it is a new one."
SET = (
    "Change memory settings. Without changes a new agent gets the default. Each change is one field of "
    "memory, such as episodicMemory or observationalMemory.observerThresholdTokens, its value (an object is "
    "merged into what is there, null takes the field out), and user_request, the user's own words that ask "
    "for it."
)
ASK = "Ask the user for a credential for one field. The answer has its id, or says that the user skipped it."
RESOLVE = "Find a model that the user named, with a credential for it, for one field."
CHOOSE = "Let the user choose a model and its credential for one field."
VERIFY = "List every rule that the memory settings and the agent's instructions violate."

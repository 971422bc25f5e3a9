"""What a chat model is, how one is found by name, and patience with it.

A model is asked one question with a JSON Schema and answers as it will: its output is read elsewhere,
leniently, so that a truncated or odd answer is still worth something. Nothing here loads a provider's
library before a model is named.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import getattr_static
from typing import Any, Protocol
from urllib.parse import urlsplit

from casenotes.credentials import Secret
from casenotes.errors import ModelError, ModelRefused, SettingsError
from casenotes.models.lookup import looking_up, with_colon
from casenotes.models.retry import Failure, Patience, persist

REMEDY = (
    "use provider:model such as openai:gpt-5-mini, openai:name@http://127.0.0.1:8080/v1 for a compatible "
    "server, a model object of Pydantic AI, or an object with `label` and `async ask(request)`"
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question; `task` says what for, `schema` is the JSON Schema of the object to answer with."""

    task: str
    system: str
    prompt: str
    schema: Mapping[str, Any]
    max_output_tokens: int = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used; `cost` in US dollars is 0 where the price is not known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The answer as the model gave it, not read yet; `cut_off` if the token limit ended it."""

    output: str | Mapping[str, Any]
    usage: Usage = field(default_factory=Usage)
    cut_off: bool = False


class ChatModel(Protocol):
    """Answers questions. It may raise anything: RetryingModel makes a ModelError of it.

    One that holds connections has `async close()` too, and opens them again when it is asked.
    """

    @property
    def label(self) -> str:
        """Names the model in errors and records."""
        ...

    async def ask(self, request: ChatRequest) -> ChatReply:
        """One answer to one question."""
        ...


class RetryingModel:
    """A model that is asked again, with growing pauses, while its failure may pass; raises ModelError only."""

    def __init__(
        self,
        model: ChatModel,
        attempts: int = 3,
        first_pause_seconds: float = 0.5,
        longest_pause_seconds: float = 20.0,
        request_seconds: float = 120.0,
    ) -> None:
        self._model = model
        self._patience = Patience(attempts, first_pause_seconds, longest_pause_seconds, request_seconds)

    @property
    def label(self) -> str:
        """The label of the model within."""
        return self._model.label

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Cancellation passes through at once. Every attempt counts as a call."""
        calls = 0

        async def attempt() -> ChatReply:
            nonlocal calls
            calls += 1
            return await self._model.ask(request)

        try:
            reply = await persist(attempt, f"model {self.label!r}", self._patience)
        except Failure as failure:
            error = _as_model_error(failure)
        else:
            return replace(reply, usage=replace(reply.usage, calls=calls))
        error.calls = calls
        raise error  # outside of the block: what the library said may have the key in it

    async def close(self) -> None:
        """Close the connections of the model within, if it holds any."""
        close = getattr(self._model, "close", None)
        if close is not None:
            await close()


def _as_model_error(failure: Failure) -> ModelError:
    if isinstance(failure.error, ModelError):
        return failure.error
    kind = ModelRefused if failure.refused else ModelError
    return kind(str(failure), status=failure.status)


def resolve_model(given: Any, key: Secret | None = None) -> ChatModel | None:
    """The chat model of that name, around that object, or the object itself; None for None and "".

    A model of a provider is asked with the key, without one with that of the environment. No request is sent.
    A missing package, key or provider is an error that names it.
    """
    if given is None or given == "":
        return None
    if isinstance(given, str):
        return _by_name(given, key)
    if all(getattr_static(given, name, None) is not None for name in ("label", "ask")):
        model: ChatModel = given
        return model
    if _is_of_pydantic_ai(given):
        from casenotes.models.pydantic_chat import PydanticChatModel

        return PydanticChatModel(given, f"{given.system}:{given.model_name}")
    raise SettingsError(f"chat model {given!r:.80} has no `label` and `ask`; {REMEDY}")


def _is_of_pydantic_ai(given: object) -> bool:
    """Whoever has such an object has loaded its module."""
    models = sys.modules.get("pydantic_ai.models")
    return models is not None and isinstance(given, models.Model)


def _by_name(given: str, key: Secret | None) -> ChatModel:
    name, at, rest_of_url = given.strip().partition("@http")
    provider, _, model = with_colon(name).partition(":")
    if not provider or not model:
        raise SettingsError(f"chat model {given.partition('@')[0]!r} is unknown; {REMEDY}")
    with looking_up("chat model", f"{provider}:{model}"):
        from casenotes.models import pydantic_chat
    if at:
        return pydantic_chat.served_at(provider, model, _checked_url(name, f"http{rest_of_url}"), key)
    return pydantic_chat.hosted(provider, model, key)


def _checked_url(name: str, url: str) -> str:
    """The address itself; it is not shown in the error, as people write passwords into addresses."""
    try:
        parts = urlsplit(url)
        bare = not (parts.username or parts.query or parts.fragment)
        usable = bare and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is missing
        usable = False
    if not usable:
        raise SettingsError(
            f"chat model {name!r} is at no usable address; write openai:name@http://host:port/v1, and the key, "
            "if one is needed, into OPENAI_API_KEY"
        )
    return url

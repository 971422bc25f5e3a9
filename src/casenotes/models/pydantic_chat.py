"""Chat models through Pydantic AI, which speaks to the providers; imported when one is asked for.

Its request is used below its agents: they would validate the answer, ask again and drop what was cut
off. The answer comes by the provider's own JSON Schema mode where there is one, else as the arguments
of a tool, else as text. Some models and servers refuse a temperature or a mode that their profile
promises; another form is tried then, and kept if it was taken. The HTTP client belongs to the event
loop that used it last and is renewed for another; one for every request would cost 50 ms each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from casenotes.credentials import Secret
from casenotes.errors import ModelRefused, SettingsError
from casenotes.models.chat import ChatReply, ChatRequest, Usage
from casenotes.models.lookup import looking_up, provider_factory
from casenotes.models.retry import status_of, without_keys

PLACEHOLDER_KEY = "no-key"
"""The client library insists on one; servers of one's own mostly do not."""

ROOM_FOR_THINKING = 8_192
"""Thinking counts as output, and an answer without room for it comes out empty."""

CHAIN = {"modes": ("auto", "prompted"), "openai_supports_reasoning": True, "thinking_always_enabled": True}
"""Where some of the models may reason, no temperature is sent and there is room to think."""

TEMPERATURE_REFUSED = re.compile("temperature", re.IGNORECASE)
MODE_REFUSED = re.compile(
    r"response_?format|json.?schema|structured.?output|grammar|\btools?\b|tool_choice", re.IGNORECASE
)


def hosted(provider: str, model: str, key: Secret | None = None) -> PydanticChatModel:
    """The model of a provider, with that key or one from the environment."""
    name = f"{provider}:{model}"
    with looking_up("chat model", name):
        return PydanticChatModel(infer_model(name, provider_factory(key)), name, key)


def served_at(provider: str, model: str, base_url: str, key: Secret | None = None) -> PydanticChatModel:
    """A model of any server that speaks OpenAI's chat completions."""
    if provider not in ("openai", "openai-chat"):
        raise SettingsError(
            f"chat model '{provider}:{model}' takes no address; only openai:{model}@{base_url} does"
        )
    with looking_up("chat model", f"openai:{model}"):
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        sent = key.reveal() if key else os.environ.get("OPENAI_API_KEY") or PLACEHOLDER_KEY
        return PydanticChatModel(
            OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key=sent)),
            f"openai:{model}@{base_url}",
            key,
        )


@dataclass(frozen=True, slots=True)
class _Form:
    """How to ask: with temperature 0 or without, and by the first of the modes."""

    cold: bool
    modes: tuple[Any, ...]

    def other(self, error: Exception) -> _Form | None:
        """The form to try after this one was refused; None if the refusal is about something else."""
        if status_of(error) not in (400, 422):
            return None
        if self.cold and TEMPERATURE_REFUSED.search(str(error)):
            return _Form(False, self.modes)
        if self.modes[1:] and MODE_REFUSED.search(str(error)):
            return _Form(self.cold, self.modes[1:])
        return None


class PydanticChatModel:
    """A model of Pydantic AI; settings that the object brings along win over ours."""

    def __init__(self, model: Model[Any], label: str, key: Secret | None = None) -> None:
        profile = _profile(model)
        self._key = key  # in use as long as the model is, and hidden from errors so long
        self.label = label
        self._model = model
        self._room = _room_for_thinking(profile)
        self._form = _Form(_takes_temperature(profile), _modes(profile))

    @property
    def model(self) -> Model[Any]:
        """The library's own, for an agent that shall speak through the same model."""
        return self._model

    async def ask(self, request: ChatRequest) -> ChatReply:
        """The answer as it came; raises the library's errors, and ModelRefused for filtered content."""
        form = self._form
        while True:
            try:
                response = await self._request(request, form)
            except Exception as error:
                other = form.other(error)
                if other is None:
                    raise
                form = other
            else:
                self._form = form
                return self._reply(response)

    async def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        async with self._model:
            pass  # whoever leaves last closes them

    async def _request(self, request: ChatRequest, form: _Form) -> ModelResponse:
        message = ModelRequest.user_text_prompt(request.prompt, instructions=request.system or None)
        _renew_client(self._model)
        return await model_request(
            self._model,
            [message],
            model_settings=self._settings(request, form.cold),
            model_request_parameters=_parameters(request, form.modes[0]),
        )

    def _settings(self, request: ChatRequest, cold: bool) -> ModelSettings:
        """Retries are left to the caller; a model that cannot do so is not told."""
        settings = ModelSettings(max_tokens=request.max_output_tokens + self._room)
        if cold:
            settings["temperature"] = 0.0
        if not _ignores(self._model, "max_retries"):
            settings["max_retries"] = 0
        return settings | (self._model.settings or {})

    def _reply(self, response: ModelResponse) -> ChatReply:
        if response.finish_reason == "content_filter":
            raise ModelRefused(f"model {self.label!r} refused (content filter): {_reason(response)}")
        return ChatReply(_output(response), _usage(response), cut_off=response.finish_reason == "length")


def _profile(model: Model[Any]) -> Mapping[str, Any]:
    """What the model can do; a chain of several cannot say, so each of them chooses its mode."""
    try:
        return model.profile
    except NotImplementedError:
        return CHAIN


def _renew_client(model: Model[Any]) -> None:
    """If another event loop used it last: agents of the library do the same before they run."""
    renew = getattr(model, "_refresh_http_client", None)
    if renew is not None:
        renew()


def _modes(profile: Mapping[str, Any]) -> tuple[str, ...]:
    """How the answer can be asked for, best first; the last works with every model."""
    native = ("native",) if profile.get("supports_json_schema_output") else ()
    tool = ("tool",) if profile.get("supports_tools", True) else ()
    modes: tuple[str, ...] = profile.get("modes", (*native, *tool, "prompted"))
    return modes


def _takes_temperature(profile: Mapping[str, Any]) -> bool:
    refusing = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")
    return not any(profile.get(name) for name in refusing)


def _room_for_thinking(profile: Mapping[str, Any]) -> int:
    thinks = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    return ROOM_FOR_THINKING if thinks else 0


def _ignores(model: Any, setting: str) -> bool:
    """Whether the model, or the one that it wraps, would warn of a setting that it does not know."""
    while model is not None and setting not in getattr(model, "unsupported_settings", ()):
        model = getattr(model, "wrapped", None)
    return model is not None


def _parameters(request: ChatRequest, mode: Any) -> ModelRequestParameters:
    schema = dict(request.schema)
    tool = ToolDefinition(
        name=request.task,
        parameters_json_schema=schema,
        description="Give the whole answer in one call.",
        kind="output",
    )
    return ModelRequestParameters(
        output_mode=mode,
        output_tools=[tool] if mode in ("tool", "auto") else [],
        output_object=None if mode == "tool" else OutputObjectDefinition(schema, name=request.task),
        allow_text_output=mode != "tool",
    )


def _output(response: ModelResponse) -> str | Mapping[str, Any]:
    """The arguments of the tool, which some models call without being told to; else the text."""
    given: list[str | Mapping[str, Any]] = [call.args for call in response.tool_calls if call.args]
    return given[0] if given else response.text or ""


def _usage(response: ModelResponse) -> Usage:
    used = response.usage
    return Usage(1, used.input_tokens, used.output_tokens, _cost(response))


def _cost(response: ModelResponse) -> float:
    """As the provider reported it, else by the price list that comes with Pydantic AI."""
    reported = getattr(response.usage, "cost", None)
    if reported is not None:
        return float(reported)
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # no such model, or no tokens told
        return 0.0


def _reason(response: ModelResponse) -> str:
    details = response.provider_details or {}
    told = [details[name] for name in ("refusal", "block_reason", "finish_reason") if details.get(name)]
    return without_keys(str(told[0]) if told else "no reason given")[:300]

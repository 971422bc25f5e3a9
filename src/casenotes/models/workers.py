"""The models that work in the background: each task may have its own, and equal ones are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from casenotes.config import ModelSettings, WorkerModel
from casenotes.credentials import Secret
from casenotes.models.chat import ChatModel, RetryingModel, resolve_model


class Workers:
    """Chat models by what was configured; a task without one of its own gets the agent's."""

    def __init__(
        self, agents: Any, settings: ModelSettings, secrets: Mapping[str, Secret] = MappingProxyType({})
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._secrets = secrets
        self._known: list[tuple[Any, RetryingModel]] = []

    def model(self, own: Any = None) -> RetryingModel | None:
        """The model of a task, None if there is none. No request is sent."""
        given = own or self._agents
        known = next((model for name, model in self._known if name is given or name == given), None)
        return known or self._resolved(given)

    def _resolved(self, given: Any) -> RetryingModel | None:
        model = self._found(given)
        if model is None:
            return None
        asking = self._settings
        retrying = RetryingModel(
            model,
            attempts=asking.attempts,
            first_pause_seconds=asking.first_pause_seconds,
            request_seconds=asking.request_seconds,
        )
        self._known.append((given, retrying))
        return retrying

    def _found(self, given: Any) -> ChatModel | None:
        if not isinstance(given, WorkerModel):
            return resolve_model(given)
        key = None if given.credential is None else self._secrets[given.credential]
        return resolve_model(given.model, key)

    async def close(self) -> None:
        """Close the connections of those that were made here; what was handed over is not ours to close."""
        own = [model for given, model in self._known if isinstance(given, (str, WorkerModel))]
        results = await asyncio.gather(*(model.close() for model in own), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error

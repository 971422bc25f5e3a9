"""The models that work in the background: each task may have its own, and equal ones are shared."""

from __future__ import annotations

from typing import Any

from casenotes.config import ModelSettings
from casenotes.models.chat import RetryingModel, resolve_model


class Workers:
    """Chat models by what was configured; a task without one of its own gets the agent's."""

    def __init__(self, agents: Any, settings: ModelSettings) -> None:
        self._agents = agents
        self._settings = settings
        self._known: list[tuple[Any, RetryingModel]] = []

    def model(self, own: Any = None) -> RetryingModel | None:
        """The model of a task, None if there is none. No request is sent."""
        given = own or self._agents
        known = next((model for name, model in self._known if name is given or name == given), None)
        return known or self._resolved(given)

    def _resolved(self, given: Any) -> RetryingModel | None:
        model = resolve_model(given)
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

    async def close(self) -> None:
        """Close the connections of those that were made here; what was handed over is not ours to close."""
        for given, model in self._known:
            if isinstance(given, str):
                await model.close()

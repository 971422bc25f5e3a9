"""A chat model for tests: a function answers, and every question is kept."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from casenotes.models.chat import ChatReply, ChatRequest, Usage
from casenotes.tokens import estimate_tokens


class ScriptedModel:
    """Answers with what `handler(request)` returns, at once or awaited: an object, text, a list or None.

    The handler finds what is asked in `request.task` and `request.prompt`; what it raises is raised.
    """

    def __init__(self, handler: Callable[[ChatRequest], Any], label: str = "scripted") -> None:
        self.label = label
        self.requests: list[ChatRequest] = []
        self._handler = handler

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Note the question and let the handler answer."""
        self.requests.append(request)
        answer = self._handler(request)
        if inspect.isawaitable(answer):
            answer = await answer
        output = _as_output(answer)
        return ChatReply(output, _usage(request, output))


def _as_output(answer: Any) -> str | Mapping[str, Any]:
    if answer is None:
        return ""
    return answer if isinstance(answer, str | Mapping) else json.dumps(answer)


def _usage(request: ChatRequest, output: str | Mapping[str, Any]) -> Usage:
    written = output if isinstance(output, str) else json.dumps(dict(output), default=str)
    return Usage(1, estimate_tokens(request.system) + estimate_tokens(request.prompt), estimate_tokens(written))

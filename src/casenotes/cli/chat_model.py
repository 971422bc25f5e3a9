"""Whom `casenotes chat` talks to: a model by its name, or `test`, which quotes memory and needs no key.

The same model learns from the conversation; with `test` nothing is learned, and what was said is found
word for word.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from casenotes.config import effective
from casenotes.errors import MissingExtra, UsageError
from casenotes.models.chat import resolve_model
from casenotes.recall.render import age_label
from casenotes.types import RECALL_TOOL

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo, DeltaToolCalls

    from casenotes.models.pydantic_chat import PydanticChatModel

TEST = "test"
NOTHING = "I remember nothing about that."
SAID = {"user": "You said", "assistant": "I said"}


@dataclass(frozen=True, slots=True)
class Partner:
    """Who answers; `worker` is who learns."""

    name: str
    worker: PydanticChatModel | None = None

    def model_for(self, question: str) -> Model[Any]:
        """The model that answers a question."""
        return self.worker.model if self.worker else quoting_model(question)


def choose_partner(given: str | None) -> Partner:
    """The model that `--model` or the environment names."""
    name = given or effective().model
    if not name:
        raise UsageError(
            "no model to talk to; give --model provider:name or set CASENOTES_MODEL, "
            f"or try --model {TEST}, which needs no key and quotes what it remembers"
        )
    try:
        from casenotes.models.pydantic_chat import PydanticChatModel
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise
        raise MissingExtra("casenotes chat needs Pydantic AI: pip install 'casenotes[models]'") from None
    worker = None if name == TEST else resolve_model(name)
    return Partner(name, worker if isinstance(worker, PydanticChatModel) else None)


def quoting_model(question: str) -> Model[Any]:
    """A model that asks memory for a question and quotes the best that it finds."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        found = _recalled(messages)
        if found is None and any(tool.name == RECALL_TOOL for tool in info.function_tools):
            return ModelResponse([ToolCallPart(RECALL_TOOL, {"query": question})])
        return ModelResponse([TextPart(quote(found or (), datetime.now(UTC)))])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for part in answer(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str())}
            elif isinstance(part, TextPart):
                for word in re.findall(r"\s*\S+\s*", part.content):
                    yield word

    return FunctionModel(answer, stream_function=stream, model_name=TEST)


def _recalled(messages: Sequence[ModelMessage]) -> Sequence[Mapping[str, Any]] | None:
    """The hits of a search that was just made; None if there was none."""
    from pydantic_ai.messages import ToolReturnPart

    for part in messages[-1].parts:
        if isinstance(part, ToolReturnPart):
            content: Any = part.content
            return list(content.get("hits", ())) if isinstance(content, dict) else []
    return None


def quote(hits: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """The best hit word for word, with its age and thread; statements count before questions and answers."""
    if not hits:
        return NOTHING
    best = min(hits, key=_is_weak)
    age = age_label(datetime.fromisoformat(best["created_at"]), now)
    who = SAID.get(best.get("speaker", ""), "I noted")
    return f"{who} {age}, in thread {best['thread_id']}: “{best['content']}”"


def _is_weak(hit: Mapping[str, Any]) -> bool:
    return hit.get("speaker") == "assistant" or str(hit["content"]).rstrip().endswith("?")

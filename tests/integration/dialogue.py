"""A conversation with an assistant that sets up memory: a real Pydantic AI agent, a scripted model, a host.

The model's part is written down: for each thing that the user says, the tools it calls, and what it
says in the end. Tools run for real.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from casenotes.builder import MemoryBuilder
from casenotes.integrations.pydantic_ai_builder import builder_toolset

Call = tuple[str, dict[str, Any]]
READ: Call = ("read_memory_config", {})
VERIFY: Call = ("verify_memory_config", {})
EMBEDDINGS = "episodicMemory.credential"
OBSERVER = "observationalMemory.observerModel"
GEMINI = {"model": "google/gemini-2.5-flash", "credential": "cred-google"}


def put(*changes: tuple[str, Any, str], instructions: str | None = None, asked: str = "") -> Call:
    """A call of `set_memory_config` with changes (field, value, user_request)."""
    listed = [{"field": field, "value": value, "user_request": quote} for field, value, quote in changes]
    told = {"instructions": instructions, "instructions_request": asked} if instructions is not None else {}
    return "set_memory_config", {"changes": listed} | told


def credential(purpose: str = EMBEDDINGS, credential_type: str = "openAiApi") -> Call:
    """A call of `ask_credential`."""
    return "ask_credential", {"credential_type": credential_type, "purpose": purpose}


class Dialogue:
    """A builder with its host, and the assistant that talks to the user."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        credentials: Iterable[str | None] = (),
        llms: Mapping[str, Mapping[str, str]] | None = None,
        chosen: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.asked: list[dict[str, str]] = []
        self._credentials = iter(credentials)
        self._llms = llms or {}
        self._chosen = chosen
        self.builder = MemoryBuilder(
            config,
            ask_credential=self._ask_credential,
            resolve_llm=self._resolve_llm,
            ask_llm=self._ask_llm,
            **options,
        )
        self.agent = Agent(FunctionModel(self._answer), toolsets=[builder_toolset(self.builder)])
        self.history: list[ModelMessage] = []
        self.instructions: list[str | None] = []
        self._steps: list[list[Call]] = []
        self._reply = ""

    async def _ask_credential(self, *, credential_type: str, purpose: str) -> str | None:
        self.asked.append({"credential_type": credential_type, "purpose": purpose})
        return next(self._credentials, None)

    def _resolve_llm(self, *, model: str, purpose: str) -> Mapping[str, str] | None:
        return self._llms.get(model)

    async def _ask_llm(self, *, purpose: str) -> Mapping[str, str] | None:
        return self._chosen

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.instructions.append(info.instructions)
        if self._steps:
            return ModelResponse([ToolCallPart(name, arguments) for name, arguments in self._steps.pop(0)])
        return ModelResponse([TextPart(self._reply)])

    async def say(self, text: str, *steps: Call, reply: str = "Done.") -> list[dict[str, Any]]:
        """What the user says; what the tools answered that the assistant then called, one after the other."""
        self._steps, self._reply = [[step] for step in steps], reply
        result = await self.agent.run(text, message_history=self.history)
        self.history = result.all_messages()
        return [
            part.content
            for message in result.new_messages()
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]

    @property
    def memory(self) -> Any:
        """The memory settings as they are now."""
        return self.builder.config.get("memory")


def rules(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The path and rule of each violation that a tool answered with."""
    found = answer.get("refused", answer.get("violations"))
    assert found is not None, answer
    return [(item["path"], item["rule"]) for item in found]

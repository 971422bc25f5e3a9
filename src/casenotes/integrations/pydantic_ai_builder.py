"""The builder's tools for agents of Pydantic AI: `Agent(model, toolsets=[builder_toolset(builder)])`.

The conversation that quotes are looked for in is that of the run: prompts of the user and answers of the
assistant, earlier runs included if they are passed as `message_history`. Results of tools are not the user's
words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import Tool as AgentTool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import FunctionToolset

from casenotes.builder import MemoryBuilder, guidance
from casenotes.types import Message, Tool


def builder_toolset(builder: MemoryBuilder) -> FunctionToolset[Any]:
    """The six tools with their guidance as instructions."""
    tools = [_agent_tool(builder, tool) for tool in builder.tools]
    return FunctionToolset(tools, id="casenotes-builder", instructions=guidance(), sequential=True)


def _agent_tool(builder: MemoryBuilder, tool: Tool) -> AgentTool[Any]:
    async def call(ctx: RunContext[Any], **arguments: Any) -> Any:
        builder.hear_all(list(_said(ctx.messages)))
        return await tool.call(**arguments)

    return AgentTool.from_schema(call, tool.name, tool.description, dict(tool.parameters), takes_ctx=True)


def _said(messages: Sequence[ModelMessage]) -> Iterator[Message]:
    """What user and assistant said, in order."""
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    yield Message("user", _text(part))
        elif isinstance(message, ModelResponse):
            text = "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
            if text:
                yield Message("assistant", text)


def _text(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(item for item in part.content if isinstance(item, str))

"""The builder's tools for agents of Pydantic AI: `Agent(model, toolsets=[builder_toolset(builder)])`.

The conversation that quotes are looked for in is that of the run: prompts of the user and answers of the
assistant, earlier runs included if they are passed as `message_history`. Results of tools are not the user's
words.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import Tool as AgentTool
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import FunctionToolset

from casenotes.builder import MemoryBuilder, guidance
from casenotes.integrations.pydantic_ai_messages import from_model_messages
from casenotes.types import SPEAKERS, Tool


def builder_toolset(builder: MemoryBuilder) -> FunctionToolset[Any]:
    """The six tools with their guidance as instructions."""
    tools = [_agent_tool(builder, tool) for tool in builder.tools]
    return FunctionToolset(tools, id="casenotes-builder", instructions=guidance(), sequential=True)


def _agent_tool(builder: MemoryBuilder, tool: Tool) -> AgentTool[Any]:
    async def call(ctx: RunContext[Any], /, **arguments: Any) -> Any:
        said = from_model_messages(ctx.messages, prompt=ctx.prompt)
        builder.hear_all([message for message in said if message.role in SPEAKERS and message.text])
        return await tool.call(**arguments)

    return AgentTool.from_schema(call, tool.name, tool.description, dict(tool.parameters), takes_ctx=True)

"""For assistants that set up the memory of other agents: guidance, tools, and the rules they are held to."""

from __future__ import annotations

from casenotes.builder.toolset import MemoryBuilder, guidance
from casenotes.builder.verify import verify

__all__ = ["MemoryBuilder", "guidance", "verify"]

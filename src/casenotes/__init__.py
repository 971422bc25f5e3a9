"""Casenotes: memory for AI agents that can say where every memory came from."""

from __future__ import annotations

from casenotes.config import EpisodicSettings, JobSettings, SearchSettings, Settings, StorageSettings
from casenotes.errors import CasenotesError
from casenotes.memory import Memory
from casenotes.types import (
    Block,
    Context,
    Entry,
    Evidence,
    Hit,
    Message,
    Receipt,
    Scope,
    Scores,
    Thread,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)

__version__ = "0.1.0"

__all__ = [
    "Block",
    "CasenotesError",
    "Context",
    "Entry",
    "EpisodicSettings",
    "Evidence",
    "Hit",
    "JobSettings",
    "Memory",
    "Message",
    "Receipt",
    "Scope",
    "Scores",
    "SearchSettings",
    "Settings",
    "StorageSettings",
    "Thread",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Turn",
    "__version__",
]

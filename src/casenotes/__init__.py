"""Casenotes: memory for AI agents that can say where every memory came from."""

from __future__ import annotations

from casenotes.config import (
    EpisodicSettings,
    JobSettings,
    ObservationalSettings,
    SearchSettings,
    Settings,
    StorageSettings,
)
from casenotes.credentials import CredentialResolver, Secret
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
    "CredentialResolver",
    "Entry",
    "EpisodicSettings",
    "Evidence",
    "Hit",
    "JobSettings",
    "Memory",
    "Message",
    "ObservationalSettings",
    "Receipt",
    "Scope",
    "Scores",
    "SearchSettings",
    "Secret",
    "Settings",
    "StorageSettings",
    "Thread",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Turn",
    "__version__",
]

"""Public test doubles, and the contract every store must pass."""

from __future__ import annotations

from casenotes.clock import FrozenClock
from casenotes.testing.embedder import HashEmbedder
from casenotes.testing.model import ScriptedModel
from casenotes.testing.store_contract import StoreContract

__all__ = ["FrozenClock", "HashEmbedder", "ScriptedModel", "StoreContract"]

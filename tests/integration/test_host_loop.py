"""Work on long texts is done in threads: the host's loop goes on meanwhile; `bench/loop.py` says how well."""

import threading
from typing import Any

import pytest

from casenotes import Memory, Message, Scope, speakers
from casenotes.curate import erase
from casenotes.testing import HashEmbedder
from casenotes.tokens import estimate_tokens
from casenotes.types import ToolCall, ToolResult

SCOPE = Scope("support", "ann", "t1")
LONG = "The import of row seven failed with 401. " * 5_000


class Places:
    """In which threads a function was called with long texts."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.threads: set[int] = set()

    def __call__(self, given: Any) -> Any:
        if sum(map(len, given)) > 100_000:
            self.threads.add(threading.get_ident())
        return self._function(given)

    @property
    def are_beside_the_loop(self) -> bool:
        return bool(self.threads) and threading.get_ident() not in self.threads


async def test_r03_24_long_texts_are_worked_on_beside_the_loop(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, mask, pieces = Places(estimate_tokens), Places(speakers.mask), Places(erase.pieces_of)
    monkeypatch.setattr(speakers, "mask", mask)
    monkeypatch.setattr(erase, "pieces_of", pieces)
    async with Memory.open(store_url, count_tokens=count, embedder=HashEmbedder(16)) as memory:
        turn = await memory.begin(SCOPE, LONG)
        result = Message("tool", "", parts=(ToolResult("c1", LONG + "step"),))
        await memory.step(turn, [Message("assistant", "", parts=(ToolCall("c1", "read"),)), result])
        await memory.complete(turn, LONG + "answer")
        await memory.flush()
    async with Memory.open(store_url, count_tokens=count, embedder=HashEmbedder(16)) as memory:
        await memory.begin(SCOPE, "What failed?")  # what was said before has to be counted again
        await memory.erase(SCOPE)
    assert count.are_beside_the_loop
    assert mask.are_beside_the_loop
    assert pieces.are_beside_the_loop

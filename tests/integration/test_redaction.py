"""Secrets: the log keeps what was said unless told otherwise, and nothing derived from it has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from conversation import LATER, MIRA, NOW, entry, opened, proposes, settings, turn

from casenotes import Message, StorageSettings, ToolCall, ToolResult
from casenotes.config import Settings
from casenotes.events import Events
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

KEY = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
SAID = f"The importer uses OPENAI_API_KEY={KEY} and fails every night."


class Recording(HashEmbedder):
    """Keeps what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    async def embed(self, texts):
        self.texts += texts
        return await super().embed(texts)


async def test_vectors_index_and_hits_are_made_of_masked_text(store_url: str) -> None:
    embedder = Recording()
    async with opened(store_url, embedder=embedder) as memory:
        await turn(memory, MIRA, SAID)
        await memory.flush()
        assert (await memory.history(MIRA))[0].text == SAID
        (hit, *_) = await memory.recall(LATER, "importer fails every night")
        assert KEY not in hit.content
        assert "The importer uses" in hit.content
        block = (await memory.begin(LATER, "the importer fails every night")).context.text
        assert "The importer uses" in block
        assert KEY not in block
        found = await memory.recall(LATER, KEY)
        assert all(hit.scores.lexical == 0 or KEY not in hit.content for hit in found)
        index = memory._searcher.cache.get(MIRA)
        assert index is not None
        vocabulary = index._lexicon._vocabulary
        assert any("import" in term for term in vocabulary)
        assert not any("ab3de6" in term for term in vocabulary)
    assert embedder.texts
    assert all(KEY not in text for text in embedder.texts)


async def test_messages_can_be_redacted_when_they_are_saved(store_url: str) -> None:
    config = Settings(storage=StorageSettings(redact_messages=True))
    async with opened(store_url, config=config) as memory:
        under_way = await memory.begin(MIRA, SAID)
        call = ToolCall("c1", "run", {"env": {"OPENAI_API_KEY": KEY}, "list": [f"token={KEY}"], "n": 1})
        await memory.step(
            under_way,
            [
                Message("assistant", f"Trying {KEY}", parts=(call,)),
                Message("tool", "", parts=(ToolResult("c1", f"bad key {KEY}"),)),
            ],
        )
        await memory.append(LATER, f"again {KEY}")
        stored = [*await memory.history(MIRA), *await memory.history(LATER)]
        assert len(stored) == 4
        assert KEY not in str(stored)
        assert stored[1].parts[0].arguments["n"] == 1


async def test_names_tell_what_is_a_secret_in_arguments_and_metadata(store_url: str) -> None:
    arguments = {
        "password": "swordfish1",
        "user": "mira",
        "env": [{"name": "DB_PASSWORD", "value": "hunter2x9"}, {"name": "REGION", "value": "eu-west"}],
        "keys": {"api_key": "Xk9fQ2mN7pL4aB", "count": 3},
    }
    config = Settings(storage=StorageSettings(redact_messages=True))
    async with opened(store_url, config=config) as memory:
        call = ToolCall("c1", "deploy", arguments)
        await memory.append(
            MIRA, Message("assistant", "ok", parts=(call,), metadata={"token": KEY, "kind": "x"})
        )
        (stored,) = await memory.history(MIRA)
        for secret in ("swordfish1", "hunter2x9", "Xk9fQ2mN7pL4aB", KEY):
            assert secret not in str(stored), secret
        kept = stored.parts[0].arguments
        assert (kept["user"], kept["env"][1]["value"], kept["keys"]["count"]) == ("mira", "eu-west", 3)
        assert stored.metadata["kind"] == "x"


async def test_no_file_of_a_redacted_store_holds_the_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    config = replace(settings(), storage=StorageSettings(redact_messages=True))
    model = proposes(entry(f"The importer fails with {KEY}.", "and fails every night."))
    async with opened(url, model, config=config) as memory:
        await turn(memory, MIRA, SAID)
    for file in tmp_path.glob("r.db*"):
        assert KEY.encode() not in file.read_bytes()


async def test_only_the_log_holds_the_key_otherwise(tmp_path: Path) -> None:
    model = proposes(entry(f"The importer fails with {KEY}.", "and fails every night."))
    async with opened(f"sqlite:///{tmp_path / 'r.db'}", model) as memory:
        receipt = await turn(memory, MIRA, SAID)
        assert receipt.candidates[0].status == "stored"
    whole = (tmp_path / "r.db").read_bytes()
    assert whole.count(KEY.encode()) == 1


async def test_errors_reach_listeners_and_the_store_without_secrets(store_url: str) -> None:
    def fails(_request: object) -> None:
        raise RuntimeError(f"the server said: bad key {KEY}")

    seen = []
    async with opened(store_url, ScriptedModel(fails), on_event=seen.append) as memory:
        receipt = await turn(memory, MIRA, "hello there")
        assert receipt.status == "failed"
        assert KEY not in receipt.reason
    assert any(event.name == "learning.failed" for event in seen)
    assert KEY not in str(seen)


def test_an_event_masks_its_error() -> None:
    events = Events(FrozenClock(NOW))
    seen = []
    events.listen(seen.append)
    events.emit("embedding.failed", None, error=ValueError(f"bad key {KEY}"))
    assert KEY not in seen[0].data["error"]
    assert "bad key" in seen[0].data["error"]

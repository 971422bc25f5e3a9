"""Changing the embedder of a store, on both kinds of store, with others using it at the same time."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from casenotes import Memory, Scope
from casenotes.errors import EmbeddingError
from casenotes.events import Event
from casenotes.recall import reembed as reembedding
from casenotes.stores import create_store
from casenotes.testing import HashEmbedder

ANN = Scope("support", "ann", "t1")
BOB = Scope("support", "bob", "t1")


class Scripted(HashEmbedder):
    """Calls a function before each batch, and may refuse a text."""

    def __init__(self, dimensions: int, before=lambda texts: None) -> None:
        super().__init__(dimensions)
        self.before = before
        self.calls = 0

    async def embed(self, texts):
        self.calls += 1
        result = self.before(texts)
        if asyncio.iscoroutine(result):
            await result
        return await super().embed(texts)


async def fill(memory: Memory, count: int = 6) -> None:
    for scope in (ANN, BOB):
        for n in range(count):
            await memory.append(scope, f"message {n} of {scope.resource_id} about the fan")


async def spaces(url: str) -> list[tuple[str, bool]]:
    store = create_store(url)
    await store.open()
    try:
        return [(space.model, space.active) for space in await store.spaces()]
    finally:
        await store.close()


async def test_everything_moves_to_the_new_space(store_url: str) -> None:
    seen: list[tuple[int, int]] = []
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        await memory.append(ANN, "   ")
        before = await memory.recall(ANN, "fan", 20)
        result = await memory.reembed(HashEmbedder(48), progress=lambda done, total: seen.append((done, total)))
        assert (result.model, result.embedded, result.removed, result.unusable) == ("hash-48", 12, 12, 0)
        assert seen[-1] == (13, 13)
        assert len(await memory.recall(ANN, "fan", 20)) == len(before) == 6
        await memory.append(ANN, "a new message about the fan")
        assert len(await memory.recall(ANN, "fan", 20)) == 7
        assert (await memory.stats()).vectors == 13
        assert all(finding.status == "ok" for finding in await memory.check() if finding.name != "sqlite")
    assert await spaces(store_url) == [("hash-48", True)]
    async with Memory.open(store_url, embedder=HashEmbedder(48)) as memory:
        assert len(await memory.recall(BOB, "fan", 20)) == 6


async def test_recall_and_writing_go_on_meanwhile(store_url: str) -> None:
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        found: list[int] = []

        async def use_it(_texts: object) -> None:
            if next(numbers) < 4:  # the memory itself uses this embedder after the switch
                await memory.append(ANN, "said meanwhile about the fan")
                found.append(len(await memory.recall(ANN, "fan", 50)))

        numbers = itertools.count()
        await memory.reembed(Scripted(48, use_it))
        assert len(found) >= 2
        assert found == sorted(found)
        assert found[0] >= 7, "what was said a moment ago is found too"
        assert len(await memory.recall(ANN, "fan", 50)) == 6 + len(found)
        await memory.flush()
        stats = await memory.stats()
        assert stats.vectors == stats.messages


async def test_another_process_follows_the_switch(store_url: str) -> None:
    events: list[Event] = []
    async with (
        Memory.open(store_url, embedder="static", on_event=events.append) as other,
        Memory.open(store_url, embedder="static") as memory,
    ):
        await fill(memory)
        assert len(await other.recall(ANN, "fan", 20)) == 6
        await memory.reembed("minilm")
        (first, *_rest) = await other.recall(ANN, "fan noise", 20)
        assert first.scores.vector > 0
        assert [(e.data["model"], e.data["by_words_alone"]) for e in events if e.name == "space.switched"] == [
            ("minilm:all-MiniLM-L6-v2-int8", False)
        ]
        await other.append(ANN, "the fan of rack seven is loud")
        assert (await other.recall(ANN, "rack seven"))[0].content == "the fan of rack seven is loud"
        assert (await other.stats()).vectors == 13


async def test_a_process_that_cannot_follow_goes_on_by_words(store_url: str) -> None:
    async with (
        Memory.open(store_url, embedder=HashEmbedder(32)) as other,
        Memory.open(store_url, embedder=HashEmbedder(32)) as memory,
    ):
        await fill(memory)
        await other.recall(ANN, "fan")
        await memory.reembed(HashEmbedder(48))
        turn = await other.begin(ANN, "the pump is dry")
        await other.complete(turn, "Filled up.")
        hits = await other.recall(ANN, "pump")
        assert [hit.content for hit in hits] == ["the pump is dry"]
        assert hits[0].scores.vector == 0
        assert (await memory.recall(ANN, "pump"))[0].content == "the pump is dry"
        await memory.flush()
        assert (await memory.stats()).vectors == 14, "the one that can embeds for both"


async def test_vectors_made_for_a_space_that_is_gone_are_not_kept(store_url: str) -> None:
    """The other process embeds, not yet knowing of the switch."""
    async with (
        Memory.open(store_url, embedder=HashEmbedder(32)) as other,
        Memory.open(store_url, embedder=HashEmbedder(32)) as memory,
    ):
        await fill(memory)
        await memory.reembed(HashEmbedder(48))
        await other.append(ANN, "said by one who does not know")
        await other.embed_missing(ANN)
        await other.embed_missing(BOB)
    assert await spaces(store_url) == [("hash-48", True)]
    async with Memory.open(store_url, embedder=HashEmbedder(48)) as memory:
        assert len(await memory.recall(ANN, "know", 5)) == 1
        await memory.flush()
        assert (await memory.stats()).vectors == 13
        assert all(f.status != "failed" for f in await memory.check())


async def test_a_failing_embedder_leaves_the_old_space_and_can_go_on(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembedding, "BATCH", 2)

    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)

        def fail_late(_texts: object) -> None:
            if failing.calls > 4:
                raise EmbeddingError("the provider is down")

        failing = Scripted(48, fail_late)
        with pytest.raises(EmbeddingError, match="the provider is down"):
            await memory.reembed(failing)
        assert await spaces(store_url) == [("hash-32", True), ("hash-48", False)]
        (finding,) = [f for f in await memory.check() if f.name == "embedding space"]
        assert (finding.status, "reembed" in finding.remedy) == ("warning", True)
        assert len(await memory.recall(ANN, "fan", 20)) == 6

        result = await memory.reembed(HashEmbedder(48))
        assert 0 < result.embedded < 12, "what was made before the failure counted"
    assert await spaces(store_url) == [("hash-48", True)]


async def test_changing_the_mind_half_way_removes_what_was_begun(store_url: str) -> None:
    def fail(_texts: object) -> None:
        raise EmbeddingError("the provider is down")

    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        with pytest.raises(EmbeddingError):
            await memory.reembed(Scripted(48, fail))
        result = await memory.reembed(HashEmbedder(32))
        assert (result.embedded, result.removed) == (0, 0)
        assert len(await memory.recall(ANN, "fan", 20)) == 6
    assert await spaces(store_url) == [("hash-32", True)]


async def test_a_text_without_usable_vector_does_not_stop_it(store_url: str) -> None:
    class Picky(HashEmbedder):
        async def embed(self, texts):
            return [
                [0.0] * 48 if "3" in text else v
                for text, v in zip(texts, await super().embed(texts), strict=True)
            ]

    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        result = await memory.reembed(Picky(48))
        assert (result.embedded, result.unusable) == (10, 2)
        assert len(await memory.recall(ANN, "fan", 20)) == 6


async def test_an_extra_installed_later_changes_no_existing_store(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("casenotes.models.registry.minilm_is_installed", lambda: False)
        async with Memory.open(store_url) as memory:
            await memory.append(ANN, "the fan is loud")
    async with Memory.open(store_url) as memory:
        await memory.append(ANN, "the fan was replaced")
        assert len(await memory.recall(ANN, "fan")) == 2
        assert await spaces(store_url) == [("static:l2-supercat", True)]
        await memory.reembed("local")
    assert await spaces(store_url) == [("minilm+static:0.6", True)]


async def test_a_user_unknown_before_the_switch_is_searched_after_it(store_url: str) -> None:
    new_user = Scope("support", "carla", "t1")
    async with (
        Memory.open(store_url, embedder="static") as other,
        Memory.open(store_url, embedder="static") as memory,
    ):
        await fill(memory)
        for each in (memory, other):
            assert await each.recall(new_user, "fan") == []
        await memory.reembed("minilm")
        async with asyncio.timeout(20):
            assert await memory.recall(new_user, "fan") == []
            await memory.append(new_user, "the fan of carla")
            for each in (memory, other):
                (hit,) = await each.recall(new_user, "fan")
                assert hit.content == "the fan of carla"


async def test_an_embedder_that_does_not_work_changes_nothing(store_url: str) -> None:
    class Zeros(HashEmbedder):
        async def embed(self, texts):
            return [[0.0] * self.dimensions for _ in texts]

    class OnlyTheProbe(HashEmbedder):
        async def embed(self, texts):
            usable = await super().embed(texts)
            return usable if texts == [reembedding.PROBE] else [[0.0] * self.dimensions for _ in texts]

    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        with pytest.raises(EmbeddingError, match="is all zero"):
            await memory.reembed(Zeros(48))
        assert await spaces(store_url) == [("hash-32", True)]
        with pytest.raises(
            EmbeddingError, match=r"12 of 12 messages and entries have no usable vector.*nothing was switched"
        ):
            await memory.reembed(OnlyTheProbe(48))
        assert (await memory.recall(ANN, "fan"))[0].scores.vector > 0
        assert (await memory.stats()).vectors == 12


async def test_a_failure_after_the_switch_leaves_the_new_embedder_in_use(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> int:
        raise EmbeddingError("the store is busy")

    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await fill(memory)
        with monkeypatch.context() as patch:
            patch.setattr(reembedding, "_drop_others", fail)
            with pytest.raises(EmbeddingError, match="busy"):
                await memory.reembed(HashEmbedder(48))
        assert (await memory.recall(ANN, "fan"))[0].scores.vector > 0
        await memory.append(ANN, "one more about the fan")
        result = await memory.reembed(HashEmbedder(48))
        assert (result.embedded, result.removed) == (0, 12)
    assert await spaces(store_url) == [("hash-48", True)]


async def test_old_spaces_are_removed_beside_writers_who_do_not_know(store_url: str) -> None:
    async with (
        Memory.open(store_url, embedder=HashEmbedder(32)) as other,
        Memory.open(store_url, embedder=HashEmbedder(32)) as memory,
    ):
        await fill(memory)

        async def write(lane: int) -> None:
            scope = Scope("support", f"writer-{lane}", "t")
            for n in range(10_000):
                await other.append(scope, f"message {n} of lane {lane}")

        writers = [asyncio.create_task(write(lane)) for lane in range(4)]
        for dimensions in (48, 64, 32):
            async with asyncio.timeout(60):
                await memory.reembed(HashEmbedder(dimensions))
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
    assert await spaces(store_url) == [("hash-32", True)]

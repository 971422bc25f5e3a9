"""Memory on both stores: turns, recall, isolation, and what happens when parts fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from casenotes import (
    Memory,
    Message,
    Scope,
    SearchSettings,
    Settings,
    StorageSettings,
    ToolCall,
    ToolResult,
)
from casenotes.errors import (
    InvalidMessage,
    InvalidScope,
    MessageConflict,
    SettingsError,
    SpaceMismatch,
    StoreUnavailable,
    UsageError,
)
from casenotes.events import Event
from casenotes.recall.lexical import LexicalIndex
from casenotes.stores.base import VectorRow
from casenotes.testing import FrozenClock, HashEmbedder

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANN = Scope("support", "ann", "t1")
BOB = Scope("support", "bob", "t1")


@pytest.fixture
async def memory(store_url: str) -> AsyncIterator[Memory]:
    async with Memory.open(store_url, clock=FrozenClock(NOON)) as memory:
        yield memory


class FailingEmbedder(HashEmbedder):
    """Fails while told to; `bad` texts get a vector that is not finite."""

    def __init__(self) -> None:
        super().__init__(64)
        self.down = False
        self.calls = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        if self.down:
            raise ConnectionError("embedder is down")
        vectors = await super().embed(texts)
        return [[float("nan")] * 64 if "bad" in t else v for t, v in zip(texts, vectors, strict=True)]


async def contents(memory: Memory, scope: Scope, query: str, **options: object) -> list[str]:
    return [hit.content for hit in await memory.recall(scope, query, **options)]


async def test_a_turn_is_saved_and_recalled(memory: Memory) -> None:
    turn = await memory.begin(ANN, "The webhook returns 401 again")
    assert [m.text for m in turn.context.messages] == ["The webhook returns 401 again"]
    calls = [
        Message("assistant", "", parts=[ToolCall("c1", "clock", {"host": "pay-2"})]),
        Message("tool", "", parts=[ToolResult("c1", "412 seconds ahead")]),
    ]
    context = await memory.step(turn, calls)
    assert [m.role for m in context.messages] == ["user", "assistant", "tool"]
    receipt = await memory.complete(turn, "It was the clock skew.", outcome="success")
    assert len(receipt.message_ids) == 4
    history = await memory.history(ANN)
    assert [m.id for m in history] == list(receipt.message_ids)
    assert history[1].parts == calls[0].parts
    assert (await contents(memory, ANN, "webhook 401"))[0] == "The webhook returns 401 again"
    assert (await contents(memory, ANN, "seconds ahead"))[0] == "412 seconds ahead"
    assert (await memory.stats()).open_turns == 0


async def test_completing_in_sync_waits_for_the_vectors(memory: Memory) -> None:
    turn = await memory.begin(ANN, "question")
    await memory.complete(turn, "answer", sync=True)
    assert (await memory.stats()).vectors == 2


async def test_hits_say_where_they_come_from(memory: Memory) -> None:
    await memory.append(ANN, Message("assistant", "chronyd was stopped on pay-2", id="m1", created_at=NOON))
    (hit,) = await memory.recall(ANN, "chronyd")
    assert (hit.kind, hit.id, hit.message_id, hit.thread_id, hit.role) == (
        "message",
        "m1",
        "m1",
        "t1",
        "assistant",
    )
    assert hit.created_at == NOON
    assert hit.scores.lexical > 0
    assert 0 < hit.scores.vector <= 1
    assert hit.scores.final == pytest.approx(hit.scores.fused + 0.005 * hit.scores.recency)


async def test_recall_spans_the_threads_of_a_resource_and_nothing_else(memory: Memory) -> None:
    await memory.append(ANN, "the printer is on fire")
    await memory.append(Scope("support", "ann", "t2"), "the printer was replaced")
    await memory.append(BOB, "my printer is a secret")
    await memory.append(Scope("sales", "ann", "t1"), "sell more printers")
    assert set(await contents(memory, ANN, "printer")) == {
        "the printer is on fire",
        "the printer was replaced",
    }
    assert await contents(memory, Scope("support", "carl"), "printer") == []


async def test_two_users_at_once_never_meet(memory: Memory) -> None:
    async def talk(user: str) -> None:
        scope = Scope("support", user, "same-thread")
        for n in range(5):
            turn = await memory.begin(scope, f"{user} asks about webhook {n}")
            await memory.complete(turn, f"answer for {user} about webhook {n}")
            assert all(user in text for text in await contents(memory, scope, "webhook answer", top_k=20))

    await asyncio.gather(*(talk(f"user{n}") for n in range(6)))
    for n in range(6):
        assert len(await memory.history(Scope("support", f"user{n}", "same-thread"))) == 10


async def test_results_are_the_same_every_time(memory: Memory) -> None:
    await memory.append(
        ANN, [Message("user", "same words here", id=f"m{n}", created_at=NOON) for n in range(9)]
    )
    first = [hit.id for hit in await memory.recall(ANN, "same words", top_k=5)]
    assert first == [f"m{n}" for n in range(5)]
    for _ in range(3):
        assert [hit.id for hit in await memory.recall(ANN, "same words", top_k=5)] == first


async def test_as_of_leaves_out_what_came_later(memory: Memory) -> None:
    old = Message("user", "the port is 5432", created_at=NOON)
    await memory.append(ANN, [old, Message("user", "the port is 6432", created_at=NOON + timedelta(days=9))])
    assert await contents(memory, ANN, "port", as_of=NOON + timedelta(days=1)) == ["the port is 5432"]
    with pytest.raises(UsageError, match="time zone"):
        await memory.recall(ANN, "port", as_of=datetime(2026, 1, 1))  # noqa: DTZ001


async def test_another_process_is_seen_at_once(store_url: str) -> None:
    async with Memory.open(store_url) as one, Memory.open(store_url) as two:
        await one.append(ANN, "first report")
        assert await contents(two, ANN, "report") == ["first report"]
        await two.append(Scope("support", "ann", "t9"), "second report")
        await one.append(ANN, "third report")
        for memory in (one, two):
            found = set(await contents(memory, ANN, "report"))
            assert found == {"first report", "second report", "third report"}


async def test_everything_is_there_after_reopening(store_url: str) -> None:
    async with Memory.open(store_url) as memory:
        turn = await memory.begin(ANN, "remember the milk")
        await memory.update_thread(ANN, title="Groceries", metadata={"list": 1})
    async with Memory.open(store_url) as memory:
        assert await contents(memory, ANN, "milk") == ["remember the milk"]
        (thread,) = await memory.threads(ANN)
        assert (thread.title, thread.metadata) == ("Groceries", {"list": 1})
        await memory.complete(turn, "done")
        assert [m.text for m in await memory.history(ANN)] == ["remember the milk", "done"]


async def test_completing_again_after_an_error_saves_nothing_twice(memory: Memory) -> None:
    turn = await memory.begin(ANN, "question")
    snapshot = list(turn.message_ids)
    await memory.complete(turn, "answer")
    turn.message_ids[:] = snapshot  # as if the first call had been cut off after its commit
    await memory.complete(turn, "answer")
    assert [m.text for m in await memory.history(ANN)] == ["question", "answer"]


async def test_a_cancelled_turn_leaves_nothing_open(memory: Memory) -> None:
    turn = await memory.begin(ANN, "question")
    task = asyncio.create_task(memory.complete(turn, "answer", outcome="aborted"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    again = await memory.begin(ANN, "next question")
    await memory.complete(again, "next answer")
    assert (await memory.stats()).open_turns == 0
    assert [m.text for m in await memory.history(ANN)][-2:] == ["next question", "next answer"]


async def test_a_step_cut_off_after_its_commit_does_not_block_the_turn(memory: Memory) -> None:
    turn = await memory.begin(ANN, "question")
    snapshot = list(turn.message_ids)
    await memory.step(turn, "half an answer")
    turn.message_ids[:] = snapshot  # as if the step had been cancelled after its commit
    receipt = await memory.complete(turn, "sorry, interrupted", outcome="aborted")
    assert receipt.outcome == "aborted"
    assert [m.text for m in await memory.history(ANN)] == ["question", "half an answer", "sorry, interrupted"]
    assert (await memory.stats()).open_turns == 0


async def test_the_window_never_splits_a_tool_pair(store_url: str) -> None:
    async with Memory.open(store_url, config=Settings(last_messages=2)) as memory:
        turn = await memory.begin(ANN, "question")
        call = Message("assistant", "", parts=[ToolCall("c1", "look")])
        result = Message("tool", "", parts=[ToolResult("c1", "found")])
        context = await memory.step(turn, [call, result])
        assert [m.parts for m in context.messages] == [(), call.parts, result.parts], "its own input stays"
        pending = Message("assistant", "and now", parts=[ToolCall("c2", "look")])
        context = await memory.step(turn, pending)
        shown = [(m.text, m.parts) for m in context.messages]
        assert shown == [("question", ()), ("", call.parts), ("", result.parts), ("and now", ())]
        assert (await memory.history(ANN, 1))[0].parts == pending.parts


class HangingEmbedder(HashEmbedder):
    """Answers only while it is not told to hang."""

    hanging = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.hanging:
            await asyncio.sleep(3_600)
        return await super().embed(texts)


async def test_a_hanging_embedder_delays_a_recall_no_longer_than_its_deadline(store_url: str) -> None:
    settings = Settings(
        search=SearchSettings(deadline_seconds=0.1), storage=StorageSettings(close_timeout_seconds=0.1)
    )
    embedder = HangingEmbedder(64)
    async with Memory.open(store_url, embedder=embedder, config=settings) as memory:
        await memory.append(ANN, "the fan is loud", embed=False)
        embedder.hanging = True
        async with asyncio.timeout(5):
            assert await contents(memory, ANN, "fan") == ["the fan is loud"]
            turn = await memory.begin(ANN, "is the fan still loud?")
            assert len(await contents(memory, turn.scope, "fan")) == 2


async def test_a_cancelled_recall_does_not_lose_the_index_under_construction(memory: Memory) -> None:
    await memory.append(ANN, [Message("user", f"line {n} about fans") for n in range(500)])
    task = asyncio.create_task(memory.recall(ANN, "fans"))
    for _ in range(10_000):
        if memory._searcher._refreshing:
            break
        await asyncio.sleep(0.0001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await memory._searcher.close()
    assert len(memory._searcher.cache.get(ANN)) == 500
    assert len(await memory.recall(ANN, "fans")) == 5


async def test_as_of_does_not_depend_on_what_came_later(memory: Memory) -> None:
    early = [
        Message("user", "disk full on db-3, disk replaced", created_at=NOON),
        Message("user", "a disk is loud", created_at=NOON + timedelta(hours=1)),
    ]
    await memory.append(ANN, early)
    before = [
        (h.id, h.scores.fused) for h in await memory.recall(ANN, "disk db-3", as_of=NOON + timedelta(days=1))
    ]
    later = Message("user", "disk db-3 disk db-3", created_at=NOON + timedelta(days=9))
    await memory.append(ANN, later)
    after = [
        (h.id, h.scores.fused) for h in await memory.recall(ANN, "disk db-3", as_of=NOON + timedelta(days=1))
    ]
    assert [hit_id for hit_id, _ in after] == [hit_id for hit_id, _ in before]


async def test_a_failing_embedder_costs_neither_messages_nor_words(store_url: str) -> None:
    events: list[Event] = []
    embedder = FailingEmbedder()
    async with Memory.open(store_url, embedder=embedder, on_event=events.append) as memory:
        embedder.down = True
        await memory.append(ANN, "the fan of rack seven is loud")
        assert await contents(memory, ANN, "rack seven") == ["the fan of rack seven is loud"]
        assert {e.name for e in events} >= {"embedding.failed", "recall.finished"}
        assert "embedder is down" in str(events[0].data["error"])
        embedder.down = False
        (hit,) = await memory.recall(ANN, "rack seven")
        assert hit.scores.vector > 0.3


async def test_a_bad_vector_is_given_up_and_its_neighbours_are_kept(store_url: str) -> None:
    embedder = FailingEmbedder()
    async with Memory.open(store_url, embedder=embedder) as memory:
        await memory.append(ANN, [Message("user", text) for text in ("good one", "bad one", "good two")])
        assert (await memory.stats()).vectors == 2
        assert set(await contents(memory, ANN, "one")) == {"good one", "bad one"}
        calls = embedder.calls
        await memory.recall(ANN, "one")
        assert embedder.calls == calls + 1


async def test_vectors_missing_after_a_crash_are_made_later(store_url: str) -> None:
    async with Memory.open(store_url) as memory:
        await memory.append(ANN, [Message("user", f"message {n} about disks") for n in range(200)], embed=False)
        assert (await memory.stats()).vectors == 0
        assert len(await memory.recall(ANN, "disks")) == 5
        assert await memory.flush(ANN) == []
        assert (await memory.stats()).vectors == 200
        assert await memory.embed_missing(ANN) == 0


async def test_a_damaged_vector_is_made_again(store_url: str) -> None:
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        (saved,) = (await memory.append(ANN, "the fan is loud")).messages
        await memory.append(ANN, "the fan was replaced")
        damaged = VectorRow("message", str(saved.id), b"\x00" * 12)
        await memory._store.put_vectors(ANN, memory._searcher._space.current.record.id, [damaged])
        assert [f.name for f in await memory.check() if f.status == "failed"] == ["vectors"]
        assert set(await contents(memory, ANN, "fan")) == {"the fan is loud", "the fan was replaced"}
        assert [f.name for f in await memory.check() if f.status == "failed"] == []


async def test_an_index_that_failed_half_way_is_built_anew(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.append(ANN, "the fan is loud")
    await memory.recall(ANN, "fan")
    await memory.append(ANN, "the fan was replaced")
    with monkeypatch.context() as patch:
        patch.setattr(LexicalIndex, "add", lambda self, documents: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await memory.recall(ANN, "fan")
    assert len(await memory.recall(ANN, "fan")) == 2


async def test_texts_that_get_no_vector_do_not_keep_others_from_theirs(store_url: str) -> None:
    async with Memory.open(store_url, embedder=FailingEmbedder()) as memory:
        hopeless = [Message("user", "\n" if n % 2 else f"bad {n}") for n in range(600)]
        await memory.append(ANN, [*hopeless, Message("user", "the last one is good")], embed=False)
        assert await memory.embed_missing(ANN) == 1
        assert await memory.embed_missing(ANN) == 0


async def test_a_failing_embedder_is_not_asked_for_every_batch(store_url: str) -> None:
    embedder = FailingEmbedder()
    async with Memory.open(store_url, embedder=embedder) as memory:
        embedder.down = True
        await memory.append(ANN, [Message("user", f"message {n}") for n in range(1_000)], embed=False)
        assert await memory.embed_missing(ANN) == 0
        assert embedder.calls == 1
        embedder.down = False
        assert await memory.embed_missing(ANN) == 1_000


async def test_a_changed_embedder_is_refused_with_the_remedy(store_url: str) -> None:
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        await memory.append(ANN, "hello")
    for other in (HashEmbedder(64), None):
        with pytest.raises(SpaceMismatch, match=r"hash-32 \(32 dimensions\).*casenotes reembed"):
            async with Memory.open(store_url, embedder=other):
                pass
    async with Memory.open(store_url, embedder=HashEmbedder(32)) as memory:
        assert await contents(memory, ANN, "hello") == ["hello"]


async def test_indexes_are_evicted_by_bytes_and_come_back(store_url: str) -> None:
    settings = Settings(search=SearchSettings(index_cache_bytes=1))
    async with Memory.open(store_url, config=settings) as memory:
        for name in ("ann", "bob", "carl"):
            await memory.append(Scope("a", name, "t"), f"hello from {name}")
            assert await contents(memory, Scope("a", name), "hello") == [f"hello from {name}"]
        assert len(memory._searcher.cache) == 1
        assert memory._searcher.cache.nbytes > 0
        assert await contents(memory, Scope("a", "ann"), "hello") == ["hello from ann"]


async def test_the_other_ranker_can_be_chosen(store_url: str) -> None:
    settings = Settings(search=SearchSettings(ranker="rrf-decay"))
    async with Memory.open(store_url, config=settings, clock=FrozenClock(NOON)) as memory:
        old = Message("user", "the webhook fails", created_at=NOON - timedelta(days=360))
        await memory.append(ANN, [old, Message("user", "unrelated words", created_at=NOON)])
        hits = await memory.recall(ANN, "webhook")
        assert hits[0].scores.final == pytest.approx(hits[0].scores.fused * hits[0].scores.recency)


async def test_blank_messages_and_queries_are_no_trouble(memory: Memory) -> None:
    await memory.append(ANN, [Message("assistant", ""), Message("user", "  \n"), Message("user", "word")])
    assert await contents(memory, ANN, "word") == ["word"]
    assert await contents(memory, ANN, " ") == []
    assert (await memory.stats()).vectors == 1


@pytest.mark.parametrize(
    "query", ['"', "a AND OR NOT", "NEAR(x y)", "col:val*", "'; DROP TABLE x", "(((", "^x -y"]
)
async def test_operators_in_queries_are_plain_words(memory: Memory, query: str) -> None:
    await memory.append(ANN, "x y val drop table")
    assert isinstance(await memory.recall(ANN, query), list)
    assert await contents(memory, ANN, "val*") == ["x y val drop table"]


async def test_hostile_queries_are_answered_or_refused_in_bounded_time(memory: Memory) -> None:
    await memory.append(ANN, "hello world")
    assert await contents(memory, ANN, "hello\x00\ud800 world") == ["hello world"]
    assert await contents(memory, ANN, "hello " * 10_000) == ["hello world"]
    with pytest.raises(UsageError, match="100001 characters"):
        await memory.recall(ANN, "x" * 100_001)


async def test_wrong_calls_are_named(memory: Memory) -> None:
    with pytest.raises(InvalidScope, match="resource_id"):
        await memory.recall(Scope("support"), "x")
    with pytest.raises(InvalidScope, match="thread_id"):
        await memory.begin(Scope("support", "ann"), "x")
    with pytest.raises(UsageError, match="top_k is 0"):
        await memory.recall(ANN, "x", top_k=0)
    with pytest.raises(UsageError, match="limit is 0"):
        await memory.history(ANN, 0)
    assert await memory.history(ANN, 10**30, before=0) == []
    for listed in (memory.episodes, memory.profile_history):
        with pytest.raises(UsageError, match="limit is -1"):
            await listed(ANN, -1)
        assert await listed(ANN, 10**30) == []
    with pytest.raises(UsageError, match="exclude each other"):
        await memory.history(ANN, 5, before=3, after=1)
    with pytest.raises(UsageError, match="'fine'"):
        await memory.complete(await memory.begin(ANN, "x"), "y", outcome="fine")
    with pytest.raises(InvalidScope, match="no thread 'none'"):
        await memory.update_thread(Scope("support", "ann", "none"), title="x")


async def test_messages_that_cannot_be_stored_are_refused_whole(memory: Memory) -> None:
    for text, named in (
        ("a\x00", "NUL"),
        ("\udc00", "surrogate"),
        ("x" * 10_000_000, "10000000 characters"),
    ):
        with pytest.raises(InvalidMessage, match=named):
            await memory.append(ANN, [Message("user", "fine"), Message("user", text)])
    await memory.append(ANN, Message("user", "one", id="same"))
    with pytest.raises(MessageConflict, match="'same'"):
        await memory.append(ANN, [Message("user", "new"), Message("user", "two", id="same")])
    assert [m.text for m in await memory.history(ANN)] == ["one"]


async def test_a_scope_without_resource_has_its_thread_only(memory: Memory) -> None:
    alone = Scope("support", None, "t1")
    turn = await memory.begin(alone, "no user known")
    await memory.complete(turn, "fine")
    assert len(await memory.history(alone)) == 2
    assert await contents(memory, ANN, "user known") == []


async def test_the_window_of_recent_messages_is_a_setting(store_url: str) -> None:
    async with Memory.open(store_url, config=Settings(last_messages=3)) as memory:
        for n in range(5):
            turn = await memory.begin(ANN, f"q{n}")
        assert [m.text for m in turn.context.messages] == ["q2", "q3", "q4"]
        assert turn.context.text == ""


async def test_opening_needs_real_settings_and_a_known_database() -> None:
    with pytest.raises(SettingsError, match="config is a int; pass Settings"):
        async with Memory.open("sqlite:///:memory:", config=7):
            pass
    with pytest.raises(SettingsError, match="'nowhere:x'"):
        async with Memory.open("sqlite:///:memory:", model="nowhere:x"):
            pass
    with pytest.raises(SettingsError, match="'mysql://x'"):
        async with Memory.open("mysql://x"):
            pass


async def test_a_closed_memory_says_so(store_url: str) -> None:
    async with Memory.open(store_url) as memory:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await memory.history(ANN)
    with pytest.raises(StoreUnavailable, match="closed"):
        await memory.append(ANN, "late")


async def test_many_readers_and_writers_never_stall(store_url: str) -> None:
    """Each append is more than a recall takes in at once, so refreshes overlap all the time."""
    async with Memory.open(store_url, embedder="static") as memory:
        await memory.append(ANN, "the fan is loud")

        async def write(lane: int) -> None:
            for n in range(6):
                scope = Scope(ANN.agent_id, ANN.resource_id, f"lane-{lane}")
                texts = [Message("user", f"fan {n} of lane {lane}, part {part}") for part in range(70)]
                await memory.append(scope, texts, embed=False)

        async def read() -> None:
            for _ in range(12):
                assert await memory.recall(ANN, "loud fan")

        async with asyncio.timeout(60):
            await asyncio.gather(*(write(lane) for lane in range(3)), *(read() for _ in range(8)))


@pytest.mark.parametrize("embedder", ["static", "minilm+static"])
async def test_an_identifier_is_found_in_a_chatty_question(sqlite_url: str, embedder: str) -> None:
    async with Memory.open(sqlite_url, embedder=embedder) as memory:
        lamps = [Message("user", f"please switch the lamp in room {n} on or off") for n in range(80)]
        await memory.append(ANN, lamps)
        await memory.append(
            ANN, "After lunch QX7741-ZETA was greased by the night shift and refund 7731 was booked"
        )
        chatty = (
            "Do you remember which machine caused trouble, I think the name was QX7741-ZETA, and who fixed it?"
        )
        for query in (chatty, "refund 7731", "which invoice mentions 7731"):
            for top_k in (1, 5, 20):
                hits = await memory.recall(ANN, query, top_k)
                assert "7731" in hits[0].content, (query, top_k)
        assert await memory.recall(ANN, "how tall are giraffes in Kenya") == []


async def test_what_has_no_vector_is_found_by_one_word(sqlite_url: str) -> None:
    class Picky(HashEmbedder):
        async def embed(self, texts):
            return [
                [0.0] * self.dimensions if "Aldermoor" in text and "which" not in text else vector
                for text, vector in zip(texts, await super().embed(texts), strict=True)
            ]

    async with Memory.open(sqlite_url, embedder=Picky(64)) as memory:
        await memory.append(ANN, [Message("user", f"note {n} about pumps and valves") for n in range(30)])
        await memory.append(ANN, "Aldermoor called")
        hits = await memory.recall(
            ANN, "which customer from the coast phoned us yesterday, was it Aldermoor maybe"
        )
        assert hits[0].content == "Aldermoor called"

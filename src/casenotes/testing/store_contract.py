"""What every store must do, as tests: subclass it and give it a fixture `store`, opened and empty.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self): ...

The tests are `async def`; run them with pytest-asyncio in auto mode, or anyio's plugin.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from casenotes.errors import InvalidScope, MessageConflict, StoreError
from casenotes.stores.base import Freshness, Store, TurnMark, TurnStatus, VectorRow
from casenotes.testing.observation_contract import ObservationContract
from casenotes.testing.revision_contract import RevisionContract
from casenotes.testing.state_contract import StateContract
from casenotes.testing.values import ANN, BOB, NOBODY, NOON, STRANGERS, ids, refused, said, vector
from casenotes.types import Scope, ToolCall, ToolResult


class StoreContract(ObservationContract, StateContract, RevisionContract):
    """One behaviour a test; a backend passes when all of them do."""

    async def test_append_numbers_messages_from_one_in_order(self, store: Store) -> None:
        first = await store.append(ANN, [said("a"), said("b")])
        second = await store.append(ANN, [said("c")])
        assert [m.seq for m in first.messages] == [1, 2]
        assert [m.seq for m in second.messages] == [3]
        assert first.new_ids == {"a", "b"}
        assert ids(await store.history(ANN, limit=10)) == ["a", "b", "c"]

    async def test_everything_said_comes_back_exactly(self, store: Store) -> None:
        message = said(
            "m",
            "tab\t, newline\n, emoji 🦊, Ελληνικά, 東京, quote ' \" \\ %s :x",
            role="assistant",
            parts=(
                ToolCall("c1", "search", {"q": "ü", "n": [1, 2.5, None]}),
                ToolResult("c1", "ok", True),
            ),
            metadata={"role": "case", "nested": {"a": [True]}},
        )
        await store.append(ANN, [message])
        (stored,) = await store.history(ANN, limit=1)
        assert (stored.role, stored.text, stored.parts) == (
            "assistant",
            message.text,
            message.parts,
        )
        assert stored.metadata == message.metadata
        assert stored.created_at == NOON
        assert stored.created_at.tzinfo is not None
        assert (stored.thread_id, stored.seq) == ("t1", 1)

    async def test_times_far_from_now_survive(self, store: Store) -> None:
        times = [
            datetime(1901, 1, 1, tzinfo=UTC),
            datetime(2399, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ]
        await store.append(ANN, [said(str(i), created_at=t) for i, t in enumerate(times)])
        assert [m.created_at for m in await store.history(ANN, limit=2)] == times

    async def test_repeating_an_append_changes_nothing(self, store: Store) -> None:
        await store.append(ANN, [said("a"), said("b")])
        before = await store.freshness(ANN)
        again = await store.append(ANN, [said("a"), said("b", created_at=NOON + timedelta(days=1))])
        assert again.new_ids == set()
        assert [m.seq for m in again.messages] == [1, 2]
        assert again.messages[1].created_at == NOON
        assert len(await store.history(ANN, limit=10)) == 2
        assert (await store.changes(ANN, 1, before.change)).documents == []

    async def test_a_batch_may_mix_known_and_new(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        result = await store.append(ANN, [said("a"), said("b"), said("b")])
        assert result.new_ids == {"b"}
        assert [m.seq for m in result.messages] == [1, 2, 2]

    async def test_an_id_with_other_content_is_refused_and_nothing_is_saved(self, store: Store) -> None:
        await store.append(ANN, [said("a", "one")])
        for bad in (said("a", "two"), said("a", "one", role="assistant")):
            with refused(MessageConflict, "'a'"):
                await store.append(ANN, [said("new"), bad])
        assert ids(await store.history(ANN, limit=10)) == ["a"]
        after = await store.append(ANN, [said("b")])
        assert after.messages[0].seq == 2

    async def test_an_id_in_another_thread_of_the_scope_is_a_conflict(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        with refused(MessageConflict, "t1"):
            await store.append(Scope("support", "ann", "t2"), [said("a")])

    async def test_concurrent_appends_leave_no_gap_and_lose_nothing(self, store: Store) -> None:
        await asyncio.gather(*(store.append(ANN, [said(f"{n}-0"), said(f"{n}-1")]) for n in range(20)))
        messages = await store.history(ANN, limit=100)
        assert [m.seq for m in messages] == list(range(1, 41))
        assert {m.id for m in messages} == {f"{n}-{i}" for n in range(20) for i in range(2)}

    async def test_concurrent_appends_of_one_message_save_it_once(self, store: Store) -> None:
        results = await asyncio.gather(*(store.append(ANN, [said("same")]) for _ in range(12)))
        assert sum(len(result.new_ids) for result in results) == 1
        assert ids(await store.history(ANN, limit=10)) == ["same"]

    async def test_one_failing_append_does_not_harm_its_neighbours(self, store: Store) -> None:
        await store.append(ANN, [said("taken", "x")])
        work = [store.append(ANN, [said(f"ok-{n}")]) for n in range(8)]
        work.insert(3, store.append(ANN, [said("taken", "y")]))
        results = await asyncio.gather(*work, return_exceptions=True)
        assert [type(r).__name__ for r in results].count("MessageConflict") == 1
        assert len(await store.history(ANN, limit=20)) == 9

    async def test_history_windows(self, store: Store) -> None:
        await store.append(ANN, [said(str(n)) for n in range(1, 8)])
        assert ids(await store.history(ANN, limit=3)) == ["5", "6", "7"]
        assert ids(await store.history(ANN, limit=2, before=5)) == ["3", "4"]
        assert ids(await store.history(ANN, limit=2, after=5)) == ["6", "7"]
        assert ids(await store.history(ANN, limit=9, after=0)) == [str(n) for n in range(1, 8)]
        assert await store.history(Scope("support", "ann", "none"), limit=5) == []

    async def test_a_thread_is_needed_where_one_is_read_or_written(self, store: Store) -> None:
        with refused(InvalidScope, "thread_id"):
            await store.history(Scope("a", "b"), limit=1)
        with refused(InvalidScope, "thread_id"):
            await store.append(Scope("a", "b"), [said("x")])

    async def test_no_other_scope_sees_anything(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        await store.append(ANN, [said("a", "secret")])
        await store.put_vectors(ANN, space.id, [VectorRow("message", "a", vector(1, 0))])
        for stranger in STRANGERS:
            assert await store.history(stranger, limit=5) == []
            assert await store.messages(stranger, ["a"]) == {}
            assert await store.threads(stranger) == []
            assert await store.freshness(stranger) == Freshness(0, 0)
            changes = await store.changes(stranger, space.id, 0)
            assert (changes.documents, changes.vectors) == ([], [])
            assert await store.unembedded(stranger, space.id, 5) == []
            assert not await store.update_thread(stranger, title="taken over")
            await store.put_vectors(stranger, space.id, [VectorRow("message", "a", vector(0, 1))])
        assert [row.vector for row in (await store.changes(ANN, space.id, 0)).vectors] == [vector(1, 0)]

    async def test_the_same_ids_live_side_by_side_in_several_scopes(self, store: Store) -> None:
        for owner in (ANN, *STRANGERS):
            await store.append(owner, [said("a", f"of {owner.agent_id} {owner.resource_id}")])
        for owner in (ANN, *STRANGERS):
            (message,) = await store.history(owner, limit=5)
            assert message.text == f"of {owner.agent_id} {owner.resource_id}"

    async def test_messages_by_id_span_threads(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        await store.append(Scope("support", "ann", "t2"), [said("b")])
        found = await store.messages(ANN, ["b", "a", "missing"])
        assert {key: m.thread_id for key, m in found.items()} == {"a": "t1", "b": "t2"}
        assert await store.messages(ANN, []) == {}

    async def test_threads_have_titles_metadata_and_times(self, store: Store) -> None:
        later = NOON + timedelta(hours=2)
        await store.append(ANN, [said("b", created_at=later), said("a")])
        assert await store.update_thread(ANN, title="Webhook 401")
        assert await store.update_thread(ANN, metadata={"ticket": 7})
        (thread,) = await store.threads(ANN)
        assert (thread.thread_id, thread.title, thread.metadata) == (
            "t1",
            "Webhook 401",
            {"ticket": 7},
        )
        assert (thread.message_count, thread.created_at, thread.updated_at) == (2, NOON, later)
        assert not await store.update_thread(Scope("support", "ann", "none"), title="x")

    async def test_changes_bring_what_is_new_and_only_that(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        assert await store.freshness(ANN) == Freshness(0, 0)
        await store.append(ANN, [said("a", "one")])
        seen = await store.freshness(ANN)
        await store.append(ANN, [said("b", "two", role="tool", parts=[ToolResult("c", "three")])])
        changes = await store.changes(ANN, space.id, seen.change)
        assert [(d.kind, d.id, d.thread_id, d.text) for d in changes.documents] == [
            ("message", "b", "t1", "two\nthree")
        ]
        assert changes.documents[0].created_at == NOON.timestamp()
        assert changes.freshness == await store.freshness(ANN) != seen
        everything = await store.changes(ANN, space.id, 0)
        assert [d.id for d in everything.documents] == ["a", "b"]

    async def test_vectors_are_saved_replaced_and_seen_as_changes(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        await store.append(ANN, [said("a"), said("b"), said("blank", "  ")])
        missing = await store.unembedded(ANN, space.id, 9)
        assert ids(missing) == ["a", "b"]
        assert ids(await store.unembedded(ANN, space.id, 9, missing[0])) == ["b"]
        assert await store.unembedded(ANN, space.id, 9, missing[1]) == []
        await store.put_vectors(ANN, space.id, [VectorRow("message", "a", vector(0.1, -0.5))])
        assert ids(await store.unembedded(ANN, space.id, 9)) == ["b"]
        seen = await store.changes(ANN, space.id, 0)
        assert [(v.kind, v.id, v.vector) for v in seen.vectors] == [("message", "a", vector(0.1, -0.5))]
        await store.put_vectors(ANN, space.id, [VectorRow("message", "a", vector(1, 0))])
        newer = await store.changes(ANN, space.id, seen.freshness.change)
        assert [(v.id, v.vector) for v in newer.vectors] == [("a", vector(1, 0))]
        assert newer.documents == []

    async def test_named_speakers_are_told_to_search(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        assert space.speakers
        assert await store.add_space("m", 2, True) == space
        named = said("a", metadata={"speaker": "Ana"})
        await store.append(ANN, [said("first"), named, said("b", metadata={"role": "case"})])
        told = [None, "Ana", None]
        assert [d.speaker for d in (await store.changes(ANN, space.id, 0)).documents] == told
        assert [item.speaker for item in await store.unembedded(ANN, space.id, 9)] == told
        seen = await store.freshness(ANN)
        await store.append(ANN, [said("c", role="assistant", metadata={"name": "Ben"})])
        assert [d.speaker for d in (await store.changes(ANN, space.id, seen.change)).documents] == ["Ben"]

    async def test_a_vector_for_nothing_is_not_kept(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        await store.append(ANN, [said("a")])
        rows = [VectorRow("message", name, vector(1, 0)) for name in ("gone", "a", "never")]
        assert await store.put_vectors(ANN, space.id, rows[:1]) == 0
        assert await store.put_vectors(ANN, space.id, []) == 0
        assert (await store.changes(ANN, space.id, 0)).vectors == []
        assert await store.put_vectors(ANN, space.id, rows) == 1

    async def test_the_first_space_stays_active(self, store: Store) -> None:
        claims = await asyncio.gather(*(store.claim_space("first", 4, True) for _ in range(5)))
        assert len({claim.id for claim in claims}) == 1
        assert await store.claim_space("second", 8, True) == claims[0]
        assert (claims[0].model, claims[0].dimensions, claims[0].normalised) == ("first", 4, True)

    async def test_a_second_space_grows_beside_the_active_one(self, store: Store) -> None:
        old = await store.claim_space("old", 2, True)
        await store.append(ANN, [said("a"), said("b")])
        await store.put_vectors(ANN, old.id, [VectorRow("message", "a", vector(1, 0))])
        new = await store.add_space("new", 3, True)
        assert await store.add_space("new", 3, True) == new
        assert (old.active, new.active) == (True, False)
        assert await store.claim_space("new", 3, True) == old
        await store.put_vectors(ANN, new.id, [VectorRow("message", "a", vector(0, 1, 0))])
        assert [m.id for m in await store.unembedded(ANN, new.id, 10)] == ["b"]
        assert [v.vector for v in (await store.changes(ANN, old.id, 0)).vectors] == [vector(1, 0)]
        assert [v.vector for v in (await store.changes(ANN, new.id, 0)).vectors] == [vector(0, 1, 0)]

    async def test_switching_spaces_renews_every_scope(self, store: Store) -> None:
        await store.claim_space("old", 2, True)
        new = await store.add_space("new", 3, True)
        for scope in (ANN, BOB):
            await store.append(scope, [said("a")])
        before = [await store.freshness(scope) for scope in (ANN, BOB)]
        await store.activate_space(new.id)
        after = [await store.freshness(scope) for scope in (ANN, BOB)]
        assert [a.epoch - b.epoch for a, b in zip(after, before, strict=True)] == [1, 1]
        assert [(s.model, s.active) for s in await store.spaces()] == [("old", False), ("new", True)]

    async def test_switching_to_a_space_that_is_gone_changes_nothing(self, store: Store) -> None:
        old = await store.claim_space("old", 2, True)
        with refused(StoreError, "not in the store"):
            await store.activate_space(old.id + 7)
        assert await store.spaces() == [old]

    async def test_a_space_is_dropped_scope_by_scope_but_never_the_active_one(self, store: Store) -> None:
        old = await store.claim_space("old", 2, True)
        for scope in (ANN, BOB):
            await store.append(scope, [said(name) for name in "abc"])
            rows = [VectorRow("message", name, vector(1, 0)) for name in "abc"]
            await store.put_vectors(scope, old.id, rows)
        assert await store.drop_vectors(ANN, old.id, 10) == 0
        await store.drop_space(old.id)
        assert (await store.stats()).vectors == 6

        new = await store.add_space("new", 2, True)
        await store.activate_space(new.id)
        assert await store.drop_vectors(ANN, old.id, 2) == 2
        assert len((await store.changes(BOB, old.id, 0)).vectors) == 3
        await store.drop_space(old.id)
        assert [s.model for s in await store.spaces()] == ["new"]
        assert (await store.stats()).vectors == 0
        await store.put_vectors(ANN, old.id, [VectorRow("message", "a", vector(1, 0))])  # a late writer
        assert (await store.stats()).vectors == 0

    async def test_the_id_of_a_space_is_never_given_twice(self, store: Store) -> None:
        await store.claim_space("first", 2, True)
        second = await store.add_space("second", 2, True)
        await store.drop_space(second.id)
        third = await store.add_space("third", 2, True)
        assert third.id != second.id

    async def test_turns_open_close_and_are_abandoned(self, store: Store) -> None:
        async def mark(turn_id: str, status: TurnStatus, thread: str = "t1") -> int:
            scope = Scope("support", "ann", thread)
            await store.append(scope, [said(f"{turn_id}-{status}")], TurnMark(turn_id, status, NOON))
            return (await store.stats()).open_turns

        assert await mark("one", "open") == 1
        assert await mark("one", "success") == 0
        assert await mark("two", "open") == 1
        assert await mark("other", "open", "t2") == 2
        assert await mark("three", "open") == 2
        assert await mark("three", "failure") == 1

    async def test_overview_counts_everything(self, store: Store) -> None:
        await store.append(ANN, [said("a"), said("b")])
        await store.append(Scope("support", "ann", "t2"), [said("c")])
        await store.append(NOBODY, [said("d")])
        sizes = [(s.agent_id, s.resource_id, s.threads, s.messages) for s in await store.scopes()]
        assert sizes == [("support", None, 1, 1), ("support", "ann", 2, 3)]
        stats = await store.stats()
        assert (stats.scopes, stats.threads, stats.messages, stats.vectors) == (2, 3, 4, 0)
        assert stats.bytes > 0

    async def test_every_table_has_its_size(self, store: Store) -> None:
        await store.append(ANN, [said("a" * 10), said("b")])
        sizes = await store.table_sizes()
        assert {"messages", "threads", "turns", "vectors", "entries", "events"} <= sizes.keys()
        assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
        assert sizes["messages"] > 0

    async def test_a_healthy_store_says_so(self, store: Store) -> None:
        space = await store.claim_space("m", 2, True)
        await store.append(ANN, [said("a")])
        await store.put_vectors(ANN, space.id, [VectorRow("message", "a", vector(1, 0))])
        assert [f.name for f in await store.check() if f.status == "failed"] == []

    async def test_a_broken_vector_is_found(self, store: Store) -> None:
        space = await store.claim_space("m", 3, True)
        await store.append(ANN, [said("a")])
        await store.put_vectors(ANN, space.id, [VectorRow("message", "a", vector(1, 0))])
        assert [f.name for f in await store.check() if f.status == "failed"] == ["vectors"]

    async def test_sql_in_ids_and_text_is_only_text(self, store: Store) -> None:
        nasty = "'; DROP TABLE messages; -- %s :agent $1 \\"
        owner = Scope(nasty, nasty, nasty)
        await store.append(owner, [said(nasty, nasty)])
        assert ids(await store.history(owner, limit=5)) == [nasty]
        assert list(await store.messages(owner, [nasty])) == [nasty]

    async def test_a_cancelled_append_leaves_the_store_usable(self, store: Store) -> None:
        tasks = [asyncio.create_task(store.append(ANN, [said(f"m{n}")])) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.append(ANN, [said("after")])
        messages = await store.history(ANN, limit=20)
        assert {f"m{n}" for n in range(1, 10, 2)} <= {m.id for m in messages}
        assert [m.seq for m in messages] == list(range(1, len(messages) + 1))

"""What every store must do for learning: entries with evidence, receipts, leases and queued turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from casenotes.errors import LeaseLost
from casenotes.stores.base import Shown, Store, TurnMark, TurnStatus, VectorRow
from casenotes.stores.learning import LONGEST_WAIT, Corroboration, DayUsage, Learned, Lease, NewEntry, ShownItem
from casenotes.testing.values import ANN, BOB, NOON, STRANGERS, refused, said, vector
from casenotes.types import CandidateReceipt, Evidence, Message, Scope

TEXT = "It was clock skew: chronyd was stopped on pay-2 🦊."
QUOTE = Evidence("m1", 7, 42, TEXT[7:42])
LAYERS = ("memory",)
EARLIER = datetime(2000, 1, 1, tzinfo=UTC)


async def finished_turn(
    store: Store, scope: Scope = ANN, turn_id: str = "turn", status: TurnStatus = "success", **values: Any
) -> None:
    """A turn in which the user says something and the assistant answers."""
    opened = TurnMark(turn_id, "open", NOON)
    await store.append(scope, [said(f"{turn_id}-user", "hello")], opened)
    answer = Message("assistant", "It was clock skew.", id=f"{turn_id}-answer", created_at=NOON)
    await store.append(scope, [answer], TurnMark(turn_id, status, NOON, **{"learners": LAYERS, **values}))


async def leased(store: Store, scope: Scope = ANN) -> Lease:
    """The lease of a thread that nobody holds."""
    lease = await store.jobs.acquire(scope, "extract", "me", 30)
    assert lease is not None
    return lease


def entry(entry_id: str = "e1", content: str = "Clock skew on pay-2.", **values: Any) -> NewEntry:
    """An entry ready to be stored."""
    given = {"content_hash": content.lower(), "source": "user_assertion", "verified": True, "message_id": "m1"}
    given |= {"created_at": NOON, "evidence": [QUOTE], "vector": None}
    return NewEntry(entry_id, content, **{**given, **values})


def learned(
    entries: Sequence[NewEntry] = (), turn_id: str = "turn", seen: int = 10**9, space_id: int = 0, **values: Any
) -> Learned:
    """What a turn taught."""
    receipts = [CandidateReceipt("stored", e.content, e.source, entry_id=e.id) for e in entries]
    given: dict[str, Any] = {"corroborations": [], "receipts": receipts, "at": NOON}
    return Learned(turn_id, entries, space_id=space_id, seen=seen, **{**given, **values})


async def stored_entry(store: Store, scope: Scope = ANN, **values: Any) -> NewEntry:
    """A message, a turn and an entry learned from it."""
    await store.append(scope, [said("m1", TEXT)])
    await finished_turn(store, scope)
    new = entry(**values)
    lease = await leased(store, scope)
    assert await store.entries.save(scope, lease, learned([new]))
    await store.jobs.release(lease)
    return new


class LearningContract:
    """One behaviour a test."""

    async def test_a_closed_turn_is_queued_once(self, store: Store) -> None:
        await finished_turn(store)
        (turn,) = await store.jobs.queued(ANN)
        assert (turn.scope, turn.turn_id, turn.status, turn.learning, turn.attempts) == (
            ANN,
            "turn",
            "success",
            "queued",
            0,
        )
        await store.entries.save(ANN, await leased(store), learned())
        await store.append(ANN, [], TurnMark("turn", "success", NOON, learners=("memory",)))
        assert await store.jobs.queued(ANN) == []
        state = await store.jobs.turn(ANN, "turn")
        assert state is not None
        assert state.learning == "done"

    async def test_a_turn_that_failed_after_all_is_taken_off_the_queue(self, store: Store) -> None:
        await finished_turn(store)
        await store.append(ANN, [], TurnMark("turn", "failure", NOON))
        assert await store.jobs.queued(ANN) == []
        await store.append(ANN, [], TurnMark("turn", "success", NOON, learners=("memory",)))
        assert len(await store.jobs.queued(ANN)) == 1

    async def test_a_message_said_again_belongs_to_the_new_turn(self, store: Store) -> None:
        """Saved before any turn, or in one that came to nothing; not if it was learned from."""
        await store.append(ANN, [said("a"), said("b")])
        await store.append(ANN, [said("a")], TurnMark("one", "open", NOON))
        await store.append(ANN, [said("a"), said("c")], TurnMark("two", "open", NOON))
        assert [m.id for m in (await store.jobs.log(ANN, "two", 6)).messages] == ["a", "c"]
        await store.append(ANN, [], TurnMark("two", "success", NOON, learners=("memory",)))
        await store.append(ANN, [said("a"), said("d")], TurnMark("three", "open", NOON))
        assert [m.id for m in (await store.jobs.log(ANN, "two", 6)).messages] == ["a", "c"]
        assert [m.id for m in (await store.jobs.log(ANN, "three", 6)).messages] == ["d"]

    async def test_turns_that_are_not_to_be_learned_from_are_not_queued(self, store: Store) -> None:
        await store.append(ANN, [said("a")], TurnMark("t", "open", NOON))
        assert await store.jobs.queued(ANN) == []
        await store.append(ANN, [], TurnMark("t", "failure", NOON))
        assert await store.jobs.queued(ANN) == []

    async def test_a_turns_log_has_its_own_messages_and_those_before(self, store: Store) -> None:
        await store.append(ANN, [said(f"old{n}") for n in range(5)] + [said("tool", role="tool")])
        await finished_turn(store, turn_id="one")
        await store.append(ANN, [said("between")])
        log = await store.jobs.log(ANN, "one", 3)
        assert [m.id for m in log.messages] == ["one-user", "one-answer"]
        assert [m.id for m in log.before] == ["old2", "old3", "old4"]
        assert (await store.jobs.log(ANN, "nowhere", 3)).messages == []

    async def test_messages_of_another_turn_in_between_do_not_belong_to_it(self, store: Store) -> None:
        await store.append(ANN, [said("a")], TurnMark("one", "open", NOON))
        await store.append(ANN, [said("b")], TurnMark("two", "open", NOON))
        await store.append(ANN, [said("c")], TurnMark("one", "success", NOON, learners=("memory",)))
        assert [m.id for m in (await store.jobs.log(ANN, "one", 0)).messages] == ["a", "c"]

    async def test_an_entry_comes_back_with_its_quote(self, store: Store) -> None:
        await stored_entry(store)
        found = (await store.entries.get(ANN, ["e1", "nothing"]))["e1"]
        assert (found.content, found.source, found.status) == (
            "Clock skew on pay-2.",
            "user_assertion",
            "active",
        )
        assert (found.verified, found.thread_id, found.message_id) == (True, "t1", "m1")
        assert found.created_at == found.last_seen_at == NOON
        assert found.evidence == (QUOTE,)

    async def test_an_entry_is_a_document_with_its_vector(self, store: Store) -> None:
        space = await store.claim_space("model", 2, True)
        before = await store.freshness(ANN)
        await store.append(ANN, [said("m1", TEXT)])
        await finished_turn(store)
        new = [entry("e1", vector=vector(1, 0)), entry("e2", "Other.", vector=None)]
        await store.entries.save(ANN, await leased(store), learned(new, space_id=space.id))
        changes = await store.changes(ANN, space.id, before.change)
        documents = {d.id: d for d in changes.documents if d.kind == "entry"}
        assert documents["e1"].text == "Clock skew on pay-2."
        assert (documents["e1"].thread_id, documents["e1"].role) == ("t1", "user")
        assert documents["e1"].created_at == NOON.timestamp()
        assert VectorRow("entry", "e1", vector(1, 0)) in changes.vectors
        waiting = await store.unembedded(ANN, space.id, 100)
        assert [(item.kind, item.id, item.text) for item in waiting if item.kind == "entry"] == [
            ("entry", "e2", "Other.")
        ]
        assert await store.put_vectors(ANN, space.id, [VectorRow("entry", "e2", vector(0, 1))]) == 1
        assert all(item.kind == "message" for item in await store.unembedded(ANN, space.id, 100))

    async def test_items_without_vector_are_listed_in_pages(self, store: Store) -> None:
        space = await store.claim_space("model", 2, True)
        await store.append(ANN, [said("m1", TEXT), said("m2")])
        await finished_turn(store)
        new = [entry(f"e{n}", f"Entry {n}.") for n in range(5)]
        await store.entries.save(ANN, await leased(store), learned(new, space_id=space.id))
        seen: list[str] = []
        last = None
        while page := await store.unembedded(ANN, space.id, 2, last):
            seen += [item.id for item in page]
            last = page[-1]
        assert seen == ["m1", "m2", "turn-user", "turn-answer", "e0", "e1", "e2", "e3", "e4"]

    async def test_a_repeated_save_changes_nothing(self, store: Store) -> None:
        await stored_entry(store)
        again = learned([entry("e2", "Something else.")])
        assert await store.entries.save(ANN, await leased(store), again)
        assert await store.entries.get(ANN, ["e2"]) == {}

    async def test_entries_that_came_meanwhile_are_noticed(self, store: Store) -> None:
        seen = (await store.freshness(ANN)).change
        await stored_entry(store)
        await finished_turn(store, turn_id="two")
        late = learned([entry("e2", "Other.")], "two", seen=seen)
        lease = await leased(store)
        assert not await store.entries.save(ANN, lease, late)
        assert await store.entries.get(ANN, ["e2"]) == {}
        seen = (await store.freshness(ANN)).change
        assert await store.entries.save(ANN, lease, replace(late, seen=seen))

    async def test_a_worker_that_was_overtaken_writes_nothing(self, store: Store) -> None:
        await finished_turn(store)
        stale = await store.jobs.acquire(ANN, "extract", "slow", 0.0)
        assert stale is not None
        fresh = await store.jobs.acquire(ANN, "extract", "quick", 30)
        assert fresh is not None
        assert fresh.fence > stale.fence
        with refused(LeaseLost, "t1"):
            await store.entries.save(ANN, stale, learned([entry()]))
        with refused(LeaseLost, "t1"):
            await store.jobs.failed(stale, "turn", "late", NOON, counts=True, dead=True)
        assert not await store.jobs.renew(stale, 30)
        assert await store.entries.get(ANN, ["e1"]) == {}
        assert len(await store.jobs.queued(ANN)) == 1
        assert await store.entries.save(ANN, fresh, learned())

    async def test_one_of_many_gets_the_lease(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        tries = [store.jobs.acquire(ANN, "extract", f"worker {n}", 30) for n in range(8)]
        got = [lease for lease in await asyncio.gather(*tries) if lease]
        assert len(got) == 1
        assert await store.jobs.renew(got[0], 30)
        assert await store.jobs.acquire(ANN, "extract", "late", 30) is None
        await store.jobs.release(got[0])
        later = await store.jobs.acquire(ANN, "extract", "late", 30)
        assert later is not None
        assert later.fence == got[0].fence + 1

    async def test_leases_of_threads_tasks_and_scopes_are_apart(self, store: Store) -> None:
        for scope in (ANN, replace(ANN, thread_id="t2"), *STRANGERS):
            assert await store.jobs.acquire(scope, "extract", "a", 30) is None, "there is no such thread"
            await store.append(scope, [said(f"{scope.thread_id}-a")])
            assert await store.jobs.acquire(scope, "extract", "a", 30)
        assert await store.jobs.acquire(ANN, "observe", "a", 30)

    async def test_corroboration_adds_evidence_and_moves_the_last_time(self, store: Store) -> None:
        await stored_entry(store)
        await store.append(ANN, [said("m2", "clock skew again")])
        await finished_turn(store, turn_id="two")
        more = Evidence("m2", 0, 10, "clock skew")
        later = NOON + timedelta(days=3)
        known = [Corroboration("e1", [more, QUOTE], later)]
        await store.entries.save(ANN, await leased(store), learned((), "two", corroborations=known))
        found = (await store.entries.get(ANN, ["e1"]))["e1"]
        assert set(found.evidence) == {QUOTE, more}
        assert (found.created_at, found.last_seen_at) == (NOON, later)

    async def test_an_active_hash_is_unique_in_its_scope_and_free_in_others(self, store: Store) -> None:
        for scope in (ANN, *STRANGERS):
            await stored_entry(store, scope)
        digest = "clock skew on pay-2."
        assert await store.entries.known_hashes(ANN, [digest, "other"]) == {digest: "e1"}
        await finished_turn(store, turn_id="two")
        with refused(Exception, ""):
            await store.entries.save(ANN, await leased(store), learned([entry("e2")], "two"))
        assert len(await store.jobs.queued(ANN)) == 1, "nothing of it was kept"

    async def test_nobody_sees_the_entries_of_another_scope(self, store: Store) -> None:
        await stored_entry(store)
        for stranger in STRANGERS:
            assert await store.entries.get(stranger, ["e1"]) == {}
            assert await store.entries.known_hashes(stranger, ["clock skew on pay-2."]) == {}
            assert await store.entries.ledger(stranger, None, 10) == []
            assert await store.entries.receipts(stranger, "turn") == []
            assert await store.jobs.queued(stranger) == []
            assert await store.jobs.turn(stranger, "turn") is None
            assert (await store.jobs.log(stranger, "turn", 6)).messages == []
            changes = await store.changes(stranger, 0, 0)
            assert changes.documents == []

    async def test_receipts_are_kept_in_order(self, store: Store) -> None:
        await finished_turn(store)
        receipts = [
            CandidateReceipt("rejected", "a", "user_assertion", "echo", "why", ("q1", "q2")),
            CandidateReceipt("stored", "b 🦊", "user_assertion", entry_id="e1"),
        ]
        await store.entries.save(ANN, await leased(store), learned(receipts=receipts))
        assert await store.entries.receipts(ANN, "turn") == receipts
        rows = await store.entries.ledger(replace(ANN, thread_id=None), None, 10)
        assert [row.receipt for row in rows] == receipts
        assert {(row.scope, row.turn_id, row.at) for row in rows} == {(ANN, "turn", NOON)}
        assert [row.receipt.content for row in await store.entries.ledger(ANN, "rejected", 10)] == ["a"]
        assert await store.entries.ledger(replace(ANN, thread_id="t9"), None, 10) == []
        assert len(await store.entries.ledger(ANN, None, 1)) == 1

    async def test_shown_items_are_kept_by_thread_and_turn(self, store: Store) -> None:
        await store.append(ANN, [said("m1")])
        found = [Shown("entry", "e1"), Shown("message", "m1"), Shown("entry", "e2", "too old")]
        await finished_turn(store, turn_id="one", shown=found)
        await finished_turn(store, turn_id="two", shown=[Shown("entry", "e1")])
        assert set(await store.entries.shown(ANN)) == {
            ShownItem("entry", "e1", "one"),
            ShownItem("entry", "e1", "two"),
            ShownItem("message", "m1", "one"),
        }
        assert set(await store.entries.turn_items(ANN, "one")) == {
            ShownItem("entry", "e1", "one"),
            ShownItem("entry", "e2", "one", "too old"),
            ShownItem("message", "m1", "one"),
        }
        for elsewhere in (replace(ANN, thread_id="t2"), BOB):
            assert await store.entries.shown(elsewhere) == []
            assert await store.entries.turn_items(elsewhere, "one") == []

    async def test_what_a_turn_has_shown_once_is_never_left_out(self, store: Store) -> None:
        await store.append(ANN, [said("m1"), said("m2")])
        await store.append(ANN, [said("m3")], TurnMark("one", "open", NOON))
        for items in (
            [Shown("message", "m1"), Shown("message", "m2", "too long"), Shown("message", "gone")],
            [Shown("message", "m1", "too long"), Shown("message", "m2")],
            [Shown("entry", "e1", "too long"), Shown("entry", "e1", "too old")],
        ):
            await store.append(ANN, [], TurnMark("one", None, NOON, shown=items))
        assert set(await store.entries.turn_items(ANN, "one")) == {
            ShownItem("message", "m1", "one"),
            ShownItem("message", "m2", "one"),
            ShownItem("entry", "e1", "one", "too old"),
        }

    async def test_erasing_a_thread_takes_its_items_out_of_what_others_were_shown(self, store: Store) -> None:
        tuesday = replace(ANN, thread_id="tuesday")
        await store.append(ANN, [said("m1")])
        await finished_turn(store)
        lease = await leased(store)
        await store.entries.save(ANN, lease, learned([entry(evidence=[replace(QUOTE, message_id="m1")])]))
        await store.append(tuesday, [said("m2")])
        found = [Shown("message", "m1"), Shown("message", "m2"), Shown("entry", "e1", "too old")]
        await finished_turn(store, tuesday, "one", shown=found)
        assert len(await store.entries.turn_items(tuesday, "one")) == 3
        await store.erasure.erase(ANN)
        assert await store.entries.turn_items(tuesday, "one") == [ShownItem("message", "m2", "one")]
        await store.append(ANN, [said("m1")])
        assert await store.entries.turn_items(tuesday, "one") == [ShownItem("message", "m2", "one")]

    async def test_a_failed_turn_waits_and_is_given_up_in_the_end(self, store: Store) -> None:
        await finished_turn(store)
        lease = await leased(store)
        await store.jobs.failed(lease, "turn", "no answer", NOON, counts=True, dead=False)
        (turn,) = await store.jobs.queued(ANN)
        assert (turn.attempts, turn.error, turn.due_at) == (1, "no answer", NOON)
        await store.jobs.failed(lease, "turn", "over budget", NOON, counts=False, dead=False)
        assert (await store.jobs.queued(ANN))[0].attempts == 1
        await store.jobs.failed(lease, "turn", "still none", NOON, counts=True, dead=True)
        assert await store.jobs.queued(ANN) == []
        (dead,) = await store.jobs.dead(10)
        assert (dead.scope, dead.turn_id, dead.attempts, dead.error) == (ANN, "turn", 2, "still none")
        assert (await store.stats()).dead_turns == 1
        assert await store.jobs.revive() == 1
        (turn,) = await store.jobs.queued(ANN)
        assert turn.attempts == 0

    async def test_threads_that_are_due_are_found_for_workers(self, store: Store) -> None:
        other = replace(BOB, thread_id="t5")
        for scope in (ANN, other):
            await finished_turn(store, scope)
        assert set(await store.jobs.due_threads(NOON, 10, LAYERS)) == {ANN, other}
        assert len(await store.jobs.due_threads(NOON, 1, LAYERS)) == 1
        lease = await leased(store)
        assert await store.jobs.due_threads(NOON, 10, LAYERS) == [other]
        await store.jobs.failed(lease, "turn", "no", NOON + timedelta(hours=1), counts=True, dead=False)
        await store.jobs.release(lease)
        assert await store.jobs.due_threads(NOON, 10, LAYERS) == [other]
        assert len(await store.jobs.due_threads(NOON + timedelta(hours=2), 10, LAYERS)) == 2

    async def test_times_too_far_ahead_hold_up_nobody(self, store: Store) -> None:
        year = timedelta(days=365)
        await finished_turn(store)
        lease = await store.jobs.acquire(ANN, "extract", "me", year.total_seconds())
        assert lease is not None
        await store.jobs.failed(lease, "turn", "no", NOON + year, counts=True, dead=False)
        assert await store.jobs.acquire(ANN, "extract", "you", 2 * year.total_seconds()) is None, (
            "so long is asked"
        )
        assert await store.jobs.due_threads(NOON, 10, LAYERS) == [ANN]
        assert await store.jobs.due_threads(NOON, 10, LAYERS, 2 * year) == []
        ahead = await store.jobs.times_ahead(NOON, LONGEST_WAIT, NOON, LONGEST_WAIT)
        assert ahead == (1, 1, 0, 0)
        taken = await store.jobs.acquire(ANN, "extract", "you", 30)
        assert taken is not None
        with refused(LeaseLost, "t1"):
            await store.jobs.failed(lease, "turn", "late", NOON, counts=True, dead=False)
        assert await store.jobs.due_threads(NOON, 10, LAYERS) == []
        await store.jobs.learned(taken, "turn", "memory")
        assert sum(await store.jobs.times_ahead(NOON, LONGEST_WAIT, NOON, LONGEST_WAIT)) == 0

    async def test_a_turn_is_done_when_every_layer_has_learned_from_it(self, store: Store) -> None:
        await finished_turn(store, learners=("memory", "diary", "my"))
        lease = await leased(store)
        (queued,) = await store.jobs.queued(ANN)
        assert queued.pending == ("memory", "diary", "my")
        assert await store.jobs.due_threads(NOON, 10, ["dia", "y"]) == []
        await store.jobs.learned(lease, "turn", "diary")
        await store.jobs.learned(lease, "turn", "diary")
        assert [turn.pending for turn in await store.jobs.queued(ANN)] == [("memory", "my")]
        assert await store.entries.save(ANN, lease, learned([entry()]))
        assert [turn.pending for turn in await store.jobs.queued(ANN)] == [("my",)]
        await store.jobs.learned(lease, "turn", "my")
        assert await store.jobs.queued(ANN) == []
        turn = await store.jobs.turn(ANN, "turn")
        assert turn is not None
        assert (turn.learning, turn.pending) == ("done", ())
        await store.append(ANN, [], TurnMark("turn", "success", NOON, learners=("memory", "diary")))
        assert await store.jobs.queued(ANN) == [], "what was learned from is not queued again"

    async def test_a_worker_that_was_overtaken_cannot_say_that_it_learned(self, store: Store) -> None:
        await finished_turn(store, learners=("diary",))
        lease = await leased(store)
        with refused(LeaseLost, "t1"):
            await store.jobs.learned(replace(lease, fence=lease.fence - 1), "turn", "diary")
        assert len(await store.jobs.queued(ANN)) == 1

    async def test_usage_adds_up_by_day_task_and_scope(self, store: Store) -> None:
        used = DayUsage("extract", 1, 100, 20, 0.25)
        await store.jobs.add_usage(ANN, "2026-03-01", used)
        assert await store.jobs.usage(ANN, "2026-03-01") == [], "there is no such resource"
        await store.append(ANN, [said("a")])
        for _ in range(2):
            await store.jobs.add_usage(ANN, "2026-03-01", used)
        await store.jobs.add_usage(ANN, "2026-03-01", replace(used, task="observe"))
        assert await store.jobs.usage(ANN, "2026-03-01") == [
            DayUsage("extract", 2, 200, 40, 0.5),
            replace(used, task="observe"),
        ]
        assert await store.jobs.usage(ANN, "2026-03-02") == []
        assert await store.jobs.usage(BOB, "2026-03-01") == []

    async def test_entries_count_in_overviews(self, store: Store) -> None:
        await stored_entry(store)
        assert (await store.stats()).entries == 1
        (size,) = await store.scopes()
        assert (size.entries, size.items) == (1, 4)
        assert all(finding.status != "failed" for finding in await store.check())

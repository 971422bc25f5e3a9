"""What every store must do after learning: revise, undo, and erase without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from casenotes.errors import LeaseLost, UsageError
from casenotes.stores.base import Freshness, Shown, Store, TurnMark, VectorRow
from casenotes.stores.learning import DayUsage
from casenotes.stores.revisions import ItemChange, NewRevision
from casenotes.testing.learning_contract import (
    QUOTE,
    TEXT,
    LearningContract,
    entry,
    finished_turn,
    learned,
    leased,
    stored_entry,
)
from casenotes.testing.values import ANN, BOB, NOON, STRANGERS, refused, said, vector
from casenotes.types import CandidateReceipt, Evidence, Scope

LATER = NOON + timedelta(days=2)
TUESDAY = replace(ANN, thread_id="t2")


def revision(*changes: ItemChange, name: str = "r1", **values: Any) -> NewRevision:
    """Changes ready to be made."""
    return NewRevision(name, "reflector", LATER, changes, **values)


def superseded(old: str = "e1", new: str = "e2", **values: Any) -> ItemChange:
    """A correction."""
    given: dict[str, Any] = {"after": "superseded", "valid_until": LATER, "successor": new}
    return ItemChange(old, "superseded", **{**given, **values})


async def two_entries(store: Store, scope: Scope = ANN) -> None:
    """Entries of two turns of one thread, the second with a vector."""
    await stored_entry(store, scope)
    await finished_turn(store, scope, "two")
    lease = await leased(store, scope)
    space = await store.claim_space("model", 2, True)
    new = entry("e2", "Clock skew on pay-3.", vector=vector(1, 0), created_at=LATER)
    assert await store.entries.save(scope, lease, learned([new], "two", space_id=space.id))
    await store.jobs.release(lease)


async def status(store: Store, entry_id: str, scope: Scope = ANN) -> str | None:
    """What an entry is now."""
    found = (await store.entries.get(scope, [entry_id])).get(entry_id)
    return found.status if found else None


async def documents(store: Store, scope: Scope = ANN) -> Sequence[tuple[str, str]]:
    """Entries that search gets, with their status."""
    changes = await store.changes(scope, 0, 0)
    return sorted((d.id, d.status) for d in changes.documents if d.kind == "entry")


class RevisionContract(LearningContract):
    """One behaviour a test."""

    async def test_a_correction_ends_validity_and_links_its_successor(self, store: Store) -> None:
        await two_entries(store)
        before = await store.freshness(ANN)
        assert await store.revisions.revise(ANN, revision(superseded(quote=QUOTE, detail="moved")))
        old = (await store.entries.get(ANN, ["e1"]))["e1"]
        assert (old.status, old.valid_until, old.superseded_by) == ("superseded", LATER, "e2")
        (told,) = await store.revisions.history(ANN, ["e2"])
        assert (told.id, told.item_id, told.action, told.actor) == ("r1", "e1", "superseded", "reflector")
        assert (told.at, told.successor, told.quote, told.detail) == (LATER, "e2", QUOTE, "moved")
        newer = await store.changes(ANN, 0, before.change)
        assert [(d.id, d.status, d.valid_until) for d in newer.documents] == [
            ("e1", "superseded", LATER.timestamp())
        ]
        assert newer.freshness.epoch == before.epoch, "indexes need not be built anew"

    async def test_undo_brings_everything_back(self, store: Store) -> None:
        await two_entries(store)
        was = (await store.entries.get(ANN, ["e1"]))["e1"]
        await store.revisions.revise(ANN, revision(superseded()))
        assert await store.revisions.undo(ANN, "r1", LATER) == ["e1"]
        assert (await store.entries.get(ANN, ["e1"]))["e1"] == was
        (told,) = await store.revisions.history(ANN, ["e1"])
        assert told.undone_at == LATER
        with refused(UsageError, "r1"):
            await store.revisions.undo(ANN, "r1", LATER)

    async def test_a_later_revision_must_be_undone_first(self, store: Store) -> None:
        await two_entries(store)
        await store.revisions.revise(ANN, revision(superseded()))
        drop = ItemChange("e1", "dropped", "superseded", "dropped")
        await store.revisions.revise(ANN, revision(drop, name="r2"))
        with refused(UsageError, "'r2'"):
            await store.revisions.undo(ANN, "r1", LATER)
        await store.revisions.undo(ANN, "r2", LATER)
        assert await status(store, "e1") == "superseded"
        await store.revisions.undo(ANN, "r1", LATER)
        assert await status(store, "e1") == "active"

    async def test_a_revision_happens_whole_or_not_at_all(self, store: Store) -> None:
        await two_entries(store)
        for wrong in (
            ItemChange("nothing", "dropped", after="dropped"),
            superseded("e2", before="quarantined"),
        ):
            assert not await store.revisions.revise(ANN, revision(superseded(), wrong))
        assert await status(store, "e1") == "active"
        assert await store.revisions.history(ANN, ["e1", "e2"]) == []

    async def test_a_revision_that_saw_too_little_does_nothing(self, store: Store) -> None:
        await stored_entry(store)
        seen = await store.freshness(ANN)
        await finished_turn(store, turn_id="two")
        await store.entries.save(ANN, await leased(store), learned([entry("e2", "Other.")], "two"))
        assert not await store.revisions.revise(ANN, revision(superseded(), seen=seen))
        seen = await store.freshness(ANN)
        assert await store.revisions.revise(ANN, revision(superseded(), seen=seen))

    async def test_a_worker_that_was_overtaken_revises_nothing(self, store: Store) -> None:
        await two_entries(store)
        stale = await store.jobs.acquire(ANN, "extract", "slow", 0.0)
        await store.jobs.acquire(ANN, "extract", "quick", 30)
        assert stale is not None
        with refused(LeaseLost, "t1"):
            await store.revisions.revise(ANN, revision(superseded()), stale)
        assert await status(store, "e1") == "active"

    async def test_what_is_forgotten_or_dropped_is_no_longer_searched(self, store: Store) -> None:
        await two_entries(store)
        before = await store.freshness(ANN)
        gone = ItemChange("e2", "dropped", after="dropped")
        await store.revisions.revise(ANN, revision(ItemChange("m1", "forgotten", kind="message"), gone))
        changes = await store.changes(ANN, (await store.spaces())[0].id, 0)
        assert await documents(store) == [("e1", "active")]
        assert "m1" not in [d.id for d in changes.documents]
        assert [m.id for m in await store.history(ANN, limit=1, before=2)] == ["m1"], "the log keeps it"
        assert changes.vectors == []
        assert changes.freshness.epoch > before.epoch
        space = (await store.spaces())[0].id
        assert {"m1", "e2"}.isdisjoint(item.id for item in await store.unembedded(ANN, space, 99))
        late = [VectorRow("message", "m1", vector(1, 0)), VectorRow("entry", "e2", vector(1, 0))]
        assert await store.put_vectors(ANN, space, late) == 0
        await store.revisions.undo(ANN, "r1", LATER)
        assert "m1" in [d.id for d in (await store.changes(ANN, space, 0)).documents]
        assert await documents(store) == [("e1", "active"), ("e2", "active")]

    async def test_a_merge_adds_an_entry_and_undo_drops_it(self, store: Store) -> None:
        await two_entries(store)
        merged = entry("e3", "Clock skew on both.", origin="merged", thread_id="t1", created_at=LATER)
        receipt = CandidateReceipt("stored", "Clock skew on both.", entry_id="e3")
        changes = [superseded(old, "e3") for old in ("e1", "e2")]
        plan = revision(*changes, entries=[merged], turn_id="two", receipts=[receipt])
        assert await store.revisions.revise(ANN, plan)
        found = (await store.entries.get(ANN, ["e3"]))["e3"]
        assert (found.origin, found.evidence) == ("merged", (QUOTE,))
        assert [r.entry_id for r in await store.entries.receipts(ANN, "two")] == ["e2", "e3"]
        assert [row.receipt for row in await store.revisions.receipts(ANN, "e3")] == [receipt]
        await store.revisions.undo(ANN, "r1", LATER)
        assert [await status(store, name) for name in ("e1", "e2", "e3")] == ["active", "active", "dropped"]

    async def test_undo_is_refused_where_the_text_is_active_again(self, store: Store) -> None:
        await stored_entry(store)
        await store.revisions.revise(ANN, revision(ItemChange("e1", "dropped", after="dropped")))
        again = entry("e9", thread_id="t1")
        assert await store.revisions.revise(ANN, revision(name="r2", entries=[again]))
        with refused(UsageError, "active entry again"):
            await store.revisions.undo(ANN, "r1", LATER)
        assert await status(store, "e1") == "dropped"

    async def test_conflicts_are_told_while_both_are_active(self, store: Store) -> None:
        await two_entries(store)
        note = ItemChange("e1", "conflicting", successor="e2")
        await store.revisions.revise(ANN, revision(note))
        assert await store.revisions.conflicts(ANN, ["e2"]) == [("e1", "e2")]
        assert await store.revisions.conflicts(BOB, ["e2"]) == []
        await store.revisions.revise(ANN, revision(superseded(), name="r2"))
        assert await store.revisions.conflicts(ANN, ["e1", "e2"]) == []

    async def test_entries_are_listed_by_status_in_pages(self, store: Store) -> None:
        await two_entries(store)
        await store.revisions.revise(ANN, revision(superseded()))
        pages = [
            await store.revisions.entries(ANN, ["active", "superseded"], 1, after) for after in ("", "e1", "e2")
        ]
        assert [[e.id for e in page] for page in pages] == [["e1"], ["e2"], []]
        assert [e.id for e in await store.revisions.entries(ANN, ["superseded"], 9)] == ["e1"]

    async def test_evidence_is_found_by_entry_message_and_thread(self, store: Store) -> None:
        await two_entries(store)
        rows = await store.revisions.evidence(ANN, ["e1", "e2"])
        assert [(row.entry_id, row.message_id, row.start, row.end) for row in rows] == [
            ("e1", "m1", 7, 42),
            ("e2", "m1", 7, 42),
        ]
        assert await store.revisions.quoting(ANN, ["m1", "other"]) == ["e1", "e2"]
        assert await store.revisions.quoting(ANN, ()) == ["e1", "e2"]
        assert await store.revisions.quoting(TUESDAY, ()) == []
        assert await store.revisions.never_shown(ANN) == ["e1", "e2"]

    async def test_the_reflector_gets_an_entry_a_few_times_at_most(self, store: Store) -> None:
        await stored_entry(store, reflections_left=2)
        assert await store.revisions.take_to_reflect(ANN, 5) == ["e1"]
        assert await store.revisions.take_to_reflect(ANN, 5) == ["e1"]
        assert await store.revisions.take_to_reflect(ANN, 5) == []

    async def test_what_was_reflected_on_is_not_given_again(self, store: Store) -> None:
        await stored_entry(store, reflections_left=3)
        await store.revisions.reflected(ANN, ["e1"])
        assert await store.revisions.take_to_reflect(ANN, 5) == []

    async def test_nobody_revises_for_another_scope(self, store: Store) -> None:
        await two_entries(store)
        await store.revisions.revise(ANN, revision(superseded()))
        for stranger in STRANGERS:
            await store.append(stranger, [said("own")])
            assert not await store.revisions.revise(stranger, revision(superseded("e2", "e1"), name="r2"))
            with refused(UsageError, "r1"):
                await store.revisions.undo(stranger, "r1", LATER)
            assert await store.revisions.history(stranger, ["e1", "e2"]) == []
            assert await store.revisions.entries(stranger, ["active", "superseded"], 9) == []
            assert await store.revisions.evidence(stranger, ["e1"]) == []
            assert await store.revisions.quoting(stranger, ["m1"]) == []
            assert await store.revisions.receipts(stranger, "e1") == []
        assert await store.revisions.owner("e1") == ANN.owner
        assert await store.revisions.owner("nothing") is None

    async def test_erasing_a_resource_leaves_nothing_of_it(self, store: Store) -> None:
        for scope in (ANN, BOB):
            await two_entries(store, scope)
            await store.jobs.add_usage(scope, "2026-03-01", DayUsage("extract", 1, 1, 1, 0.0))
            await store.revisions.revise(scope, revision(superseded()))
        rows = await store.erasure.erase(ANN.owner)
        assert (rows["messages"], rows["entries"], rows["scopes"]) == (5, 2, 1)
        assert await store.erasure.traces(ANN.owner) == []
        assert [size.resource_id for size in await store.scopes()] == ["bob"]
        assert await store.entries.ledger(ANN.owner, None, 9) == []
        assert await store.jobs.usage(ANN, "2026-03-01") == []
        assert await store.revisions.history(ANN, ["e1"]) == []
        assert await status(store, "e1", BOB) == "superseded"
        assert await store.freshness(ANN) == Freshness(0, 0)
        assert all(finding.status != "failed" for finding in await store.check())

    async def test_a_resource_that_comes_back_is_known_to_be_new(self, store: Store) -> None:
        await store.append(ANN, [said(name) for name in "abc"])
        before = await store.freshness(ANN)
        await store.erasure.erase(ANN.owner)
        await store.append(ANN, [said("d")])
        assert await store.freshness(ANN) > before

    async def test_erasing_a_thread_keeps_what_others_say(self, store: Store) -> None:
        await two_entries(store)
        await store.append(TUESDAY, [said("m2", TEXT)])
        elsewhere = Evidence("m2", 7, 42, TEXT[7:42])
        await finished_turn(store, TUESDAY, "three")
        own = entry("e3", "Only of Tuesday.", message_id="m2", evidence=[elsewhere])
        lease = await leased(store, TUESDAY)
        both = entry("e4", "Of both.", message_id="m2", evidence=[QUOTE, elsewhere])
        assert await store.entries.save(TUESDAY, lease, learned([own, both], "three"))
        rows = await store.erasure.erase(ANN)
        assert (rows["threads"], rows["messages"], rows["entries"]) == (1, 5, 2)
        left = await store.entries.get(ANN, ["e1", "e2", "e3", "e4"])
        assert {e.id: e.evidence for e in left.values()} == {"e3": (elsewhere,), "e4": (elsewhere,)}
        assert [thread.thread_id for thread in await store.threads(ANN)] == ["t2"]

    async def test_erasing_a_merge_gives_its_other_sources_back(self, store: Store) -> None:
        await two_entries(store)
        await store.append(TUESDAY, [said("m2", TEXT)])
        await finished_turn(store, TUESDAY, "three")
        words = Evidence("m2", 7, 42, TEXT[7:42])
        own = entry("e3", "Of Tuesday.", message_id="m2", evidence=[words])
        assert await store.entries.save(TUESDAY, await leased(store, TUESDAY), learned([own], "three"))
        merged = entry("e4", "Of both.", origin="merged", thread_id="t1", evidence=[QUOTE, words])
        changes = [superseded("e2", "e1", quote=words)]
        changes += [replace(superseded(old, "e4"), action="merged") for old in ("e1", "e3")]
        assert await store.revisions.revise(ANN, revision(*changes, entries=[merged]))
        await store.erasure.erase(ANN)
        left = await store.entries.get(ANN, ["e1", "e2", "e3", "e4"])
        assert {e.id: (e.status, e.superseded_by) for e in left.values()} == {"e3": ("active", None)}

    async def test_erased_words_are_named_by_no_revision_of_others(self, store: Store) -> None:
        await two_entries(store)
        await store.append(TUESDAY, [said("m2", TEXT)])
        words = Evidence("m2", 7, 42, TEXT[7:42])
        assert await store.revisions.revise(ANN, revision(superseded(quote=words)))
        await store.erasure.erase(TUESDAY)
        (told,) = await store.revisions.history(ANN, ["e1"])
        assert (told.action, told.quote) == ("superseded", None)

    async def test_a_revision_from_before_a_removal_does_nothing(self, store: Store) -> None:
        await two_entries(store)
        seen = await store.freshness(ANN)
        await store.append(TUESDAY, [said("m2", TEXT)])
        await store.erasure.erase(TUESDAY)
        assert not await store.revisions.revise(ANN, revision(superseded(), seen=seen))

    async def test_what_was_shown_is_told_up_to_a_turn(self, store: Store) -> None:
        for name in ("one", "two"):
            await store.append(ANN, [said(f"{name}-in")], TurnMark(name, "open", NOON))
            shown = [Shown("entry", f"shown-in-{name}")]
            await store.append(ANN, [], TurnMark(name, "success", NOON, shown=shown))
        items = [item.id for item in await store.entries.shown(ANN, "one")]
        assert items == ["shown-in-one"]
        assert len(await store.entries.shown(ANN, "two")) == len(await store.entries.shown(ANN)) == 2

    async def test_hidden_messages_are_told(self, store: Store) -> None:
        await store.append(ANN, [said("a"), said("b")])
        await store.revisions.revise(ANN, revision(ItemChange("a", "forgotten", kind="message")))
        assert await store.entries.hidden(ANN, ["a", "b", "c"]) == {"a"}
        assert await store.entries.hidden(BOB, ["a"]) == set()

    async def test_a_late_writer_brings_nothing_back(self, store: Store) -> None:
        await finished_turn(store)
        space = await store.claim_space("model", 2, True)
        lease = await leased(store)
        await store.erasure.erase(ANN.owner)
        with refused(LeaseLost, "t1"):
            await store.entries.save(ANN, lease, learned([entry()]))
        with refused(LeaseLost, "t1"):
            await store.jobs.failed(lease, "turn", "late", NOON, counts=True, dead=True)
        assert not await store.jobs.renew(lease, 30)
        assert await store.jobs.acquire(ANN, "extract", "late", 30) is None
        assert await store.put_vectors(ANN, space.id, [VectorRow("message", "turn-user", vector(1, 0))]) == 0
        await store.jobs.add_usage(ANN, "2026-03-01", DayUsage("extract", 1, 1, 1, 0.0))
        assert not await store.revisions.revise(ANN, revision(entries=[entry(thread_id="t1")]))
        assert await store.erasure.traces(ANN.owner) == []
        assert (await store.stats()).scopes == 0

    async def test_erasing_while_others_write_leaves_a_whole_store(self, store: Store) -> None:
        async def write(number: int) -> None:
            await store.append(ANN, [said(f"m{number}")])

        await asyncio.gather(*(write(n) for n in range(20)), store.erasure.erase(ANN.owner))
        assert all(finding.status != "failed" for finding in await store.check())
        messages = await store.history(ANN, limit=99)
        assert [m.seq for m in messages] == list(range(1, len(messages) + 1))

    async def test_fingerprints_are_kept_until_all_of_them_are_dropped(self, store: Store) -> None:
        one, two = bytes(range(8)), bytes(range(248, 256))
        await store.erasure.add_fingerprints(b"\x00owner", one)
        await store.erasure.add_fingerprints(b"\x00owner", two)
        assert await store.erasure.fingerprints(b"\x00owner") == one + two
        assert await store.erasure.fingerprints(b"\x00") == b""
        await store.erasure.drop_fingerprints(b"\x00owner", one)
        assert await store.erasure.fingerprints(b"\x00owner") == one + two
        await store.erasure.drop_fingerprints(b"\x00owner", one + two)
        assert await store.erasure.fingerprints(b"\x00owner") == b""

    async def test_bytes_of_living_rows_are_told_from_remains(self, store: Store) -> None:
        await store.append(ANN, [said("a", "the blue heron stands in the reeds")])
        found = await store.erasure.still_there([b"blue heron", b"green heron"])
        assert found == {b"blue heron"}

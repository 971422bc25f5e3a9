"""What every store must do for session memory: counters, cursor and rows in one step, activation, leases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from casenotes.errors import LeaseLost
from casenotes.stores.base import Store, TurnMark, Watch
from casenotes.stores.learning import Lease
from casenotes.stores.observations import Activation, Batch, Forgotten, Observed, Observing, Reflected
from casenotes.stores.revisions import ItemChange, NewRevision
from casenotes.testing.values import ANN, BOB, NOON, STRANGERS, ids, refused, said
from casenotes.types import Observation, Scope, SessionState

STEP = 100
SESSION = SessionState("book a flight", "searching 東京", ("economy",), ("pay",), "go on")


def row(name: str, *covers: tuple[int, int], **values: Any) -> Observation:
    """A row ready to be stored."""
    known: dict[str, Any] = {
        "priority": "info",
        "at": NOON,
        "text": f"about {name}",
        "covers": covers or ((1, 2),),
    }
    known |= {"tokens": 10, "position": 1_000 * max(last for _, last in known["covers"]), "created_at": NOON}
    return Observation(name, **(known | values))


def observed(seen: int, last: int, *rows: Observation, **values: Any) -> Observed:
    """What was made of messages up to one of them."""
    known: dict[str, Any] = {
        "outcome": "observed" if rows else "empty",
        "session": SESSION,
        "step": STEP,
        "at": NOON,
    }
    return Observed(seen, last, rows, **(known | values))


async def talk(store: Store, scope: Scope = ANN, count: int = 4, tokens: int = 50) -> None:
    """Messages of one size in a thread that is watched."""
    messages = [said(f"{scope.thread_id}-m{n}", f"text {n}", tokens=tokens) for n in range(1, count + 1)]
    await store.append(scope, messages, TurnMark("t", "open", NOON, watch=Watch(STEP)))


async def held(store: Store, scope: Scope = ANN, seconds: float = 60.0) -> Lease:
    """The lease of a thread."""
    lease = await store.jobs.acquire(scope, "observe", "me", seconds)
    if lease is None:
        raise AssertionError("somebody else has the lease")
    return lease


def names(rows: list[Observation]) -> list[str]:
    """The ids in order."""
    return [one.id for one in rows]


class ObservationContract:
    """One behaviour a test."""

    async def test_tokens_are_counted_when_messages_are_saved(self, store: Store) -> None:
        assert await store.observations.state(ANN) == Observing(ANN)
        await store.append(ANN, [said("a", tokens=7), said("b", tokens=5)])
        await store.append(ANN, [said("b", tokens=5), said("c", "x" * 40)])
        state = await store.observations.state(ANN)
        assert (state.change, state.is_open) == ((await store.freshness(ANN)).change, False)
        await store.append(ANN, [], TurnMark("t", "open", NOON))
        assert (await store.observations.state(ANN)).is_open
        assert (state.last_seq, state.total_tokens) == (3, 7 + 5 + 4 + 10)
        assert (state.raw_tokens, state.unobserved_tokens, state.observe_at) == (26, 26, None)

    async def test_a_thread_is_watched_from_its_first_turn_on(self, store: Store) -> None:
        later = NOON + timedelta(minutes=10)
        watch = Watch(STEP, later, later - timedelta(minutes=1))
        await store.append(ANN, [said("a")], TurnMark("t", "open", NOON, watch=watch))
        state = await store.observations.state(ANN)
        assert (state.observe_at, state.flush_at) == (STEP, later)
        for minutes, expected in ((0.5, later), (5.0, later + timedelta(minutes=5))):
            at = later + timedelta(minutes=minutes)
            mark = TurnMark("t", None, NOON, watch=Watch(7, at, at - timedelta(minutes=1)))
            await store.append(ANN, [], mark)
            state = await store.observations.state(ANN)
            assert (state.observe_at, state.flush_at) == (STEP, expected)

    async def test_what_is_due_is_found_without_looking_at_every_thread(self, store: Store) -> None:
        await talk(store, count=1)
        await talk(store, BOB)
        assert await store.observations.due_threads(NOON, NOON, 10) == [BOB]
        assert [state.scope for state in await store.observations.states(BOB.owner)] == [BOB]
        assert await store.observations.states(ANN.owner) == []
        lease = await held(store, BOB)
        assert await store.observations.due_threads(NOON, NOON, 10) == []
        await store.jobs.release(lease)
        await store.observations.postpone(BOB, 199, 300)
        assert await store.observations.due_threads(NOON, NOON, 10) == [BOB], "more was said meanwhile"
        await store.observations.postpone(BOB, 200, 201)
        assert await store.observations.due_threads(NOON, NOON, 10) == []
        await store.append(BOB, [said("late", tokens=1)])
        assert await store.observations.due_threads(NOON, NOON, 10) == [BOB]

    async def test_a_flush_is_due_at_its_time_and_once(self, store: Store) -> None:
        await store.append(ANN, [said("a")])
        await store.observations.request_flush(ANN, NOON)
        await store.observations.request_flush(BOB, NOON)
        assert await store.observations.due_threads(NOON, NOON - timedelta(seconds=1), 10) == []
        assert await store.observations.due_threads(NOON, NOON, 10) == [ANN]
        await store.observations.flushed(ANN, NOON - timedelta(seconds=1))
        assert (await store.observations.state(ANN)).flush_at == NOON
        await store.observations.flushed(ANN, NOON)
        assert await store.observations.due_threads(NOON, NOON, 10) == []

    async def test_times_too_far_ahead_hold_up_nobody(self, store: Store) -> None:
        year, idle = timedelta(days=365), timedelta(minutes=10)
        await talk(store, BOB)
        lease = await held(store, BOB)
        await store.observations.failed(lease, "no", NOON + year, counts=True, dead=False)
        await store.jobs.release(lease)
        assert await store.observations.due_threads(NOON, NOON, 10) == [BOB]
        assert await store.observations.due_threads(NOON, NOON, 10, 2 * year) == []
        for at in (NOON + year, NOON + idle):
            watch = Watch(STEP, at, at - timedelta(minutes=1))
            await store.append(ANN, [said("a")], TurnMark("t", "open", NOON, watch=watch))
            assert (await store.observations.state(ANN)).flush_at == at
            ahead = await store.jobs.times_ahead(NOON, 2 * year, NOON, idle)
            assert ahead.flushes == (at > NOON + idle)
            due = await store.observations.due_threads(NOON, NOON, 10, 2 * year, idle)
            assert due == ([ANN] if at > NOON + idle else [])

    async def test_rows_come_back_as_they_were(self, store: Store) -> None:
        await talk(store)
        whole = row(
            "o2.0",
            (1, 2),
            priority="critical",
            text="tab\t, emoji 🦊, 東京, ' \" \\ %s :x",
            until=NOON + timedelta(hours=1),
            dates=(date(2026, 12, 1), date(2027, 1, 1)),
            parent_id="o1.0",
            seen_change=5,
        )
        assert await store.observations.save(await held(store), observed(0, 2, whole))
        assert await store.observations.log(ANN, ["ready"]) == [whole]
        assert await store.observations.tail(ANN, 5) == [whole]
        assert await store.observations.log(ANN, ["active", "dropped"]) == []

    async def test_cursor_rows_batch_and_session_move_together(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        assert await store.observations.save(lease, observed(0, 2, row("o2.0"), row("o2.1")))
        state = await store.observations.state(ANN)
        assert (state.observed_seq, state.observed_tokens, state.unobserved_tokens) == (2, 100, 100)
        assert (state.session, state.session_seq, state.ready_tokens, state.log_tokens) == (SESSION, 2, 20, 0)
        assert (state.active_seq, state.raw_tokens, state.observe_at) == (0, 200, 200)
        assert await store.observations.batches(ANN) == [Batch(1, 2, 100, 2, "observed", NOON)]
        _, left = await store.observations.unobserved(ANN, 10)
        assert ids(left) == ["t1-m3", "t1-m4"]

    async def test_whoever_has_not_seen_the_cursor_writes_nothing(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        assert await store.observations.save(lease, observed(0, 2, row("o2.0")))
        for seen in (0, 1, 3):
            assert not await store.observations.save(lease, observed(seen, 4, row("o4.0")))
        assert names(await store.observations.log(ANN, ["ready"])) == ["o2.0"]
        assert len(await store.observations.batches(ANN)) == 1

    async def test_an_empty_result_is_noted(self, store: Store) -> None:
        await talk(store)
        assert await store.observations.save(await held(store), observed(0, 3))
        assert (await store.observations.state(ANN)).observed_seq == 3
        assert [(b.rows, b.outcome) for b in await store.observations.batches(ANN)] == [(0, "empty")]

    async def test_a_worker_that_was_overtaken_writes_nothing(self, store: Store) -> None:
        await talk(store)
        first = await held(store, seconds=0.0)
        second = await store.jobs.acquire(ANN, "observe", "other", 60)
        if second is None:
            raise AssertionError("the first lease has run out")
        with refused(LeaseLost, "t1"):
            await store.observations.save(first, observed(0, 2, row("o2.0")))
        with refused(LeaseLost, "t1"):
            await store.observations.reflect(first, Reflected("x", 1))
        with refused(LeaseLost, "t1"):
            await store.observations.failed(first, "x", NOON, counts=True, dead=False)
        assert await store.observations.save(second, observed(0, 2, row("o2.1")))
        assert names(await store.observations.log(ANN, ["ready"])) == ["o2.1"]

    async def test_of_many_workers_with_one_cursor_one_wins(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        saves = [store.observations.save(lease, observed(0, 2, row(f"o2.{n}"))) for n in range(6)]
        assert sorted(await asyncio.gather(*saves)) == [False] * 5 + [True]
        assert len(await store.observations.log(ANN, ["ready"])) == 1

    async def test_at_an_activation_rows_take_the_place_of_messages(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        dated = row("o2.0", (1, 2), dates=(date(2026, 12, 1),))
        await store.observations.save(lease, observed(0, 2, dated))
        await store.observations.save(lease, observed(2, 4, row("o4.0", (3, 4), dates=(date(2026, 12, 2),))))
        ready = await store.observations.ready(ANN, 3)
        assert [batch.last_seq for batch in ready.batches] == [2, 4]
        assert ready.newest == [(4, 50), (3, 50), (2, 50)]
        assert await store.observations.activate(ANN, Activation(0, 2, 100, 1))
        state, shown = await store.observations.window(ANN, 10)
        assert (state.active_seq, state.active_tokens, state.window_seq, state.version) == (2, 100, 1, 1)
        assert (state.log_tokens, state.ready_tokens, state.raw_tokens) == (10, 10, 100)
        assert ids(shown) == ["t1-m2", "t1-m3", "t1-m4"]
        assert ids((await store.observations.window(ANN, 2))[1]) == ["t1-m3", "t1-m4"]
        assert names(await store.observations.log(ANN, ["active"])) == ["o2.0"]
        assert names(await store.observations.dated(ANN)) == ["o2.0"]
        assert await store.observations.activate(ANN, Activation(1, 4, 200, 4, (2, 3)))
        state, shown = await store.observations.window(ANN, 10)
        assert ids(shown) == ["t1-m2", "t1-m3"], "what a turn was asked is shown besides"
        assert [state.shows(seq) for seq in (1, 2, 3, 4, 5)] == [False, True, True, False, True]
        assert (await store.observations.ready(ANN, 1)).batches == []

    async def test_of_two_activations_one_is_made(self, store: Store) -> None:
        await talk(store)
        await store.observations.save(await held(store), observed(0, 4, row("o4.0", (1, 4))))
        wanted = [store.observations.activate(ANN, Activation(0, 4, 200, 4)) for _ in range(5)]
        assert sorted(await asyncio.gather(*wanted)) == [False] * 4 + [True]
        assert (await store.observations.state(ANN)).version == 1
        beyond = Activation(1, 9, 200, 9)
        assert not await store.observations.activate(ANN, beyond), "nothing was observed there"
        assert not await store.observations.activate(ANN, Activation(1, 2, 100, 2)), "it only moves on"

    async def test_a_reflection_waits_for_the_next_activation(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        await store.observations.save(lease, observed(0, 2, row("o2.0"), row("o2.1"), row("o2.2")))
        await store.observations.activate(ANN, Activation(0, 2, 100, 2))
        merged = row("m1.0", (1, 2), supersedes=("o2.0", "o2.1"), position=2_000, tokens=4)
        assert await store.observations.reflect(lease, Reflected("hash", 77, [merged], ["o2.2"]))
        state = await store.observations.state(ANN)
        assert (state.reflecting, state.reflect_at, state.reflected) == (True, 77, "hash")
        assert (state.log_tokens, state.ready_tokens, state.version) == (30, 0, 1)
        waiting = await store.observations.log(ANN, ["active"])
        assert [(one.id, one.successor) for one in waiting] == [
            ("o2.0", "m1.0"),
            ("o2.1", "m1.0"),
            ("o2.2", ""),
        ]
        again = Reflected("other", 1, [replace(merged, id="m1.1")])
        assert not await store.observations.reflect(lease, again), "its rows are spoken for"
        await store.observations.save(lease, observed(2, 4, row("o4.0", (3, 4))))
        assert await store.observations.activate(ANN, Activation(1, 4, 200, 4))
        assert names(await store.observations.log(ANN, ["active"])) == ["m1.0", "o4.0"]
        old = await store.observations.log(ANN, ["superseded", "dropped"])
        assert [(one.id, one.status) for one in old] == [
            ("o2.0", "superseded"),
            ("o2.1", "superseded"),
            ("o2.2", "dropped"),
        ]
        state = await store.observations.state(ANN)
        assert (state.reflecting, state.log_tokens, state.version) == (False, 14, 2)

    async def test_failures_are_noted_and_forgotten_with_the_next_success(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        for _ in range(2):
            await store.observations.failed(lease, "no answer", NOON, counts=True, dead=False)
        await store.observations.failed(lease, "over budget", NOON, counts=False, dead=False)
        state = await store.observations.state(ANN)
        assert (state.attempts, state.error, state.due_at, state.dead) == (2, "over budget", NOON, False)
        await store.jobs.release(lease)
        assert await store.observations.due_threads(NOON - timedelta(seconds=1), NOON, 10) == []
        assert await store.observations.due_threads(NOON, NOON, 10) == [ANN]
        lease = await held(store)
        await store.observations.failed(lease, "for good", NOON, counts=True, dead=True)
        await store.jobs.release(lease)
        assert await store.observations.due_threads(NOON, NOON, 10) == []
        assert [(one.scope, one.error) for one in await store.observations.dead(5)] == [(ANN, "for good")]
        assert await store.observations.revive() == 1
        assert await store.observations.due_threads(NOON, NOON, 10) == [ANN]
        lease = await held(store)
        await store.observations.save(lease, observed(0, 2, row("o2.0")))
        state = await store.observations.state(ANN)
        assert (state.attempts, state.error, state.dead) == (0, None, False)

    async def test_usage_is_counted_by_day(self, store: Store) -> None:
        await talk(store)
        for day, calls in (("2026-03-01", 1), ("2026-03-01", 2), ("2026-03-02", 1)):
            await store.observations.add_usage(ANN, day, calls, 100)
        state = await store.observations.state(ANN)
        assert (state.usage_day, state.usage_calls, state.usage_tokens) == ("2026-03-02", 1, 100)

    async def test_who_is_asked_is_noted(self, store: Store) -> None:
        await talk(store)
        await store.observations.note_provider(ANN, "openai:x")
        assert (await store.observations.state(ANN)).provider == "openai:x"

    async def test_what_was_forgotten_is_neither_shown_nor_observed(self, store: Store) -> None:
        await talk(store)
        hide = ItemChange("t1-m2", "forgotten", kind="message")
        assert await store.revisions.revise(ANN, NewRevision("r1", "user", NOON, [hide]))
        assert ids((await store.observations.window(ANN, 10))[1]) == ["t1-m1", "t1-m3", "t1-m4"]
        assert ids((await store.observations.unobserved(ANN, 10))[1]) == ["t1-m1", "t1-m3", "t1-m4"]
        assert [seq for seq, _ in (await store.observations.ready(ANN, 9)).newest] == [4, 3, 1]
        change = (await store.observations.state(ANN)).change
        assert await store.observations.forgotten(ANN) == [Forgotten(2, change)]
        await store.revisions.undo(ANN, "r1", NOON)
        assert await store.observations.forgotten(ANN) == []

    async def test_a_thread_that_is_apart_is_observed_like_others(self, store: Store) -> None:
        mark = TurnMark("t", "open", NOON, hidden=True, parent="p", watch=Watch(1))
        await store.append(ANN, [said("a"), said("b")], mark)
        assert ids((await store.observations.unobserved(ANN, 9))[1]) == ["a", "b"]
        assert ids((await store.observations.window(ANN, 9))[1]) == ["a", "b"]
        assert await store.observations.forgotten(ANN) == []

    async def test_observations_can_be_made_anew(self, store: Store) -> None:
        await talk(store)
        assert not await store.observations.reset(ANN)
        lease = await held(store)
        await store.observations.save(lease, observed(0, 4, row("o4.0", (1, 4))))
        await store.observations.activate(ANN, Activation(0, 4, 200, 4))
        assert await store.observations.reset(ANN)
        state = await store.observations.state(ANN)
        assert (state.observed_seq, state.active_seq, state.window_seq, state.version) == (0, 0, 0, 2)
        assert (state.session, state.unobserved_tokens) == (SessionState(), 200)
        assert await store.observations.batches(ANN) == []
        assert await store.observations.save(lease, observed(0, 4, row("o4.0", (1, 4))))

    async def test_nobody_sees_or_moves_the_observations_of_others(self, store: Store) -> None:
        for scope in (ANN, *STRANGERS, Scope("support", "ann", "t2")):
            await talk(store, scope)
        lease = await held(store)
        await store.observations.save(lease, observed(0, 4, row("o4.0", (1, 4))))
        await store.observations.activate(ANN, Activation(0, 4, 200, 4))
        await store.observations.failed(lease, "mine", NOON, counts=True, dead=True)
        for scope in (*STRANGERS, Scope("support", "ann", "t2")):
            state = await store.observations.state(scope)
            assert (state.version, state.error, state.session) == (0, None, SessionState())
            assert await store.observations.log(scope, ["active", "ready"]) == []
            assert await store.observations.tail(scope, 5) == []
            assert await store.observations.dated(scope) == []
            assert await store.observations.batches(scope) == []
            assert len((await store.observations.window(scope, 9))[1]) == 4
            assert not await store.observations.activate(scope, Activation(1, 4, 200, 4))
            assert not await store.observations.reset(scope)
        await store.observations.reset(BOB)
        assert names(await store.observations.log(ANN, ["active"])) == ["o4.0"]

    async def test_nothing_is_written_for_a_thread_that_is_gone(self, store: Store) -> None:
        await talk(store)
        lease = await held(store)
        await store.observations.save(lease, observed(0, 4, row("o4.0", (1, 4))))
        counts = await store.erasure.erase(ANN)
        assert (counts["observations"], counts["observation_batches"], counts["observing"]) == (1, 1, 1)
        with refused(LeaseLost, "t1"):
            await store.observations.save(lease, observed(0, 4, row("o4.0", (1, 4))))
        await store.observations.add_usage(ANN, "2026-03-01", 1, 1)
        await store.observations.note_provider(ANN, "x")
        await store.observations.request_flush(ANN, NOON)
        assert await store.observations.state(ANN) == Observing(ANN)
        assert await store.observations.due_threads(NOON, NOON, 9) == []

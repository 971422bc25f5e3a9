"""Background work under pressure: several memories on one store, leases, closing, waiting and giving up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conversation import (
    JONAS,
    LATER,
    MIRA,
    SAID,
    SKEW,
    entry,
    opened,
    proposes,
    said_in,
    settings,
    statuses,
    turn,
)

from casenotes import Memory, Scope, Settings
from casenotes.config import JobSettings, StorageSettings
from casenotes.errors import StoreUnavailable
from casenotes.events import Event
from casenotes.learn import evidence, pipeline
from casenotes.learn.evidence import Verdict
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

PATIENCE = 20.0


def jobs(config: Settings | None = None, **values: Any) -> Settings:
    given = {"first_retry_seconds": 0.05, "poll_seconds": 0.05, **values}
    return replace(config or settings(), jobs=JobSettings(**given))


def facts(request: ChatRequest) -> dict[str, Any]:
    """One entry for each line of the user that begins with a fact."""
    lines = [line for line in said_in(request.prompt).splitlines() if line.startswith("Fact ")]
    return {"entries": [entry(line, line) for line in lines]}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def nothing_queued(memory: Memory) -> bool:
    return (await memory.stats()).queued_turns == 0


class Gate:
    """A model whose answers wait until they are let through."""

    def __init__(self, answer: Callable[[ChatRequest], Any] = facts) -> None:
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.model = ScriptedModel(self._respond)
        self._answer = answer

    async def _respond(self, request: ChatRequest) -> Any:
        self.asked.set()
        await self.open.wait()
        return self._answer(request)


class TestTogether:
    async def test_two_memories_learn_from_each_turn_once(self, store_url: str) -> None:
        """Many threads of two users at once, through two memories that both look for work."""
        model = ScriptedModel(facts)
        config = jobs(lease_seconds=0.5)
        threads = [Scope("support", user, f"t{n}") for user in ("mira", "jonas") for n in range(4)]
        async with (
            opened(store_url, model, config=config) as one,
            opened(store_url, model, config=config) as two,
        ):

            async def talk(number: int, scope: Scope) -> None:
                for count in range(4):
                    memory = (one, two)[(number + count) % 2]
                    under_way = await memory.begin(scope, f"Fact {scope.thread_id}.{count} holds for good")
                    await memory.complete(under_way, "I see.")

            await asyncio.gather(*(talk(number, scope) for number, scope in enumerate(threads)))
            await asyncio.gather(one.flush(timeout=PATIENCE), two.flush(timeout=PATIENCE))
            await until(lambda: nothing_queued(one))
            for user in ("mira", "jonas"):
                ledger = await one.ledger(Scope("support", user))
                contents = Counter(row.receipt.content for row in ledger if row.receipt.status == "stored")
                expected = [f"Fact t{n}.{count} holds for good" for n in range(4) for count in range(4)]
                assert contents == Counter(expected)
                assert max(Counter(row.turn_id for row in ledger).values()) == 1
            assert (await two.stats()).entries == 32

    async def test_a_thread_whose_lease_has_expired_is_taken_over(self, store_url: str) -> None:
        async with opened(store_url, ScriptedModel(facts), config=jobs(in_process=False)) as memory:
            under_way = await memory.begin(MIRA, "Fact one holds for good")
            await memory.complete(under_way, "I see.")
            assert await memory._store.jobs.acquire(MIRA, "extract", "a process that died", 0.3)
        async with opened(store_url, ScriptedModel(facts), config=jobs()) as memory:
            await asyncio.sleep(0.1)
            assert not await nothing_queued(memory), "somebody may still be at it"
            await until(lambda: nothing_queued(memory))
            assert (await memory.stats()).entries == 1

    async def test_waiting_for_another_worker_is_no_busy_loop(self, store_url: str) -> None:
        async with opened(store_url, ScriptedModel(facts), config=jobs(in_process=False)) as memory:
            under_way = await memory.begin(MIRA, "Fact one holds for good")
            await memory.complete(under_way, "I see.")
            store = memory._store
            other = await store.jobs.acquire(MIRA, "extract", "another worker", 60)
            assert other
            acquire, tries = store.jobs.acquire, []

            async def counted(*values: Any) -> Any:
                tries.append(values)
                return await acquire(*values)

            store.jobs.acquire = counted
            (receipt,) = await memory.flush(MIRA, timeout=0.5)
            assert receipt.status == "queued"
            assert 1 < len(tries) < 12
            await store.jobs.release(other)
            await memory.flush(MIRA, timeout=PATIENCE)
            assert (await memory.stats()).entries == 1

    async def test_near_duplicates_learned_at_once_are_stored_once(self, store_url: str) -> None:
        """Both threads have their answer before either compares it with what is stored."""
        contents = {
            "monday": "The webhook failed because the clock of the host was slow",
            "tuesday": "So the webhook failed because the clock of the host was slow",
        }
        both = asyncio.Barrier(2)

        async def respond(request: ChatRequest) -> dict[str, Any]:
            said = said_in(request.prompt).splitlines()[0]
            return {"entries": [entry(contents[said.split()[-1]], said)]}

        async with opened(store_url, ScriptedModel(respond), config=jobs()) as memory:
            save = memory._store.entries.save
            waiting = {"monday", "tuesday"}

            async def together(scope: Scope, lease: Any, learned: Any) -> bool:
                if scope.thread_id in waiting:
                    waiting.discard(str(scope.thread_id))
                    await both.wait()
                return await save(scope, lease, learned)

            memory._store.entries.save = together
            async with asyncio.timeout(PATIENCE):
                receipts = await asyncio.gather(
                    *(turn(memory, s, f"The clock was slow on {s.thread_id}") for s in (MIRA, LATER))
                )
            assert sorted(statuses(receipt)[0] for receipt in receipts) == [
                ("corroborated", "known"),
                ("stored", ""),
            ]
            assert (await memory.stats()).entries == 1
            entry_ids = {receipt.candidates[0].entry_id for receipt in receipts}
            assert len(entry_ids) == 1
            (stored,) = (await memory.entries(MIRA, [str(i) for i in entry_ids])).values()
            assert len(stored.evidence) == 2


class TestWorkers:
    async def test_what_is_left_to_workers_is_learned_by_one(self, store_url: str) -> None:
        model = ScriptedModel(facts)
        async with opened(store_url, model, config=jobs(in_process=False)) as memory:
            for scope in (MIRA, LATER, JONAS):
                under_way = await memory.begin(scope, f"Fact {scope.thread_id} holds for good")
                assert (await memory.complete(under_way, "I see.")).status == "queued"
            await asyncio.sleep(0.2)
            assert model.requests == []
            assert (await memory.stats()).queued_turns == 3
        assert model.requests == [], "closing leaves them to the worker too"
        async with opened(store_url, model, config=jobs(in_process=False)) as worker:
            await worker.work(once=True)
            assert await nothing_queued(worker)
            assert (await worker.stats()).entries == 3

    async def test_a_worker_tries_what_fails_once_and_returns(self, store_url: str) -> None:
        def fail(_request: ChatRequest) -> None:
            raise RuntimeError("out of order")

        config = jobs(in_process=False, first_retry_seconds=60)
        async with opened(store_url, ScriptedModel(fail), config=config) as memory:
            under_way = await memory.begin(MIRA, SAID)
            await memory.complete(under_way, "I see.")
            async with asyncio.timeout(PATIENCE):
                await memory.work(once=True)
            (waiting,) = await memory._store.jobs.queued(MIRA)
            assert (waiting.attempts, "out of order" in str(waiting.error)) == (1, True)


class TestClosing:
    async def test_closing_waits_no_longer_than_its_limit(self, store_url: str) -> None:
        gate = Gate()
        config = replace(jobs(), storage=StorageSettings(close_timeout_seconds=0.2))
        async with opened(store_url, gate.model, config=config) as memory:
            under_way = await memory.begin(MIRA, "Fact one holds for good")
            await memory.complete(under_way, "I see.")
            await gate.asked.wait()
            started = time.monotonic()
        assert time.monotonic() - started < 5
        gate.open.set()
        async with opened(store_url, gate.model, config=jobs()) as memory:
            await until(lambda: nothing_queued(memory))
            assert (await memory.stats()).entries == 1
            assert len(gate.model.requests) == 2, "the lease was given back, the turn had stayed queued"

    async def test_closing_finishes_every_turn_it_has_time_for(self, store_url: str) -> None:
        """The second turn of a thread is noticed when the first one is done, and that may be while closing."""
        gate = Gate()
        async with opened(store_url, gate.model, config=jobs(poll_seconds=60)) as memory:
            for count in range(3):
                under_way = await memory.begin(MIRA, f"Fact {count} holds for good")
                await memory.complete(under_way, "I see.")
                await gate.asked.wait()
            asyncio.get_running_loop().call_later(0.05, gate.open.set)
        asked = sum(request.task == "extract" for request in gate.model.requests)
        assert asked == 3
        async with opened(store_url) as memory:
            stats = await memory.stats()
            assert (stats.entries, stats.queued_turns) == (3, 0)

    async def test_nothing_goes_on_after_closing(self, store_url: str) -> None:
        """No timer of a failure while closing wakes up a memory whose store is closed."""
        events: list[Event] = []
        gate = Gate(lambda _request: 1 / 0)
        config = jobs(first_retry_seconds=0.05, poll_seconds=60)
        before = asyncio.all_tasks()
        async with opened(store_url, gate.model, config=config, on_event=events.append) as memory:
            under_way = await memory.begin(MIRA, SAID)
            await memory.complete(under_way, "I see.")
            await gate.asked.wait()
            asyncio.get_running_loop().call_later(0.05, gate.open.set)
        assert asyncio.all_tasks() == before
        told, asked = len(events), len(gate.model.requests)
        await asyncio.sleep(0.2)
        assert (len(events), len(gate.model.requests)) == (told, asked)
        assert asyncio.all_tasks() == before

    async def test_cancelling_a_call_that_waits_leaves_nothing_open(self, store_url: str) -> None:
        gate = Gate()
        before = asyncio.all_tasks()
        async with opened(store_url, gate.model, config=jobs()) as memory:
            under_way = await memory.begin(MIRA, "Fact one holds for good")
            waiting = asyncio.create_task(memory.complete(under_way, "I see.", sync=True))
            await gate.asked.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await memory.stats()).open_turns == 0
            assert len(await memory.history(MIRA)) == 2
            gate.open.set()
            (receipt,) = await memory.flush(MIRA)
            assert statuses(receipt) == [("stored", "")]
            assert len(gate.model.requests) == 1
        assert asyncio.all_tasks() == before


class TestFailures:
    async def test_flush_returns_after_one_failure(self, store_url: str) -> None:
        def fail(_request: ChatRequest) -> None:
            raise RuntimeError("out of order")

        config = jobs(first_retry_seconds=60)
        async with opened(store_url, ScriptedModel(fail), config=config) as memory:
            for scope in (MIRA, LATER):
                under_way = await memory.begin(scope, SAID)
                await memory.complete(under_way, "I see.")
            started = time.monotonic()
            receipts = await memory.flush(MIRA, timeout=PATIENCE)
            assert time.monotonic() - started < PATIENCE / 2
            assert [receipt.status for receipt in receipts] == ["failed", "failed"]

    async def test_flush_keeps_its_time_limit(self, store_url: str) -> None:
        gate = Gate()
        async with opened(store_url, gate.model, config=jobs()) as memory:
            under_way = await memory.begin(MIRA, "Fact one holds for good")
            await memory.complete(under_way, "I see.")
            started = time.monotonic()
            (receipt,) = await memory.flush(MIRA, timeout=0.2)
            assert time.monotonic() - started < 5
            assert receipt.status == "queued"
            gate.open.set()

    async def test_the_second_try_succeeds_and_stores_once(self, store_url: str) -> None:
        answers = iter([RuntimeError("out of order"), {"entries": [entry(SKEW, SAID)]}])

        def respond(_request: ChatRequest) -> Any:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async with opened(store_url, ScriptedModel(respond), config=jobs()) as memory:
            assert (await turn(memory, MIRA, SAID)).status == "failed"
            await until(lambda: nothing_queued(memory))
            (row,) = await memory.ledger(MIRA)
            assert row.receipt.status == "stored"
            stats = await memory.stats()
            assert (stats.entries, stats.dead_turns) == (1, 0)

    async def test_after_its_attempts_a_turn_is_given_up_and_can_be_brought_back(self, store_url: str) -> None:
        events: list[Event] = []
        broken = True

        def respond(_request: ChatRequest) -> Any:
            if broken:
                raise RuntimeError("out of order")
            return {"entries": [entry(SKEW, SAID)]}

        config = jobs(attempts=3, first_retry_seconds=0.02)
        model = ScriptedModel(respond)
        async with opened(store_url, model, config=config, on_event=events.append) as memory:
            under_way = await memory.begin(MIRA, SAID)
            await memory.complete(under_way, "I see.")
            await until(lambda: nothing_queued(memory))
            assert len(model.requests) == 3
            (dead,) = await memory.dead_letters()
            assert (dead.turn_id, dead.attempts) == (under_way.id, 3)
            (receipt,) = await memory.flush(MIRA)
            assert receipt.status == "failed"
            assert receipt.reason.startswith("given up after 3 attempts: ")
            failures = [event for event in events if event.name == "learning.failed"]
            assert [event.data["source"] for event in failures] == ["episodic-memory"] * 3
            assert [event.data["given_up"] for event in failures] == [False, False, True]
            broken = False
            assert await memory.retry_dead_letters() == 1
            await until(lambda: nothing_queued(memory))
            assert await memory.dead_letters() == []
            assert (await memory.stats()).entries == 1

    async def test_a_model_that_is_always_cancelled_from_within_is_given_up(self, store_url: str) -> None:
        """Client libraries with cancel scopes of their own let such errors escape; nobody asked for it."""

        def respond(_request: ChatRequest) -> None:
            raise asyncio.CancelledError("a scope inside the client")

        model = ScriptedModel(respond)
        async with opened(store_url, model, config=jobs(attempts=2, first_retry_seconds=0.02)) as memory:
            async with asyncio.timeout(PATIENCE):
                assert (await turn(memory, MIRA, SAID)).status == "failed"
            await until(lambda: nothing_queued(memory))
            assert len(model.requests) == 2
            (dead,) = await memory.dead_letters()
            assert "cancelled" in str(dead.error)

    async def test_an_error_that_no_database_takes_is_noted(self, store_url: str) -> None:
        def respond(_request: ChatRequest) -> None:
            raise RuntimeError("bytes \x00 and halves \ud800 of characters")

        model = ScriptedModel(respond)
        async with opened(store_url, model, config=jobs(first_retry_seconds=60)) as memory:
            async with asyncio.timeout(PATIENCE):
                receipt = await turn(memory, MIRA, SAID)
            assert receipt.status == "failed"
            assert "of characters" in receipt.reason
            assert len(model.requests) == 1

    async def test_evidence_is_checked_beside_the_hosts_loop(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Checking a long turn takes a while, and must not hold up anybody's turn."""
        threads = []

        def judge(*given: Any) -> Verdict:
            threads.append(threading.get_ident())
            return evidence.judge(*given)

        monkeypatch.setattr(pipeline, "judge", judge)
        async with opened(sqlite_url, proposes(entry(SKEW, SAID)), config=jobs()) as memory:
            assert statuses(await turn(memory, MIRA, SAID)) == [("stored", "")]
        assert threads
        assert threading.get_ident() not in threads


class TestBrokenStores:
    async def test_a_store_that_takes_no_writes_is_not_asked_without_end(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even the failure can be noted: the thread rests, and the model is not asked again."""
        model = proposes(entry(SKEW, SAID))
        async with opened(sqlite_url, model, config=jobs(first_retry_seconds=30)) as memory:

            async def broken(*_given: Any, **_values: Any) -> None:
                raise StoreUnavailable("the disk is full")

            monkeypatch.setattr(memory._store.entries, "save", broken)
            monkeypatch.setattr(memory._store.jobs, "failed", broken)
            under_way = await memory.begin(MIRA, SAID)
            await memory.complete(under_way, "I see.")
            (receipt,) = await memory.flush(MIRA, timeout=2)
            assert receipt.status == "queued"
            await asyncio.wait_for(memory.work(once=True), 5)
        assert len(model.requests) == 1

    async def test_flush_ends_when_the_memory_is_closed(self, sqlite_url: str) -> None:
        never = asyncio.Event()

        async def hang(_request: ChatRequest) -> None:
            await never.wait()

        config = jobs(replace(settings(), storage=StorageSettings(close_timeout_seconds=0.1)))
        async with opened(sqlite_url, ScriptedModel(hang), config=config) as memory:
            under_way = await memory.begin(MIRA, SAID)
            await memory.complete(under_way, "I see.")
            flushing = asyncio.create_task(memory._learning.settle(MIRA, 30))
            await asyncio.sleep(0.2)
        with suppress(StoreUnavailable):
            await asyncio.wait_for(flushing, 5)

    async def test_another_process_may_switch_the_space_while_the_model_answers(self, store_url: str) -> None:
        async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
            await turn(memory, MIRA, SAID)

        async def answer(_request: ChatRequest) -> dict[str, Any]:
            async with opened(store_url) as other:
                await other.reembed(HashEmbedder(128))
            return {"entries": [entry(f"So {SKEW}", SAID)]}

        async with opened(store_url, ScriptedModel(answer)) as memory:
            memory._space.expect(HashEmbedder(128))
            assert statuses(await turn(memory, LATER, SAID)) == [("corroborated", "known")]


async def test_r13_03_a_clock_that_was_a_year_ahead_delays_no_learning(store_url: str) -> None:
    year = timedelta(days=365)
    async with opened(store_url, config=jobs(in_process=False)) as memory:
        under_way = await memory.begin(MIRA, SAID)
        await memory.complete(under_way, "I see.")
        lease = await memory._store.jobs.acquire(MIRA, "extract", "another", year.total_seconds())
        assert lease is not None
        later = datetime.now(UTC) + year
        await memory._store.jobs.failed(lease, under_way.id, "no answer", later, counts=True, dead=False)
        (clock,) = [finding for finding in await memory.check() if finding.name == "clock"]
        assert (clock.status, "1 leases, 1 turns" in clock.detail) == ("warning", True)
    async with opened(store_url, proposes(entry(SKEW, SAID)), config=jobs()) as memory:
        await until(lambda: nothing_queued(memory))
        assert SKEW in [hit.content for hit in await memory.recall(MIRA, SKEW) if hit.kind == "entry"]
        (clock,) = [finding for finding in await memory.check() if finding.name == "clock"]
        assert clock.status == "ok"

"""Erasing while jobs are at work: whatever they hold in their hands, nothing of it comes back.

Every race runs a turn that is being learned from, with a model, an embedder and vectors on their way, and
erases at a random moment of it.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from conversation import LATER, MIRA, NOW, entry, opened, said_in, settings, turn
from storage import run

from casenotes import JobSettings, Memory, Scope
from casenotes.config import ProfileSettings
from casenotes.errors import CasenotesError, StateConflict
from casenotes.models.embed import Matrix
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

RACES = int(os.environ.get("CASENOTES_RACES", "15"))
"""On each store, five at a time; `make faults` runs many more."""

TABLES = (
    "scopes threads messages turns vectors entries evidence receipts leases model_usage revisions "
    "layer_states episodes events".split()
)
SQLITE_OWNERS = {
    "messages": "SELECT s.resource_id FROM message_rows AS m LEFT JOIN scopes AS s ON s.number = m.scope",
    "vectors": "SELECT s.resource_id FROM vectors AS v LEFT JOIN scopes AS s ON s.number = v.scope",
    "events": "SELECT t.resource_id FROM events AS e LEFT JOIN threads AS t ON t.number = e.thread",
}
"""Whose rows they are, where they name their scope or thread by a number; nobody's if that is gone."""

ROLE = "User Context/Role"
KEEPER = "keeper of the old lighthouse"


class SlowEmbedder(HashEmbedder):
    """Takes a moment, in which everything may change."""

    async def embed(self, texts: Any) -> Matrix:
        await asyncio.sleep(random.uniform(0, 0.004))
        return await super().embed(texts)


async def slow_answer(request: Any) -> dict[str, Any]:
    await asyncio.sleep(random.uniform(0, 0.01))
    if request.task in ("summarise", "title"):
        return {"text": said_in(request.prompt).splitlines()[0]}
    if request.task != "extract":
        return {}
    said = said_in(request.prompt).splitlines()[0]
    return {"entries": [entry(said, said)]}


async def one_race(memory: Memory, number: int) -> Scope:
    owner = Scope("support", f"canary-user-{number:04}")
    for door in range(2):
        scope = replace(owner, thread_id=f"thread-{number}-{door}")
        begun = await memory.begin(scope, f"The hall {number} door {door} of the depot is stuck again.")
        await memory.complete(begun, "I see.")
    waiting = asyncio.create_task(memory.recall(owner, "depot door"))
    await asyncio.sleep(random.uniform(0, 0.03))
    await memory.erase(owner, scrub=False)
    await asyncio.gather(waiting, return_exceptions=True)
    return owner


def rows_left(url: str, owners: list[Scope]) -> dict[str, int]:
    names = {None, *(owner.resource_id for owner in owners)}
    queries = {table: f"SELECT resource_id FROM {table}" for table in TABLES}
    if url.startswith("sqlite"):
        queries |= SQLITE_OWNERS
    found = {table: sum(row[0] in names for row in run(url, query)) for table, query in queries.items()}
    return {table: count for table, count in found.items() if count}


async def test_no_job_brings_back_what_was_erased(store_url: str) -> None:
    random.seed(20)
    config = replace(settings(), jobs=JobSettings(first_retry_seconds=0.02, poll_seconds=0.05, concurrency=8))
    options = {"embedder": SlowEmbedder(16), "clock": FrozenClock(NOW), "config": config}
    async with opened(store_url, ScriptedModel(slow_answer), **options) as memory:
        kept = Scope("support", "stays", "t")
        await memory.complete(await memory.begin(kept, "The gate of hall 9 was painted."), "I see.", sync=True)
        owners: list[Scope] = []
        for first in range(0, RACES, 5):
            owners += await asyncio.gather(*(one_race(memory, first + n) for n in range(5)))
        await memory.flush(timeout=20)
        await asyncio.sleep(0.2)
        for owner in owners[:5]:
            assert await memory.recall(owner, "depot door") == []
        assert len(await memory.recall(kept, "gate of hall 9")) == 2
    assert rows_left(store_url, owners) == {}
    async with opened(store_url, **{**options, "embedder": HashEmbedder(16)}) as memory:
        assert [f.name for f in await memory.check() if f.status == "failed"] == []


async def test_erasing_in_one_memory_while_another_learns(store_url: str) -> None:
    """Two memories on one store, in one process: the one that erases knows nothing of the other's jobs."""
    random.seed(21)
    async with opened(store_url, ScriptedModel(slow_answer)) as one, opened(store_url) as other:
        owners = []
        for number in range(RACES // 2):
            owner = Scope("support", f"canary-user-{number:04}")
            scope = replace(owner, thread_id="t")
            await one.complete(await one.begin(scope, f"The hall {number} door is stuck again."), "I see.")
            await asyncio.sleep(random.uniform(0, 0.02))
            try:
                await other.erase(owner, scrub=False)
            except CasenotesError as error:
                raise AssertionError(f"erasing must not fail: {error}") from error
            owners.append(owner)
        await one.flush(timeout=20)
    assert rows_left(store_url, owners) == {}


async def test_a_search_does_not_wait_for_what_was_erased(store_url: str) -> None:
    """Another memory erases the resource after a search has read how far it had come."""
    async with opened(store_url) as one, opened(store_url) as other:
        await one.append(MIRA, "The gate of hall 9 was painted.")
        seen = await one._store.freshness(MIRA)
        one._searcher.cache.drop(MIRA)
        await other.erase(MIRA.owner, scrub=False)
        index = await asyncio.wait_for(one._searcher._index_at(MIRA, seen), 5)
        assert index.size.messages == 0


async def race_of_layers(one: Memory, other: Memory, number: int) -> Scope:
    """Everything that layers write, begun just before another memory erases the resource or the thread."""
    scope = Scope("support", f"canary-user-{number:04}", "t")
    words = f"sluice {number} of the harbour"
    begun = await one.begin(scope, f"The {words} is stuck.")
    tools = {tool.name: tool.call for tool in begun.tools}
    await tools["update_profile"](field=ROLE, action="set", value=f"keeper of {words}")
    await one.update_plan(scope, goal=f"Free the {words}.")
    child = await one.begin(scope.child("diver"), f"Look at the {words}.")
    await one.complete(child, f"The {words} is under water.", "failure", error=f"no light at {words}")
    await one.complete(begun, f"The {words} will be seen to.")
    writes = [
        tools["update_profile"](field="Current Goals/Task", action="append", value=f"mend {words}"),
        tools["plan"](steps=[{"text": f"Open the {words}.", "status": "pending"}], version=1),
        one.update_plan(scope, phase=f"at the {words}", version=1),
        one.record_attempt(scope, f"Free the {words}", "with a crowbar", "it broke"),
        one.undo_profile(scope),
        one.finish(scope),
    ]
    random.shuffle(writes)
    under_way = [asyncio.create_task(after_a_moment(write)) for write in writes]
    await asyncio.sleep(random.uniform(0, 0.02))
    await other.erase(scope.owner if number % 2 else scope, scrub=False)
    results = await asyncio.gather(*under_way, return_exceptions=True)
    assert [r for r in results if isinstance(r, BaseException) and not isinstance(r, CasenotesError)] == []
    return scope.owner


async def after_a_moment(write: Any) -> Any:
    await asyncio.sleep(random.uniform(0, 0.02))
    return await write


async def test_no_layer_writes_back_what_was_erased(store_url: str) -> None:
    random.seed(22)
    config = replace(settings(), profile=ProfileSettings(learn=True), titles="model")
    async with opened(store_url, ScriptedModel(slow_answer), config=config) as one, opened(store_url) as other:
        owners: list[Scope] = []
        for first in range(0, RACES, 5):
            owners += await asyncio.gather(*(race_of_layers(one, other, first + n) for n in range(5)))
        await one.flush(timeout=20)
        for owner in owners:
            assert (await other.profile(owner)).fields == {}
            assert await other.episodes(owner) == []
    assert "sluice" not in proof(store_url)
    assert rows_left(store_url, owners[1::2]) == {}
    assert set(rows_left(store_url, owners[::2])) <= {"scopes", "layer_states", "model_usage"}


@dataclass(frozen=True, slots=True)
class Eraser:
    """A model in whose thinking time another memory erases something, and perhaps the user goes on there."""

    other: Memory
    erased: Scope
    task: str
    answer: dict[str, Any]
    goes_on: bool

    async def __call__(self, request: Any) -> dict[str, Any]:
        if request.task != self.task:
            return {}
        await self.other.erase(self.erased, scrub=False)
        if self.goes_on:
            await self.other.append(MIRA, "Good morning again.")
        return self.answer


def proof(url: str) -> str:
    """Everything in every table, as text."""
    return "\n".join(repr(row) for table in TABLES for row in run(url, f"SELECT * FROM {table}"))


@pytest.mark.parametrize("goes_on", [False, True], ids=["gone", "goes on"])
@pytest.mark.parametrize("erased", [MIRA, MIRA.owner], ids=["thread", "resource"])
class TestWhileAModelThinks:
    """Threads keep their names: the user may go on in one that was erased before the model has answered."""

    async def test_of_the_profile(self, store_url: str, erased: Scope, goes_on: bool) -> None:
        patch = {"field": ROLE, "action": "set", "value": KEEPER}
        config = replace(settings(), profile=ProfileSettings(learn=True))
        async with opened(store_url) as other:
            model = Eraser(other, erased, "profile", {"patch": [patch]}, goes_on)
            async with opened(store_url, ScriptedModel(model), config=config) as one:
                await one.append(LATER, "Hello.")
                await turn(one, MIRA, f"I am the {KEEPER}.")
                await one.flush()
                assert (await one.profile(MIRA)).fields == {}
        assert "lighthouse" not in proof(store_url)

    async def test_of_a_summary(self, store_url: str, erased: Scope, goes_on: bool) -> None:
        async with opened(store_url) as other:
            model = Eraser(other, erased, "summarise", {"text": f"The {KEEPER} was helped."}, goes_on)
            async with opened(store_url, ScriptedModel(model)) as one:
                under_way = await one.begin(MIRA, f"I am the {KEEPER}.")
                await one.complete(under_way, "I see.")
                await one.finish(MIRA)
                assert await one.episodes(MIRA) == []
        assert "lighthouse" not in proof(store_url)

    async def test_of_a_title(self, store_url: str, erased: Scope, goes_on: bool) -> None:
        config = replace(settings(), titles="model")
        async with opened(store_url) as other:
            model = Eraser(other, erased, "title", {"text": f"The {KEEPER}"}, goes_on)
            async with opened(store_url, ScriptedModel(model), config=config) as one:
                await turn(one, MIRA, f"I am the {KEEPER}.")
                assert [thread.title for thread in await one.threads(MIRA)] == ["Good morning again."] * goes_on
        assert "lighthouse" not in proof(store_url)


class TestLateWriters:
    """Whoever has read a profile before an erasure decides again, and brings nothing back."""

    @pytest.mark.parametrize("erased", [MIRA, MIRA.owner], ids=["thread", "resource"])
    async def test_of_the_profile(self, store_url: str, erased: Scope) -> None:
        async with opened(store_url) as one, opened(store_url) as other:
            for scope, role in ((MIRA, KEEPER), (LATER, "owner of a shop")):
                await one.append(scope, "Hello.")
                await one.update_profile(scope, ROLE, "set", role)
            state = one._states.of("user-profile", "resource", LATER, create=True)
            newest, first = await state.history()
            await other.erase(erased, scrub=False)
            for decided in (newest, first):
                with pytest.raises(StateConflict, match="read it again"):
                    await state.write(decided.value, newest.version, "late")
            assert (await other.stats()).scopes == (erased == MIRA)
        assert "lighthouse" not in proof(store_url)

    async def test_of_a_turn_that_is_gone(self, store_url: str) -> None:
        """The tools of a turn outlive it in the hands of its host."""
        async with opened(store_url) as one, opened(store_url) as other:
            await one.append(LATER, "Hello.")
            under_way = await one.begin(MIRA, "Good morning.")
            tools = {tool.name: tool for tool in under_way.tools}
            await other.erase(MIRA, scrub=False)
            for _ in range(2):
                profile = await tools["update_profile"].call(field=ROLE, action="set", value=KEEPER)
                plan = await tools["plan"].call(goal=f"Help the {KEEPER}.")
                assert "not in the store any more" in profile["error"]
                assert "not in the store any more" in plan["error"]
                await other.append(MIRA, "Good morning again.")
        assert "lighthouse" not in proof(store_url)


async def test_undoing_goes_past_what_an_erased_thread_gave(store_url: str) -> None:
    async with opened(store_url) as memory:
        with pytest.raises(CasenotesError, match="no earlier version"):
            await memory.undo_profile(MIRA)
        for scope, value in ((LATER, "owner of a shop"), (LATER, "baker"), (MIRA, KEEPER)):
            await memory.append(scope, "Hello.")
            await memory.update_profile(scope, ROLE, "set", value)
        await memory.erase(MIRA, scrub=False)
        assert [version.version for version in await memory.profile_history(MIRA)] == [4, 2, 1]
        seen = [(await memory.undo_profile(MIRA)).fields for _ in range(3)]
        assert seen == [{ROLE: ("baker",)}, {ROLE: ("owner of a shop",)}, {}]
        with pytest.raises(CasenotesError, match="no earlier version"):
            await memory.undo_profile(MIRA)

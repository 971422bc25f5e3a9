"""What only the PostgreSQL store promises: row-level security, clear errors, no password shown."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from importlib import resources

import psycopg
import pytest

from casenotes import Memory, Scope, Settings, StorageSettings, Turn
from casenotes.config import JobSettings
from casenotes.errors import LeaseLost, Overloaded, StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from casenotes.stores import create_store
from casenotes.stores.base import TurnMark
from casenotes.stores.learned_rows import optional_thread_key
from casenotes.stores.postgres.store import PostgresStore
from casenotes.stores.rows import scope_key
from casenotes.stores.states import EventRow, StateVersion
from casenotes.testing import HashEmbedder, ScriptedModel
from casenotes.testing.store_contract import ANN, BOB, said
from casenotes.testing.values import NOON

SAID = "As you asked: the fan of rack seven was replaced"
SCOPED_TABLES = """
    SELECT c.relname, c.relrowsecurity FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'casenotes'::regnamespace AND c.relkind = 'r' AND a.attname = 'agent_id'
"""


def learner() -> ScriptedModel:
    """Finds the same entry in every turn."""
    words = "the fan of rack seven was replaced"
    entry = {"content": "The fan of rack seven was replaced.", "source": "user_assertion", "evidence": words}
    noted = {"observations": [{"priority": "info", "time": "10:00", "text": "the fan was replaced"}]}
    return ScriptedModel(lambda request: noted if request.task == "observe" else {"entries": [entry]})


async def learn(memory: Memory, scope: Scope) -> Turn:
    """Two turns, so that every table has rows of the scope: the second is shown what the first taught."""
    turns = []
    for thread in ("one", "two"):
        turn = await memory.begin(Scope(scope.agent_id, scope.resource_id, thread), SAID)
        receipt = await memory.complete(turn, "Good.", sync=True)
        assert receipt.status == "learned", receipt
        turns.append(turn)
    await keep(memory, turns[-1].scope)
    return turns[-1]


async def keep(memory: Memory, scope: Scope) -> None:
    """What layers keep: a profile, a plan, an attempt and the summary of a run."""
    await memory.update_profile(scope, "User Context/Name", "set", f"keeper {scope.resource_id}")
    await memory.update_plan(scope, goal=f"Help {scope.resource_id}.")
    await memory.record_attempt(scope, f"Reach {scope.resource_id}", "by phone", "nobody answered")
    await memory.finish(scope)


async def test_row_level_security_hides_other_scopes_from_the_application_role(
    postgres_url: str,
) -> None:
    async with Memory.open(postgres_url, model=learner()) as memory:
        await memory.append(BOB, "bob's secret")
        await learn(memory, BOB)
    script = resources.files("casenotes.stores.postgres").joinpath("row_security.sql").read_text()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(script)
        owner.execute("DROP ROLE IF EXISTS casenotes_app")
        owner.execute("CREATE ROLE casenotes_app LOGIN")
        owner.execute("GRANT USAGE ON SCHEMA casenotes TO casenotes_app")
        owner.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA casenotes TO casenotes_app")
    try:
        app_url = postgres_url.replace("//postgres:@", "//casenotes_app@")
        async with Memory.open(app_url, model=learner()) as memory:
            assert "rack seven" in (await learn(memory, ANN)).context.text
            assert [row.receipt.status for row in await memory.ledger(ANN.owner)] == ["corroborated", "stored"]
            assert await memory.ledger(Scope("support", "eve")) == []
            await memory.append(ANN, "ann's own words")
            await memory.remember(ANN, "Ann keeps a parrot named Coco.")
            assert [hit.content for hit in await memory.recall(ANN, "words")] == ["ann's own words"]
            assert [hit.content for hit in await memory.recall(BOB, "secret")] == ["bob's secret"]
            assert await memory.recall(Scope("support", "eve"), "secret") == []
            await check_layers(memory)
            await memory.observe(Scope("support", "ann", "one"))
            assert len(await memory.observations(Scope("support", "ann", "one"))) == 1
            assert await memory.observations(Scope("support", "bob", "one")) == []
            with pytest.raises(StoreError, match="row-level security"):
                await memory.reembed("static")
        with psycopg.connect(app_url) as stranger:
            count = "SELECT count(*) FROM casenotes.messages"
            assert stranger.execute(count).fetchone() == (0,)
            stranger.execute("SELECT set_config('casenotes.agent_id', 'support', true)")
            stranger.execute("SELECT set_config('casenotes.resource_id', 'ann', true)")
            assert stranger.execute(count).fetchone() == (6,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stranger.execute("INSERT INTO casenotes.scopes VALUES ('support', 'bob2')")
        for table in ("layer_states", "episodes"):
            with psycopg.connect(app_url) as stranger:
                stranger.execute("SELECT set_config('casenotes.agent_id', 'support', true)")
                stranger.execute("SELECT set_config('casenotes.resource_id', 'ann', true)")
                assert stranger.execute(f"UPDATE casenotes.{table} SET created_at = now()").rowcount > 0
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    stranger.execute(f"UPDATE casenotes.{table} SET resource_id = 'bob'")
        with psycopg.connect(app_url) as stranger:
            tables = dict(stranger.execute(SCOPED_TABLES).fetchall())
            assert {"layer_states", "episodes", "events"} < set(tables)
            assert len(tables) >= 15
            assert all(tables.values()), tables
            counts = {name: f"SELECT count(*) FROM casenotes.{name}" for name in tables}
            assert {stranger.execute(count).fetchone() for count in counts.values()} == {(0,)}
            stranger.execute("SELECT set_config('casenotes.agent_id', 'support', true)")
            stranger.execute("SELECT set_config('casenotes.resource_id', 'ann', true)")
            assert [name for name, count in counts.items() if stranger.execute(count).fetchone() == (0,)] == []
            others = "SELECT count(*) FROM casenotes.{} WHERE resource_id <> 'ann'"
            assert {stranger.execute(others.format(name)).fetchone() for name in tables} == {(0,)}
        async with Memory.open(app_url) as memory:
            erased = await memory.erase(ANN.owner)
            assert (erased.rows["messages"], erased.rows["scopes"], erased.is_proven) == (6, 1, False)
            assert (erased.rows["layer_states"], erased.rows["episodes"]) == (3, 1)
            assert (await memory.profile(BOB)).fields == {"User Context/Name": ("keeper bob",)}
            assert "the tables" in erased.not_done
            assert "database server" in erased.residue.skipped
            assert await memory.recall(ANN, "parrot") == []
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            owner.execute("DROP OWNED BY casenotes_app")
            owner.execute("DROP ROLE casenotes_app")


async def check_layers(memory: Memory) -> None:
    """Each user has their own, and whoever has nothing is shown nothing."""
    for scope in (ANN, BOB):
        two = replace(scope, thread_id="two")
        assert (await memory.profile(scope)).fields == {"User Context/Name": (f"keeper {scope.resource_id}",)}
        assert (await memory.plan(two)).goal == f"Help {scope.resource_id}."
        assert [attempt.task for attempt in await memory.attempts(two)] == [f"Reach {scope.resource_id}"]
        assert [run.thread_id for run in await memory.episodes(scope)] == ["two"]
    eve = Scope("support", "eve", "two")
    assert (await memory.profile(eve)).fields == {}
    assert await memory.plan(eve) is None
    assert await memory.attempts(eve) == []
    assert await memory.episodes(eve) == []
    shared = await memory._store.episodes.newest(eve, 20, of_all_users=True)
    assert shared == [], "the second lock holds even where summaries are shared"


async def test_an_unreachable_server_is_named_without_the_password() -> None:
    store = create_store(
        "postgresql://ann:hunter2@127.0.0.1:1/db?application_name=x",
        StorageSettings(connect_timeout_seconds=2),
    )
    assert store.location == "postgresql://ann@127.0.0.1:1/db"
    with pytest.raises(StoreUnavailable, match="check that the server runs") as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    await store.close()


@pytest.mark.parametrize("missing", ["psycopg", "pgvector", "psycopg_pool"])
def test_a_base_install_is_told_which_extra_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from casenotes.cli.app import main; "
        "sys.argv = ['casenotes', 'stats', '--db', 'postgresql://h/d']; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert "pip install 'casenotes[postgres]'" in " ".join(result.stderr.split())


async def test_too_much_at_once_is_refused_as_overload(postgres_url: str) -> None:
    store = create_store(postgres_url, StorageSettings(max_queued_writes=2, postgres_pool_size=1))
    await store.open()
    results = await asyncio.gather(
        *(store.append(ANN, [said(f"m{n}")]) for n in range(40)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, Exception)]
    assert {type(error) for error in refused} == {Overloaded}
    assert len(await store.history(ANN, limit=100)) == 40 - len(refused)
    await store.close()


async def test_a_newer_schema_is_refused(postgres_url: str) -> None:
    store = create_store(postgres_url)
    await store.open()
    await store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO casenotes.migrations (number, name) VALUES (99, 'future')")
    with pytest.raises(StoreTooNew, match=r"schema 99.*upgrade"):
        await store.open()


async def test_several_processes_may_open_a_new_database_at_once(empty_postgres_url: str) -> None:
    stores = [create_store(empty_postgres_url) for _ in range(4)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
        await stores[0].append(ANN, [said("a")])
        assert len(await stores[3].history(ANN, limit=5)) == 1
    finally:
        for store in stores:
            await store.close()


async def test_a_role_that_may_not_create_the_extension_is_told_what_to_do(
    empty_postgres_url: str,
) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS casenotes_plain")
        owner.execute("CREATE ROLE casenotes_plain LOGIN")
        name = owner.execute("SELECT current_database()").fetchone()[0]
        owner.execute(f"GRANT CREATE ON DATABASE {name} TO casenotes_plain")
    store = create_store(empty_postgres_url.replace("//postgres:@", "//casenotes_plain@"))
    try:
        with pytest.raises((StoreUnavailable, StoreDamaged), match="CREATE EXTENSION vector"):
            await store.open()
    finally:
        with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
            owner.execute("DROP OWNED BY casenotes_plain")
            owner.execute("DROP ROLE casenotes_plain")


async def test_a_process_that_falls_silent_in_a_transaction_holds_nobody_up_for_long(postgres_url: str) -> None:
    silent = create_store(postgres_url, StorageSettings(idle_transaction_seconds=0.5))
    other = create_store(postgres_url)
    await silent.open()
    await other.open()
    await other.append(ANN, [said("one")])

    async def fall_silent() -> None:
        async with silent.transaction(ANN) as connection:
            await connection.execute(silent.statement("hold_scope"), scope_key(ANN))
            async with asyncio.timeout(20):
                await other.append(ANN, [said("two")])
            await connection.execute(b"SELECT 1")

    with pytest.raises(StoreError):
        await fall_silent()
    assert len(await silent.history(ANN, limit=5)) == 2, "it goes on with another connection"
    await silent.close()
    await other.close()


async def test_a_limit_of_zero_is_none(postgres_url: str) -> None:
    store = create_store(postgres_url, StorageSettings(idle_transaction_seconds=0))
    await store.open()
    async with store.transaction(ANN) as connection:
        await asyncio.sleep(0.1)
        await connection.execute(b"SELECT 1")
    await store.close()


async def test_background_writers_hold_up_no_turn(postgres_url: str) -> None:
    """Events, states and notes of jobs are written beside turns of the same user."""
    one, two = create_store(postgres_url), create_store(postgres_url)
    await one.open()
    await two.open()
    await one.append(ANN, [said("one")])
    async with one.transaction(ANN) as connection, asyncio.timeout(10):
        await connection.execute(one.statement("share_scope"), scope_key(ANN))
        await two.append(ANN, [said("two")])
        assert await two.states.write(ANN, "notes", StateVersion({}, 1, "agent", NOON), keep=5)
        await two.events.add(ANN, [EventRow("turn.started", NOON)], 5)
    await one.close()
    await two.close()


ONE_CONNECTION = StorageSettings(postgres_pool_size=1, close_timeout_seconds=2)


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancellation_is_heeded_whenever_it_comes(shared_postgres_url: str, steps: int) -> None:
    """Also in the moment in which the pool hands a connection over; the connection is not lost then."""
    store = create_store(shared_postgres_url, ONE_CONNECTION)
    await store.open()
    async with store.connection():
        reading = asyncio.create_task(store.freshness(ANN))
        await asyncio.sleep(0.02)
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = reading.done()
    reading.cancel()
    await asyncio.wait([reading], timeout=5)
    assert reading.cancelled() or was_done
    async with asyncio.timeout(5):
        await store.freshness(ANN)
    await store.close()


@pytest.mark.parametrize("steps", range(4))
async def test_closing_ends_whenever_it_comes(shared_postgres_url: str, steps: int) -> None:
    """The search for work may be waiting for a connection just then."""
    config = Settings(storage=ONE_CONNECTION, jobs=JobSettings(poll_seconds=0.01))
    opening = Memory.open(shared_postgres_url, model=learner(), embedder=HashEmbedder(256), config=config)
    memory = await opening.__aenter__()
    async with memory._store.connection():
        await asyncio.sleep(0.05)
    for _ in range(steps):
        await asyncio.sleep(0)
    closing = asyncio.create_task(opening.__aexit__(None, None, None))
    await asyncio.wait([closing], timeout=15)
    assert closing.done()


async def test_an_opening_that_is_cancelled_leaves_nothing(shared_postgres_url: str) -> None:
    def of_pools() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("casenotes-")]

    store = create_store(shared_postgres_url)
    opening = asyncio.create_task(store.open())
    async with asyncio.timeout(10):
        while not of_pools():  # noqa: ASYNC110
            await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening], timeout=10)
    assert opening.cancelled()
    assert of_pools() == []


async def test_an_erasure_and_a_note_of_learning_do_not_wait_for_each_other_for_ever(postgres_url: str) -> None:
    """Both touch turns and leases, in another order; the scope decides who comes first."""
    store = create_store(postgres_url)
    await store.open()
    await store.append(ANN, [said("one")], TurnMark("u", "open", NOON))
    await store.append(ANN, [], TurnMark("u", "success", NOON, ("title", "memory")))
    lease = await store.jobs.acquire(ANN, "extract", "me", 30)
    values = optional_thread_key(ANN)
    async with store.transaction(ANN) as erasing:
        await erasing.execute(store.statement("hold_scope"), values)
        await erasing.execute(store.statement("erase_turns"), values)
        noting = asyncio.create_task(store.jobs.learned(lease, "u", "title"))
        async with asyncio.timeout(20):
            while not await _waits_for_a_lock(store):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await erasing.execute(store.statement("erase_leases"), values)
    with pytest.raises(LeaseLost):
        await noting
    await store.close()


async def _waits_for_a_lock(store: PostgresStore) -> bool:
    async with store.connection() as connection:
        cursor = await connection.execute(
            b"SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await cursor.fetchall())

"""PostgreSQL that goes away, rows that others hold, and a pooler in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
import pytest

from casenotes import Memory, Scope, Settings, StorageSettings
from casenotes.errors import Overloaded, StoreUnavailable
from casenotes.stores import create_store
from casenotes.stores.base import Store
from casenotes.testing import HashEmbedder
from casenotes.testing.store_contract import ANN, BOB, ids, said

PATIENCE = 20.0
HOLD_ROW = "SELECT 1 FROM casenotes.scopes WHERE resource_id = 'ann' FOR UPDATE"
HOLD_TABLE = "LOCK TABLE casenotes.messages"
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
WAITING = f"{OTHERS} AND wait_event_type = 'Lock'"
VANISH = """
    CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM nextval('tries'), pg_terminate_backend(pg_backend_pid()), pg_sleep(5);
        RETURN NULL;
    END $$
"""
LEFT_IN_SESSION = """
    SELECT current_setting('TimeZone'), current_setting('lock_timeout'),
           current_setting('idle_in_transaction_session_timeout'), current_setting('casenotes.agent_id', true),
           (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
"""


@contextmanager
def held(url: str, statement: str) -> Iterator[psycopg.Connection]:
    """Another session in the middle of a transaction, and its connection."""
    with psycopg.connect(url) as other:
        other.execute(statement)
        yield other
        other.rollback()


async def end_connections(url: str, which: str) -> None:
    """As a restart does, or an administrator; waits until there are some, and until those are gone."""
    with psycopg.connect(url, autocommit=True) as owner:
        ended: list[int] = []
        async with asyncio.timeout(PATIENCE):
            while not ended or owner.execute(f"SELECT 1 {OTHERS} AND pid = ANY(%s)", [ended]).fetchone():
                if not ended:
                    rows = owner.execute(f"SELECT pid, pg_terminate_backend(pid) {which}")
                    ended = [pid for pid, _ in rows]
                await asyncio.sleep(0.01)


async def opened(url: str, **settings: float) -> Store:
    store = create_store(url, StorageSettings(**settings))
    await store.open()
    return store


async def test_r15_01_connections_that_were_ended_while_idle_cost_no_call(postgres_url: str) -> None:
    store = await opened(postgres_url)
    for kind in ("append", "read"):
        await asyncio.gather(*(store.append(Scope("a", f"u{n}", "t"), [said(kind)]) for n in range(20)))
        await end_connections(postgres_url, OTHERS)
        for number in range(20):
            scope = Scope("a", f"u{number}", "t")
            if kind == "append":
                await store.append(scope, [said("again")])
            assert "append" in ids(await store.history(scope, limit=5))
    await store.close()


@pytest.mark.parametrize("name", ["history", "changes", "spaces", "stats"])
async def test_r15_02_a_read_that_loses_its_connection_is_repeated(postgres_url: str, name: str) -> None:
    store = await opened(postgres_url)
    await store.append(ANN, [said("one")])
    calls = {
        "history": lambda: store.history(ANN, limit=5),
        "changes": lambda: store.changes(ANN, 1, 0),
        "spaces": store.spaces,
        "stats": store.stats,
    }
    table = "LOCK TABLE casenotes.spaces" if name == "spaces" else HOLD_TABLE
    with held(postgres_url, table):
        reading = asyncio.create_task(calls[name]())
        await end_connections(postgres_url, WAITING)
    assert await reading == await calls[name]()
    await store.close()


@pytest.mark.parametrize("statement", [HOLD_ROW, HOLD_TABLE])
async def test_r15_02_a_write_that_loses_its_connection_before_commit_is_repeated(
    postgres_url: str, statement: str
) -> None:
    store = await opened(postgres_url)
    await store.append(ANN, [said("one")])
    with held(postgres_url, statement):
        writing = asyncio.create_task(store.append(ANN, [said("two")]))
        await end_connections(postgres_url, WAITING)
    assert (await writing).new_ids == {"two"}
    assert ids(await store.history(ANN, limit=5)) == ["one", "two"]
    await store.close()


async def test_r15_03_a_connection_lost_at_commit_is_told(postgres_url: str) -> None:
    store = await opened(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE SEQUENCE tries")
        owner.execute(VANISH)
        owner.execute(
            "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON casenotes.messages"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vanish()"
        )
        with pytest.raises(StoreUnavailable):
            await store.append(ANN, [said("one")])
        assert owner.execute("SELECT last_value, is_called FROM tries").fetchone() == (1, True)
        owner.execute("DROP TRIGGER at_commit ON casenotes.messages")
    await store.append(ANN, [said("one")])
    await store.append(ANN, [said("one")])
    assert ids(await store.history(ANN, limit=5)) == ["one"]
    await store.close()


async def test_r15_04_a_lock_is_waited_for_no_longer_than_the_setting(postgres_url: str) -> None:
    config = Settings(storage=StorageSettings(lock_timeout_seconds=0.3))
    async with Memory.open(postgres_url, model="", embedder=HashEmbedder(16), config=config) as memory:
        await memory.append(ANN, "one")
        with held(postgres_url, HOLD_ROW):
            with pytest.raises(StoreUnavailable, match=r"0.3 s \(setting lock_timeout_seconds\)") as caught:
                await memory.begin(ANN, "two")
            told = str(caught.value)
            assert "pg_terminate_backend" in told
            assert "ann" not in told.replace("another", "")
            assert "support" not in told
        with held(postgres_url, HOLD_TABLE), pytest.raises(StoreUnavailable, match="lock_timeout_seconds"):
            await memory.history(ANN)
        with (
            held(postgres_url, "LOCK TABLE casenotes.spaces IN SHARE MODE"),
            pytest.raises(StoreUnavailable, match="lock_timeout_seconds"),
        ):
            await memory._store.add_space("other", 4, True)
        assert (await memory.begin(ANN, "two")).message_ids


async def test_r15_04_an_upgrade_waits_for_a_lock_no_longer_than_the_setting(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("DELETE FROM casenotes.migrations WHERE number > 5")
    with (
        held(postgres_url, "SELECT count(*) FROM casenotes.messages"),
        pytest.raises(StoreUnavailable, match=r"0.3 s \(setting lock_timeout_seconds\).*pg_stat_activity"),
    ):
        async with asyncio.timeout(PATIENCE):
            await opened(postgres_url, lock_timeout_seconds=0.3)


async def test_r15_05_writers_of_a_locked_user_hold_up_nobody_else(postgres_url: str) -> None:
    store = await opened(postgres_url)
    await store.append(ANN, [said("first")])
    with held(postgres_url, HOLD_ROW):
        waiting = [asyncio.create_task(store.append(ANN, [said(f"m{number}")])) for number in range(40)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(PATIENCE / 4):
            await asyncio.gather(*(store.append(BOB, [said(f"m{number}")]) for number in range(10)))
            assert len(await store.history(BOB, limit=20)) == 10
            assert ids(await store.history(ANN, limit=20)) == ["first"]
        assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting)
    assert len(await store.history(ANN, limit=50)) == 41
    await store.close()


async def test_r15_05_writers_that_have_to_queue_wait_no_longer_than_for_a_connection(
    postgres_url: str,
) -> None:
    store = await opened(postgres_url, busy_timeout_seconds=0.3, max_queued_writes=3)
    await store.append(ANN, [said("first")])
    with held(postgres_url, HOLD_ROW):
        waiting = [asyncio.create_task(store.append(ANN, [said(f"m{number}")])) for number in range(10)]
        done, pending = await asyncio.wait(waiting, timeout=1)
        errors = [task.exception() for task in done]
        assert len(pending) == 2, "a quarter of the pool"
        assert [type(error) for error in errors].count(Overloaded) == 5
        assert sum("busy_timeout_seconds" in str(error) for error in errors) == 3
    await asyncio.gather(*pending)
    await store.close()


async def test_r15_06_a_memory_works_behind_a_pooler_and_leaves_nothing_in_its_sessions(
    pgbouncer_url: str, emptied_postgres_url: str
) -> None:
    async with Memory.open(pgbouncer_url, model="", embedder=HashEmbedder(16)) as memory:

        async def talk(number: int) -> None:
            scope = Scope("support", f"user-{number}", "thread")
            for round_number in range(6):  # the driver would prepare a statement that it meets the fifth time
                turn = await memory.begin(scope, f"The fan of rack {round_number} is loud.")
                await memory.complete(turn, "I see.")
            assert (await memory.recall(scope, "rack"))[0].created_at.utcoffset() == UTC.utcoffset(None)
            times = [message.created_at for message in await memory.history(scope)]
            assert {time.tzinfo for time in times} == {UTC}
            assert abs((datetime.now(UTC) - times[-1]).total_seconds()) < 60

        await asyncio.gather(*map(talk, range(5)))
        await memory.erase(Scope("support", "user-0"))
        assert (await memory.stats()).messages == 4 * 12
    with psycopg.connect(emptied_postgres_url) as owner:
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        count = owner.execute(sessions).fetchone()[0] - 1
    assert count == 4, "those of the pooler"
    clients = [psycopg.connect(pgbouncer_url, prepare_threshold=None) for _ in range(count)]
    for client in clients:
        left = client.execute(LEFT_IN_SESSION).fetchone()
        assert left == ("Asia/Kolkata", "0", "0", "", 0, 0, 0)
    for client in clients:
        client.close()


async def test_r15_06_several_processes_may_migrate_at_once_behind_a_pooler(
    pgbouncer: str, empty_postgres_url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(empty_postgres_url)["dbname"]
    url = pgbouncer.replace("/postgres?", f"/{name}?")
    stores = [create_store(url) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].append(ANN, [said("a")])
    assert ids(await stores[3].history(ANN, limit=5)) == ["a"]
    await asyncio.gather(*(store.close() for store in stores))

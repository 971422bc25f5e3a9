"""A store of the first schema is brought up to date with all it holds, also after a crash in between."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import psycopg
from conversation import LATER, MIRA, SAID, SKEW, entry, opened, proposes, settings, turn
from storage import run

from casenotes.config import JobSettings
from casenotes.stores.rows import migrations
from casenotes.stores.sqlite.connect import APPLICATION_ID


def first_schema(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    _number, _name, script = next(iter(migrations("casenotes.stores.sqlite")))
    connection.executescript(script)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.executescript(
        """
        INSERT INTO scopes VALUES ('support', 'mira', 1, 0);
        INSERT INTO threads VALUES ('support', 'mira', 'monday', NULL, NULL, 1, 1, 1000000, 1000000);
        INSERT INTO messages VALUES ('support', 'mira', 'm1', 'monday', 1, 'user',
                                     'the webhook failed with 401', NULL, NULL, 1000000, 1);
        INSERT INTO turns VALUES ('support', 'mira', 'monday', 't1', 'success', 1000000, 1000000);
        """
    )
    connection.commit()
    return connection


async def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    first_schema(path).close()
    async with opened(f"sqlite:///{path}", proposes(entry(SKEW, SAID))) as memory:
        assert [message.id for message in await memory.history(MIRA)] == ["m1"]
        assert (await memory.stats()).queued_turns == 0, "old turns are not learned from unasked"
        assert (await memory._store.observations.state(MIRA)).total_tokens == 10, "a quarter of the characters"
        receipt = await turn(memory, LATER, SAID)
        assert receipt.candidates[0].status == "stored"
        assert all(finding.status != "failed" for finding in await memory.check())


async def test_a_migration_that_was_cut_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """The half of the script that ran is undone, and the next opening does all of it."""
    path = tmp_path / "old.db"
    connection = first_schema(path)
    connection.isolation_level = None
    script = list(migrations("casenotes.stores.sqlite"))[1][2]
    connection.execute("BEGIN IMMEDIATE")
    for statement in script.split(";")[:5]:
        connection.execute(statement)
    connection.close()
    async with opened(f"sqlite:///{path}") as memory:
        assert [message.id for message in await memory.history(MIRA)] == ["m1"]


async def test_postgres(postgres_url: str) -> None:
    async with opened(postgres_url) as memory:
        await turn(memory, MIRA, "the webhook failed with 401")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in (
            "entries",
            "evidence",
            "receipts",
            "shown",
            "leases",
            "model_usage",
            "revisions",
            "erasures",
            "unproven_erasures",
            "layer_states",
            "episodes",
            "events",
            "observing",
            "observation_batches",
            "observations",
        ):
            connection.execute(f"DROP TABLE casenotes.{table}")
        for column in ("first_seq", "learning", "attempts", "due_at", "error", "pending"):
            connection.execute(f"ALTER TABLE casenotes.turns DROP COLUMN {column}")
        for column in ("turn_id", "hidden", "tokens"):
            connection.execute(f"ALTER TABLE casenotes.messages DROP COLUMN {column}")
        for column in ("run_seq", "parent_id", "apart", "tokens", "observe_at", "to_observe", "flush_at"):
            connection.execute(f"ALTER TABLE casenotes.threads DROP COLUMN {column}")
        connection.execute("ALTER TABLE casenotes.spaces DROP COLUMN speakers")
        connection.execute("ALTER TABLE casenotes.spaces ADD UNIQUE (model, dimensions, normalised)")
        connection.execute("DELETE FROM casenotes.migrations WHERE number > 1")
    async with opened(postgres_url, proposes(entry(SKEW, SAID))) as memory:
        assert len(await memory.history(MIRA)) == 2
        assert (await memory._store.observations.state(MIRA)).total_tokens == 15, "a quarter of the characters"
        assert (await turn(memory, LATER, SAID)).candidates[0].status == "stored"


async def test_turns_that_an_older_release_closes_beside_are_learned_from(store_url: str) -> None:
    """While processes are replaced one by one, those of the last release name no layers."""
    async with opened(store_url, config=replace(settings(), jobs=JobSettings(in_process=False))) as memory:
        under_way = await memory.begin(MIRA, SAID)
        await memory.complete(under_way, "I see.")
    run(store_url, "UPDATE turns SET learning = 'queued', pending = NULL")
    async with opened(store_url, proposes(entry(SKEW, SAID))) as memory:
        await memory.work(once=True)
        assert ((await memory.stats()).queued_turns, (await memory.stats()).entries) == (0, 1)


async def test_r07_51_only_a_store_that_holds_names_has_to_be_embedded_anew(tmp_path: Path) -> None:
    for name, metadata in (("plain", None), ("named", '{"role": "Ana"}')):
        path = tmp_path / f"{name}.db"
        connection = first_schema(path)
        connection.execute("UPDATE messages SET metadata = ?", (metadata,))
        connection.execute("INSERT INTO spaces VALUES (7, 'hash-256', 256, 1, 1)")
        connection.execute(
            "INSERT INTO vectors VALUES ('support', 'mira', 7, 'message', 'm1', zeroblob(1024), 1)"
        )
        connection.commit()
        connection.close()
        async with opened(f"sqlite:///{path}") as memory:
            (space,) = await memory._store.spaces()
            assert (space.id, space.active, space.speakers) == (7, True, metadata is None)
            assert (await memory.stats()).vectors == 1
            assert all(finding.status != "failed" for finding in await memory.check())

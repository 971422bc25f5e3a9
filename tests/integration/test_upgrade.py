"""A store of the first schema is brought up to date with all it holds, also after a crash in between."""

from __future__ import annotations

import sqlite3
import struct
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conversation import JONAS, LATER, MIRA, SAID, SKEW, entry, opened, proposes, settings, turn
from storage import run

from casenotes.config import JobSettings
from casenotes.stores.rows import migrations
from casenotes.stores.sqlite.connect import APPLICATION_ID
from casenotes.testing import HashEmbedder


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


LOUD = "The fan of rack six was replaced because its bearing was loud."
QUIET = "The door of lab two is green."
VECTORS = (0.5, -0.5, 0.5, -0.5), (0.0, 0.6, 0.0, 0.8)
FIFTH = f"""
    INSERT INTO scopes (agent_id, resource_id, change) VALUES ('support', 'mira', 3), ('support', 'jonas', 1);
    INSERT INTO threads (agent_id, resource_id, thread_id, last_seq, created_at, updated_at) VALUES
        ('support', 'mira', 'monday', 2, AT, AT), ('support', 'mira', 'tuesday', 1, AT, AT),
        ('support', 'jonas', 'monday', 1, AT, AT);
    INSERT INTO messages (agent_id, resource_id, message_id, thread_id, seq, role, text, created_at, change)
    VALUES
        ('support', 'mira', 'm1', 'monday', 1, 'user', '{LOUD}', AT, 1),
        ('support', 'mira', 'm2', 'monday', 2, 'user', '{QUIET}', AT, 2),
        ('support', 'mira', 'm3', 'tuesday', 1, 'user', 'Was the fan loud?', AT, 3),
        ('support', 'jonas', 'm1', 'monday', 1, 'user', 'The same id, of somebody else.', AT, 1);
    INSERT INTO entries (agent_id, resource_id, entry_id, content, content_hash, source, status, verified,
                         thread_id, created_at, last_seen_at, change)
    VALUES ('support', 'mira', 'e1', 'The fan was loud.', 'h', 'user_assertion', 'active', FALSE,
            'monday', AT, AT, 2);
    INSERT INTO turns (agent_id, resource_id, thread_id, turn_id, status, opened_at, closed_at, first_seq)
    VALUES
        ('support', 'mira', 'tuesday', 'one', 'success', AT, AT, 1),
        ('support', 'mira', 'tuesday', 'two', 'success', AT, AT, 1);
    INSERT INTO shown (agent_id, resource_id, thread_id, turn_id, kind, item_id) VALUES
        ('support', 'mira', 'tuesday', 'one', 'message', 'm1'),
        ('support', 'mira', 'tuesday', 'one', 'message', 'm2'),
        ('support', 'mira', 'tuesday', 'one', 'message', 'gone'),
        ('support', 'mira', 'tuesday', 'one', 'entry', 'e1');
    INSERT INTO events (agent_id, resource_id, thread_id, position, name, data, created_at) GIVEN VALUES
        ('support', 'mira', 'tuesday', 1, 'turn.started', '{{}}', AT),
        ('support', 'mira', 'tuesday', 2, 'turn.finished', '{{}}', AT);
    INSERT INTO spaces (space_id, model, dimensions, normalised, active) GIVEN
    VALUES (7, 'hash-4', 4, TRUE, TRUE);
    INSERT INTO vectors (agent_id, resource_id, space_id, kind, item_id, change, vector) VALUES
        ('support', 'mira', 7, 'message', 'm1', 2, FIRST),
        ('support', 'mira', 7, 'message', 'm2', 2, SECOND),
        ('support', 'mira', 7, 'entry', 'e1', 3, FIRST), ('support', 'jonas', 7, 'message', 'm1', 1, SECOND);
"""
"""What the last release with a row for each item shown had stored, in the words that both databases have."""


@pytest.fixture(params=["sqlite", "postgres"])
def fifth_schema(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """A store of schema 5."""
    scripts = [script for number, _, script in migrations(f"casenotes.stores.{request.param}") if number <= 5]
    if request.param == "sqlite":
        connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
        first, second = (f"x'{struct.pack('<4f', *numbers).hex()}'" for numbers in VECTORS)
        rows = FIFTH.replace("FIRST", first).replace("SECOND", second)
        for script in (*scripts, rows.replace("AT", "1000000").replace("GIVEN", "")):
            connection.executescript(script)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 5")
        connection.close()
        return sqlite_url
    url: str = request.getfixturevalue("empty_postgres_url")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE EXTENSION vector")
        server.execute("CREATE SCHEMA casenotes")
        server.execute("CREATE TABLE casenotes.migrations (number integer, name text, applied_at timestamptz)")
        server.execute("INSERT INTO casenotes.migrations (number) SELECT generate_series(1, 5)")
        server.execute("SET search_path = casenotes, public")
        first, second = (f"'{list(numbers)}'" for numbers in VECTORS)
        rows = FIFTH.replace("FIRST", first).replace("SECOND", second)
        for script in (*scripts, rows.replace("AT", "now()").replace("GIVEN", "OVERRIDING SYSTEM VALUE")):
            server.execute(script.encode())
    return url


async def test_r16_01_an_upgrade_keeps_what_was_said_and_what_was_shown(fifth_schema: str) -> None:
    async with opened(fifth_schema, embedder=HashEmbedder(4)) as memory:
        items = await memory.turn_context(LATER, "one")
        assert {(item.kind, item.id, item.left_out) for item in items} == {
            ("message", "m1", ""),
            ("message", "m2", ""),
            ("entry", "e1", ""),
        }
        assert await memory.turn_context(LATER, "two") == []
        assert {item.id for item in await memory._store.entries.shown(LATER)} == {"m1", "m2", "e1"}
        told = await memory.event_history(LATER)
        assert [event.name for event in told[:2]] == ["turn.started", "turn.finished"]
        assert [message.text for message in await memory.history(MIRA)] == [LOUD, QUIET]
        assert [message.text for message in await memory.history(JONAS)] == ["The same id, of somebody else."]
        vectors = (await memory._store.changes(MIRA, 7, 0)).vectors
        assert {(row.kind, row.id): row.vector for row in vectors} == {
            ("message", "m1"): struct.pack("<4e", *VECTORS[0]),
            ("message", "m2"): struct.pack("<4e", *VECTORS[1]),
            ("entry", "e1"): struct.pack("<4e", *VECTORS[0]),
        }
        assert len((await memory._store.changes(MIRA, 7, 2)).vectors) == 1
        assert all(finding.status != "failed" for finding in await memory.check())
        await memory.erase(MIRA, scrub=False)
        assert await memory.turn_context(LATER, "one") == []


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
        for column in ("first_seq", "learning", "attempts", "due_at", "error", "pending", "shown"):
            connection.execute(f"ALTER TABLE casenotes.turns DROP COLUMN {column}")
        for column in ("turn_id", "hidden", "tokens", "number"):
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

"""SQLite finds messages by its indexes, whatever a statement knows of them: an id, a thread, or a scope."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from casenotes.stores.rows import named_queries
from casenotes.stores.sqlite.migrate import PACKAGE, migrate

QUERIES = {
    name: sql
    for name, sql in named_queries(PACKAGE).items()
    if re.search(r"\b(messages|vectors|events)\b", sql)
}
WHOLE_STORE = {
    "is_live",
    "stats",
    "scopes",
    "broken_vectors",
    "broken_entries",
    "drop_vectors_of_space",
    "stored_vectors",
}
BY_ID = (
    "messages_by_id message_references hidden_messages passages put_message_vector drop_item_vectors "
    "claim_message hide_message revise_message evidence_of end_run"
).split()


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, Path("memory"))
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    sql = QUERIES[name]
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - WHOLE_STORE - {"insert_message"}))
def test_no_statement_reads_a_whole_table_or_builds_one(empty: sqlite3.Connection, name: str) -> None:
    slow = re.compile(
        r"SCAN (s|t|m|v|e|h|n|message_rows|vectors|events|threads)\b(?! VIRTUAL)|MATERIALIZE|AUTOMATIC"
    )
    assert [step for step in plan(empty, name) if slow.match(step)] == []


@pytest.mark.parametrize("name", BY_ID)
def test_messages_are_looked_up_by_their_ids(empty: sqlite3.Connection, name: str) -> None:
    assert any("(message_id=? AND scope=?)" in step for step in plan(empty, name))

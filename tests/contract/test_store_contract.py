"""Both stores keep the one contract, and PostgreSQL also behind a pooler."""

from __future__ import annotations

import pytest

from casenotes.testing import StoreContract


@pytest.fixture(params=["sqlite", "emptied_postgres", "pgbouncer"], ids=["sqlite", "postgres", "pgbouncer"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind in turn; the last is PostgreSQL through PgBouncer in transaction mode."""
    return request.getfixturevalue(f"{request.param}_url")


class TestStores(StoreContract):
    """Runs every test of the contract on SQLite, PostgreSQL and PgBouncer (fixture `store`)."""

"""Both stores keep the one contract."""

from casenotes.testing import StoreContract


class TestStores(StoreContract):
    """Runs every test of the contract on SQLite and on PostgreSQL (fixture `store`)."""

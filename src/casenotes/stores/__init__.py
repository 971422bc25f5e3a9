"""Where it lies: the store contract and its two backends."""

from __future__ import annotations

from casenotes.config import StorageSettings
from casenotes.config.settings import without_password
from casenotes.errors import MissingExtra, SettingsError
from casenotes.stores.base import Store


def create_store(url: str, settings: StorageSettings | None = None) -> Store:
    """The store for a database URL, not yet opened."""
    settings = settings or StorageSettings()
    if url.startswith("sqlite:"):
        from casenotes.stores.sqlite.store import SqliteStore

        return SqliteStore(url, settings)
    if url.startswith(("postgresql:", "postgres:")):
        try:
            from casenotes.stores.postgres.store import PostgresStore
        except ImportError as error:
            raise MissingExtra(
                f"PostgreSQL needs an extra ({error}); install it with: pip install 'casenotes[postgres]'"
            ) from None
        return PostgresStore(url, settings)
    raise SettingsError(
        f"database URL {without_password(url)!r} is not understood; "
        "use sqlite:///path/to/file.db or postgresql://host/database"
    )

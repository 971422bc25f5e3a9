"""Statements that tests run on a store of either kind behind its back."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg


def run(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """One statement, with `?` for values and table names without schema."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(Path(url.removeprefix("sqlite:///")))
        try:
            rows = connection.execute(statement, values).fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=casenotes,public") as connection:
        cursor = connection.execute(statement.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []

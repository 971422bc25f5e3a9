"""The forms that times and vectors have on the wire."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import numpy as np
from pgvector import Vector

from casenotes.stores.base import VectorRow

Row = tuple[Any, ...]
ROWS_AT_ONCE = 500


async def read_rows(cursor: Any) -> list[Row]:
    """All rows of a result; the loop goes on between parts of a large one, as rows become values here."""
    rows: list[Row] = await cursor.fetchmany(ROWS_AT_ONCE)
    while len(rows) % ROWS_AT_ONCE == 0 and (more := await cursor.fetchmany(ROWS_AT_ONCE)):
        rows += more
        await asyncio.sleep(0)
    return rows


def same_time(time: datetime) -> datetime:
    """Times travel as they are."""
    return time


def wire_vector(vector: bytes) -> Vector:
    """A vector to be sent; the server makes a `halfvec` of it where it knows that type."""
    return Vector(np.frombuffer(vector, dtype="<f2").astype(np.float32))


def vector_row(row: Row) -> VectorRow:
    """A vector that was read."""
    kind, item_id, vector = row
    return VectorRow(kind, item_id, vector.to_numpy().astype("<f2", copy=False).tobytes())

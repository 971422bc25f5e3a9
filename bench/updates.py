"""How often the newer of two statements about the same thing is found above the older one.

    CASENOTES_EVAL_DATA=... python bench/updates.py [--cache FILE] [--embedders NAME ...] [--json]

The pairs come from the evaluation sets: where questions name the old and the new statement (`order`),
from there; else from the questions about updates, whose relevant messages are told apart by their time.
A statement made in several messages counts with the best of them. The share is over pairs of which one at
least is among the first 100 hits, with the newer first or alone, and its standard error; a star where it is
further from one half than two standard errors of as many throws of a coin. Of two events both are wanted,
in any order: they show what a rule does where nothing is updated.
Vectors are kept in the cache: the first run embeds everything, the next ones nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from casenotes import Memory, Scope
from casenotes.clock import FrozenClock
from casenotes.config import SearchSettings, Settings
from casenotes.evals.metrics import paired_difference
from casenotes.evals.retrieval import Query, evaluate_retrieval, read_queries
from casenotes.stores.revisions import ItemChange, NewRevision

EMBEDDERS = ("minilm+static", "static")
STATEMENTS = {
    "update": ("original_info", "updated_info"),
    "contradiction": ("first_statement", "second_statement"),
    "two events": ("first_event", "second_event"),
}
"""What `order` calls the older and the newer statement."""

UPDATE_CATEGORY = "knowledge-update"
STATEMENT_CHARACTERS = 300
"""So much of a message becomes an entry."""

COIN = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """The messages with the older and with the newer statement, and the question about them."""

    query: Query
    kind: str
    older: frozenset[str]
    newer: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where the two statements of a pair were found, counted from 1; None: not at all."""

    older: int | None
    newer: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; the share is over the pairs of which one at least was found."""

    level: str
    embedder: str
    set: str
    kind: str
    pairs: int
    both_found: int
    newer_first: float
    standard_error: float
    is_clear: bool
    only_newer: int
    only_older: int
    neither: int


@dataclass(frozen=True, slots=True)
class Run:
    """What a level is measured with."""

    corpus: Path
    embedder: str
    settings: Settings
    cache: Path


Level = Callable[[Run, Sequence[Pair]], Awaitable[list[Ranks]]]


async def among_messages(run: Run, pairs: Sequence[Pair]) -> list[Ranks]:
    """The statements as they were said, among all messages of their scope."""
    evaluation = await evaluate_retrieval(
        run.corpus,
        [pair.query for pair in pairs],
        embedder=run.embedder,
        settings=run.settings,
        cache=run.cache,
    )
    return [
        Ranks(best_rank(judged.ranked, pair.older), best_rank(judged.ranked, pair.newer))
        for judged, pair in zip(evaluation.message, pairs, strict=True)
    ]


async def among_entries(run: Run, pairs: Sequence[Pair], *, corrected: bool) -> list[Ranks]:
    """The statements as entries, among those of all pairs; the older one is active, or superseded."""
    rows = {row["id"]: row for row in read_rows(run.corpus)}
    clock = FrozenClock(datetime.now(UTC))
    url = "sqlite:///:memory:"
    async with Memory.open(url, model="", embedder=run.embedder, config=run.settings, clock=clock) as memory:
        stored = [await _as_entries(memory, clock, pair, rows, corrected) for pair in pairs]
        clock.set(datetime.now(UTC))
        return [await _entry_ranks(memory, pair, *ids) for pair, ids in zip(pairs, stored, strict=True)]


async def _as_entries(
    memory: Memory, clock: FrozenClock, pair: Pair, rows: Mapping[str, dict[str, Any]], corrected: bool
) -> tuple[str, str]:
    scope = Scope("bench", pair.query.scope, pair.query.id)
    old, new = [await _remembered(memory, clock, scope, rows[min(ids)]) for ids in (pair.older, pair.newer)]
    if corrected and old != new:
        change = ItemChange(old, "superseded", after="superseded", valid_until=clock.now(), successor=new)
        revision = NewRevision(f"{pair.query.id}:{old}", "reflector", clock.now(), [change])
        await memory._store.revisions.revise(scope, revision)
    return old, new


async def _remembered(memory: Memory, clock: FrozenClock, scope: Scope, row: Mapping[str, Any]) -> str:
    clock.set(moment(row.get("time")) or clock.now())
    entry = await memory.remember(scope, row["text"][:STATEMENT_CHARACTERS])
    if entry.status == "quarantined":
        await memory.release(scope, entry.id)
    return entry.id


async def _entry_ranks(memory: Memory, pair: Pair, older: str, newer: str) -> Ranks:
    hits = await memory.recall(Scope("bench", pair.query.scope), pair.query.text, 200)
    ranked = [hit.id for hit in hits if hit.kind == "entry"]
    return Ranks(best_rank(ranked, frozenset([older])), best_rank(ranked, frozenset([newer])))


LEVELS: Mapping[str, Level] = {
    "message": among_messages,
    "entry, both active": partial(among_entries, corrected=False),
    "entry, superseded": partial(among_entries, corrected=True),
}
"""How statements are stored and found; every level gives the ranks of each pair, in their order."""


def best_rank(ranked: Sequence[str], wanted: frozenset[str]) -> int | None:
    return next((rank for rank, item in enumerate(ranked, 1) if item in wanted), None)


def read_pairs(folder: Path) -> list[Pair]:
    """The pairs of a set; none if its questions ask for no update."""
    queries = {query.id: query for query in read_queries(folder / "queries.jsonl")}
    rows = list(read_rows(folder / "queries.jsonl"))
    if any(row.get("order") for row in rows):
        found = [named_pair(queries[str(row["id"])], row["order"]) for row in rows if row.get("order")]
    else:
        times = {row["id"]: moment(row.get("time")) for row in read_rows(folder / "corpus.jsonl")}
        found = [timed_pair(query, times) for query in queries.values() if query.category == UPDATE_CATEGORY]
    return [pair for pair in found if pair and pair.older and pair.newer and not pair.older & pair.newer]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, filter(str.strip, path.read_text("utf-8").split("\n")))


def named_pair(query: Query, order: Mapping[str, Sequence[int]]) -> Pair | None:
    """The statements as the set names them: by the number of the message in its scope."""
    for kind, names in STATEMENTS.items():
        if all(name in order for name in names):
            older, newer = (frozenset(f"{query.scope}:{number}" for number in order[name]) for name in names)
            return Pair(query, kind, older, newer)
    return None


def timed_pair(query: Query, times: Mapping[str, datetime | None]) -> Pair | None:
    """The relevant messages of the latest time, and those before."""
    known = {item: time for item in query.relevant if (time := times[item])}
    if not known:
        return None
    newer = frozenset(item for item, time in known.items() if time == max(known.values()))
    return Pair(query, "update", frozenset(known) - newer, newer)


def moment(text: str | None) -> datetime | None:
    time = datetime.fromisoformat(text) if text else None
    return time.replace(tzinfo=UTC) if time and not time.tzinfo else time


def is_newer_first(found: Ranks) -> bool:
    """Whether the newer statement stands before the older one, or alone."""
    return found.newer is not None and (found.older is None or found.newer < found.older)


def summed_up(level: str, run: Run, kind: str, ranks: Sequence[Ranks]) -> Row:
    """The share of pairs with the newer statement first, against a coin."""
    seen = [found for found in ranks if found.newer or found.older]
    against = paired_difference([COIN] * len(seen), [float(is_newer_first(found)) for found in seen])
    return Row(
        level=level,
        embedder=run.embedder,
        set=run.corpus.parent.name,
        kind=kind,
        pairs=len(ranks),
        both_found=sum(found.newer is not None and found.older is not None for found in ranks),
        newer_first=against.second,
        standard_error=against.standard_error,
        is_clear=abs(against.difference) > 2 * COIN / math.sqrt(len(seen)),
        only_newer=sum(found.older is None and found.newer is not None for found in ranks),
        only_older=sum(found.newer is None and found.older is not None for found in ranks),
        neither=sum(found.newer is None and found.older is None for found in ranks),
    )


async def measure(run: Run, pairs: Sequence[Pair]) -> list[Row]:
    """Every level and kind of pair of one set with one embedder."""
    rows = []
    for level, find in LEVELS.items():
        ranks = await find(run, pairs)
        for kind in STATEMENTS:
            of_kind = [found for pair, found in zip(pairs, ranks, strict=True) if pair.kind == kind]
            if any(found.newer or found.older for found in of_kind):
                rows.append(summed_up(level, run, kind, of_kind))
    return rows


def shown(row: Row) -> str:
    return (
        f"{row.level:18} {row.embedder:14} {row.set:20} {row.kind:14} {row.pairs:5} {row.both_found:5}   "
        f"{row.newer_first:.3f} ({row.standard_error:.3f}){'*' if row.is_clear else ' '} "
        f"{row.only_newer:11} {row.only_older:11} {row.neither:8}"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("quality-vectors.db"))
    parser.add_argument("--embedders", nargs="+", default=EMBEDDERS)
    parser.add_argument("--recency-weight", type=float, default=SearchSettings().recency_weight)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    settings = Settings(search=SearchSettings(recency_weight=arguments.recency_weight))
    folders = sorted(path.parent for path in Path(os.environ["CASENOTES_EVAL_DATA"]).glob("*/queries.jsonl"))
    rows = []
    for folder in folders:
        if pairs := read_pairs(folder):
            for embedder in arguments.embedders:
                run = Run(folder / "corpus.jsonl", embedder, settings, arguments.cache)
                rows += await measure(run, pairs)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(
        f"{'level':18} {'embedder':14} {'set':20} {'pairs of':14} {'pairs':>5} {'both':>5}   newer first    "
        f"{'newer only':>11} {'older only':>11} {'neither':>8}"
    )
    for row in rows:
        print(shown(row))


if __name__ == "__main__":
    asyncio.run(main())

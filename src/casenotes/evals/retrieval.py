"""Evaluate retrieval: import a corpus into a throw-away store, ask every query, score the answers.

The query's time is the clock, so recency counts as it would have then; later messages are not
hidden. Queries without relevant ids measure abstention instead.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from casenotes.clock import FrozenClock
from casenotes.config import DEFAULT_AGENT, Settings
from casenotes.errors import BadVector, EmbeddingError, UsageError
from casenotes.evals.cache import CachedEmbedder
from casenotes.evals.metrics import Judged, query_metrics, report
from casenotes.events import Event
from casenotes.memory import Memory
from casenotes.models.embed import Embedder
from casenotes.models.registry import resolve_embedder
from casenotes.recall.space import prepared
from casenotes.transfer.importing import ImportSummary, import_file
from casenotes.transfer.lines import ReadOptions
from casenotes.types import Hit, Scope

DEPTH = 100
"""How many hits are asked for: enough to find twenty threads among them."""

PATIENCE_SECONDS = 60.0
"""What counts in an evaluation is what is found, not how fast."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Query:
    """One question and the messages that answer it."""

    id: str
    scope: str
    text: str
    time: datetime | None
    relevant: frozenset[str]
    category: str


@dataclass(slots=True)
class Evaluation:
    """Everything measured; `to_json` is what `--json` prints."""

    corpus: ImportSummary
    message: list[Judged] = field(default_factory=list)
    thread: list[Judged] = field(default_factory=list)
    unanswerable: int = 0
    abstained: int = 0
    recall_seconds: list[float] = field(default_factory=list)
    import_seconds: float = 0.0
    embedder: str = ""
    texts_embedded: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "message": report(self.message),
            "thread": report(self.thread),
            "abstention": {"queries": self.unanswerable, "no_hits": self.abstained},
            "timings": {
                "import_seconds": self.import_seconds,
                "recall_ms_median": 1000 * statistics.median(self.recall_seconds or [0.0]),
                "recall_ms_p95": 1000 * _percentile(self.recall_seconds, 0.95),
            },
            "corpus": {"messages": self.corpus.added, "refused": len(self.corpus.refused)},
            "embedder": {"label": self.embedder, "texts_embedded": self.texts_embedded},
            "queries": [
                {
                    "id": message.query_id,
                    "category": message.category,
                    "message": query_metrics(message.ranked, message.relevant),
                    "thread": query_metrics(thread.ranked, thread.relevant),
                }
                for message, thread in zip(self.message, self.thread, strict=True)
            ],
        }


class EmbeddingFailures:
    """Recall goes on by words when an embedder fails; an evaluation that did so would mislead."""

    def __init__(self) -> None:
        self._errors: list[str] = []

    def note(self, event: Event) -> None:
        """Keep what went wrong; single messages that no embedder could use do not count."""
        if event.name != "embedding.failed":
            return
        one_message = len(event.data.get("message_ids", ())) == 1
        if not (one_message and event.data["error"].startswith(BadVector.__name__)):
            self._errors.append(event.data["error"])

    def check(self) -> None:
        """Raise if something has failed so far."""
        if self._errors:
            raise EmbeddingError(f"the embedder failed during the evaluation: {self._errors[0]}")


def patient(settings: Settings) -> Settings:
    """The settings with time to spare: on a busy machine a search would go on by words alone."""
    search = replace(settings.search, deadline_seconds=max(PATIENCE_SECONDS, settings.search.deadline_seconds))
    deadline = max(PATIENCE_SECONDS, settings.recall_deadline_seconds)
    return replace(settings, search=search, recall_deadline_seconds=deadline)


def read_queries(path: Path) -> list[Query]:
    """The queries of a JSONL file; a wrong line is an error, as it would change the result."""
    queries = list(_queries(path))
    repeated = [name for name, count in Counter(query.id for query in queries).items() if count > 1]
    if repeated:
        raise UsageError(f"{path}: the query id {repeated[0]!r} stands there more than once")
    return queries


def _queries(path: Path) -> Iterator[Query]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            yield Query(
                id=str(item["id"]),
                scope=item["scope"],
                text=item["query"],
                time=_query_time(item.get("time")),
                relevant=_message_ids(item.get("relevant")),
                category=str(item.get("category") or "all"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} line {number} is no query: {error!r}") from None


def _message_ids(given: object) -> frozenset[str]:
    if given is None:
        return frozenset()
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise ValueError(f"'relevant' must be a list of message ids, got {given!r:.80}")
    return frozenset(given)


def _query_time(given: str | None) -> datetime | None:
    if not given:
        return None
    moment = datetime.fromisoformat(given)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def evaluate_retrieval(
    corpus: Path,
    queries: Sequence[Query],
    *,
    url: str = "sqlite:///:memory:",
    embedder: str | Embedder | None = None,
    settings: Settings | None = None,
    cache: Path | None = None,
    progress: Progress = lambda _what, _done, _total: None,
) -> Evaluation:
    """Run the whole evaluation; with a `cache`, vectors are taken from that file and kept there."""
    now = datetime.now(UTC)
    clock = FrozenClock(now)
    chosen = await prepared(resolve_embedder(embedder), None)
    caching = CachedEmbedder(chosen, cache) if cache else None
    config = patient(settings or Settings())
    async with Memory.open(url, embedder=caching or chosen, config=config, clock=clock) as memory:
        failures = EmbeddingFailures()
        memory.listen(failures.note)
        options = ReadOptions(DEFAULT_AGENT, None, corpus.stem, UTC, now)
        started = time.perf_counter()
        summary = await import_file(memory, corpus, options, lambda done: progress("import", done, 0))
        failures.check()
        result = Evaluation(summary, import_seconds=time.perf_counter() - started)
        threads = await _thread_of_message(memory)
        for number, query in enumerate(queries, 1):
            clock.set(query.time or now)
            await _ask(memory, query, threads, result)
            failures.check()
            progress("queries", number, len(queries))
    result.embedder = chosen.label
    result.texts_embedded = caching.embedded if caching else None
    return result


async def _thread_of_message(memory: Memory) -> dict[tuple[str, str], str]:
    """Scope and message id to thread id, for all messages: relevant ids name messages only."""
    found: dict[tuple[str, str], str] = {}
    for size in await memory.scopes():
        for thread in await memory.threads(size.scope):
            scope = Scope(size.agent_id, size.resource_id, thread.thread_id)
            for message in await memory.history(scope, thread.message_count):
                found[str(size.resource_id), str(message.id)] = thread.thread_id
    return found


async def _ask(memory: Memory, query: Query, threads: dict[tuple[str, str], str], result: Evaluation) -> None:
    started = time.perf_counter()
    hits = await memory.recall(Scope(DEFAULT_AGENT, query.scope), query.text, DEPTH)
    result.recall_seconds.append(time.perf_counter() - started)
    if not query.relevant:
        result.unanswerable += 1
        result.abstained += not hits
        return
    ranked = [str(hit.message_id) for hit in hits]
    wanted = frozenset(threads.get((query.scope, item), item) for item in query.relevant)
    result.message.append(Judged(query.id, query.category, ranked, query.relevant))
    result.thread.append(Judged(query.id, query.category, _ranked_threads(hits), wanted))


def _ranked_threads(hits: Sequence[Hit]) -> list[str]:
    """Threads in the order in which their best message was found."""
    return list(dict.fromkeys(str(hit.thread_id) for hit in hits))


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0

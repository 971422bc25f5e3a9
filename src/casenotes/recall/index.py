"""The search index of one scope, held in memory: vectors, inverted index, times and threads.

It is built from the store on first touch and kept fresh by change numbers, so several processes
may write. The cache forgets the least recently used scopes when they outgrow the byte budget.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from casenotes.config import SearchSettings
from casenotes.models.embed import Matrix
from casenotes.recall.lexical import Floats, LexicalIndex
from casenotes.recall.matrix import VectorTable
from casenotes.recall.query import Query
from casenotes.recall.rank import RANKERS, Ranked, Signals, Verbosity, is_anything_relevant
from casenotes.speakers import searched_text
from casenotes.stores.base import Changes, Document, Freshness, VectorRow
from casenotes.types import SPEAKERS, HitKind, Scope

ItemKey = tuple[HitKind, str]
Found = tuple[HitKind, str, Ranked]
Terms = Sequence[Sequence[str]]
"""The terms of a question's parts, those of the whole first."""


class Nearness(NamedTuple):
    """How near everything is to the nearest part of a question, and by meaning to each of them."""

    lexical: Floats
    cosine: Floats
    centred: Floats
    cosines: Sequence[Floats]


ScopeKey = tuple[str, str | None]
LARGE_SCOPE = 1_000
NEAR_WORDS, NEAR_MEANING = 0.25, 0.45
"""What an entry must share with another, by weight of words or by cosine, to be looked at with it."""

ALIKE_AT_ONCE = 256
JUDGED_HITS = 10
"""Whether anything is relevant is decided on this many of the best hits."""


class ScopeIndex:
    """Everything search needs of one scope; safe to use from several threads."""

    def __init__(
        self, space_id: int, dimensions: int, settings: SearchSettings, *, speakers: bool = True
    ) -> None:
        self.space_id = space_id
        self._speakers = speakers  # whether names of speakers are part of what is searched
        self.freshness = Freshness(0, 0)
        self._settings = settings
        self._ranker = RANKERS[settings.ranker]
        self._rows: dict[ItemKey, int] = {}
        self._ids: list[str] = []
        self._kinds: list[HitKind] = []
        self._created = array("d")
        self._threads = array("i")
        self._from_user = array("b")
        self._is_entry = array("b")
        self._is_spoken = array("b")
        self._until = array("d")  # where validity ends; infinite for what is current
        self._quarantined = array("b")
        self._set_apart: set[int] = set()  # rows that an ordinary search leaves out
        self._verbosity = Verbosity()
        self._thread_numbers: dict[str, int] = {}
        self._lexicon = LexicalIndex()
        self._vectors = VectorTable(dimensions)
        self._lock = threading.Lock()
        self._asked: tuple[Matrix | None, Terms, Nearness] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self._vectors.nbytes + self._lexicon.nbytes + 300 * len(self._ids)

    @property
    def size(self) -> IndexSize:
        """Items and memory, the vectors' part apart."""
        return IndexSize(len(self._ids), self.nbytes, self._vectors.nbytes)

    @property
    def is_busy(self) -> bool:
        """Whether another thread is using it right now."""
        return self._lock.locked()

    @property
    def missing_vectors(self) -> int:
        """How many items have no vector yet."""
        return self._vectors.missing

    def keys_without_vector(self) -> list[ItemKey]:
        """The items that still wait for a vector."""
        return [(self._kinds[row], self._ids[row]) for row in self._vectors.missing_rows()]

    def apply(self, changes: Changes) -> None:
        """Take in what came after this index's freshness; what it knows already changes nothing."""
        with self._lock:
            self._asked = None
            added = [document for document in changes.documents if self._add(document)]
            for document in changes.documents:
                self._set_state(document)
            self._lexicon.add(self._ranker.terms(self._searched(document)) for document in added)
            for document in added:
                if document.kind == "message":
                    self._verbosity.count(document.role, len(document.text))
            self._vectors.grow(len(self._ids))
            self._fill(changes.vectors)
            self.freshness = changes.freshness

    def _searched(self, document: Document) -> str:
        return searched_text(document.speaker if self._speakers else None, document.text)

    def _add(self, document: Document) -> bool:
        """Make a row for a document; False if it has one."""
        key = (document.kind, document.id)
        if key in self._rows:
            return False
        self._rows[key] = len(self._ids)
        self._ids.append(document.id)
        self._kinds.append(document.kind)
        self._created.append(document.created_at)
        self._threads.append(self._thread_numbers.setdefault(document.thread_id, len(self._thread_numbers)))
        self._from_user.append(document.role == "user")
        self._is_entry.append(document.kind == "entry")
        self._is_spoken.append(document.kind == "message" and document.role in SPEAKERS)
        self._until.append(math.inf)
        self._quarantined.append(False)
        if not document.text.strip():
            self._vectors.exempt(self._rows[key])
        return True

    def _set_state(self, document: Document) -> None:
        """Take over whether an entry is current, superseded or quarantined by now."""
        row = self._rows[document.kind, document.id]
        self._until[row] = document.valid_until
        self._quarantined[row] = document.status == "quarantined"
        is_apart = document.status != "active"
        (self._set_apart.add if is_apart else self._set_apart.discard)(row)

    def _fill(self, vectors: Sequence[VectorRow]) -> None:
        size = self._vectors.stored_row_bytes  # a vector of another size is damaged; `check` reports it
        known = [
            (self._rows[v.kind, v.id], v.vector)
            for v in vectors
            if (v.kind, v.id) in self._rows and len(v.vector) == size
        ]
        if known:
            rows, values = zip(*known, strict=True)
            self._vectors.fill(list(rows), list(values))

    def search(
        self,
        query: Query,
        top_k: int,
        now: float,
        as_of: float | None = None,
        quarantined: bool = False,
    ) -> list[Found]:
        """The best items for a query, best first: those current now or `as_of` a time.

        What is in quarantine is found only on request.
        """
        with self._lock:
            if not self._ids:
                return []
            terms, nearness = self._nearness(query)
            signals = replace(self._signals(nearness), eligible=self._current(as_of, quarantined))
            ranked = self._ranker.rank(signals, max(top_k, JUDGED_HITS), now, self._settings)
            is_judged = self._ranker.is_tuned and query.vectors is not None
            if is_judged and not self._has_relevant(ranked, terms, nearness):
                return []
            return self._found(ranked[:top_k])

    def search_apart(
        self, query: Query, counts: Mapping[HitKind, int], now: float, thread_id: str
    ) -> dict[HitKind, list[Found]]:
        """The best entries, and the best messages of other threads than the given one.

        Of messages only what user and assistant said. Everything found is relevant by itself.
        """
        with self._lock:
            if not self._ids:
                return {kind: [] for kind in counts}
            terms, nearness = self._nearness(query)
            signals = self._signals(nearness)
            eligible = {kind: self._eligible(kind, thread_id) for kind in counts}
            ranked = {
                kind: self._ranker.rank(replace(signals, eligible=wanted), counts[kind], now, self._settings)
                for kind, wanted in eligible.items()
                if wanted.any()
            }
            relevant = self._relevant(ranked, terms, nearness)
            return {kind: self._found(relevant.get(kind, [])) for kind in counts}

    def search_messages(self, query: Query, top_k: int, now: float, thread_id: str | None) -> list[Found]:
        """The messages of one thread, or of all, most like a text; only what user and assistant said."""
        with self._lock:
            if not self._ids:
                return []
            eligible = self._eligible("message", "")
            if thread_id is not None:
                thread = self._thread_numbers.get(thread_id, -1)
                eligible &= np.frombuffer(self._threads, dtype=np.int32) == thread
            if not eligible.any():
                return []
            terms, nearness = self._nearness(query)
            signals = replace(self._signals(nearness), eligible=eligible)
            ranked: dict[HitKind, Sequence[Ranked]] = {
                "message": self._ranker.rank(signals, top_k, now, self._settings)
            }
            return self._found(self._relevant(ranked, terms, nearness).get("message", []))

    def _relevant(
        self, ranked: Mapping[HitKind, Sequence[Ranked]], terms: Terms, nearness: Nearness
    ) -> dict[HitKind, list[Ranked]]:
        """What is near enough to the input, each for itself; nothing if the input hardly says anything."""
        matching = {
            kind: [item for item in items if item.scores.lexical > 0 or item.scores.vector > 0]
            for kind, items in ranked.items()
        }
        if not self._asks_for_something([item for items in matching.values() for item in items], terms[0]):
            return {}
        return {
            kind: [item for item in items if self._has_relevant([item], terms, nearness)]
            for kind, items in matching.items()
        }

    def _asks_for_something(self, ranked: Sequence[Ranked], terms: Sequence[str]) -> bool:
        """Whether the input tells enough to be answered from memory: "thanks!" shares a word with many.

        In a small scope less is enough: all of it may be about one thing.
        """
        share = min(1.0, math.log1p(len(self._ids)) / math.log1p(LARGE_SCOPE))
        floor = self._settings.information_floor * share
        return any(
            item.scores.vector >= self._settings.relevance_floor
            or self._lexicon.information(terms, item.position) >= floor
            for item in ranked
        )

    def _found(self, ranked: Sequence[Ranked]) -> list[Found]:
        return [(self._kinds[r.position], self._ids[r.position], r) for r in ranked]

    def _current(self, as_of: float | None, quarantined: bool) -> NDArray[np.bool_] | None:
        """Which items may be found; None if all may."""
        if as_of is None and not self._set_apart:
            return None
        until = np.frombuffer(self._until, dtype=np.float64)
        if as_of is None:
            eligible: NDArray[np.bool_] = np.isinf(until)
        else:
            eligible = (np.frombuffer(self._created, dtype=np.float64) <= as_of) & (as_of < until)
        return eligible if quarantined else eligible & ~np.frombuffer(self._quarantined, dtype=np.bool_)

    def _eligible(self, kind: HitKind, thread_id: str) -> NDArray[np.bool_]:
        flags = self._is_entry if kind == "entry" else self._is_spoken
        eligible = np.frombuffer(flags, dtype=np.bool_).copy()
        eligible[list(self._set_apart)] = False
        thread = self._thread_numbers.get(thread_id)
        if kind == "message" and thread is not None:
            eligible &= np.frombuffer(self._threads, dtype=np.int32) != thread
        return eligible

    def nearest_entries(self, vectors: Matrix, least: float, limit: int) -> list[list[tuple[str, float]]]:
        """For each vector the entries at least that similar, best first, with their cosine."""
        with self._lock:
            rows = np.flatnonzero(self._eligible("entry", "")).tolist() if self._ids else []
            cosines = self._vectors.cosines(rows, vectors)
            return [self._nearest(rows, column, least, limit) for column in cosines.T]

    def alike_entries(self, least: float) -> list[tuple[str, str]]:
        """Pairs of current entries that are at least that similar."""
        with self._lock:
            rows = np.flatnonzero(self._eligible("entry", "")).tolist() if self._ids else []
            rows = [row for row in rows if self._vectors.has(row)]
            pairs: list[tuple[str, str]] = []
            for start in range(0, len(rows), ALIKE_AT_ONCE):
                some = rows[start : start + ALIKE_AT_ONCE]
                cosines = self._vectors.cosines(rows, self._vectors.unfolded(some))
                for i, j in np.argwhere(cosines >= least).tolist():
                    if i < start + j:
                        pairs.append((self._ids[rows[i]], self._ids[some[j]]))
            return pairs

    def neighbours(self, query: Query, limit: int) -> list[str]:
        """Current entries near a text by their words or by their meaning, the best of each kind of nearness."""
        with self._lock:
            if not self._ids:
                return []
            terms, signals = self._nearness(query)
            entries = np.flatnonzero(self._eligible("entry", ""))
            by_words = entries[np.argsort(-signals.lexical[entries], kind="stable")][:limit].tolist()
            by_meaning = entries[np.argsort(-signals.cosine[entries], kind="stable")][:limit].tolist()
            shared = dict(zip(by_words, self._lexicon.coverage(terms[0], by_words).tolist(), strict=True))
            near = [row for row in by_words if shared[row] >= NEAR_WORDS]
            near += [row for row in by_meaning if signals.cosine[row] >= NEAR_MEANING]
            return [self._ids[row] for row in dict.fromkeys(near)]

    def _nearest(self, rows: list[int], cosines: Floats, least: float, limit: int) -> list[tuple[str, float]]:
        near = np.flatnonzero(cosines >= least)
        best = near[np.argsort(-cosines[near], kind="stable")][:limit]
        return [(self._ids[rows[i]], float(cosines[i])) for i in best]

    def _signals(self, nearness: Nearness) -> Signals:
        created: NDArray[np.float64] = np.frombuffer(self._created, dtype=np.float64)
        return Signals(
            ids=self._ids,
            created=created,
            threads=np.frombuffer(self._threads, dtype=np.int32),
            lexical=nearness.lexical,
            vector=nearness.cosine,
            centred=nearness.centred,
            from_user=np.frombuffer(self._from_user, dtype=np.bool_),
            verbosity=self._verbosity.ratio,
        )

    def _nearness(self, query: Query) -> tuple[Terms, Nearness]:
        """How near everything is to a question; several layers ask the same one.

        Among several parts, words count by their share of the part: what answers a short question stands beside
        what shares words with a long listing.
        """
        terms = [self._ranker.terms(part) for part in query.parts]
        if self._asked is not None and self._asked[0] is query.vectors and self._asked[1] == terms:
            return terms, self._asked[2]
        lexical = [self._ranker.lexical(self._lexicon, part, self._settings) for part in terms]
        if len(terms) > 1:
            weights = [self._lexicon.weight(part) for part in terms]
            shares = [np.float32(min(weights) / weight) for weight in weights]
            lexical = [scores * share for scores, share in zip(lexical, shares, strict=True)]
        centring = self._settings.centring if self._ranker.is_tuned else 0.0
        vectors = [None] * len(terms) if query.vectors is None else query.vectors
        similar = [self._vectors.similarities(vector, centring) for vector in vectors]
        nearness = Nearness(
            _largest(lexical),
            _largest([part.cosine for part in similar]),
            _largest([part.centred for part in similar]),
            [part.cosine for part in similar],
        )
        self._asked = (query.vectors, terms, nearness)
        return terms, nearness

    def _has_relevant(self, ranked: Sequence[Ranked], terms: Terms, nearness: Nearness) -> bool:
        """Whether one of the best hits has enough in common with a part of the question."""
        best = ranked[:JUDGED_HITS]
        if max((item.scores.vector for item in best), default=0.0) >= self._settings.relevance_floor:
            return True
        if any(item.scores.lexical > 0 and not self._vectors.has(item.position) for item in best):
            return True  # nobody knows how near its meaning is
        positions = [item.position for item in best]
        if self._lexicon.share_a_rare_number(terms[0], positions):
            return True
        for part, cosine in zip(terms, nearness.cosines, strict=True):
            near = np.maximum(cosine[positions], 0).tolist()
            if is_anything_relevant(near, self._lexicon.coverage(part, positions), self._settings):
                return True
        return False


def _largest(parts: Sequence[Floats]) -> Floats:
    """The largest number of each place."""
    return parts[0] if len(parts) == 1 else np.max(parts, axis=0)


@dataclass(frozen=True, slots=True)
class IndexSize:
    """What one scope's index takes in memory."""

    messages: int
    bytes: int
    vector_bytes: int


class IndexCache:
    """The indexes in memory, least recently used first out."""

    def __init__(self, byte_budget: int) -> None:
        self._budget = byte_budget
        self._indexes: OrderedDict[ScopeKey, ScopeIndex] = OrderedDict()
        self._sizes: dict[ScopeKey, int] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._indexes)

    def get(self, scope: Scope) -> ScopeIndex | None:
        """The scope's index, if it is in memory."""
        key = (scope.agent_id, scope.resource_id)
        index = self._indexes.get(key)
        if index is not None:
            self._indexes.move_to_end(key)
        return index

    def put(self, scope: Scope, index: ScopeIndex) -> None:
        """Keep an index that is new or has grown; the one just used stays even if it is too large."""
        key = (scope.agent_id, scope.resource_id)
        self._indexes[key] = index
        self._indexes.move_to_end(key)
        self.nbytes += index.nbytes - self._sizes.get(key, 0)
        self._sizes[key] = index.nbytes
        while len(self._indexes) > 1 and self.nbytes > self._budget:
            self._forget(next(iter(self._indexes)))

    def drop(self, scope: Scope) -> None:
        """Forget a scope's index, if it is in memory."""
        key = (scope.agent_id, scope.resource_id)
        if key in self._indexes:
            self._forget(key)

    def _forget(self, key: ScopeKey) -> None:
        del self._indexes[key]
        self.nbytes -= self._sizes.pop(key)

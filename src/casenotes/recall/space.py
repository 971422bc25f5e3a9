"""The embedder and the embedding space in use: those of the store's active space.

Another process may rebuild the vectors with another embedder and switch the store to them. A running
process follows: it asks which space is active whenever the store says that everything is new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from casenotes.errors import EmbeddingError, MissingExtra, SpaceMismatch
from casenotes.events import Events
from casenotes.models.embed import Embedder, Space
from casenotes.models.registry import embedder_of_label, resolve_embedder
from casenotes.stores.base import SpaceRecord, Store, active_space

EmbedderOf = Callable[[str], Embedder | None]
"""The embedder of a label, None if there is none here."""


@dataclass(frozen=True, slots=True)
class CurrentSpace:
    """A space and who embeds for it; without an embedder search goes by words alone."""

    record: SpaceRecord
    embedder: Embedder | None


class SpaceInUse:
    """Holds the current space for everything that embeds or compares vectors."""

    def __init__(
        self, store: Store, current: CurrentSpace, events: Events, embedder_of: EmbedderOf = embedder_of_label
    ) -> None:
        self._store = store
        self._embedder_of = embedder_of
        self._events = events
        self._candidates: dict[str, Embedder] = {}
        self.current = current

    async def follow(self) -> None:
        """Take over the store's active space if it is another one by now."""
        record = active_space(await self._store.spaces())
        if record is None or (record.id, record.key) == (self.current.record.id, self.current.record.key):
            return
        known = self._candidates.get(record.model)
        self._use(CurrentSpace(record, known or await self._embedder_for(record)))

    async def _embedder_for(self, record: SpaceRecord) -> Embedder | None:
        try:
            embedder = self._embedder_of(record.model)
            return await prepared(embedder, record) if embedder else None
        except (EmbeddingError, MissingExtra):
            return None

    def expect(self, embedder: Embedder) -> None:
        """This process is about to switch to that embedder, which may be an object of the caller's own."""
        self._candidates[embedder.label] = embedder

    def _use(self, current: CurrentSpace) -> None:
        self.current = current
        by_words_alone = current.embedder is None
        self._events.emit("space.switched", model=current.record.model, by_words_alone=by_words_alone)


async def open_space(store: Store, given: str | Embedder | None) -> CurrentSpace:
    """The store's active space with the embedder that was asked for; refuses to mix two spaces."""
    active = active_space(await store.spaces())
    embedder = await prepared(resolve_embedder(given, active.model if active else None), active)
    wanted = Space.of(embedder)
    record = await store.claim_space(*wanted.key)
    if record.key != wanted.key:
        held = Space(record.model, record.dimensions, record.normalised)
        raise SpaceMismatch(
            f"{store.location} holds vectors of {held}, but the embedder is {wanted}; open it with the "
            "embedder it was made with (embedder=, CASENOTES_EMBEDDER_MODEL, or in JSON "
            "episodicMemory.credential), or change all vectors with `casenotes reembed` or Memory.reembed"
        )
    return CurrentSpace(record, embedder)


async def embedder_to_change_to(store: Store, given: str | Embedder) -> Embedder:
    """An embedder ready for use; `local` is the best that is installed, whatever the store remembers."""
    embedder = resolve_embedder(given)
    known = [space for space in await store.spaces() if space.model == embedder.label]
    return await prepared(embedder, known[0] if known else None)


async def prepared(embedder: Embedder, known: SpaceRecord | None) -> Embedder:
    """An embedder that knows its dimensions: from its space in the store, or by asking its provider."""
    prepare = getattr(embedder, "prepare", None)
    if prepare is not None:
        await prepare(known.dimensions if known and known.model == embedder.label else None)
    return embedder

"""What the verbs for people work with, the same for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from casenotes.clock import Clock
from casenotes.config import EpisodicSettings
from casenotes.events import Events
from casenotes.intake import new_id
from casenotes.recall.search import Searcher
from casenotes.recall.space import SpaceInUse
from casenotes.stores.base import Store
from casenotes.stores.revisions import ItemChange, NewRevision
from casenotes.types import Actor, Entry, EntryStatus, Scope

PAGE = 500


@dataclass(frozen=True, slots=True)
class Desk:
    """A store and how to search it."""

    store: Store
    searcher: Searcher
    space: SpaceInUse
    settings: EpisodicSettings
    clock: Clock
    events: Events

    def revision(self, actor: Actor, changes: Sequence[ItemChange]) -> NewRevision:
        """Changes that happen now."""
        now = self.clock.now()
        return NewRevision(new_id(now), actor, now, changes)

    async def entries(self, scope: Scope, *statuses: EntryStatus) -> AsyncIterator[list[Entry]]:
        """All entries of those statuses, page by page."""
        after = ""
        while page := await self.store.revisions.entries(scope, statuses, PAGE, after):
            yield page
            after = page[-1].id

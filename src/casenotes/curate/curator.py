"""The verbs for people behind Memory: each checks what it is given and lets one step of this folder perform."""

from __future__ import annotations

from collections.abc import Sequence

from casenotes.curate.audit import Audit, audit
from casenotes.curate.desk import Desk
from casenotes.curate.erase import Erased, erase
from casenotes.curate.explain import Explanation, explain
from casenotes.curate.forget import Forgotten, Selection, forget
from casenotes.curate.rebuild import Estimate, Progress, Rebuild, estimate, rebuild, switch
from casenotes.curate.remember import checked_text, remember
from casenotes.errors import InvalidScope, SettingsError, UsageError
from casenotes.learn.pipeline import Tools
from casenotes.recall.hits import read_entries
from casenotes.stores.revisions import ItemChange
from casenotes.types import Entry, Message, Scope


class Curator:
    """Looks after the entries of a store; with a model it can derive them again."""

    def __init__(self, desk: Desk, tools: Tools | None) -> None:
        self._desk = desk
        self._tools = tools

    def checked(self, scope: Scope, text: str) -> str:
        """A text as it can be remembered in a scope."""
        self._check_scope(scope)
        return checked_text(text, self._desk.settings.max_entry_length)

    def _check_scope(self, scope: Scope) -> None:
        if scope.resource_id is None:
            raise InvalidScope(f"{scope!r} has no resource_id; entries belong to a resource")
        if not self._desk.settings.enabled:
            raise UsageError("episodic memory is switched off (setting episodic.enabled)")

    async def remember(self, scope: Scope, content: str, asked: Sequence[Message]) -> Entry:
        """See Memory.remember."""
        entry = await remember(self._desk, scope, content, asked)
        return (await read_entries(self._desk.store, scope, [entry.id]))[entry.id]

    async def forget(self, scope: Scope, selection: Selection, dry_run: bool) -> Forgotten:
        """See Memory.forget."""
        self._check_scope(scope)
        return await forget(self._desk, scope, selection, dry_run=dry_run)

    async def explain(self, entry_id: str, scope: Scope | None) -> Explanation:
        """See Memory.explain."""
        return await explain(self._desk, entry_id, scope)

    async def undo(self, scope: Scope, revision_id: str) -> list[str]:
        """See Memory.undo."""
        return await self._desk.store.revisions.undo(scope, revision_id, self._desk.clock.now())

    async def quarantine(self, scope: Scope) -> list[Entry]:
        """See Memory.quarantine."""
        ids = [entry.id async for page in self._desk.entries(scope, "quarantined") for entry in page]
        return list((await read_entries(self._desk.store, scope, ids)).values()) if ids else []

    async def release(self, scope: Scope, entry_id: str) -> str:
        """See Memory.release."""
        revision = self._desk.revision("user", [ItemChange(entry_id, "released", "quarantined", "active")])
        if not await self._desk.store.revisions.revise(scope, revision):
            raise UsageError(f"there is no entry {entry_id!r} in quarantine in this scope")
        return revision.id

    async def audit(self, scopes: Sequence[Scope], fix: bool) -> Audit:
        """See Memory.audit."""
        found = Audit(0, ())
        for scope in dict.fromkeys(scopes):
            found += await audit(self._desk, scope, fix=fix)
        return found

    async def estimate(self, scope: Scope) -> Estimate:
        """See Memory.estimate_rebuild."""
        return await estimate(self._desk, self._model_tools(), scope)

    async def rebuild(self, scope: Scope, progress: Progress) -> Rebuild:
        """See Memory.rebuild."""
        return await rebuild(self._desk, self._model_tools(), scope, progress)

    async def switch(self, plan: Rebuild) -> str:
        """See Memory.switch_to."""
        return await switch(self._desk, plan)

    async def erase(self, scope: Scope, scrub: bool) -> Erased:
        """See Memory.erase."""
        return await erase(self._desk, scope, scrub=scrub)

    def _model_tools(self) -> Tools:
        if self._tools is None:
            raise SettingsError(
                "no model is configured to derive entries with; set CASENOTES_MODEL or pass model="
            )
        return self._tools

"""Erase a resource or a thread with all that was derived from it, and prove that nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from casenotes.curate.desk import Desk
from casenotes.curate.residue import Residue, pieces_of, scan
from casenotes.errors import InvalidScope
from casenotes.stores.revisions import Erasure
from casenotes.types import Scope

UNSEEN = "the store's files cannot be read from here; run the command on the database server"


@dataclass(frozen=True, slots=True)
class Erased:
    """What was removed, in rows by table, and what a scan of the store's files found afterwards.

    `not_done` says what could not be rewritten; where `scrubbed` is false, removed bytes may still lie in
    the files until they are overwritten.
    """

    scope: Scope
    rows: Mapping[str, int]
    scrubbed: bool
    not_done: str
    residue: Residue

    @property
    def is_proven(self) -> bool:
        """Whether every byte was looked at and nothing is left."""
        return self.residue.is_clean


async def erase(desk: Desk, scope: Scope, *, scrub: bool) -> Erased:
    """Remove the rows, rewrite the files that held them, and look for remains."""
    if scope.resource_id is None and scope.thread_id is None:
        raise InvalidScope(f"{scope!r} names neither a resource nor a thread; say what to erase")
    erasure = desk.store.erasure
    scopes = [scope, *await _children(desk, scope)]
    traces = [text for one in scopes for text in await erasure.traces(one)] if scrub else []
    pieces = await asyncio.to_thread(pieces_of, traces)
    rows: Counter[str] = Counter()
    for one in scopes:
        rows.update(await erasure.erase(one))
    desk.searcher.forget(scope)
    if not scrub:
        return Erased(scope, dict(rows), False, "", Residue(0, 0, 0, skipped="not looked for"))
    not_done = await erasure.scrub()
    return Erased(scope, dict(rows), True, not_done, await _residue(erasure, pieces))


async def _children(desk: Desk, scope: Scope) -> list[Scope]:
    """The threads of sub-agents that worked for a thread, and of theirs: what was said to them came from it."""
    if scope.thread_id is None:
        return []
    parents = {thread.thread_id: thread.parent_id for thread in await desk.store.threads(scope)}
    return [replace(scope, thread_id=name) for name in _below(parents, scope.thread_id)]


def _below(parents: Mapping[str, str | None], parent_id: str) -> list[str]:
    """The threads under one, those under them included; a circle is gone round once."""
    found = [parent_id]
    for name in found:
        found += [child for child, parent in parents.items() if parent == name and child not in found]
    return found[1:]


async def _residue(erasure: Erasure, pieces: set[bytes]) -> Residue:
    files = await erasure.files()
    if not files:
        return Residue(0, 0, len(pieces), skipped=UNSEEN)
    try:
        size, found = await asyncio.to_thread(scan, files, pieces)
    except OSError as error:
        return Residue(0, 0, len(pieces), skipped=f"the store's files cannot be read: {error}")
    left = found - await erasure.still_there(sorted(found)) if found else set()
    return Residue(len(files), size, len(pieces), tuple(sorted(left)))

"""Erase a resource or a thread with all that was derived from it, and prove that nothing is left."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from casenotes.curate.desk import Desk
from casenotes.curate.residue import Residue, fingerprints_of, pieces_of, scan
from casenotes.errors import InvalidScope
from casenotes.stores.revisions import Erasure
from casenotes.types import Scope

UNSEEN = "the store's files cannot be read from here; run the command on the database server"
NOTHING_STORED = "nothing is stored under that name, and no earlier erasure of it is unfinished"
FINGERPRINT_BYTES = 8
TOO_SHORT = "what was stored is too short to be told from other bytes"


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
        """Whether all of it was looked for in every file, nothing was found and nothing is left to do."""
        return self.scrubbed and not self.not_done and self.residue.is_clean


async def erase(desk: Desk, scope: Scope, *, scrub: bool) -> Erased:
    """Remove the rows, rewrite the files that held them, and look for remains.

    Fingerprints of what was stored are kept until the proof succeeds, so that a repeated call knows what an
    unfinished one has left.
    """
    if scope.resource_id is None and scope.thread_id is None:
        raise InvalidScope(f"{scope!r} names neither a resource nor a thread; say what to erase")
    erasure = desk.store.erasure
    scopes = [scope, *await _children(desk, scope)]
    traces = [text for one in scopes for text in await erasure.traces(one)]
    pieces = await asyncio.to_thread(pieces_of, traces)
    owner = hashlib.blake2b(json.dumps([scope.agent_id, scope.resource_id]).encode(), digest_size=16).digest()
    earlier = await erasure.fingerprints(owner)
    fingerprints = await asyncio.to_thread(fingerprints_of, pieces, owner)
    if fingerprints:
        await erasure.add_fingerprints(owner, fingerprints)
    rows: Counter[str] = Counter()
    for one in scopes:
        rows.update(await erasure.erase(one))
    desk.searcher.forget(scope)
    if not scrub:
        return Erased(scope, dict(rows), False, "", Residue(0, 0, 0, skipped="not looked for"))
    not_done = await erasure.scrub()
    if pieces or earlier:
        residue = await _residue(erasure, pieces, earlier, owner)
    else:
        residue = Residue(0, 0, 0, skipped=TOO_SHORT if sum(rows.values()) else NOTHING_STORED)
    erased = Erased(scope, dict(rows), True, not_done, residue)
    if erased.is_proven:
        await erasure.drop_fingerprints(owner, earlier + fingerprints)
    return erased


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


async def _residue(erasure: Erasure, pieces: set[bytes], earlier: bytes, owner: bytes) -> Residue:
    count = len(pieces) + len(earlier) // FINGERPRINT_BYTES
    try:
        files = await erasure.files()
        if not files:
            return Residue(0, 0, count, skipped=UNSEEN)
        size, found = await asyncio.to_thread(scan, files, pieces, earlier, owner)
    except OSError as error:
        return Residue(0, 0, count, skipped=f"the store's files cannot be read: {error}")
    left = found - await erasure.still_there(sorted(found)) if found else set()
    return Residue(len(files), size, count, tuple(sorted(left)))

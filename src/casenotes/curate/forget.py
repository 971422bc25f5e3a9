"""Forget memories: entries are not recalled any more, nor are the messages they quote; the log keeps them.

Forgetting can be undone. To remove data for good, erase it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from casenotes.curate.desk import PAGE, Desk
from casenotes.errors import StoreError, UsageError
from casenotes.masking import mask
from casenotes.recall.hits import read_entries
from casenotes.stores.revisions import GONE, ItemChange
from casenotes.types import Entry, Message, Scope

MOST_BY_QUERY = 50
MAX_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is forgotten, or would be in a dry run, with secrets masked; `revision_id` undoes it."""

    entries: tuple[Entry, ...]
    messages: tuple[Message, ...]
    dry_run: bool
    revision_id: str | None = None

    def __len__(self) -> int:
        return len(self.entries) + len(self.messages)


@dataclass(frozen=True, slots=True)
class Selection:
    """What shall be forgotten: exactly one of these is given."""

    entry_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    query: str | None = None
    given: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = [n for n in ("entry_id", "thread_id", "message_id", "query") if getattr(self, n) is not None]
        if len(names) != 1:
            told = " and ".join(names) or "none of them"
            raise UsageError(f"give one of entry_id, thread_id, message_id and query, got {told}")
        object.__setattr__(self, "given", tuple(names))


async def forget(desk: Desk, scope: Scope, selection: Selection, *, dry_run: bool) -> Forgotten:
    """Forget what was selected with all that rests on it, in one revision."""
    for _ in range(MAX_ROUNDS):
        entries, messages = await _selected(desk, scope, selection)
        if dry_run or not (entries or messages):
            return await _told(desk, scope, entries, messages, dry_run)
        revision = desk.revision("user", [*map(_forget_entry, entries), *map(_hide_message, messages)])
        if await desk.store.revisions.revise(scope, revision):
            return await _told(desk, scope, entries, messages, dry_run, revision.id)
    raise StoreError("entries change faster than they can be forgotten; try again later")


async def _told(
    desk: Desk,
    scope: Scope,
    entries: Sequence[Entry],
    messages: Sequence[Message],
    dry_run: bool,
    revision_id: str | None = None,
) -> Forgotten:
    """What was or would be forgotten, as it may be shown."""
    shown = await read_entries(desk.store, scope, [entry.id for entry in entries]) if entries else {}
    said = tuple(replace(message, text=mask(message.text), parts=()) for message in messages)
    return Forgotten(tuple(shown.values()), said, dry_run, revision_id)


def _forget_entry(entry: Entry) -> ItemChange:
    return ItemChange(entry.id, "forgotten", entry.status, "forgotten", valid_until=entry.valid_until)


def _hide_message(message: Message) -> ItemChange:
    return ItemChange(str(message.id), "forgotten", kind="message")


async def _selected(desk: Desk, scope: Scope, selection: Selection) -> tuple[list[Entry], list[Message]]:
    entry_ids, messages = await _found(desk, scope, selection)
    entry_ids = [*entry_ids, *await _merged_into(desk, scope, entry_ids)]
    entries = [e for e in (await desk.store.entries.get(scope, entry_ids)).values() if e.status not in GONE]
    if selection.entry_id and not entry_ids:
        raise UsageError(f"there is no entry {selection.entry_id!r} in this scope")
    quoted = await desk.store.messages(scope, _quoted(entries)) if entries else {}
    return entries, list({str(m.id): m for m in (*messages, *quoted.values())}.values())


async def _merged_into(desk: Desk, scope: Scope, entry_ids: Sequence[str]) -> list[str]:
    """The entries that merged ones were made of: the past would tell them."""
    history = await desk.store.revisions.history(scope, entry_ids) if entry_ids else []
    return [r.item_id for r in history if r.action == "merged" and r.successor in entry_ids]


async def _found(desk: Desk, scope: Scope, selection: Selection) -> tuple[list[str], list[Message]]:
    """Entries and messages that are meant, before what they quote is added."""
    if selection.entry_id is not None:
        return list(await desk.store.entries.get(scope, [selection.entry_id])), []
    if selection.message_id is not None:
        messages = await desk.store.messages(scope, [selection.message_id])
        if not messages:
            raise UsageError(f"there is no message {selection.message_id!r} in this scope")
        return await desk.store.revisions.quoting(scope, list(messages)), list(messages.values())
    if selection.thread_id is not None:
        return await _of_thread(desk, Scope(scope.agent_id, scope.resource_id, selection.thread_id))
    hits = await desk.searcher.search(scope, selection.query or "", MOST_BY_QUERY, quarantined=True)
    ids = [hit.id for hit in hits if hit.kind == "message"]
    messages = await desk.store.messages(scope, ids) if ids else {}
    return [hit.id for hit in hits if hit.kind == "entry"], list(messages.values())


async def _of_thread(desk: Desk, thread: Scope) -> tuple[list[str], list[Message]]:
    messages: list[Message] = []
    while page := await desk.store.history(thread, limit=PAGE, after=messages[-1].seq if messages else 0):
        messages += page
    if not messages:
        raise UsageError(f"there is no thread {thread.thread_id!r} in this scope")
    return await desk.store.revisions.quoting(thread, ()), messages


def _quoted(entries: Iterable[Entry]) -> Sequence[str]:
    return list(dict.fromkeys(quote.message_id for entry in entries for quote in entry.evidence))

"""Read what a search found back from the store, with secrets masked: quotes and messages are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from casenotes.masking import mask, placeholder, secrets_in
from casenotes.recall.index import Found
from casenotes.recall.rank import Ranked
from casenotes.stores.base import Store
from casenotes.stores.learning import ShownItem, by_kind
from casenotes.tasks import compute
from casenotes.types import SPEAKERS, ContextItem, Entry, Evidence, Hit, Message, Scope

MAX_BLOCK_CHARACTERS = 8_000
"""A block quotes less than this; what is cut off here cannot be half a secret in what is shown."""


NameOf = Callable[[Message], str | None]
"""How the name of who said a message is shown."""


async def read_hits(
    store: Store, scope: Scope, found: Sequence[Found], name_of: NameOf, *, as_block: bool = False
) -> list[Hit]:
    """The hits in order; what was removed in the meantime is left out.

    A block shows no quotes, which saves reading the messages they stand in, and of messages only what
    user and assistant said, not what tools were asked and answered.
    """
    wanted = {kind: [item_id for of, item_id, _ in found if of == kind] for kind in ("entry", "message")}
    entries, conflicts = await _read_entries(store, scope, wanted["entry"])
    quoted = [quote.message_id for entry in entries.values() for quote in entry.evidence if not as_block]
    ids = list(dict.fromkeys([*wanted["message"], *quoted]))
    messages = await store.messages(scope, ids) if ids else {}
    if as_block:
        messages = {
            key: replace(message, text=message.text[:MAX_BLOCK_CHARACTERS], parts=())
            for key, message in messages.items()
            if _is_worth_quoting(message)
        }
    make = partial(_hits, found, entries, messages, name_of)
    hits = await compute(make, sum(len(message.text) for message in messages.values()))
    return with_conflicts(hits, conflicts)


async def _read_entries(
    store: Store, scope: Scope, ids: Sequence[str]
) -> tuple[dict[str, Entry], list[tuple[str, str]]]:
    """Entries and their conflicts, read side by side: a turn waits for it."""
    if not ids:
        return {}, []
    return await asyncio.gather(store.entries.get(scope, ids), store.revisions.conflicts(scope, ids))


def with_conflicts(hits: Sequence[Hit], pairs: Sequence[tuple[str, str]]) -> list[Hit]:
    """Each entry with those that contradict it; of two that were found the newer comes first."""
    if not pairs:
        return list(hits)
    against: dict[str, list[str]] = {}
    for old, new in dict.fromkeys(pairs):
        against.setdefault(old, []).append(new)
        against.setdefault(new, []).append(old)
    ordered: list[Hit] = []
    for hit in hits:
        told = replace(hit, conflicts=tuple(against.get(hit.id, ()))) if hit.kind == "entry" else hit
        older = [i for i, o in enumerate(ordered) if o.id in told.conflicts and o.created_at < told.created_at]
        ordered.insert(older[0] if older else len(ordered), told)
    return ordered


def _hits(
    found: Sequence[Found], entries: Mapping[str, Entry], messages: Mapping[str, Message], name_of: NameOf
) -> list[Hit]:
    hits = []
    for kind, item_id, ranked in found:
        if kind == "entry" and item_id in entries:
            hits.append(_entry_hit(entries[item_id], ranked, messages))
        elif kind == "message" and item_id in messages:
            hits.append(_message_hit(messages[item_id], ranked, name_of))
    return hits


def _is_worth_quoting(message: Message) -> bool:
    """Whether somebody said more than a word or two."""
    text = message.text.strip()
    return message.role in SPEAKERS and len(text) >= (12 if text.isascii() else 6)


async def read_entries(store: Store, scope: Scope, ids: Sequence[str]) -> dict[str, Entry]:
    """Entries with their quotes as they may be shown."""
    entries = await store.entries.get(scope, ids)
    quoted = {quote.message_id for entry in entries.values() for quote in entry.evidence}
    messages = await store.messages(scope, list(quoted)) if quoted else {}
    return {
        entry.id: replace(entry, evidence=tuple(shown_quote(quote, messages) for quote in entry.evidence))
        for entry in entries.values()
    }


async def read_context_items(store: Store, scope: Scope, items: Sequence[ShownItem]) -> list[ContextItem]:
    """What was found for a turn, with its text as it may be shown; what was removed since is left out."""
    ids = by_kind(items)
    entries, messages = await asyncio.gather(
        store.entries.get(scope, ids["entry"]), store.messages(scope, ids["message"])
    )
    return await asyncio.to_thread(_context_items, items, entries, messages)


def _context_items(
    items: Sequence[ShownItem], entries: Mapping[str, Entry], messages: Mapping[str, Message]
) -> list[ContextItem]:
    found = []
    for item in items:
        if item.kind == "entry":
            if entry := entries.get(item.id):
                place = (entry.created_at, entry.thread_id)
                found.append(ContextItem("entry", item.id, entry.content, *place, left_out=item.left_out))
        elif (message := messages.get(item.id)) and message.created_at:
            place = (message.created_at, message.thread_id or "")
            text = mask(message.search_text)
            found.append(ContextItem("message", item.id, text, *place, message.role, item.left_out))
    return found


def _entry_hit(entry: Entry, ranked: Ranked, messages: Mapping[str, Message]) -> Hit:
    return Hit(
        kind="entry",
        id=entry.id,
        content=entry.content,
        created_at=entry.created_at,
        thread_id=entry.thread_id,
        message_id=entry.message_id,
        evidence=tuple(shown_quote(quote, messages) for quote in entry.evidence),
        scores=ranked.scores,
        verified=entry.verified,
        status=entry.status,
    )


def shown_quote(quote: Evidence, messages: Mapping[str, Message]) -> Evidence:
    """A quote as it may be shown; what is a secret can only be seen in the whole message."""
    message = messages.get(quote.message_id)
    shown = masked_slice(message.text, quote.start, quote.end) if message else ""
    return quote if shown == quote.quote else replace(quote, quote=shown)


def masked_slice(text: str, start: int, end: int) -> str:
    """A part of a text; a secret that reaches into it is masked whole."""
    pieces: list[str] = []
    position = start
    for secret in secrets_in(text):
        if secret.end > position and secret.start < end:
            pieces += (text[position : max(position, secret.start)], placeholder(secret.kind))
            position = secret.end
    return "".join((*pieces, text[position:end]))


def _message_hit(message: Message, ranked: Ranked, name_of: NameOf) -> Hit:
    if message.id is None or message.created_at is None:
        raise AssertionError(f"stored message without id or time: {message!r:.80}")
    return Hit(
        kind="message",
        id=message.id,
        content=mask(message.search_text),
        created_at=message.created_at,
        thread_id=message.thread_id,
        message_id=message.id,
        evidence=(),
        scores=ranked.scores,
        role=message.role,
        speaker=name_of(message) or message.role,
    )

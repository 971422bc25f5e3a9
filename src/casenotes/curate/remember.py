"""Store what the user asked to keep, with the message that asked as its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from casenotes.curate.desk import Desk
from casenotes.errors import StoreError, UsageError
from casenotes.intake import new_id
from casenotes.learn.claims import unsupported
from casenotes.learn.evidence import find_quote, passage
from casenotes.learn.instructions import instruction_in
from casenotes.learn.normalise import collapse, content_hash, is_visible
from casenotes.masking import mask
from casenotes.recall.vectors import vectors_of
from casenotes.stores.learning import Corroboration, NewEntry
from casenotes.types import Entry, Evidence, Message, Scope

MAX_ROUNDS = 10
SOURCE = "user_assertion"


def checked_text(text: str, max_length: int) -> str:
    """The text as an entry keeps it; raises UsageError if it is no text to keep."""
    if not isinstance(text, str):
        raise UsageError(f"the text to remember must be a string, got {type(text).__name__}")
    content = mask(collapse(text))
    if not is_visible(content):
        raise UsageError("there is nothing to remember: the text is empty")
    if len(content) > max_length:
        raise UsageError(
            f"the text to remember has {len(content)} characters; the limit is {max_length} "
            "(setting max_entry_length)"
        )
    return content


def evidence_for(content: str, asked: Sequence[Message]) -> Evidence:
    """The words that asked for it: the text itself where it was said so, else the whole last message."""
    users = [message for message in asked if message.role == "user" and message.text.strip()]
    if not users:
        raise UsageError("the turn has no message of the user that could have asked to remember something")
    if missing := unsupported(content, [mask(collapse(message.text)) for message in asked]):
        raise UsageError(f"the text to remember names what nobody said in this turn: {', '.join(missing)}")
    for message in reversed(users):
        if found := find_quote(content, [passage(message)]):
            return found
    last = users[-1]
    start = len(last.text) - len(last.text.lstrip())
    end = len(last.text.rstrip())
    return Evidence(str(last.id), start, end, last.text[start:end])


async def remember(desk: Desk, scope: Scope, content: str, asked: Sequence[Message]) -> Entry:
    """Store a text, or add the message that asked to the entry that says it already."""
    evidence = evidence_for(content, asked)
    message = next(message for message in asked if message.id == evidence.message_id)
    for _ in range(MAX_ROUNDS):
        seen = await desk.store.freshness(scope)
        if not await desk.store.messages(scope, [evidence.message_id]):
            raise UsageError("the message that asked to remember this was erased meanwhile")
        digest = content_hash(content)
        known = (await desk.store.entries.known_hashes(scope, [digest])).get(digest)
        revision = replace(desk.revision("user", ()), seen=seen, space_id=desk.space.current.record.id)
        if known:
            at = message.created_at or desk.clock.now()
            more = Corroboration(known, [evidence], at, remembered=True)
            revision = replace(revision, corroborations=[more])
        else:
            entry = await _new_entry(desk, scope, content, evidence, message)
            revision = replace(revision, entries=[entry])
        if await desk.store.revisions.revise(scope, revision):
            entry_id = known or entry.id
            return (await desk.store.entries.get(scope, [entry_id]))[entry_id]
    raise StoreError("entries change faster than one can be added; try again later")


async def _new_entry(desk: Desk, scope: Scope, content: str, evidence: Evidence, message: Message) -> NewEntry:
    now = desk.clock.now()
    (vector,) = await vectors_of(desk.space, desk.events, scope, [content])
    return NewEntry(
        new_id(now),
        content,
        content_hash(content),
        SOURCE,
        True,
        message.id,
        message.created_at or now,
        [evidence],
        vector,
        "quarantined" if instruction_in(content) else "active",
        "remembered",
        message.thread_id,
    )

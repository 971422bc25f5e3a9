"""Between values and rows for revisions, the same for both backends.

`time` turns a time into the backend's form, or back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from casenotes.errors import UsageError
from casenotes.stores.learned_rows import Values, quote_hash
from casenotes.stores.revisions import GONE, Freshness, ItemChange, NewRevision
from casenotes.types import Evidence, Revision, Scope

ToTime = Callable[[datetime], Any]


class NotAsExpected(Exception):
    """An item is not as a revision expects it: nothing of the revision is kept."""


def is_outdated(seen: Freshness | None, epoch: int, newest_entry: int) -> bool:
    """Whether entries came after what a decision was made in view of, or something was removed meanwhile."""
    return seen is not None and (seen.epoch != epoch or seen.change < newest_entry)


def change_values(key: Values, revision: NewRevision, change: int, time: ToTime) -> list[Values]:
    """Parameters of every change of a revision."""
    return [_change_values(key, revision, item, change, time) for item in revision.changes]


def _change_values(key: Values, revision: NewRevision, item: ItemChange, change: int, time: ToTime) -> Values:
    quote = item.quote
    return {
        **key,
        "revision": revision.id,
        "actor": revision.actor,
        "at": time(revision.at),
        "change": change,
        "kind": item.kind,
        "id": item.item_id,
        "action": item.action,
        "before": item.before,
        "after": item.after,
        "valid_until": item.valid_until and time(item.valid_until),
        "successor": item.successor,
        "superseded_by": item.successor if item.after == "superseded" else None,
        "detail": item.detail,
        "message": quote.message_id if quote else None,
        "start": quote.start if quote else None,
        "stop": quote.end if quote else None,
        "hash": quote_hash(quote.quote) if quote else None,
    }


def of_kind(rows: Sequence[Values], kind: str) -> list[Values]:
    """The changes of entries, or of messages."""
    return [row for row in rows if row["kind"] == kind]


def that_change(rows: Sequence[Values]) -> list[Values]:
    """The changes of entries that are more than a note."""
    return [row for row in of_kind(rows, "entry") if row["before"] != row["after"]]


def that_remove(rows: Sequence[Values]) -> list[Values]:
    """The changes after which an item is no longer searched."""
    return [row for row in rows if row["kind"] == "message" or row["after"] in GONE]


def added_values(key: Values, revision: NewRevision, change: int, time: ToTime) -> list[Values]:
    """Parameters that note the entries which a revision adds."""
    common = {"revision": revision.id, "actor": revision.actor, "at": time(revision.at), "change": change}
    return [{**key, **common, "id": entry.id} for entry in revision.entries]


def history_from_rows(rows: Iterable[Sequence[Any]], time: Callable[[Any], datetime]) -> list[Revision]:
    """Revisions with the words they rest on, as the message log has them."""
    return [_revision(row, time) for row in rows]


def _revision(row: Sequence[Any], time: Callable[[Any], datetime]) -> Revision:
    revision_id, kind, item_id, action, actor, at, successor, detail, undone_at, *quote = row
    return Revision(
        revision_id,
        kind,
        item_id,
        action,
        actor,
        time(at),
        successor,
        Evidence(*quote) if quote[-1] is not None else None,
        detail,
        None if undone_at is None else time(undone_at),
    )


def check_undo(scope: Scope, revision_id: str, items: Sequence[Any], later: Sequence[Any]) -> None:
    """Raise UsageError, with the remedy, if a revision cannot be undone."""
    if not items:
        raise UsageError(
            f"there is no revision {revision_id!r} of resource {scope.resource_id!r} that could be undone; "
            "`explain` lists those of an entry"
        )
    if later:
        names = ", ".join(repr(row[0]) for row in later)
        raise UsageError(f"revision {revision_id!r} cannot be undone before those that came after it: {names}")


def taken_again(revision_id: str) -> UsageError:
    """The error for an entry that cannot become active again."""
    return UsageError(
        f"revision {revision_id!r} cannot be undone: the same text has become an active entry again meanwhile; "
        "forget that one first"
    )

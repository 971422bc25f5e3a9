"""Append messages: number them, insert them, move thread and scope on, for many callers at once.

The usual case, in which every message is new, takes one statement a table for the whole batch. Where a
message is known already, the batch is refused and each request is performed alone, message by message.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from casenotes.stores.base import Shown, TurnMark
from casenotes.stores.learned_rows import extend_shown
from casenotes.stores.observation_rows import message_tokens, watch_values
from casenotes.stores.rows import check_repetition, encode_metadata, encode_parts, message_from_row
from casenotes.types import Appended, Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
ThreadKey = tuple[str, str, str]


class NotAllNew(Exception):
    """Some message of a batch is known already: perform the requests one by one."""


class AppendRequest(NamedTuple):
    """One caller's messages; `key` is agent, resource and thread."""

    key: ThreadKey
    messages: Sequence[Message]
    turn: TurnMark | None


class _Tail:
    """Where a thread ends: its last sequence number, its scope's change number, its new times.

    Of a thread that is apart, all messages are hidden.
    """

    __slots__ = ("apart", "change", "seq", "times", "tokens")

    def __init__(self, seq: int, change: int, apart: bool) -> None:
        self.seq = seq
        self.change = change
        self.apart = apart
        self.times: list[int] = []
        self.tokens = 0


class Appender:
    """Performs append requests on the write lane's connection."""

    def __init__(self, queries: dict[str, str]) -> None:
        self._sql = queries

    def append(self, connection: sqlite3.Connection, requests: list[AppendRequest]) -> list[Appended]:
        """All requests of a group."""
        tails: dict[ThreadKey, _Tail] = {}
        if len(requests) == 1:
            results = [self._append_carefully(connection, requests[0], tails)]
        else:
            results = self._append_new(connection, requests, tails)
        self._move_on(connection, tails)
        for request, result in zip(requests, results, strict=True):
            if request.turn:
                self._mark_turn(connection, request.key, request.turn, min(result.seqs, default=0))
        return results

    def _append_new(
        self,
        connection: sqlite3.Connection,
        requests: list[AppendRequest],
        tails: dict[ThreadKey, _Tail],
    ) -> list[Appended]:
        rows: list[tuple[Any, ...]] = []
        results: list[Appended] = []
        for request in requests:
            tail = self._tail(connection, request, tails)
            first = tail.seq + 1
            rows += [_row(message, request, tail) for message in request.messages]
            new_ids = {str(message.id) for message in request.messages}
            seqs = range(first, tail.seq + 1)
            results.append(Appended(request.messages, request.key[2], seqs, new_ids))
        if connection.executemany(self._sql["insert_message"], rows).rowcount != len(rows):
            raise NotAllNew
        return results

    def _append_carefully(
        self, connection: sqlite3.Connection, request: AppendRequest, tails: dict[ThreadKey, _Tail]
    ) -> Appended:
        tail = self._tail(connection, request, tails)
        seqs: list[int] = []
        new_ids: set[str] = set()
        known: dict[str, Message] = {}
        for message in request.messages:
            row = _row(message, request, tail)
            if connection.execute(self._sql["insert_message"], row).rowcount:
                new_ids.add(str(message.id))
                seqs.append(tail.seq)
            else:
                tail.seq -= 1
                tail.times.pop()
                tail.tokens -= message_tokens(message)
                stored = known[str(message.id)] = self._repeated(connection, request.key, message)
                self._claim(connection, request, message)
                seqs.append(stored.seq or 0)
        return Appended(request.messages, request.key[2], seqs, new_ids, known)

    def _claim(self, connection: sqlite3.Connection, request: AppendRequest, message: Message) -> None:
        """A message known before belongs to the turn it is said in now, unless it was learned from."""
        if request.turn and request.turn.turn_id:
            agent, resource, thread = request.key
            values = {"agent": agent, "resource": resource, "thread": thread, "id": message.id}
            connection.execute(self._sql["claim_message"], values | {"turn": request.turn.turn_id})

    def _tail(
        self, connection: sqlite3.Connection, request: AppendRequest, tails: dict[ThreadKey, _Tail]
    ) -> _Tail:
        """Where the thread ends; one in which nobody has spoken yet is made, for its messages to belong to."""
        key = request.key
        if key not in tails:
            change, seq, apart = connection.execute(self._sql["thread_state"], key).fetchone()
            if seq is None and request.messages:
                connection.execute(self._sql["add_scope"], key[:2])
                begun = micros(request.messages[0].created_at or EPOCH)
                connection.execute(self._sql["add_thread"], (*key, begun))
            tails[key] = _Tail(seq or 0, (change or 0) + 1, bool(apart))
        return tails[key]

    def _move_on(self, connection: sqlite3.Connection, tails: dict[ThreadKey, _Tail]) -> None:
        moved = [(key, tail) for key, tail in tails.items() if tail.times]
        connection.executemany(
            self._sql["advance_thread"],
            [
                (*key, tail.seq, tail.change, min(tail.times), max(tail.times), tail.tokens)
                for key, tail in moved
            ],
        )
        connection.executemany(self._sql["advance_scope"], [(*key[:2], tail.change) for key, tail in moved])

    def _repeated(self, connection: sqlite3.Connection, key: ThreadKey, given: Message) -> Message:
        values = {"agent": key[0], "resource": key[1], "ids": json.dumps([given.id])}
        stored = message_from_row(
            connection.execute(self._sql["messages_by_id"], values).fetchone(), time_from_micros
        )
        check_repetition(stored, replace(given, thread_id=key[2]))
        return stored

    def _mark_turn(
        self, connection: sqlite3.Connection, key: ThreadKey, turn: TurnMark, first_seq: int
    ) -> None:
        agent, resource, thread = key
        values = {
            "agent": agent,
            "resource": resource,
            "thread": thread,
            "turn": turn.turn_id,
            "status": turn.status,
            "at": micros(turn.at),
            "pending": turn.pending,
            "first_seq": first_seq,
            "parent": turn.parent,
            "hidden": turn.hidden,
        }
        if turn.parent:
            connection.execute(self._sql["note_parent"], values)
            connection.execute(self._sql["ensure_parent"], values)
        if turn.status == "open":
            connection.execute(self._sql["abandon_open_turns"], values)
            connection.execute(self._sql["open_turn"], values)
        elif turn.status:
            connection.execute(self._sql["close_turn"], values)
        if turn.shown:
            self._note_shown(connection, values, turn.shown)
        if turn.watch:
            connection.execute(self._sql["watch_thread"], values | watch_values(turn.watch, micros))

    def _note_shown(
        self, connection: sqlite3.Connection, values: dict[str, Any], items: Sequence[Shown]
    ) -> None:
        record = connection.execute(self._sql["shown_record"], values).fetchone()
        ids = json.dumps([item.id for item in items if item.kind == "message"])
        references = dict(connection.execute(self._sql["message_references"], values | {"ids": ids}))
        known = json.loads(record[0]) if record and record[0] else {}
        connection.execute(self._sql["put_shown"], values | {"shown": extend_shown(known, items, references)})


def _row(message: Message, request: AppendRequest, tail: _Tail) -> tuple[Any, ...]:
    """The next row of the thread, in the order of the statement's parameters."""
    created_at = micros(message.created_at or EPOCH)
    tail.seq += 1
    tail.times.append(created_at)
    tokens = message_tokens(message)
    tail.tokens += tokens
    return (
        *request.key,
        message.id,
        tail.seq,
        message.role,
        message.text,
        encode_parts(message.parts) if message.parts else None,
        encode_metadata(message.metadata) if message.metadata else None,
        created_at,
        tail.change,
        request.turn.turn_id if request.turn else None,
        int(tail.apart or (request.turn is not None and request.turn.hidden)),
        tokens,
    )


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - EPOCH) // MICROSECOND


def time_from_micros(count: int) -> datetime:
    """The time of that many microseconds since 1970."""
    return EPOCH + count * MICROSECOND

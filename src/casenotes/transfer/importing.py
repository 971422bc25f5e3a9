"""Import a file of conversations: in batches, in file order, resumable because messages are saved by id."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from casenotes.errors import CasenotesError, MessageConflict, UsageError
from casenotes.memory import Memory
from casenotes.stores.sqlite.connect import is_part_of_store
from casenotes.transfer.formats.detect import AUTO, choose_format
from casenotes.transfer.lines import LeftOutLine, Line, MessageLine, Place, ReadOptions, RefusedLine, ThreadLine
from casenotes.transfer.source import file_size, open_documents
from casenotes.transfer.values import read_values
from casenotes.types import ChildScope, Message, Scope

BATCH_LINES = 1_000
BATCH_BYTES = 8_000_000
MAX_CONCURRENT_APPENDS = 64
Progress = Callable[[int], None]


@dataclass(slots=True)
class ImportSummary:
    """What became of a file."""

    added: int = 0
    known: int = 0
    vectors: int = 0
    assumed_times: int = 0
    format: str = ""
    threads: set[Scope] = field(default_factory=set)
    replaced_roles: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedLine] = field(default_factory=list)

    def count(self, line: MessageLine, is_new: bool) -> None:
        """Note what became of one message."""
        self.threads.add(line.scope)
        if not is_new:
            self.known += 1
            return
        self.added += 1
        self.assumed_times += line.assumed_time
        if line.replaced_role:
            self.replaced_roles[line.replaced_role] += 1

    def refuse(self, place: Place, error: CasenotesError) -> None:
        """Note a line that could not be used."""
        self.refused.append(RefusedLine(place.number, str(error), place.message))


async def import_file(
    memory: Memory,
    path: Path,
    options: ReadOptions,
    progress: Progress = lambda _bytes: None,
    format: str = AUTO,
) -> ImportSummary:
    """Read a file into the memory; `progress` gets the bytes read so far.

    A line that cannot be used is reported with its number and the import goes on. Killed half-way,
    the same call picks up where it stopped.
    """
    if is_part_of_store(memory.location, path):
        raise UsageError(f"{str(path)!r} is the store itself; name a file of conversations")
    total_bytes = file_size(path)
    with open_documents(path) as documents:
        unpacked_bytes = sum(document.size for document in documents) or 1
        chosen = choose_format(documents, path, format, options)
        lines = chosen.read(read_values(documents), options)
        summary = ImportSummary(format=chosen.name)
        await _save(memory, lines, summary, lambda done: progress(total_bytes * done // unpacked_bytes))
    progress(total_bytes)
    summary.refused.sort(key=lambda refused: (refused.number, refused.message_number or 0))
    return summary


async def _save(
    memory: Memory, lines: Iterable[tuple[Line, int]], summary: ImportSummary, progress: Progress
) -> None:
    batch: list[MessageLine] = []
    saved_up_to = 0
    threads: list[ThreadLine] = []
    for line, position in lines:
        if isinstance(line, MessageLine):
            batch.append(line)
        elif isinstance(line, ThreadLine):
            threads.append(line)
        elif isinstance(line, LeftOutLine):
            summary.left_out[line.what] += line.count
        else:
            summary.refused.append(line)
        if len(batch) >= BATCH_LINES or position - saved_up_to >= BATCH_BYTES:
            await _save_batch(memory, batch, summary)
            batch, saved_up_to = [], position
            progress(position)
    await _save_batch(memory, batch, summary)
    await _save_threads(memory, threads, summary)
    await _finish_vectors(memory, summary)


async def _save_batch(memory: Memory, batch: Sequence[MessageLine], summary: ImportSummary) -> None:
    """One append a thread, all at once, so that the store can commit them together; then embed."""
    places = asyncio.Semaphore(MAX_CONCURRENT_APPENDS)

    async def save(scope: Scope, lines: Sequence[MessageLine]) -> tuple[Scope, list[Message]]:
        async with places:
            return await _save_lines(memory, scope, lines, summary)

    saved = await asyncio.gather(*(save(lines[0].scope, lines) for lines in _grouped(batch)))
    by_owner: dict[Scope, list[Message]] = {}
    for scope, messages in saved:
        by_owner.setdefault(scope.owner, []).extend(messages)
    embedding = (memory.embed(owner, messages) for owner, messages in by_owner.items())
    summary.vectors += sum(await asyncio.gather(*embedding))


async def _save_lines(
    memory: Memory, scope: Scope, lines: Sequence[MessageLine], summary: ImportSummary
) -> tuple[Scope, list[Message]]:
    """Save lines of one thread; if one of them is at fault, find it and keep the others."""
    try:
        result = await memory.append(lines[0].child or scope, [line.message for line in lines], embed=False)
    except (UsageError, MessageConflict) as error:
        if len(lines) == 1 and (renamed := _with_thread_in_id(lines[0], error)):
            return await _save_lines(memory, scope, [renamed], summary)
        if len(lines) == 1:
            summary.refuse(lines[0].place, error)
            return scope, []
        kept = [await _save_lines(memory, scope, [line], summary) for line in lines]
        return scope, [message for _, messages in kept for message in messages]
    for line, is_new in zip(lines, _first_times(lines, result.new_ids), strict=True):
        summary.count(line, is_new)
    child = lines[0].child
    return scope, [] if child and not child.shares_memory else result.new_messages


def _with_thread_in_id(line: MessageLine, error: CasenotesError) -> MessageLine | None:
    """A message whose id counts within its conversation only, under an id that other conversations lack."""
    prefix = f"{line.scope.thread_id}:"
    message_id = str(line.message.id)
    taken = isinstance(error, MessageConflict) and line.message_number is not None
    if not taken or message_id.startswith(prefix):
        return None
    return replace(line, message=replace(line.message, id=prefix + message_id))


def _first_times(lines: Iterable[MessageLine], new_ids: Set[str]) -> list[bool]:
    """For each line whether it added its message: a repetition inside the batch did not."""
    left = set(new_ids)
    result = []
    for line in lines:
        result.append(line.message.id in left)
        left.discard(str(line.message.id))
    return result


async def _save_threads(memory: Memory, lines: Sequence[ThreadLine], summary: ImportSummary) -> None:
    for line in lines:
        try:
            await memory.update_thread(line.scope, title=line.title, metadata=line.metadata)
        except UsageError as error:
            summary.refuse(line.place, error)


async def _finish_vectors(memory: Memory, summary: ImportSummary) -> None:
    """An earlier import may have been killed between saving and embedding."""
    if summary.known:
        for owner in {scope.owner: None for scope in summary.threads}:
            summary.vectors += await memory.embed_missing(owner)


def _grouped(lines: Iterable[MessageLine]) -> list[list[MessageLine]]:
    """The lines of each thread; those said to a sub-agent apart from others."""
    groups: dict[tuple[Scope, ChildScope | None], list[MessageLine]] = {}
    for line in lines:
        groups.setdefault((line.scope, line.child), []).append(line)
    return list(groups.values())

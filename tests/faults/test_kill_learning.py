"""Processes killed while they learn: every turn that was acknowledged is learned from exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import learn_forever as script

from casenotes import Memory, Message, Scope
from casenotes.stores.base import active_space
from casenotes.stores.learning import ReceiptRow
from casenotes.testing import HashEmbedder, ScriptedModel
from casenotes.types import Entry

SCRIPT = Path(script.__file__)
STEPS = ("append", "acquire", "model", "embed", "save", "release")
KILLS = int(os.environ.get("CASENOTES_KILLS", "8"))
"""For each of the two stores; `make campaign` does more."""

LOOKED_AT_AFTER = 10
PATIENCE = 30.0


class Nursery:
    """A process that bears processes, which are killed here."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._child = 0
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        """All the while: a process that cannot print stands still, and may hold up the others."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def line(self) -> list[str]:
        try:
            return self._lines.get(timeout=PATIENCE).split()
        except Empty:
            raise AssertionError("it stands still") from None

    def bear(self, run: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{run}\n")
        self._process.stdin.flush()
        mark, number = self.line()
        assert mark == "born"
        self._child = int(number)

    def kill(self, step: str, count: int, after: float) -> list[list[str]]:
        """Kill the child a moment after it began a step for that many times; what it had told."""
        lines = []
        while count:
            lines.append(self.line())
            assert lines[-1][0] != "died", f"it ended by itself: {lines[-20:]}"
            count -= lines[-1] == [">", step]
        time.sleep(after)
        os.kill(self._child, signal.SIGKILL)
        while lines[-1][0] != "died":
            lines.append(self.line())
        return lines

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0
        self._reading.join(PATIENCE)
        assert not self._reading.is_alive()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Killed:
    """What processes had acknowledged, and what they were doing when they were killed."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self.done: set[str] = set()
        self.steps: Counter[str] = Counter()
        self.count = 0

    def read(self, lines: list[list[str]]) -> None:
        *told, end = lines
        assert end == ["died", "-9"], "it had ended before it was killed"
        self.count += 1
        under_way: Counter[str] = Counter()
        for mark, word in told:
            if mark in "<>":
                under_way[word] += 1 if mark == ">" else -1
            elif mark in ("said", "done"):
                getattr(self, mark).add(word)
        self.steps.update(step for step, count in under_way.items() if count > 0)


class Found:
    """All that a store holds of one user."""

    def __init__(self, messages: list[Message], ledger: list[ReceiptRow], entries: list[Entry]) -> None:
        self.messages = {str(message.id): message for message in messages}
        self.ledger = ledger
        self.entries = entries

    @property
    def names(self) -> list[str]:
        """Of all turns that were begun."""
        said = (re.match(r"Crane (\S+) stopped", m.text) for m in self.messages.values() if m.role == "user")
        return [match[1] for match in said if match]

    @property
    def answered(self) -> list[str]:
        said = (re.match(r"Noted for (\S+)\.$", m.text) for m in self.messages.values())
        return [match[1] for match in said if match]


async def found(memory: Memory, user: str) -> Found:
    owner = Scope("agent", user)
    messages: list[Message] = []
    for thread in await memory.threads(owner):
        history = await memory.history(Scope("agent", user, thread.thread_id), 1_000_000)
        assert [m.seq for m in history] == list(range(1, len(history) + 1))
        messages += history
    ledger = await memory.ledger(owner, limit=1_000_000)
    ids = [str(row.receipt.entry_id) for row in ledger if row.receipt.status == "stored"]
    entries = await memory.entries(owner, ids)
    assert len(ids) == len(set(ids)) == len(entries)
    return Found(messages, ledger, list(entries.values()))


def check_learned(user: Found) -> None:
    """Each completed turn has each of its receipts and entries once, with the words they came from."""
    assert len(user.messages) == len(user.names) + len(user.answered)
    assert len(set(user.names)) == len(user.names)
    receipts = Counter(row.turn_id for row in user.ledger)
    assert set(receipts.values()) == {script.CANDIDATES}
    assert len(receipts) == len(user.answered)
    contents = Counter(entry.content for entry in user.entries)
    expected = {text for name in user.answered for text in script.sentences(name)} | {script.SHARED}
    assert contents == Counter(expected)
    for entry in user.entries:
        quotes = [(user.messages[e.message_id].text[e.start : e.end], e.quote) for e in entry.evidence]
        assert quotes == [(entry.content, entry.content)] * len(quotes)
        sources = {quote.message_id for quote in entry.evidence}
        assert len(sources) == (len(user.answered) if entry.content == script.SHARED else 1)
    statuses = Counter((row.receipt.status, row.receipt.reason) for row in user.ledger)
    turns = len(user.answered)
    assert statuses == {
        ("stored", ""): 2 * turns + 1,
        ("corroborated", "known"): turns - 1,
        ("rejected", "evidence_not_found"): turns,
    } or (turns == 1 and len(statuses) == 2)


async def learn_the_rest(memory: Memory) -> None:
    """Others may hold leases for a moment after their death."""
    until = time.monotonic() + PATIENCE
    while (await memory.stats()).queued_turns:
        assert time.monotonic() < until, "turns are left that nobody learns from"
        await memory.work(once=True)
        await asyncio.sleep(0.02)


async def check(url: str, killed: Killed) -> int:
    model = ScriptedModel(lambda request: script.answer(request.prompt))
    embedder = HashEmbedder(script.DIMENSIONS)
    async with Memory.open(url, model=model, embedder=embedder, config=script.SETTINGS) as memory:
        await learn_the_rest(memory)
        users = [await found(memory, user) for user in ("mira", "jonas")]
        for user in users:
            check_learned(user)
        assert killed.said <= {name for user in users for name in user.names}
        assert killed.done <= {name for user in users for name in user.answered}
        space = active_space(await memory._store.spaces())
        assert space is not None
        for owner in (Scope("agent", "mira"), Scope("agent", "jonas")):
            missing = await memory._store.unembedded(owner, space.id, 1_000_000)
            assert [item for item in missing if item.kind == "entry"] == []
            await memory.embed_missing(owner)
        stats = await memory.stats()
        assert stats.entries == sum(len(user.entries) for user in users)
        assert stats.vectors == stats.messages + stats.entries
        assert (stats.queued_turns, stats.dead_turns) == (0, 0)
        assert [finding for finding in await memory.check() if finding.status == "failed"] == []
        return sum(len(user.answered) for user in users)


def test_killed_while_learning(store_url: str) -> None:
    """On PostgreSQL two processes work on one store: one is killed, then the other, again and again."""
    chance = random.Random(17)
    killed = Killed()
    nurseries = [Nursery(store_url) for _ in range(2 if store_url.startswith("postgres") else 1)]
    while killed.count < KILLS:
        for nursery in nurseries:
            nursery.bear(f"{killed.count}x{nurseries.index(nursery)}")
        for nursery in nurseries:
            step = STEPS[killed.count % len(STEPS)]
            killed.read(nursery.kill(step, chance.randint(1, 6), chance.uniform(0, 0.004)))
        if killed.count % LOOKED_AT_AFTER == 0:
            asyncio.run(check(store_url, killed))
    for nursery in nurseries:
        nursery.close()
    turns = asyncio.run(check(store_url, killed))
    print(f"{killed.count} kills, {turns} turns, under way: {dict(killed.steps)}")
    assert killed.count == KILLS
    assert turns >= len(killed.done) >= KILLS
    assert len(killed.steps) >= 5, f"the kills fell into too few steps: {killed.steps}"

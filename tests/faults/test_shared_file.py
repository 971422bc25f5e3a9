"""One SQLite file, several processes: nobody's locks are dropped, so nobody's log is taken away."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from casenotes import Memory, Scope
from casenotes.errors import UsageError
from casenotes.testing import HashEmbedder
from casenotes.transfer.importing import import_file
from casenotes.transfer.lines import ReadOptions

HERE = Path(__file__).parent
KILLS = int(os.environ.get("CASENOTES_KILLS", "2"))
MIRA = Scope("agent", "mira", "monday")
OPEN_AND_LEAVE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM scopes'); c.close()"
)


def open_and_leave(path: Path) -> None:
    """Another process uses the file; whoever leaves a file as the last one removes its log."""
    subprocess.run([sys.executable, "-c", OPEN_AND_LEAVE, str(path)], check=True)


@pytest.mark.parametrize("between", ["open", "erase", "check and stats"])
async def test_r13_01_another_process_that_leaves_does_not_remove_the_log(tmp_path: Path, between: str) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    async with Memory.open(f"sqlite:///{path}", embedder=HashEmbedder(16)) as memory:
        await memory.append(MIRA, "The boiler of house 7 leaks.")
        if between == "open":
            async with Memory.open(f"sqlite:///{path}", embedder=HashEmbedder(16)) as second:
                await second.append(MIRA, "Still.")
        elif between == "erase":
            assert (await memory.erase(Scope("agent", "mira"))).is_proven
        else:
            await memory.check()
            await memory.stats()
        before = log.stat().st_ino
        open_and_leave(path)
        assert log.stat().st_ino == before
        await memory.append(MIRA, "It was mended.")


def test_r13_01_two_applications_lose_nothing_and_damage_nothing(tmp_path: Path) -> None:
    path, chance = tmp_path / "s.db", random.Random(7)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        command = [sys.executable, HERE / "share_store.py", f"sqlite:///{path}"]
        both = [
            subprocess.Popen([*command, f"{name}{kill}"], stdout=subprocess.PIPE, text=True) for name in "ab"
        ]
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for _ in range(3):
            open_and_leave(path)
        time.sleep(chance.uniform(0.05, 0.3))
        for process in both:
            process.kill()
            lines = process.communicate()[0].splitlines(keepends=True)
            acknowledged |= {line.strip() for line in lines if line.endswith("\n")}
    assert len(acknowledged) > 10 * KILLS
    connection = sqlite3.connect(path)
    found = {row[0] for row in connection.execute("SELECT message_id FROM messages")}
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert acknowledged - found == set()


def test_r13_02_nobody_but_sqlite_opens_a_database_file(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "only_sqlite.py", tmp_path / "s.db"]
    environment = {**os.environ, "CASENOTES_EMBEDDER_MODEL": "static"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {"created"}, "an exclusive creation opens no file that exists"


def test_r13_02_no_file_of_the_store_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    options = ReadOptions("agent", "mira", "monday", UTC, datetime.now(UTC))
    link = tmp_path / "link.db"
    link.symlink_to(path)

    async def import_itself(name: str) -> None:
        async with Memory.open(f"sqlite:///{link}", embedder=HashEmbedder(16)) as memory:
            await memory.append(MIRA, "Hello.")
            with pytest.raises(UsageError, match="is the store itself"):
                await import_file(memory, tmp_path / name, options)

    for name in ("s.db", "s.db-wal", "link.db"):
        asyncio.run(import_itself(name))


async def test_a_link_to_a_missing_file_makes_a_private_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    async with Memory.open(f"sqlite:///{tmp_path / 'link.db'}", embedder=HashEmbedder(16)) as memory:
        assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o600
        await memory.append(MIRA, "The boiler of house 7 leaks.")
        assert (await memory.erase(MIRA)).residue.files >= 3, (
            "the log lies beside the file, not beside the link"
        )

"""What only the SQLite store promises: place, permissions, durability settings, clear errors."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from casenotes import Memory, Message, Scope, StorageSettings
from casenotes.errors import (
    MessageConflict,
    Overloaded,
    SettingsError,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)
from casenotes.stores import create_store
from casenotes.stores.sqlite.store import SqliteStore
from casenotes.testing.store_contract import ANN, NOON, said


async def opened(path: Path, settings: StorageSettings | None = None) -> SqliteStore:
    store = create_store(f"sqlite:///{path}", settings)
    await store.open()
    return store


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_files_are_private_and_settings_durable(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    await store.append(ANN, [said("a")])
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
    pragmas = ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
    found = await store._read(lambda c: [c.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas])
    assert found == ["wal", 2, 1, 1]
    await store.close()


async def test_readers_cannot_write(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    with pytest.raises(StoreUnavailable, match="readonly"):
        await store._read(lambda connection: connection.execute("DELETE FROM message_rows"))
    await store.close()


async def test_callers_share_a_commit(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    await asyncio.gather(*(store.append(ANN, [said(f"m{n}")]) for n in range(200)))
    commits = await store._read(
        lambda c: c.execute("SELECT count(DISTINCT change) FROM messages").fetchone()[0]
    )
    assert commits < 20
    await store.close()


async def test_a_conflict_in_a_shared_commit_takes_nothing_with_it(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    await store.append(ANN, [said("taken", "x")])
    work = [store.append(Scope("a", f"u{n}", "t"), [said("m")]) for n in range(40)]
    results = await asyncio.gather(store.append(ANN, [said("taken", "y")]), *work, return_exceptions=True)
    assert isinstance(results[0], MessageConflict)
    assert all(result.new_ids == {"m"} for result in results[1:])
    await store.close()


async def test_memory_urls_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with Memory.open("sqlite:///:memory:") as memory:
        await memory.append(ANN, "hello")
        assert len(await memory.recall(ANN, "hello")) == 1
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    with pytest.raises(StoreDamaged, match="is not a database or is damaged"):
        await opened(path)
    assert path.read_text().startswith("these are my notes")


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        await opened(path)
    assert path.read_bytes() == before
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    connection.close()


async def test_opening_again_and_again_leaves_no_thread_or_file_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    for delay in (0, 0.0005, 0.001, 0.002, 0.005, 0.02):
        task = asyncio.create_task(opened(tmp_path / "s.db"))
        await asyncio.sleep(delay)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task.result().close()
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("casenotes-")]
    assert names == []
    assert threading.active_count() <= before + 8  # the loop's own pool of threads
    descriptors = Path("/proc/self/fd")
    if descriptors.exists():
        assert not [file for file in descriptors.iterdir() if "s.db" in str(file.resolve())]


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    await store._write(lambda connection: connection.execute("PRAGMA user_version = 99"))
    await store.close()
    with pytest.raises(StoreTooNew, match=r"schema 99.*upgrade"):
        await opened(tmp_path / "s.db")


async def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"missing'? does not exist; create it"):
        await opened(tmp_path / "missing" / "s.db")
    with pytest.raises(StoreUnavailable, match="is a directory"):
        await opened(tmp_path)
    for url in ("sqlite://", "sqlite:///", "sqlite:file.db"):
        with pytest.raises(SettingsError, match="names no file"):
            create_store(url)


async def test_a_read_only_directory_is_named() -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o555)
        try:
            with without_privileges(), pytest.raises(StoreUnavailable, match="Permission denied"):
                await opened(place / "s.db")
        finally:
            place.chmod(0o755)


async def test_too_much_at_once_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db", StorageSettings(max_queued_writes=20))
    work = [store.append(ANN, [said(f"m{n}")]) for n in range(400)]
    results = await asyncio.gather(*work, return_exceptions=True)
    refused = [r for r in results if isinstance(r, Overloaded)]
    saved = [r for r in results if not isinstance(r, Exception)]
    assert len(refused) + len(saved) == 400
    assert "slow down" in str(refused[0])
    assert len(await store.history(ANN, limit=500)) == len(saved)
    await store.close()


async def test_a_lock_held_by_another_process_is_waited_for_then_named(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db", StorageSettings(busy_timeout_seconds=0.2))
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await store.append(ANN, [said("a")])
    other.execute("ROLLBACK")
    other.close()
    await store.append(ANN, [said("a")])
    await store.close()


async def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    tasks = [asyncio.create_task(store.append(ANN, [said(f"m{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*tasks)
    again = await opened(tmp_path / "s.db")
    assert len(await again.history(ANN, limit=100)) == 50
    await again.close()


async def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = await opened(path)
    await store.append(ANN, [said(f"m{n}", "text " * 200) for n in range(100)])
    await store.close()
    content = bytearray(path.read_bytes())
    content[-8192:] = b"\xaa" * 8192
    path.write_bytes(content)
    store = await opened(path)
    findings = await store.check()
    assert "failed" in {finding.status for finding in findings if finding.name == "integrity"}
    await store.close()


async def test_open_permissions_are_a_warning(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    (tmp_path / "s.db").chmod(0o644)
    by_name = {finding.name: finding for finding in await store.check()}
    assert by_name["permissions"].status == "warning"
    assert "chmod 600" in by_name["permissions"].remedy
    await store.close()


async def test_times_and_messages_keep_their_order_within_one_microsecond(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s.db")
    await store.append(ANN, [Message("user", "x", id="a", created_at=NOON.replace(microsecond=999_999))])
    (message,) = await store.history(ANN, limit=1)
    assert message.created_at == NOON.replace(microsecond=999_999)
    await store.close()

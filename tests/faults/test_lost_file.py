"""A SQLite file that is deleted, moved or replaced while it is open: nothing is acknowledged and then lost."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from casenotes import Memory, Scope
from casenotes.errors import StoreUnavailable
from casenotes.testing import HashEmbedder

MOVES = int(os.environ.get("CASENOTES_MOVES", "2"))
MIRA = Scope("agent", "mira", "monday")


def opened(path: Path) -> Memory:
    return Memory.open(f"sqlite:///{path}", embedder=HashEmbedder(16))


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replace(path: Path) -> None:
    shutil.copyfile(path, path.with_name("backup.db"))
    path.with_name("backup.db").rename(path)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def aim_elsewhere(path: Path) -> None:
    """The store is opened through a link, which then leads to another file."""
    other = path.with_name("other.db")
    other.touch()
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("lose", [delete, move, move_folder, replace, delete_log, aim_elsewhere])
async def test_r13_04_nothing_is_acknowledged_once_the_file_is_gone(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "store" / "s.db"
    path.parent.mkdir()
    if lose is aim_elsewhere:
        path.symlink_to(path.with_name("target.db"))
    async with opened(path) as memory:
        await memory.append(MIRA, "The boiler of house 7 leaks.")
        lose(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"s\.db.* while it was open; nothing was saved: put"):
                await memory.append(MIRA, "It was mended.")
        with pytest.raises(StoreUnavailable, match="while it was open"):
            await memory.begin(MIRA, "Who mended it?")
        with pytest.raises(StoreUnavailable, match="while it was open"):
            await memory.erase(MIRA.owner)
        finding = (await memory.check())[0]
        assert (finding.name, finding.status) == ("file", "failed")
        assert "while it was open" in finding.detail
        assert path.exists() == (lose in (replace, delete_log, aim_elsewhere)), "nothing makes a new file there"


async def test_r13_04_a_file_that_was_overwritten_in_place_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as memory:
        await memory.append(MIRA, "The boiler of house 7 leaks.")
    async with opened(path) as memory:
        path.write_bytes(b"no database " * 10_000)
        assert [finding.status for finding in await memory.check() if finding.name == "integrity"] == ["failed"]


async def test_r13_04_a_file_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as memory:
        await memory.append(MIRA, "The boiler of house 7 leaks.")
        move(path)
        with pytest.raises(StoreUnavailable, match="deleted or moved"):
            await memory.append(MIRA, "It was mended.")
        path.with_name("moved.db").rename(path)
        await memory.append(MIRA, "It leaks again.")
        assert (await memory.check())[0].status == "ok"
    async with opened(path) as memory:
        said = [message.text for message in await memory.history(MIRA)]
        assert said[0] == "The boiler of house 7 leaks."
        assert said[-1] == "It leaks again."


@pytest.mark.parametrize("seed", range(MOVES))
async def test_r13_04_what_was_acknowledged_before_a_move_is_in_the_moved_file(
    tmp_path: Path, seed: int
) -> None:
    path, acknowledged, number = tmp_path / "s.db", list[str](), 0
    pause = random.Random(seed).uniform(0, 0.05)

    def move_later() -> None:
        time.sleep(pause)
        move(path)

    async with opened(path) as memory:
        moving = asyncio.create_task(asyncio.to_thread(move_later))
        with pytest.raises(StoreUnavailable, match="deleted or moved"):  # noqa: PT012
            while True:
                number += 1
                await memory.append(MIRA, f"line {number}")
                acknowledged.append(f"line {number}")
        await moving
    path.with_name("s.db-wal").rename(tmp_path / "moved.db-wal")  # what SQLite had no time to move
    async with opened(tmp_path / "moved.db") as memory:
        found = [message.text for message in await memory.history(MIRA, limit=number + 1)]
        assert found[: len(acknowledged)] == acknowledged


async def test_r13_04_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with opened(Path("s.db")) as memory:
        await memory.append(MIRA, "The boiler of house 7 leaks.")
        monkeypatch.chdir(tmp_path / "elsewhere")
        await memory.append(MIRA, "It was mended.")
        assert (await memory.erase(MIRA)).is_proven
    assert list((tmp_path / "elsewhere").iterdir()) == []

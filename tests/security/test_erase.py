"""Erased data is gone from every byte of every file of the store, and nothing brings it back."""

from __future__ import annotations

import re
import secrets
import sqlite3
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conversation import JONAS, LATER, MIRA, entry, opened, proposes, settings, turn

from casenotes import Memory, Message, Scope, ToolCall, ToolResult
from casenotes.config import ProfileSettings
from casenotes.curate.residue import fingerprints_of, pieces_of, scan, telling_place
from casenotes.errors import InvalidScope
from casenotes.stores.postgres.erasure import server_files
from casenotes.testing import ScriptedModel
from casenotes.types import ChildScope

CANARIES = 220
CONFIG = replace(settings(), profile=ProfileSettings(learn=True), titles="model")
CANARY = re.compile(rb"canary-[0-9a-f]{24}")


def canary() -> str:
    return f"canary-{secrets.token_hex(12)}"


class Aviary:
    """Canaries planted in every place that a user's data can reach."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.resource = self.new()
        self.scope = Scope("support", self.resource, self.new())

    def new(self) -> str:
        self.names.append(canary())
        return self.names[-1]

    def text(self) -> str:
        return f"The cupboard {self.new()} was opened with tool {self.new()} on Monday."

    async def fill(self, memory: Memory) -> None:
        """Messages, parts, metadata, titles, entries, receipts, errors, revisions, vectors and layers."""
        for number in range(8):
            await self._turn(memory, replace(self.scope, thread_id=self.new()), number)
        await self.fill_layers(memory, replace(self.scope, thread_id=self.new()))
        await self.fill_layers(memory, replace(self.scope, thread_id=self.new()))
        await memory.update_thread(
            replace(self.scope, thread_id=(await memory.threads(self.scope))[0].thread_id),
            title=self.new(),
            metadata={self.new(): self.new()},
        )
        kept = await memory.remember(self.scope, self.text())
        await memory.forget(self.scope, entry_id=(await memory.remember(self.scope, self.text())).id)
        await memory.recall(self.scope, kept.content)
        while len(self.names) < CANARIES:
            await memory.append(self.scope, self.text())
        await memory.flush()

    async def fill_layers(self, memory: Memory, scope: Scope) -> None:
        """Profile and plan by tool and by host, several versions of each; attempts, sub-agents, a summary."""
        begun = await memory.begin(scope, self.text())
        tools = {tool.name: tool for tool in begun.tools}
        for _ in range(2):
            await tools["update_profile"].call(field="User Context/Role", action="set", value=self.new())
            await memory.update_profile(scope, f"Current Goals/{self.new()}", "append", self.new())
            steps = [{"text": self.text(), "status": "done"}, {"text": self.new(), "status": "pending"}]
            plan = await tools["plan"].call()
            await tools["plan"].call(goal=self.text(), phase=self.new(), steps=steps, version=plan["version"])
        plan = await memory.plan(scope)
        await memory.update_plan(scope, updates=[{"step": 1, "text": self.text()}], version=plan.version)
        await memory.complete(begun, self.text(), sync=True)
        await memory.undo_profile(scope)
        await memory.record_attempt(scope, self.text(), self.text(), self.new(), "failure")
        for shares in (False, True):
            await self._child(memory, scope.child(self.new(), shares_memory=shares))
        await memory.finish(scope)

    async def _child(self, memory: Memory, child: ChildScope) -> None:
        """A sub-agent that fails, and has another one of its own."""
        told = await memory.briefing(child.parent, self.text(), self.text())
        begun = await memory.begin(child, told.text)
        for tool in begun.tools:
            if tool.name == "update_profile":
                await tool.call(field=f"Current Goals/{self.new()}", action="set", value=self.new())
        await memory.complete(begun, self.text(), "failure", error=self.text())
        inner = await memory.begin(child.scope.child("inner"), self.text())
        await memory.complete(inner, self.text())
        await memory.finish(child)

    async def _turn(self, memory: Memory, scope: Scope, number: int) -> None:
        said = Message("user", self.text(), id=self.new(), metadata={"from": self.new()})
        begun = await memory.begin(scope, said)
        call = Message("assistant", "", parts=(ToolCall("c1", "probe", {"host": self.new()}),))
        result = Message("tool", "", parts=(ToolResult("c1", self.text()),))
        await memory.step(begun, [call, result])
        await memory.complete(begun, self.text(), sync=True, outcome="success" if number else "failure")


def names_in(text: str) -> list[str]:
    return [name.decode() for name in CANARY.findall(text.encode())]


def learner() -> ScriptedModel:
    """Stores what the user says, and proposes something that is refused; once it fails with the words in it."""
    state = {"calls": 0}

    def answer(request: object) -> object:
        state["calls"] += 1
        prompt = request.prompt  # type: ignore[attr-defined]
        if request.task == "profile":  # type: ignore[attr-defined]
            return {"patch": [{"field": "User Context/Name", "action": "set", "value": names_in(prompt)[-1]}]}
        if request.task in ("summarise", "title"):  # type: ignore[attr-defined]
            return {"text": f"About {' and '.join(names_in(prompt)[:2])}"}
        if request.task != "extract":  # type: ignore[attr-defined]
            return {}
        said = prompt.rpartition('{"role": "user", "text": "')[2].partition('"')[0]
        if state["calls"] == 2:
            raise ValueError(f"cannot digest {said}")
        return {"entries": [entry(said, said), entry(f"Nobody said so: {said}", "never said by anybody")]}

    return ScriptedModel(answer)


def files_of(url: str) -> list[Path]:
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    with psycopg.connect(url, autocommit=True) as connection:
        folder = connection.execute("SHOW data_directory").fetchone()[0]
    return [file for file in Path(folder).rglob("*") if file.is_file()]


def left_in(url: str, names: list[str]) -> dict[str, list[str]]:
    """Canaries that stand in any file, found the plain way."""
    found: dict[str, list[str]] = {}
    for file in files_of(url):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            continue
        for name in {match.decode() for match in CANARY.findall(data)} & set(names):
            found.setdefault(name, []).append(file.name)
    return found


@pytest.fixture
def aviary() -> Aviary:
    return Aviary()


class TestNothingIsLeft:
    async def test_no_byte_of_a_resource(self, store_url: str, aviary: Aviary) -> None:
        other = Aviary()
        async with opened(store_url, learner(), config=CONFIG) as memory:
            await aviary.fill(memory)
            await turn(memory, other.scope, other.text())
            before = left_in(store_url, aviary.names)
            assert len(before) >= CANARIES - 5, "the log's own page headers may cut through a few"
            erased = await memory.erase(Scope("support", aviary.resource))
            assert erased.rows["messages"] > 30
            assert erased.rows["entries"] > 5
            assert erased.rows["layer_states"] > 15
            assert erased.rows["episodes"] == 4
            assert (erased.not_done, erased.residue.left, erased.is_proven) == ("", (), True)
            assert erased.residue.pieces >= CANARIES
            assert erased.residue.bytes_read > 10_000
            assert left_in(store_url, aviary.names) == {}
            assert await memory.recall(aviary.scope, "cupboard tool") == []
            assert len(left_in(store_url, other.names)) == 4, "the other user's data is there"
            await memory.flush()
        assert left_in(store_url, aviary.names) == {}

    async def test_no_byte_of_a_thread(self, store_url: str, aviary: Aviary) -> None:
        kept = f"The cellar {canary()} was painted."
        async with opened(store_url, learner(), config=CONFIG) as memory:
            other = replace(aviary.scope, thread_id="kept")
            await turn(memory, other, kept)
            await memory.update_profile(other, "User Context/Organisation", "set", "Halvorsen")
            await memory.update_plan(other, goal="Paint the attic.")
            await memory.finish(other)
            await turn(memory, aviary.scope, aviary.text(), aviary.text())
            await aviary.fill_layers(memory, aviary.scope)
            assert len(left_in(store_url, aviary.names[1:])) >= len(aviary.names) - 3
            erased = await memory.erase(aviary.scope)
            assert erased.is_proven
            assert left_in(store_url, aviary.names[1:]) == {}, "all but the resource's own id"
            assert (await memory.profile(other)).fields["User Context/Organisation"] == ("Halvorsen",)
            assert (await memory.plan(other)).goal == "Paint the attic."
            assert [run.thread_id for run in await memory.episodes(other)] == ["kept"]
            assert [thread.thread_id for thread in await memory.threads(other)] == ["kept"]
            hits = await memory.recall(aviary.scope, "the cellar was painted")
            assert {hit.content for hit in hits} == {kept}
            assert (await memory.audit()).failed == ()

    async def test_no_event_of_another_thread_tells_what_the_profile_held(self, store_url: str) -> None:
        name = canary()
        patches = [
            {"field": "User Context/Role", "action": "remove", "value": ""},
            {"field": "User Context/Role", "action": "remove", "value": "baker"},
        ]
        model = ScriptedModel(lambda request: {"patch": patches} if request.task == "profile" else {})
        async with opened(store_url, model, config=CONFIG) as memory:
            await memory.append(MIRA, "Hello.")
            await memory.update_profile(MIRA, "User Context/Role", "set", f"keeper of {name}")
            await turn(memory, LATER, "Good morning.")
            history = await memory.event_history(LATER)
            assert [event.data["reason"] for event in history if event.name == "profile.refused"] == [
                "unsupported",
                "refused",
            ]
            assert (await memory.erase(MIRA)).is_proven
            assert left_in(store_url, [name]) == {}

    async def test_conversations_with_names_like_those_of_sub_agents_stay(self, store_url: str) -> None:
        acme, ticket = Scope("support", "mira", "acme"), Scope("support", "mira", "acme/ticket-20260114")
        async with opened(store_url) as memory:
            for scope in (acme, ticket):
                await turn(memory, scope, "Hello.")
            child = await memory.begin(acme.child("helper"), "Look.")
            inner = await memory.begin(child.scope.child("inner"), "Look closer.")
            under = {thread.thread_id: thread.parent_id for thread in await memory.threads(acme)}
            assert under == {
                "acme": None,
                "acme/ticket-20260114": None,
                child.scope.thread_id: "acme",
                inner.scope.thread_id: child.scope.thread_id,
            }
            await memory.erase(acme, scrub=False)
            assert [thread.thread_id for thread in await memory.threads(acme)] == ["acme/ticket-20260114"]

    async def test_what_a_sub_agent_failed_at_goes_with_its_thread(self, store_url: str) -> None:
        name = canary()
        async with opened(store_url) as memory:
            await turn(memory, MIRA, "Hello.")
            child = await memory.begin(MIRA.child("helper"), f"Call {name}.")
            await memory.complete(child, f"{name} hung up.", "failure", error=f"no answer from {name}")
            await memory.record_attempt(MIRA, "Write a letter", "by hand", "no stamps")
            assert len(await memory.attempts(MIRA)) == 2
            assert (await memory.erase(child.scope)).is_proven
            assert [attempt.task for attempt in await memory.attempts(MIRA)] == ["Write a letter"]
            assert left_in(store_url, [name]) == {}

    async def test_a_user_who_comes_back_is_found_again_in_every_open_memory(self, store_url: str) -> None:
        async with opened(store_url) as one, opened(store_url) as two:
            for memory in (one, two):
                await memory.append(MIRA, "The boiler of house 7 leaks.")
                assert len(await memory.recall(MIRA, "boiler of house 7")) > 0
            await one.erase(MIRA.owner, scrub=False)
            assert await two.recall(MIRA, "boiler of house 7") == []
            await two.append(MIRA, "The stairs of house 9 creak.")
            for memory in (one, two):
                found = [hit.content for hit in await memory.recall(MIRA, "stairs and boiler of house 9")]
                assert found == ["The stairs of house 9 creak."]

    async def test_the_scan_finds_what_a_plain_delete_leaves(self, sqlite_url: str) -> None:
        """The control: without secure deletion the very same scan sees the remains."""
        async with opened(sqlite_url) as memory:
            text = f"The secret garden {canary()} lies behind the wall of the old house."
            await memory.append(MIRA, text)
        path = Path(sqlite_url.removeprefix("sqlite:///"))
        assert scan([path], pieces_of([text.encode()]))[1]
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DELETE FROM message_rows")
        connection.commit()
        connection.close()
        assert scan([path], pieces_of([text.encode()]))[1], "the words are still in a free part of the file"
        async with opened(sqlite_url) as memory:
            await memory.erase(MIRA.owner)
        assert not scan([path], pieces_of([text.encode()]))[1]

    async def test_words_that_others_said_too_are_no_remains(self, store_url: str) -> None:
        common = "We wish you a pleasant journey and hope to see you again soon."
        async with opened(store_url) as memory:
            await memory.append(MIRA, common)
            await memory.append(JONAS, common)
            erased = await memory.erase(MIRA.owner)
            assert erased.is_proven

    async def test_nothing_to_erase_is_said_in_numbers_and_no_scope_is_an_error(self, store_url: str) -> None:
        async with opened(store_url) as memory:
            erased = await memory.erase(Scope("support", "nobody"))
            assert set(erased.rows.values()) == {0}
            with pytest.raises(InvalidScope, match="say what to erase"):
                await memory.erase(Scope("support"))

    async def test_without_scrubbing_the_result_claims_no_proof(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, proposes()) as memory:
            await memory.append(MIRA, "The boiler of house 7 leaks.")
            erased = await memory.erase(MIRA.owner, scrub=False)
            assert (erased.scrubbed, erased.is_proven, erased.residue.skipped) == (
                False,
                False,
                "not looked for",
            )


class TestUnfinished:
    """An erasure that was not proven stays so, however often it is repeated, until its remains are gone."""

    async def test_r14_01_while_a_reader_holds_the_log(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("casenotes.stores.sqlite.erasure.CHECKPOINT_TRIES", 2)
        name = canary()
        async with opened(sqlite_url) as memory:
            for number in range(5):
                await memory.append(MIRA, f"The {name} of house {number} sings in the morning.")
            await memory.append(JONAS, "The garden is large.")
            await memory.flush()
            reader = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM messages").fetchone()
            for rows in (5, 0, 0):
                erased = await memory.erase(MIRA.owner)
                assert (erased.rows["messages"], erased.is_proven) == (rows, False)
                assert "close it and repeat" in erased.not_done
                assert b"The canary" in b"".join(erased.residue.left)
            assert left_in(sqlite_url, [name]) != {}
            reader.close()
        async with opened(sqlite_url) as memory:
            finished = await memory.erase(MIRA.owner)
            assert (sum(finished.rows.values()), finished.is_proven) == (0, True)
            assert finished.residue.pieces >= 5
            assert left_in(sqlite_url, [name]) == {}
            again = await memory.erase(MIRA.owner)
            assert (again.is_proven, again.residue.pieces) == (False, 0), "nothing was looked for"

    async def test_r14_02_short_texts_are_looked_for_later_too(self, sqlite_url: str) -> None:
        name = canary()[:16]
        async with opened(sqlite_url) as memory:
            await memory.append(MIRA, f"It is {name}.")
            await memory.append(LATER, "Hello.")
            await memory.flush()
            reader = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM messages").fetchone()
            for _ in range(2):
                erased = await memory.erase(MIRA)
                assert not erased.is_proven
                assert name.encode() in b"".join(erased.residue.left)
            reader.close()
            finished = await memory.erase(MIRA)
            assert (sum(finished.rows.values()), finished.is_proven) == (0, True)
        assert left_in(sqlite_url, [name]) == {}

    async def test_r14_01_while_a_snapshot_holds_dead_rows(self, postgres_url: str) -> None:
        name = canary()
        async with opened(postgres_url) as memory:
            await memory.append(MIRA, f"The {name} of house 7 sings in the morning.")
            await memory.flush()
            with psycopg.connect(postgres_url) as reader:
                reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                reader.execute("SELECT 1")
                for rows in (1, 0):
                    erased = await memory.erase(MIRA.owner)
                    assert (erased.rows["messages"], erased.is_proven) == (rows, False)
            finished = await memory.erase(MIRA.owner)
            assert (sum(finished.rows.values()), finished.is_proven) == (0, True)
        assert left_in(postgres_url, [name]) == {}

    async def test_r14_02_what_was_removed_without_a_scan_is_looked_for_later(self, store_url: str) -> None:
        name = canary()
        async with opened(store_url) as memory:
            await memory.append(MIRA, f"The {name} of house 7 sings in the morning.")
            await memory.append(LATER, "Hello.")
            await memory.erase(MIRA, scrub=False)
            finished = await memory.erase(MIRA)
            assert (sum(finished.rows.values()), finished.is_proven) == (0, True)
            assert finished.residue.pieces > 0
        assert left_in(store_url, [name]) == {}

    async def test_r14_03_no_text_is_kept_to_look_for_later(self, sqlite_url: str) -> None:
        text = f"The {canary()} of house 7 sings in the morning."
        async with opened(sqlite_url) as memory:
            await memory.append(MIRA, text)
            await memory.erase(MIRA.owner, scrub=False)
        connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
        stored = b"".join(*connection.execute("SELECT * FROM unproven_erasures"))
        connection.close()
        words = [text[at : at + 4].encode() for at in range(len(text) - 3)]
        assert [word for word in [*words, b"mira"] if word in stored] == []


class TestScan:
    def test_r14_02_fingerprints_find_what_the_words_would(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("casenotes.curate.residue.CHUNK", 64)
        needle, short, key = bytes(range(1, 33)), b"twelve bytes", b"owner"
        fingerprints = fingerprints_of({needle, short, b"it is nowhere"}, key)
        assert len(fingerprints) == 3 * 8
        for place in range(0, 130, 7):
            file = tmp_path / f"{place}.bin"
            file.write_bytes(b"x" * place + needle + b"y" * 50 + short)
            assert scan([file], set(), fingerprints, key) == (place + 94, {needle, short})
            assert scan([file], set(), fingerprints, b"another") == (place + 94, set())

    async def test_r14_01_a_file_that_cannot_be_seen_is_no_proof(self, tmp_path: Path) -> None:
        """Of the server's folder, links to other disks are followed, and other databases left out."""
        server, disk = tmp_path / "server", tmp_path / "disk"
        for place in ("server/base/5", "server/base/7", "disk/PG_16_1/5", "disk/PG_16_1/7", "wal"):
            (tmp_path / place).mkdir(parents=True)
            (tmp_path / place / "1").touch()
        (server / "pg_tblspc").mkdir()
        (server / "pg_tblspc" / "16400").symlink_to(disk)
        (server / "pg_wal").symlink_to(tmp_path / "wal")
        files = {str(file.relative_to(server)) for file in server_files(server, "7")}
        assert files == {"base/7/1", "pg_tblspc/16400/PG_16_1/7/1", "pg_wal/1"}

    def test_a_remnant_across_two_parts_of_a_file_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("casenotes.curate.residue.CHUNK", 64)
        needles = {bytes(range(1, 33)), bytes(20) + bytes(range(1, 13)), b"a" + bytes(20) + bytes(range(1, 12))}
        for place in range(0, 130, 7):
            for needle in needles:
                file = tmp_path / f"{place}.bin"
                file.write_bytes(b"x" * place + needle + b"y" * 50)
                assert scan([file], needles) == (place + 82, {needle})

    def test_what_is_looked_for_first_does_not_stand_everywhere(self) -> None:
        assert telling_place(b"The cupboard was opened on Monday") == 0
        for piece in (bytes(20) + bytes(range(1, 13)), b"        - not so, said the old man"):
            place = telling_place(piece)
            assert len(set(piece[place : place + 8])) >= 7

    def test_short_and_empty_texts_and_missing_files(self, tmp_path: Path) -> None:
        assert pieces_of([b"", b"short", b"\x00" * 99]) == set()
        assert pieces_of([b"twelve bytes"]) == {b"twelve bytes"}
        assert scan([tmp_path / "missing"], {b"twelve bytes"}) == (0, set())

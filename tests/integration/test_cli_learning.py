"""`casenotes worker` and `casenotes ledger` as a user runs them, against a real loopback model server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from conversation import JONAS, MIRA, SAID, SKEW, entry, opened, proposes, settings, turn
from model_server import ModelServer, run, run_process, serving

from casenotes import JobSettings

ANSWER = {"entries": [entry(SKEW, SAID), entry("Nobody said it.", "this was never said by anyone")]}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with serving(lambda _prompt: ANSWER) as server:
        yield server


async def queued_turns(url: str) -> None:
    """Two users' turns that nobody has learned from yet."""
    config = replace(settings(), jobs=JobSettings(in_process=False))
    async with opened(url, proposes(), config=config, embedder="static") as memory:
        for scope in (MIRA, JONAS):
            under_way = await memory.begin(scope, SAID)
            await memory.complete(under_way, "I see.")


async def test_a_worker_learns_and_the_ledger_tells(sqlite_url: str, server: ModelServer) -> None:
    await queued_turns(sqlite_url)
    counts = json.loads(
        await run_process("worker", "--db", sqlite_url, "--model", server.name, "--once", "--json")
    )
    assert counts == {
        "turns": 2,
        "stored": 2,
        "corroborated": 0,
        "quarantined": 0,
        "superseded": 0,
        "rejected": 2,
        "observations": 0,
        "reflections": 0,
        "failed": 0,
    }
    assert len(server.requests) == 2
    rows = json.loads(await run("ledger", "--db", sqlite_url, "--agent", "support", "--json"))["receipts"]
    assert {(row["resource"], row["status"], row["reason"]) for row in rows} == {
        (user, status, reason)
        for user in ("mira", "jonas")
        for status, reason in (("stored", ""), ("rejected", "evidence_not_found"))
    }
    text = await run(
        "ledger", "--db", sqlite_url, "--agent", "support", "--resource", "mira", "--status", "rejected"
    )
    assert "rejected (evidence_not_found)" in text
    assert "this was never said by anyone" in text
    assert "stored" not in text
    hits = json.loads(
        await run(
            "recall", "webhook 401", "--db", sqlite_url, "--agent", "support", "--resource", "mira", "--json"
        )
    )["hits"]
    assert {hit["kind"] for hit in hits} == {"entry", "message"}


async def test_a_worker_that_is_told_to_stop_stops(store_url: str, server: ModelServer) -> None:
    await queued_turns(store_url)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "casenotes",
        "worker",
        "--db",
        store_url,
        stderr=subprocess.PIPE,
        env={**os.environ, "CASENOTES_MODEL": server.name},
    )
    assert process.stderr is not None
    lines: list[str] = []
    while len([line for line in lines if "stored 1, corroborated 0, rejected 1" in line]) < 2:
        lines.append((await asyncio.wait_for(process.stderr.readline(), 30)).decode())
    assert len([line for line in lines if "0 observations of 2 messages" in line]) <= 2
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_dead_letters_are_shown_and_revived(sqlite_url: str, server: ModelServer) -> None:
    async with opened(
        sqlite_url, server.name, config=replace(settings(), jobs=JobSettings(attempts=1)), embedder="static"
    ) as memory:
        server.failures = 1
        receipt = await turn(memory, MIRA, SAID)
        assert receipt.status == "failed"
        assert "given up after 1 attempts" in receipt.reason
    findings = json.loads(await run("doctor", "--db", sqlite_url, "--json"))["findings"]
    (learning,) = [finding for finding in findings if finding["name"] == "learning"]
    assert learning["status"] == "warning"
    assert "--retry-dead" in learning["remedy"]
    counts = json.loads(
        await run_process(
            "worker", "--db", sqlite_url, "--model", server.name, "--once", "--retry-dead", "--json"
        )
    )
    assert counts["stored"] == 1


async def test_what_is_missing_is_named(sqlite_url: str, tmp_path: Path) -> None:
    assert "there is no store" in await run("worker", "--db", sqlite_url, "--model", "openai:x", code=1)
    await queued_turns(sqlite_url)
    assert "give --model" in await run("worker", "--db", sqlite_url, "--once", code=2)
    assert "OPENAI_API_KEY" in await run(
        "worker", "--db", sqlite_url, "--model", "openai:gpt-5-mini", "--once", code=2, OPENAI_API_KEY=""
    )
    assert "'lost' is not one of" in await run("ledger", "--db", sqlite_url, "--status", "lost", code=2)
    assert "needs --resource" in await run("ledger", "--db", sqlite_url, "--thread", "t", code=2)
    assert "no receipts here" in await run("ledger", "--db", sqlite_url)

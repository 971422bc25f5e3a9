"""Every way in which a model fails: the host's turn goes on, nothing is lost, nothing false is learned.

Each kind of failure leads to receipts, to another try later, or to a turn that is given up at once. In
all of them `begin` and `complete` do not wait for the model, the next turn works, and no key is told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from conversation import LATER, MIRA, SAID, SKEW, entry, opened, said_in, settings, statuses, turn
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from typer.testing import CliRunner

from casenotes import Memory, Settings, tasks
from casenotes.cli.app import app
from casenotes.config import JobSettings, ModelSettings, StorageSettings
from casenotes.errors import BudgetExceeded, ModelRefused
from casenotes.events import Event
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
FAULT = "The relay of db-1 was off since Monday, says Ada."
GOOD = entry("The relay of db-1 was off since Monday.", FAULT)
OTHER = entry("Ada found the relay.", "since Monday, says Ada")
NAME = "gpt-x"
PATIENCE = 20.0


@dataclass(frozen=True)
class Kind:
    """A failure, and what becomes of a turn that meets it: receipts, or the error it is kept with."""

    name: str
    respond: Callable[[], Any]
    receipts: Sequence[tuple[str, str]] | None = None
    error: str = ""
    is_given_up: bool = False


def learned(name: str, answer: Any, *receipts: tuple[str, str]) -> Kind:
    return Kind(name, lambda: answer, receipts)


def rejected(name: str, answer: Any, *reasons: str) -> Kind:
    return learned(name, answer, *(("rejected", reason) for reason in reasons))


def unreadable(name: str, answer: Any, why: str) -> Kind:
    return Kind(name, lambda: answer, error=f"UnreadableOutput: the model's answer {why}")


def raised(name: str, error: BaseException, text: str, is_given_up: bool = False) -> Kind:
    def respond() -> None:
        raise error

    return Kind(name, respond, error=text, is_given_up=is_given_up)


def http(status: int, message: str, **values: Any) -> ModelHTTPError:
    return ModelHTTPError(status, NAME, {"error": {"message": f"{message} for {KEY}"}}, **values)


def text(*entries: Any) -> str:
    return json.dumps({"entries": list(entries)})


def with_content(content: Any) -> dict[str, Any]:
    return {"entries": [{**GOOD, "content": content}]}


def with_evidence(evidence: Any) -> dict[str, Any]:
    return {"entries": [{**GOOD, "evidence": evidence}]}


STORED = ("stored", "")
TWO = text(GOOD, OTHER)
PAGE = "<!doctype html><html><head><style>body {margin: 0}</style></head><body>502 Bad Gateway</body></html>"
DEEP: Any = "x"
for _ in range(100):
    DEEP = [DEEP]

PROVIDERS = [
    raised("rate limit", http(429, "slow down"), "status 429"),
    raised("rate limit with retry-after", http(429, "slow down", retry_after=0.02), "status 429"),
    raised("rate limit with header", http(429, "slow down", headers={"retry-after": "0.02"}), "status 429"),
    raised("server error", http(500, "oops"), "status 500"),
    raised("overloaded", http(503, "oops"), "status 503"),
    raised("unknown model", http(404, "no such model"), "status 404"),
    raised("wrong key", http(401, "wrong key"), "ModelRefused: model 'scripted' failed (status 401)"),
    raised("forbidden", http(403, "not yours"), "ModelRefused: model 'scripted' failed (status 403)"),
    raised("bad request", http(400, "too long"), "ModelRefused: model 'scripted' failed (status 400)", True),
    raised("content filter", ModelRefused(f"refused (content filter): {KEY}"), "ModelRefused: refused", True),
    raised("connection refused", ConnectionRefusedError(111, f"refused by {KEY}"), "ConnectionRefusedError"),
    raised("connection lost", ModelAPIError(NAME, f"no answer for {KEY}"), "ModelAPIError"),
    raised("timeout of the client", TimeoutError(), "no answer in time"),
    raised("odd answer for the client", UnexpectedModelBehavior(f"what? {KEY}"), "UnexpectedModelBehavior"),
    raised("runtime error", RuntimeError(f"Authorization: Bearer {KEY}"), "RuntimeError"),
    raised("key error", KeyError("choices"), "KeyError"),
    raised("memory error", MemoryError(), "MemoryError"),
    raised("recursion error", RecursionError("maximum recursion depth exceeded"), "RecursionError"),
    raised("stop iteration", StopAsyncIteration(), "StopAsyncIteration"),
    raised("cancelled from within", asyncio.CancelledError(), "cancelled from within"),
    raised("budget of the client", BudgetExceeded(f"no credit left for {KEY}"), "BudgetExceeded"),
    raised("error with odd bytes", RuntimeError("\x00\ud800 odd bytes"), "odd bytes"),
    raised("error with long text", RuntimeError("long " * 100_000), "RuntimeError"),
]
UNREADABLE = [
    unreadable("empty", "", "is empty"),
    unreadable("none", None, "is empty"),
    unreadable("blank", " \n\t\ufeff ", "is empty"),
    unreadable("prose", "I found nothing that is worth keeping.", "holds no JSON object"),
    unreadable("html page", PAGE, "holds no JSON object"),
    unreadable("cut in the first entry", TWO[:40], "holds no JSON object"),
    unreadable("cut before the first entry", '{"entries": [', "holds no JSON object"),
    unreadable("too deep", json.dumps({"entries": DEEP}), "is nested deeper"),
    unreadable("a megabyte and more", text(entry("x" * 1_000_000, FAULT)), "has 1000"),
    unreadable("number", "42", "holds no JSON object"),
    unreadable("string", '"entries"', "holds no JSON object"),
    unreadable("other key", {"memories": [GOOD]}, "has no entries"),
    unreadable("error for an answer", {"error": {"message": f"overloaded {KEY}"}}, "has no entries"),
    unreadable("one entry without its list", GOOD, "has no entries"),
]
READ = [
    learned("nothing", {}),
    learned("no entries", {"entries": []}),
    learned("entries null", {"entries": None}),
    learned("prose around", f"Here it is: {TWO} Anything else?", STORED, STORED),
    learned("fenced", f"```json\n{TWO}\n```", STORED, STORED),
    learned("fenced with prose", f"Sure!\n```\n{TWO}\n```\nDone.", STORED, STORED),
    learned("cut in the second entry", TWO[:-20], STORED),
    learned("cut behind the last entry", TWO[:-2], STORED, STORED),
    learned("list for an object", json.dumps([GOOD, OTHER]), STORED, STORED),
    learned("two objects", f"{text()}\n{TWO}", STORED, STORED),
    learned("object in an object", {"result": {"entries": [GOOD]}}, STORED),
    learned("duplicate keys", text(OTHER)[:-1] + ", " + text(GOOD)[1:], STORED),
    learned("comma behind the last", TWO[:-2] + ",]}", STORED, STORED),
    learned("unknown fields", {"entries": [{**GOOD, "mood": "sure"}], "tokens": 3}, STORED),
    learned("not a number beside it", text(GOOD)[:-1] + ', "score": NaN, "worth": Infinity}', STORED),
    learned("odd bytes in the content", with_content("The relay \x00 of db-1 \ud800 was off."), STORED),
    learned("odd bytes escaped", text({**GOOD, "content": "The relay \x00\udfff was off."}), STORED),
    learned("evidence a list", with_evidence(["The relay of db-1 was off"]), STORED),
    rejected("entries a string", {"entries": "none"}, "malformed"),
    rejected("entries an object", {"entries": GOOD}, "malformed"),
    rejected("entries a number", {"entries": 7}, "malformed"),
    rejected("entry a string", {"entries": ["The relay was off."]}, "malformed"),
    rejected("entry null", {"entries": [None]}, "malformed"),
    rejected("entry a list", {"entries": [[GOOD]]}, "malformed"),
    rejected("content a number", with_content(7), "malformed"),
    rejected("content not a number", text({**GOOD, "content": float("nan")}), "malformed"),
    rejected("content missing", {"entries": [{"source": "user_assertion", "evidence": FAULT}]}, "malformed"),
    rejected("content null", with_content(None), "malformed"),
    rejected("content an object", with_content({"text": "x"}), "malformed"),
    rejected("content empty", with_content(" \u200b\x00 "), "empty"),
    rejected(
        "evidence missing", {"entries": [{"content": "x", "source": "user_assertion"}]}, "evidence_missing"
    ),
    rejected("evidence null", with_evidence(None), "evidence_missing"),
    rejected("evidence empty", with_evidence(""), "evidence_missing"),
    rejected("evidence a number", with_evidence(7), "malformed"),
    rejected("evidence an object", with_evidence({"quote": FAULT}), "malformed"),
    rejected("evidence with a number", with_evidence([FAULT, 7]), "malformed"),
    rejected("evidence of one letter less", with_evidence("The rely of db-1 was off"), "evidence_not_found"),
    rejected("evidence in other case", with_evidence(FAULT.upper()), "evidence_not_found"),
    rejected("evidence of other words", with_evidence("The relay of db-1 was on"), "evidence_not_found"),
    rejected("evidence too short", with_evidence("relay"), "evidence_too_short"),
    rejected("evidence by the assistant", with_evidence("It will be looked at."), "evidence_wrong_role"),
    rejected("source invalid", {"entries": [{**GOOD, "source": "hearsay"}]}, "source_invalid"),
    rejected("source missing", {"entries": [{"content": "x", "evidence": FAULT}]}, "source_invalid"),
    rejected("source a number", {"entries": [{**GOOD, "source": 1}]}, "malformed"),
    rejected("another number", with_content("The relay of db-1 was off for 7 days."), "unsupported"),
    learned(
        "one bad entry among good ones", {"entries": [7, GOOD, None]}, STORED, *[("rejected", "malformed")] * 2
    ),
    learned("a megabyte of content", with_content("so off " * 150_000), STORED),
    learned(
        "ten thousand entries",
        {"entries": [GOOD] * 10_000},
        STORED,
        *[("corroborated", "same_turn")] * 99,
        ("rejected", "too_many"),
    ),
]
KINDS = [*PROVIDERS, *UNREADABLE, *READ]
ON_BOTH_STORES = [
    kind
    for kind in KINDS
    if any(word in kind.name for word in ("odd bytes", "long text", "bad request", "wrong key", "ten thousand"))
    or kind.name in ("prose", "fenced", "cancelled from within", "content filter", "evidence missing")
]


def config(**models: Any) -> Settings:
    """A failed turn is not tried again before it was looked at."""
    asking = {"attempts": 2, "first_pause_seconds": 0.01, "request_seconds": 10.0, **models}
    return replace(
        settings(), jobs=JobSettings(first_retry_seconds=600, poll_seconds=60), models=ModelSettings(**asking)
    )


class Faulty:
    """Fails in one way when it reads of the fault, and answers well otherwise; waits until it may answer."""

    def __init__(self, respond: Callable[[], Any], label: str = "scripted") -> None:
        self.may_answer = asyncio.Event()
        self.model = ScriptedModel(self._answer, label)
        self._respond = respond

    async def _answer(self, request: ChatRequest) -> Any:
        await self.may_answer.wait()
        if FAULT not in said_in(request.prompt):
            return {"entries": [entry(SKEW, SAID)]}
        answer = self._respond()
        return await answer if asyncio.iscoroutine(answer) else answer


def test_there_are_enough_kinds() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 80


def name_of(kind: Kind) -> str:
    return kind.name.replace(" ", "-")


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
async def test_the_host_goes_on(sqlite_url: str, kind: Kind) -> None:
    await meet(sqlite_url, kind)


@pytest.mark.parametrize("kind", ON_BOTH_STORES, ids=name_of)
async def test_the_host_goes_on_with_postgres(postgres_url: str, kind: Kind) -> None:
    """Where the store has to keep something unusual."""
    await meet(postgres_url, kind)


async def meet(url: str, kind: Kind) -> None:
    events: list[Event] = []
    faulty = Faulty(kind.respond)
    async with opened(url, faulty.model, config=config(), on_event=events.append) as memory:
        under_way = await memory.begin(MIRA, FAULT)
        receipt = await memory.complete(under_way, "It will be looked at.")
        assert (receipt.status, len(receipt.message_ids)) == ("queued", 2), "the model has not answered yet"
        second = await memory.begin(MIRA, "Anything else?")
        await memory.complete(second, "No.", outcome="failure")
        faulty.may_answer.set()
        async with asyncio.timeout(PATIENCE):
            (receipt,) = await memory.flush(MIRA, timeout=PATIENCE)
        if kind.receipts is not None:
            assert (receipt.status, sorted(statuses(receipt))) == ("learned", sorted(kind.receipts))
            assert (await memory.stats()).queued_turns == 0
        else:
            await check_failure(memory, kind, receipt.reason)
        assert (await memory.stats()).dead_turns == kind.is_given_up
        assert statuses(await turn(memory, MIRA, SAID)) == [STORED], "the next turn works"
        reported = [event for event in events if event.name == "learning.failed"]
        assert [event.data["source"] for event in reported] == ["episodic-memory"] * (kind.receipts is None)
        kept = [*reported, *await memory.ledger(MIRA), *await memory.dead_letters()]
        assert KEY not in f"{receipt} {kept} {await memory._store.jobs.queued(MIRA)}"


async def check_failure(memory: Memory, kind: Kind, reason: str) -> None:
    assert kind.error in reason
    assert len(reason) < 1_100
    assert (await memory.stats()).entries == 0
    queued, dead = await memory._store.jobs.queued(MIRA), await memory.dead_letters()
    (state,) = dead if kind.is_given_up else queued
    assert (state.attempts, kind.error in str(state.error)) == (1, True)
    assert len([*queued, *dead]) == 1


async def test_a_model_that_hangs_is_given_up_after_its_time(store_url: str) -> None:
    faulty = Faulty(lambda: asyncio.sleep(3_600))
    faulty.may_answer.set()
    async with opened(store_url, faulty.model, config=config(request_seconds=0.1)) as memory:
        async with asyncio.timeout(PATIENCE):
            receipt = await turn(memory, MIRA, FAULT)
        assert receipt.status == "failed"
        assert "no answer in time" in receipt.reason
        assert len(faulty.model.requests) == 2
        assert statuses(await turn(memory, MIRA, SAID)) == [STORED]


@pytest.mark.parametrize("answers", [False, True], ids=["hanging", "answering-when-told-to-stop"])
async def test_closing_while_the_model_is_asked(store_url: str, answers: bool) -> None:
    """The turn is learned from or stays queued, never half; the next memory finishes it."""

    async def stubborn() -> Any:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            if not answers:
                raise
            await asyncio.sleep(0.05)
        return {"entries": [GOOD]}

    faulty = Faulty(stubborn)
    faulty.may_answer.set()
    short = replace(config(), storage=StorageSettings(close_timeout_seconds=0.05))
    async with asyncio.timeout(PATIENCE):
        async with opened(store_url, faulty.model, config=short) as memory:
            under_way = await memory.begin(MIRA, FAULT)
            await memory.complete(under_way, "It will be looked at.")
            while not faulty.model.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    good = Faulty(lambda: {"entries": [GOOD]})
    good.may_answer.set()
    async with opened(store_url, good.model, config=config()) as memory:
        await memory.flush(MIRA, timeout=PATIENCE)
        stats = await memory.stats()
        assert (stats.entries, stats.queued_turns, stats.dead_turns) == (1, 0, 0)
        assert [row.receipt.status for row in await memory.ledger(MIRA)] == ["stored"]
        assert statuses(await turn(memory, LATER, SAID)) == [STORED]


async def test_closing_does_not_wait_for_what_never_ends(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for a model nor for an embedder that goes on when it is told to stop."""
    monkeypatch.setattr(tasks, "GRACE_SECONDS", 0.1)
    may_end = asyncio.Event()

    async def deaf(*_given: object) -> Any:
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        raise RuntimeError("too late")

    class Deaf(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            return await deaf()

    short = replace(config(), storage=StorageSettings(close_timeout_seconds=0.05), recall_deadline_seconds=0.1)
    model = ScriptedModel(deaf)
    async with asyncio.timeout(PATIENCE):
        async with Memory.open(sqlite_url, model=model, embedder=Deaf(16), config=short) as memory:
            under_way = await memory.begin(MIRA, FAULT)
            await memory.complete(under_way, "It will be looked at.")
            while not model.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert not may_end.is_set()
    may_end.set()
    await asyncio.sleep(0.1)
    async with Memory.open(sqlite_url, embedder=HashEmbedder(16)) as memory:
        assert (await memory.stats()).queued_turns == 1


async def test_a_label_with_a_key_is_not_told(store_url: str) -> None:
    def respond() -> None:
        raise RuntimeError("out of order")

    events: list[Event] = []
    faulty = Faulty(respond, label=f"openai:{KEY}")
    faulty.may_answer.set()
    async with opened(store_url, faulty.model, config=config(), on_event=events.append) as memory:
        receipt = await turn(memory, MIRA, FAULT)
        assert "out of order" in receipt.reason
        assert statuses(await turn(memory, MIRA, SAID)) == [STORED]
        told = [event for event in events if event.name == "learning.failed"]
        assert KEY not in f"{receipt} {told} {await memory._store.jobs.queued(MIRA)}"


async def test_doctor_shows_what_was_given_up(sqlite_url: str) -> None:
    def respond() -> None:
        raise http(400, "too long")

    faulty = Faulty(respond)
    faulty.may_answer.set()
    async with opened(sqlite_url, faulty.model, config=config(), embedder="static") as memory:
        receipt = await turn(memory, MIRA, FAULT)
        assert receipt.reason.startswith("given up after 1 attempts: ModelRefused")
    result = await asyncio.to_thread(CliRunner().invoke, app, ["doctor", "--db", sqlite_url, "--json"])
    findings = {finding["name"]: finding for finding in json.loads(result.output)["findings"]}
    assert findings["learning"]["status"] == "warning"
    assert "1 turns were given up, last: ModelRefused" in findings["learning"]["detail"]
    assert KEY not in result.output

"""Hosted embedders through the real client library, against a small server on loopback."""

import asyncio
import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from casenotes import Memory, Scope
from casenotes.errors import EmbeddingError, MissingExtra, SettingsError, SpaceMismatch
from casenotes.evals.retrieval import evaluate_retrieval, read_queries
from casenotes.models import provider
from casenotes.models.embed import embed_texts
from casenotes.models.provider import ProviderEmbedder
from casenotes.models.registry import resolve_embedder

NAME = "openai:text-embedding-3-small"
DIMENSIONS = 12
Answer = tuple[int, dict[str, Any]]


def letters(text: str) -> list[float]:
    return [1 + text.lower().count(chr(97 + i)) for i in range(DIMENSIONS)]


def embeddings(texts: list[str]) -> Answer:
    data = [{"object": "embedding", "index": i, "embedding": letters(t)} for i, t in enumerate(texts)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return 200, {"object": "list", "data": data, "model": "m", "usage": usage}


def error(status: int) -> Answer:
    return status, {"error": {"message": f"answer {status}", "type": "x", "code": None}}


class Server:
    """Answers POST requests and notes how many texts each brought."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.silent = False
        self.answer: Callable[[list[str]], Answer] = embeddings

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        texts = json.loads(await reader.readexactly(length))["input"]
        self.requests.append(texts)
        if self.silent:
            await reader.read()  # until the client gives up
            writer.close()
            return
        status, body = self.answer(texts)
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nretry-after-ms: 1\r\n"
        writer.write(f"{head}content-length: {len(content)}\r\nconnection: close\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Server, str]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**24)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield server, f"http://127.0.0.1:{port}/v1"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(provider, "FIRST_PAUSE_SECONDS", 0.001)
    async with running() as (server, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
        yield server


async def prepared() -> ProviderEmbedder:
    embedder = ProviderEmbedder(NAME)
    await embedder.prepare(DIMENSIONS)
    return embedder


async def test_a_store_is_created_and_opened_again_without_asking_for_dimensions(
    server: Server, store_url: str
) -> None:
    scope = Scope("support", "ann", "t1")
    async with Memory.open(store_url, embedder="openai/text-embedding-3-small") as memory:
        assert len(server.requests) == 1, "one short text told the dimensions"
        for text in ("the gale bent the crane", "bread for the bakery"):
            await memory.append(scope, text)
        assert (await memory.recall(scope, "gale crane"))[0].content == "the gale bent the crane"
    asked = len(server.requests)
    async with Memory.open(store_url, embedder=NAME) as memory:
        assert len(server.requests) == asked
        assert [s.model for s in await memory._store.spaces()] == [NAME]
    with pytest.raises(SpaceMismatch, match=r"text-embedding-3-small \(12 dim.*casenotes reembed"):
        async with Memory.open(store_url, embedder="static"):
            pass


async def test_leaving_a_memory_closes_connections_of_its_own_embedder_alone(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    kept_open: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept_open.add(writer)
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                body = json.dumps(embeddings(json.loads(await reader.readexactly(length))["input"])[1]).encode()
                start = (
                    f"HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                )
                writer.write(start.encode() + body)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        kept_open.discard(writer)

    async def count_open(expected: int) -> int:
        for _ in range(100):
            if len(kept_open) != expected:
                await asyncio.sleep(0.01)
        return len(kept_open)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
        async with Memory.open(sqlite_url, embedder=NAME):
            assert len(kept_open) == 1
        assert await count_open(0) == 0
        own = ProviderEmbedder(NAME)
        await own.embed(["a text"])
        async with Memory.open(sqlite_url, embedder=own):
            pass
        assert await count_open(1) == 1
        await own.close()
        assert await count_open(0) == 0


async def test_many_texts_go_in_requests_of_bounded_size(server: Server) -> None:
    texts = [f"text {n}" for n in range(200)] + ["long " * 5_000] * 12
    vectors = await embed_texts(await prepared(), texts)
    assert vectors.shape == (212, DIMENSIONS)
    sizes = [len(request) for request in server.requests]
    assert sum(sizes) == 212
    assert max(sizes) <= provider.MAX_TEXTS
    assert max(sum(map(len, request)) for request in server.requests) <= provider.MAX_CHARACTERS


async def test_what_may_pass_is_tried_again(server: Server) -> None:
    answers = iter([error(429), error(503), error(500), error(429)])
    server.answer = lambda texts: next(answers, None) or embeddings(texts)
    vectors = await (await prepared()).embed(["hello"])
    assert list(vectors[0]) == letters("hello")
    assert len(server.requests) == 5


async def test_a_key_that_the_provider_echoes_is_not_shown(server: Server) -> None:
    body = {"error": {"message": "Incorrect key sk-not-a-real-key in Bearer sk-not-a-real-key", "type": "x"}}
    server.answer = lambda texts: (401, body)
    with pytest.raises(EmbeddingError, match=r"status 401.*Incorrect key") as raised:
        await (await prepared()).embed(["hello"])
    assert "sk-not" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("body", [{}, {"data": []}, {"data": [{"embedding": None, "index": 0}]}])
async def test_an_answer_that_is_no_embedding_is_an_error_of_ours(server: Server, body: dict[str, Any]) -> None:
    server.answer = lambda texts: (200, body)
    with pytest.raises(EmbeddingError):
        await embed_texts(await prepared(), ["hello"])


async def test_a_server_that_never_answers_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "REQUEST_SECONDS", 0.05)
    server.silent = True
    with pytest.raises(EmbeddingError, match="TimeoutError"):
        await (await prepared()).embed(["hello"])


async def test_an_object_that_was_never_prepared_can_be_passed(server: Server, store_url: str) -> None:
    async with Memory.open(store_url, embedder=ProviderEmbedder(NAME)) as memory:
        assert [space.dimensions for space in await memory._store.spaces()] == [DIMENSIONS]


async def test_what_never_passes_ends_with_an_error_that_names_the_embedder(server: Server) -> None:
    server.answer = lambda texts: error(503)
    with pytest.raises(EmbeddingError, match=NAME) as raised:
        await (await prepared()).embed(["hello"])
    assert "sk-not" not in str(raised.value)


async def test_a_wrong_key_is_not_tried_again_and_not_shown(server: Server) -> None:
    server.answer = lambda texts: error(401)
    with pytest.raises(EmbeddingError, match="401") as raised:
        await (await prepared()).embed(["hello"])
    assert len(server.requests) == 1
    assert "sk-not" not in str(raised.value)


async def test_a_text_that_is_too_long_for_the_provider_is_shortened(server: Server) -> None:
    server.answer = lambda texts: error(400) if any(len(t) > 2_000 for t in texts) else embeddings(texts)
    vectors = await (await prepared()).embed(["short", "abc" * 5_000, "also short"])
    assert [list(v) == letters(t) for v, t in zip(vectors, ["short", "", "also short"], strict=True)] == [
        True,
        False,
        True,
    ]


async def test_failing_while_a_turn_runs_hurts_nobody(server: Server, store_url: str) -> None:
    scope = Scope("support", "ann", "t1")
    async with Memory.open(store_url, embedder=NAME) as memory:
        server.answer = lambda texts: error(401)
        turn = await memory.begin(scope, "the gale bent the crane")
        await memory.complete(turn, "Noted.")
        assert (await memory.recall(scope, "crane"))[0].content == "the gale bent the crane"


async def test_an_evaluation_stops_when_the_embedder_fails(server: Server, tmp_path: Path) -> None:
    corpus, queries = tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl"
    corpus.write_text(json.dumps({"id": "1", "scope": "ann", "text": "the gale bent the crane"}))
    queries.write_text(json.dumps({"id": "1", "scope": "ann", "query": "crane", "relevant": ["1"]}))
    server.answer = lambda texts: embeddings(texts) if texts == ["dimensions"] else error(401)
    with pytest.raises(EmbeddingError, match=r"failed during the evaluation.*401"):
        await evaluate_retrieval(corpus, read_queries(queries), embedder=NAME)


def test_unknown_providers_and_missing_keys_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="'nobody:model' cannot be used: Unknown provider"):
        resolve_embedder("nobody:model")
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        resolve_embedder(NAME)


def test_a_provider_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"pydantic-ai-slim\[cohere\]"):
        resolve_embedder("cohere:embed-v4.0")


def test_without_pydantic_ai_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from casenotes.models.registry import resolve_embedder\n"
        "try: resolve_embedder('openai:x')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("MissingExtra")
    assert "casenotes[models]" in output

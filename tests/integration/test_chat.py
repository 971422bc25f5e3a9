"""Chat models through the real client library, against a small OpenAI-compatible server on loopback."""

import asyncio
import json
import pickle
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from casenotes.errors import MissingExtra, ModelError, ModelRefused, SettingsError
from casenotes.models.chat import ChatModel, ChatReply, ChatRequest, RetryingModel, Usage, resolve_model
from casenotes.models.parse import parse_object
from casenotes.models.pydantic_chat import ROOM_FOR_THINKING
from casenotes.testing import ScriptedModel

KEY = "sk-not-a-real-key"
SCHEMA = {
    "type": "object",
    "properties": {"entries": {"type": "array", "items": {"type": "string"}}},
    "required": ["entries"],
    "additionalProperties": False,
}
QUESTION = ChatRequest("extract", "You take notes.", "The gale bent the crane.", SCHEMA, max_output_tokens=500)
ANSWER = {"entries": ["the gale bent the crane"]}
TOOLS_ONLY = ModelProfile(supports_json_schema_output=False)
TEXT_ONLY = ModelProfile(supports_json_schema_output=False, supports_tools=False)
Answer = tuple[int, Any]


def completion(content: str | None = json.dumps(ANSWER), finish: str = "stop", **message: Any) -> Answer:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}
    return 200, {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def refusal(status: int, message: str = "no") -> Answer:
    return status, {"error": {"message": message, "type": "x", "code": None}}


class Server:
    """Answers in the order of `answers`, then with `completion()`; silent where the answer is None."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.times: list[float] = []
        self.answers: list[Answer | None] = []
        self.asked = asyncio.Event()
        self.headers = ""
        self.model = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        self.requests.append(json.loads(await reader.readexactly(length)))
        self.keys.append(head.split("authorization: bearer ")[1].split("\r\n")[0])
        self.times.append(time.monotonic())
        self.asked.set()
        answer = self.answers.pop(0) if self.answers else completion()
        if answer is None:
            await reader.read()  # until the client gives up
        else:
            await self._write(writer, *answer)
        writer.close()

    async def _write(self, writer: asyncio.StreamWriter, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n{self.headers}"
        writer.write(f"{head}content-length: {len(content)}\r\nconnection: close\r\n\r\n".encode() + content)
        await writer.drain()


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.model = f"openai:local@http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running() as server:
        yield server


def patient(given: Any, **values: Any) -> RetryingModel:
    fast = {"attempts": 3, "first_pause_seconds": 0.001, "longest_pause_seconds": 0.3, "request_seconds": 20}
    model = resolve_model(given)
    assert model is not None
    return RetryingModel(model, **{**fast, **values})


async def failing(model: ChatModel) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await model.ask(QUESTION)
    return raised.value


async def test_a_compatible_server_answers_by_its_schema_mode_and_needs_no_key(server: Server) -> None:
    reply = await patient(server.model).ask(QUESTION)
    assert parse_object(reply.output, "entries") == ANSWER
    assert (reply.usage, reply.cut_off) == (Usage(1, 1_000, 200, 0.0), False)
    (sent,) = server.requests
    assert [message["content"] for message in sent["messages"]] == [QUESTION.system, QUESTION.prompt]
    assert (sent["temperature"], sent["max_completion_tokens"], sent["model"]) == (0.0, 500, "local")
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert server.keys == ["no-key"]


async def test_a_key_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    await patient(server.model).ask(QUESTION)
    assert server.keys == [KEY]


async def test_a_known_model_has_its_price(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.model.partition("@")[2])
    status, body = completion()
    server.answers = [(status, body | {"model": "gpt-4o-mini"})] * 2
    model = patient("openai-chat/gpt-4o-mini")
    assert model.label == "openai-chat:gpt-4o-mini"
    used = sum([(await model.ask(QUESTION)).usage for _ in range(2)], Usage())
    assert (used.calls, used.input_tokens, used.output_tokens) == (2, 2_000, 400)
    assert used.cost == pytest.approx(2 * (1_000 * 0.15 + 200 * 0.6) / 1e6)


async def test_a_reasoning_model_of_openai_is_asked_without_temperature_and_with_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.model.partition("@")[2])
    text = {"type": "output_text", "text": json.dumps(ANSWER)[:-2], "annotations": []}
    said = {"type": "message", "id": "m", "role": "assistant", "status": "incomplete", "content": [text]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    body = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5-mini",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [said],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 1_000, "output_tokens": 200, "total_tokens": 1_200, **details},
    }
    server.answers = [(200, body)]
    reply = await patient("openai:gpt-5-mini").ask(QUESTION)
    assert parse_object(reply.output, "entries") == ANSWER
    assert reply.cut_off
    assert reply.usage.cost > 0
    (sent,) = server.requests
    assert "temperature" not in sent
    assert sent["max_output_tokens"] == 500 + ROOM_FOR_THINKING
    assert sent["text"]["format"]["schema"] == SCHEMA


async def test_a_rate_limit_is_waited_for_as_long_as_it_says(server: Server) -> None:
    server.headers = "retry-after-ms: 150\r\n"
    server.answers = [refusal(429), refusal(429)]
    assert parse_object((await patient(server.model).ask(QUESTION)).output) == ANSWER
    assert [
        later - earlier >= 0.15 for earlier, later in zip(server.times, server.times[1:], strict=False)
    ] == [
        True,
        True,
    ]


async def test_retry_after_is_capped(server: Server) -> None:
    server.headers = "retry-after: 3600\r\n"
    server.answers = [refusal(429)]
    started = time.monotonic()
    await patient(server.model, longest_pause_seconds=0.05).ask(QUESTION)
    assert time.monotonic() - started < 60
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_pass_is_tried_as_often_as_allowed_and_no_more(server: Server, status: int) -> None:
    server.answers = [refusal(status)] * 9
    error = await failing(patient(server.model))
    assert len(server.requests) == 3, "the client library's own retries are off"
    assert (type(error), error.status, error.may_pass) == (ModelError, status, True)
    assert f"model {server.model!r} failed (status {status})" in str(error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_is_refused_is_not_tried_again(server: Server, status: int) -> None:
    server.answers = [refusal(status, "this will not do")]
    error = await failing(patient(server.model))
    assert len(server.requests) == 1
    assert (type(error), error.status, error.may_pass) == (ModelRefused, status, False)
    assert "this will not do" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.status, copy.may_pass) == (str(error), status, False)


async def test_a_key_that_the_provider_echoes_is_not_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answers = [refusal(401, f"Incorrect key {KEY} in Bearer {KEY}")]
    error = await failing(patient(server.model))
    assert "Incorrect key ***" in str(error)
    assert KEY not in "".join(traceback.format_exception(error))


async def test_a_server_that_never_answers_is_given_up(server: Server) -> None:
    server.answers = [None, None]
    error = await failing(patient(server.model, attempts=2, request_seconds=0.5))
    assert "no answer in time" in str(error)
    assert error.may_pass
    assert len(server.requests) == 2


async def test_a_server_that_answers_late_is_asked_again(server: Server) -> None:
    server.answers = [None]
    await patient(server.model, request_seconds=2).ask(QUESTION)
    assert len(server.requests) == 2


async def test_a_refused_connection_may_pass() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        error = await failing(patient(f"openai:local@http://127.0.0.1:{taken.getsockname()[1]}/v1"))
    assert (type(error), error.may_pass, error.status) == (ModelError, True, None)


@pytest.mark.parametrize(
    "answer",
    [
        completion(None, "content_filter"),
        completion('{"entries": ["the', "content_filter"),
        completion(None, refusal=f"I cannot with {KEY}"),
    ],
)
async def test_filtered_content_is_refused_at_once(server: Server, answer: Answer) -> None:
    server.answers = [answer]
    error = await failing(patient(server.model))
    assert (type(error), error.may_pass, error.status) == (ModelRefused, False, None)
    assert "content filter" in str(error)
    assert KEY not in str(error)
    assert len(server.requests) == 1


async def test_an_answer_that_was_cut_off_keeps_what_is_whole(server: Server) -> None:
    server.answers = [completion('{"entries": ["the gale bent the crane", "and th', "length")]
    reply = await patient(server.model).ask(QUESTION)
    assert reply.cut_off
    assert parse_object(reply.output, "entries") == ANSWER


@pytest.mark.parametrize("content", [None, ""])
async def test_an_empty_answer_is_empty_text(server: Server, content: str | None) -> None:
    server.answers = [completion(content)]
    assert (await patient(server.model).ask(QUESTION)).output == ""


@pytest.mark.parametrize(
    "body", [b"<html>busy</html>", b"", b"{}", b'{"choices": []}', completion()[1] | {"choices": []}]
)
async def test_a_body_that_is_no_answer_is_an_error_of_ours(server: Server, body: Any) -> None:
    server.answers = [(200, body)] * 3
    error = await failing(patient(server.model))
    assert (type(error), error.may_pass) == (ModelError, True)


async def test_what_a_server_refuses_is_not_sent_to_it_again(server: Server) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "extract", "arguments": json.dumps(ANSWER)}}
    server.answers = [
        refusal(400, "temperature does not support 0.0 with this model"),
        refusal(400, "response_format json_schema is not supported"),
        completion(None, "tool_calls", tool_calls=[call]),
        refusal(400, "this model does not support tools"),
    ]
    model = patient(server.model)
    for _ in range(3):
        assert parse_object((await model.ask(QUESTION)).output) == ANSWER
    modes = [
        (r.get("temperature"), r.get("response_format", {}).get("type"), "tools" in r) for r in server.requests
    ]
    assert modes == [
        (0.0, "json_schema", False),
        (None, "json_schema", False),
        (None, None, True),
        (None, None, True),
        (None, "json_object", False),
        (None, "json_object", False),
    ]


async def test_a_refusal_that_only_sounds_like_one_of_form_changes_nothing(server: Server) -> None:
    server.answers = [refusal(400, "16000 tokens in the messages and the tools are too many")] * 3
    model = patient(server.model)
    assert (await failing(model)).status == 400
    await model.ask(QUESTION)
    assert [r.get("response_format", {}).get("type") for r in server.requests] == [
        "json_schema",
        None,
        "json_object",
        "json_schema",
    ]


async def test_cancelling_ends_a_request_and_a_pause_at_once(server: Server) -> None:
    server.answers = [None]
    for model in (
        patient(server.model),
        patient(server.model, first_pause_seconds=60, longest_pause_seconds=60),
    ):
        asking = asyncio.create_task(model.ask(QUESTION))
        await server.asked.wait()
        server.asked.clear()
        server.answers = [refusal(500)]
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert len(server.requests) == 2


SEVERAL_LOOPS = """
import asyncio, json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from casenotes.models.chat import ChatRequest, resolve_model

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    def log_message(self, *values): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

ANSWER = sys.argv[1].encode()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = resolve_model(f"openai:local@http://127.0.0.1:{server.server_port}/v1")
question = ChatRequest("extract", "", "Hello.", {"type": "object", "properties": {}})
for _ in range(3):
    print(asyncio.run(model.ask(question)).output)
"""


def test_a_model_serves_several_event_loops_in_turn() -> None:
    """In a process of its own: the connections of a loop that has ended cannot be closed any more."""
    command = [sys.executable, "-c", SEVERAL_LOOPS, json.dumps(completion("{}")[1])]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.stdout.split() == ["{}"] * 3, result.stderr


async def test_a_closed_model_opens_again(server: Server) -> None:
    model = patient(server.model)
    for _ in range(2):
        await model.ask(QUESTION)
        await model.close()
    await patient(ScriptedModel(lambda request: ANSWER)).close()


def function_model(
    answer: Callable[[AgentInfo], ModelResponse], **values: Any
) -> tuple[FunctionModel, list[AgentInfo]]:
    seen: list[AgentInfo] = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return answer(info)

    return FunctionModel(respond, **values), seen


@pytest.mark.parametrize(
    "arguments", [ANSWER, json.dumps(ANSWER), '{"entries": ["the gale bent the crane", "an']
)
async def test_tool_mode_gives_the_arguments_as_they_are(arguments: Any) -> None:
    def call(info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("Here:"), ToolCallPart(info.output_tools[0].name, arguments)])

    model, seen = function_model(call, profile=TOOLS_ONLY)
    reply = await patient(model).ask(QUESTION)
    assert reply.output == arguments
    assert parse_object(reply.output, "entries") == ANSWER
    (tool,) = seen[0].output_tools
    assert (tool.name, tool.parameters_json_schema) == ("extract", SCHEMA)
    assert seen[0].model_request_parameters.output_mode == "tool"
    assert seen[0].instructions == QUESTION.system
    assert seen[0].model_settings == {"temperature": 0.0, "max_tokens": 500, "max_retries": 0}


async def test_native_mode_gives_the_text_without_the_thoughts() -> None:
    text = json.dumps(ANSWER)
    answer = ModelResponse(
        [ThinkingPart("{}"), TextPart(text)], usage=RequestUsage(input_tokens=7, output_tokens=3)
    )
    model, seen = function_model(lambda info: answer, model_name="m")
    assert await patient(model).ask(QUESTION) == ChatReply(text, Usage(1, 7, 3))
    assert seen[0].model_request_parameters.output_mode == "native"
    assert seen[0].model_request_parameters.output_object.json_schema == SCHEMA
    assert patient(model).label == "function:m"


async def test_a_model_without_either_mode_is_asked_in_words() -> None:
    model, seen = function_model(lambda info: ModelResponse([TextPart("{}")]), profile=TEXT_ONLY)
    assert (await patient(model).ask(QUESTION)).output == "{}"
    assert '"entries"' in (seen[0].instructions or "")


@pytest.mark.parametrize("parts", [[], [TextPart("")], [ThinkingPart("hm")], [ToolCallPart("extract", None)]])
async def test_an_empty_response_is_empty_text(parts: list[Any]) -> None:
    model, _ = function_model(lambda info: ModelResponse(parts))
    assert (await patient(model).ask(QUESTION)).output == ""


async def test_a_price_that_the_provider_reports_counts() -> None:
    usage = RequestUsage(input_tokens=1, output_tokens=1, cost=Decimal("0.25"))
    model, _ = function_model(lambda info: ModelResponse([], usage=usage))
    assert (await patient(model).ask(QUESTION)).usage.cost == 0.25


async def test_settings_of_a_model_object_win_and_thinking_has_room() -> None:
    thinking = ModelProfile(supports_json_schema_output=True, thinking_always_enabled=True)
    model, seen = function_model(lambda info: ModelResponse([]), profile=thinking)
    await patient(model).ask(QUESTION)
    assert seen[0].model_settings["max_tokens"] == 500 + ROOM_FOR_THINKING
    own = ModelSettings(temperature=0.7, max_tokens=9)
    model, seen = function_model(lambda info: ModelResponse([]), settings=own)
    await patient(model).ask(QUESTION)
    assert seen[0].model_settings == {"temperature": 0.7, "max_tokens": 9, "max_retries": 0}


async def test_models_that_know_no_retries_or_no_temperature_are_not_told() -> None:
    class Plain(FunctionModel):
        unsupported_settings = frozenset({"max_retries"})

    seen: list[AgentInfo] = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse([])

    reasoning: Any = {"supports_json_schema_output": True, "openai_supports_reasoning": True}
    await patient(WrapperModel(Plain(respond, profile=reasoning))).ask(QUESTION)
    assert seen[0].model_settings == {"max_tokens": 500}


async def test_a_chain_of_models_is_one_model() -> None:
    def busy(info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(503, "first")

    first, _ = function_model(busy)
    second, seen = function_model(lambda info: ModelResponse([TextPart(json.dumps(ANSWER))]))
    assert parse_object((await patient(FallbackModel(first, second)).ask(QUESTION)).output) == ANSWER
    assert seen[0].model_request_parameters.output_mode == "tool", "which it prefers itself"
    assert "temperature" not in seen[0].model_settings
    error = await failing(patient(FallbackModel(first, first)))
    assert (type(error), error.may_pass) == (ModelError, True)


async def test_the_test_model_of_pydantic_ai_works() -> None:
    model = TestModel(custom_output_args=ANSWER, profile=TOOLS_ONLY)
    assert parse_object((await patient(model).ask(QUESTION)).output, "entries") == ANSWER


async def test_any_object_with_label_and_ask_is_a_model() -> None:
    errors = iter([ConnectionResetError("gone"), ModelHTTPError(503, "m"), TimeoutError()])

    def answer(request: ChatRequest) -> Any:
        for error in errors:
            raise error
        return ANSWER

    model = ScriptedModel(answer)
    assert resolve_model(model) is model
    assert (await patient(model, attempts=4).ask(QUESTION)).output == ANSWER
    assert len(model.requests) == 4


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("x"), AssertionError()])
async def test_what_nobody_expects_is_not_tried_again_at_once(error: Exception) -> None:
    def answer(request: ChatRequest) -> Any:
        raise error

    model = ScriptedModel(answer)
    raised = await failing(patient(model))
    assert f"model 'scripted' failed ({type(error).__name__})" in str(raised)
    assert raised.may_pass, "nobody knows, so learning may try it again later"
    assert len(model.requests) == 1


async def test_errors_of_ours_stay_what_they_are() -> None:
    for own in (ModelRefused("no"), ModelError("later")):

        def answer(request: ChatRequest, own: ModelError = own) -> Any:
            raise own

        model = ScriptedModel(answer)
        assert await failing(patient(model)) is own
        assert len(model.requests) == (3 if own.may_pass else 1)


@pytest.mark.parametrize(
    ("answer", "output"),
    [(ANSWER, ANSWER), ("text", "text"), (None, ""), ([1, "two"], '[1, "two"]'), ({}, {})],
)
async def test_a_scripted_model_answers_with_anything(answer: Any, output: Any) -> None:
    async def later(request: ChatRequest) -> Any:
        return answer

    for handler in (later, lambda request: answer):
        model = ScriptedModel(handler, label="mine")
        reply = await model.ask(QUESTION)
        assert reply.output == output
        assert reply.usage.calls == 1
        assert reply.usage.input_tokens == 10
        assert (reply.usage.output_tokens > 0) == (output != "")
        assert model.requests == [QUESTION]
        assert model.label == "mine"


@pytest.mark.parametrize("given", [None, ""])
def test_nothing_is_no_model(given: str | None) -> None:
    assert resolve_model(given) is None


def test_slashes_and_addresses_are_understood() -> None:
    labels = {
        "openai:qwen/qwen3:8b@http://127.0.0.1:1/v1": "openai:qwen/qwen3:8b@http://127.0.0.1:1/v1",
        "openai/qwen@https://example.org/v1": "openai:qwen@https://example.org/v1",
        " openai-chat:qwen@http://[::1]:80/v1 ": "openai:qwen@http://[::1]:80/v1",
    }
    assert {name: resolve_model(name).label for name in labels} == labels


@pytest.mark.parametrize(
    ("given", "naming"),
    [
        ("gpt-5", r"'gpt-5' is unknown; use provider:model.*`label` and `async ask"),
        ("openai:", "'openai:' is unknown"),
        ("/x", "'/x' is unknown"),
        ("nobody:model", "'nobody:model' cannot be used: Unknown model"),
        ("openai:gpt-5-mini", r"'openai:gpt-5-mini' cannot be used.*OPENAI_API_KEY.*provider\.$"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("ollama:x@http://127.0.0.1/v1", r"'ollama:x' takes no address; only openai:x@http://127\.0\.0\.1/v1"),
        ("openai:x@http://", "'openai:x' is at no usable address"),
        ("openai:x@http", "'openai:x' is at no usable address"),
        ("openai:x@http://h:port/v1", "'openai:x' is at no usable address"),
        ("openai:x@http://[::1/v1", "'openai:x' is at no usable address"),
        ("openai:x@https://me:secret@h/v1", "OPENAI_API_KEY"),
        ("openai:x@https://h/v1?key=secret", "OPENAI_API_KEY"),
        (7, "chat model 7 has no `label` and `ask`; use"),
        (SimpleNamespace(label="half"), "has no `label` and `ask`"),
    ],
)
def test_what_cannot_be_a_model_is_named_with_the_remedy(given: Any, naming: str) -> None:
    with pytest.raises(SettingsError, match=naming) as raised:
        resolve_model(given)
    assert "secret" not in str(raised.value)


def test_a_provider_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"'cohere:command-r' needs more: .*pydantic-ai-slim\[cohere\]"):
        resolve_model("cohere:command-r")


@pytest.mark.parametrize("name", ["openai:x", "openai:x@http://127.0.0.1/v1"])
def test_without_pydantic_ai_the_error_names_the_extra(name: str) -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from casenotes.models.chat import resolve_model\n"
        f"try: resolve_model({name!r})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("MissingExtra")
    assert "pip install 'casenotes[models]' 'pydantic-ai-slim[openai]'" in output


def test_importing_is_light() -> None:
    code = (
        "import sys, casenotes.models.chat, casenotes.models.parse\n"
        "print([name for name in ('pydantic', 'pydantic_ai', 'httpx', 'numpy') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"

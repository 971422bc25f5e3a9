"""Agents of Pydantic AI with memory: real agents, scripted models, a real file."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from conversation import JONAS, LATER, MIRA, SAID, SKEW, entry, opened, quoting
from observers import model as worker
from observers import observing
from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, RunContext, ToolReturn
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset
from storage import run

from casenotes import Memory, Scope, Settings, sync
from casenotes.config import BudgetSettings, PlanSettings, StorageSettings
from casenotes.errors import InvalidScope, UsageError
from casenotes.integrations.pydantic_ai import INSTRUCTIONS, THREAD_INSTRUCTIONS, MemoryCapability
from casenotes.layers.base import BaseLayer, Recalled, RecallRequest
from casenotes.testing import HashEmbedder
from casenotes.types import ChildScope, Context, Receipt

LOOP = ["user", "assistant", "tool", "assistant"]
ASKED = "Why did the webhook fail with 401?"
Answer = Callable[[list[ModelMessage]], ModelResponse]


@dataclass
class Host:
    """A model that answers by a function and keeps what it was sent."""

    answer: Answer
    requests: list[list[str]] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    tools: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = FunctionModel(self.ask, stream_function=self.stream)

    def ask(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append([f"{part.part_kind}: {text_of(part)}" for m in messages for part in m.parts])
        self.instructions.append(info.instructions or "")
        self.tools.append([tool.name for tool in info.function_tools])
        return self.answer(messages)

    async def stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for number, part in enumerate(self.ask(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {
                    number: DeltaToolCall(
                        part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id
                    )
                }
            elif isinstance(part, TextPart):
                for word in part.content.split():
                    yield f"{word} "

    def agent(self, memory: Memory | sync.Memory, scope: Any = MIRA, **options: Any) -> Agent[Any, Any]:
        return Agent(self.model, capabilities=[MemoryCapability(memory, scope=scope)], **options)


def text_of(part: Any) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.tool_name} {part.args_as_json_str()}"
    return part.model_response_str() if isinstance(part, ToolReturnPart) else str(part.content)


def says(text: str) -> Host:
    return Host(lambda _messages: ModelResponse([TextPart(text)]))


def calls(*names: str, query: str = "webhook 401") -> Host:
    """Calls these tools, one after the other, and then is done."""

    def answer(messages: list[ModelMessage]) -> ModelResponse:
        made = made_since_the_question(messages)
        if made == len(names):
            return ModelResponse([TextPart("Done.")])
        arguments = {"query": query} if names[made] == "recall_memory" else {}
        return ModelResponse([ToolCallPart(names[made], arguments, f"call-{len(messages)}")])

    return Host(answer)


def first_calls(name: str, times: int = 1) -> Host:
    """Calls a tool in its first requests and then is done, whatever it is shown."""

    def answer(_messages: list[ModelMessage]) -> ModelResponse:
        made = len(host.requests)
        return ModelResponse([ToolCallPart(name, {}, f"c{made}") if made <= times else TextPart("Done.")])

    host = Host(answer)
    return host


def made_since_the_question(messages: list[ModelMessage]) -> int:
    made = 0
    for part in (part for message in messages for part in message.parts):
        asked = isinstance(part, UserPromptPart) and "<memory>" not in part.content
        made = 0 if asked else made + isinstance(part, ToolReturnPart)
    return made


def look() -> str:
    """Look at the host."""
    return "pay-2 is fine"


def without_block(request: list[str]) -> list[str]:
    return [part for part in request if not part.startswith("user-prompt: <memory>")]


async def log_of(memory: Memory, scope: Scope = MIRA) -> list[tuple[str, str]]:
    return [(message.role, message.search_text) for message in await memory.history(scope, 100)]


@pytest.fixture
def own_loop() -> Iterator[None]:
    """A loop for `run_sync`, which would leave one of its own open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


class TestConversations:
    async def test_a_second_session_knows_what_the_first_has_taught(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, quoting(slow=entry(SKEW, SAID))) as memory:
            await says("I see.").agent(memory).run(SAID)
            (receipt,) = await memory.flush(MIRA)
            assert [candidate.status for candidate in receipt] == ["stored"]
            host = says("The clock was slow.")
            await host.agent(memory, LATER).run(ASKED)
        assert f"- {SKEW} (today)" in host.requests[0][-1]

    async def test_without_a_worker_model_it_knows_what_was_said(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
        async with opened(sqlite_url) as memory:
            host = calls("recall_memory")
            result = await host.agent(memory, LATER).run(ASKED)
        assert f'- user said: "{SAID}" (today)' in host.requests[0][-1]
        assert host.tools == [["recall_memory", "update_profile", "plan"]] * 2
        returned = result.all_messages()[2].parts[0]
        assert returned.content["hits"][0]["content"] == SAID

    async def test_another_user_sees_nothing(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, quoting(slow=entry(SKEW, SAID))) as memory:
            await says("I see.").agent(memory).run(SAID)
            await memory.flush()
            host = calls("recall_memory")
            result = await host.agent(memory, JONAS).run(ASKED)
        assert host.requests[0] == [f"user-prompt: {ASKED}"]
        assert result.all_messages()[2].parts[0].content["hits"] == []
        assert "pay-2" not in str(host.requests)

    async def test_the_thread_goes_on_where_it_was(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            await calls("look").agent(memory, tools=[look]).run("Is pay-2 well?")
        async with opened(sqlite_url) as memory:
            host = says("Yes.")
            result = await host.agent(memory, system_prompt="Be brief.").run("Still?")
        assert host.requests == [
            [
                "system-prompt: Be brief.",
                "user-prompt: Is pay-2 well?",
                "tool-call: look {}",
                "tool-return: pay-2 is fine",
                "text: Done.",
                "user-prompt: Still?",
            ]
        ]
        assert [type(message) for message in result.new_messages()] == [ModelRequest, ModelResponse]
        assert len(result.all_messages()) == 6

    async def test_a_dynamic_system_prompt_is_asked_again(self, sqlite_url: str) -> None:
        host = says("Yes.")
        async with opened(sqlite_url) as memory:
            agent = host.agent(memory, deps_type=str)

            @agent.system_prompt(dynamic=True)
            def mood(ctx: RunContext[str]) -> str:
                return f"Be {ctx.deps}."

            await agent.run("One", deps="kind")
            await agent.run("Two", deps="brief")
        assert [request[0] for request in host.requests] == [
            "system-prompt: Be kind.",
            "system-prompt: Be brief.",
        ]
        assert [request[-1] for request in host.requests] == ["user-prompt: One", "user-prompt: Two"]

    async def test_media_are_marked(self, sqlite_url: str) -> None:
        from pydantic_ai import BinaryContent

        async with opened(sqlite_url) as memory:
            picture = BinaryContent(b"abc", media_type="image/png")
            await says("A fan.").agent(memory).run(["What is it?", picture])
            assert await log_of(memory) == [("user", "What is it?\n[image]"), ("assistant", "A fan.")]

    async def test_structured_output_is_saved_as_the_answer(self, sqlite_url: str) -> None:
        class Loaves(BaseModel):
            count: int

        def answer(messages: list[ModelMessage]) -> ModelResponse:
            count = "7" if len(messages) > 2 else "none"
            return ModelResponse([ToolCallPart("final_result", {"count": count}, f"call-{len(messages)}")])

        async with opened(sqlite_url) as memory:
            result = await Host(answer).agent(memory, output_type=Loaves).run("How many?")
            assert result.output == Loaves(count=7)
            history = await memory.history(MIRA)
            assert [message.role for message in history] == LOOP
            assert history[2].parts[0].is_error
            assert (history[3].text, history[3].parts) == ('{"count":"7"}', ())
            host = Host(answer)
            async with host.agent(memory, LATER, output_type=Loaves).run_stream(
                "And now?", message_history=result.all_messages()
            ) as stream:
                assert await stream.get_output() == Loaves(count=7)
            assert await log_of(memory, LATER) == [("user", "And now?"), ("assistant", '{"count":"7"}')]


class TestToolLoops:
    async def test_the_block_is_there_before_every_request_behind_what_stays(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
            host = calls("look", "look", "look")
            result = await host.agent(memory, LATER, tools=[look], instructions="Be brief.").run(ASKED)
            assert len(host.requests) == 4
            for request in host.requests:
                blocks = [part for part in request if "<memory>" in part]
                assert blocks == [request[-1]]
                assert SAID in blocks[0]
            for before, after in zip(host.requests, host.requests[1:], strict=False):
                known = without_block(before)
                assert after[: len(known)] == known
            assert set(host.instructions) == {f"Be brief.\n\n{INSTRUCTIONS}"}
            recorded = result.all_messages_json().decode()
            assert "<memory>" not in recorded.replace(INSTRUCTIONS, "")
            assert SAID not in recorded
            assert await log_of(memory, LATER) == [
                ("user", ASKED),
                *[("assistant", "look {}"), ("tool", "pay-2 is fine")] * 3,
                ("assistant", "Done."),
            ]

    async def test_what_happened_is_saved_before_the_next_request(self, sqlite_url: str) -> None:
        seen: list[list[tuple[str, str]]] = []
        async with opened(sqlite_url) as memory:

            async def look_at_log() -> str:
                """Look."""
                seen.append(await log_of(memory))
                return f"look {len(seen)}"

            await calls("look_at_log", "look_at_log").agent(memory, tools=[look_at_log]).run("Go")
        assert seen == [
            [("user", "Go")],
            [("user", "Go"), ("assistant", "look_at_log {}"), ("tool", "look 1")],
        ]

    async def test_stable_blocks_stand_behind_the_instructions(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, layers=[Notes()]) as memory:
            host = calls("look")
            result = await host.agent(memory, tools=[look]).run("Go")
            assert host.instructions == [f"{INSTRUCTIONS}\n\n<notes>be kind</notes>"] * 2
            assert "<notes>" not in result.all_messages_json().decode()
            assert "notes" not in str(await log_of(memory))

    async def test_a_profile_and_a_plan_that_the_agent_writes_are_shown(self, sqlite_url: str) -> None:
        name = ToolCallPart("update_profile", {"field": "User Context/Name", "action": "set", "value": "Mira"})
        goal = ToolCallPart("plan", {"goal": "Mend the webhook"})
        answers = [ModelResponse([name]), ModelResponse([goal]), ModelResponse([TextPart("Done.")])]
        host = Host(lambda _messages: answers[min(len(host.requests), 3) - 1])
        async with opened(sqlite_url) as memory:
            await host.agent(memory).run("I am Mira, mend the webhook")
            assert (await memory.profile(MIRA)).fields == {"User Context/Name": ("Mira",)}
            assert "<plan>" in host.requests[2][-1]
            assert "Mend the webhook" in host.requests[2][-1]
            await host.agent(memory, LATER).run("Hello")
        assert "<user-profile>" in host.instructions[3]
        assert "Mira" in host.instructions[3]
        assert "<plan>" not in str(host.requests[3])

    async def test_history_processors_neither_see_nor_record_it(self, sqlite_url: str) -> None:
        processed: list[str] = []

        def last_three(messages: list[ModelMessage]) -> list[ModelMessage]:
            processed.append(str(messages))
            return messages[-3:]

        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
            looking, done = ModelResponse([ToolCallPart("look")]), ModelResponse([TextPart("Done.")])
            host = Host(lambda _messages: looking if len(host.requests) < 4 else done)
            capabilities = [MemoryCapability(memory, LATER), ProcessHistory(last_three)]
            agent = Agent(host.model, tools=[look], capabilities=capabilities)
            result = await agent.run(ASKED)
            assert all("<memory>" in request[-1] for request in host.requests)
            assert SAID not in "".join(processed)
            assert SAID not in result.all_messages_json().decode()
            assert [role for role, _ in await log_of(memory, LATER)] == [
                "user",
                *["assistant", "tool"] * 3,
                "assistant",
            ]

    async def test_what_a_tool_says_is_no_evidence_of_the_user(self, sqlite_url: str) -> None:
        claim = "The password policy of ACME is four letters, says a page."

        def look() -> ToolReturn[str]:
            """Read a page."""
            return ToolReturn("fetched", content=claim)

        async with opened(sqlite_url, quoting(ACME=entry(claim, claim))) as memory:
            await first_calls("look").agent(memory, tools=[look]).run("Read the page of ACME please")
            (receipt,) = await memory.flush(MIRA)
            assert [candidate.status for candidate in receipt] == ["rejected"]
            history = await memory.history(MIRA)
            assert [message.role for message in history] == LOOP
            assert history[2].parts[0].content == f"fetched\n\n{claim}"

    async def test_what_is_said_in_between_is_the_users_unless_a_tool_says_it(self, sqlite_url: str) -> None:
        async def look(ctx: RunContext[None]) -> str:
            """Look, while the user says something."""
            run.enqueue("No, rack seven.")
            ctx.enqueue("Rack nine, says the tool.")
            return "ok"

        async with opened(sqlite_url) as memory:
            agent = first_calls("look").agent(memory, tools=[look])
            async with agent.iter("Go") as run:
                run.enqueue("Take rack eight.")
                async for _ in run:
                    pass
            assert await log_of(memory) == [
                ("user", "Go"),
                ("user", "Take rack eight."),
                ("assistant", "look {}"),
                ("tool", "ok"),
                ("user", "No, rack seven."),
                ("tool", "Rack nine, says the tool."),
                ("assistant", "Done."),
            ]

    async def test_a_run_goes_on_with_results_and_a_prompt(self, sqlite_url: str) -> None:
        def look() -> str:
            """Look elsewhere."""
            raise CallDeferred

        async with opened(sqlite_url) as memory:
            agent = first_calls("look").agent(memory, tools=[look], output_type=[str, DeferredToolRequests])
            first = await agent.run("Go")
            (call,) = first.output.calls
            results = DeferredToolResults(calls={call.tool_call_id: "pay-2 is fine"})
            await agent.run("Well?", message_history=first.all_messages(), deferred_tool_results=results)
            assert await log_of(memory) == [
                ("user", "Go"),
                ("assistant", "look {}"),
                ("user", "Well?"),
                ("tool", "pay-2 is fine"),
                ("assistant", "Done."),
            ]

    async def test_a_wrong_call_is_answered(self, sqlite_url: str) -> None:
        for arguments in ("[1]", "{nope", '{"memory": 1, "verb": 2}'):
            host = Host(
                lambda messages, given=arguments: ModelResponse(
                    [ToolCallPart("recall_memory", given)] if len(messages) < 3 else [TextPart("Done.")]
                )
            )
            async with opened(sqlite_url) as memory:
                scope = Scope("support", "mira", f"thread {arguments}")
                assert (await host.agent(memory, scope).run("Go")).output == "Done."
            assert "Call it with one argument" in host.requests[1][-1]

    async def test_results_that_are_too_long_are_cut(self, sqlite_url: str) -> None:
        config = Settings(storage=StorageSettings(max_message_characters=30_000))
        async with opened(sqlite_url, config=config) as memory:

            def read() -> str:
                """Read a file."""
                return "x" * 40_000

            await calls("read").agent(memory, tools=[read]).run("Go" + "!" * 40_000)
            log = await log_of(memory)
        assert [role for role, _ in log] == LOOP
        assert all(text.endswith("… [20000 characters left out]") for role, text in log if role == "tool")
        assert log[0][1].endswith("… [20002 characters left out]")

    async def test_the_host_may_look_at_what_is_shown(self, sqlite_url: str) -> None:
        shown: list[str] = []
        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
            ability = MemoryCapability(memory, LATER, on_context=lambda context: shown.append(context.text))
            await Agent(calls("look").model, tools=[look], capabilities=[ability]).run(ASKED)
        assert len(shown) == 2  # once before each request
        assert all(SAID in text for text in shown)

    async def test_who_looks_must_not_be_awaited(self, sqlite_url: str) -> None:
        class Looker:
            async def __call__(self, context: Context) -> None: ...

        async def look_at(context: Context) -> None: ...

        async with opened(sqlite_url) as memory:
            for looker in (look_at, Looker()):
                with pytest.raises(
                    UsageError, match="on_context is called and not awaited; give a plain function"
                ):
                    MemoryCapability(memory, MIRA, on_context=looker)
            with pytest.raises(UsageError, match="on_context must be a function, got 7"):
                MemoryCapability(memory, MIRA, on_context=7)


class TestBudgets:
    """A long run stays inside the context window, and nothing of it is lost."""

    @staticmethod
    def settings() -> Settings:
        return Settings(budget=BudgetSettings(context_tokens=9_000, reply_reserve=1_000))

    @staticmethod
    async def read_pages(host: Host, memory: Memory, contexts: list[Context], **options: Any) -> Any:
        pages = iter(range(100))

        def read() -> str:
            """Read the next page."""
            return f"line of page {next(pages)}. " * 80

        ability = MemoryCapability(memory, LATER, on_context=contexts.append)
        agent = Agent(host.model, tools=[read], capabilities=[ability], system_prompt="Be brief.")
        return await agent.run("Read it all", **options)

    @staticmethod
    def tokens(memory: Memory, request: list[str]) -> int:
        return sum(memory.count_tokens(part) for part in request)

    async def test_a_long_run_stays_inside(self, sqlite_url: str) -> None:
        host, contexts = first_calls("read", 40), []
        async with opened(sqlite_url, config=self.settings()) as memory:
            for number in range(6):
                await memory.append(LATER, f"Earlier word {number}. " * 100)
            result = await self.read_pages(host, memory, contexts)
            assert result.output == "Done."
            step = self.tokens(memory, host.requests[1]) - self.tokens(memory, host.requests[0])
            sizes = [self.tokens(memory, request) for request in host.requests]
            assert step > 400
            assert max(sizes) <= 8_000 + step
            assert min(sizes[20:]) > 3_000
            assert await log_of(memory, LATER) == [
                *[("user", f"Earlier word {number}. " * 100) for number in range(6)],
                ("user", "Read it all"),
                *[
                    said
                    for number in range(40)
                    for said in (("assistant", "read {}"), ("tool", f"line of page {number}. " * 80))
                ],
                ("assistant", "Done."),
            ]
        for request in host.requests:
            assert request[0] == "system-prompt: Be brief."
            assert request.count("user-prompt: Read it all") == 1
            kinds = [part.partition(":")[0] for part in request]
            steps = kinds[kinds.index("tool-call") :] if "tool-call" in kinds else []
            assert steps == ["tool-call", "tool-return"] * (len(steps) // 2)
        alike = [after[: len(before)] == before for before, after in pairwise(host.requests)]
        assert alike.count(False) <= 12
        assert "Earlier word 5" in str(host.requests[0])
        assert "Earlier word" not in str(host.requests[-1])
        assert "page 39" in host.requests[-1][-1]
        assert len(result.all_messages()) == 83
        assert [len(context.messages) for context in contexts][-1] == len(host.requests[-1]) - 1

    async def test_a_long_run_is_observed_while_it_goes_on(self, sqlite_url: str) -> None:
        host, contexts = first_calls("read", 45), []
        async with opened(sqlite_url, worker(), config=observing(observer_threshold_tokens=3_000)) as memory:
            result = await self.read_pages(host, memory, contexts)
            assert result.output == "Done."
            sizes = [self.tokens(memory, request) for request in host.requests]
            step = sizes[1] - sizes[0]
            assert max(sizes) <= 3_000 + 1_500 + 2 * step
            assert await memory.settled(LATER)
            state = await memory.observing(LATER)
            assert (state.version >= 3, state.provider) == (
                True,
                f"{host.model.system}:{host.model.model_name}",
            )
        assert "<observations>" in contexts[-1].stable_text
        assert "Hint: The task is under way." in contexts[-1].volatile_text
        for request in host.requests:
            assert request.count("user-prompt: Read it all") == 1
            kinds = [part.partition(":")[0] for part in request]
            steps = [kind for kind in kinds if kind.startswith("tool-")]
            assert steps == ["tool-call", "tool-return"] * (len(steps) // 2)
        assert len(result.all_messages()) == 92, "the run itself keeps everything"

    async def test_a_history_of_the_callers_own_stays(self, sqlite_url: str) -> None:
        host, contexts = first_calls("read", 40), []
        own = [ModelRequest([UserPromptPart("Mine. " * 4_000)]), ModelResponse([TextPart("I see.")])]
        async with opened(sqlite_url, config=self.settings()) as memory:
            await self.read_pages(host, memory, contexts, message_history=own)
        for request in host.requests:
            assert request[:2] == [f"user-prompt: {'Mine. ' * 4_000}", "text: I see."]
            assert "user-prompt: Read it all" in request
            assert len(request) < 40


class TestLongMessages:
    """What is longer than a prompt is sent shortened; the run itself and the store keep it."""

    LINES = "".join(f"line {number}: the proxy answered {number * 7919 % 1000}\n" for number in range(45_000))
    NOTE = re.compile(r'read_message\(id="([^"]+)", offset=(\d+)\)')

    def tokens(self, memory: Memory, request: list[str]) -> int:
        return sum(memory.count_tokens(part) for part in request)

    async def test_r10_19_parallel_results_are_sent_shortened_and_read_on(self, sqlite_url: str) -> None:
        def read(number: int) -> str:
            """Read a file."""
            return self.LINES[number : 200_000 + number]

        def answer(messages: list[ModelMessage]) -> ModelResponse:
            made = len(host.requests)
            if made == 1:
                return ModelResponse([ToolCallPart("read", {"number": n}, f"c{n}") for n in range(8)])
            if made == 2:
                name, offset = self.NOTE.findall(str(host.requests[-1][9]))[0]
                return ModelResponse(
                    [ToolCallPart("read_message", {"id": name, "offset": int(offset)}, "more")]
                )
            return ModelResponse([TextPart("Done.")])

        host = Host(answer)
        async with opened(sqlite_url) as memory:
            result = await host.agent(memory, LATER, tools=[read]).run("Read all eight.")
            assert result.output == "Done."
            sizes = [self.tokens(memory, request) for request in host.requests]
            assert max(sizes) <= 124_000
            assert min(sizes[1:]) > 60_000
            assert [("read_message" in tools) for tools in host.tools] == [False, True, True]
            assert host.requests[2][: len(host.requests[1])] == host.requests[1], (
                "the prompt keeps its beginning"
            )
            page = json.loads(host.requests[2][-1].removeprefix("tool-return: "))
            assert page["text"] == self.LINES[:200_000][page["offset"] :][: len(page["text"])]
            returned = [part for message in result.all_messages() for part in message.parts]
            assert [p.content for p in returned if isinstance(p, ToolReturnPart)][:8] == [
                read(n) for n in range(8)
            ]
            assert (await memory.history(LATER))[2].parts[0].content == read(0)
            later = says("Fine.")
            await later.agent(memory, LATER, tools=[read]).run("And now?")
            assert later.tools == [[*host.tools[1]]], "an earlier message is still shown shortened"
            assert self.tokens(memory, later.requests[0]) <= 124_000

    async def test_r10_19_a_long_prompt_is_sent_shortened_beside_its_files(self, sqlite_url: str) -> None:
        image = ImageUrl("https://example.org/rack.png")
        config = Settings(budget=BudgetSettings(9_000, 1_000))
        seen: list[Any] = []

        def answer(messages: list[ModelMessage]) -> ModelResponse:
            seen.append(messages[0].parts[0].content)
            return ModelResponse([ToolCallPart("look", {}, "c1") if len(seen) == 1 else TextPart("Done.")])

        async with opened(sqlite_url, config=config) as memory:
            result = (
                await Host(answer).agent(memory, tools=[look]).run([self.LINES[:600_000], image, "What is it?"])
            )
        (text, shown), again = seen
        assert shown == image
        assert 1_000 < memory.count_tokens(text) < 4_000
        assert text.endswith("What is it?")
        assert again == [text, image]
        assert result.all_messages()[0].parts[0].content == [self.LINES[:600_000], image, "What is it?"]

    async def test_r07_21_long_arguments_of_the_models_own_are_sent_shortened(self, sqlite_url: str) -> None:
        def write(path: str, text: str) -> str:
            """Write a file."""
            return f"{len(text)} characters written to {path}"

        def answer(messages: list[ModelMessage]) -> ModelResponse:
            if len(host.requests) > 1:
                return ModelResponse([TextPart("Done.")])
            return ModelResponse([ToolCallPart("write", {"path": "a", "text": self.LINES[:300_000]}, "c1")])

        host = Host(answer)
        async with opened(sqlite_url, config=Settings(budget=BudgetSettings(9_000, 1_000))) as memory:
            await host.agent(memory, tools=[write]).run("Write.")
            assert self.tokens(memory, host.requests[1]) <= 8_000
        call = host.requests[1][1]
        assert call.startswith('tool-call: write {"path":"a","text":"line 0')
        assert "characters left out; read_message(" in call
        assert host.requests[1][2] == "tool-return: 300000 characters written to a"

    async def test_r10_19_what_is_too_long_to_be_saved_is_not_sent_whole(self, sqlite_url: str) -> None:
        def read() -> ToolReturn:
            """Read a file."""
            return ToolReturn(self.LINES, content="And besides: " + self.LINES)

        host = first_calls("read")
        async with opened(sqlite_url) as memory:
            await host.agent(memory, tools=[read]).run("Read.")
            assert self.tokens(memory, host.requests[1]) <= 20_000
        assert "characters left out]" in host.requests[1][-1]

    async def test_r10_19_what_a_tool_says_besides_is_shortened_with_its_result(self, sqlite_url: str) -> None:
        def read() -> ToolReturn:
            """Read a file."""
            return ToolReturn("Here it is.", content=self.LINES[:300_000])

        host = first_calls("read")
        async with opened(sqlite_url, config=Settings(budget=BudgetSettings(9_000, 1_000))) as memory:
            await host.agent(memory, tools=[read]).run("Read.")
            assert self.tokens(memory, host.requests[1]) <= 8_000
        kinds = [part.partition(":")[0] for part in host.requests[1]]
        assert kinds == ["user-prompt", "tool-call", "tool-return", "user-prompt"]
        assert "now available: `read_message`" in host.requests[1][-1]
        assert host.requests[1][2].startswith("tool-return: Here it is.\n\nline 0")

    async def test_a_memory_that_is_off_hides_no_tool(self, sqlite_url: str) -> None:
        theirs: FunctionToolset[Any] = FunctionToolset()
        theirs.add_function(look, name="read_message")
        host = says("Hi.")
        async with Memory.open(sqlite_url, model="", config=Settings(enabled=False)) as memory:
            await host.agent(memory, toolsets=[DynamicToolset(lambda _ctx: theirs)]).run("Hello.")
        assert host.tools == [["read_message"]]

    async def test_a_tool_of_that_name_is_refused(self, sqlite_url: str) -> None:
        def read_message(id: str) -> str:
            """Read a mail."""
            return id

        async with opened(sqlite_url) as memory:
            with pytest.raises(UsageError, match="there is a tool named read_message already; rename it"):
                says("Hi.").agent(memory, tools=[read_message])


class Notes(BaseLayer):
    """A layer whose block belongs into the cached prefix."""

    name = "notes"
    slot = 50
    stable = True

    async def recall(self, request: RecallRequest) -> Recalled:
        return Recalled("<notes>be kind</notes>")


class TestScopes:
    async def test_one_agent_serves_many_users_at_once(self, sqlite_url: str) -> None:
        both = asyncio.Barrier(2)

        async def wait() -> str:
            """Wait for the other."""
            await both.wait()
            return "met"

        def scope_of(ctx: RunContext[str]) -> Scope:
            return Scope("support", ctx.deps, "now")

        host = calls("wait", "recall_memory", query="colour of the door")
        async with opened(sqlite_url) as memory:
            for user, colour in (("mira", "green"), ("jonas", "black")):
                await memory.append(Scope("support", user, "old"), f"The colour of the door is {colour}.")
            agent = host.agent(memory, scope_of, deps_type=str, tools=[wait])
            runs = (agent.run(f"Which colour has the door of {user}?", deps=user) for user in ("mira", "jonas"))
            mira, jonas = await asyncio.gather(*runs)
            assert "green" in str(mira.all_messages())
            assert "black" not in str(mira.all_messages())
            assert "black" in str(jonas.all_messages())
            for user, other in (("mira", "black"), ("jonas", "green")):
                own = [request for request in host.requests if f"door of {user}?" in request[0]]
                assert len(own) == 3
                assert other not in str(own)
                log = await log_of(memory, Scope("support", user, "now"))
                assert log[0] == ("user", f"Which colour has the door of {user}?")
                assert [role for role, _ in log] == [
                    "user",
                    "assistant",
                    "tool",
                    "assistant",
                    "tool",
                    "assistant",
                ]

    async def test_the_scope_may_be_looked_up_and_the_thread_left_to_the_run(self, sqlite_url: str) -> None:
        async def looked_up(ctx: RunContext[str]) -> Scope:
            await asyncio.sleep(0)
            return Scope("support", ctx.deps)

        async with opened(sqlite_url) as memory:
            agent = says("Hi.").agent(memory, looked_up, deps_type=str)
            await agent.run("Hello", deps="mira", conversation_id="c-7")
            thread = Scope("support", "mira", "c-7")
            assert await log_of(memory, thread) == [
                ("user", "Hello"),
                ("assistant", "Hi."),
            ]

    async def test_a_sub_agent_that_fails_leaves_a_note_for_its_parent(self, sqlite_url: str) -> None:
        def broken() -> str:
            """Break."""
            raise RuntimeError("the disk is on fire")

        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
            host = calls("broken")
            child = ChildScope(MIRA, "reader", "child-1")
            with pytest.raises(RuntimeError):
                await host.agent(memory, lambda ctx: child, tools=[broken]).run("Read the log of 401")
            (attempt,) = await memory.attempts(MIRA)
        assert "on fire" in attempt.error
        assert SAID not in str(host.requests)

    async def test_who_has_no_part_in_a_users_memory_is_not_told_of_one(self, sqlite_url: str) -> None:
        apart = (ChildScope(MIRA, "reader", "child-1"), Scope("support", None, "nobody"))
        sharing = (ChildScope(MIRA, "reader", "child-2", shares_memory=True), MIRA)
        host = says("Hi.")
        async with opened(sqlite_url) as memory:
            for scope in (*apart, *sharing):
                await host.agent(memory, scope).run("Read the log")
                await host.agent(memory, lambda ctx, scope=scope: scope).run("Read the log")
        assert host.instructions == [THREAD_INSTRUCTIONS] * 4 + [INSTRUCTIONS] * 4
        assert host.tools == [["plan"]] * 4 + [["recall_memory", "update_profile", "plan"]] * 4

    async def test_a_run_may_have_a_memory_of_its_own(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            agent = says("Hi.").agent(memory)
            await agent.run("Hello", capabilities=[MemoryCapability(memory, JONAS)])
            assert await log_of(memory, JONAS) == [("user", "Hello"), ("assistant", "Hi.")]
            assert await memory.threads(MIRA) == []

    async def test_wrong_scopes_are_refused_before_the_model_is_asked(self, sqlite_url: str) -> None:
        host = says("Hi.")
        async with opened(sqlite_url) as memory:
            with pytest.raises(UsageError, match="must be a Scope"):
                MemoryCapability(memory, scope="mira")
            with pytest.raises(UsageError, match="open Memory"):
                MemoryCapability("sqlite:///x.db", scope=MIRA)
            with pytest.raises(UsageError, match="must return a Scope"):
                await host.agent(memory, lambda ctx: "mira").run("Hello")
            with pytest.raises(InvalidScope):
                await host.agent(memory, lambda ctx: Scope("support", "")).run("Hello")
        assert host.requests == []


class TestNames:
    async def test_an_agent_with_a_tool_of_our_name_is_refused(self, sqlite_url: str) -> None:
        def recall_memory(query: str) -> str:
            """Another one."""
            return query

        host = says("Hi.")
        async with opened(sqlite_url) as memory:
            with pytest.raises(UsageError, match="recall_memory"):
                host.agent(memory, tools=[recall_memory])
            agent = host.agent(memory)
            agent.tool_plain(recall_memory)
            with pytest.raises(UsageError, match="recall_memory"):
                await agent.run("Hello")
            assert await memory.threads(MIRA) == []
        assert host.requests == []

    async def test_names_of_layers_count_too(self, sqlite_url: str) -> None:
        def plan() -> str:
            """One of the host's own."""
            return "none"

        host = says("Hi.")
        async with opened(sqlite_url) as memory:
            with pytest.raises(UsageError, match="plan"):
                await host.agent(memory, tools=[plan]).run("Hello")
            assert await roles_and_outcome(memory) == (["user"], "failure")
        async with opened(sqlite_url, config=Settings(plan=PlanSettings(enabled=False))) as memory:
            await host.agent(memory, LATER, tools=[plan]).run("Hello")
        assert host.tools == [["plan", "recall_memory", "update_profile"]]


class TestWaysToRun:
    async def test_streaming(self, sqlite_url: str) -> None:
        host = calls("look")
        async with opened(sqlite_url) as memory:
            await says("I see.").agent(memory).run(SAID)
            agent = host.agent(memory, LATER, tools=[look])
            async with agent.run_stream(ASKED) as stream:
                words = [word async for word in stream.stream_text(delta=True)]
            assert "".join(words).strip() == "Done."
            assert all("<memory>" in request[-1] for request in host.requests)
            assert "<memory>" not in stream.all_messages_json().decode().replace(INSTRUCTIONS, "")
            assert await roles_and_outcome(memory, LATER) == (
                LOOP,
                "success",
            )

    async def test_a_stream_that_is_not_read_to_its_end(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            agent = says("One two three four.").agent(memory)
            async with agent.run_stream("Count") as stream:
                async for _ in stream.stream_text(delta=True, debounce_by=None):
                    break
            roles, outcome = await roles_and_outcome(memory)
            assert (roles, outcome) == (["user", "assistant"], "aborted")
            assert (await log_of(memory))[1][1].startswith("One")

    async def test_a_structured_answer_that_is_not_read_to_its_end(self, sqlite_url: str) -> None:
        class Loaves(BaseModel):
            count: int
            rows: str

        async def stream(
            _messages: list[ModelMessage], info: AgentInfo
        ) -> AsyncIterator[dict[int, DeltaToolCall]]:
            yield {0: DeltaToolCall(info.output_tools[0].name, '{"count": 7,', tool_call_id="a")}
            await asyncio.Event().wait()

        async with opened(sqlite_url) as memory:
            ability = MemoryCapability(memory, MIRA)
            agent = Agent(FunctionModel(stream_function=stream), output_type=Loaves, capabilities=[ability])
            async with agent.run_stream("How many?") as result:
                async for _ in result.stream_response(debounce_by=None):
                    break
            assert await log_of(memory) == [("user", "How many?"), ("assistant", '{"count": 7,')]

    async def test_events(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            agent = calls("look").agent(memory, tools=[look])
            async with agent.run_stream_events("Go") as events:
                kinds = [event.event_kind async for event in events]
            assert kinds[-1] == "agent_run_result"
            assert await roles_and_outcome(memory) == (LOOP, "success")

    async def test_node_by_node(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            agent = calls("look").agent(memory, tools=[look])
            async with agent.iter("Go") as run:
                nodes = [node async for node in run]
            assert len(nodes) > 4
            assert await roles_and_outcome(memory) == (LOOP, "success")
            async with agent.iter("Once more") as run:
                async for node in run:
                    if agent.is_call_tools_node(node):
                        break
            roles, outcome = await roles_and_outcome(memory)
            assert roles[4:] == ["user", "assistant"]
            assert outcome == "aborted"

    def test_without_await(self, sqlite_url: str, own_loop: None) -> None:
        with sync.Memory.open(sqlite_url, model="", embedder=HashEmbedder(256)) as memory:
            says("I see.").agent(memory).run_sync(SAID)
            host = calls("recall_memory")
            host.agent(memory, LATER).run_sync(ASKED)
            assert SAID in host.requests[0][-1]
            assert SAID in host.requests[1][-2]
            assert [message.role for message in memory.history(LATER)] == [
                "user",
                "assistant",
                "tool",
                "assistant",
            ]

    async def test_a_history_of_the_callers_own_counts(self, sqlite_url: str) -> None:
        host = says("Yes.")
        async with opened(sqlite_url) as memory:
            agent = host.agent(memory)
            first = await agent.run("One")
            await agent.run("Two", message_history=first.all_messages())
            assert host.requests[1] == ["user-prompt: One", "text: Yes.", "user-prompt: Two"]
            own = [ModelRequest([UserPromptPart("Elsewhere")]), ModelResponse([TextPart("I see.")])]
            await agent.run("Three", message_history=own)
            assert host.requests[2] == ["user-prompt: Elsewhere", "text: I see.", "user-prompt: Three"]
            texts = [text for role, text in await log_of(memory) if role == "user"]
            assert texts == ["One", "Two", "Three"]

    async def test_a_history_may_end_with_the_question(self, sqlite_url: str) -> None:
        host = says("Yes.")
        async with opened(sqlite_url) as memory:
            await host.agent(memory).run(message_history=[ModelRequest([UserPromptPart("Hello?")])])
            assert await log_of(memory) == [("user", "Hello?"), ("assistant", "Yes.")]

    async def test_a_run_without_a_question(self, sqlite_url: str) -> None:
        host = says("The night was quiet.")
        async with opened(sqlite_url) as memory:
            agent = host.agent(memory, instructions="Report the night.")
            await agent.run()
            await agent.run()
            assert await log_of(memory) == [("assistant", "The night was quiet.")] * 2


def turns_later(count: int, call: Callable[[], Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(turns_later, count - 1, call) if count else call()


def refuse_answers(url: str, *, no_longer: bool = False) -> None:
    """Let the database refuse what assistants say."""
    refusal = (
        "BEFORE INSERT ON message_rows WHEN NEW.role = 'assistant' BEGIN SELECT RAISE(FAIL, 'disk full'); END"
    )
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        database.execute("DROP TRIGGER full" if no_longer else f"CREATE TRIGGER full {refusal}")


class Slow(BaseLayer):
    """A layer that says when it is asked and answers when it may."""

    name = "slow"
    slot = 60
    every_step = True

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def recall(self, request: RecallRequest) -> Recalled:
        self.asked.set()
        await self.go_on.wait()
        return Recalled()


async def read_a_word(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream("Count") as stream:
        async for _ in stream.stream_text(delta=True, debounce_by=None):
            raise RuntimeError("enough")


async def roles_and_outcome(memory: Memory, scope: Scope = MIRA) -> tuple[list[str], str]:
    history = await memory.history(scope, 100)
    ((turn_id,),) = run(memory.location, "SELECT turn_id FROM messages WHERE message_id = ?", history[-1].id)
    turn = await memory._store.jobs.turn(scope, turn_id)
    return [message.role for message in history], turn.status


class TestFailures:
    async def test_a_run_that_fails(self, sqlite_url: str) -> None:
        def broken() -> str:
            """Break."""
            raise RuntimeError("the disk is on fire")

        async with opened(sqlite_url) as memory:
            with pytest.raises(RuntimeError, match="on fire"):
                await calls("look", "broken").agent(memory, tools=[look, broken]).run("Go")
            roles, outcome = await roles_and_outcome(memory)
            assert (roles, outcome) == (LOOP, "failure")

    async def test_listeners_that_fail_fail_no_run(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(_told: object) -> None:
            raise ValueError("the listener is broken")

        async with opened(sqlite_url) as memory:
            ability = MemoryCapability(memory, MIRA, on_context=fails, on_complete=fails)
            model = FunctionModel(lambda _messages, _info: ModelResponse([TextPart("Hi.")]))
            result = await Agent(model, capabilities=[ability]).run("Go")
            assert result.output == "Hi."
            assert await roles_and_outcome(memory) == (["user", "assistant"], "success")
        assert caplog.text.count("a listener of the memory failed") == 2

    async def test_a_run_that_is_cancelled(self, sqlite_url: str) -> None:
        waiting = asyncio.Event()

        async def wait() -> str:
            """Wait for ever."""
            waiting.set()
            await asyncio.Event().wait()
            return "never"

        async with opened(sqlite_url) as memory:
            run = asyncio.create_task(calls("look", "wait").agent(memory, tools=[look, wait]).run("Go"))
            await waiting.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            roles, outcome = await roles_and_outcome(memory)
            assert (roles, outcome) == (LOOP, "aborted")
            host = says("Yes.")
            await host.agent(memory).run("Still there?")  # the call that has no result is not sent again
        assert "wait" not in str(host.requests)

    @pytest.mark.parametrize("times", [1, 3])
    async def test_a_run_that_is_cancelled_while_its_turn_begins(self, sqlite_url: str, times: int) -> None:
        host, slow = says("Hi."), Slow()
        async with opened(sqlite_url, layers=[slow]) as memory:
            run = asyncio.create_task(host.agent(memory).run("Go"))
            await slow.asked.wait()
            for _ in range(times):
                run.cancel()
                await asyncio.sleep(0)
            slow.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await roles_and_outcome(memory) == (["user"], "aborted")
        assert host.requests == []

    async def test_a_run_that_is_cancelled_while_a_step_is_saved(self, sqlite_url: str) -> None:
        looked, slow = asyncio.Event(), Slow()
        slow.go_on.set()

        async def look() -> str:
            """Look, and let the next context wait."""
            slow.asked.clear()
            slow.go_on.clear()
            looked.set()
            return "pay-2 is fine"

        async with opened(sqlite_url, layers=[slow]) as memory:
            run = asyncio.create_task(calls("look").agent(memory, tools=[look]).run("Go"))
            await looked.wait()
            await slow.asked.wait()
            run.cancel()
            await asyncio.sleep(0)
            slow.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await log_of(memory) == [("user", "Go"), ("assistant", "look {}"), ("tool", "pay-2 is fine")]
            assert await roles_and_outcome(memory) == (LOOP[:3], "aborted")

    async def test_a_run_may_be_cancelled_in_any_moment_after_a_tool(self, sqlite_url: str) -> None:
        runs: list[asyncio.Task[Any]] = []

        async def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
            if len(messages) > 1:
                await asyncio.Event().wait()
            return ModelResponse([ToolCallPart("look", {}, "a")])

        async def look() -> str:
            """Look; the run is cancelled some turns of the loop later."""
            turns_later(len(runs), runs[-1].cancel)
            return "pay-2 is fine"

        async with opened(sqlite_url) as memory:
            for number in range(60):
                scope = Scope("support", "mira", f"run {number}")
                agent = Agent(
                    FunctionModel(answer), tools=[look], capabilities=[MemoryCapability(memory, scope)]
                )
                runs.append(asyncio.create_task(agent.run("Go")))
                with pytest.raises(asyncio.CancelledError):
                    await runs[-1]
                roles, outcome = await roles_and_outcome(memory, scope)
                assert (number, roles, outcome) == (number, LOOP[: len(roles)], "aborted")

    async def test_a_step_that_cannot_be_saved_is_saved_with_the_next(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        looks = iter(range(9))

        def look() -> str:
            """Look; the first step cannot be saved."""
            number = next(looks)
            refuse_answers(sqlite_url) if number == 0 else refuse_answers(sqlite_url, no_longer=True)
            return f"look {number}"

        async with opened(sqlite_url) as memory:
            await calls("look", "look").agent(memory, tools=[look]).run("Go")
            assert await log_of(memory) == [
                ("user", "Go"),
                *[("assistant", "look {}"), ("tool", "look 0"), ("assistant", "look {}"), ("tool", "look 1")],
                ("assistant", "Done."),
            ]
        assert "memory cannot step the turn" in caplog.text

    async def test_the_host_is_told_whether_the_turn_was_saved(self, sqlite_url: str) -> None:
        told: list[Receipt | None] = []
        async with opened(sqlite_url) as memory:
            ability = MemoryCapability(memory, MIRA, on_complete=told.append)
            agent = Agent(says("Hi.").model, capabilities=[ability])
            await agent.run("Hello")
            refuse_answers(sqlite_url)
            await agent.run("Hello again")
        await agent.run("Is anybody there?")
        receipt, *others = told
        assert (receipt.outcome, len(receipt.message_ids)) == ("success", 2)
        assert others == [None, None]

    async def test_a_stream_whose_reader_fails(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            agent = says("One two three four.").agent(memory)
            with pytest.raises(RuntimeError, match="enough"):
                await read_a_word(agent)
            roles, outcome = await roles_and_outcome(memory)
            assert (roles, outcome) == (["user", "assistant"], "failure")

    async def test_a_closed_memory_does_not_fail_the_run(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(sqlite_url) as memory:
            host = calls("look")
            agent = host.agent(memory, tools=[look])
        with caplog.at_level(logging.WARNING, "casenotes"):
            assert (await agent.run("Go")).output == "Done."
        assert host.tools == [["look"]] * 2
        (record,) = caplog.records
        assert "memory cannot begin the turn" in record.getMessage()

    async def test_a_memory_that_is_closed_meanwhile_does_not_either(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with AsyncExitStack() as stack:
            memory = await stack.enter_async_context(opened(sqlite_url))

            async def close() -> str:
                """Close the memory."""
                await stack.aclose()
                return "closed"

            host = calls("close", "recall_memory")
            with caplog.at_level(logging.WARNING, "casenotes"):
                assert (await host.agent(memory, tools=[close]).run("Go")).output == "Done."
        told = [record.getMessage().split(",")[0] for record in caplog.records]
        assert told == ["memory cannot step the turn"] * 2 + ["memory cannot complete the turn"]
        async with opened(sqlite_url) as memory:
            assert await log_of(memory) == [("user", "Go")]

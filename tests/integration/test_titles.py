"""Titles of threads: what the user said first, what a model calls it, or what the host has said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from conversation import opened, settings, turn

from casenotes import Memory, Message, Scope, Settings
from casenotes.models.chat import ChatRequest
from casenotes.testing import ScriptedModel
from casenotes.transfer.exporting import export_lines

KEY = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
BY_MODEL = replace(settings(), titles="model")


def naming(answer: Any) -> ScriptedModel:
    def respond(request: ChatRequest) -> Any:
        if request.task != "title":
            return {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ScriptedModel(respond)


async def title(memory: Memory, scope: Scope) -> tuple[str | None, bool]:
    (found,) = [one for one in await memory.threads(scope) if one.thread_id == scope.thread_id]
    return found.title, found.named


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("The webhook is down", "The webhook is down"),
        ("  two\n lines ", "two lines"),
        ("word " * 40, f"{'word ' * 11}word…"),
        (f"My key is {KEY}", "My key is [secret:api_key]"),
        ("\u200b", None),
    ],
)
async def test_a_thread_is_called_by_its_first_words(
    shared_url: str, scope: Scope, said: str, expected: str | None
) -> None:
    async with opened(shared_url) as memory:
        await turn(memory, scope, said, "I see.")
        await turn(memory, scope, "Something else", "I see.")
        assert await title(memory, scope) == (expected, False)


async def test_what_others_say_first_is_no_title(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as memory:
        await memory.append(scope, [Message("system", "Be kind."), Message("assistant", "How can I help?")])
        assert await title(memory, scope) == (None, False)
        await memory.append(scope, "The webhook is down")
        assert await title(memory, scope) == ("The webhook is down", False)


async def test_a_model_names_a_thread_once_after_a_good_turn(shared_url: str, scope: Scope) -> None:
    model = naming(f'"Broken <b>webhook</b> {KEY}."\n')
    async with opened(shared_url, model, config=BY_MODEL) as memory:
        await turn(memory, scope, "The webhook is down", "No.", outcome="failure")
        assert await title(memory, scope) == ("The webhook is down", False)
        await turn(memory, scope, f"Is it? {KEY}", "Yes.")
        named = await title(memory, scope)
        assert named == ("Broken &lt;b>webhook&lt;/b> [secret:api_key]", True)
        await turn(memory, scope, "Still?", "Yes.")
        assert await title(memory, scope) == named
    requests = [request for request in model.requests if request.task == "title"]
    assert len(requests) == 1
    assert KEY not in requests[0].prompt


@pytest.mark.parametrize("answer", ["", {}, "\u200b", ' "" '])
async def test_a_model_without_an_idea_leaves_the_first_words(
    shared_sqlite_url: str, scope: Scope, answer: Any
) -> None:
    async with opened(shared_sqlite_url, naming(answer), config=BY_MODEL) as memory:
        await turn(memory, scope, "The webhook is down")
        assert await title(memory, scope) == ("The webhook is down", False)


async def test_a_model_that_fails_costs_nothing_else(store_url: str, scope: Scope) -> None:
    events: list[Any] = []
    model = naming(RuntimeError("no model today"))
    async with opened(store_url, model, config=BY_MODEL, on_event=events.append) as memory:
        receipt = await turn(memory, scope, "The webhook is down")
        assert receipt.status == "learned"
        assert await title(memory, scope) == ("The webhook is down", False)
    assert "title" in {event.data["source"] for event in events if event.name == "learning.failed"}


async def test_the_hosts_title_wins(shared_url: str, scope: Scope) -> None:
    model = naming("The model's")
    tuesday = replace(scope, thread_id="tuesday")
    async with opened(shared_url, model, config=BY_MODEL) as memory:
        under_way = await memory.begin(scope, "The webhook is down")
        await memory.update_thread(scope, title="The host's")
        await memory.complete(under_way, "I see.", sync=True)
        assert await title(memory, scope) == ("The host's", True)
        assert "title" not in [request.task for request in model.requests]
        await turn(memory, tuesday, "And now?")
        assert await title(memory, tuesday) == ("The model's", True)
        await memory.update_thread(tuesday, title="The host's, later")
        await turn(memory, tuesday, "Still?")
        assert await title(memory, tuesday) == ("The host's, later", True)


async def test_a_title_given_while_the_model_thinks_wins(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url) as host:

        async def respond(request: ChatRequest) -> Any:
            if request.task == "title":
                await host.update_thread(scope, title="The host's")
                return "The model's"
            return {}

        async with opened(shared_url, ScriptedModel(respond), config=BY_MODEL) as memory:
            await turn(memory, scope, "The webhook is down")
            assert await title(memory, scope) == ("The host's", True)


async def test_an_export_invents_no_titles(shared_url: str, scope: Scope) -> None:
    named = replace(scope, thread_id="tuesday")
    async with opened(shared_url) as memory:
        await memory.append(scope, "The webhook is down")
        await memory.append(named, "The webhook is up")
        await memory.update_thread(named, title="Good news")
        lines = [json.loads(line) async for line in export_lines(memory, scope.agent_id)]
        titles = {line["thread"]: line["title"] for line in lines if line.get("kind") == "thread"}
        assert titles == {"tuesday": "Good news"}
        assert len(lines) == 3


def test_only_two_kinds_of_titles_exist() -> None:
    with pytest.raises(Exception, match="titles is 'none'; it must be one of first_message, model"):
        Settings(titles="none")

"""Whatever a layer keeps for one user is seen by no other user and no other agent: every layer, every door."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import NOW, opened, settings

from casenotes import Memory, Scope
from casenotes.config import EpisodesSettings, ProfileSettings, SemanticRecallSettings
from casenotes.layers.base import BaseLayer, LearnRequest, Recalled, RecallRequest
from casenotes.models.chat import ChatRequest
from casenotes.testing import ScriptedModel

MARK = "zebrafinch"
MIRA = Scope("support", "mira", "monday")
STRANGERS = (
    Scope("support", "jonas", "monday"),
    Scope("sales", "mira", "monday"),
    Scope("support", None, "monday"),
)
ASKED = "What do you know of the naming that I like, and of what broke the runs?"


class Diary(BaseLayer):
    """A layer of somebody else, with a state for each user."""

    name = "diary"

    async def recall(self, request: RecallRequest) -> Recalled:
        return Recalled(str((await request.state.read()).value.get("said", "")))

    async def learn(self, request: LearnRequest) -> None:
        seen = await request.state.read()
        await request.state.write({"said": request.messages[0].text}, seen.version)


def answer(request: ChatRequest) -> object:
    if request.task == "profile":
        return {"patch": [{"field": "Preferences/Naming", "action": "append", "value": f"{MARK} naming"}]}
    if request.task == "extract":
        return {"entries": []}
    if request.task == "observe":
        return {
            "observations": [{"text": f"The {MARK} was seen."}],
            "session": {"objective": f"mend the {MARK}"},
        }
    return f"About {MARK}." if request.task in ("summarise", "title") else {}


def config(**episodes: object) -> object:
    return replace(
        settings(),
        titles="model",
        profile=ProfileSettings(learn=True),
        semantic_recall=SemanticRecallSettings(True, scope="resource"),
        episodes=EpisodesSettings(**episodes),
    )


async def fill(memory: Memory) -> None:
    """Everything that layers can keep, with the mark in it."""
    turn = await memory.begin(MIRA, f"I like {MARK} naming, the {MARK} broke the runs.")
    tools = {tool.name: tool for tool in turn.tools}
    await tools["update_profile"].call(field="User Context/Name", action="set", value=f"Mira {MARK}")
    await tools["plan"].call(goal=f"Mend the {MARK}", steps=[{"text": f"look at {MARK}", "status": "pending"}])
    await memory.complete(turn, f"The {MARK} is mended.", sync=True)
    await memory.record_attempt(MIRA, "mend it", f"shook the {MARK}", "it bit")
    child = await memory.begin(MIRA.child("helper"), f"Count the {MARK}")
    await memory.complete(child, f"No {MARK} in sight.", outcome="failure")
    await memory.finish(MIRA)


async def seen_by(memory: Memory, scope: Scope) -> str:
    """All that a scope can get to see."""
    turn = await memory.begin(scope, ASKED)
    context = await memory.step(turn, "Let me see.")
    answers = [await tool.call(**_arguments(tool.name)) for tool in turn.tools]
    told = [turn.context.text, context.text, turn.context.trace, answers, turn.context.messages[:-1]]
    told += [await memory.briefing(scope, "mend it", ""), await memory.attempts(scope)]
    told += [await memory.threads(scope), await memory.plan(scope), await memory.event_history(scope)]
    told += [await memory.observations(scope, history=True), await memory.session(scope)]
    if scope.resource_id:
        told += [await memory.profile(scope), await memory.profile_history(scope), await memory.episodes(scope)]
        told += [hit for hit in await memory.recall(scope, "broke naming") if hit.thread_id != scope.thread_id]
    await memory.complete(turn, "I know nothing.", outcome="aborted")
    return repr(told)


def _arguments(name: str) -> dict[str, str]:
    return {"recall_memory": {"query": "broke naming"}}.get(name, {})


async def test_r05_41_each_layer_keeps_to_its_user(store_url: str) -> None:
    async with opened(store_url, ScriptedModel(answer), config=config(), layers=[Diary()]) as memory:
        await fill(memory)
        own = await seen_by(memory, replace(MIRA, thread_id="tuesday"))
        for tag in ("<user-profile>", "<memory>", "<episodes>", "<semantic-recall>", f"{MARK} naming"):
            assert tag in own, f"the control: {tag} shows the mark to its owner"
        assert MARK in str(await memory.plan(MIRA))
        again = (await memory.begin(MIRA, ASKED)).context.text
        assert f"The {MARK} was seen." in again, "the control: observations are shown in their thread"
        assert f"Objective: mend the {MARK}" in again
        assert "<observations>" not in own, "and in no other"
        for stranger in STRANGERS:
            assert MARK not in await seen_by(memory, stranger), stranger


async def test_only_run_summaries_are_shared_and_only_on_demand(store_url: str) -> None:
    shared = config(share_across_users=True)
    async with opened(store_url, ScriptedModel(answer), config=shared, layers=[Diary()]) as memory:
        await fill(memory)
        jonas, other_agent, nobody = STRANGERS
        turn = await memory.begin(jonas, "Hello there.")
        blocks = {block.name: block.text for block in turn.context.blocks}
        assert f"About {MARK}." in blocks["episodes"]
        assert [name for name, text in blocks.items() if MARK in text] == ["episodes"]
        assert "share_across_users" in str(turn.context.trace["layers"]["episodes"])
        for stranger in (other_agent, nobody):
            assert MARK not in (await memory.begin(stranger, "Hello there.")).context.text


@pytest.mark.parametrize("shares", [False, True])
async def test_a_sub_agent_sees_its_parents_memory_only_if_asked_for(store_url: str, shares: bool) -> None:
    async with opened(store_url, ScriptedModel(answer), config=config(), layers=[Diary()]) as memory:
        await fill(memory)
        before = await memory.profile(MIRA)
        turn = await memory.begin(MIRA.child("helper", shares_memory=shares), "What broke naming?")
        assert (MARK in turn.context.text) is shares
        assert ("update_profile" in {tool.name for tool in turn.tools}) is shares
        await memory.complete(turn, "Nothing new.", sync=True)
        assert (await memory.profile(MIRA)).version == before.version or shares
        assert turn.context.messages[-1].created_at == NOW

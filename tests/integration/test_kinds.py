"""The kinds of memory keep apart: from each other, and what is one user's from everybody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversation import SAID, SKEW, block, entry, opened, quoting, tool, turn

from casenotes import Memory, Scope
from casenotes.errors import InvalidScope, UsageError
from casenotes.types import Context

ASKED = "The webhook failed with 401 again, is it the clock of pay-2?"
NAME, ROLE = "User Context/Name", "User Context/Role"
WORD = "zeppelin"


def names(context: Context) -> set[str]:
    return {found.name for found in context.blocks}


async def lived(memory: Memory, scope: Scope) -> None:
    """A turn that is learned from, a profile, a plan, an attempt and a finished run."""
    under_way = await memory.begin(scope, SAID)
    await tool(under_way, "update_profile").call(field=NAME, action="set", value=f"Mira {WORD}")
    await tool(under_way, "plan").call(goal=f"Mend the {WORD}")
    await memory.complete(under_way, "I see.", sync=True)
    await memory.record_attempt(scope, f"Mend the {WORD}", f"hit the {WORD}", "no use")
    await memory.finish(scope)


async def everything(memory: Memory, scope: Scope) -> list[Any]:
    """All that can be read in a scope, empty if there is nothing."""
    return [
        *(await memory.profile(scope)).fields,
        *await memory.profile_history(scope),
        *([plan] if (plan := await memory.plan(scope)) else []),
        *await memory.episodes(scope),
        *await memory.attempts(scope),
        *await memory.recall(scope, ASKED),
        *(await memory.briefing(scope, f"Mend the {WORD}")).attempts,
    ]


def learner() -> Any:
    return quoting(clock=entry(SKEW, SAID))


async def test_r02_02_what_goes_with_the_user_and_what_stays_in_the_thread(
    shared_url: str, scope: Scope
) -> None:
    tuesday = replace(scope, thread_id="tuesday")
    async with opened(shared_url, learner()) as memory:
        await lived(memory, scope)
        here = (await memory.begin(scope, ASKED)).context
        assert names(here) == {"user-profile", "plan", "episodes"}, "the entry stands in the thread itself"
        there = (await memory.begin(tuesday, ASKED)).context
        assert names(there) == {"user-profile", "memory", "episodes"}
        assert SKEW in block(there, "memory")
        assert await memory.plan(tuesday) is None
        assert await memory.attempts(tuesday) == []


async def test_r02_03_no_kind_stands_in_for_another(shared_url: str, scope: Scope) -> None:
    async with opened(shared_url, learner()) as memory:
        await turn(memory, scope, SAID)
        await memory.finish(scope)
        assert (await memory.profile(scope)).fields == {}
        assert await memory.plan(scope) is None
        entries = await memory.ledger(scope)
        await memory.update_profile(scope, NAME, "set", f"Mira {WORD}")
        await memory.update_plan(scope, goal=f"Mend the {WORD}")
        await memory.record_attempt(scope, f"Mend the {WORD}", "", "no use")
        await memory.flush(scope)
        assert await memory.ledger(scope) == entries
        assert await memory.recall(scope, WORD) == []
        elsewhere = await memory.begin(replace(scope, thread_id="tuesday"), f"What about the {WORD}?")
        assert "memory" not in names(elsewhere.context)
        assert (await tool(elsewhere, "recall_memory").call(query=WORD))["hits"] == []


async def test_r02_04_nobody_else_sees_or_changes_it(shared_url: str, scope: Scope) -> None:
    others = [replace(scope, resource_id="jonas"), replace(scope, agent_id=f"{scope.agent_id}-other")]
    async with opened(shared_url, learner()) as memory:
        await lived(memory, scope)
        before = await everything(memory, scope)
        assert len(before) >= 7
        for other in others:
            assert await everything(memory, other) == []
            assert await memory.threads(other) == []
            under_way = await memory.begin(other, ASKED)
            assert under_way.context.blocks == ()
            assert (await tool(under_way, "recall_memory").call(query=WORD))["hits"] == []
            await tool(under_way, "update_profile").call(field=ROLE, action="set", value="stranger")
            await tool(under_way, "plan").call(goal="Something else")
            await memory.complete(under_way, "Hello!", sync=True)
            await memory.record_attempt(other, f"Mend the {WORD}", "nothing", "nothing")
            await memory.finish(other)
            await memory.undo_profile(other)
            with pytest.raises(UsageError):
                await memory.undo_profile(other)
        assert await everything(memory, scope) == before
        for other in others:
            await memory.erase(other.owner, scrub=False)
        assert await everything(memory, scope) == before


async def test_r02_05_without_a_user_only_the_thread_remembers(shared_url: str, scope: Scope) -> None:
    nobody = replace(scope, resource_id=None)
    async with opened(shared_url, learner()) as memory:
        await lived(memory, scope)
        under_way = await memory.begin(nobody, SAID)
        assert under_way.context.blocks == ()
        assert [offered.name for offered in under_way.tools] == ["plan"]
        await tool(under_way, "plan").call(goal="Mend it")
        assert names(await memory.step(under_way, "At it.")) == {"plan"}
        receipt = await memory.complete(under_way, "Done.", sync=True)
        assert receipt.reason == "the scope has no resource_id"
        await memory.record_attempt(nobody, "Mend it", "", "no use")
        assert len(await memory.attempts(nobody)) == 1
        await memory.finish(nobody)
        assert [message.text for message in await memory.history(nobody)] == [SAID, "At it.", "Done."]
        with pytest.raises(InvalidScope, match="no resource_id"):
            await memory.profile(nobody)
        with pytest.raises(InvalidScope, match="no resource_id"):
            await memory.update_profile(nobody, NAME, "set", "Eve")
        assert await memory.episodes(nobody) == []


async def test_r02_06_erasing_a_user_leaves_nothing(store_url: str) -> None:
    scope = Scope("support", "mira", "monday")
    jonas = replace(scope, resource_id="jonas")
    async with opened(store_url, learner()) as memory:
        for place in (scope, jonas):
            await lived(memory, place)
        under_way = await memory.begin(scope, "one more thing")
        await memory.erase(scope.owner, scrub=False)
        assert await everything(memory, scope) == []
        answer = await tool(under_way, "update_profile").call(field=ROLE, action="set", value="ghost")
        assert "error" in answer, "a turn that was erased writes nothing"
        assert await everything(memory, scope) == []
        assert len(await everything(memory, jonas)) >= 7
        fresh = await memory.begin(scope, ASKED)
        assert fresh.context.blocks == ()

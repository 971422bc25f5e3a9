"""Entries are derived again beside the old ones, compared, and switched at one stroke."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversation import JONAS, LATER, MIRA, NOW, entry, opened, proposes, settings, turn
from reflection import learning, stating, supersedes

from casenotes import Memory
from casenotes.errors import ModelRefused, SettingsError, StoreError
from casenotes.testing import FrozenClock, HashEmbedder, ScriptedModel

FIRST = "The pump of hall 3 stopped because the filter was clogged."
SECOND = "The lamp of hall 4 flickers since the storm."
BETTER = "In hall 3 the pump stopped: the filter was clogged."
WISH = "The spare filter lies on shelf 9."


async def active(memory: Memory) -> list[str]:
    hits = await memory.recall(MIRA.owner, "pump lamp filter hall shelf storm", 50)
    return sorted(hit.content for hit in hits if hit.kind == "entry")


async def first_time(url: str) -> None:
    async with opened(url, learning(stating(FIRST, SECOND), lambda _n: {})) as memory:
        await turn(memory, MIRA, FIRST)
        await turn(memory, LATER, SECOND)
        await memory.remember(MIRA, WISH)
        await turn(memory, JONAS, FIRST)


def better() -> ScriptedModel:
    facts = {FIRST: entry(BETTER, FIRST), "storm": entry("The storm hit hall 4.", "since the storm")}
    return learning(facts, lambda _notes: {})


class TestRebuild:
    async def test_the_difference_is_told_before_anything_changes(self, store_url: str) -> None:
        await first_time(store_url)
        model = better()
        done: list[tuple[int, int]] = []
        async with opened(store_url, model) as memory:
            plan = await memory.rebuild(MIRA, progress=lambda n, total: done.append((n, total)))
            assert {(pair.old.content, pair.new.content) for pair in plan.changed} == {
                (FIRST, BETTER),
                (SECOND, "The storm hit hall 4."),
            }
            assert (plan.turns, plan.added, plan.gone, done) == (2, (), (), [(1, 2), (2, 2)])
            assert await active(memory) == sorted([FIRST, SECOND, WISH])
            revision = await memory.switch_to(plan)
            assert await active(memory) == sorted([BETTER, "The storm hit hall 4.", WISH])
            assert (await memory.audit(MIRA)).failed == ()
            await memory.undo(MIRA, revision)
            assert await active(memory) == sorted([FIRST, SECOND, WISH])
            assert len(await memory.recall(JONAS.owner, "pump of hall 3", 9)) == 2, "others are not touched"

    async def test_what_is_the_same_stays_as_it_is(self, store_url: str) -> None:
        await first_time(store_url)
        async with opened(store_url, learning(stating(FIRST, SECOND), lambda _n: {})) as memory:
            ids = {hit.id for hit in await memory.recall(MIRA.owner, "pump of hall 3 filter", 9)}
            plan = await memory.rebuild(MIRA)
            assert (plan.is_different, len(plan.kept)) == (False, 2)
            assert {kept.id for kept in plan.kept} & ids

    async def test_added_and_gone(self, store_url: str) -> None:
        await first_time(store_url)
        async with opened(store_url, proposes()) as memory:
            plan = await memory.rebuild(MIRA)
            assert sorted(e.content for e in plan.gone) == sorted([FIRST, SECOND])
            await memory.switch_to(plan)
            assert await active(memory) == [WISH]
        async with opened(store_url, learning(stating(FIRST, SECOND), lambda _n: {})) as memory:
            plan = await memory.rebuild(MIRA)
            assert sorted(e.content for e in plan.added) == sorted([FIRST, SECOND])
            await memory.switch_to(plan)
            assert await active(memory) == sorted([FIRST, SECOND, WISH])
            await memory.flush()
            vectors = await memory.index_size(MIRA)
            assert vectors.messages == 8

    async def test_corrections_are_made_again(self, store_url: str) -> None:
        old, new = "The gate of hall 5 opens at 6.", "The gate of hall 5 opens at 7 now."
        clock = FrozenClock(NOW)
        async with opened(store_url, learning(stating(old, new), lambda _n: {}), clock=clock) as memory:
            await turn(memory, MIRA, old)
            clock.set(NOW.replace(day=20))
            await turn(memory, LATER, new)
        async with opened(store_url, learning(stating(old, new), supersedes(old, new, new))) as memory:
            plan = await memory.rebuild(MIRA)
            assert [(pair.old.status, pair.new.status) for pair in plan.changed] == [("active", "superseded")]
            await memory.switch_to(plan)
            hits = await memory.recall(MIRA.owner, "when does the gate of hall 5 open", 9)
            assert [hit.content for hit in hits if hit.kind == "entry"] == [new]
            past = await memory.recall(MIRA.owner, "when does the gate of hall 5 open", 9, as_of=NOW)
            assert [hit.content for hit in past if hit.kind == "entry"] == [old]

    async def test_what_was_forgotten_stays_forgotten(self, store_url: str) -> None:
        await first_time(store_url)
        model = learning(stating(FIRST, SECOND), lambda _n: {})
        async with opened(store_url, model) as memory:
            hits = await memory.recall(MIRA.owner, "lamp of hall 4", 9)
            (lamp,) = [hit.id for hit in hits if hit.content == SECOND and hit.kind == "entry"]
            await memory.forget(MIRA, entry_id=lamp)
            plan = await memory.rebuild(MIRA)
            assert (plan.added, plan.gone, plan.changed) == ((), (), ())

    async def test_nothing_is_learned_from_sub_agents(self, store_url: str) -> None:
        async with opened(store_url, learning(stating(FIRST, SECOND), lambda _n: {})) as memory:
            await turn(memory, MIRA, FIRST)
            child = await memory.begin(MIRA.child("helper"), SECOND)
            await memory.complete(child, "It does.")
            plan = await memory.rebuild(MIRA)
            assert ([entry.content for entry in plan.kept], plan.is_different) == ([FIRST], False)

    async def test_a_memory_that_changed_meanwhile_is_not_switched(self, store_url: str) -> None:
        await first_time(store_url)
        async with opened(store_url, better()) as memory:
            plan = await memory.rebuild(MIRA)
            await memory.remember(MIRA, "A new lamp was ordered on Tuesday.")
            with pytest.raises(StoreError, match="run it again"):
                await memory.switch_to(plan)
            assert FIRST in await active(memory)

    async def test_an_estimate_asks_nobody(self, sqlite_url: str) -> None:
        await first_time(sqlite_url)
        model = better()
        async with opened(sqlite_url, model) as memory:
            told = await memory.estimate_rebuild(MIRA)
            assert (told.turns, told.calls) == (2, 2)
            assert told.input_tokens > 1_000
            assert model.requests == []

    async def test_a_failing_model_changes_nothing(self, sqlite_url: str) -> None:
        await first_time(sqlite_url)

        def broken(_request: Any) -> Any:
            raise ValueError("no such model")

        config = replace(settings(), models=replace(settings().models, attempts=1))
        async with opened(sqlite_url, ScriptedModel(broken), config=config) as memory:
            with pytest.raises(Exception, match="no such model"):
                await memory.rebuild(MIRA)
            assert await active(memory) == sorted([FIRST, SECOND, WISH])

    async def test_without_a_model_there_is_a_clear_error(self, sqlite_url: str) -> None:
        async with opened(sqlite_url) as memory:
            with pytest.raises(SettingsError, match="CASENOTES_MODEL"):
                await memory.rebuild(MIRA)
            with pytest.raises(SettingsError, match="CASENOTES_MODEL"):
                await memory.estimate_rebuild(MIRA)

    async def test_what_is_learned_meanwhile_is_not_lost(self, store_url: str) -> None:
        await first_time(store_url)
        third = "The roof of hall 6 leaks above the crane."
        facts = learning(stating(FIRST, SECOND, third), lambda _n: {})
        async with opened(store_url, facts) as memory:
            talked = False

            async def answer(request: Any) -> Any:
                nonlocal talked
                if not talked:
                    talked = True
                    await turn(memory, replace(MIRA, thread_id="friday"), third)
                return (await facts.ask(request)).output

            async with opened(store_url, ScriptedModel(answer)) as other:
                plan = await other.rebuild(MIRA)
                assert (plan.turns, plan.is_different) == (3, False)

    async def test_what_was_shown_later_is_no_echo(self, sqlite_url: str) -> None:
        """Findings of the assistant that were recalled in their own thread are found again."""
        first = "I measured it: the belt of hall 8 runs 12 percent too fast since Monday."
        second = f"{first} The gear wheel of that belt is worn."
        found = [entry(text, text, "verified_assistant_finding") for text in (first, second)]

        def answer(request: Any) -> Any:
            said = [item for item in found if item["content"] in request.prompt.partition("<transcript>")[2]]
            return {"entries": said[-1:]} if request.task == "extract" else {}

        config = replace(settings(dedupe_similarity_threshold=False), last_messages=2)
        async with opened(sqlite_url, ScriptedModel(answer), config=config) as memory:
            for said in (first, second):
                assert (await turn(memory, MIRA, "How is it?", said)).candidates[0].status in (
                    "stored",
                    "rejected",
                )
            before = await memory.recall(MIRA, "belt of hall 8 speed", 20)
            await turn(memory, MIRA, "Thanks, what about the belt of hall 8?", "As I said.")
            kept = {hit.id for hit in before if hit.kind == "entry"}
            plan = await memory.rebuild(MIRA)
            assert {e.id for e in plan.kept} == kept
            assert not plan.is_different

    async def test_one_failing_call_does_not_cost_the_whole_rebuild(self, sqlite_url: str) -> None:
        await first_time(sqlite_url)

        def broken(request: Any) -> Any:
            if SECOND in request.prompt:
                raise ModelRefused("this text is filtered")
            return {"entries": [entry(BETTER, FIRST)]}

        async with opened(sqlite_url, ScriptedModel(broken)) as memory:
            plan = await memory.rebuild(MIRA)
            assert [pair.new.content for pair in plan.changed] == [BETTER]
            assert (len(plan.failed), plan.gone) == (1, ())
            assert SECOND in [kept.content for kept in plan.kept]

    async def test_the_users_wishes_are_not_decided_anew(self, sqlite_url: str) -> None:
        """A text that was learned and then asked to be kept stays, whatever the model says now."""
        async with opened(sqlite_url, learning(stating(FIRST), lambda _n: {})) as memory:
            await turn(memory, MIRA, FIRST)
            assert (await memory.remember(MIRA, FIRST)).origin == "remembered"
        async with opened(sqlite_url, proposes()) as memory:
            plan = await memory.rebuild(MIRA)
            assert (plan.gone, plan.changed) == ((), ())

    async def test_forgotten_threads_stay_forgotten_in_other_words(self, sqlite_url: str) -> None:
        await first_time(sqlite_url)
        async with opened(sqlite_url, better()) as memory:
            await memory.forget(MIRA, thread_id="monday")
            plan = await memory.rebuild(MIRA)
            assert BETTER not in [e.content for e in (*plan.added, *(pair.new for pair in plan.changed))]

    async def test_a_plan_from_before_an_erasure_brings_nothing_back(self, store_url: str) -> None:
        await first_time(store_url)
        async with opened(store_url, better()) as memory:
            plan = await memory.rebuild(MIRA)
            await memory.erase(MIRA.owner, scrub=False)
            await memory.append(MIRA, "Good morning.")
            with pytest.raises(StoreError, match="run it again"):
                await memory.switch_to(plan)
            assert await active(memory) == []

    async def test_a_plan_from_before_a_new_embedder_keeps_the_store_sound(self, sqlite_url: str) -> None:
        await first_time(sqlite_url)
        async with opened(sqlite_url, better()) as memory:
            plan = await memory.rebuild(MIRA)
            await memory.reembed(HashEmbedder(32))
            with pytest.raises(StoreError, match="run it again"):
                await memory.switch_to(plan)
            assert all(finding.status != "failed" for finding in await memory.check())

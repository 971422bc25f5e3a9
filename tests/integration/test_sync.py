"""The synchronous Memory mirrors the asynchronous one."""

import inspect

import pytest

from casenotes import Memory, Scope, sync
from casenotes.errors import InvalidScope, StoreUnavailable

SCOPE = Scope("support", "ann", "t1")


def test_every_verb_works(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url) as memory:
        turn = memory.begin(SCOPE, "The webhook returns 401 again")
        assert memory.step(turn, "let me look").messages[-1].text == "let me look"
        assert memory.complete(turn, "It was the clock skew.").outcome == "success"
        saved = memory.append(SCOPE, "one more thing", embed=False)
        assert memory.embed(SCOPE, saved.messages) == 1
        assert memory.flush() == []
        assert memory.embed_missing(SCOPE) == 0
        assert memory.recall(SCOPE, "webhook")[0].content == "The webhook returns 401 again"
        assert len(memory.history(SCOPE)) == 4
        memory.update_thread(SCOPE, title="401")
        assert memory.threads(SCOPE)[0].title == "401"
        assert memory.scopes()[0].messages == 4
        assert memory.stats().messages == 4
        assert all(finding.status != "failed" for finding in memory.check())
        assert memory.location == sqlite_url


def test_what_layers_keep(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url) as memory:
        turn = memory.begin(SCOPE, "I am Ann. Move the billing rows to the new cluster.")
        tools = {tool.name: tool for tool in turn.tools}
        told = tools["update_profile"].call(field="User Context/Name", action="set", value="Ann")
        assert (told["saved"], told["version"]) == ("User Context/Name", 1)
        assert tools["plan"].call(goal="Move billing", steps=["copy rows"])["version"] == 1
        memory.complete(turn, "The rows are copied.")
        assert memory.profile(SCOPE).fields == {"User Context/Name": ("Ann",)}
        assert memory.update_profile(SCOPE, "User Context/Role", "set", "DBA").version == 2
        assert memory.undo_profile(SCOPE).fields == {"User Context/Name": ("Ann",)}
        assert [past.version for past in memory.profile_history(SCOPE, 2)] == [3, 2]
        assert memory.update_plan(SCOPE, updates=[{"step": 1, "status": "done"}], version=1).version == 2
        plan = memory.plan(SCOPE)
        assert plan is not None
        assert (plan.goal, plan.steps[0].status) == ("Move billing", "done")
        memory.finish(SCOPE)
        assert [event.name for event in memory.event_history(SCOPE)][-1] == "run.finished"
        assert ["copied" in episode.summary for episode in memory.episodes(SCOPE)] == [True]


def test_sub_agents(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url) as memory:
        memory.append(SCOPE, "Billing answers slowly.")
        memory.record_attempt(SCOPE, "find the slow query of billing", "read the slow log", "it is empty")
        briefing = memory.briefing(SCOPE, "find the slow query of billing", "It began on Monday.")
        assert "It began on Monday." in briefing.text
        assert "error: it is empty" in briefing.text
        child = memory.begin(SCOPE.child("finder"), briefing.text)
        assert child.is_apart
        memory.complete(child, "I cannot log in.", outcome="failure", error="access denied")
        assert [attempt.error for attempt in memory.attempts(SCOPE)] == ["it is empty", "access denied"]


def test_a_closed_memory_says_so(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url) as memory:
        memory.listen(print)()
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.stats()


def test_errors_come_through_and_everything_is_closed(sqlite_url: str) -> None:
    with pytest.raises(InvalidScope), sync.Memory.open(sqlite_url) as memory:
        memory.recall(Scope("support"), "x")


def test_verbs_and_arguments_are_the_same() -> None:
    def verbs(cls: type) -> dict[str, list[inspect.Parameter]]:
        return {
            name: list(inspect.signature(member).parameters.values())
            for name, member in vars(cls).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }

    assert verbs(sync.Memory) == verbs(Memory)

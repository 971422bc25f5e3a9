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


def test_a_closed_memory_says_so(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url) as memory:
        memory.listen(print)()
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.stats()


def test_errors_come_through_and_everything_is_closed(sqlite_url: str) -> None:
    with pytest.raises(InvalidScope), sync.Memory.open(sqlite_url) as memory:
        memory.recall(Scope("support"), "x")


def test_verbs_and_arguments_are_the_same() -> None:
    def verbs(cls: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in vars(cls).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }

    assert verbs(sync.Memory) == verbs(Memory)

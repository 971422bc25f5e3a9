"""The synchronous Memory mirrors the asynchronous one."""

import asyncio
import gc
import inspect
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from casenotes import Memory, Scope, sync
from casenotes.errors import CasenotesError, InvalidScope, StoreUnavailable, UsageError
from casenotes.testing import HashEmbedder, ScriptedModel

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


def in_child(work: Callable[[], object]) -> str:
    """What a forked process meets: the error's type and text, or what was returned."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(20)  # instead of hanging for ever
        try:
            outcome = str(work())
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(writer, outcome.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcome = pipe.read()
    os.waitpid(child, 0)
    return outcome or "it hung"


def test_r03_20_a_forked_child_is_told_to_open_its_own_memory(store_url: str) -> None:
    def remember_in_own_memory() -> int:
        with sync.Memory.open(store_url, embedder=HashEmbedder(16)) as own:
            own.append(SCOPE, "from the child")
            return own.stats().messages

    opening = sync.Memory.open(store_url, embedder=HashEmbedder(16))
    with opening as memory:
        memory.append(SCOPE, "from the parent")
        told = in_child(memory.stats)
        assert told.startswith("UsageError")
        assert "open the memory in the child process" in told
        assert in_child(lambda: opening.__exit__(None, None, None)) in ("None", "False")
        assert in_child(remember_in_own_memory) == "2"
        assert memory.stats().messages == 2


async def test_r03_20_an_asynchronous_store_is_not_used_by_a_forked_child(store_url: str) -> None:
    async with Memory.open(store_url, embedder=HashEmbedder(16)) as memory:

        def in_own_loop(work: Callable[[], Coroutine[Any, Any, object]]) -> str:
            asyncio.events._set_running_loop(None)
            return str(asyncio.run(work()))

        for call in (memory.stats, lambda: memory.append(SCOPE, "from the child")):
            told = await asyncio.to_thread(in_child, lambda call=call: in_own_loop(call))
            assert "open it in the child process" in told
        assert await asyncio.to_thread(in_child, lambda: in_own_loop(memory._store.close)) == "None"
        assert (await memory.stats()).messages == 0


def test_r03_21_a_listener_that_calls_the_memory_is_refused(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = []
    with sync.Memory.open(sqlite_url, embedder=HashEmbedder(16)) as memory:

        def listener(_event: object) -> None:
            try:
                memory.stats()
            except Exception as error:
                errors.append(error)
                raise

        memory.listen(listener)
        with caplog.at_level(logging.ERROR, "casenotes"):
            turn = memory.begin(SCOPE, "Is the fan loud?")
        assert errors
        assert isinstance(errors[0], UsageError)
        assert "make the call in another thread" in caplog.text
        assert memory.complete(turn, "Yes.").outcome == "success"


def test_r03_21_progress_that_calls_the_memory_is_refused(sqlite_url: str) -> None:
    with sync.Memory.open(sqlite_url, embedder=HashEmbedder(16)) as memory:
        memory.append(SCOPE, "The fan is loud.")
        with pytest.raises(UsageError, match="another thread"):
            memory.reembed(HashEmbedder(8), progress=lambda _done, _total: memory.stats() and None)
        assert memory.stats().messages == 1


def call_until_refused(memory: sync.Memory, calls: list[int]) -> CasenotesError:
    while True:
        try:
            memory.append(SCOPE, "The fan is loud.", embed=False)
            calls.append(1)
        except CasenotesError as error:
            return error


@pytest.mark.parametrize("seed", range(5))
def test_r03_22_calls_during_close_end_with_an_error(sqlite_url: str, seed: int) -> None:
    calls: list[int] = []
    with ThreadPoolExecutor(9) as pool:
        model = ScriptedModel(lambda _request: {})
        with sync.Memory.open(sqlite_url, model=model, embedder=HashEmbedder(16)) as memory:
            callers = [pool.submit(call_until_refused, memory, calls) for _ in range(8)]
            worker = pool.submit(memory.work)
            while len(calls) < 10 * seed:
                pass
        for caller in callers:
            error = caller.result(timeout=20)
            assert isinstance(error, StoreUnavailable)
            assert "closed" in str(error)
        assert isinstance(worker.exception(timeout=20), StoreUnavailable)
    with sync.Memory.open(sqlite_url, embedder=HashEmbedder(16)) as memory:
        assert memory.stats().messages >= len(calls)  # nothing acknowledged is lost


def test_r03_22_a_memory_collected_in_its_own_thread_closes(sqlite_url: str) -> None:
    opening = sync.Memory.open(sqlite_url, embedder=HashEmbedder(16))
    memory = opening.__enter__()
    (thread,) = [one for one in threading.enumerate() if one.name == "casenotes-loop"]
    held: list[Any] = [opening]
    del opening

    def drop(_event: object) -> None:
        held.clear()
        gc.collect()

    memory.listen(drop)
    with suppress(StoreUnavailable):
        memory.begin(SCOPE, "Is the fan loud?")
    thread.join(timeout=20)
    assert not thread.is_alive()


def test_r03_22_an_interpreter_ends_with_a_memory_that_was_never_closed(tmp_path: Path) -> None:
    script = (
        "from casenotes import Scope, sync\n"
        "from casenotes.testing import HashEmbedder\n"
        f"opening = sync.Memory.open('sqlite:///{tmp_path}/s.db', embedder=HashEmbedder(16))\n"
        "memory = opening.__enter__()\n"
        "memory.append(Scope('a', 'b', 'c'), 'hello')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()

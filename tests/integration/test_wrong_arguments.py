"""Every public verb refuses arguments of a wrong type with our own error, before anything reaches a driver."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pytest

from casenotes import Memory, Message, Scope, sync
from casenotes.errors import InvalidScope, UsageError
from casenotes.types import ChildScope, Context, ToolCall, ToolResult, Turn

SCOPE = Scope("support", "ann", "t1")
TURN = Turn("t", SCOPE, Context())
NAIVE = datetime(2026, 3, 1)  # noqa: DTZ001
WRONG: dict[str, list[Any]] = {
    "Scope": ["support", None, 5, ("support", "ann"), b"support"],
    "Input": [None, 5, b"text", {"role": "user", "content": "hi"}, ["text"], [None], "a\x00", "\ud800"],
    "Turn": ["turn", 5, SCOPE],
    "Message": ["text", None],
    "Sequence[Message]": [5, b"text", ["text"], {"role": "user"}],
    "Sequence[str]": ["e1", 5, None, [5], ["a\x00"], ["\ud800"], b"e1"],
    "Sequence[Mapping[str, str]]": ["steps", 5, [5], [{"text": 5}], [{"text": "a", "status": 5}]],
    "Sequence[Mapping[str, Any]]": ["steps", 5, [5], [{"step": "x"}], [{"step": 2**70}], [{"step": 1.5}]],
    "Sequence[Any]": [5, "layers"],
    "Mapping[str, Any]": [5, "{}", [1], {"a": object()}, {"a": "\x00"}],
    "str": [5, b"text", ["text"], "a\x00", "\ud800"],
    "int": [1.5, "5", True, 2**70, b"5"],
    "float": ["5", True, -1, float("nan"), -0.5],
    "bool": ["yes", 1, 0.0],
    "datetime": [NAIVE, NAIVE.date(), "2026-03-01", 5],
    "date": [NAIVE, datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01", 5],
    "Outcome": ["done", None, 5, ["success"], b"success"],
    "Role": ["human", None, 5, b"user"],
    "Rebuild": [None, 5, "rebuild"],
    "Progress": [5, "progress"],
    "Listener": [5, None, "listener"],
    "Clock": [5, "now"],
    "TokenCounter": [5, "count"],
    "Embedder": [5, b"static"],
    "Settings": [5, b"{}"],
    "Credentials": [5, b"key"],
    "Any": [5, 1.5, b"model"],
}
VALID: dict[str, Any] = {
    "Scope": SCOPE,
    "Scope | ChildScope": SCOPE,
    "Input": "text",
    "Turn": TURN,
    "Message": Message("user", "hi"),
    "Sequence[Message]": [],
    "Sequence[str]": ["e1"],
    "str": "text",
    "Rebuild": None,
    "str | Embedder": "static",
    "Listener": print,
    "Mapping[str, Any] | str": {"memory": {}},
}
LIMITS = ("limit", "top_k")

SEARCHED = {"query"}
"""It is searched as far as it can be read."""


def verbs() -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(Memory, callable):
        if not name.startswith("_"):
            yield name, member


def wrong_values(parameter: inspect.Parameter) -> list[Any]:
    """What no alternative of the annotation takes; a KeyError tells of an annotation that is new."""
    alternatives = str(parameter.annotation).split(" | ")
    kinds = [kind for kind in alternatives if kind not in ("None", "ChildScope")]
    values = [5, 1.5, object()] if len(kinds) > 1 and set(kinds) <= set(WRONG) else WRONG[kinds[0]]
    if parameter.name in SEARCHED:
        values = [value for value in values if not isinstance(value, str)]
    if "None" in alternatives:
        values = [value for value in values if value is not None]
    if parameter.name in LIMITS:  # a large one means all there is
        values = [*(value for value in values if value != 2**70), 0, -1]
    return values


def calls(verb: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls with one wrong argument each, by its name."""
    parameters = [p for p in inspect.signature(verb).parameters.values() if p.name not in ("self", "options")]
    required = {p.name: p.annotation for p in parameters if p.default is p.empty}
    for parameter in parameters:
        for value in wrong_values(parameter):
            rest = {name: VALID[kind] for name, kind in required.items() if name != parameter.name}
            yield parameter.name, {**rest, parameter.name: value}


CALLS = [(name, *call) for name, verb in verbs() for call in calls(verb)]
OPENING = ("open", "from_json")


@pytest.fixture
def memory(sqlite_url: str) -> Iterator[sync.Memory]:
    with sync.Memory.open(sqlite_url, config={"memory": {"enabled": True}}) as memory:
        yield memory


def outcome(call: Any, name: str, arguments: Mapping[str, Any]) -> str:
    """Empty if the call raised an error of ours that names the argument or its value."""
    wrong = f"{name}={arguments.get(name)!r:.40}"
    try:
        call(**arguments)
    except UsageError as error:
        return "" if len(str(error)) > 20 else f"{wrong}: says only {error}"
    except Exception as error:
        return f"{wrong}: {type(error).__name__}: {error}"
    return f"{wrong}: accepted"


def test_r03_23_wrong_arguments_raise_our_errors(memory: sync.Memory) -> None:
    problems = [
        f"{verb}: {problem}"
        for verb, name, arguments in CALLS
        if verb not in OPENING and (problem := outcome(getattr(memory, verb), name, arguments))
    ]
    assert problems == []
    assert len(CALLS) > 500


def test_r03_23_so_do_wrong_arguments_of_opening(sqlite_url: str) -> None:
    def opening(verb: str) -> Any:
        def call(**arguments: Any) -> None:
            with getattr(sync.Memory, verb)(**{"url": sqlite_url, **arguments}):
                pass

        return call

    problems = [
        f"{verb}: {problem}"
        for verb, name, arguments in CALLS
        if verb in OPENING and (problem := outcome(opening(verb), name, arguments))
    ]
    assert problems == []


BAD_MESSAGES: list[dict[str, Any]] = [
    *({"created_at": value} for value in ("2026-03-01", NAIVE, NAIVE.date(), 5)),
    *({"metadata": value} for value in (None, 5, "x", [1], {"a": object()})),
    *({"parts": value} for value in (None, 5, "abc", [5])),
    *({"id": value} for value in (5, b"m1", "", "a\x00")),
    *({"role": value} for value in ("human", None, ["user"])),
    *({"text": value} for value in (None, 5, b"text", "a\x00", "\ud800")),
    {"tokens": "many"},
    *({"parts": [ToolCall(*values)]} for values in (("c", "look", 5), (5, "look", {}), ("c", None, {}))),
    *(
        {"parts": [ToolResult(*values)]}
        for values in (("c", 5), (None, "x"), ("c", "x", "no"), ("c", "x", None))
    ),
]


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_r03_23_so_do_messages_with_wrong_fields(sqlite_url: str, enabled: bool) -> None:
    with sync.Memory.open(sqlite_url, config={"memory": {"enabled": enabled}}) as memory:
        turn = memory.begin(SCOPE, "hello")
        takers: dict[str, Callable[[Message], Any]] = {
            "begin": lambda message: memory.begin(SCOPE, message),
            "step": lambda message: memory.step(turn, [message]),
            "complete": lambda message: memory.complete(turn, [message]),
            "append": lambda message: memory.append(SCOPE, [message]),
            "embed": lambda message: memory.embed(SCOPE, [message]),
            "size_of": lambda message: memory.size_of(message),
        }

        def say(verb: str, **values: Any) -> None:
            takers[verb](Message(**{"role": "user", "text": "hi", **values}))

        problems = [
            f"{verb}: {problem}"
            for verb in takers
            for values in BAD_MESSAGES
            if (problem := outcome(partial(say, verb), next(iter(values)), values))
        ]
        assert problems == []
        assert enabled is False or len(memory.history(SCOPE)) == 1


@pytest.mark.parametrize(
    "values",
    [
        ("support", "n", "t2"),
        (SCOPE.owner, "n", "t2"),
        (SCOPE, 5, "t2"),
        (SCOPE, "n", None),
        (SCOPE, "n", "t2", 1),
    ],
)
def test_r03_23_so_do_scopes_of_sub_agents(values: Sequence[Any]) -> None:
    with pytest.raises(InvalidScope):
        ChildScope(*values)


async def test_r03_23_an_error_comes_from_awaiting_and_shows_no_secret(sqlite_url: str) -> None:
    async with Memory.open(sqlite_url) as memory:
        call = memory.begin(b"token = sk-proj-abcdefghijklmnop1234567890", "hi")  # type: ignore[arg-type]
        with pytest.raises(InvalidScope, match=r"scope is .*\(agent_id, resource_id, thread_id\)") as refused:
            await call
    assert "abcdefghijklmnop" not in str(refused.value)
    with pytest.raises(UsageError) as refused:
        Memory.open(b"postgresql://ann:hunter2secret@host/db")  # type: ignore[arg-type]
    assert "hunter2" not in str(refused.value)


def test_r03_23_whole_numbers_of_numpy_are_whole_numbers(memory: sync.Memory) -> None:
    memory.append(SCOPE, [Message("user", "The pump is off."), Message("assistant", "Noted.")])
    assert [m.text for m in memory.history(SCOPE, limit=np.int64(1))] == ["Noted."]
    assert [m.text for m in memory.history(SCOPE, before=np.int32(2))] == ["The pump is off."]
    assert memory.recall(SCOPE, "pump", top_k=np.uint8(1))
    with pytest.raises(UsageError, match="top_k is"):
        memory.recall(SCOPE, "pump", top_k=np.array([1, 2]))

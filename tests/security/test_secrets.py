"""Canary secrets through every command, log, error and repr: none may come out.

They stand where secrets stand in life: in the URL of the database, in the keys of the environment, in a file of
credentials, in the answers of a provider that repeats the key it was sent, and where somebody has pasted one.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import typer.main
from provider_server import Provider, provider

from casenotes import Memory, Scope, Secret, Settings
from casenotes.builder import MemoryBuilder, verify
from casenotes.cli.app import app, main
from casenotes.config import EpisodicSettings, ObservationalSettings, StorageSettings, WorkerModel, effective
from casenotes.credentials import (
    EnvironmentCredentials,
    FileCredentials,
    KeyringCredentials,
    MappingCredentials,
    as_resolver,
    hide,
)
from casenotes.errors import CasenotesError
from casenotes.models.keys import look_up

PASSWORD = "canary-pw-91c4e7"
OPENAI = "sk-canary-openai-5d1e8b"
KEPT = "canary-kept-2b77d0"
SHORT = "cnry7"
PASTED = "sk-proj-canaryPASTED0123456789abcdEFGH"
CANARIES = (PASSWORD, OPENAI, KEPT, SHORT, PASTED)
ANNA = ["--resource", "anna"]
THREAD = [*ANNA, "--thread", "t"]
COMMANDS: dict[str, list[list[str]]] = {
    "demo": [[]],
    "chat": [["--model", "openai:gpt-4o", *ANNA]],
    "import": [["lines.jsonl"], ["gone.jsonl"]],
    "export": [["-o", "out.jsonl"], []],
    "recall": [["pump", *ANNA]],
    "ledger": [[*ANNA]],
    "worker": [["--once", "--model", "openai:gpt-4o"], ["--once"]],
    "remember": [["The pump is loud.", *ANNA]],
    "forget": [[*ANNA, "--query", "pump", "--dry-run"]],
    "undo": [["r1", *ANNA]],
    "quarantine": [[*ANNA]],
    "explain": [["nothing"]],
    "profile": [[*ANNA]],
    "plan": [THREAD],
    "attempts": [THREAD],
    "events": [THREAD],
    "episodes": [[*ANNA]],
    "threads": [[*ANNA]],
    "observations": [THREAD],
    "audit": [[]],
    "rebuild": [[*ANNA, "--model", "openai:gpt-4o", "--yes"], [*ANNA, "--dry-run"]],
    "erase": [["--resource", "ben", "--yes", "--no-scrub"]],
    "reembed": [["openai:text-embedding-3-small"], ["static", "--dry-run"]],
    "stats": [[]],
    "doctor": [[]],
    "eval retrieval": [["--corpus", "lines.jsonl", "--queries", "lines.jsonl", "--embedder", "static"]],
    "eval compare": [["a.json", "a.json"]],
    "eval learning": [["--model", "openai:gpt-4o", "--only", "no-such-case"]],
    "config show": [[], ["--config", "a.json"], ["--config", "pasted.json"]],
    "config schema": [[]],
    "config verify": [
        ["a.json", "--credentials", "secrets.toml"],
        ["a.json", "--credentials", "open.toml"],
        ["a.json", "--credentials", "broken.toml"],
        ["pasted.json"],
        ["url.json"],
    ],
    "config init": [["-", "--credential", PASTED], ["-", "--storage", f"postgresql://a:{PASSWORD}@b/c"], ["-"]],
}
"""What every command is called with."""


class Screen:
    """All that was printed and logged, at every level."""

    def __init__(self) -> None:
        self.log = io.StringIO()
        self.shown = ""

    def hits(self) -> list[str]:
        """The canaries in it."""
        text = self.shown + self.log.getvalue()
        return [canary for canary in CANARIES if canary in text]


@pytest.fixture
def screen() -> Iterator[Screen]:
    """With all loggers open, those of client libraries too."""
    shown = Screen()
    handler = logging.StreamHandler(shown.log)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield shown
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.fixture
def echoing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider that refuses every request and repeats the key, in a thread of its own."""
    loop = asyncio.new_event_loop()
    running = provider()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
    server.status = 401
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI)
    yield server
    asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with configurations and credentials, good and bad."""
    monkeypatch.chdir(tmp_path)
    observer = {"model": "openai/gpt-4o", "credential": "watch"}
    memory = {
        "observationalMemory": {"observerModel": observer},
        "episodicMemory": {"credential": "embed"},
    }
    pasted = {"model": "openai/gpt-4o", "credential": PASTED, PASTED: 1}
    wrong = {"storage": PASTED, "observationalMemory": {"observerModel": pasted, "lockTtlMs": PASTED}}
    url = {"storage": {"url": f"postgresql://a:{PASSWORD}@b/c", "credential": "x"}, "enabled": OPENAI}
    line = {"id": "1", "scope": "anna", "thread": "t", "role": "user", "text": "The pump is loud."}
    contents = {
        "a.json": json.dumps({"memory": memory}),
        "pasted.json": json.dumps({"memory": wrong, "instructions": f"Save {PASTED} to memory."}),
        "url.json": json.dumps({"memory": url}),
        "lines.jsonl": json.dumps(line) + "\n",
        "secrets.toml": f'watch = "{KEPT}"\nembed = "{SHORT}"\n',
        "open.toml": f'watch = "{KEPT}"\n',
        "broken.toml": f'watch = "{KEPT}\n',
    }
    for name, text in contents.items():
        Path(name).write_text(text, "utf-8")
        Path(name).chmod(0o644 if name == "open.toml" else 0o600)


def names(command: Any, name: str = "") -> Iterator[str]:
    if hasattr(command, "commands"):
        for inner, sub in command.commands.items():
            yield from names(sub, f"{name} {inner}".strip())
    else:
        yield name


def with_password(url: str) -> str:
    head, _, tail = url.partition("://")
    user, _, rest = tail.partition("@")
    return f"{head}://{user.partition(':')[0]}:{PASSWORD}@{rest}"


def test_every_command_is_called_here() -> None:
    assert set(names(typer.main.get_command(app))) == set(COMMANDS)


@pytest.mark.usefixtures("files", "echoing")
def test_r11_10_no_command_tells_a_secret(
    postgres_url: str,
    screen: Screen,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CASENOTES_DATABASE_URL", with_password(postgres_url))
    monkeypatch.setenv("CASENOTES_EMBEDDER_MODEL", "static")
    monkeypatch.setenv("CASENOTES_CREDENTIAL_X", KEPT)
    told = 0
    for command, calls in COMMANDS.items():
        for number, words in enumerate(calls):
            json_too = ["--json"] if number % 2 == 0 and command not in ("demo", "chat") else []
            monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
            monkeypatch.setattr(sys, "argv", ["casenotes", *command.split(), *words, *json_too])
            with pytest.raises(SystemExit):
                main()
            printed = capsys.readouterr()
            screen.shown += printed.out + printed.err
            told += bool(printed.out or printed.err)
            assert screen.hits() == [], (command, words)
    assert told > 30
    assert "[secret" in screen.shown


def tried(call: Callable[[], Any]) -> str:
    """All that an error tells: its text, its repr, and its traceback with what led to it."""
    try:
        call()
    except (CasenotesError, TypeError) as error:
        return "".join([str(error), repr(error), *traceback.format_exception(error)])
    pytest.fail("nothing was wrong")


async def opened(config: Any, credentials: Any, **options: Any) -> None:
    async with Memory.open(config=config, credentials=credentials, **options):
        pass


class FailingResolver:
    """A resolver whose errors tell everything."""

    def resolve(self, credential_id: str) -> str:
        raise RuntimeError(f"the vault says {KEPT}")


@pytest.mark.usefixtures("files", "echoing")
def test_r11_10_no_error_tells_a_secret(screen: Screen) -> None:
    embed = {"memory": {"episodicMemory": {"credential": "embed"}}}
    pasted = json.loads(Path("pasted.json").read_text())
    url = f"postgresql://a:{PASSWORD}@127.0.0.1:1/c"
    quick = Settings(storage=StorageSettings(connect_timeout_seconds=0.2))
    secrets = {"embed": KEPT}
    memory = "sqlite:///:memory:"
    calls: list[Callable[[], Any]] = [
        lambda: asyncio.run(opened(embed, secrets, url=memory)),
        lambda: asyncio.run(opened(embed, {"embed": SHORT}, url=memory)),
        lambda: asyncio.run(opened(embed, FailingResolver(), url=memory)),
        lambda: asyncio.run(opened(embed, {"embed": [KEPT]}, url=memory)),
        lambda: asyncio.run(opened(embed, [KEPT], url=memory)),
        lambda: asyncio.run(opened(pasted, secrets, url=memory)),
        lambda: asyncio.run(opened(quick, None, url=url)),
        lambda: asyncio.run(opened(quick, None, url=f"mysql://a:{PASSWORD}@b/c")),
        lambda: asyncio.run(opened(Settings(), None, url=memory, embedder="openai:text-embedding-3-small")),
        lambda: Settings.from_json({"memory": {"storage": url}}),
        lambda: Settings.from_json(f'{{"memory": "{PASTED}"'),
        lambda: Settings(last_messages=PASTED),
        lambda: StorageSettings(database=url),
        lambda: EpisodicSettings(inject_messages=PASTED),
        lambda: WorkerModel(7, PASTED),
        lambda: FileCredentials("open.toml"),
        lambda: FileCredentials("broken.toml"),
        lambda: MappingCredentials({"a": 7, "b": KEPT}),
        lambda: as_resolver(KEPT),
        lambda: pickle.dumps(Secret(KEPT)),
        lambda: json.dumps({"key": Secret(KEPT)}),
        lambda: Secret(""),
    ]
    for number, call in enumerate(calls):
        screen.shown += tried(call)
        assert screen.hits() == [], number


@pytest.mark.usefixtures("files")
async def test_r11_10_no_repr_tells_a_secret(screen: Screen, sqlite_url: str) -> None:
    secret = Secret(KEPT)
    keys = await look_up(effective(json.loads(Path("a.json").read_text())), FileCredentials("secrets.toml"))
    url = effective(url=f"postgresql://a:{PASSWORD}@b/c")
    settings = Settings(
        observational=ObservationalSettings(observer_model=WorkerModel("openai/x", "watch")),
        episodic=EpisodicSettings(credential="embed"),
    )
    builder = MemoryBuilder(ask_credential=str, resolve_llm=str, ask_llm=str)
    resolvers = (
        MappingCredentials({"a": KEPT}),
        FileCredentials("secrets.toml"),
        EnvironmentCredentials(variables={"CASENOTES_CREDENTIAL_X": KEPT}),
        KeyringCredentials(),
    )
    things = [
        secret,
        [secret],
        {"a": secret},
        deepcopy(secret),
        keys,
        url,
        settings,
        builder,
        *resolvers,
        Secret,
    ]
    async with Memory.open(
        sqlite_url, config=settings, credentials={"embed": KEPT, "watch": SHORT}, embedder="static"
    ) as memory:
        turn = await memory.begin(Scope("a", "anna", "t"), "hello")
        things += [memory, turn, memory.location, await memory.complete(turn, "hi")]
    for thing in things:
        screen.shown += f"{thing!r} {thing!s} {thing}"
        logging.getLogger("casenotes.canary").debug("%s %r %s", thing, thing, {"x": thing})
    screen.shown += "".join(map(str, verify(Path("pasted.json").read_text())))
    assert screen.hits() == []
    assert secret.reveal() == KEPT
    assert keys.secrets["embed"].reveal() == SHORT


def test_what_client_libraries_say_is_cleaned_in_every_spelling() -> None:
    odd = Secret('p@ss w/"rd')
    told = 'p@ss w/"rd p%40ss%20w%2F%22rd p%40ss+w%2F%22rd p@ss w/\\"rd'
    assert hide(told) == " ".join(["[secret]"] * 4)
    assert odd.reveal() in told
    brief = Secret("abc")
    assert hide("abc abcd -abc- xabc") == "[secret] abcd -[secret]- xabc"
    assert brief is not None

"""Where settings come from and which of them counts; and secrets, which are found by id and never shown."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import pickle
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import keyring
import keyring.backends.fail
import pytest
from keyrings.alt.file import PlaintextKeyring

from casenotes.config import (
    Effective,
    EpisodicSettings,
    ObservationalSettings,
    SearchSettings,
    SemanticRecallSettings,
    Settings,
    StorageSettings,
    WorkerModel,
    effective,
)
from casenotes.config.effective import Shown
from casenotes.config.rules import stated
from casenotes.config.sources import PATHS, from_environment, from_file, unknown_variables
from casenotes.credentials import (
    CredentialResolver,
    EnvironmentCredentials,
    FileCredentials,
    KeyringCredentials,
    MappingCredentials,
    Secret,
    as_resolver,
    hide,
    looks_like_a_secret,
    secret_of,
)
from casenotes.errors import SettingsError
from casenotes.models.keys import look_up

PASSWORD = "hunter2-but-longer"
VALUE = "wq8-Zk3/pX7 vN2"
"""A secret that looks like none, so that nothing but its being in use can hide it."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without `casenotes.toml`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_file(*lines: str) -> None:
    """`casenotes.toml` in the working directory."""
    Path("casenotes.toml").write_text("\n".join(lines), "utf-8")


def counted(chosen: Effective) -> dict[str, Shown]:
    """What counts by path."""
    return {shown.path: shown for shown in chosen.values()}


class Name(NamedTuple):
    """One of the nine names with a value of its own in each place that it can stand in."""

    path: str
    default: Any
    in_file: Any
    in_environment: Any
    settings: Settings | None
    json: dict[str, Any] | None
    in_settings: Any
    call: dict[str, str]


MODEL = WorkerModel("openai/mine", "main")
NINE: dict[str, Name] = {
    "database_url": Name(
        "database_url",
        "sqlite:///casenotes.db",
        "sqlite:///file.db",
        "sqlite:///environment.db",
        Settings(storage=StorageSettings(database="sqlite:///settings.db")),
        {"memory": {"storage": "sqlite:///settings.db"}},
        "sqlite:///settings.db",
        {"url": "sqlite:///call.db"},
    ),
    "model": Name("model", "", "openai:file", "openai:environment", None, None, None, {"model": "openai:call"}),
    "last_messages": Name(
        "last_messages", 20, 6, 7, Settings(last_messages=8), {"memory": {"lastMessages": 8}}, 8, {}
    ),
    "embedder_model": Name(
        "embedder_model", "local", "minilm", "static", None, None, None, {"embedder": "minilm+static"}
    ),
    "semantic_recall": Name(
        "semantic_recall.enabled",
        False,
        False,
        True,
        Settings(semantic_recall=False),
        {"memory": {"semanticRecall": False}},
        False,
        {},
    ),
    "semantic_recall_top_k": Name(
        "semantic_recall.top_k",
        5,
        6,
        7,
        Settings(semantic_recall=SemanticRecallSettings(top_k=8)),
        {"memory": {"semanticRecall": {"topK": 8}}},
        8,
        {},
    ),
    "observer_model": Name(
        "observational.observer_model",
        None,
        "openai:file",
        "openai:environment",
        Settings(observational=ObservationalSettings(observer_model=MODEL)),
        {"memory": {"observationalMemory": {"observerModel": {"model": "openai/mine", "credential": "main"}}}},
        MODEL,
        {},
    ),
    "observer_message_tokens": Name(
        "observational.observer_threshold_tokens",
        30_000,
        6_000,
        7_000,
        Settings(observational=ObservationalSettings(observer_threshold_tokens=8_000)),
        {"memory": {"observationalMemory": {"observerThresholdTokens": 8_000}}},
        8_000,
        {},
    ),
    "reflector_observation_tokens": Name(
        "observational.reflector_threshold_tokens",
        40_000,
        6_000,
        7_000,
        Settings(observational=ObservationalSettings(reflector_threshold_tokens=8_000)),
        {"memory": {"observationalMemory": {"reflectorThresholdTokens": 8_000}}},
        8_000,
        {},
    ),
}
INSIDE = [name for name, row in NINE.items() if row.settings is not None]


def variable(name: str) -> str:
    """The environment variable of a name."""
    return f"CASENOTES_{name.upper()}"


# The nine names


def test_there_are_nine_names() -> None:
    assert list(PATHS) == list(NINE)


def test_r11_01_without_anything_the_defaults_count() -> None:
    chosen = counted(effective())
    assert {name: chosen[row.path].value for name, row in NINE.items()} == {
        name: row.default for name, row in NINE.items()
    }
    assert {shown.origin for shown in chosen.values()} == {"default"}


@pytest.mark.parametrize("name", NINE)
def test_r11_01_environment_and_file_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, value = NINE[name].path, NINE[name].in_environment
    monkeypatch.setenv(variable(name), str(value))
    by_environment = counted(effective())
    monkeypatch.delenv(variable(name))
    write_file(f"{name} = {json.dumps(value)}")
    by_file = counted(effective())
    assert by_environment[path] == (path, value, variable(name))
    assert by_file[path] == (path, value, "casenotes.toml")
    assert type(by_environment[path].value) is type(by_file[path].value) is type(value)
    assert {path: shown.value for path, shown in by_environment.items()} == {
        path: shown.value for path, shown in by_file.items()
    }


def test_r11_01_all_nine_at_once_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(*(f"{name} = {json.dumps(row.in_environment)}" for name, row in NINE.items()))
    by_file = effective()
    Path("casenotes.toml").unlink()
    for name, row in NINE.items():
        monkeypatch.setenv(variable(name), str(row.in_environment))
    by_environment = effective()
    assert by_file.settings == by_environment.settings
    assert by_file.database_url == by_environment.database_url
    assert (by_file.model, by_file.embedder) == (by_environment.model, by_environment.embedder)
    assert stated(by_file.settings) == stated(by_environment.settings)


@pytest.mark.parametrize("name", NINE)
def test_an_empty_value_counts_as_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = NINE[name]
    monkeypatch.setenv(variable(name), "")
    assert counted(effective())[row.path] == (row.path, row.default, "default")
    write_file(f'{name} = ""')
    assert counted(effective())[row.path] == (row.path, row.default, "default")
    write_file(f"{name} = {json.dumps(row.in_file)}")
    assert counted(effective())[row.path] == (row.path, row.in_file, "casenotes.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("true", "TRUE", "1", "yes", "on", " On ")),
        *((text, False) for text in ("false", "0", "no", "OFF")),
    ],
)
def test_a_switch_is_written_in_the_usual_words(text: str, value: bool) -> None:
    found = from_environment({"CASENOTES_SEMANTIC_RECALL": text})
    assert found["semantic_recall.enabled"] == (value, "CASENOTES_SEMANTIC_RECALL")


def test_other_variables_are_left_alone() -> None:
    assert (
        from_environment({"LAST_MESSAGES": "3", "casenotes_last_messages": "3", "CASENOTES_TRIALS": "3"}) == {}
    )


def test_a_file_elsewhere_can_be_read(own_folder: Path) -> None:
    other = own_folder / "other.toml"
    other.write_text("last_messages = 3")
    assert from_file(other) == {"last_messages": (3, str(other))}
    assert from_file() == {}


# Which of them counts


@pytest.mark.parametrize("form", ["settings", "json", "text"])
@pytest.mark.parametrize("name", NINE)
def test_r11_02_the_nearer_to_the_call_the_more_it_counts(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = NINE[name]
    config: Any = {"settings": row.settings, "json": row.json, "text": row.json and json.dumps(row.json)}[form]
    assert counted(effective())[row.path] == (row.path, row.default, "default")
    write_file(f"{name} = {json.dumps(row.in_file)}")
    assert counted(effective())[row.path] == (row.path, row.in_file, "casenotes.toml")
    monkeypatch.setenv(variable(name), str(row.in_environment))
    assert counted(effective())[row.path] == (row.path, row.in_environment, variable(name))
    if config is not None:
        origin = "Settings" if form == "settings" else "JSON"
        assert counted(effective(config))[row.path] == (row.path, row.in_settings, origin)
    if row.call:
        (value,) = row.call.values()
        assert counted(effective(config, **row.call))[row.path] == (row.path, value, "call")


@pytest.mark.parametrize("name", INSIDE)
def test_settings_that_do_not_mention_a_field_leave_it_to_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = NINE[name]
    monkeypatch.setenv(variable(name), str(row.in_environment))
    others = Settings(
        titles="model",
        semantic_recall=SemanticRecallSettings(before=3),
        observational=ObservationalSettings(buffer_ratio=0.5),
        storage=StorageSettings(postgres_pool_size=3),
    )
    for config in (Settings(), others, {"memory": {"enabled": True}}):
        assert counted(effective(config))[row.path] == (row.path, row.in_environment, variable(name))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Settings(last_messages=20), "last_messages"),
        (Settings(20), "last_messages"),
        (Settings(semantic_recall=False), "semantic_recall"),
        (Settings(semantic_recall=SemanticRecallSettings(enabled=False)), "semantic_recall"),
        (Settings(semantic_recall=SemanticRecallSettings(False)), "semantic_recall"),
        (Settings(semantic_recall=SemanticRecallSettings(top_k=5)), "semantic_recall_top_k"),
        (Settings(observational=ObservationalSettings(observer_model=None)), "observer_model"),
        (
            Settings(observational=ObservationalSettings(observer_threshold_tokens=30_000)),
            "observer_message_tokens",
        ),
        (
            Settings(observational=ObservationalSettings(reflector_threshold_tokens=40_000)),
            "reflector_observation_tokens",
        ),
        (Settings(storage=StorageSettings(database="sqlite:///casenotes.db")), "database_url"),
    ],
)
def test_r11_02_a_default_that_is_said_counts(
    settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = NINE[name]
    monkeypatch.setenv(variable(name), str(row.in_environment))
    assert counted(effective(settings))[row.path] == (row.path, row.default, "Settings")


def test_twenty_messages_are_twenty_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_LAST_MESSAGES", "7")
    assert effective().settings.last_messages == 7
    assert effective(Settings()).settings.last_messages == 7
    assert effective(Settings(last_messages=20)).settings.last_messages == 20
    assert effective({"memory": {"lastMessages": 20}}).settings.last_messages == 20
    assert effective(replace(Settings(), titles="model")).settings.last_messages == 20, "a copy says everything"


def test_each_value_has_its_own_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("last_messages = 3", 'model = "openai:file"', "semantic_recall_top_k = 9")
    monkeypatch.setenv("CASENOTES_SEMANTIC_RECALL", "on")
    monkeypatch.setenv("CASENOTES_MODEL", "openai:environment")
    mine = Settings(observational=ObservationalSettings(buffer_ratio=0.2), episodic=EpisodicSettings(top_k=4))
    chosen = effective(mine, embedder="static")
    assert chosen.origins == {
        "model": "CASENOTES_MODEL",
        "embedder_model": "call",
        "last_messages": "casenotes.toml",
        "semantic_recall.top_k": "casenotes.toml",
        "semantic_recall.enabled": "CASENOTES_SEMANTIC_RECALL",
        "observational.buffer_ratio": "Settings",
        "episodic.top_k": "Settings",
    }
    assert counted(chosen)["episodic.max_entry_length"] == ("episodic.max_entry_length", 2_000, "default")
    assert chosen.settings.semantic_recall == SemanticRecallSettings(enabled=True, top_k=9)


def test_every_setting_is_listed_once() -> None:
    paths = [shown.path for shown in effective().values()]
    assert len(paths) == len(set(paths))
    assert paths[:3] == ["database_url", "model", "embedder_model"]
    assert {row.path for row in NINE.values()} <= set(paths)


@pytest.mark.parametrize("name", ["default", "n8n"])
def test_a_name_for_the_database_stands_for_that_of_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASENOTES_DATABASE_URL", "sqlite:///environment.db")
    for config in ({"memory": {"storage": name}}, Settings(storage=StorageSettings(database=name))):
        chosen = effective(config)
        assert chosen.database_url == "sqlite:///environment.db"
        assert chosen.origins["database_url"] == "CASENOTES_DATABASE_URL"


def test_a_memory_that_is_off_takes_nothing_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_DATABASE_URL", f"postgresql://mira:{PASSWORD}@db/notes")
    monkeypatch.setenv("CASENOTES_MODEL", "openai:gpt")
    for config, origin in ((Settings(enabled=False), "Settings"), ({"memory": {"enabled": False}}, "JSON")):
        chosen = effective(config, model="openai:mine", embedder="openai:theirs")
        assert (chosen.database_url, chosen.model, chosen.embedder) == ("sqlite:///:memory:", "", "static")
        assert chosen.origins["enabled"] == chosen.origins["episodic.enabled"] == origin
        assert not any(shown.value for shown in chosen.values() if shown.path.endswith("enabled"))


def test_what_is_off_must_be_right_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_LAST_MESSAGES", "none")
    with pytest.raises(SettingsError, match="CASENOTES_LAST_MESSAGES is 'none'"):
        effective({"memory": {"enabled": False}})


@pytest.mark.parametrize("config", [["memory"], 5, b"{}", True])
def test_settings_are_settings_or_json(config: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        effective(config)
    kind = type(config).__name__
    assert str(caught.value) == f"config is a {kind}; pass Settings, or a JSON object with `memory`"


# Wrong values

BLANK = "which is blank; it must be a text"
WHOLE = "it must be a whole number"
WRONG = [
    ("database_url", "  ", f"is '  ', {BLANK}"),
    ("model", "  ", f"is '  ', {BLANK}"),
    ("last_messages", "many", f"is 'many'; {WHOLE}"),
    ("last_messages", "7.5", f"is '7.5'; {WHOLE}"),
    ("last_messages", "9" * 5_000, f"is '{'9' * 78}…; {WHOLE}"),
    ("last_messages", 0, "is 0; it must be at least 1"),
    ("last_messages", -3, "is -3; it must be at least 1"),
    ("embedder_model", "\t", f"is '\\t', {BLANK}"),
    ("semantic_recall", "maybe", "is 'maybe'; it must be true or false"),
    ("semantic_recall_top_k", "five", f"is 'five'; {WHOLE}"),
    ("semantic_recall_top_k", 0, "is 0; it must be at least 1"),
    ("observer_model", " ", f"is ' ', {BLANK}"),
    ("observer_message_tokens", "30k", f"is '30k'; {WHOLE}"),
    ("observer_message_tokens", 9, "is 9; it must be at least 10"),
    ("reflector_observation_tokens", "lots", f"is 'lots'; {WHOLE}"),
    ("reflector_observation_tokens", 9, "is 9; it must be at least 10"),
]


@pytest.mark.parametrize(("name", "value", "fault"), WRONG)
def test_r11_01_a_wrong_value_is_refused_under_its_own_name(
    name: str, value: str | int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(f"{name} = {json.dumps(value)}")
    with pytest.raises(SettingsError) as caught:
        effective()
    assert str(caught.value) == f"{name} in casenotes.toml {fault}"
    write_file()
    monkeypatch.setenv(variable(name), str(value))
    with pytest.raises(SettingsError) as caught:
        effective()
    assert str(caught.value) == f"{variable(name)} {fault}"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("last_messages = true", "last_messages in casenotes.toml is True; it must be a whole number"),
        ("last_messages = inf", "last_messages in casenotes.toml is inf; it must be a whole number"),
        ('last_messages = "7"', "last_messages in casenotes.toml is '7'; it must be a whole number"),
        ("semantic_recall = 1", "semantic_recall in casenotes.toml is 1; it must be true or false"),
        ('semantic_recall = "on"', "semantic_recall in casenotes.toml is 'on'; it must be true or false"),
        ("model = 5", "model in casenotes.toml is 5; it must be a text"),
        (
            'observer_model = {model = "a/b"}',
            "observer_model in casenotes.toml is {'model': 'a/b'}; it must be a text",
        ),
        (
            f'database_url = ["postgresql://mira:{PASSWORD}@db/n"]',
            "database_url in casenotes.toml is ['postgresql://mira:[secret:connection_string]@db/n']; it must "
            "be a text",
        ),
        (
            "[last_messages]\nnumber = 5",
            "last_messages in casenotes.toml is {'number': 5}; it must be a whole number",
        ),
    ],
)
def test_a_file_has_types(line: str, error: str) -> None:
    write_file(line)
    with pytest.raises(SettingsError) as caught:
        effective()
    assert str(caught.value) == error


@pytest.mark.parametrize("name", ["lastMessages", "LAST_MESSAGES", "CASENOTES_MODEL", "memory", "top_k"])
def test_an_unknown_name_in_the_file_is_refused(name: str) -> None:
    write_file("last_messages = 5", f"{name} = 5")
    with pytest.raises(SettingsError) as caught:
        effective()
    assert str(caught.value) == (
        f"{name} in casenotes.toml is unknown; use database_url, model, last_messages, embedder_model, "
        "semantic_recall, semantic_recall_top_k, observer_model, observer_message_tokens, "
        "reflector_observation_tokens"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"last_messages",
        b"last_messages = ",
        b"model = 'x",
        b"model = a",
        b"[model",
        b"\xff\xfe",
        b"model = 'a\xff'",
        b"last_messages = 5\nlast_messages = 6",
        b"\x00",
    ],
)
def test_a_broken_file_is_refused_by_its_name(content: bytes) -> None:
    Path("casenotes.toml").write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        effective()
    assert re.fullmatch(r"casenotes\.toml is not understood: .{5,80}; it is a TOML file", str(caught.value))


def test_a_broken_line_is_not_quoted() -> None:
    write_file(f'database_url = "postgresql://mira:{PASSWORD}@db/notes')
    with pytest.raises(SettingsError) as caught:
        effective()
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("value", ["[" * 5_000 + "]" * 5_000, "9" * 5_000], ids=["deep", "long"])
def test_a_hostile_file_is_refused_in_words(value: str) -> None:
    write_file(f"last_messages = {value}")
    with pytest.raises(SettingsError, match=r"casenotes\.toml"):
        effective()


def test_a_folder_is_no_file() -> None:
    Path("casenotes.toml").mkdir()
    with pytest.raises(SettingsError) as caught:
        effective()
    assert str(caught.value) == "casenotes.toml cannot be read: Is a directory"


def test_an_empty_file_says_nothing() -> None:
    write_file("# nothing yet", "")
    assert from_file() == {}


# Settings remember what they were given

GIVEN = [
    Settings(),
    Settings(last_messages=20),
    Settings(semantic_recall=True),
    Settings(semantic_recall=SemanticRecallSettings(True, 3)),
    Settings(episodic=EpisodicSettings(max_entries_per_run=3, credential="main")),
    Settings(episodic=EpisodicSettings(half_life_days=30)),
    Settings(search=SearchSettings(half_life_days=30)),
    Settings(observational=ObservationalSettings(observer_model=MODEL)),
    Settings(storage=StorageSettings(database="postgresql://mira@db/notes", credential="db")),
    Settings.from_json({"memory": {"semanticRecall": {"topK": 3}}}),
    replace(Settings(), last_messages=3),
]


@pytest.mark.parametrize(
    "copied",
    [
        *(lambda value, n=n: pickle.loads(pickle.dumps(value, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)),
        copy.copy,
        copy.deepcopy,
    ],
    ids=[*(f"pickle-{n}" for n in range(pickle.HIGHEST_PROTOCOL + 1)), "copy", "deepcopy"],
)
@pytest.mark.parametrize("settings", GIVEN, ids=lambda settings: ",".join(stated(settings))[:40] or "nothing")
def test_copies_know_what_was_given(settings: Settings, copied: Callable[[Settings], Settings]) -> None:
    again = copied(settings)
    assert again == settings
    assert again.given == settings.given
    assert stated(again) == stated(settings)
    assert again.episodic.given == settings.episodic.given
    assert type(again.episodic) is EpisodicSettings


def test_a_copy_is_still_behind_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_LAST_MESSAGES", "7")
    monkeypatch.setenv("CASENOTES_SEMANTIC_RECALL", "true")
    settings = pickle.loads(pickle.dumps(Settings(semantic_recall=SemanticRecallSettings(enabled=False))))
    chosen = effective(copy.deepcopy(settings)).settings
    assert (chosen.last_messages, chosen.semantic_recall.enabled) == (7, False)


# No password is shown


@pytest.mark.parametrize("place", ["the environment", "the file", "the call"])
def test_what_counts_is_shown_without_the_password_of_the_database(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://mira:{PASSWORD}@db/notes"
    call = {}
    match place:
        case "the environment":
            monkeypatch.setenv("CASENOTES_DATABASE_URL", url)
        case "the file":
            write_file(f'database_url = "{url}"')
        case _:
            call = {"url": url}
    chosen = effective(**call)
    assert chosen.database_url == url
    for shown in (repr(chosen), str(chosen), f"{chosen}", f"{chosen!r:.5000}", f"{[chosen]}"):
        assert "Effective(settings=" in shown
        assert PASSWORD not in shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://mira:{PASSWORD}@db/notes",
        f"postgresql://db/notes?user=mira&password={PASSWORD}",
        f"postgresql://mira:a?{PASSWORD}@db/notes",
        f"postgresql://mira:a#{PASSWORD}@db/notes",
    ],
)
def test_settings_take_no_url_with_a_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        StorageSettings(database=url)
    assert str(caught.value) == (
        "database is a URL with a password; give it as a credential, or in CASENOTES_DATABASE_URL"
    )


# Secrets


@dataclass
class Holder:
    """Something that has a secret."""

    name: str
    key: Secret


def raised(secret: Secret) -> BaseException:
    """An error that was raised with a secret in its arguments and its frames."""
    local = secret
    try:
        raise RuntimeError("no luck with", local, {"key": local})
    except RuntimeError as error:
        return error


def logged(secret: Secret) -> str:
    """What a log has of a secret."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(  # type: ignore[method-assign]
        logging.Formatter("%(message)s %(args)s").format(record)
    )
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.warning("the key is %s, %r", secret, [secret])
    logger.warning(secret)
    return "\n".join(lines)


SHOWN: dict[str, Callable[[Secret], str]] = {
    "repr": repr,
    "str": str,
    "format": format,
    "format with a width": lambda secret: format(secret, ">40"),
    "f-string": lambda secret: f"{secret} {secret!r} {secret!s} {secret!a} {secret:^30}",
    "percent": lambda secret: "%s %r %a" % (secret, secret, secret),  # noqa: UP031
    "method": lambda secret: str.format("{} {key!r}", secret, key=secret),
    "join": lambda secret: " ".join(map(str, [secret])),
    "containers": lambda secret: f"{[secret]} {(secret,)} { ({'key': secret}) } { {secret} }",
    "logging": logged,
    "json with str": lambda secret: json.dumps({"key": secret}, default=str),
    "dataclass": lambda secret: (
        f"{Holder('x', secret)} {asdict(Holder('x', secret))} {vars(Holder('x', secret))}"
    ),
    "exception": lambda secret: f"{raised(secret)} {raised(secret)!r} {raised(secret).args}",
    "traceback": lambda secret: "".join(traceback.format_exception(raised(secret))),
    "traceback with locals": lambda secret: "".join(
        traceback.TracebackException.from_exception(raised(secret), capture_locals=True).format()
    ),
    "copy": lambda secret: f"{copy.copy(secret)} {copy.deepcopy([secret])}",
    "resolver": lambda secret: (
        f"{MappingCredentials({'id': secret})} {vars(MappingCredentials({'id': secret}))}"
    ),
}


@pytest.mark.parametrize("way", SHOWN)
def test_a_secret_shows_nothing_of_itself(way: str) -> None:
    shown = SHOWN[way](Secret(VALUE))
    assert "[secret]" in shown
    assert VALUE not in shown
    assert "pX7" not in shown


@pytest.mark.parametrize(
    "attempt",
    [
        json.dumps,
        pickle.dumps,
        lambda secret: pickle.dumps(secret, 0),
        lambda secret: pickle.dumps(Holder("x", secret)),
        vars,
        bytes,
        list,
        len,
        lambda secret: secret + "",
        lambda secret: json.dumps(secret, default=vars),
        lambda secret: setattr(secret, "shown", True),
    ],
)
def test_a_secret_cannot_be_written_elsewhere(attempt: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        attempt(Secret(VALUE))
    assert VALUE not in str(caught.value)
    assert VALUE not in "".join(traceback.format_exception(caught.value))


def test_pickling_says_what_to_do_instead() -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(Secret(VALUE))
    assert str(caught.value) == "a secret cannot be pickled; pass the id of its credential on instead"


def test_only_reveal_gives_a_secret() -> None:
    assert Secret(f" {VALUE}\n").reveal() == VALUE
    secret = Secret(VALUE)
    assert copy.copy(secret).reveal() == copy.deepcopy({"a": secret})["a"].reveal() == VALUE
    assert asdict(Holder("x", secret))["key"].reveal() == VALUE


def test_secrets_are_equal_if_they_are_the_same() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret(VALUE + "x")
    assert Secret(VALUE) != VALUE
    assert Secret("päss wörd") == Secret("päss wörd")


def test_equal_secrets_have_equal_hashes() -> None:
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    assert len({Secret(VALUE), Secret(VALUE), Secret(VALUE + "x")}) == 2


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", "blank"),
        (" \n", "blank"),
        (None, "of type NoneType"),
        (b"x", "of type bytes"),
        (["x"], "of type list"),
    ],
)
def test_a_secret_is_a_text(value: Any, kind: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Secret(value)
    assert str(caught.value) == f"a secret must be a text, but it is {kind}; look at where it is kept"


@pytest.mark.parametrize("value", [5, b"wq8-Zk3", ["wq8-Zk3"]])
def test_what_is_no_secret_is_not_shown_either(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        MappingCredentials({"main": value})
    assert "wq8" not in str(caught.value)


# Secrets in the texts of others


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (VALUE, VALUE),
        (VALUE, "wq8-Zk3%2FpX7%20vN2"),
        (VALUE, "wq8-Zk3%2FpX7+vN2"),
        ('qu"ote\\d', 'qu\\"ote\\\\d'),
        ("it's-\\-it", "it's-\\\\-it"),
        ("schlüssel-9", "schlüssel-9"),
        ("schlüssel-9", "schl%C3%BCssel-9"),
        ("schlüssel-9", "schl\\u00fcssel-9"),
        ("a.b*c(", "a.b*c("),
    ],
)
def test_a_secret_in_use_is_hidden_however_it_is_written(value: str, written: str) -> None:
    secret = Secret(value)
    assert hide(f"GET /?key={written}&x=1 failed: {written}") == "GET /?key=[secret]&x=1 failed: [secret]"
    assert secret.reveal() == value


def test_a_text_without_secrets_stays_as_it_is() -> None:
    secret = Secret(VALUE)
    assert hide("nothing to see") == "nothing to see"
    assert hide("") == ""
    del secret


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    secret = Secret("abc")
    assert hide("key=abc, abcd, xabc, 'abc'") == "key=[secret], abcd, xabc, '[secret]'"
    del secret


@pytest.mark.parametrize("rest", ["-second", "0", "/with/more"])
def test_a_secret_that_begins_as_another_is_hidden_as_a_whole(rest: str) -> None:
    """As keys do that were made one after the other."""
    secrets = [Secret("wq8-key"), Secret(f"wq8-key{rest}"), Secret("wq8-key"), Secret(f"more-wq8-key{rest}")]
    assert hide(f"refused: wq8-key{rest}!") == "refused: [secret]!"
    assert hide(f"refused: more-wq8-key{rest}!") == "refused: [secret]!"
    assert len(secrets) == 4


def test_a_secret_is_hidden_for_as_long_as_one_of_its_holders_lives() -> None:
    first, second = Secret("wq8-once"), Secret("wq8-once")
    del first
    gc.collect()
    assert hide("wq8-once") == "[secret]"
    del second
    gc.collect()
    assert hide("wq8-once") == "wq8-once"


def test_a_secret_that_is_no_proper_text_breaks_nothing() -> None:
    """Variables may hold bytes that are no UTF-8; Python has them as lone surrogates.

    In a process of its own, as a secret that breaks `hide` would break every other test.
    """
    code = (
        "from casenotes.credentials import Secret, hide; text = 'wq8-\\udcff-broken'; secret = Secret(text); "
        "print(hide('nothing to see'), hide('key ' + text), secret == Secret(text), secret == Secret('wq8'))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.stderr[-200:]) == ("nothing to see key [secret] True False", "")


def test_hiding_goes_on_while_other_threads_make_secrets() -> None:
    """Whoever hides a text is about to raise an error with it; to fail there would show the text as it was."""
    interval, is_done = sys.getswitchinterval(), threading.Event()
    failures: list[str] = []

    def making() -> None:
        while not is_done.is_set():
            _ = [Secret(f"wq8-{number}") for number in range(200)]

    threads = [threading.Thread(target=making) for _ in range(6)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(25):
            try:
                hide("nothing to see")
            except RuntimeError as error:
                failures.append(str(error))
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failures == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("openai-main", False),
        ("Kx9aB2cD3eF4gH5i", False),
        ("3f2b8c1e-9d4a-4c7b-8e21-6a5f0b9c7d13", False),
        ("vault:secret/data/openai", False),
        ("q" * 200, False),
        ("q" * 201, True),
        ("sk-proj-" + "Zq7RtY2uWx4vBn6mKj8hGf3dSa5pLo9i", True),
        ("sk-ant-api03-" + "Zq7RtY2uWx4vBn6mKj8hGf3dSa5pLo9i", True),
        ("ghp_" + "Zq7RtY2uWx4vBn6mKj8hGf3dSa5pLo9iAbCd", True),
        (f"postgresql://mira:{PASSWORD}@db/notes", True),
    ],
)
def test_an_id_is_told_from_a_key(text: str, is_one: bool) -> None:
    assert looks_like_a_secret(text) is is_one


def test_a_secret_in_use_is_no_id() -> None:
    assert not looks_like_a_secret("wq8-plain")
    secret = Secret("wq8-plain")
    assert looks_like_a_secret("wq8-plain")
    del secret


# Where secrets are found


def test_a_mapping_has_secrets_by_id() -> None:
    credentials = MappingCredentials({"main": VALUE, "other": Secret("wq8-other")})
    assert credentials.resolve("main") == Secret(VALUE)
    assert credentials.resolve("other") == Secret("wq8-other")
    assert credentials.resolve("unknown") is None
    assert repr(credentials) == "MappingCredentials(2 credentials)"


def private(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    """A file with that mode."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_private_file_has_secrets_by_id(own_folder: Path, mode: int) -> None:
    for name, content in (
        ("keys.toml", f"main = '{VALUE}'\n\"with space\" = 'wq8-other'\n"),
        ("keys.json", json.dumps({"main": VALUE, "with space": "wq8-other"})),
    ):
        credentials = FileCredentials(private(own_folder / name, content, mode))
        assert credentials.resolve("main") == Secret(VALUE)
        assert credentials.resolve("with space") == Secret("wq8-other")
        assert credentials.resolve("unknown") is None
        assert repr(credentials) == "FileCredentials(2 credentials)"


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o604, 0o660, 0o620, 0o666, 0o610])
def test_a_file_that_others_may_read_is_refused(own_folder: Path, mode: int) -> None:
    path = private(own_folder / "keys.toml", f"main = '{VALUE}'", mode)
    with pytest.raises(SettingsError) as caught:
        FileCredentials(path)
    assert str(caught.value) == (
        f"the credentials file '{path}' has mode {mode:04o}, so others may read it; run chmod 600 on it"
    )


def test_the_mode_that_counts_is_that_of_the_file_behind_a_link(own_folder: Path) -> None:
    target = private(own_folder / "keys.toml", f"main = '{VALUE}'", 0o644)
    link = own_folder / "link.toml"
    link.symlink_to(target)
    with pytest.raises(SettingsError, match=r"link\.toml' has mode 0644"):
        FileCredentials(link)
    target.chmod(0o600)
    assert FileCredentials(str(link)).resolve("main") == Secret(VALUE)


def test_a_file_that_is_not_there_is_named(own_folder: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        FileCredentials("keys.toml")
    assert str(caught.value) == "the credentials file 'keys.toml' cannot be read: No such file or directory"
    with pytest.raises(SettingsError) as caught:
        FileCredentials(own_folder)
    assert str(caught.value) == f"the credentials file '{own_folder}' cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("keys.toml", f"main = '{VALUE}", "TOML"),
        ("keys.toml", f"main = {VALUE}", "TOML"),
        ("keys.toml", f"{VALUE} = 'main'", "TOML"),
        ("keys.toml", f"main = '{VALUE}'\nmain = '{VALUE}'", "TOML"),
        ("keys.toml", f"main = '{VALUE}'\xff".encode("latin-1"), "TOML"),
        ("keys", json.dumps({"main": VALUE}), "TOML"),
        ("keys.json", f'{{"main": "{VALUE}', "JSON"),
        ("keys.json", f"main = '{VALUE}'", "JSON"),
        ("keys.json", f'{{"main": "{VALUE}\xff"}}'.encode("latin-1"), "JSON"),
        ("keys.json", "[" * 100_000, "JSON"),
        ("keys.json", "", "JSON"),
    ],
)
def test_a_broken_file_is_refused_without_quoting_it(
    own_folder: Path, name: str, content: str | bytes, kind: str
) -> None:
    path = private(own_folder / name, content)
    with pytest.raises(SettingsError) as caught:
        FileCredentials(path)
    line = r"(?: \(line \d\))?"  # not every parser of every Python says where
    assert re.fullmatch(
        f"the credentials file '{re.escape(str(path))}' is no {kind}{line}; mend it", str(caught.value)
    )
    shown = "".join(traceback.format_exception(caught.value))
    assert VALUE not in shown
    assert "pX7" not in shown


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("keys.toml", "main = 5"),
        ("keys.toml", f"[main]\nkey = '{VALUE}'"),
        ("keys.toml", f"main = ['{VALUE}']"),
        ("keys.json", json.dumps({"main": None, "other": VALUE})),
        ("keys.json", json.dumps([VALUE])),
        ("keys.json", json.dumps(VALUE)),
        ("keys.json", "null"),
    ],
)
def test_a_file_of_anything_but_texts_is_refused(own_folder: Path, name: str, content: str) -> None:
    path = private(own_folder / name, content)
    with pytest.raises(SettingsError) as caught:
        FileCredentials(path)
    assert str(caught.value) == (
        f"the credentials file '{path}' must hold texts by id, such as openai-main = \"…\""
    )


def test_a_blank_secret_is_refused_with_its_id(own_folder: Path) -> None:
    path = private(own_folder / "keys.toml", f"main = '{VALUE}'\nother = ' '")
    for make in (lambda: FileCredentials(path), lambda: MappingCredentials({"main": VALUE, "other": ""})):
        credentials = make()  # one that nobody asks for is in nobody's way
        assert credentials.resolve("main") == Secret(VALUE)
        with pytest.raises(SettingsError, match="credential 'other': a secret must be a text, but it is blank"):
            credentials.resolve("other")


def test_the_environment_has_secrets_under_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_CREDENTIAL_OPENAI_MAIN", VALUE)
    monkeypatch.setenv("MINE_OPENAI_MAIN", "wq8-mine")
    monkeypatch.setenv("CASENOTES_CREDENTIAL_BLANK", "  ")
    credentials = EnvironmentCredentials()
    assert credentials.resolve("openai-main") == credentials.resolve("openai.main") == Secret(VALUE)
    assert EnvironmentCredentials("MINE_").resolve("openai main") == Secret("wq8-mine")
    assert EnvironmentCredentials(variables={"CASENOTES_CREDENTIAL_A": "wq8-a"}).resolve("a") == Secret("wq8-a")
    assert credentials.resolve("blank") is None
    assert credentials.resolve("unknown") is None
    assert repr(credentials) == "EnvironmentCredentials('CASENOTES_CREDENTIAL_')"


@pytest.fixture
def stored(own_folder: Path) -> Iterator[PlaintextKeyring]:
    """A real keyring, in a file of its own."""
    before = keyring.get_keyring()
    mine = PlaintextKeyring()
    mine.file_path = str(own_folder / "keyring.cfg")
    keyring.set_keyring(mine)
    yield mine
    keyring.set_keyring(before)


async def test_the_keyring_has_secrets_under_a_service(stored: PlaintextKeyring) -> None:
    keyring.set_password("casenotes", "main", VALUE)
    keyring.set_password("another", "main", "wq8-another")
    assert KeyringCredentials().resolve("main") == Secret(VALUE)
    assert KeyringCredentials("another").resolve("main") == Secret("wq8-another")
    assert KeyringCredentials().resolve("unknown") is None
    assert await secret_of("main", "a field", KeyringCredentials()) == Secret(VALUE)
    assert VALUE not in f"{KeyringCredentials()} {vars(KeyringCredentials())}"
    keyring.delete_password("casenotes", "main")
    assert KeyringCredentials().resolve("main") is None


def test_a_keyring_that_cannot_be_read_is_refused(stored: PlaintextKeyring) -> None:
    keyring.set_keyring(keyring.backends.fail.Keyring())
    with pytest.raises(SettingsError) as caught:
        KeyringCredentials().resolve("main")
    assert str(caught.value) == (
        "the keyring cannot be read (NoKeyringError); unlock it, or install a backend for it"
    )


async def test_a_damaged_keyring_is_refused(stored: PlaintextKeyring) -> None:
    Path(stored.file_path).write_text(f"main = {VALUE}")
    with pytest.raises(SettingsError) as caught:
        await secret_of("main", "a field", KeyringCredentials())
    assert VALUE not in "".join(traceback.format_exception(caught.value))


def test_what_can_be_passed_as_credentials() -> None:
    resolver = MappingCredentials({})
    assert as_resolver(None) is None
    assert as_resolver(resolver) is resolver
    assert isinstance(as_resolver({"main": VALUE}), MappingCredentials)
    with pytest.raises(SettingsError) as caught:
        as_resolver([VALUE])
    assert str(caught.value) == (
        "credentials is a list; pass a mapping of ids to secrets, a function, or an object with "
        "`resolve(credential_id)` such as casenotes.credentials.FileCredentials"
    )


# Looking secrets up


class Resolving:
    """A resolver of the host's own, which remembers what it was asked for."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def resolve(self, credential_id: str) -> Any:
        self.asked.append(credential_id)
        return self.answer(credential_id)


async def later(value: Any) -> Any:
    """An answer that takes a while."""
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


def failing(error: Exception) -> Callable[[str], Any]:
    """An answer that fails."""

    def answer(credential_id: str) -> Any:
        raise error

    return answer


@pytest.mark.parametrize("given", [VALUE, Secret(VALUE)], ids=["text", "secret"])
async def test_a_resolver_may_answer_at_once_or_later(given: str | Secret) -> None:
    assert isinstance(Resolving(str), CredentialResolver)
    assert await secret_of("main", "a field", Resolving(lambda _: given)) == Secret(VALUE)
    assert await secret_of("main", "a field", Resolving(lambda _: later(given))) == Secret(VALUE)
    future = asyncio.get_running_loop().create_future()
    future.set_result(given)
    assert await secret_of("main", "a field", Resolving(lambda _: future)) == Secret(VALUE)


@pytest.mark.parametrize(
    "answer",
    [lambda _: None, lambda _: later(None), failing(KeyError("main")), lambda _: later(LookupError(VALUE))],
    ids=["none", "none later", "a key error", "a lookup error later"],
)
async def test_an_unknown_id_is_named_with_its_field(answer: Callable[[str], Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        await secret_of("main", "memory.episodicMemory.credential", Resolving(answer))
    assert str(caught.value) == (
        "memory.episodicMemory.credential is 'main', which is not among the credentials; add it there, or name "
        "another one"
    )
    assert VALUE not in "".join(traceback.format_exception(caught.value))


async def test_without_credentials_nothing_is_found() -> None:
    with pytest.raises(SettingsError) as caught:
        await secret_of("main", "episodic.credential", None)
    assert str(caught.value) == (
        "episodic.credential is 'main', but there are no credentials; pass credentials=, such as "
        "casenotes.credentials.FileCredentials(path)"
    )


@pytest.mark.parametrize(
    "answer",
    [failing(RuntimeError(f"403 for {VALUE}")), lambda _: later(OSError(f"403 for {VALUE}"))],
    ids=["at once", "later"],
)
async def test_what_a_failing_resolver_says_is_not_repeated(answer: Callable[[str], Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        await secret_of("main", "episodic.credential", Resolving(answer))
    assert re.fullmatch(
        r"episodic\.credential is 'main', and looking it up failed \((RuntimeError|OSError)\); mend the "
        r"resolver that was passed as credentials=",
        str(caught.value),
    )
    assert VALUE not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("answer", [5, b"wq8-bytes", ["wq8-list"], "", " "])
async def test_an_answer_that_is_no_secret_is_refused_with_its_field(answer: Any) -> None:
    with pytest.raises(SettingsError, match=r"episodic\.credential") as caught:
        await secret_of("main", "episodic.credential", Resolving(lambda _: answer))
    assert "wq8" not in str(caught.value)


@pytest.mark.parametrize("resolver", [None, MappingCredentials({}), Resolving(failing(OSError()))])
async def test_a_key_in_place_of_an_id_is_not_shown(resolver: CredentialResolver | None) -> None:
    key = "sk-proj-" + "Zq7RtY2uWx4vBn6mKj8hGf3dSa5pLo9i"
    with pytest.raises(SettingsError, match=r"episodic\.credential is \[secret\],") as caught:
        await secret_of(key, "episodic.credential", resolver)
    assert key not in str(caught.value)


CONFIG = {
    "memory": {
        "storage": {"url": "postgresql://mira@db:5432/notes?sslmode=require", "credential": "db"},
        "observationalMemory": {
            "observerModel": {"model": "openai/a", "credential": "one"},
            "reflectorModel": {"model": "openai/b", "credential": "two"},
        },
        "episodicMemory": {
            "credential": "one",
            "extractorModel": {"model": "openai/c", "credential": "three"},
            "reflectorModel": {"model": "openai/d", "credential": "one"},
        },
    }
}


async def test_each_credential_is_asked_for_once() -> None:
    resolver = Resolving(lambda name: later(f"wq8-{name}"))
    keys = await look_up(effective(CONFIG), resolver)
    assert resolver.asked == ["db", "one", "two", "three"]
    assert {name: secret.reveal() for name, secret in keys.secrets.items()} == {
        name: f"wq8-{name}" for name in ("db", "one", "two", "three")
    }
    assert "wq8" not in repr(keys)


async def test_what_is_off_needs_no_credential() -> None:
    resolver = Resolving(lambda name: f"wq8-{name}")
    config = copy.deepcopy(CONFIG)
    config["memory"]["episodicMemory"]["enabled"] = False
    await look_up(effective(config), resolver)
    assert resolver.asked == ["db", "one", "two"]
    config["memory"]["observationalMemory"]["enabled"] = False
    config["memory"]["storage"] = "default"
    assert (await look_up(effective(config), None)).secrets == {}
    assert (await look_up(effective({"memory": CONFIG["memory"] | {"enabled": False}}), None)).secrets == {}


async def test_what_the_call_brings_needs_no_credential() -> None:
    resolver = Resolving(lambda name: f"wq8-{name}")
    keys = await look_up(effective(CONFIG, url="sqlite:///mine.db", embedder="static"), resolver)
    assert "db" not in resolver.asked
    assert (keys.database_url, keys.embedder) == ("sqlite:///mine.db", "static")


@pytest.mark.parametrize(
    ("left_out", "path"),
    [
        ("db", "memory.storage.credential"),
        ("one", "memory.episodicMemory.credential"),
        ("two", "memory.observationalMemory.reflectorModel.credential"),
        ("three", "memory.episodicMemory.extractorModel.credential"),
    ],
)
async def test_a_missing_credential_is_named_as_the_settings_name_it(left_out: str, path: str) -> None:
    credentials = {name: f"wq8-{name}" for name in ("db", "one", "two", "three") if name != left_out}
    with pytest.raises(SettingsError) as caught:
        await look_up(effective(CONFIG), credentials)
    assert str(caught.value) == (
        f"{path} is '{left_out}', which is not among the credentials; add it there, or name another one"
    )


async def test_python_names_its_settings_as_python_does() -> None:
    mine = Settings(observational=ObservationalSettings(observer_model=MODEL))
    with pytest.raises(SettingsError, match=r"^observational\.observer_model\.credential is 'main', which"):
        await look_up(effective(mine), {})


@pytest.mark.parametrize(
    ("url", "complete"),
    [
        (
            "postgresql://mira@db:5432/notes?sslmode=require",
            "postgresql://mira:{}@db:5432/notes?sslmode=require",
        ),
        ("postgresql://db/notes", "postgresql://:{}@db/notes"),
        ("postgresql://mira:@db/notes", "postgresql://mira:{}@db/notes"),
        ("postgres://mira@[::1]/notes", "postgres://mira:{}@[::1]/notes"),
        ("postgresql:///notes?host=/run", "postgresql://:{}@/notes?host=/run"),
    ],
)
async def test_the_password_of_a_credential_is_put_into_the_url(url: str, complete: str) -> None:
    config = {"memory": {"storage": {"url": url, "credential": "db"}}}
    keys = await look_up(effective(config), {"db": "p@ss/w:rd?#%"})
    assert keys.database_url == complete.format("p%40ss%2Fw%3Ard%3F%23%25")
    assert "p@ss" not in repr(keys)
    assert "p%40ss" not in repr(keys)
    assert hide(f"cannot connect to {keys.database_url}") == f"cannot connect to {complete.format('[secret]')}"


async def test_json_takes_no_keys_from_the_environment() -> None:
    with pytest.raises(SettingsError) as caught:
        await look_up(effective({"memory": {}}), EnvironmentCredentials())
    assert str(caught.value) == (
        "credentials is EnvironmentCredentials and config is JSON, which takes no keys from the environment; "
        "use FileCredentials, KeyringCredentials or a mapping"
    )
    with pytest.raises(SettingsError) as caught:
        await look_up(effective({"memory": {}}, embedder="openai:text-embedding-3-small"), None)
    assert str(caught.value) == (
        "embedder is 'openai:text-embedding-3-small' and config is JSON, which takes no keys from the "
        "environment; set memory.episodicMemory.credential, or pass an object as embedder"
    )


async def test_the_embedder_of_the_environment_does_not_serve_json() -> None:
    variables = {"CASENOTES_EMBEDDER_MODEL": "openai:text-embedding-3-small"}
    by_json = await look_up(effective({"memory": {}}, variables=variables), None)
    by_settings = await look_up(effective(Settings(), variables=variables), None)
    own = await look_up(
        effective(Settings(episodic=EpisodicSettings(credential="local")), variables=variables), None
    )
    assert (by_json.embedder, by_settings.embedder, own.embedder) == (
        "local",
        "openai:text-embedding-3-small",
        "local",
    )


async def test_environment_credentials_serve_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_CREDENTIAL_MAIN", VALUE)
    mine = Settings(observational=ObservationalSettings(observer_model=MODEL))
    assert (await look_up(effective(mine), EnvironmentCredentials())).secrets == {"main": Secret(VALUE)}


def test_a_variable_that_is_nearly_one_is_told() -> None:
    variables = {
        "CASENOTES_LAST_MESSAGE": "3",
        "CASENOTES_MODEL": "x",
        "CASENOTES_CREDENTIAL_MAIN": "y",
        "HOME": "/",
    }
    assert unknown_variables(variables) == {"CASENOTES_LAST_MESSAGE": "; did you mean CASENOTES_LAST_MESSAGES?"}

"""`casenotes config` as people and programs use it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from terminal import on_terminal

from casenotes.cli.app import main
from casenotes.config.json_schema import schema

QUESTIONS = [
    ("Where is it kept?", "y"),
    ("memory.storage is 'y'; use default or n8n", ""),
    ("Compress long conversations", "y"),
    ("A model of its own", "y"),
    ("Which model (provider/name)? [google/gemini-2.5-flash]", ""),
    ("The id of its credential", "google-main"),
    ("Remember across conversations?", "y"),
    ("The id of a credential for embeddings", "embed"),
]
"""What `config init` prints before it waits, and what is typed then."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints; it must end with that code."""
    old, sys.argv = sys.argv, ["casenotes", "config", *words]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = old
    printed = capsys.readouterr()
    assert (ended.value.code or 0) == code, printed
    return printed.out + printed.err


def write(name: str, value: Any, mode: int = 0o600) -> str:
    path = Path(name)
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    path.chmod(mode)
    return name


class TestShow:
    def test_r11_11_every_value_has_its_origin(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("casenotes.toml", 'model = "openai:x"\nlast_messages = 3\nsemantic_recall_top_k = 2\n')
        monkeypatch.setenv("CASENOTES_LAST_MESSAGES", "4")
        monkeypatch.setenv("CASENOTES_OBSERVER_MESSAGE_TOKENS", "5000")
        agent = {"memory": {"observationalMemory": {"observerThresholdTokens": 6000}}}
        shown = json.loads(
            run(capsys, "show", "--config", write("a.json", agent), "--db", "sqlite:///b.db", "--json")
        )
        found = {row["setting"]: (row["value"], row["origin"]) for row in shown["settings"]}
        assert found["database_url"] == ("sqlite:///b.db", "call")
        assert found["observational.observer_threshold_tokens"] == (6000, "JSON")
        assert found["last_messages"] == (4, "CASENOTES_LAST_MESSAGES")
        assert found["model"] == ("openai:x", "casenotes.toml")
        assert found["semantic_recall.top_k"] == (2, "casenotes.toml")
        assert found["episodic.enabled"] == (False, "JSON")
        assert found["episodic.top_k"] == (5, "default")
        assert len(found) > 90

    def test_it_is_a_table_for_people(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CASENOTES_DATABASE_URL", "postgresql://mira:hunter2@db/x?sslmode=disable")
        lines = run(capsys, "show", "--changed").splitlines()
        assert [line.split() for line in lines] == [
            ["setting", "value", "from"],
            ["database_url", '"postgresql://db/x"', "CASENOTES_DATABASE_URL"],
        ]

    def test_a_wrong_source_is_named(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CASENOTES_SEMANTIC_RECALL", "perhaps")
        told = run(capsys, "show", code=2)
        assert told == "error: CASENOTES_SEMANTIC_RECALL is 'perhaps'; it must be true or false\n"


class TestVerify:
    def test_r12_11_every_violation_is_listed_with_its_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        agent = {
            "instructions": "Be kind. Save what matters to memory.",
            "memory": {"lastMessages": "all", "episodicMemory": {"enabled": True, "topk": 3}},
        }
        told = json.loads(run(capsys, "verify", write("a.json", agent), "--json", code=1))
        assert not told["ok"]
        assert [(item["path"], item["rule"]) for item in told["violations"]] == [
            ("memory.lastMessages", "wrong_type"),
            ("memory.episodicMemory.topk", "unknown_field"),
            ("memory.episodicMemory.credential", "missing_credential"),
            ("instructions", "memory_writing"),
        ]
        lines = run(capsys, "verify", "a.json", code=1).splitlines()
        assert lines[1] == "unknown_field: memory.episodicMemory.topk is unknown; did you mean topK?"

    def test_a_right_one_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        agent = write("a.json", {"memory": {"storage": "acme"}})
        assert run(capsys, "verify", agent, "--storage", "acme") == "No rule is violated.\n"
        assert "storage is 'acme'" in run(capsys, "verify", agent, code=1)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("{", "no_json: the configuration is no JSON (line 1, column 2); mend it there"),
            ("", "no_json: the configuration is no JSON (line 1, column 1); mend it there"),
            (
                '{"memory": {"enabled": true, "enabled": false}}',
                "no_json: the configuration has 'enabled' twice",
            ),
            ("[]", "wrong_type: the configuration is []; it must be an object"),
        ],
    )
    def test_what_is_no_configuration_is_told(
        self, text: str, told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(capsys, "verify", write("a.json", text), code=1).startswith(told)

    def test_a_file_that_is_not_there_is_a_wrong_call(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = run(capsys, "verify", "gone.json", code=2)
        assert told == "error: 'gone.json' cannot be read: No such file or directory\n"

    def test_r11_07_credentials_are_looked_up(self, capsys: pytest.CaptureFixture[str]) -> None:
        observer = {"model": "openai/gpt-5-mini", "credential": "main"}
        episodic = {"enabled": True, "credential": "embed"}
        agent = {"memory": {"observationalMemory": {"observerModel": observer}, "episodicMemory": episodic}}
        write("a.json", agent)
        secrets = write("secrets.toml", 'main = "sk-main-canary"\n')
        told = run(capsys, "verify", "a.json", "--credentials", secrets, code=1)
        assert told.startswith(
            "unknown_credential: memory.episodicMemory.credential is 'embed', which is not among"
        )
        write("secrets.toml", 'main = "sk-main-canary"\nembed = "sk-embed-canary"\n')
        assert run(capsys, "verify", "a.json", "--credentials", secrets) == "No rule is violated.\n"
        write("secrets.toml", 'main = "x"', mode=0o644)
        named = write("named.json", {"memory": {**agent["memory"], "storage": "acme"}})
        write("secrets.toml", 'main = "sk-main-canary"\nembed = "sk-embed-canary"\n')
        run(capsys, "verify", named, "--storage", "acme", "--credentials", secrets)
        write("secrets.toml", 'main = "x"', mode=0o644)
        assert "has mode 0644" in run(capsys, "verify", "a.json", "--credentials", secrets, code=2)


class TestInit:
    def test_without_a_terminal_flags_and_defaults_answer(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "init").startswith("Wrote memory.json.")
        assert json.loads(Path("memory.json").read_text()) == {
            "memory": {
                "enabled": True,
                "storage": "default",
                "observationalMemory": {"enabled": True},
                "episodicMemory": {"enabled": False},
            }
        }
        assert run(capsys, "verify", "memory.json") == "No rule is violated.\n"

    def test_flags_say_everything(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ("--storage", "sqlite:///x.db", "--credential", "embed", "--last-messages", "5")
        observer = ("--observer-model", "google/gemini-2.5-flash", "--observer-credential", "g")
        made = json.loads(run(capsys, "init", "-", *words, *observer, "--json"))
        assert made["config"] == json.loads(run(capsys, "init", "-", *words, *observer))
        assert made["config"]["memory"] == {
            "enabled": True,
            "storage": "sqlite:///x.db",
            "lastMessages": 5,
            "observationalMemory": {
                "enabled": True,
                "observerModel": {"model": "google/gemini-2.5-flash", "credential": "g"},
            },
            "episodicMemory": {"enabled": True, "credential": "embed"},
        }

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--observer-model", "a/b"], "error: --observer-model needs --observer-credential"),
            (["--observer-credential", "x"], "error: --observer-credential is given without --observer-model"),
            (["--storage", "postgresql://a:hunter2@b/c"], "error: --storage is a URL with a password"),
            (["--last-messages", "0"], "error: memory.lastMessages is 0; it must be at least 1"),
            (
                ["--credential", "sk-proj-abcdEFGH1234567890abcd"],
                "error: memory.episodicMemory.credential looks like",
            ),
        ],
    )
    def test_wrong_answers_are_refused_and_nothing_is_written(
        self, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = " ".join(run(capsys, "init", *words, code=2).split())
        assert said.startswith(told)
        assert "hunter2" not in said
        assert not Path("memory.json").exists()

    def test_a_file_is_changed_only_by_force_and_loses_nothing(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = {
            "name": "Anna",
            "memory": {"lastMessages": 9, "episodicMemory": {"enabled": False, "topK": 7}},
        }
        write("a.json", before)
        assert "'a.json' exists; name another file, or change it with --force" in run(
            capsys, "init", "a.json", code=2
        )
        run(capsys, "init", "a.json", "--force", "--credential", "local")
        after = json.loads(Path("a.json").read_text())
        assert after["name"] == "Anna"
        assert after["memory"]["lastMessages"] == 9
        assert after["memory"]["episodicMemory"] == {"enabled": True, "credential": "local", "topK": 7}

    def test_force_changes_what_is_named_and_nothing_else(self, capsys: pytest.CaptureFixture[str]) -> None:
        before = {
            "name": "x",
            "memory": {
                "enabled": False,
                "storage": "sqlite:///agent.db",
                "observationalMemory": {"enabled": False},
                "episodicMemory": {"enabled": True, "credential": "openai-main", "topK": 8},
            },
        }
        write("a.json", before)
        Path("link.json").symlink_to("a.json")
        run(capsys, "init", "link.json", "--force", "--last-messages", "10")
        after = json.loads(Path("a.json").read_text())
        assert after == {"name": "x", "memory": {**before["memory"], "lastMessages": 10}}
        assert Path("link.json").is_symlink()
        assert Path("a.json").stat().st_mode & 0o777 == 0o600
        assert [path.name for path in Path().iterdir()].count("a.json") == 1

    @pytest.mark.parametrize("text", ["[1, 2, 3]", '{"memory": "important"}'])
    def test_what_is_no_configuration_is_not_overwritten(
        self, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write("a.json", text)
        assert "is no configuration" in run(capsys, "init", "a.json", "--force", code=2)
        assert Path("a.json").read_text() == text

    @pytest.mark.parametrize(
        "words", [["--no-episodic", "--credential", "x"], ["--no-session", "--observer-model", "a/b"]]
    )
    def test_flags_that_contradict_each_other_are_refused(
        self, words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert "give one of them" in run(capsys, "init", *words, code=2)
        assert "FILE is empty" in run(capsys, "init", "", code=2)

    def test_in_a_terminal_it_asks(self) -> None:
        with on_terminal(Path(), "config", "init", "asked.json") as terminal:
            for question, answer in QUESTIONS:
                terminal.until(question, ": ")
                terminal.type(answer)
            terminal.until("Wrote asked.json")
            assert terminal.close() == 0
        assert json.loads(Path("asked.json").read_text()) == {
            "memory": {
                "enabled": True,
                "storage": "default",
                "observationalMemory": {
                    "enabled": True,
                    "observerModel": {"model": "google/gemini-2.5-flash", "credential": "google-main"},
                },
                "episodicMemory": {"enabled": True, "credential": "embed"},
            }
        }


def test_r11_12_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "schema")) == schema()
    assert json.loads(run(capsys, "schema", "--json")) == schema()

"""The command line as its users meet it: real files, exit codes, no tracebacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import invoke

from casenotes import Scope, sync

GOOD = [
    {
        "id": "1",
        "scope": "ann",
        "thread": "t",
        "role": "user",
        "time": "2026-03-01T12:00:00",
        "text": "The fan is loud",
    },
    {
        "id": "2",
        "scope": "ann",
        "thread": "t",
        "role": "vendor",
        "time": "2026-03-02",
        "text": "Fan 7 was replaced",
    },
    {
        "id": "3",
        "scope": "bob",
        "thread": "u",
        "role": "user",
        "text": "[red]bold\x1b[31m[/red] and loud",
    },
]


class Cli:
    """Runs `casenotes` in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return invoke(*words, code=code, directory=self.directory)

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        return json.loads(self(*words, "--json", code=code).stdout)

    def write(self, name: str, *lines: object) -> str:
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        (self.directory / name).write_text(text, encoding="utf-8")
        return name


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def filled(cli: Cli) -> Cli:
    cli("import", cli.write("good.jsonl", *GOOD))
    return cli


def test_import_then_recall(cli: Cli) -> None:
    shown = cli("import", cli.write("good.jsonl", *GOOD)).stdout
    assert "Imported 3 messages in 2 threads" in shown
    assert "1 with role 'vendor' are stored as 'user'" in shown
    assert "1 had no time" in shown
    assert "3 were there already" in cli("import", "good.jsonl").stdout
    found = cli("recall", "loud fan", "--resource", "ann").stdout
    assert "The fan is loud" in found
    assert "final" in found
    assert "lexical" in found


def test_recall_as_json_has_everything(filled: Cli) -> None:
    result = filled.json("recall", "fan", "--resource", "ann", "--top-k", "1")
    (hit,) = result["hits"]
    assert (hit["id"], hit["role"], hit["thread_id"]) == ("1", "user", "t")
    assert set(hit["scores"]) == {"lexical", "vector", "fused", "recency", "final"}
    assert (
        filled.json("recall", "fan", "--resource", "ann", "--as-of", "2026-03-01T13:00")["hits"][0]["id"] == "1"
    )


def test_stored_text_cannot_write_to_the_terminal(filled: Cli) -> None:
    shown = filled("recall", "loud", "--resource", "bob").stdout
    assert "\x1b" not in shown
    assert "[red]bold" in shown


def test_bad_lines_are_reported_and_the_rest_is_imported(cli: Cli) -> None:
    lines = [
        GOOD[0],
        "{broken",
        {"scope": "ann", "text": "nul\x00byte"},
        {"scope": "ann", "text": "lone \ud800 surrogate"},
        {"scope": "ann", "text": "x" * 10_000_000},
        {**GOOD[0], "text": "the same id with other content"},
        {"id": "9", "scope": "ann", "thread": "t", "text": "the last line is fine"},
        GOOD[0],
    ]
    result = cli("import", cli.write("bad.jsonl", *lines), code=1)
    assert "Imported 2 messages" in result.stdout
    assert "5 lines were refused" in result.stderr
    again = cli.json("import", "bad.jsonl", code=1)
    reasons = {row["line"]: row["reason"] for row in again["refused"]}
    assert sorted(reasons) == [2, 3, 4, 5, 6]
    for line, named in (
        (2, "not valid JSON"),
        (3, "NUL"),
        (4, "surrogate"),
        (5, "10000000"),
        (6, "'1'"),
    ):
        assert named in reasons[line]
    assert (again["added"], again["known"]) == (0, 3)
    assert cli.json("stats")["total"]["messages"] == 2


def test_export_and_import_are_inverse(filled: Cli) -> None:
    filled("export", "-o", "out.jsonl")
    filled("import", "out.jsonl", "--db", "sqlite:///copy.db")
    filled("export", "-o", "again.jsonl", "--db", "sqlite:///copy.db")
    first = (filled.directory / "out.jsonl").read_text()
    assert first == (filled.directory / "again.jsonl").read_text()
    assert "vector" not in first
    only_bob = filled("export", "--resource", "bob").stdout.splitlines()
    assert [json.loads(line)["id"] for line in only_bob] == ["3"]


def test_what_sub_agents_said_is_no_memory_in_a_copy_either(cli: Cli) -> None:
    parent = Scope("default", "ann", "monday")
    with sync.Memory.open(f"sqlite:///{cli.directory}/casenotes.db", embedder="static", model="") as memory:
        memory.complete(memory.begin(parent, "The hangar is closed."), "I see.")
        for shares in (False, True):
            child = memory.begin(parent.child("helper", shares_memory=shares), f"Look at zeppelin {shares}.")
            memory.complete(child, "It flies.")
        threads = memory.threads(parent)
    cli("export", "-o", "out.jsonl")
    cli("import", "out.jsonl", "--db", "sqlite:///copy.db")
    with sync.Memory.open(f"sqlite:///{cli.directory}/copy.db", model="") as copy:
        assert {(t.thread_id, t.parent_id, t.apart) for t in copy.threads(parent)} == {
            (t.thread_id, t.parent_id, t.apart) for t in threads
        }
        found = {hit.content for hit in copy.recall(parent.owner, "Look at the zeppelin that flies", 9)}
        assert "Look at zeppelin True." in found
        assert "Look at zeppelin False." not in found
    cli("export", "-o", "again.jsonl", "--db", "sqlite:///copy.db")
    exported = [(cli.directory / name).read_text().splitlines() for name in ("out.jsonl", "again.jsonl")]
    assert sorted(exported[0]) == sorted(exported[1])


def test_lines_of_reply_trees_are_no_sub_agents(cli: Cli) -> None:
    lines = [
        {
            "id": f"m{n}",
            "scope": "ann",
            "thread": "t",
            "role": "user",
            "text": f"Pump {n} leaks",
            "parent": f"m{n - 1}",
        }
        for n in range(1, 4)
    ]
    cli("import", cli.write("tree.jsonl", *lines))
    assert [thread["thread_id"] for thread in cli.json("threads", "--resource", "ann")["threads"]] == ["t"]
    assert len(cli.json("recall", "pump leaks", "--resource", "ann")["hits"]) == 3


def test_an_export_is_private_and_never_replaces_the_store(filled: Cli) -> None:
    filled("export", "-o", "out.jsonl")
    assert (filled.directory / "out.jsonl").stat().st_mode & 0o777 == 0o600
    error = filled("export", "-o", "casenotes.db", code=2).stderr
    assert "is the store itself" in error.replace("\n", " ")
    assert filled.json("stats")["total"]["messages"] == 3
    assert "cannot write" in filled("export", "-o", "missing/out.jsonl", code=2).stderr
    assert not list(filled.directory.glob("*.part"))


def test_r13_05_an_export_uses_no_file_that_others_have_made(filled: Cli) -> None:
    victim = filled.directory / "victim"
    victim.write_text("mine")
    planted = filled.directory / "out.jsonl.part"
    planted.symlink_to(victim)
    filled("export", "-o", "out.jsonl")
    assert victim.read_text() == "mine"
    assert planted.is_symlink()
    planted.unlink()
    planted.touch(0o666)
    (filled.directory / "out.jsonl").chmod(0o644)
    filled("export", "-o", "out.jsonl")
    assert (filled.directory / "out.jsonl").stat().st_mode & 0o777 == 0o600
    os.mkfifo(filled.directory / "pipe")
    assert "no regular file" in " ".join(filled("export", "-o", "pipe", code=2).stderr.split())
    assert "cannot write" in filled("export", "-o", ".", code=2).stderr
    assert [file.name for file in filled.directory.glob("*.part")] == ["out.jsonl.part"]
    assert not list(filled.directory.glob(".casenotes-*"))


def test_r13_05_a_file_that_exists_is_never_written_through(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if somebody had guessed the name."""
    monkeypatch.setattr("casenotes.cli.files.secrets.token_hex", lambda _count: "guessed")
    victim = filled.directory / "victim"
    victim.write_text("mine")
    (filled.directory / ".casenotes-guessed.part").symlink_to(victim)
    assert "cannot write" in filled("export", "-o", "out.jsonl", code=2).stderr
    assert "cannot be written" in filled("config", "init", "memory.json", "--yes", code=2).stderr
    assert victim.read_text() == "mine"


def test_r13_06_an_export_to_the_screen_cannot_write_to_the_terminal(cli: Cli) -> None:
    text = "The fan \x9b31m is \u202eduol\u2066 \u200f \x1b[2J."
    cli("import", cli.write("hostile.jsonl", {**GOOD[0], "text": text}))
    shown = cli("export").stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)
    assert [json.loads(line)["text"] for line in shown.splitlines()] == [text]


def test_titles_survive_and_a_line_without_metadata_takes_none_away(filled: Cli) -> None:
    thread = {"kind": "thread", "scope": "ann", "thread": "t"}
    filled("import", filled.write("a.jsonl", {**thread, "title": "Fans", "metadata": {"k": 1}}))
    filled("import", filled.write("b.jsonl", {**thread, "title": "Loud fans"}))
    (line,) = [x for x in filled("export").stdout.splitlines() if '"kind"' in x]
    assert (json.loads(line)["title"], json.loads(line)["metadata"]) == ("Loud fans", {"k": 1})


def test_stats_and_doctor(filled: Cli) -> None:
    assert filled.json("stats")["scopes"][0]["resource_id"] == "ann"
    assert filled.json("stats")["bytes_by_table"]["messages"] > 0
    assert "messages" in (shown := filled("stats").stdout)
    assert "Bytes by table" in shown
    findings = {f["name"]: f["status"] for f in filled.json("doctor")["findings"]}
    assert findings["store"] == findings["embedder"] == findings["integrity"] == "ok"
    assert "Nothing has failed" in filled("doctor").stdout


def test_doctor_fails_where_there_is_no_store(cli: Cli) -> None:
    assert "there is no store" in cli("doctor", code=1).stdout.replace("\n", " ")
    assert list(cli.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("recall", "x", "--resource", "r"), 1, "no store at sqlite:///casenotes.db"),
        (("recall", "x"), 2, "--resource"),
        (("import", "missing.jsonl"), 2, "cannot read"),
        (("import", "missing.jsonl", "--timezone", "Mars/Base"), 2, "Mars/Base"),
        (("recall", "x", "--resource", "r", "--as-of", "soon"), 2, "'soon'"),
        (("stats", "--db", "mysql://u:sec/ret@h/d"), 2, "mysql"),
        (("stats", "--db", "postgresql://[bad/x"), 2, "not understood"),
        (("stats", "--db", "postgresql://u:secret@127.0.0.1:1/d"), 1, "cannot reach"),
        (("export", "--json"), 2, "--output"),
        (("nonsense",), 2, "nonsense"),
        (("eval", "retrieval", "--corpus", "c", "--queries", "q"), 2, "cannot read"),
        (("eval", "compare", "a", "b"), 2, "cannot read"),
    ],
)
def test_errors_are_one_clear_sentence(cli: Cli, words: tuple[str, ...], code: int, named: str) -> None:
    result = cli(*words, code=code)
    shown = " ".join((result.stderr + result.stdout).split())
    assert named in shown
    assert "secret" not in shown
    assert "sec/ret" not in shown


def test_a_process_of_its_own_has_the_same_exit_codes_and_streams(tmp_path: Path) -> None:
    for words, code, printed in (
        (("--version",), 0, "casenotes "),
        (("stats",), 1, "no store at sqlite:///casenotes.db"),
    ):
        command = [sys.executable, "-m", "casenotes", *words]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert result.returncode == code
        assert printed in (result.stderr if code else result.stdout)
        assert (result.stdout if code else result.stderr) == ""
        assert "Traceback" not in result.stderr


def test_errors_are_json_too(cli: Cli) -> None:
    assert cli.json("stats", code=1)["error"]["type"] == "StoreUnavailable"


def test_a_file_that_is_no_database(cli: Cli) -> None:
    name = cli.write("notes.txt", "my notes " * 500)
    assert "is not a database" in cli("stats", "--db", f"sqlite:///{name}", code=1).stderr.replace("\n", " ")


def test_the_environment_names_the_database(filled: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASENOTES_DATABASE_URL", f"sqlite:///{filled.directory}/elsewhere.db")
    filled("import", "good.jsonl")
    assert (filled.directory / "elsewhere.db").exists()


def test_works_with_postgresql(cli: Cli, postgres_url: str) -> None:
    cli("import", cli.write("good.jsonl", *GOOD), "--db", postgres_url)
    assert "The fan is loud" in cli("recall", "loud", "--resource", "ann", "--db", postgres_url).stdout
    assert cli.json("stats", "--db", postgres_url)["total"]["messages"] == 3
    assert "Nothing has failed" in cli("doctor", "--db", postgres_url).stdout


def test_an_unknown_resource_is_pointed_out(filled: Cli) -> None:
    assert "no messages of resource 'eve'" in filled("recall", "x", "--resource", "eve").stdout
    assert "Nothing relevant" in filled("recall", "zzzz", "--resource", "bob").stdout


def test_demo_shows_the_whole_path(cli: Cli) -> None:
    shown = cli("demo").stdout
    for wanted in (
        "recorded and ships with the samples",
        "rejected (evidence_not_found)",
        "named by nobody in the conversation: 540",
        "rejected (echo)",
        "corroborated (known)",
        "</description>",
        "recall_memory",
        "final 1.",
        "»the proxy cuts requests",
        "jonas asked what mira asked and saw nothing of hers.",
        "7 candidates, 3 stored, 1 corroborated, 3 rejected",
    ):
        assert wanted in shown, wanted
    assert list(cli.directory.iterdir()) == []


def test_demo_as_json_has_everything(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the environment do not count: neither a key nor a network is needed."""
    for name in ("CASENOTES_MODEL", "CASENOTES_EMBEDDER_MODEL"):
        monkeypatch.setenv(name, "openai:none")
    demo = cli.json("demo")
    became = [[(c["status"], c["reason"]) for c in turn["receipt"]["candidates"]] for turn in demo["turns"]]
    assert became == [
        [("stored", ""), ("rejected", "evidence_not_found")],
        [("stored", ""), ("rejected", "unsupported"), ("rejected", "echo")],
        [("corroborated", "known")],
        [("stored", "")],
    ]
    assert demo["worker"] == "recorded"
    assert demo["next_turn"]["context"].startswith("<memory>")
    assert demo["next_turn"]["tools"] == ["recall_memory", "update_profile", "plan"]
    assert demo["answers"][1]["hits"][0]["thread_id"] == "rate-limits"
    assert demo["answers"][-1] == {"resource": "jonas", "query": demo["answers"][0]["query"], "hits": []}
    quotes = demo["explained"]["quotes"]
    assert {quoted["message"]["thread_id"] for quoted in quotes} == {"warehouse-export", "quarter-end"}
    for quoted in quotes:
        evidence = quoted["evidence"]
        assert quoted["message"]["text"][evidence["start"] : evidence["end"]] == evidence["quote"]
    assert {check["status"] for check in demo["checks"]} <= {"ok", "warning"}


def test_eval_retrieval(cli: Cli) -> None:
    corpus = cli.write("corpus.jsonl", *GOOD)
    queries = cli.write(
        "queries.jsonl",
        {
            "id": "q1",
            "scope": "ann",
            "query": "what was replaced?",
            "time": "2026-03-03",
            "relevant": ["2"],
            "category": "a",
        },
        {
            "id": "q2",
            "scope": "ann",
            "query": "loud",
            "time": None,
            "relevant": ["1"],
            "category": "b",
        },
        {"id": "q3", "scope": "bob", "query": "zzzz", "relevant": []},
    )
    words = ("eval", "retrieval", "--corpus", corpus, "--queries", queries)
    result = cli.json(*words)
    assert result["message"]["overall"]["recall@1"] == 1
    assert set(result["message"]["by_category"]) == {"a", "b"}
    assert result["thread"]["overall"]["queries"] == 2
    assert result["abstention"] == {"queries": 1, "no_hits": 1}
    assert result["timings"]["recall_ms_median"] > 0
    assert "thread" not in cli.json(*words, "--level", "message")
    assert "recall@10" in cli(*words, "--ranker", "rrf-decay").stdout


def test_eval_runs_are_cached_and_compared(cli: Cli) -> None:
    corpus = cli.write("corpus.jsonl", *GOOD)
    query = {"id": "q1", "scope": "ann", "query": "what was replaced?", "relevant": ["2"]}
    queries = cli.write("queries.jsonl", query, {**query, "id": "q2", "query": "loud", "relevant": ["1"]})
    words = ("eval", "retrieval", "--corpus", corpus, "--queries", queries, "--cache", "vectors.db")
    first = cli.json(*words)
    assert first["embedder"] == {"label": "minilm+static:0.6", "texts_embedded": 5}
    second = cli.json(*words, "--set", "centring=0", "--set", "thread_share=0")
    assert second["embedder"]["texts_embedded"] == 0
    assert (cli.directory / "vectors.db").stat().st_mode & 0o777 == 0o600
    assert cli.json(*words, "--no-cache")["embedder"]["texts_embedded"] is None
    for name, run in (("a.json", first), ("b.json", second)):
        (cli.directory / name).write_text(json.dumps(run))
    compared = cli.json("eval", "compare", "a.json", "b.json")
    assert compared["queries"] == 2
    assert compared["message"]["recall@1"]["difference"] == 0
    assert "standard error" in cli("eval", "compare", "a.json", "b.json").stdout
    assert "no search setting 'colour'" in cli(*words, "--set", "colour=1", code=2).stderr
    assert "'much' is not a number" in cli(*words, "--set", "centring=much", code=2).stderr
    assert "centring is 7" in cli(*words, "--set", "centring=7", code=2).stderr
    (cli.directory / "vectors.db").write_bytes(b"not a database at all" * 100)
    assert "--no-cache" in cli(*words, code=2).stderr


@pytest.mark.parametrize("words", [(), ("import",), ("recall",), ("eval", "retrieval"), ("demo",), ("doctor",)])
def test_help_is_worth_reading(cli: Cli, words: tuple[str, ...]) -> None:
    assert "Usage: " in cli(*words, "--help").stdout
    assert cli("--version").stdout.startswith("casenotes ")


def test_reembed(cli: Cli) -> None:
    cli("import", cli.write("a.jsonl", *GOOD), "--db", "sqlite:///s.db")
    db = ("--db", "sqlite:///s.db")
    assert cli.json("reembed", "static", "--dry-run", *db)["messages"] == 3
    result = cli.json("reembed", "static", *db)
    assert (result["from"], result["to"]) == ("minilm+static:0.6", "static:l2-supercat")
    assert (result["embedded"], result["removed"]) == (3, 3)
    assert cli.json("recall", "loud fan", "--resource", "ann", *db)["hits"][0]["scores"]["vector"] > 0
    again = cli("reembed", "static", *db).stdout
    assert "0 vectors made, 0 old ones removed" in again
    assert "no store at" in cli("reembed", "--db", "sqlite:///nowhere.db", code=1).stderr
    assert "'gpt' is unknown" in cli("reembed", "gpt", *db, code=2).stderr

"""What others export, through the command line: import, import again, recall, summaries, errors."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from test_cli import Cli

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUESTIONS = [
    ("openai.json", "which limit switch is stuck?", "F-117 limit switch of the boom is stuck", 5),
    ("openai_legacy.json", "how many loaves?", '{"loaves": 84}', 4),
    ("openai_responses.json", "oven celsius", '{"celsius": 231}', 4),
    ("chatgpt.json", "when is high water?", "High water at 05:12", 7),
    ("claude.json", "which oven is being repaired?", "oven 2 is being repaired", 6),
    ("langchain.json", "until when is it booked?", "booked until 14:30", 5),
    ("langchain_constructors.json", "was the wind strong?", "wind too strong", 3),
    ("pydantic_ai.json", "order B-3071", '{"order": "B-3071"}', 7),
]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.mark.parametrize(("name", "question", "answer", "messages"), QUESTIONS)
def test_tool_results_are_found_and_importing_again_adds_nothing(
    cli: Cli, name: str, question: str, answer: str, messages: int
) -> None:
    words = ("import", str(FIXTURES / name), "--resource", "quay", "--agent", "clerk")
    first, again = cli.json(*words), cli.json(*words)
    assert (first["added"], first["known"], first["refused"]) == (messages, 0, [])
    assert (again["added"], again["known"], again["refused"]) == (0, messages, [])
    assert first["left_out"] == again["left_out"]
    hits = cli.json("recall", question, "--resource", "quay", "--agent", "clerk")["hits"]
    assert answer in [hit["content"] for hit in hits]


def test_the_summary_says_what_was_left_out(cli: Cli) -> None:
    words = ("import", str(FIXTURES / "chatgpt.json"), "--resource", "quay")
    shown = cli(*words).stdout
    assert "Imported 7 messages in 2 threads" in shown
    assert "Left out: hidden messages (2)" in shown
    summary = cli.json(*words)
    assert summary["format"] == "chatgpt"
    assert summary["left_out"]["messages of other branches"] == 1
    titles = [json.loads(line).get("title") for line in cli("export").stdout.splitlines()]
    assert titles.count("Boom angle of crane 4") == 1


def test_what_was_imported_survives_export_and_import(cli: Cli) -> None:
    cli("import", str(FIXTURES / "claude.json"), "--resource", "bakery")
    cli("export", "-o", "out.jsonl")
    assert cli.json("import", "out.jsonl", "--db", "sqlite:///copy.db")["format"] == "jsonl"
    assert cli("export", "--db", "sqlite:///copy.db").stdout == (cli.directory / "out.jsonl").read_text()


def test_a_zip_is_imported_as_it_was_downloaded(cli: Cli) -> None:
    with zipfile.ZipFile(cli.directory / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FIXTURES / "claude.json", "conversations.json")
        archive.writestr("users.json", "[]")
    assert cli.json("import", "export.zip", "--resource", "bakery")["added"] == 6
    again = cli.json("import", str(FIXTURES / "claude.json"), "--resource", "bakery")
    assert (again["added"], again["known"]) == (0, 6)


def test_bad_messages_are_listed_by_place_and_the_rest_is_imported(cli: Cli) -> None:
    good = {"role": "user", "content": "The proofing room is cold"}
    nested: dict[str, Any] = {}
    for _ in range(300):
        nested = {"a": nested}
    bad = [
        {"role": "user", "content": "nul\x00byte"},
        {"role": "user", "content": "lone \ud800 surrogate"},
        {"role": "user", "content": "x" * 1_500_000},
        {"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": nested}]},
        {"role": "user", "content": 5},
    ]
    name = cli.write("chats.json", [{"messages": [good, *bad]}, 5, {"messages": [good]}])
    summary = cli.json("import", name, "--resource", "bakery", code=1)
    assert summary["added"] == 2
    places = [(row["entry"], row.get("message")) for row in summary["refused"]]
    assert places == [(1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, None)]
    for row, named in zip(
        summary["refused"], ("NUL", "surrogate", "1500000", "nested", "content"), strict=False
    ):
        assert named in row["reason"]
    shown = cli("import", name, "--resource", "bakery", code=1).stderr
    assert "6 entries or messages were refused" in shown
    assert "entry 1, message 2: " in shown


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("openai.json",), "add --resource ID"),
        (("openai.json", "--resource", "r", "--format", "jsonl"), "use --format openai"),
        (("openai.json", "--resource", "r", "--format", "xml"), "choose one of auto, jsonl, openai"),
        (("notes.txt", "--resource", "r"), "is not understood"),
        (("bomb.zip", "--resource", "r"), "times its size"),
    ],
)
def test_errors_are_one_clear_sentence(cli: Cli, words: tuple[str, ...], named: str) -> None:
    (cli.directory / "openai.json").write_bytes((FIXTURES / "openai.json").read_bytes())
    (cli.directory / "notes.txt").write_text("Rye, flour and salt")
    with zipfile.ZipFile(cli.directory / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * 20_000_000)
    result = cli("import", *words, code=2)
    assert named in " ".join(result.stderr.split())
    assert not list(cli.directory.glob("*.db"))


def test_ids_numbered_within_each_conversation_lose_nothing_in_any_order(cli: Cli) -> None:
    def numbered(name: str) -> dict[str, Any]:
        messages = [{"id": n, "role": "user", "content": f"{name} {n}"} for n in (1, 2)]
        return {"id": name, "messages": messages}

    def imported(*names: str) -> tuple[int, int, list[Any]]:
        (cli.directory / "chats.json").write_text(json.dumps([numbered(name) for name in names]))
        summary = cli.json("import", "chats.json", "--resource", "quay")
        return summary["added"], summary["known"], summary["refused"]

    assert imported("oven") == (2, 0, [])
    assert imported("crane", "oven") == (2, 2, [])
    assert imported("oven", "crane") == (0, 4, [])
    assert cli.json("stats")["total"]["messages"] == 4

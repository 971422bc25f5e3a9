"""Formats are found by content; what fits none, a wrong name and hostile files end in a clear error."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import FIXTURES, read_path

from casenotes.errors import CasenotesError, UsageError
from casenotes.transfer import source, values
from casenotes.transfer.formats.detect import CHOICES
from casenotes.transfer.lines import LeftOutLine, MessageLine, RefusedLine, ThreadLine

EXPECTED = {
    "openai.json": "openai",
    "openai_legacy.json": "openai",
    "openai_responses.json": "openai",
    "openai_conversations.jsonl": "openai",
    "chatgpt.json": "chatgpt",
    "claude.json": "claude",
    "langchain.json": "langchain",
    "langchain_constructors.json": "langchain",
    "pydantic_ai.json": "pydantic-ai",
}
KEYS = [
    *("role", "content", "messages", "tool_calls", "function", "arguments", "name", "id", "type", "text"),
    *(
        "mapping",
        "current_node",
        "message",
        "author",
        "parts",
        "parent",
        "metadata",
        "content_type",
        "recipient",
    ),
    *("chat_messages", "uuid", "sender", "attachments", "extracted_content", "created_at", "input"),
    *("lc", "data", "kwargs", "kind", "part_kind", "tool_name", "tool_call_id", "timestamp", "scope", "title"),
]
WORDS = [
    *("user", "assistant", "tool", "human", "ai", "request", "response", "constructor", "text", "code"),
    *("tool_use", "tool_result", "function_call", "tool-call", "tool-return", "user-prompt", "retry-prompt"),
    *("thoughts", "image", "a", "\x00", "\ud800", "", "2026-01-01T00:00:00Z", "{}"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.parametrize(("name", "format"), EXPECTED.items())
def test_every_fixture_is_recognised_whatever_its_name(tmp_path: Path, name: str, format: str) -> None:
    path = tmp_path / "export.txt"
    path.write_bytes((FIXTURES / name).read_bytes())
    reading = read_path(path)
    assert reading.format == format
    assert reading.messages
    assert reading.refused == []
    one_line = [json.loads(line) for line in path.read_text().splitlines()] if name.endswith("l") else None
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(one_line or json.loads(path.read_text())).encode())
    assert read_path(path) == reading


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (['{"scope": "s", "text": "a"}'], 0),
        (["", '{"kind": "thread", "scope": "s", "title": "t"}'], 0),
        (["{broken", "not json at all", '{"scope": "s", "text": "a"}'], 2),
        (["[1]", '{"scope": "s", "text": "a"}'], 1),
        (["[broken", '{"scope": "s", "text": "a"}'], 1),
        (["{", '"scope": "s",', '"text": "a"', "}"], 0),
        (['{"scope": "s"}'], 1),
        ([], 0),
    ],
)
def test_our_own_lines_stay_lines(tmp_path: Path, lines: list[str], refused: int) -> None:
    path = tmp_path / "own.json"
    path.write_text("\n".join(lines))
    reading = read_path(path, resource=None)
    assert (reading.format, len(reading.refused)) == ("jsonl", refused)


@pytest.mark.parametrize(
    "content", [b"my notes", b"{}", b'{"a": 1}', b'[{"a": 1}]', b"5", b"\xff\xfe", b"[" * 100_000, b"{broken"]
)
def test_what_fits_nothing_is_named_with_what_is_understood(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_path(path)
    assert "odd.json" in str(caught.value)
    assert "--format" in str(caught.value)
    assert all(name in str(caught.value) for name in CHOICES if name != "auto")


@pytest.mark.parametrize("format", [name for name in CHOICES if name not in ("auto", "openai")])
def test_a_wrong_format_is_named_with_the_right_one(format: str) -> None:
    with pytest.raises(UsageError, match=r"it looks like OpenAI-style messages .*--format openai"):
        read_path(FIXTURES / "openai.json", format)


def test_an_unknown_format_and_a_missing_resource() -> None:
    with pytest.raises(UsageError, match="'xml' is unknown; choose one of auto, jsonl"):
        read_path(FIXTURES / "openai.json", "xml")
    with pytest.raises(UsageError, match="does not say whose conversations they are; add --resource ID"):
        read_path(FIXTURES / "openai.json", resource=None)


def test_an_empty_export_is_no_error(read) -> None:
    assert read(b"[]") == read(b" [ ] ") == read(b"[]", "openai") == []


@pytest.mark.parametrize("cut", [50, 200, 700])
def test_a_file_cut_off_gives_what_came_before(read, cut: int) -> None:
    whole = json.dumps([{"role": "user", "content": f"message {i}"} for i in range(20)]).encode()
    reading = read(whole[:cut])
    assert len(reading.messages) == whole[:cut].count(b"}")
    (refused,) = reading.refused
    assert refused.number == len(reading.messages) + 1
    assert "nothing after it was read" in refused.reason


def test_entries_are_read_whole_across_the_borders_of_what_is_read(
    read, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        {"role": "user", "content": "\\\u00e9\U0001f956" * i, "n": 1234567, "t": True} for i in range(1, 40)
    ]
    whole = read(messages)
    for size in (1, 2, 3, 7, 100):
        monkeypatch.setattr(values, "CHUNK_BYTES", size)
        assert read(json.dumps(messages, ensure_ascii=False, indent=1).encode()) == whole


def test_an_entry_beyond_the_limit_ends_the_reading(read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "CHUNK_BYTES", 100)
    monkeypatch.setattr(values, "MAX_VALUE_CHARACTERS", 1_000)
    good = {"role": "user", "content": "x"}
    reading = read([good, {"role": "user", "content": "x" * 10_000}, good])
    assert len(reading.messages) == 1
    assert "larger than" in reading.refused[0].reason


def test_deep_nesting_is_refused(read) -> None:
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    call = b'{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": ' + deep + b"}]}"
    content = b'{"role": "user", "content": [' * 400 + b"1" + b"]}" * 400
    reading = read(b'[{"role": "user", "content": "x"},' + call + b"," + content + b"," + b"[" * 99_999)
    assert [line.number for line in reading.refused] == [4]
    assert reading.left_out == {"parts of type 'None'": 1}


@settings(max_examples=300)
@given(JSON | st.lists(JSON, max_size=3), st.sampled_from(CHOICES), st.booleans())
def test_no_json_whatsoever_ends_in_a_traceback(value: object, format: str, as_lines: bool) -> None:
    values_given = value if as_lines and isinstance(value, list) else [value]
    text = "\n".join(json.dumps(item) for item in values_given)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "any.json"
        path.write_text(text)
        try:
            lines = read_path(path, format)
        except CasenotesError:
            return
    assert all(isinstance(line, (MessageLine, ThreadLine, RefusedLine, LeftOutLine)) for line in lines)


@settings(max_examples=300)
@given(st.sampled_from(sorted(EXPECTED)), st.data())
def test_a_damaged_fixture_never_ends_in_a_traceback(name: str, data: st.DataObject) -> None:
    """One value anywhere in a real file is replaced by any other."""
    raw = (FIXTURES / name).read_text()
    document = [json.loads(line) for line in raw.splitlines()] if name.endswith("l") else json.loads(raw)
    holder, key = data.draw(st.sampled_from(list(places(document))))
    holder[key] = data.draw(JSON)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "damaged.json"
        path.write_text(json.dumps(document))
        lines = read_path(path, EXPECTED[name]) if is_still(path, name) else []
    assert all(isinstance(line, (MessageLine, ThreadLine, RefusedLine, LeftOutLine)) for line in lines)


def places(value: object) -> list[tuple[object, object]]:
    items = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [(value, key) for key, _ in items] + [place for _, item in items for place in places(item)]


def is_still(path: Path, name: str) -> bool:
    try:
        read_path(path, EXPECTED[name])
    except UsageError:
        return False
    return True


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_zip_is_read_where_it_lies(tmp_path: Path) -> None:
    export = (FIXTURES / "chatgpt.json").read_bytes()
    path = packed(
        tmp_path / "export", {"chat.html": b"<p>", "x/conversations.json": export, "user.json": b"{}"}
    )
    assert read_path(path) == read_path(FIXTURES / "chatgpt.json")


def test_an_export_in_several_files_is_counted_through(tmp_path: Path) -> None:
    first, second = json.loads((FIXTURES / "chatgpt.json").read_text())
    shards = {
        "conversations-000.json": json.dumps([first]).encode(),
        "conversations-001.json": json.dumps([second, 5]).encode(),
    }
    reading = read_path(packed(tmp_path / "export.zip", shards))
    assert reading.threads == ["conv-boom", "conv-tide"]
    assert [line.number for line in reading.refused] == [3]


def test_zips_that_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"has no conversations\.json"):
        read_path(packed(tmp_path / "other.zip", {"notes.txt": b"x"}))
    with pytest.raises(UsageError, match="unpacks to more than 200 times its size"):
        read_path(packed(tmp_path / "bomb.zip", {"conversations.json": b" " * 20_000_000}))
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04" + b"x" * 100)
    with pytest.raises(UsageError, match="damaged zip"):
        read_path(tmp_path / "damaged.zip")
    monkeypatch.setattr(source, "MAX_UNPACKED_BYTES", 10)
    with pytest.raises(UsageError, match="at most 10 are read"):
        read_path(packed(tmp_path / "large.zip", {"conversations.json": b"[" + b" " * 20 + b"]"}))


def test_a_zip_damaged_inside_or_encrypted(tmp_path: Path) -> None:
    whole = packed(
        tmp_path / "a.zip", {"conversations.json": (FIXTURES / "claude.json").read_bytes()}
    ).read_bytes()
    middle = len(whole) // 3
    (tmp_path / "b.zip").write_bytes(whole[:middle] + b"\xff" * 40 + whole[middle + 40 :])
    with pytest.raises(UsageError, match="damaged zip"):
        read_path(tmp_path / "b.zip")
    central = whole.index(b"PK\x01\x02")
    (tmp_path / "c.zip").write_bytes(whole[: central + 8] + b"\x01" + whole[central + 9 :])
    with pytest.raises(UsageError, match="encrypted"):
        read_path(tmp_path / "c.zip")

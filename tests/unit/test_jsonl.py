"""Real files are untidy: each line is understood whole or refused with a reason."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from casenotes.transfer import values
from casenotes.transfer.jsonl import read_lines
from casenotes.transfer.lines import Line, MessageLine, ReadOptions, RefusedLine
from casenotes.transfer.source import open_documents

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
OPTIONS = ReadOptions("agent", None, "file", UTC, NOW)


def read(tmp_path: Path, *lines: object, options: ReadOptions = OPTIONS) -> list[Line]:
    path = tmp_path / "in.jsonl"
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(encoded) + b"\n")
    with open_documents(path) as documents:
        return [line for line, _position in read_lines(values.read_values(documents), options)]


def only(tmp_path: Path, **fields: object) -> MessageLine:
    (line,) = read(tmp_path, {"scope": "s", "text": "x", **fields})
    assert isinstance(line, MessageLine), line
    return line


@pytest.mark.parametrize(
    ("given", "zone", "expected"),
    [
        ("2026-03-01T12:00:00Z", "UTC", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00+02:00", "UTC", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T12:00:00", "UTC", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00", "Europe/Berlin", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("2026-03-01", "UTC", datetime(2026, 3, 1, tzinfo=UTC)),
        (1_772_366_400, "UTC", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        (None, "UTC", NOW),
        ("", "UTC", NOW),
    ],
)
def test_times(tmp_path: Path, given: object, zone: str, expected: datetime) -> None:
    options = ReadOptions("agent", None, "file", ZoneInfo(zone), NOW)
    (line,) = read(tmp_path, {"scope": "s", "text": "x", "time": given}, options=options)
    assert line.message.created_at == expected
    assert line.assumed_time == (not given)


@pytest.mark.parametrize(
    ("given", "role", "original"),
    [
        ("assistant", "assistant", None),
        ("case", "user", "case"),
        (None, "user", None),
        (5, "user", "5"),
    ],
)
def test_roles(tmp_path: Path, given: object, role: str, original: str | None) -> None:
    line = only(tmp_path, role=given, metadata={"a": 1})
    assert (line.message.role, line.replaced_role) == (role, original)
    assert line.message.metadata == {"a": 1} | ({"role": original} if original else {})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json", "not valid JSON"),
        (b"\xff\xfe", "not valid UTF-8 at byte 0"),
        (b"[1]", "expected a JSON object, got list"),
        (b'{"scope": "s", "text": "x", "n": ' + b"9" * 5_000 + b"}", "not usable"),
        ({"agent": "a", "text": "x"}, "no scope"),
        (b"[" * 100_000, "not valid JSON"),
        ({"scope": "s"}, "no text"),
        ({"scope": "s", "text": 5}, "no text"),
        ({"text": "x"}, "no scope"),
        ({"scope": "", "text": "x"}, "resource_id is empty"),
        ({"scope": 5, "text": "x"}, "resource_id must be a string"),
        ({"scope": "s", "text": "x", "time": "yesterday"}, "time 'yesterday'"),
        ({"scope": "s", "text": "x", "time": 1e99}, "not understood"),
        ({"scope": "s", "text": "x", "id": ["a"]}, "'id' must be"),
        (
            {"scope": "s", "text": "x", "parts": [{"type": "tool_call"}]},
            "'parts' is not understood",
        ),
        ({"scope": "s", "text": "x", "metadata": []}, "'metadata' must be an object"),
        ({"kind": "thread", "scope": "s", "title": 5}, "'title' must be a string"),
    ],
)
def test_refusals_name_line_and_reason(tmp_path: Path, line: object, reason: str) -> None:
    good, bad, also_good = read(tmp_path, {"scope": "s", "text": "x"}, line, {"scope": "s", "text": "y"})
    assert isinstance(bad, RefusedLine)
    assert bad.number == 2
    assert reason in bad.reason
    assert isinstance(good, MessageLine)
    assert isinstance(also_good, MessageLine)


def test_missing_ids_are_derived_and_stable(tmp_path: Path) -> None:
    lines = [
        {"scope": "s", "text": "same"},
        {"scope": "s", "text": "same"},
        {"scope": "t", "text": "same"},
    ]
    first = [line.message.id for line in read(tmp_path, *lines)]
    again = [line.message.id for line in read(tmp_path, *lines)]
    assert first == again
    assert len(set(first[:2])) == 2
    assert only(tmp_path, id=17).message.id == "17"


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    lines = read(
        tmp_path,
        b"\xef\xbb\xbf" + b'{"scope": "s", "text": "x"}',
        b"",
        b"  ",
        {"scope": "s", "text": "y"},
    )
    assert [(line.number, line.message.text) for line in lines] == [(1, "x"), (4, "y")]


def test_a_line_beyond_the_limit_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_LINE_BYTES", 100)
    huge, fine = read(tmp_path, {"scope": "s", "text": "x" * 1_000}, {"scope": "s", "text": "y"})
    assert isinstance(huge, RefusedLine)
    assert fine.message.text == "y"

"""What hosts hand over becomes messages that can be stored, or a clear error."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from casenotes import Message, ToolCall, ToolResult
from casenotes.errors import InvalidMessage
from casenotes.intake import as_messages, check_message, check_thread, new_id, with_identity

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_text_a_message_and_several_are_all_input() -> None:
    one = Message("tool", "x")
    assert as_messages("hi", "user") == (Message("user", "hi"),)
    assert as_messages(one, "user") == (one,)
    assert as_messages([one, one], "user") == (one, one)
    assert as_messages((), "assistant") == ()
    with pytest.raises(InvalidMessage, match=r"role.*a list of Messages"):
        as_messages([{"role": "user"}], "user")


def test_identity_follows_from_prefix_position_and_content() -> None:
    berlin = datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    given = [Message("user", "a"), Message("user", "b", id="mine", created_at=berlin)]
    first, second = with_identity(given, "turn", 3, NOW)
    assert (first.id, first.created_at) == (with_identity(given, "turn", 3, NOW)[0].id, NOW)
    for other in (
        with_identity([Message("user", "other")], "turn", 3, NOW),
        with_identity([Message("assistant", "a")], "turn", 3, NOW),
        with_identity(given, "turn", 4, NOW),
        with_identity(given, "tusk", 3, NOW),
    ):
        assert first.id != other[0].id
    assert (second.id, second.created_at, second.created_at.tzinfo) == ("mine", NOW, UTC)


def test_new_ids_grow_with_time_and_never_repeat() -> None:
    ids = [new_id(NOW + timedelta(milliseconds=n)) for n in range(100)]
    assert ids == sorted(ids)
    assert len({new_id(NOW) for _ in range(100)}) == 100
    assert ids[0] > f"{int(NOW.timestamp() * 1000):012x}{'f' * 20}", "behind those of stores from before"


def test_r16_02_ids_are_short_and_those_of_a_turn_stand_together() -> None:
    """A store repeats them in rows and indexes: of short messages they were a good part."""
    turn_id = new_id(NOW)
    messages = with_identity([Message("user", "a")] * 40, turn_id, 0, NOW)
    ids = [message.id or "" for message in messages]
    assert {len(turn_id), *map(len, ids)} == {24}
    assert ids == sorted(set(ids)), "in order of their positions"
    assert {message_id[:8] for message_id in ids} == {turn_id[:8]}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Message("user", "a\x00b"), "NUL character at position 1"),
        (Message("user", "ab\udfff"), "surrogate at position 2"),
        (Message("user", "x" * 101), "101 characters; the limit is 100"),
        (Message("user", "x", created_at=datetime(2026, 1, 1)), "no time zone"),  # noqa: DTZ001
        (Message("user", "x", id=""), "message id is empty"),
        (Message("user", "x", metadata={"a": {"b": "\x00"}}), "metadata contains a NUL"),
        (Message("user", "x", metadata={"a": object()}), "JSON"),
        (Message("user", "x", metadata={"a": float("nan")}), "JSON"),
        (Message("user", "x", parts=[ToolCall("", "n")]), "tool call is empty"),
        (
            Message("user", "x", parts=[ToolCall("i", "n", {"a": "y" * 200})]),
            "characters; the limit",
        ),
        (
            Message("user", "x", parts=[ToolResult("i", "\ud800")]),
            "tool result contains a lone surrogate",
        ),
        (Message("user", "x", parts=["text"]), "got str"),
        (Message("user", "x", parts=[ToolResult("i", None)]), "must be text, got NoneType"),
        (Message("user", "x", parts=[ToolCall("i", "n", '{"a": 1}')]), "must be a mapping, got str"),
        (Message("user", "x", metadata={"a": "y" * 200}), "characters; the limit is 100"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(message: Message, named: str) -> None:
    with pytest.raises(InvalidMessage, match=named):
        check_message(message, 100)


@pytest.mark.parametrize(
    ("title", "metadata", "named"),
    [
        (5, None, "must be text, got int"),
        ("a\x00", None, "title of a thread contains a NUL"),
        ("x" * 10_001, None, "10003 characters; the limit is 10000"),
        (None, {"a": object()}, "metadata of a thread cannot be written as JSON"),
    ],
)
def test_titles_and_metadata_of_threads_are_checked(title: object, metadata: object, named: str) -> None:
    with pytest.raises(InvalidMessage, match=named):
        check_thread(title, metadata)
    check_thread("Webhook 401", {"ticket": 7})


@pytest.mark.parametrize("depth", [101, 900, 990, 100_000])
def test_what_is_nested_too_deeply_to_be_read_back_is_refused(depth: int) -> None:
    nested: dict[str, object] = {}
    for _ in range(depth):
        nested = {"a": nested}
    with pytest.raises(InvalidMessage, match=r"nested deeper than 100 levels|cannot be written as JSON"):
        check_message(Message("user", "x", metadata=nested), 1_000_000)
    check_message(Message("user", "x", metadata={"a": [[["fine"]]]}), 100)


def test_backslash_u0000_as_plain_text_is_fine() -> None:
    check_message(Message("user", r"\u0000", metadata={"pattern": r"\u0000"}), 100)

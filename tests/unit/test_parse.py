"""Objects are found in what models really write, and nothing is ever added to them."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.errors import ModelError, UnreadableOutput
from casenotes.learn.extract import read_entries
from casenotes.models.parse import MAX_CHARACTERS, MAX_DEPTH, parse_object

A, B = {"text": "a"}, {"text": "b", "tags": ["x", "y"]}
BOTH = '{"entries": [{"text": "a"}, {"text": "b", "tags": ["x", "y"]}]}'
SHAPES = {
    "an object": (BOTH, [A, B]),
    "spaces around": (f"\n\t {BOTH} \n", [A, B]),
    "byte order mark": ("\ufeff" + BOTH, [A, B]),
    "no-break space before": ("\u00a0" + BOTH, [A, B]),
    "a fence": (f"```\n{BOTH}\n```", [A, B]),
    "a fence with its language": (f"```json\n{BOTH}\n```", [A, B]),
    "a fence that never ends": (f"```json\n{BOTH}", [A, B]),
    "prose before and after": (f"Sure, here you are: {BOTH} I hope that helps!", [A, B]),
    "brackets in the prose": (f"As in [1] and {{x}}, see [2]: {BOTH} (see {{y}})", [A, B]),
    "thoughts before": (f'<think>maybe {{"entries": []}}?</think>{BOTH}', [A, B]),
    "doubled braces": ("{" + BOTH + "}", [A, B]),
    "a schema before": ('{"type": "object", "properties": {"e": {}}}\n' + BOTH, [A, B]),
    "another object after": (BOTH + '{"done": true}', [A, B]),
    "a draft before": ('{"entries": [{"text": "draft"}]} Better: ' + BOTH, [A, B]),
    "a cut-off second answer": (BOTH + '{"entries": [{"text": "again"}, {"te', [A, B]),
    "wrapped in another object": (f'{{"output": {BOTH}}}', [A, B]),
    "wrapped and cut off": (f'{{"output": {BOTH[:-2]}', [A, B]),
    "a string of JSON": (json.dumps(BOTH), [A, B]),
    "a quoted word before": (f'"entries": {BOTH}', [A, B]),
    "a bare list": (json.dumps([A, B]), [A, B]),
    "a bare list in a fence": (f"```json\n{json.dumps([A, B])}\n```", [A, B]),
    "an empty list": ('{"entries": []}', []),
    "an empty bare list": ("[]", []),
    "a comma after the last element": ('{"entries": [{"text": "a",},],}', [A]),
    "line ends in a string": ('{"entries": [{"text": "a\nb"}]}', [{"text": "a\nb"}]),
    "an unknown escape": (r'{"entries": [{"text": "\d+ isn\'t \(x\)"}]}', [{"text": r"\d+ isn't \(x\)"}]),
    "half an escape": (r'{"entries": [{"text": "\u12 \d"}]}', [{"text": r"\u12 \d"}]),
    "numbers that are none": ('{"entries": [NaN, Infinity, -Infinity, 1e999]}', [None] * 4),
    "numbers that are none, with a comma": ('{"entries": [NaN, Infinity, -Infinity, 1e999,]}', [None] * 4),
    "too many digits": ('{"entries": [' + "9" * 5_000 + "]}", [None]),
    "words of Python": ('{"entries": [True, False, None]}', [True, False, None]),
    "numbers": ('{"entries": [0, -1, 2.5, 1e3, 1E-2,]}', [0, -1, 2.5, 1000.0, 0.01]),
    "a key twice": ('{"entries": [1], "entries": [2]}', [2]),
    "a key twice, the second cut off": ('{"entries": [1], "entries": [2, ', [1]),
    "half a character": ('{"entries": ["\\ud83d!"]}', ["\ufffd!"]),
    "half a character as it is": ('{"entries": ["\ud83d!"]}', ["\ufffd!"]),
    "both halves": ('{"entries": ["\\ud83e\\udd8a",]}', ["🦊"]),
    "cut off in a key": ('{"entries": [{"text": "a"}, {"te', [A]),
    "cut off in a string": ('{"entries": [{"text": "a"}, {"text": "b', [A]),
    "cut off after a member": ('{"entries": [{"text": "a"}, {"text": "b"', [A]),
    "cut off after a comma": ('{"entries": [{"text": "a"},', [A]),
    "cut off in an inner list": ('{"entries": [{"text": "a"}, {"tags": ["x", "y"', [A]),
    "cut off in an escape": ('{"entries": [{"text": "a"}, "b\\', [A]),
    "cut off in a number": ('{"entries": [1, 23', [1]),
    "cut off in a word": ('{"entries": [true, fal', [True]),
    "cut off behind the list": ('{"entries": [1, 23], "more": {"x', [1, 23]),
    "cut off before the end": (BOTH[:-1], [A, B]),
    "cut off in a fence": (f"```json\n{BOTH[:-2]}\n```", [A, B]),
    "a bare list, cut off": ('[{"text": "a"}, {"text": "b', [A]),
    "a quote that was not escaped": ('{"entries": [{"text": "a"}, {"text": "the "b" pier"}, {"x": 1}]}', [A]),
    "a missing comma": ('{"entries": [{"text": "a"} {"text": "b"}]}', [A]),
    "the wrong bracket": ('{"entries": [{"text": "a"}}', [A]),
    "a loop of brackets at the end": ('{"entries": [{"text": "a"}, ' + "[" * 5_000, [A]),
    "a loop of words at the end": ('{"entries": [{"text": "a"}, {"text": "' + "and " * 5_000, [A]),
}
UNREADABLE = {
    "nothing": "",
    "blank": " \n\ufeff",
    "prose": "Sorry, I cannot help with that.",
    "null": "null",
    "a number": "42",
    "a word in quotes": '"none"',
    "an opening": "{",
    "a key": '{"entries"',
    "a list that had begun": '{"entries": [',
    "nothing whole in the list": '{"entries": [{"text": "a", "more": 1',
    "cut off before the key": '{"thoughts": "none", "ent',
    "a list within something broken": '{"entries": oops, "tags": ["x", "y"]}',
    "only deep": "[" * 10_000,
    "deep and whole": "[" * 150 + "]" * 150,
    "deep objects": '{"a":' * 10_000,
    "an object within something broken": '{"entries": oops, "more": {"text": "a"}}',
    "single quotes": "{'entries': []}",
    "keys without quotes": "{entries: []}",
}


@pytest.mark.parametrize(("output", "entries"), SHAPES.values(), ids=SHAPES.keys())
def test_entries_are_found(output: str, entries: list[object]) -> None:
    assert parse_object(output, "entries")["entries"] == entries


@pytest.mark.parametrize("output", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_an_error_that_may_pass(output: str) -> None:
    with pytest.raises(UnreadableOutput, match="the model's answer") as raised:
        parse_object(output, "entries")
    assert raised.value.may_pass
    assert isinstance(raised.value, ModelError)


def test_objects_that_are_read_already_stay() -> None:
    given = {"entries": [{"text": "a", "n": 1, "x": 0.5, "yes": True, "none": None}]}
    assert parse_object(given, "entries") == given
    assert parse_object({"x": math.nan, "y": ("\ud83d",), 1: {}}) == {"x": None, "y": ["\ufffd"], "1": {}}


def test_without_a_wanted_key_the_first_object_that_holds_anything_counts() -> None:
    assert parse_object('{} {"a": 1} {"b": 2}') == {"a": 1}
    assert parse_object("{}") == {}
    assert parse_object('for {name}: {"a": 1}') == {"a": 1}
    assert parse_object('{"a": "x", "b": {"c": 1, "d": "y') == {"a": "x", "b": {"c": 1}}
    with pytest.raises(UnreadableOutput, match="a list where an object"):
        parse_object('[{"a": 1}]')


def test_a_whole_object_without_the_wanted_key_is_the_callers_to_judge() -> None:
    assert parse_object('{"note": "nothing to tell"}', "entries") == {"note": "nothing to tell"}


def test_an_object_in_an_object_is_found_in_text_and_in_arguments() -> None:
    wrapped = {"result": {"entries": [A]}}
    assert parse_object(json.dumps(wrapped), "entries") == {"entries": [A]}
    assert parse_object(wrapped, "entries") == {"entries": [A]}


@pytest.mark.parametrize("answer", [{"error": "overloaded"}, {"memories": [A]}, A])
def test_an_answer_without_entries_does_not_say_that_there_are_none(answer: dict[str, object]) -> None:
    for output in (answer, json.dumps(answer)):
        with pytest.raises(UnreadableOutput, match="has no entries, only"):
            read_entries(output)
    assert read_entries({}) == read_entries('{"entries": []}') == ([], [])


def test_depth_is_bounded_in_every_way_in() -> None:
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    for output in (deep, json.dumps(deep), "so: " + json.dumps(deep)):
        with pytest.raises(UnreadableOutput, match="nested deeper than 100 levels"):
            parse_object(output)
    assert parse_object(json.dumps(deep["a"]))
    assert parse_object("so: " + json.dumps(deep["a"]))


@pytest.mark.parametrize(
    "piece", ["[", "{", '{"a":', '{"a', '"', "\\", "1,", "[1,", "x", '{"a":[1],', "-", " "]
)
def test_any_amount_of_anything_ends(piece: str) -> None:
    """An algorithm that is not linear would take hours."""
    for size in (MAX_CHARACTERS // 4, 10_000_000):
        with pytest.raises(UnreadableOutput):
            parse_object("{" + piece * (size // len(piece)), "entries")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)


@given(OBJECTS, st.booleans())
def test_any_object_survives(value: dict[str, object], ascii_only: bool) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(OBJECTS, st.text(alphabet="abc .:,`\n"), st.text(alphabet="abc .:,`\n"))
def test_any_object_survives_prose_around_it(value: dict[str, object], before: str, after: str) -> None:
    assert parse_object(f"{before}\n{json.dumps({'entries': value})}{after}", "entries") == {"entries": value}


@given(st.lists(JSON, max_size=4), st.data())
def test_any_beginning_gives_a_beginning_of_the_entries(entries: list[object], data: st.DataObject) -> None:
    whole = json.dumps({"entries": entries}, ensure_ascii=data.draw(st.booleans()))
    part = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        found = parse_object(part, "entries")
    except UnreadableOutput:
        assert part != whole
        return
    assert list(found) == ["entries"]
    assert found["entries"] == entries[: len(found["entries"])]
    assert found["entries"] or part == whole or part + "}" == whole


@given(st.text(), st.text(max_size=3))
def test_any_text_is_read_or_refused(text: str, wanted: str) -> None:
    for output in (text, "{" + text, '{"entries": [' + text):
        with suppress(UnreadableOutput):
            assert isinstance(parse_object(output, wanted), dict)

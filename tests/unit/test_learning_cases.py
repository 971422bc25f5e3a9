"""The set of transcripts that ships with the package, and reading sets of one's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from casenotes.errors import UsageError
from casenotes.evals.learning_cases import DOMAINS, LearningCase, read_cases, shipped_cases
from casenotes.evals.statements import says_any

CASES = shipped_cases()
CATEGORIES = {
    "accepted",
    "context",
    "correction",
    "disagreement",
    "excluded",
    "guess",
    "injection",
    "next",
    "nothing",
    "open",
    "preference",
    "rule",
    "tried",
    "uncertainty",
    "verified",
}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def test_the_set_is_large_and_varied() -> None:
    assert len(CASES) >= 44
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.domain for case in CASES} == set(DOMAINS)
    tags = Counter(tag for case in CASES for tag in case.tags)
    assert min(tags[name] for name in CATEGORIES) >= 2
    languages = Counter(case.language for case in CASES)
    assert {"en", "de", "es", "fr", "ja", "zh", "ar", "he"} <= set(languages)
    assert languages["en"] <= len(CASES) / 2
    assert sum(case.bad is not None for case in CASES) >= 10


@each_case
def test_a_case_is_as_its_tags_say(case: LearningCase) -> None:
    reasons = {forbidden.why for forbidden in case.forbidden}
    assert 2 <= len(case.before) + len(case.turn) <= 8
    assert ("context" in case.tags) == bool(case.before)
    assert ("nothing" in case.tags) == (not case.expected)
    assert ("uncertainty" in case.tags) == any(fact.uncertain for fact in case.expected)
    assert ("correction" in case.tags) == ("corrected" in reasons)
    for tag in {"guess", "injection", "rule"} & set(case.tags):
        assert tag in reasons
    if "preference" in case.tags:
        assert reasons & {"preference", "personal"}


@each_case
def test_what_is_expected_can_be_known_from_the_transcript(case: LearningCase) -> None:
    said = "\n".join(message.text for message in (*case.before, *case.turn))
    missing = [
        (fact.id, group) for fact in case.expected for group in fact.says.all if not says_any(said, group)
    ]
    assert missing == []


@each_case
def test_what_is_forbidden_is_not_asked_for(case: LearningCase) -> None:
    """No statement could be made true only by leaving out what another one wants."""
    for forbidden in case.forbidden:
        for fact in case.expected:
            together = " ".join(group[0].rstrip("*") for group in fact.says.all)
            assert not forbidden.says.is_in(together), fact.id


SMALL: dict[str, Any] = {
    "id": "one",
    "turn": [{"role": "user", "text": "The fan of rack 7 is loud."}],
    "expected": [{"id": "fan", "all": [["fan"], ["rack 7"]], "source": ["user_assertion"]}],
    "forbidden": [{"all": [["disk"]], "why": "guess"}],
}


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.json"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_set_of_ones_own_is_a_list_or_has_one_case_on_each_line(tmp_path: Path) -> None:
    two = [SMALL, {**SMALL, "id": "two", "tags": ["fans"], "language": "de"}]
    as_list = read_cases(written(tmp_path, json.dumps(two, indent=2)))
    as_lines = read_cases(written(tmp_path, "\n\n".join(map(json.dumps, two)) + "\n"))
    assert as_list == as_lines
    assert [case.id for case in as_list] == ["one", "two"]
    assert as_list[1].labels == {"fans", "own", "de"}
    assert as_list[0].expected[0].says.is_in("Rack 7 has a loud fan.")


def changed(**values: Any) -> str:
    return json.dumps({**SMALL, **values})


def fact(**values: Any) -> str:
    return changed(expected=[{**SMALL["expected"][0], **values}])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "mine.json has no cases"),
        ("[]", "mine.json has no cases"),
        ("[\n{}\n,]", "line 3 column 2 is no JSON"),
        (f"{json.dumps(SMALL)}\n{{", "line 2 column 2 is no JSON"),
        ("[7]", "case 1 is no case: expected an object, got 7"),
        ("7", "line 1 is no case: expected an object"),
        (json.dumps([SMALL, {"id": "x"}]), "case 2 is no case: the field 'turn' is missing"),
        (f"{json.dumps(SMALL)}\n{json.dumps(SMALL)}", "the case id 'one' stands there more than once"),
        (changed(forbiden=[]), "the field 'forbiden' is unknown"),
        (changed(id=" "), "its id is empty"),
        (changed(id=7), "its id must be a string"),
        (changed(turn=[]), "must begin with a message of the user"),
        (changed(turn=[{"role": "assistant", "text": "Hi"}]), "must begin with a message of the user"),
        (changed(turn=[{"role": "tool", "text": "Hi"}]), "role 'tool' is not one of user, assistant"),
        (changed(turn=[{"role": "user", "text": 7}]), "text must be a string"),
        (changed(turn="Hi"), "turn must be a list"),
        (changed(tags="fans"), "tags must be a list"),
        (changed(domain=7), "domain must be a text"),
        (changed(forbidden=[{"all": [["x"]], "why": "bored"}]), "why 'bored' is not one of guess"),
        (changed(expected=SMALL["expected"] * 2), "facts have the same id"),
        (changed(good=[7]), "expected an object, got 7"),
        (changed(good=[{"content": "x"}]), "the field 'source' is missing"),
        (changed(bad=[]), "expected an object, got []"),
        (fact(source=["rumour"]), "source must be a list of these: user_assertion"),
        (fact(source=[]), "source must be a list of these"),
        (fact(all=[]), "at least one group"),
        (fact(all=[["fan"], []]), "at least one alternative"),
        (fact(all=["fan"]), "a group of all must be a list"),
        (fact(all=[["*"]]), "must have texts only"),
        (fact(none=[7]), "none must have texts only"),
        (fact(uncertain="yes"), "uncertain must be true or false"),
        (changed(language="xx", expected=[{**SMALL["expected"][0], "uncertain": True}]), "language 'xx'"),
    ],
)
def test_what_is_wrong_with_a_set_is_named(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.json") as caught:
        read_cases(written(tmp_path, text))
    assert error in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere"):
        read_cases(tmp_path / "nowhere.json")
    (tmp_path / "latin.json").write_bytes('["é"]'.encode("latin-1"))
    with pytest.raises(UsageError, match=r"latin\.json' is not UTF-8"):
        read_cases(tmp_path / "latin.json")

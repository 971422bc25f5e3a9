"""The scorer of learning, with answers whose scores were worked out beforehand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from casenotes.evals.learning_cases import Fact, Forbidden, LearningCase, hedges
from casenotes.evals.learning_scores import CaseScore, Share, Stored, is_hedged, score_case, summaries, summary
from casenotes.evals.statements import Statement
from casenotes.types import CandidateReceipt, Message

USER, ACCEPTED, FOUND = (
    "user_assertion",
    "user_accepted_assistant_proposal",
    "verified_assistant_finding",
)
CAUSE = Fact("cause", Statement((("chronyd",), ("stopped", "not running"), ("pay-2",))), (USER,))
SWITCH = Fact("switch", Statement((("switch",), ("hall 3",))), (USER, FOUND), uncertain=True)
FAN = Fact("fan", Statement((("fan",),)), (USER,), optional=True)
CASE = LearningCase(
    "clock",
    "operations",
    "en",
    ("cause", "uncertainty"),
    (Message("user", "not looked at"),),
    expected=(CAUSE, SWITCH, FAN),
    forbidden=(
        Forbidden(Statement((("firewall",),)), "guess"),
        Forbidden(Statement((("prefers", "likes"),)), "preference"),
    ),
)
NOTHING = LearningCase("tea", "assistant", "en", ("nothing",), (Message("user", "Thanks!"),))
GOOD = [
    Stored("The 401s came because chronyd was stopped on pay-2.", USER),
    Stored("The switch in hall 3 is suspected.", FOUND),
]


def faults(score: CaseScore) -> dict[str, int]:
    """All counts that are faults and not zero."""
    names = ("forbidden", "unsupported", "superfluous", "wrong_label", "lost_uncertainty", "refused")
    return {name: count for name, count in asdict(score.counts).items() if name in names and count}


def test_a_perfect_answer_has_full_coverage_and_no_fault() -> None:
    score = score_case(CASE, GOOD)
    assert (score.counts.covered, score.counts.expected) == (2, 2)
    assert faults(score) == {}
    assert score.is_flawless
    assert [entry.verdict for entry in score.entries] == ["covered", "covered"]
    assert [entry.facts for entry in score.entries] == [("cause",), ("switch",)]


def test_one_entry_may_cover_several_facts() -> None:
    both = "chronyd was not running on pay-2; perhaps the switch in hall 3 plays a part."
    assert score_case(CASE, [Stored(both, USER)]).is_flawless


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Stored("The firewall drops packets.", FOUND), {"forbidden": 1, "unsupported": 1}),
        (Stored("The user likes tea.", USER), {"forbidden": 1}),
        (Stored("Rack 7 is blue.", USER), {"superfluous": 1}),
        (Stored("On pay-2, chronyd was stopped.", USER), {"superfluous": 1}),  # told twice
        (Stored("chronyd was stopped on pay-23.", USER), {"superfluous": 1}),
        (Stored("The fan is loud.", USER), {}),
        (Stored("The fan is loud.", FOUND), {"wrong_label": 1}),
    ],
)
def test_a_further_entry_is_judged_by_itself(entry: Stored, expected: dict[str, int]) -> None:
    score = score_case(CASE, [*GOOD, entry])
    assert faults(score) == expected
    assert score.counts.covered == 2
    assert score.is_flawless == (not expected)


@pytest.mark.parametrize(
    ("position", "entry", "expected"),
    [
        (0, Stored(GOOD[0].content, ACCEPTED), {"wrong_label": 1}),
        (1, Stored(GOOD[1].content, ACCEPTED), {"wrong_label": 1}),
        (1, Stored("The switch in hall 3 is broken.", USER), {"lost_uncertainty": 1}),
        (1, Stored("The switch in hall 3 broke.", ACCEPTED), {"wrong_label": 1, "lost_uncertainty": 1}),
        (0, Stored(f"{GOOD[0].content} The firewall did it.", USER), {"forbidden": 1, "unsupported": 1}),
    ],
)
def test_a_fact_told_wrongly_is_covered_and_at_fault(
    position: int, entry: Stored, expected: dict[str, int]
) -> None:
    entries = [entry if number == position else good for number, good in enumerate(GOOD)]
    score = score_case(CASE, entries)
    assert score.counts.covered == 2
    assert faults(score) == expected
    assert not score.is_flawless


def test_a_fact_is_credited_to_the_entry_that_tells_it_best() -> None:
    worse = [Stored("The switch in hall 3 broke.", ACCEPTED), Stored("The switch in hall 3 broke.", USER)]
    score = score_case(CASE, [*worse, *GOOD])
    assert {item.fact.id: item.entry for item in score.facts} == {"cause": 2, "switch": 3, "fan": None}
    assert faults(score) == {"superfluous": 2}


def test_an_empty_answer_covers_nothing_and_harms_nothing() -> None:
    score = score_case(CASE, [])
    assert (score.counts.covered, score.counts.expected, faults(score)) == (0, 2, {})
    assert not score.is_flawless


def test_everything_wrong() -> None:
    wrong = [
        Stored("The firewall blocked pay-2.", FOUND),
        Stored("The user prefers mail.", USER),
        Stored("Clocks matter.", FOUND),
    ]
    refused = [CandidateReceipt("rejected", "pay-9", reason="unsupported"), CandidateReceipt("stored", "x")]
    numbers = summary([score_case(CASE, wrong, refused)])
    assert numbers["coverage"] == Share(0, 2)
    assert numbers["junk"] == Share(3, 3)
    assert numbers["forbidden"] == Share(2, 3)
    assert numbers["superfluous"] == Share(1, 3)
    assert numbers["unsupported"] == Share(1, 3)
    assert numbers["wrong_label"] == Share(0, 0)
    assert numbers["lost_uncertainty"] == Share(0, 0)
    assert numbers["refused"] == Share(1, 4)
    assert numbers["flawless"].ratio == 0


def test_where_nothing_is_expected_only_junk_counts() -> None:
    quiet, loud = score_case(NOTHING, []), score_case(NOTHING, [Stored("The user said thanks.", USER)])
    assert quiet.is_flawless
    assert not loud.is_flawless
    numbers = summary([quiet, loud])
    assert numbers["coverage"].ratio is None
    assert numbers["junk"] == Share(1, 1)
    assert numbers["flawless"] == Share(1, 2)


def test_a_failed_case_is_not_covered_and_never_flawless() -> None:
    failed = score_case(NOTHING, [], failure="ModelError: no answer")
    numbers = summary([failed, score_case(CASE, [], failure="ModelError: no answer")])
    assert not failed.is_flawless
    assert (numbers["failed"], numbers["coverage"], numbers["flawless"]) == (2, Share(0, 2), Share(0, 2))


def test_numbers_add_up_overall_by_domain_by_tag_and_by_language() -> None:
    scores = [score_case(CASE, GOOD[:1]), score_case(CASE, GOOD), score_case(NOTHING, [])]
    result: dict[str, Any] = summaries(scores)
    assert result["overall"]["coverage"] == Share(3, 4)
    assert result["overall"]["coverage"].to_json() == {"count": 3, "of": 4, "ratio": 0.75}
    domains = {name: row["cases"] for name, row in result["by_domain"].items()}
    tags = {name: row["cases"] for name, row in result["by_tag"].items()}
    assert domains == {"assistant": 1, "operations": 2}
    assert tags == {"cause": 2, "nothing": 1, "uncertainty": 2}
    assert result["by_language"]["en"]["flawless"] == Share(2, 3)
    assert summaries([])["overall"]["coverage"].ratio is None


@pytest.mark.parametrize(
    ("language", "hedged", "certain"),
    [
        ("en", "The switch is the suspected cause.", "The switch is the cause."),
        ("en", "It may be the switch.", "It could not connect to the switch."),
        ("de", "Vermutlich ist es der Switch.", "Es ist der Switch."),
        ("es", "Se sospecha de la deduplicación.", "Es la deduplicación."),
        ("fr", "La file est soupçonnée.", "C'est la file."),
        ("it", "Forse è il tubo.", "È il tubo."),
        ("pt", "Talvez seja o disco.", "É o disco."),
        ("ru", "Возможно, это диск.", "Это диск."),
        ("ja", "更新が原因と疑われる。", "更新が原因である。"),
        ("ja", "更新のせいかもしれない。", "この機能は利用可能になった。"),
        ("zh", "可能是字体缺失。", "字体缺失。"),
        ("ar", "ربما البطارية تالفة.", "البطارية تالفة."),
        ("he", "כנראה הגיבוי.", "זה הגיבוי."),
        ("ko", "업데이트가 원인일 가능성이 있다.", "업데이트가 원인이다."),
        ("de", "The old switch is suspected.", "The old switch it is."),  # an entry in English
    ],
)
def test_uncertainty_is_heard_in_many_languages(language: str, hedged: str, certain: str) -> None:
    assert is_hedged(hedged, language)
    assert not is_hedged(certain, language)


def test_facts_are_found_in_many_languages() -> None:
    fact = Fact("battery", Statement((("W5",), ("電池", "バッテリー"))), (USER,), uncertain=True)
    case = LearningCase("watch", "assistant", "ja", (), (Message("user", "-"),), expected=(fact,))
    assert score_case(case, [Stored("W5の電池は更新のせいで切れると思われる。", USER)]).is_flawless
    assert faults(score_case(case, [Stored("W5の電池は更新のせいで切れる。", USER)])) == {"lost_uncertainty": 1}
    assert faults(score_case(case, [Stored("W55の電池は切れるらしい。", USER)])) == {"superfluous": 1}


def test_no_word_of_uncertainty_is_listed_twice() -> None:
    for language, words in hedges().items():
        assert len(set(words)) == len(words), language

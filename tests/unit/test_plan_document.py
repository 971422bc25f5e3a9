"""The plan as a document: what a call may ask for, what it changes, and the block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.config import PlanSettings
from casenotes.errors import SettingsError, UsageError
from casenotes.layers.plan_document import (
    MAX_STEPS,
    MAX_TEXT,
    PlanChange,
    PlanRefused,
    StepUpdate,
    changed,
    fitted_block,
    is_blank,
    plan_of,
    plan_values,
    read_change,
)
from casenotes.tokens import estimate_tokens
from casenotes.types import STEP_STATUSES, Plan, PlanStep

MIGRATE = Plan(
    "Migrate billing",
    "testing",
    2,
    (PlanStep("back up", "done"), PlanStep("copy rows", "in progress"), PlanStep("switch over")),
    5,
)


def refusal(**arguments: Any) -> str:
    with pytest.raises(PlanRefused) as caught:
        changed(MIGRATE, read_change(arguments))
    return str(caught.value)


# What a call asks for


def test_r08_01_all_parts_are_read() -> None:
    change = read_change(
        {
            "goal": " Migrate\nbilling ",
            "phase": "testing",
            "iteration": 2,
            "steps": [{"text": "back up", "status": "done"}, {"text": "copy"}, "switch over"],
            "version": 3,
        }
    )
    steps = (PlanStep("back up", "done"), PlanStep("copy"), PlanStep("switch over"))
    assert change == PlanChange("Migrate billing", "testing", 2, steps, (), 3)
    assert not change.is_empty


def test_what_is_left_out_is_none() -> None:
    assert read_change({}) == read_change({"goal": None, "steps": None, "updates": None}) == PlanChange()
    assert read_change({"version": 7}).is_empty
    assert not read_change({"goal": ""}).is_empty
    assert not read_change({"steps": []}).is_empty


@pytest.mark.parametrize("written", ["in progress", "in_progress", "in-progress", " In  Progress "])
def test_r08_02_statuses_are_read_in_their_common_spellings(written: str) -> None:
    change = read_change({"updates": [{"step": "2", "status": written}]})
    assert change.updates == (StepUpdate(2, "in progress"),)


def test_rows_may_stand_in_a_tuple() -> None:
    change = read_change({"steps": ({"text": "back up"},)})
    assert change.steps == (PlanStep("back up"),)
    assert read_change({"updates": ({"step": 1, "text": "x"},)}).updates == (StepUpdate(1, None, "x"),)


def test_numbers_may_be_written_as_text() -> None:
    change = read_change({"iteration": "4", "version": " 2 "})
    assert (change.iteration, change.version) == (4, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"aim": "x"}, "'aim' is no part of a plan; the parts are goal, phase, iteration"),
        ({"goal": 5}, "goal is int; give it as text"),
        ({"goal": "x" * (MAX_TEXT + 1)}, "goal has more than 500 characters"),
        ({"phase": "a\x00"}, "phase contains a NUL"),
        ({"phase": "\ud800"}, "phase contains a lone surrogate"),
        ({"iteration": 0}, "iteration is '0'; give a whole number from 1"),
        ({"iteration": True}, "iteration is 'True'"),
        ({"iteration": 1.5}, "iteration is '1.5'"),
        ({"iteration": "9" * 5_000}, "give a whole number"),
        ({"version": -1}, "version is '-1'; give a whole number from 0"),
        ({"version": "٣"}, "version is '٣'"),
        ({"steps": "copy"}, "steps is str; give a list"),
        ({"steps": ["x"] * (MAX_STEPS + 1)}, "steps has 101 rows and at most 100"),
        ({"steps": [{"text": "a"}, {"text": " \u200b"}]}, "steps[2].text is empty"),
        ({"steps": [{"status": "done"}]}, "steps[1].text is empty"),
        ({"steps": [7]}, "steps[1].text is int"),
        (
            {"steps": [{"text": "a", "status": "finished"}]},
            "steps[1].status is 'finished'; it is one of pending",
        ),
        ({"updates": [{"status": "done"}]}, "updates[1] names no step"),
        ({"updates": ["done"]}, "updates[1] names no step"),
        ({"updates": [{"step": 0, "status": "done"}]}, "updates[1].step is '0'"),
        ({"updates": [{"step": 4, "status": "done"}]}, "no step 4; the plan has 3 steps, counted from 1"),
        ({"updates": [{"step": 1}]}, "updates[1] changes nothing"),
        ({"updates": [{"step": 1, "text": ""}]}, "updates[1] changes nothing"),
        ({"steps": [], "updates": [{"step": 1, "status": "done"}]}, "steps and updates are both given"),
    ],
)
def test_a_refusal_of_a_plan_says_what_is_wrong(arguments: dict[str, Any], words: str) -> None:
    assert words in refusal(**arguments)


def test_refusals_of_a_plan_are_errors_of_use() -> None:
    assert issubclass(PlanRefused, UsageError)


def test_secrets_are_masked_in_every_text() -> None:
    secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    change = read_change({"goal": f"use {secret}", "phase": secret, "steps": [f"log in with {secret}"]})
    assert secret not in str(change)
    assert "[secret:" in str(change.goal)
    assert secret not in refusal(updates=[{"step": 1, "status": secret}])


# What it changes


def test_r08_01_left_out_parts_stay() -> None:
    after = changed(MIGRATE, read_change({"phase": "done", "updates": [{"step": 2, "status": "done"}]}))
    assert (after.goal, after.phase, after.iteration, after.version) == ("Migrate billing", "done", 2, 5)
    assert [step.status for step in after.steps] == ["done", "done", "pending"]


def test_updates_change_text_and_status_in_order() -> None:
    updates = [
        {"step": 3, "text": "switch at night"},
        {"step": 3, "status": "failed"},
        {"step": 1, "text": "dump"},
    ]
    after = changed(MIGRATE, read_change({"updates": updates}))
    assert after.steps == (
        PlanStep("dump", "done"),
        PlanStep("copy rows", "in progress"),
        PlanStep("switch at night", "failed"),
    )


def test_steps_replace_all_and_texts_can_be_cleared() -> None:
    after = changed(MIGRATE, read_change({"steps": [], "goal": "", "phase": " "}))
    assert (after.goal, after.phase, after.steps) == ("", "", ())
    assert is_blank(after)
    assert not is_blank(MIGRATE)


def test_a_plan_is_stored_and_read() -> None:
    stored = json.loads(json.dumps(plan_values(MIGRATE)))
    assert stored["steps"][1] == {"text": "copy rows", "status": "in progress"}
    assert plan_of(stored, 5) == MIGRATE
    assert plan_of({}, 0) == Plan()
    odd = {"goal": None, "iteration": "x", "steps": [None, {"text": "a", "status": "?"}]}
    assert plan_of(odd, 1) == Plan(steps=(PlanStep("a"),), version=1)


# The block


def test_the_block_tells_everything() -> None:
    block = fitted_block(MIGRATE, 3_000, estimate_tokens)
    lines = block.text.splitlines()
    assert lines[0] == "<plan>"
    assert lines[1].startswith("<description>")
    assert lines[2] == "<value>"
    assert lines[-10:] == [
        "Goal: Migrate billing",
        "Phase: testing",
        "Iteration: 2",
        "Version: 5",
        "",
        "1. [done] back up",
        "2. [in progress] copy rows",
        "3. [pending] switch over",
        "</value>",
        "</plan>",
    ]
    assert (block.tokens, block.left_out) == (estimate_tokens(block.text), 0)


def test_a_plan_without_steps_has_a_block() -> None:
    text = fitted_block(Plan(goal="Ship <it>", version=1), 3_000, estimate_tokens).text
    assert "\nGoal: Ship &lt;it>\nIteration: 1\nVersion: 1\n</value>" in text


def long_plan() -> Plan:
    statuses = ["done"] * 20 + ["skipped", "failed"] * 5 + ["in progress"] * 2 + ["pending"] * 10
    steps = tuple(PlanStep(f"step {n} has a few words", s) for n, s in enumerate(statuses, 1))  # type: ignore[arg-type]
    return Plan("Migrate billing", "testing", 1, steps, 9)


def shown(text: str) -> list[int]:
    return [int(line.split(".")[0]) for line in text.splitlines() if line[:1].isdigit()]


def test_r08_07_finished_steps_go_first_oldest_first() -> None:
    whole = fitted_block(long_plan(), 10_000, estimate_tokens)
    fitted = fitted_block(long_plan(), whole.tokens - 100, estimate_tokens)
    assert 0 < fitted.left_out < 20
    assert shown(fitted.text) == list(range(fitted.left_out + 1, 43))
    assert f"({fitted.left_out} finished steps not shown)" in fitted.text
    assert "It is a working paper" in fitted.text


def test_failed_steps_outlast_done_ones() -> None:
    sizes = [fitted_block(long_plan(), most, estimate_tokens) for most in range(100, 700, 5)]
    (at_25, *_) = [fitted for fitted in sizes if fitted.left_out == 25]
    assert [n for n in shown(at_25.text) if n <= 30] == [22, 24, 26, 28, 30]


def test_r08_07_open_steps_go_last_and_the_goal_never() -> None:
    seen = set()
    for most in range(30, 700, 5):
        fitted = fitted_block(long_plan(), most, estimate_tokens)
        assert fitted.tokens <= most
        numbers = shown(fitted.text)
        if not fitted.text:
            seen.add("nothing")
            continue
        assert "Goal: Migrate billing" in fitted.text
        if fitted.left_out <= 30:
            assert set(range(31, 43)) <= set(numbers)
            seen.add("finished gone")
        elif numbers:
            assert numbers == list(range(31, 31 + 42 - fitted.left_out))
            assert f"(30 finished and {fitted.left_out - 30} open steps not shown)" in fitted.text
            assert "working paper" not in fitted.text
            seen.add("open gone")
    assert seen == {"nothing", "finished gone", "open gone"}


@pytest.mark.parametrize("named", ["min_block_tokens", "max_block_tokens"])
def test_wrong_settings_of_a_plan_fail_by_name(named: str) -> None:
    with pytest.raises(SettingsError, match=f"{named} is 0"):
        PlanSettings(**{named: 0})
    with pytest.raises(SettingsError, match="enabled is 1; it must be true or false"):
        PlanSettings(enabled=1)  # type: ignore[arg-type]


# Whatever comes

TEXTS = st.text(st.sampled_from("ab <＜>/\n\u2028\u200b&.") | st.characters(), max_size=30)
STATUSES = st.sampled_from([*STEP_STATUSES, "in_progress", "x", None])
JSON = TEXTS | st.none() | st.integers(-3, 10) | st.booleans()
STEPS = st.lists(st.fixed_dictionaries({"text": TEXTS, "status": STATUSES}) | JSON, max_size=5) | JSON
UPDATES = st.lists(
    st.fixed_dictionaries({"step": st.integers(0, 6), "status": STATUSES, "text": TEXTS | st.none()}),
    max_size=4,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "goal": JSON,
        "phase": JSON,
        "iteration": JSON,
        "steps": STEPS,
        "updates": UPDATES,
        "version": JSON,
    },
)


@given(st.lists(CALLS, max_size=8), st.integers(1, 500))
def test_any_calls_keep_limits_and_tags(calls: list[dict[str, Any]], most: int) -> None:
    plan = Plan()
    for call in calls:
        try:
            after = changed(plan, read_change(call))
        except PlanRefused:
            continue
        assert after == changed(plan, read_change(call))
        plan = plan_of(json.loads(json.dumps(plan_values(after))), after.version)
        assert plan == after
        assert plan.iteration >= 1
        assert all(step.text and step.status in STEP_STATUSES for step in plan.steps)
    whole = fitted_block(plan, 10_000, estimate_tokens)
    assert whole.text.count("<") == 6
    assert len(whole.text.splitlines()) == whole.text.count("\n") + 1
    assert len(shown(whole.text)) >= len(plan.steps)
    assert fitted_block(plan, most, estimate_tokens).tokens <= most

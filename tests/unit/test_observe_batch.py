"""Which messages are observed next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observing import LIMITS, answer, call, numbered, result, user

from casenotes.observe.batch import halved, next_batch
from casenotes.observe.limits import Limits
from casenotes.pairs import answered
from casenotes.types import Message


def batch(messages: list[Message], size: int = 100, ready: int = 0, flush: bool = False) -> int:
    """How many messages are taken."""
    return len(next_batch(numbered(messages), [size] * len(messages), ready, LIMITS, flush=flush))


def observable(messages: list[Message]) -> int:
    """How many may be observed, where size does not matter."""
    return len(next_batch(numbered(messages), [200, *[0] * (len(messages) - 1)], 0, LIMITS, flush=False))


class TestWhatIsObserved:
    def test_r05_06_the_newest_step_stays(self) -> None:
        loop = [user(), call("a"), result("a"), call("b"), result("b")]
        assert observable(loop) == 3
        assert observable([*loop, answer()]) == 5
        assert observable([*loop, answer(), user("next")]) == 6

    def test_r05_06_several_results_belong_to_one_step(self) -> None:
        loop = [user(), call("a"), result("a"), answer(), Message("tool", "said more")]
        assert observable(loop) == 3

    def test_r05_06_a_call_that_waits_stays_with_all_that_came_after_it(self) -> None:
        late = [user(), call("slow"), call("a"), result("a"), result("slow"), call("b"), result("b")]
        assert observable(late[:4]) == 1
        assert observable(late[:5]) == 1, "the newest step is among what came between"
        assert observable(late) == 5

    def test_a_call_is_not_waited_for_for_ever(self) -> None:
        steps = [message for n in range(10) for message in (call(f"c{n}"), result(f"c{n}"))]
        assert observable([user(), call("slow"), *steps]) == 1
        assert observable([user(), call("slow"), *steps, answer()]) == 22

    def test_a_call_that_nobody_will_answer_holds_up_nothing(self) -> None:
        """Its turn was broken off, and others have followed."""
        assert observable([user(), call("lost"), user("again"), answer(), user("more"), answer()]) == 5

    def test_nothing_is_observed_before_enough_was_said(self) -> None:
        assert batch([user(), answer(), user()], size=90) == 0
        assert batch([user(), answer(), user()], size=100) == 2

    def test_what_was_only_asked_is_not_observed(self) -> None:
        assert batch([user("a"), user("b"), user("c")]) == 0
        assert batch([]) == 0

    def test_r05_03_near_the_threshold_half_is_enough(self) -> None:
        talk = [user(), answer(), user()]
        assert batch(talk, size=50, ready=799) == 0
        assert batch(talk, size=50, ready=800) == 2

    def test_a_flush_takes_everything(self) -> None:
        """It comes when no turn is under way: nobody will answer a call any more."""
        for talk in (
            [user(), answer()],
            [user("hello?")],
            [user(), call("lost")],
            [user(), call("lost"), user()],
        ):
            assert batch(talk, size=1, flush=True) == len(talk)

    def test_who_only_speaks_is_observed_too(self) -> None:
        """Imported notes have no answers; of the newest of them a tail stays."""
        assert observable([user(f"note {n}") for n in range(9)]) == 0, "all of them are in the tail"
        assert batch([user(f"note {n}") for n in range(9)]) == 2

    def test_ten_thousand_messages_take_no_time(self) -> None:
        """Looking for the newest step once for each of them took minutes."""
        talk = numbered([user(), answer()] * 5_000)
        assert next_batch(talk, [1] * 10_000, 0, LIMITS, flush=False)

    def test_batches_are_small_so_that_activations_can_leave_what_they_should(self) -> None:
        talk = [user(), answer()] * 4 + [user()]
        assert batch(talk) == 2

    def test_a_little_more_than_a_batch_is_taken_at_once(self) -> None:
        assert batch([user(), answer(), user(), answer()]) == 3

    def test_who_is_far_behind_takes_more_at_once(self) -> None:
        assert batch([user(), answer()] * 15) == 10

    def test_r05_08_a_message_larger_than_everything_is_a_batch_of_its_own(self) -> None:
        messages = numbered([user(), answer(), user(), answer()])
        taken = next_batch(messages, [5_000, 10, 10, 10], 0, LIMITS, flush=False)
        assert [message.seq for message in taken] == [1]


STEPS = st.lists(st.sampled_from(["user", "answer", "step", "lost", "two", "late"]), max_size=12)


def conversation(steps: list[str]) -> list[Message]:
    messages: list[Message] = []
    late: list[str] = []
    for n, step in enumerate(steps):
        if step == "user":
            messages += [result(name) for name in late] + [user()]
            late = []
        elif step == "answer":
            messages.append(answer())
        elif step == "step":
            messages += [call(f"c{n}"), result(f"c{n}")]
        elif step == "two":
            messages += [call(f"c{n}"), result(f"c{n}"), Message("tool", "and more")]
        elif step == "lost":
            messages.append(call(f"c{n}"))
        else:
            messages.append(call(f"c{n}"))
            late.append(f"c{n}")
    return numbered(messages)


class TestAnyConversation:
    @given(STEPS, st.booleans(), st.integers(1, 600))
    def test_r05_06_no_pair_is_parted_and_batches_follow_each_other(
        self, steps: list[str], flush: bool, size: int
    ) -> None:
        messages = conversation(steps)
        pairs = answered(messages)
        taken = next_batch(messages, [size] * len(messages), 0, LIMITS, flush=flush)
        assert taken == messages[: len(taken)]
        border = len(taken)
        assert all((first < border) == (second < border) for (first, _), (second, _) in pairs.items())

    @given(STEPS, st.integers(1, 600))
    def test_a_flush_in_rounds_comes_to_an_end(self, steps: list[str], size: int) -> None:
        messages = conversation(steps)
        while taken := next_batch(messages, [size] * len(messages), 0, LIMITS, flush=True):
            messages = messages[len(taken) :]
        assert messages == []

    @given(STEPS)
    def test_halves_are_shorter_or_the_same(self, steps: list[str]) -> None:
        messages = conversation(steps)
        first = halved(messages)
        assert first == messages[: len(first)]
        assert first or not messages


@pytest.mark.parametrize(("threshold", "expected"), [(30_000, 6_000), (3_000, 600), (100, 20)])
def test_the_tail_is_at_most_a_fifth_of_the_threshold(threshold: int, expected: int) -> None:
    from casenotes.config import ObservationalSettings, Settings

    limits = Limits.of(Settings(observational=ObservationalSettings(observer_threshold_tokens=threshold)))
    assert (limits.threshold, limits.tail) == (threshold, expected)


def test_a_small_context_lowers_the_threshold() -> None:
    from casenotes.config import BudgetSettings, Settings

    limits = Limits.of(Settings(budget=BudgetSettings(10_000, 1_000)))
    assert (limits.threshold, limits.tail, limits.step) == (4_500, 900, 900)
    assert (limits.render, limits.reflect) == (3_000, 3_000), "the log must not take the room of messages"


def test_without_buffering_everything_waits_for_the_threshold() -> None:
    from casenotes.config import ObservationalSettings, Settings

    limits = Limits.of(Settings(observational=ObservationalSettings(buffer_ratio=0)))
    assert (limits.step, limits.next_step(0), limits.next_step(29_999)) == (30_000, 30_000, 30_000)


def test_a_log_that_would_not_be_shown_whole_is_condensed() -> None:
    from casenotes.config import ObservationalSettings, Settings

    assert Limits.of(Settings(observational=ObservationalSettings(render_token_budget=900))).reflect == 900

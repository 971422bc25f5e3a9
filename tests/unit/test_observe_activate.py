"""When observations take the place of messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observing import LIMITS, NOON

from casenotes.observe.activate import activation
from casenotes.observe.breaker import Breaker
from casenotes.stores.observations import Activation, Batch, Observing, Ready
from casenotes.types import Scope

SCOPE = Scope("a", "u", "t")


def ready(raw: int, *sizes: int, messages: int = 100, size: int = 10, **state: int) -> Ready:
    """A thread of which batches of those sizes, one message each, are ready."""
    batches = [Batch(n, n, tokens, 1, "observed", NOON) for n, tokens in enumerate(sizes, 1)]
    newest = [(seq, size) for seq in range(messages, 0, -1)]
    return Ready(Observing(SCOPE, messages, raw, observed_seq=len(sizes), **state), batches, newest)


class TestActivation:
    def test_r05_02_nothing_below_the_threshold(self) -> None:
        assert activation(ready(999, 200, 200), LIMITS) is None

    def test_r05_02_at_the_threshold_until_the_tail_remains(self) -> None:
        wanted = activation(ready(1_000, 200, 200, 200, 200, 100), LIMITS)
        assert wanted is not None
        assert (wanted.to_seq, wanted.to_tokens) == (4, 800)

    def test_r05_02_what_is_not_ready_stays(self) -> None:
        assert activation(ready(1_000), LIMITS) is None
        wanted = activation(ready(5_000, 200), LIMITS)
        assert wanted is not None
        assert wanted.to_seq == 1

    def test_r05_08_a_batch_larger_than_all_is_taken_though_little_remains(self) -> None:
        wanted = activation(ready(5_100, 5_000), LIMITS)
        assert wanted is not None
        assert (wanted.to_seq, wanted.to_tokens) == (1, 5_000)
        wanted = activation(ready(5_300, 200, 5_000), LIMITS)
        assert wanted is not None
        assert wanted.to_seq == 2

    def test_a_flush_takes_all_that_is_ready(self) -> None:
        wanted = activation(ready(300, 100, 100), LIMITS, flush=True)
        assert wanted is not None
        assert wanted.to_seq == 2
        assert activation(ready(300), LIMITS, flush=True) is None

    def test_tokens_are_counted_on(self) -> None:
        wanted = activation(ready(2_000, 200, 200, active_tokens=1_000), LIMITS)
        assert wanted == Activation(0, 2, 1_400, 2)

    def test_r05_05_the_last_few_are_shown_though_they_are_observed(self) -> None:
        wanted = activation(ready(40, 10, 10, 10, 10, messages=4), LIMITS, flush=True)
        assert wanted is not None
        assert (wanted.to_seq, wanted.window_seq) == (4, 0)
        wanted = activation(ready(60, *[10] * 6, messages=6), LIMITS, flush=True)
        assert wanted is not None
        assert wanted.window_seq == 2, "four of them"

    def test_r05_05_as_far_as_half_of_the_threshold(self) -> None:
        wanted = activation(ready(2_000, *[200] * 4, messages=4, size=200), LIMITS, flush=True)
        assert wanted is not None
        assert wanted.window_seq == 2, "two of 200 tokens have room, three have not"

    def test_what_the_turn_was_asked_stays_if_it_is_short(self) -> None:
        for tokens, kept in ((100, (2, 3)), (101, (0, 0))):
            wanted = activation(ready(1_000, 400, 400), LIMITS, asked=[(2, tokens), (3, 100)])
            assert wanted is not None
            assert wanted.asked == kept

    def test_and_as_the_log_leaves_room(self) -> None:
        full = ready(2_000, *[200] * 4, messages=4, size=200, log_tokens=1_700)
        wanted = activation(full, LIMITS, flush=True)
        assert wanted is not None
        assert wanted.window_seq == 4

    @given(
        st.integers(0, 5_000),
        st.lists(st.integers(1, 900), max_size=12),
        st.integers(0, 2_500),
        st.integers(1, 400),
        st.booleans(),
    )
    def test_any_state(self, fresh: int, sizes: list[int], log: int, size: int, flush: bool) -> None:
        given = ready(sum(sizes) + fresh, *sizes, messages=len(sizes) + 5, size=size, log_tokens=log)
        wanted = activation(given, LIMITS, flush=flush)
        if wanted is None:
            assert not sizes or (not flush and given.state.raw_tokens < LIMITS.threshold)
            return
        left = given.state.raw_tokens - wanted.to_tokens
        assert wanted.window_seq <= wanted.to_seq
        shown_besides = (wanted.to_seq - wanted.window_seq) * size
        assert shown_besides + log + LIMITS.tail <= max(LIMITS.render, log + LIMITS.tail)
        assert flush or left < LIMITS.threshold or wanted.to_seq == len(sizes)


def test_r05_03_steps_are_halved_near_the_threshold() -> None:
    assert [LIMITS.next_step(ready) for ready in (0, 600, 799, 800, 900)] == [200, 200, 200, 100, 100]
    assert replace(LIMITS, step=1).next_step(999) == 1


class TestBreaker:
    def test_r05_37_after_failures_in_a_row_the_model_is_left_alone(self) -> None:
        now = [0.0]
        breaker = Breaker(3, 60, lambda: now[0])
        assert [breaker.failed(), breaker.failed()] == [False, False]
        breaker.succeeded()
        assert [breaker.failed() for _ in range(3)] == [False, False, True]
        assert breaker.seconds_left == 60
        now[0] = 60
        assert breaker.seconds_left == 0
        assert breaker.failed(), "one more failure is one too many"
        now[0] = 130
        breaker.succeeded()
        assert not breaker.failed()

    @pytest.mark.parametrize("failures", [1, 5])
    def test_so_many(self, failures: int) -> None:
        breaker = Breaker(failures, 1)
        assert [breaker.failed() for _ in range(failures)] == [False] * (failures - 1) + [True]

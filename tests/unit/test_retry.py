"""What is tried again, after which pause, and what an error may tell."""

import asyncio

import pytest

from casenotes.models.retry import Failure, Patience, asked_pause, may_pass, persist, status_of, without_keys

FAST = Patience(attempts=3, first_pause_seconds=0.001, longest_pause_seconds=0.002, request_seconds=5)


class Answered(Exception):
    def __init__(self, status_code: int, **values: object) -> None:
        super().__init__(f"answer {status_code}")
        self.status_code = status_code
        self.__dict__.update(values)


class ModelAPIError(Exception):
    """Named as the library's."""


class ModelQuotaExceededError(ModelAPIError):
    """The same."""


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_overload_passes(status: int) -> None:
    assert may_pass(Answered(status), status)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_stays(status: int) -> None:
    assert not may_pass(Answered(status), status)


def test_errors_without_status_are_known_by_kind() -> None:
    passing = [TimeoutError(), ConnectionResetError(), ModelAPIError("no route")]
    assert all(may_pass(error, None) for error in passing)
    assert not any(may_pass(error, None) for error in (ValueError(), KeyError(), ModelQuotaExceededError()))


def test_pauses_double_with_jitter_up_to_the_longest() -> None:
    patience = Patience(first_pause_seconds=1, longest_pause_seconds=5)
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (4, 5), (9, 5)):
        pauses = [patience.pause(attempt, None) for _ in range(50)]
        assert longest / 2 <= min(pauses) <= max(pauses) <= longest
        assert len(set(pauses)) > 1


def test_the_pause_that_was_asked_for_is_kept_within_the_longest() -> None:
    patience = Patience(first_pause_seconds=0.1, longest_pause_seconds=5)
    assert patience.pause(1, 3.0) == 3.0
    assert patience.pause(1, 3600.0) == 5.0


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, None),
        ({"retry_after": 2.5}, 2.5),
        ({"headers": {"retry-after": "7"}}, 7.0),
        ({"headers": {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}}, None),
        ({"retry_after": -1}, 0.0),
        ({"response": type("Response", (), {"headers": {"retry-after": "3"}})()}, 3.0),
    ],
)
def test_retry_after_is_found_where_libraries_keep_it(values: dict[str, object], seconds: float | None) -> None:
    assert asked_pause(Answered(429, **values)) == seconds


def test_a_status_that_is_no_number_is_none() -> None:
    error = Exception()
    error.status_code = "429"
    assert status_of(error) is None


def test_keys_are_starred_out_and_words_stay() -> None:
    said = without_keys("Incorrect key sk-short or Bearer eyJhbGciOiJIUzI1NiJ9.abc given")
    assert said == "Incorrect key *** or Bearer *** given"


async def test_attempts_are_counted_and_the_last_failure_is_raised() -> None:
    calls = []

    async def call() -> None:
        calls.append(1)
        raise Answered(503)

    with pytest.raises(Failure, match=r"model 'm' failed \(status 503\): answer 503") as raised:
        await persist(call, "model 'm'", FAST)
    assert len(calls) == 3
    assert raised.value.may_pass


async def test_a_slow_answer_is_cut_and_tried_again() -> None:
    calls = []

    async def call() -> str:
        calls.append(1)
        await asyncio.sleep(60 if len(calls) == 1 else 0)
        return "late but here"

    assert await persist(call, "m", Patience(2, 0.001, 0.002, request_seconds=0.02)) == "late but here"


async def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="0 attempts"):
        await persist(lambda: asyncio.sleep(0), "m", Patience(attempts=0))

"""Time stands still when told to, listeners cannot do harm, tokens are counted offline."""

from datetime import UTC, datetime, timedelta

import pytest

from casenotes.clock import FrozenClock, SystemClock
from casenotes.errors import UsageError
from casenotes.events import Event, Events
from casenotes.tokens import estimate_tokens

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_clocks() -> None:
    clock = FrozenClock(NOON)
    clock.advance(timedelta(hours=1))
    assert clock.now() == NOON + timedelta(hours=1)
    assert SystemClock().now().tzinfo is UTC
    with pytest.raises(UsageError, match="time zone"):
        FrozenClock(datetime(2026, 3, 1))  # noqa: DTZ001


def test_events_reach_listeners_and_a_failing_one_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, seen = Events(FrozenClock(NOON)), []

    def broken(event: Event) -> None:
        raise RuntimeError("boom")

    events.listen(broken)
    stop = events.listen(seen.append)
    events.emit("turn.started", None, turn_id="1")
    stop()
    events.emit("turn.finished")
    assert seen == [Event("turn.started", NOON, None, {"turn_id": "1"})]
    assert "turn.started" in caplog.text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("x", 1),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("2026-03-01T12:00:00Z", 16),
    ],
)
def test_token_estimates_are_near_the_truth(text: str, tokens: int) -> None:
    assert abs(estimate_tokens(text) - tokens) <= max(1, tokens // 5)

"""Leave a model alone for a while that fails again and again, whoever it is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Counts failures in a row. After a pause one more failure opens it again, one success closes it."""

    def __init__(
        self, failures: int, pause_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = failures
        self._pause = pause_seconds
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.has_succeeded = False

    @property
    def seconds_left(self) -> float:
        """How long the model is to be left alone; 0 if it may be asked."""
        return max(0.0, self._until - self._clock())

    def succeeded(self) -> None:
        """The model has answered."""
        self._failures = 0
        self.has_succeeded = True

    def failed(self) -> bool:
        """The model has failed; says whether that was one time too many."""
        self._failures += 1
        if self._failures < self._most:
            return False
        self._until = self._clock() + self._pause
        return True

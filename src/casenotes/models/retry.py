"""Ask a provider again while its failure may pass, and tell of the failure without telling a key.

Failures are known by status code, or by the names of the libraries' own errors for lost connections:
none of those libraries has to be installed for this.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from casenotes.credentials import hide

Answer = TypeVar("Answer")

LOOKS_LIKE_A_KEY = re.compile(r"[\w.+/=-]{16,}|\bsk-[\w-]+")
PASSING_STATUSES = frozenset({408, 409, 425, 429})
"""Timeouts, conflicts and rate limits; so do all from 500 on."""

LOST_CONNECTIONS = frozenset({"ModelAPIError", "APIConnectionError", "TransportError", "ClientConnectionError"})
"""What Pydantic AI, the providers' own clients, httpx and aiohttp raise when no answer came."""

FINAL = frozenset({"ModelRequestRejectedError", "ModelQuotaExceededError"})
"""Kinds of ModelAPIError that the same request will meet again, whatever their status."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and for how long to try; pauses double from the first to the longest."""

    attempts: int = 3
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 20.0
    request_seconds: float = 120.0

    def pause(self, attempt: int, asked_for: float | None) -> float:
        """Seconds until the next attempt: at least what the provider asked for, never above the longest."""
        grown: float = min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** (attempt - 1))
        jittered = grown * random.uniform(0.5, 1.0)  # noqa: S311
        return min(self.longest_pause_seconds, max(jittered, asked_for or 0.0))


class Failure(Exception):
    """The last of the attempts, told without keys; `refused` if the provider itself said no."""

    def __init__(self, who: str, error: Exception) -> None:
        self.error = error
        self.status = status_of(error)
        self.may_pass = may_pass(error, self.status)
        self.refused = not self.may_pass and (self.status is not None or _is_one_of(error, FINAL))
        about = f"status {self.status}" if self.status else type(error).__name__
        super().__init__(f"{who} failed ({about}): {without_keys(str(error) or _unsaid(error)):.300}")


async def persist(call: Callable[[], Awaitable[Answer]], who: str, patience: Patience) -> Answer:
    """What the call answers; raises Failure when it cannot pass or the attempts are used up."""
    for attempt in range(1, patience.attempts + 1):
        try:
            async with asyncio.timeout(patience.request_seconds):
                return await call()
        except Exception as error:
            failure = Failure(who, error)
        if attempt == patience.attempts or not failure.may_pass:
            raise failure  # outside of the block, so that it does not lead to an error that tells a key
        await asyncio.sleep(patience.pause(attempt, asked_pause(failure.error)))
    raise ValueError(f"{patience.attempts} attempts are none")


def may_pass(error: Exception, status: int | None) -> bool:
    """Whether the same request may succeed later: overload, rate limits, lost connections."""
    said = getattr(error, "may_pass", None)
    if isinstance(said, bool):
        return said
    if isinstance(error, ExceptionGroup):  # several models were tried in turn
        return any(may_pass(inner, status_of(inner)) for inner in error.exceptions)
    if _is_one_of(error, FINAL):
        return False
    if status is not None:
        return status in PASSING_STATUSES or status >= 500
    return isinstance(error, (TimeoutError, OSError)) or _is_one_of(error, LOST_CONNECTIONS)


def _is_one_of(error: Exception, names: frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def status_of(error: Exception) -> int | None:
    """The HTTP status that an error of a client library carries."""
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    return status if isinstance(status, int) else None


def asked_pause(error: Exception) -> float | None:
    """The seconds of a Retry-After that the error carries, read or still in its headers."""
    headers = (
        getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    )
    for value in (getattr(error, "retry_after", None), headers.get("retry-after")):
        try:
            return max(0.0, float(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # absent, or a date
            continue
    return None


def without_keys(text: str) -> str:
    """Providers echo what they were sent: secrets are hidden, and every long word is starred out."""
    return LOOKS_LIKE_A_KEY.sub("***", hide(text))


def _unsaid(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__

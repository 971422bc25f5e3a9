"""OpenTelemetry spans, if its API is installed; without it, and without an exporter, nothing happens.

Names follow the GenAI conventions. Neither texts nor the resource's id are put into spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from casenotes.types import Scope

Note = Callable[[str, Any], None]


@contextmanager
def span(name: str, operation: str, scope: Scope, **about: Any) -> Iterator[Note]:
    """A span around the block; what it yields adds attributes. Errors are marked by their type only."""
    tracer = _tracer()
    if tracer is None:
        yield _nothing
        return
    attributes = {"gen_ai.operation.name": operation, "gen_ai.agent.id": scope.agent_id}
    if scope.thread_id:
        attributes["gen_ai.conversation.id"] = scope.thread_id
    if model := about.pop("model", None):
        attributes["gen_ai.request.model"] = model
    attributes |= {f"casenotes.{key}": value for key, value in about.items()}
    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current.set_attribute
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            raise


def _nothing(_name: str, _value: Any) -> None:
    """Nobody is listening."""


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("casenotes")

"""Spans around begin, recall, learning and model calls, with the real OpenTelemetry SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conversation import LATER, MIRA, SAID, SKEW, entry, opened, proposes, settings, turn
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from casenotes.testing import ScriptedModel


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """The process has one; it can be set only once."""
    made = TracerProvider()
    trace.set_tracer_provider(made)
    return made


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    yield exporter
    exporter.shutdown()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


async def test_r03_19_a_turn_leaves_spans_without_texts_or_users(
    sqlite_url: str, spans: InMemorySpanExporter
) -> None:
    async with opened(sqlite_url, proposes(entry(SKEW, SAID))) as memory:
        await turn(memory, MIRA, SAID)
        await memory.recall(LATER, "webhook")
    found = by_name(spans)
    assert {"begin turn", "learn memory", "chat scripted", "search memory"} <= set(found)
    chat = found["chat scripted"].attributes
    assert chat is not None
    assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "scripted")
    assert (chat["gen_ai.agent.id"], chat["gen_ai.conversation.id"]) == ("support", "monday")
    assert int(str(chat["gen_ai.usage.input_tokens"])) > 100
    assert found["search memory"].attributes["casenotes.hits"] >= 1
    learning = found["learn memory"]
    assert found["chat scripted"].parent.span_id == learning.context.span_id
    told = str([dict(span.attributes) for span in found.values()])
    assert "clock" not in told
    assert "mira" not in told


async def test_a_failing_model_is_marked_by_its_type_only(sqlite_url: str, spans: InMemorySpanExporter) -> None:
    def fails(_request: object) -> None:
        raise RuntimeError("key sk-verysecret")

    async with opened(sqlite_url, ScriptedModel(fails), config=settings()) as memory:
        await turn(memory, MIRA, SAID)
    span = by_name(spans)["chat scripted"]
    assert span.attributes["error.type"] == "ModelError"
    assert not span.events
    assert "verysecret" not in span.to_json()

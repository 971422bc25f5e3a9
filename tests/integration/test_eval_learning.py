"""`casenotes eval learning`: what goes through the real pipeline is scored as was known beforehand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conversation import transcript
from model_server import run, serving

from casenotes import SearchSettings, Settings
from casenotes.errors import EmbeddingError, ModelError, SettingsError, UsageError
from casenotes.evals.learning import LearningEvaluation, evaluate_learning
from casenotes.evals.learning_cases import LearningCase, shipped_cases
from casenotes.evals.learning_scores import Counts
from casenotes.masking import mask
from casenotes.models.chat import ChatRequest
from casenotes.testing import HashEmbedder, ScriptedModel

CASES = shipped_cases()
LEARNING = ("eval", "learning", "--embedder", "static")
DE = [case for case in CASES if case.language == "de"]
SUPPORT = [case for case in CASES if case.domain == "support"]
Answers = Callable[[LearningCase], Sequence[Mapping[str, Any]]]


def case_of(prompt: str) -> LearningCase:
    """The case whose transcript a model is asked about."""
    said = [row["text"] for row in transcript(prompt) if not row.get("context")]
    (case,) = [case for case in CASES if mask(case.turn[0].text) == said[0]]
    return case


def answering(answers: Answers) -> ScriptedModel:
    def answer(request: ChatRequest) -> Any:
        if request.task != "extract":
            return {}
        return {"entries": [dict(entry) for entry in answers(case_of(request.prompt))]}

    return ScriptedModel(answer)


async def evaluated(cases: Sequence[LearningCase], model: Any, **options: Any) -> LearningEvaluation:
    return await evaluate_learning(cases, model, embedder=HashEmbedder(256), **options)


async def test_every_good_answer_passes_the_pipeline_and_is_flawless() -> None:
    steps: list[tuple[int, int]] = []
    evaluation = await evaluated(
        CASES, answering(lambda case: case.good), progress=lambda *step: steps.append(step)
    )
    assert [score.case.id for score in evaluation.scores] == [case.id for case in CASES]
    faulty = {
        score.case.id: (score.counts, score.refused)
        for score in evaluation.scores
        if not score.is_flawless or score.refused
    }
    assert faulty == {}
    overall = evaluation.to_json()["overall"]
    assert overall["coverage"]["ratio"] == overall["flawless"]["ratio"] == 1
    assert steps == [(number, len(CASES)) for number in range(1, len(CASES) + 1)]
    assert evaluation.usage.calls >= len(CASES)
    assert evaluation.usage.input_tokens > 0


async def test_every_bad_answer_has_exactly_the_faults_it_was_written_with() -> None:
    cases = [case for case in CASES if case.bad]
    evaluation = await evaluated(cases, answering(lambda case: case.bad["entries"]))
    for score in evaluation.scores:
        expected = {"expected": score.counts.expected, **score.case.bad["scores"]}
        assert asdict(score.counts) == asdict(Counts(**expected)), score.case.id
        assert not score.is_flawless
    faults = ("forbidden", "unsupported", "superfluous", "wrong_label", "lost_uncertainty", "refused")
    overall = evaluation.to_json()["overall"]
    assert all(overall[name]["count"] for name in faults)


async def test_the_model_sees_earlier_messages_and_cases_see_nothing_of_each_other() -> None:
    model = answering(lambda case: case.good)
    await evaluated(CASES, model, concurrency=2)
    for request in model.requests:
        if request.task == "extract":
            case = case_of(request.prompt)
            rows = [(row["role"], row["text"]) for row in transcript(request.prompt)]
            assert rows == [(message.role, mask(message.text)) for message in (*case.before, *case.turn)]
            assert "known-memory" not in request.prompt


async def test_a_case_that_the_model_fails_at_is_reported_and_not_covered() -> None:
    def answer(request: ChatRequest) -> Any:
        if request.task != "extract":
            return {}
        case = case_of(request.prompt)
        if case is DE[1]:
            raise ModelError("the model fell over", may_pass=False)
        return "what a nice day" if case is DE[2] else {"entries": [dict(entry) for entry in case.good]}

    evaluation = await evaluated(DE, ScriptedModel(answer), concurrency=1)
    assert list(evaluation.failures) == [DE[1].id, DE[2].id]
    assert evaluation.failures[DE[1].id] == "ModelError: the model fell over"
    assert "UnreadableOutput" in evaluation.failures[DE[2].id]
    overall = evaluation.to_json()["overall"]
    assert overall["failed"] == 2
    assert overall["coverage"]["count"] == overall["coverage"]["of"] - 2


async def test_a_model_that_never_answers_ends_the_evaluation_soon() -> None:
    def answer(_request: ChatRequest) -> Any:
        raise ModelError("the key is wrong", may_pass=False, status=401)

    model = ScriptedModel(answer)
    with pytest.raises(ModelError, match=r"answered none of the first 3 cases; check.*the key is wrong"):
        await evaluated(CASES, model, concurrency=2)
    assert len(model.requests) < 8


async def test_unreadable_answers_do_not_end_the_evaluation() -> None:
    evaluation = await evaluated(DE, ScriptedModel(lambda _request: "no"))
    assert len(evaluation.failures) == len(DE)


async def test_a_failing_embedder_is_told() -> None:
    class Broken(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            raise OSError("no embeddings today")

    with pytest.raises(EmbeddingError, match="no embeddings today"):
        await evaluate_learning(DE, answering(lambda case: case.good), embedder=Broken(256))


async def test_a_slow_embedder_is_waited_for() -> None:
    class Slow(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            for _ in range(100):
                await asyncio.sleep(0)  # lets time pass that a search without any does not have
            return await super().embed(texts)

    hasty = Settings(search=SearchSettings(deadline_seconds=0))
    model = answering(lambda case: case.good)
    evaluation = await evaluate_learning(DE, model, embedder=Slow(256), settings=hasty)
    assert all(score.is_flawless for score in evaluation.scores)


async def test_a_model_is_needed() -> None:
    with pytest.raises(UsageError, match="no model"):
        await evaluated(DE, "")
    with pytest.raises(SettingsError, match="concurrency"):
        await evaluated(DE, answering(lambda case: case.good), concurrency=0)


def good_or_bad(prompt: str) -> Any:
    """The bad answer to two cases, the good one to the others, nothing to other tasks."""
    if "<transcript>" not in prompt:
        return {}
    case = case_of(prompt)
    wrong = case.bad["entries"] if case.id in ("label-printer", "filiale-switch") else case.good
    return {"entries": [dict(entry) for entry in wrong]}


async def test_the_command_prints_one_object() -> None:
    async with serving(good_or_bad) as server:
        result = json.loads(await run(*LEARNING, "--model", server.name, "--only", "support", "--json"))
    assert result["model"] == server.name
    assert set(result) == {
        "model",
        "overall",
        "by_domain",
        "by_tag",
        "by_language",
        "usage",
        "failures",
        "cases",
    }
    assert result["overall"]["cases"] == len(result["cases"]) == len(SUPPORT)
    assert result["overall"]["unsupported"]["count"] == 1
    assert result["overall"]["lost_uncertainty"]["count"] == 1
    assert set(result["by_domain"]) == {"support"}
    assert result["by_tag"]["injection"]["flawless"] == {"count": 2, "of": 2, "ratio": 1.0}
    assert result["usage"]["calls"] >= len(SUPPORT)
    (printer,) = [case for case in result["cases"] if case["id"] == "label-printer"]
    assert [entry["verdict"] for entry in printer["entries"]] == ["forbidden", "covered"]
    assert printer["entries"][0]["forbidden"] == ["guess"]
    assert printer["facts"][0] == {
        "id": "symptom",
        "optional": False,
        "entry": 1,
        "wrong_label": False,
        "lost_uncertainty": False,
    }


async def test_the_command_shows_every_case_of_a_tag() -> None:
    async with serving(good_or_bad) as server:
        text = await run(*LEARNING, "--only", "de", "--show", CASENOTES_MODEL=server.name)
    assert "covered (suspicion, uncertainty lost)" in text
    assert "node-kernel (operations, de, injection, cause)" in text
    assert "covered (cause)  node-17 startet" in text
    assert "1.00 (5/5)" in text
    assert "calls, " in text


async def test_the_command_takes_a_file_and_exits_with_1_if_a_case_failed(tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    case = {"id": "fan", "turn": [{"role": "user", "text": "The fan of rack 7 is loud."}]}
    fact = {"id": "fan", "all": [["rack 7"]], "source": ["user_assertion"]}
    mine.write_text(json.dumps({**case, "expected": [fact]}))
    async with serving(lambda _prompt: {"entries": []}) as server:
        words = (*LEARNING, "--model", server.name, "--cases", str(mine), "--show")
        assert "missing (fan)" in await run(*words)
        server.failures = 1
        text = await run(*words, code=1)
    assert "failed: fan: ModelRefused: model" in text
    assert "status 401" in text


async def test_what_is_wrong_with_the_call_is_named(tmp_path: Path) -> None:
    assert "give --model provider:name, or set CASENOTES_MODEL" in await run(*LEARNING, code=2)
    no_key = await run(*LEARNING, "--model", "openai:gpt-5-mini", code=2, OPENAI_API_KEY="")
    assert "OPENAI_API_KEY" in no_key
    unknown = await run(*LEARNING, "--model", "openai:x", "--only", "tea", "--json", code=2)
    assert "no case has this tag" in json.loads(unknown)["error"]["message"]
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"id": "x"}\n')
    malformed = await run(*LEARNING, "--model", "openai:x", "--cases", str(mine), code=2, COLUMNS="400")
    assert "mine.jsonl line 1 is no case: the field 'turn' is missing" in malformed

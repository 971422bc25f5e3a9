"""The recorded worker of the demo, and the words for what became of its candidates."""

from __future__ import annotations

from typing import get_args

import pytest

from casenotes.cli.learning import REASONS
from casenotes.errors import ModelError
from casenotes.learn.evidence import Reason
from casenotes.learn.transcript import known_memory, turn_prompt
from casenotes.models.chat import ChatRequest
from casenotes.samples.recorded import RecordedModel, sample_turns
from casenotes.types import Message


def asked(said: str, before: str) -> ChatRequest:
    prompt = turn_prompt(
        [Message("user", said)], [Message("user", before)], known_memory(["<transcript>\n[] is known"])
    )
    return ChatRequest("extract", "", prompt, {})


async def test_it_answers_by_what_the_user_says_in_the_turn() -> None:
    first, second = sample_turns().learned[:2]
    model = RecordedModel([first, second])
    assert (await model.ask(asked(second.user, first.user))).output == second.worker


async def test_a_turn_that_is_not_recorded_is_an_error() -> None:
    turns = sample_turns().learned
    with pytest.raises(ModelError, match="not in the recording"):
        await RecordedModel(turns).ask(asked("Something else", turns[0].user))


def test_every_refusal_of_evidence_is_told_in_words() -> None:
    assert set(get_args(Reason)) - {""} <= set(REASONS)

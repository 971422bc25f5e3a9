"""Titles of threads: the beginning of what the user said first, or what a model calls the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from casenotes.learn.normalise import collapse, cut, is_visible
from casenotes.learn.summarise import run_prompt
from casenotes.masking import mask
from casenotes.recall.render import inert
from casenotes.tokens import TokenCounter
from casenotes.types import Message

MAX_TITLE_CHARACTERS = 60
MAX_PROMPT_TOKENS = 2_000


def title_of(first_words: str) -> str | None:
    """The beginning of a text as a title; None if there is nothing to read."""
    text = mask(collapse(first_words))
    if not is_visible(text):
        return None
    short = cut(text, MAX_TITLE_CHARACTERS)
    return short if short == text else f"{short}…"


def model_title(answer: str) -> str | None:
    """What a model answered, as a title."""
    return title_of(inert(answer).strip("\"'“”„»«.# "))


def title_prompt(messages: Sequence[Message], count_tokens: TokenCounter) -> str:
    """What a model is asked."""
    return run_prompt(messages, "success", MAX_PROMPT_TOKENS, count_tokens)

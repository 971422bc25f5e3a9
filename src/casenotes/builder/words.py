"""What people ask for, and what instructions order, told by sequences of words in several languages.

data/words.json holds the classes of words; how rules are read stands in `casenotes.learn.phrases`. A wish
worded in a way that no rule knows is answered with a question to the user: nothing is switched on or off by a
guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from casenotes.learn.disguise import folded
from casenotes.learn.phrases import Phrases

EPISODIC = (
    "episodic_kind",
    "earlier ~2 talks",
    "talks ~1 earlier",
    "across ~3 talks",
    "talks ~3 across",
    "keep ~8 decisions",
    "decisions ~6 earlier",
    "decisions ~8 later",
    "keep ~6 exact",
    "exact ~3 artefact",
    "keep ~12 later",
    "later ~12 keep",
    "keep ~8 coming ~2 talks",
)
OFF = ("off",)
SESSION = ("session",)
MODEL = ("model",)
YES = ("yes",)
ORDERS_TO_SAVE = (
    "save ~8 to_memory",
    "to_memory ~8 save",
    "make ~1 memories",
    "remember ~1 what",
    "memorise",
    "track ~3 person",
)
ABOUT_OBSERVATIONS = ("observing", "note ~0 observations", "observations ~3 of_talk")
LONGEST_YES = 60
LONGEST_TEXT = 200_000
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


def wants_episodic(text: str) -> bool:
    """Whether a text asks for episodic or long-term memory, earlier conversations, decisions or artefacts."""
    return _says(text, EPISODIC)


def wants_off(text: str) -> bool:
    """Whether a text asks for something not to be."""
    return _says(text, OFF)


def wants_session(text: str) -> bool:
    """Whether a text speaks of the memory of one conversation."""
    return _says(text, SESSION)


def wants_model(text: str, model: str) -> bool:
    """Whether a text speaks of models, or of this one."""
    name = folded(model)
    parts = [part for part in re.split(r"[\W_]+", name) if len(part) > 2]
    said = folded(text)
    return _says(text, MODEL) or any(re.search(rf"\b{re.escape(part)}\b", said) for part in parts)


def is_yes(text: str) -> bool:
    """Whether a message is a short consent to a question."""
    return len(text) <= LONGEST_YES and _says(text, YES)


def orders_to_save(text: str) -> list[str]:
    """The sentences of an agent's instructions that speak of saving what is remembered."""
    return _sentences(text, ORDERS_TO_SAVE)


def about_observations(text: str) -> list[str]:
    """The sentences of an agent's instructions that speak of observations, which are made without it."""
    return _sentences(text, ABOUT_OBSERVATIONS)


def _sentences(text: str, rules: Sequence[str]) -> list[str]:
    sentences = (match[0].strip() for match in _SENTENCE.finditer(text[:LONGEST_TEXT]))
    return [sentence for sentence in sentences if _says(sentence, rules)]


def _says(text: str, rules: Sequence[str]) -> bool:
    return _phrases(tuple(rules)).find(folded(text[:LONGEST_TEXT])) is not None


@cache
def _phrases(rules: tuple[str, ...]) -> Phrases:
    return Phrases(_languages(), rules)


@cache
def _languages() -> Mapping[str, Mapping[str, Sequence[str]]]:
    text = resources.files("casenotes.builder").joinpath("data", "words.json").read_text("utf-8")
    languages: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(text)
    return languages

"""What people ask for, and what instructions order, told by sequences of words in several languages.

data/words.json holds the classes of words; how rules are read stands in `casenotes.learn.phrases`. A wish
counts where nothing in its clause denies it: "not forget" and the like (`not_denied`) deny nothing. What is
worded in a way that no rule knows is refused, and the assistant has to ask: a question and a clear yes prove
every wish.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

from casenotes.config.json_names import EPISODIC, OBSERVATIONAL, SIMILAR
from casenotes.learn.disguise import folded
from casenotes.learn.phrases import Found, Phrases
from casenotes.learn.quotes import without_unseen

ASKS_FOR_EPISODIC = (
    "episodic_kind",
    "earlier ~2 talks",
    "talks ~1 earlier",
    "across ~3 talks",
    "talks ~3 across",
    "keep ~8 decisions",
    "decisions ~6 earlier",
    "decisions ~8 later",
    "keep ~6 exact",
    "keep ~12 later",
    "later ~12 keep",
    "keep ~8 coming ~2 talks",
)
OFF = (
    "off_alone",
    "off_verb ~5 thing",
    "thing ~3 off_verb",
    "neg ~4 thing",
    "thing ~3 neg",
    "thing ~2 off_word",
    "begin_off ~3 thing ~2 off_word",
    "begin_off ~2 off_word ~4 thing",
)
NOT_OFF = (
    "neg ~1 off_verb",
    "neg ~1 begin_off ~3 thing ~2 off_word",
    "neg ~1 begin_off ~2 off_word",
    "ask_about",
)
MODEL = (
    "model_word ~6 worker_word",
    "worker_word ~6 model_word",
    "cheaper ~6 worker_word",
    "choose ~4 model_word",
)
DENIED = ("neg", "off_verb", "ask_about")
ORDERS_TO_SAVE = (
    "save ~8 to_memory",
    "to_memory ~8 save",
    "make ~1 memories",
    "remember ~1 what",
    "memorise",
    "track ~3 person",
    "save ~2 learned",
    "shares ~12 keep_it",
    "never_forget ~2 what",
    "save ~8 so_that",
    "hold ~6 fast",
)
ABOUT_OBSERVATIONS = ("observing", "note ~1 own_observations", "observations ~1 of_talk")
KINDS: Mapping[str, Sequence[str]] = {
    OBSERVATIONAL: ("session_kind",),
    EPISODIC: ASKS_FOR_EPISODIC,
    SIMILAR: ("similar_kind",),
}
WORKER_NAMES = {
    "observer_name": "observerModel",
    "reflector_name": "reflectorModel",
    "extractor_name": "extractorModel",
}
TOPICS: Mapping[str, str] = {
    "lastMessages": "messages_topic",
    "observerThresholdTokens": "tokens_topic",
    "reflectorThresholdTokens": "tokens_topic",
    "renderTokenBudget": "tokens_topic",
    "bufferRatio": "tokens_topic",
    "observationLogTailLimit": "messages_topic",
    "lockTtlMs": "time_topic",
    "idleFlushSeconds": "time_topic",
    "halfLifeDays": "time_topic",
    "topK": "results_topic",
    "autoInjectTopK": "results_topic",
    "maxEntriesPerRun": "results_topic",
    "maxEntriesPerTurn": "results_topic",
    "maxEntryLength": "results_topic",
    "autoInject": "inject_topic",
    "dedupeSimilarityThreshold": "same_topic",
    "before": "similar_topic",
    "after": "similar_topic",
    "scope": "similar_topic",
    "enabled": "similar_topic",
}
"""What a wish to tune a field speaks of, where it names no number."""

LONGEST_YES = 200
LONGEST_TEXT = 200_000
_NEXT_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-zà-ÿ\s])|\n")
_BROKEN_LINE = re.compile(r"(?<![.!?:\n])\n(?!\s*(?:[-*•#>]|\d+[.)]|\n))")
_CLAUSES = re.compile(
    r"[,;:](?!\s*(?:e\.g|such as|like|for example|or|nor|and)\b)|\b(?:but|aber|pero|mais|however)\b"
)
_NUMBER = re.compile(r"(?<![\w.])(\d[\d,.']*\d|\d)\s?(k\b|thousand\b)?", re.IGNORECASE)


def wants_episodic(text: str) -> bool:
    """Whether a text asks for episodic or long-term memory, earlier conversations, decisions or artefacts."""
    return _asks(text, ASKS_FOR_EPISODIC)


def wants_off(text: str) -> bool:
    """Whether a text asks for some memory not to be, and does not deny or merely ask about that."""
    return any(_says(sentence, OFF) and not _says(sentence, NOT_OFF) for sentence in sentences(text))


def wants_on(text: str) -> bool:
    """Whether a text speaks of memory, and not of being without."""
    return _asks(text, ("thing",)) and not wants_off(text)


def takes_back(text: str) -> bool:
    """Whether a message takes back what was said before it."""
    return _says(text, ("retract",))


def speaks_of(text: str, topic: str) -> bool:
    """Whether a text speaks of a matter, by the name of its class of words."""
    return _asks(text, (f"{topic}_topic",))


def kinds_named(text: str) -> set[str]:
    """The sections that a text speaks of; none if it speaks of memory in general."""
    if _says(text, ("every_kind",)):
        return set()
    return {section for section, rules in KINDS.items() if _says(text, rules)}


def wants_model(text: str, model: str) -> bool:
    """Whether a text asks for a model for background work, or for this one."""
    return _asks(text, MODEL) or (is_named(model, text) and _asks(text, ("worker_word",)))


def is_named(model: str, text: str) -> bool:
    """Whether a text has a word of a model's name, besides that of its provider."""
    _, slash, name = model.replace(":", "/", 1).partition("/")
    words = parts_of_name(name if slash else model)
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", folded(text)) for word in words)


def workers_named(text: str) -> set[str]:
    """The fields of the workers that a text names."""
    return {field for name, field in WORKER_NAMES.items() if _says(text, (name,))}


def parts_of_name(model: str) -> list[str]:
    """The words of a model's name that tell it from others."""
    return [part for part in re.split(r"[\W_]+", folded(model)) if len(part) > 1 and not part.isdigit()]


def wants_value(text: str, field: str, value: object) -> bool:
    """Whether a text asks for a setting: it speaks of the matter, and if it has numbers, of that one."""
    numbers = numbers_in(text)
    if numbers and isinstance(value, (int, float)) and not isinstance(value, bool) and value not in numbers:
        return False
    topic = TOPICS.get(field.rpartition(".")[2])
    return topic is None or _asks(text, (topic,))


def numbers_in(text: str) -> set[float]:
    """The numbers of a text; 30k and 30,000 are one."""
    found: set[float] = set()
    for digits, thousands in _NUMBER.findall(text):
        for written in {
            digits,
            digits.replace(",", "").replace("'", ""),
            re.sub(r"[.,'](?=\d{3}\b)", "", digits),
        }:
            try:
                found.add(float(written) * (1000 if thousands else 1))
            except ValueError:
                continue
    return found


def is_yes(text: str) -> bool:
    """Whether a message begins with a consent and takes nothing of it back."""
    first = next(iter(sentences(text)), "")[:LONGEST_YES]
    found = _find(first, ("yes",))
    leads = "" if found is None else folded(first)[: found.start]
    return found is not None and not leads.strip(" ,.!") and not _says(first, ("neg", "reservation"))


def question_in(text: str) -> str:
    """The last question of a message."""
    return next((s for s in reversed(list(sentences(text))) if s.rstrip().endswith("?")), "")


def orders_to_save(text: str) -> list[str]:
    """The sentences of an agent's instructions that speak of saving what is remembered."""
    return [sentence for sentence in sentences(text) if _says(sentence, ORDERS_TO_SAVE)]


def about_observations(text: str) -> list[str]:
    """The sentences of an agent's instructions that speak of observations, which are made without it."""
    return [sentence for sentence in sentences(text) if _says(sentence, ABOUT_OBSERVATIONS)]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; a line that breaks within one does not end it, nor does what nobody sees."""
    plain = _BROKEN_LINE.sub(" ", without_unseen(text[:LONGEST_TEXT]))
    yield from filter(None, (sentence.strip() for sentence in _NEXT_SENTENCE.split(plain)))


def _asks(text: str, rules: Sequence[str]) -> bool:
    """Whether a sentence says it, and nothing in its clause denies it."""
    return any(_is_asked(folded(sentence), rules) for sentence in sentences(text))


def _is_asked(sentence: str, rules: Sequence[str]) -> bool:
    found = _find(sentence, rules)
    if found is None:
        return False
    before = [match.end() for match in _CLAUSES.finditer(sentence, 0, found.start)]
    return not _says(sentence[before[-1] if before else 0 : found.end], DENIED)


def _says(text: str, rules: Sequence[str]) -> bool:
    return _find(text, rules) is not None


def _find(text: str, rules: Sequence[str]) -> Found | None:
    return _phrases(tuple(rules)).find(folded(text[:LONGEST_TEXT]))


@cache
def _phrases(rules: tuple[str, ...]) -> Phrases:
    if rules not in (DENIED, OFF, NOT_OFF):
        return Phrases(_languages(), rules)
    hiding = {
        language: {**classes, "nothing": [*classes.get("nothing", ()), *classes.get("not_denied", ())]}
        for language, classes in _languages().items()
    }
    return Phrases(hiding, rules)


@cache
def _languages() -> Mapping[str, Mapping[str, Sequence[str]]]:
    text = resources.files("casenotes.builder").joinpath("data", "words.json").read_text("utf-8")
    languages: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(text)
    return languages

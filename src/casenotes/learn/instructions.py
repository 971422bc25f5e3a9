"""Say whether a memory entry reads like an order to an agent instead of a record of something that happened.

Orders give themselves away by a shape or by a sequence of words. data/instructions.json holds, by language, the
classes of words that the rules speak of; how rules are read stands in `phrases`. Which rule is fulfilled first
decides the reason. What is written in a cipher, or said in words of its own without ever addressing the reader,
passes: this is a filter for what is shown unasked, not a judge of what is true.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, cast

from casenotes.learn.disguise import HEAD, readings
from casenotes.learn.forged import forged_in
from casenotes.learn.phrases import Phrases

Reason = Literal["order_to_agent", "tool_call", "data_sink", "delayed_trigger"]

MOST_WORDS = 160
"""So many characters of the telling words are given."""

RULES: Mapping[Reason, Sequence[str]] = {
    "delayed_trigger": (
        "if ~3 user ~12 asks ~25 ^say/do/dont/dictate/act_as",
        "if ~3 user ~12 asks ~25 urge/say_you",
        "if ~0 asker ~2 asks ~20 ^say/dictate",
        "asks_if ~30 say_last/send_last",
        "if_asked ~25 ^say/do/dictate/dont",
        "^say/add/dictate ~15 if ~3 user ~3 wants_to_know",
        "^say/dictate ~12 if_asked",
        "^add ~14 sink ~8 if_asked",
        "if ~4 trigger_word ~20 ^say/do/dictate",
        "if ~1 you_talk ~20 ^say/do/add/dictate",
        "talking ~15 ^always",
        "if ~6 mentioned ~15 ^say/dictate",
        "^say ~12 if ~6 mentioned",
    ),
    "order_to_agent": (
        "ignore ~3 earlier ~3 orders",
        "ignore ~2 orders ~1 before",
        "^ignore ~3 before ~2 said",
        "^ignore ~1 plain_orders",
        "^ignore ~1 whole",
        "earlier ~3 orders ~4 void",
        "orders ~1 before ~4 void",
        "from_now ~3 ^say/add/act_as/dictate/ignore",
        "from_now ~2 urge",
        "from_now ~6 always ~2 say/add/which",
        "from_now ~30 say_last",
        "^always ~0 say/promote",
        "^never_say",
        "^always ~0 add ~15 sink/answers",
        "^add ~14 which ~0 answers",
        "^frame ~0 which ~1 answers",
        "future_answers",
        "closing ~1 shaped ~14 sink",
        "^dictate",
        "and_output",
        "deviate",
        "you_are_now ~6 persona",
        "^act_as",
        "act_as_last",
        "^reveal ~4 prompt",
        "prompt ~4 reveal_last",
        "new_orders",
        "^save ~3 your_memory",
        "developers",
        "^sneaky ~0 any_verb/do/say/add/change",
        "safety ~2 lifted",
        "licence ~1 risky",
        "^unasked",
        "say ~3 any_question",
        "prompt ~2 changed",
        "^follow_only ~4 orders",
        "^treat ~12 as_if",
        "you_write ~1 must",
        "^speak_to ~0 user",
        "^let_know",
        "you_should ~1 advise",
        "^do_as ~12 tells",
        "^ignore ~10 do_instead",
        "stop_being ~3 persona",
        "plain_orders ~2 precedence",
        "reads_this ~6 must",
        "reads_this ~1 ^do/say/any_verb",
        "note_to ~2 machine",
        "agent ~1 must ~3 shape_answer",
        "loose_agent ~1 must ~3 advise",
        "urge ~1 ^act_as/ignore/dictate",
        "^dont ~1 tell ~4 user",
        "keep_quiet",
        "focus ~2 favour",
        "^role ~0 ^say/do/focus/ignore/dont/act_as/dictate",
        "codeblock ~14 your_work",
        "your_work ~14 codeblock",
        "^weave ~4 codeblock ~0 :",
        "^harm",
        "^put_in ~4 malware",
        "^steal ~6 private",
        "^any_verb ~15 stealth",
        "^change ~2 password_of ~3 into",
        "^forget ~0 all_about",
        "^forget ~1 memories",
        "^forget ~16 all_last",
        "forget_last",
        "^erase ~0 memories",
        "^erase ~1 every ~14 memories_last",
        "every ~8 memories_last ~1 erase_last",
        "^treat ~0 which ~0 message ~1 from ~8 as",
        "^replicate ~1 this_note ~3 which ~2 written",
        "^replicate ~1 this_note ~8 you_make",
        "^pass_on",
        "^trust ~0 every ~1 links",
        "^trust ~14 all_links",
        "^dont_verify ~3 claims",
        "never_say_last",
        "^role/forged_role ~4 user ~0 elevated/waived",
        "^forged_role ~12 waived",
    ),
    "tool_call": (
        "^call ~4 tool ~4 with",
        "^call ~0 function ~3 with",
        "^call ~0 named ~2 with",
        "^use/run ~0 function ~1 named ~1 on_what",
        "^use ~0 function ~2 on_what ~6 their_data",
        "^use ~4 tool ~0 to_do",
        "^run ~0 what ~2 script ~3 sink",
    ),
    "data_sink": (
        "^send ~25 sink",
        "^send_noun ~0 what ~25 sink",
        "^ba ~20 send_to ~4 sink",
        "sink ~3 send_last",
        "^pay ~6 money/amount ~12 number",
        "^pay ~0 all_money",
        "^change ~8 payee ~12 sink",
        "secret ~8 must_be_sent ~8 sink",
        "^steal ~6 secret ~15 sink",
    ),
}
COURTESIES = """
    find note let see feel contact reach remember refer keep accept do don't be allow bear call consider forgive
    excuse know is was help give tell reply respond check read visit wait stay
"""
_ASKS = rf"(?:please|kindly) (?!(?:{'|'.join(COURTESIES.split())})\b)[a-z]{{2,20}}\b"
_REQUEST = re.compile(rf"\W{{0,20}}(?:\w{{1,12}}[:!]{{1,3}} )?{_ASKS}[^.!?\n]{{0,300}}")
_OWN = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b")


class Instruction(NamedTuple):
    """Why an entry reads like an instruction, and the words that say so, as they were read."""

    reason: Reason
    words: str


def instruction_in(text: str) -> Instruction | None:
    """What makes a text an instruction to an agent; None if it may be a record."""
    for reading in readings(text, _spelled()):
        if found := _shaped(reading) or _ruled(reading) or _requested(reading):
            return found._replace(words=found.words.strip()[:MOST_WORDS])
    return None


def _shaped(text: str) -> Instruction | None:
    shape = forged_in(text)
    return shape and Instruction(cast(Reason, shape.reason), shape.words)


def _ruled(text: str) -> Instruction | None:
    found = _phrases().find(text)
    return found and Instruction(_reasons()[found.rule], text[found.start : found.end])


def _requested(text: str) -> Instruction | None:
    """A text that opens with a request is no record, unless its author asks for something of their own."""
    request = _REQUEST.match(text)
    is_own = request and _OWN.search(request.group())
    return Instruction("order_to_agent", request.group()) if request and not is_own else None


@cache
def _phrases() -> Phrases:
    file = resources.files("casenotes.learn").joinpath("data/instructions.json")
    return Phrases(json.loads(file.read_text("utf-8")), [rule for rules in RULES.values() for rule in rules])


@cache
def _reasons() -> Sequence[Reason]:
    return [reason for reason, rules in RULES.items() for _ in rules]


@cache
def _spelled() -> Mapping[str, list[str]]:
    """Words by their first letters, long ones first."""
    spelled: dict[str, list[str]] = defaultdict(list)
    for word in sorted(_phrases().words, key=lambda word: (-len(word), word)):
        if len(word) >= HEAD and word.isalpha():
            spelled[word[:HEAD]].append(word)
    return spelled

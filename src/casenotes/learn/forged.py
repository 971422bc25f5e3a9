"""Find what no record holds by its shape: forged roles and tags, tool calls, commands, links that carry data.

The text is one that `disguise` has read. Every pattern waits for one of its literals, and every step of it is
bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

NEAR = 300
"""How far behind the name of a tool its arguments are looked for."""

_ROLE = re.compile(
    r"<\|(?:im_start|im_end|system|user|assistant|end|begin|start|eot)[^>\n]{0,40}"
    r"|</?(?:system|assistant|sys|instructions?|prompt|developer)(?:[-_ ](?:message|prompt|reminder))?>"
    r"|<<sys>>|\[/?inst\]|\[/?system(?:[ _]\w{1,12})?\]|<end of (?:session|conversation|prompt|context)>"
    r"|#{2,9} ?\(?(?:system|instruction|new instruction|assistant)[ _]?(?:message|prompt)?s?[):]"
    r"|\b(?:begin|end)(?: of)? (?:system|developer) (?:message|prompt|instructions?)\b"
    r"|[(\[{]system[ _](?:message|prompt|note)[)\]}]"
)
_CALL = re.compile(
    r"</?(?:\w{1,12}:)?(?:tool_use|invoke|tool|(?:tool|function)[-_](?:call|result|response|output)s?)"
    r"(?:\s[^>\n]{0,80})?>"
    r"|<function=|<\|(?:tool|python_tag)|\[/?(?:tool_results|tool_calls|available_tools)\]"
    r"|\baction: ?[\w.-]{2,60}\s{1,4}action input: ?\S"
)
_COMMAND = re.compile(
    r"(?:\A|[:`$>]|\b(?:run|execute|paste|type|enter|launch|use|do|issue|and|then)(?: the command| this)?:?)"
    r"\s?[`'\"$]{0,3}\s?(?:sudo )?"
    r"(?:(?:curl|wget|iwr)\b[^|\n]{1,300}\|\s?(?:sudo )?(?:(?:ba|z|da|k)?sh|iex|python3?|perl)\b"
    r"|(?:echo|base64)\b[^|\n]{1,300}\|\s?(?:base64 -{1,2}d[^|\n]{0,40}\|\s?)?(?:ba|z|da)?sh\b"
    r"|bash -i\b[^\n]{0,20}/dev/tcp/|nc -[a-z]{0,6}e\b"
    r"|rm -(?:rf|fr|r -f)(?: --[a-z-]{1,20})? (?:/|~|/\*|\$home)(?!\S))"
)
_LINK = re.compile(
    r"!?\[[^\]\n]{0,200}\]\(\s?(?:https?:)?//[^)\s]{1,300}?[?&/=](?:\{|\[|<|%7b|\$\{?[a-z_])"
    r"|<img\b[^>\n]{0,80}\bsrc\s?=\s?[\"']?(?:https?:)?//[^>\s]{1,300}?[?&/=](?:\{|\[|<|\$\{?[a-z_])"
)
_TALK = (
    r"(?:(?:full|whole|entire|last|user)[-_+])?"
    r"(?:conversations?|chats?|history|transcripts?|messages?|prompts?|memory|memories|secrets?|tokens?|passwords?|credentials?|cookies?)(?:[-_+](?:history|log|logs|text|data|content|here))?"
)
_OF_USER = (
    r"(?:(?:user|your|first|last|full)[-_+]?)?"
    r"(?:names?|e?mails?|users?|data|question|answer|input|notes|context)"
)
_WHERE = r"(?:(?:https?:)?//[^)>\s\"']{1,300}?[?&])"
_SHOWS = (
    r"(?:\w{0,20}"
    r"(?:tab|view|page|mode|type|sort|order|by|section|action|topic|tag|style|logo|icon|label|format))"
)
_SEEKS = r"(?:q|s|query|search|term|keywords?|filter|category|ref|source|scope)"
_ENDS = r"(?=[&#)>\s\"']|\Z)"
_LOADED = (
    rf"(?:(?!{_SHOWS}=)[\w.-]{{1,40}}=(?:{_TALK}|{_OF_USER})?{_ENDS}"
    r"|(?:conversations?|chat|history|secrets?|passwords?)=)"
)
_FOLLOWED = rf"(?!(?:{_SHOWS}|{_SEEKS})=)[\w.-]{{1,40}}={_TALK}{_ENDS}"
_CARRIER = re.compile(
    rf"!\[[^\]\n]{{0,200}}\]\(\s?{_WHERE}{_LOADED}"
    rf"|<(?:img|iframe|embed|video|audio|source)\b[^>\n]{{0,80}}\bsrc\s?=\s?[\"']?{_WHERE}{_LOADED}"
    rf"|\[[^\]\n]{{0,200}}\]\(\s?{_WHERE}{_FOLLOWED}"
    rf"|<a\b[^>\n]{{0,80}}\bhref\s?=\s?[\"']?{_WHERE}{_FOLLOWED}"
)
"""Addresses whose query names what was said: an image is fetched unasked, a link may search for a word."""
_AGE = r"\((?:today|\d{1,4} (?:day|week|month|year)s? ago)(?:; another note says otherwise)?\)"
_NOTE = re.compile(
    rf"(?:\n ?|[.!?)\"'\]] )[-*\u2022] (?![0-9a-f]{{7}})[^\n]{{1,300}}?{_AGE}(?=\s?(?:\n|\Z|- ))"
    rf"|{_AGE} ?\n ?[-*\u2022] (?![0-9a-f]{{7}})"
    rf"|\b(?:user|assistant|system) said: \"[^\"\n]{{0,300}}\" {_AGE}"
)
"""Lines as our blocks have them, with an age; the log of a repository has a hash before its subject."""
_SHAPES: Sequence[tuple[str, Sequence[str], re.Pattern[str]]] = (
    ("order_to_agent", ("<", "[", "##", "system"), _ROLE),
    ("tool_call", ("<", "action", "["), _CALL),
    ("tool_call", ("curl", "wget", "base64", "/dev/tcp", "rm -", "iwr", "nc -"), _COMMAND),
    ("data_sink", ("](", "<img"), _LINK),
    ("data_sink", ("](", "src", "href"), _CARRIER),
    ("order_to_agent", ("ago)", "(today", "ago;"), _NOTE),
)
_CLOSING = re.compile(
    r"</ ?((?:known-|session-)?memory|user-profile|observations|episodes|plan|transcript|value|description) ?>"
)
_TOOL_NAME = re.compile(r"[\"'](?:name|tool|tool_name|function|recipient_name)[\"']\s?:\s?[\"'{]")
_TOOL_INPUT = re.compile(r"[\"'](?:arguments|args|parameters|tool_input|action_input)[\"']\s?:\s?[\"'{\[]")
_SPEAKER = re.compile(r"(?:\A|(?<=[\n.!?>\"])) ?(?:(assistant|ai)|user|human) ?:")


class Shape(NamedTuple):
    """What a part of a text is by its shape, and that part."""

    reason: str
    words: str


def forged_in(text: str) -> Shape | None:
    """The first shape that no record has."""
    return next((Shape(reason, words) for reason, words in _shapes(text)), None)


def _shapes(text: str) -> Iterator[tuple[str, str]]:
    for reason, literals, pattern in _SHAPES:
        if any(map(text.__contains__, literals)) and (match := pattern.search(text)):
            yield reason, match.group()
    yield from (("tool_call", words) for words in _json_calls(text))
    yield from (("order_to_agent", words) for words in chain(_closings(text), _dialogues(text)))


def _json_calls(text: str) -> Iterator[str]:
    """Objects that name a tool and its arguments."""
    for match in _TOOL_NAME.finditer(text):
        if _TOOL_INPUT.search(text, match.end(), match.end() + NEAR):
            yield text[match.start() : match.end() + NEAR]


def _closings(text: str) -> Iterator[str]:
    """Tags that close a block of ours and that nothing opened before; a piece of somebody's XML has both."""
    opened: dict[str, int] = {}
    for match in _CLOSING.finditer(text) if "</" in text else ():
        name = match[1]
        if name not in opened:
            opened[name] = text.find(f"<{name}")
        if not 0 <= opened[name] < match.start():
            yield match.group()


def _dialogues(text: str) -> Iterator[str]:
    """Turns of both sides, as if the conversation had gone on."""
    before = None
    for speaker in _SPEAKER.finditer(text) if ":" in text else ():
        if before and bool(before[1]) != bool(speaker[1]):
            yield text[before.start() : speaker.end()]
        before = speaker

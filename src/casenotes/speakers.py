"""Names of people who speak, read from a message's metadata; roles and kinds of documents are no names.

`metadata["speaker"]` names who said a message. Imports keep a name as `name`, as OpenAI and LangChain call
it, and a role that is none of ours as `role`; both are read if nobody wrote `speaker`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from casenotes.characters import BLANK, UNSEEN
from casenotes.masking import mask
from casenotes.types import SPEAKERS, Message, Role

MAX_NAME = 64
NAME_KEYS = ("speaker", "name", "role")
ROLE_WORDS: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "agent": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "llm": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""What others call the four roles, in lower case."""

NOBODY = frozenset(
    """
    anonymous article case chunk code comment content data description doc docs document email entry environment
    event faq file log logs mail message none note notes null other page passage post record report runbook
    snippet source summary text ticket transcript undefined unknown wiki
    """.split()
)
"""Kinds of text, and words for nobody in particular, that files write where a speaker could stand."""

NAME_MARKS = " .,'’·&@/()+#_-"
"""What may stand in a name besides letters, marks and digits."""

_UNSEEN = re.compile(f"[{UNSEEN}\ud800-\udfff]+")
_BLANKS = re.compile(f"[{BLANK}]+")


def role_of(given: object) -> Role | None:
    """The role that a word stands for, in any case of letters; None if it is none of ours."""
    return ROLE_WORDS.get(given.strip().lower()) if isinstance(given, str) else None


def speaker_name(role: str, metadata: Mapping[str, Any]) -> str | None:
    """Who said a message, by name: one line of plain characters; None if nobody is named."""
    if not metadata or role not in SPEAKERS:
        return None
    given = next((metadata[key] for key in NAME_KEYS if metadata.get(key)), None)
    return _clean_name(given) if isinstance(given, str) and len(given) <= 4 * MAX_NAME else None


def name_of(message: Message) -> str | None:
    """Who said a message, by name."""
    return speaker_name(message.role, message.metadata)


def searched_text(speaker: str | None, text: str) -> str:
    """What search reads of a message, without secrets: `Ana: …`, or the text alone if nobody is named.

    Each is masked by itself: what stands before a text must not change what is a secret in it.
    """
    return f"{mask(speaker)}: {mask(text)}" if speaker and text.strip() else mask(text)


@lru_cache(maxsize=4096)
def _clean_name(given: str) -> str | None:
    """A name without what could be read as anything but a name."""
    line = _BLANKS.sub(" ", _UNSEEN.sub("", given))
    plain = "".join(c if c in NAME_MARKS or unicodedata.category(c)[0] in "LMN" else " " for c in line)
    name = " ".join(plain.split())
    if len(name) > MAX_NAME:
        name = name[:MAX_NAME].rstrip() + "…"
    word = name.lower()
    is_name = any(map(str.isalpha, name)) and word not in ROLE_WORDS and word not in NOBODY
    return name if is_name else None

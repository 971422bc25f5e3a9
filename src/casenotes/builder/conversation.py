"""What was said while an agent was set up, and which wish a quote of the user's proves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from casenotes.builder.words import is_yes, question_in, sentences, takes_back
from casenotes.config.rules import shown
from casenotes.learn.evidence import find_quote, passage
from casenotes.types import Evidence, Message

BORDER = re.compile(r"(?<=[.!?])\s+(?=[^a-zà-ÿ\s])|\n\s*\n|\n(?=\s*(?:[-*•#>]|\d+[.)]))")
"""Where a sentence ends for certain; what is joined in doubt is judged together."""


class Wish(NamedTuple):
    """Words of the user: the quote, its whole sentences, and the question that they say yes to if they do."""

    words: str
    said: str
    question: str
    position: int

    @property
    def told(self) -> str:
        """The sentences as refusals name them."""
        return shown(self.said.strip())

    def means(self, says: Callable[[str], bool]) -> bool:
        """Whether the sentences say it, or are a consent to a question that does."""
        return says(self.said) or bool(self.question and says(self.question))


class Conversation:
    """The messages of one conversation, in order. Only what the user said can be quoted."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages = list(messages)

    @property
    def of_user(self) -> str:
        """All that the user said."""
        return "\n".join(message.text for message in self.messages if message.role == "user")

    def wishes(self, quote: str) -> list[Wish]:
        """The wishes that a quote proves, newest first: it must be exact words of one message of the user.

        A quote too short to prove anything counts only if it is the whole message.
        """
        found = [self._wish(number, quote) for number in reversed(range(len(self.messages)))]
        return [wish for wish in found if wish]

    def _wish(self, number: int, quote: str) -> Wish | None:
        message = self.messages[number]
        if message.role != "user" or not quote:
            return None
        evidence = find_quote(quote, [passage(Message("user", message.text, id=str(number)))])
        if evidence is None:
            return None
        said = _whole_sentences(message.text, evidence)
        agrees = is_yes(message.text) and said.lstrip().startswith(next(iter(sentences(message.text)), "")[:12])
        return Wish(evidence.quote, said, self._question_before(number) if agrees else "", number)

    def was_taken_back(self, wish: Wish) -> bool:
        """Whether the user said later that what was said before does not count."""
        return any(map(takes_back, self.later(wish)))

    def _question_before(self, number: int) -> str:
        before = self.messages[number - 1] if number else None
        return question_in(before.text) if before and before.role == "assistant" else ""

    def later(self, wish: Wish) -> Iterator[str]:
        """What the user said afterwards."""
        yield from (message.text for message in self.messages[wish.position + 1 :] if message.role == "user")


def _whole_sentences(text: str, evidence: Evidence) -> str:
    """The sentences that a quote is part of: a piece of one may leave out its `not`."""
    borders = [match.start() for match in BORDER.finditer(text)]
    start = max((border for border in borders if border <= evidence.start), default=0)
    end = min((border for border in borders if border >= evidence.end), default=len(text))
    return text[start:end]

"""What was said while an agent was set up, and whether a quote of the user's is really there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from casenotes.learn.evidence import find_quote, passage
from casenotes.types import Message


class Wish(NamedTuple):
    """A quote of the user's: its words, and, if they are a whole message, the question that they answer."""

    words: str
    question: str = ""


class Conversation:
    """The messages of one conversation, in order. Only what the user said can be quoted."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages = list(messages)

    def wish(self, quote: str) -> Wish | None:
        """The wish that a quote proves: exact words of one message of the user; None if it is not there.

        A quote too short to prove anything counts only if it is the whole message.
        """
        question = ""
        for number, message in enumerate(self.messages):
            if message.role == "user":
                heard = passage(Message("user", message.text, id=str(number)))
                if evidence := find_quote(quote, [heard]):
                    return Wish(evidence.quote, question if heard.text.is_whole(quote) else "")
            question = message.text if message.role == "assistant" else ""
        return None

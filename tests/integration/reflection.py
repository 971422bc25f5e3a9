"""A model that learns what it is told and corrects as it is told, for tests of corrections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from conversation import entry, said_in

from casenotes.testing import ScriptedModel

Notes = dict[str, str]
Answer = Callable[[Notes], dict[str, Any]]


def notes_in(prompt: str) -> Notes:
    """Ids of the notes that the reflector was shown, by their content."""
    found = re.search(r"<notes>\n(.*)\n</notes>", prompt, re.DOTALL)
    assert found
    return {note["content"]: note["id"] for note in json.loads(found[1])}


def learning(facts: Mapping[str, dict[str, Any]], reflect: Answer) -> ScriptedModel:
    """Proposes the entry of every key that occurs in the turn; `reflect` gets ids by content."""

    def answer(request: Any) -> dict[str, Any]:
        if request.task == "reflect_entries":
            return reflect(notes_in(request.prompt))
        return {"entries": [item for key, item in facts.items() if key in said_in(request.prompt)]}

    return ScriptedModel(answer)


def stating(*texts: str) -> dict[str, dict[str, Any]]:
    """Facts that are stored in the words in which they are said."""
    return {text: entry(text, text) for text in texts}


def supersedes(old: str, new: str, quote: str) -> Answer:
    """Proposes a correction as soon as both notes are shown."""

    def answer(notes: Notes) -> dict[str, Any]:
        if old not in notes or new not in notes:
            return {}
        return {"supersede": [{"old": notes[old], "new": notes[new], "evidence": quote}]}

    return answer

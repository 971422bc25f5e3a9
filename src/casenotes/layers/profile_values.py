"""What may stand in a field of the profile: one line of text without secrets that is no order to the agent.

The profile is in front of every model call, so an order that gets into it works for good. Whatever reads like
one is refused (`learn.instructions`), with an exception: preferences are wishes, and wishes are often written
as orders. In a field whose section or name speaks of preferences, style, tone, language or format
- politeness counts for nothing: `Please use metric units` is judged without its `please`;
- an order that speaks of nothing but the form of answers passes: `Always answer in German`. All its words are
  on a list that has no word for a product, a person, an address, a tool or a deed, so that whatever order can
  be made of them is about language, length and layout.
Everything else can be said as a fact (`Prefers …`), and the refusal says so.
"""

from __future__ import annotations

import re

from casenotes.errors import UsageError
from casenotes.learn.instructions import instruction_in
from casenotes.learn.normalise import collapse, is_visible
from casenotes.masking import mask
from casenotes.types import text_problem

_HEADING = re.compile(r"^\s{0,3}#{1,6}\s", re.MULTILINE)
_FIELD_LINE = re.compile(r"(?:^|\s)[-*+]\s+\*\*[^*\n]{1,100}\*\*\s*:|(?:^|\s)[-*+]\s+\*\*[^*\n]{1,100}:\*\*")
_ABOUT_FORM = re.compile(r"prefer|style|tone|language|format")
_POLITE = re.compile(r"\W{0,5}(?:please|kindly)\b[\s,:]*", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_PLAIN_WORDS = frozenset(
    """
    a all also always an and any as at be before both by do don't each either every first for from i if in
    instead is it keep like me more my never no not now of on only or other please prefer prefers rather than
    the their them then they this to too use user uses using want wants when with without you your
    answer answers answering begin close end explain explanation explanations finish format formatted message
    messages output put reply replies respond response responses sentence sentences show speak start summarise
    summarize talk text texts translate word words write writing
    """.split()
)
_FORM_WORDS = frozenset(
    """
    brief briefly bullet bullets bulleted casual code colloquial compact concise concisely conclusion
    conclusions detail detailed details direct directly dot emoji emojis example examples extensive formal
    formally friendly headings imperial informal informally italics json language line lines list lists long
    longer markdown metric numbered outline paragraph paragraphs plain point points polite prose short shorter
    shortest simple simply snippet snippets step steps style summaries summary table tables terse tersely title
    titles tone units yaml
    american arabic british bulgarian chinese croatian czech danish dutch english estonian finnish french german
    greek hebrew hindi hungarian indonesian italian japanese korean latvian lithuanian norwegian persian polish
    portuguese romanian russian serbian slovak slovenian spanish swedish thai turkish ukrainian vietnamese
    """.split()
)


class PatchRefused(UsageError):
    """A change of the profile that is not made; its text tells a model why, and what to do instead.

    `noted` says it without what the profile holds, which may stem from a thread that is erased one day.
    """

    def __init__(self, text: str, noted: str = "") -> None:
        super().__init__(text)
        self.noted = noted or text


def cleaned(value: object, max_characters: int) -> str:
    """The value as it is stored."""
    if not isinstance(value, str):
        raise PatchRefused(f"value is {type(value).__name__}; give it as text")
    if problem := text_problem(value):
        raise PatchRefused(f"value {problem}")
    _refuse_document(value)
    text = collapse(value)
    if not is_visible(text):
        raise PatchRefused("value is empty; give a text, or use remove to clear the field")
    _refuse_long(text, max_characters)
    text = mask(collapse(mask(value)))
    _refuse_long(text, max_characters)
    return text


def _refuse_document(value: str) -> None:
    if _HEADING.search(value) or len(_FIELD_LINE.findall(value)) > 1:
        raise PatchRefused(
            "value looks like a whole document; the profile is changed one field at a time, without headings"
        )


def _refuse_long(text: str, max_characters: int) -> None:
    if len(text) > max_characters:
        raise PatchRefused(
            f"value has {len(text)} characters and at most {max_characters} are allowed; say it in fewer words "
            "or in several short values"
        )


def refuse_order(text: str, section: str, name: str) -> None:
    """Raise if a value reads like an order to the agent and is no ordinary preference."""
    is_preference = _ABOUT_FORM.search(f"{section} {name}".casefold()) is not None
    wish = _POLITE.sub("", text, count=1) if is_preference and _POLITE.match(text) else text
    found = instruction_in(wish)
    if found and not (is_preference and found.reason == "order_to_agent" and is_about_form(wish)):
        raise PatchRefused(
            f"value reads like an order to the agent ({found.words[:80]!r}); the profile holds facts about the "
            "user. If it is a wish of the user, write it as one: 'Prefers …'"
        )


def is_about_form(text: str) -> bool:
    """Whether a text speaks of the form of answers, and of nothing else."""
    words = [word.replace("\u2019", "'") for word in _WORD.findall(text.casefold())]
    only = all(word.isdecimal() or word in _PLAIN_WORDS or word in _FORM_WORDS for word in words)
    return only and any(word in _FORM_WORDS for word in words)

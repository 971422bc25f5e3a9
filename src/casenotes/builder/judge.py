"""The rules of setting up memory, as code: what a change must have so that it may be made.

Everything here is a function of the configuration before and after, of what was said, and of what the host has
given out. Settings are compared by their effect: a section that is left out, empty or taken away may switch
something on or off. An assistant that ignores its guidance is refused with the rule it broke.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from casenotes.builder.conversation import Conversation, Wish
from casenotes.builder.grants import (
    EMBEDDING_PROVIDER,
    EMBEDDINGS,
    STORAGE,
    WORKERS,
    Grants,
    credential_in,
    provider_of_model,
)
from casenotes.builder.words import (
    about_observations,
    is_named,
    kinds_named,
    orders_to_save,
    speaks_of,
    wants_episodic,
    wants_model,
    wants_off,
    wants_on,
    wants_value,
    workers_named,
)
from casenotes.config.json_names import EPISODIC, OBSERVATIONAL, ROOT, RUN, SIMILAR, TURN
from casenotes.config.json_read import Problem, read_json
from casenotes.config.json_update import leaves
from casenotes.config.rules import shown
from casenotes.config.settings import HOST_STORAGE
from casenotes.credentials import shown_id

INSTRUCTIONS = "instructions"
ON = f"{EPISODIC}.enabled"
SWITCHES = ("enabled", f"{OBSERVATIONAL}.enabled", ON, f"{SIMILAR}.enabled", f"{EPISODIC}.autoInject")
ASK_FIRST = "call ask_credential(credential_type='openAiApi', purpose='episodicMemory.credential') first"
QUOTE = "give an exact quote of what the user said, at least 12 characters or a whole message"


@dataclass(frozen=True, slots=True)
class Change:
    """One field of `memory` with a new value, None to take it out, and the user's words that ask for it."""

    field: str
    value: Any
    user_request: str = ""

    def as_update(self) -> dict[str, Any]:
        """The change as a part of `memory`."""
        value = self.value
        for name in reversed(self.field.split(".")):
            value = {name: value}
        return dict(value)

    def names(self, path: str) -> bool:
        """Whether it gives that very field a value."""
        return path in flat(self.as_update(), with_switches=False)

    def reaches(self, path: str) -> bool:
        """Whether the field lies within what it changes."""
        own = self.field.replace(TURN, RUN)
        return f"{path}.".startswith(f"{own}.")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a change is judged by."""

    conversation: Conversation
    grants: Grants
    storage: str = HOST_STORAGE


def default_memory(storage: str = HOST_STORAGE) -> dict[str, Any]:
    """What a new agent gets."""
    return {"enabled": True, "storage": storage, OBSERVATIONAL: {"enabled": True}}


def flat(memory: Mapping[str, Any], *, with_switches: bool = True) -> dict[str, Any]:
    """Every value by path, under one of two names; with what is on or off by not being mentioned."""
    values = {path.replace(TURN, RUN): value for path, value in leaves(memory)}
    if with_switches:
        values.setdefault("enabled", True)
        values.setdefault(f"{OBSERVATIONAL}.enabled", True)
        for section in (EPISODIC, SIMILAR):
            values.setdefault(f"{section}.enabled", section in memory)
    return values


def changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ, with their new value; None for one that is gone."""
    old, new = flat(before), flat(after)
    paths = dict.fromkeys((*old, *new))
    return {path: new.get(path) for path in paths if not _is_same(old.get(path), new.get(path))}


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def judge(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    changes: Sequence[Change],
    facts: Facts,
    settled: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """The rules that a change of `memory` violates; what was wrong before is not held against it.

    `settled` are values that were accepted before, by path.
    """
    known = set(structure(before, facts.storage))
    problems = [problem for problem in structure(after, facts.storage) if problem not in known]
    changed = changed_values(before, after)
    open_ones = {path: value for path, value in changed.items() if not _is_settled(path, value, settled)}
    if flat(after)[ON] is True and (ON in open_ones or (_is_working(after) and not _is_working(before))):
        problems = [problem for problem in problems if problem.path != f"{ROOT}.{EMBEDDINGS}"]
        problems += _of_credential_in_use(after, facts.grants)
    for path, value in open_ones.items():
        problems += _of_field(path, value, _change_of(path, changes), facts)
    return list(dict.fromkeys(problems))


def _is_settled(path: str, value: Any, settled: Mapping[str, Any] | None) -> bool:
    return settled is not None and path in settled and _is_same(settled[path], value)


def _change_of(path: str, changes: Sequence[Change]) -> Change | None:
    """The change that a field's new value comes from: the last that names it, else that reaches it."""
    named = [change for change in changes if change.names(path)]
    reached = [change for change in changes if change.reaches(path)]
    return next(iter([*reversed(named), *reversed(reached)]), None)


def structure(memory: Mapping[str, Any], storage: str) -> list[Problem]:
    """What is wrong with `memory` in itself. The host may have a name of its own for its storage."""
    return read_json({ROOT: memory}, storage=storage).problems


def judge_instructions(text: str) -> list[Problem]:
    """Instructions may speak of using what is recalled, never of saving it or of observations."""
    saving = "; it is saved without the agent's doing, so speak only of using what is recalled"
    observing = "; session memory works by itself, leave it out"
    told = [("memory_writing", sentence, saving) for sentence in orders_to_save(text)]
    told += [("observations", sentence, observing) for sentence in about_observations(text)]
    return [Problem(INSTRUCTIONS, rule, f"say {shown(sentence)}{remedy}") for rule, sentence, remedy in told]


def judge_quote(quote: str, conversation: Conversation) -> tuple[str, str] | None:
    """What is wrong with the user's words that a change carries."""
    if not quote:
        return "no_user_request", f"was not asked for; {QUOTE}"
    if conversation.wishes(quote):
        return None
    return "user_request_not_found", (
        f"has the user_request {shown(quote)}, which no message of the user contains word for word; {QUOTE}"
    )


def _of_field(path: str, value: Any, change: Change | None, facts: Facts) -> Iterator[Problem]:
    """What one changed field violates."""
    place = f"{ROOT}.{path}"
    if broken := _credential_given(path, value, facts.grants) or _model_named(path, value, facts):
        yield Problem(place, *broken)
    quote = change.user_request if change else ""
    if broken := judge_quote(quote, facts.conversation):
        yield Problem(place, *broken)
        return
    broken_by_wish = [_broken(path, value, wish, facts) for wish in facts.conversation.wishes(quote)]
    if all(broken_by_wish):
        yield from (Problem(place, *broken) for broken in broken_by_wish[0])


def _broken(path: str, value: Any, wish: Wish, facts: Facts) -> list[tuple[str, str]]:
    """The rules that a change violates if this is the wish behind it."""
    broken = [rule(path, value, wish, facts.conversation) for rule in RULES]
    return [one for one in broken if one]


Broken = tuple[str, str] | None
"""A rule that is violated, and how."""


def _not_taken_back(path: str, value: Any, wish: Wish, conversation: Conversation) -> Broken:
    if not conversation.was_taken_back(wish):
        return None
    return "taken_back", f"was asked for by {wish.told} and then taken back; ask what counts"


def _episodic_on_request(path: str, value: Any, wish: Wish, conversation: Conversation) -> Broken:
    if path != ON or value is not True:
        return None
    if not wish.means(wants_episodic):
        return "episodic_not_requested", (
            f"is for those who ask for memory across conversations, and {wish.told} does not; "
            "ask the user whether the agent should remember earlier conversations, and quote the answer"
        )
    if any(wants_off(text) and _names(text, EPISODIC) for text in conversation.later(wish)):
        return "episodic_not_requested", "was asked for and then taken back; ask the user what counts"
    return None


def _names(text: str, section: str) -> bool:
    """Whether a text speaks of a kind of memory, or of memory in general."""
    named = kinds_named(text)
    return not named or section in named


def _off_on_request(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    if path not in SWITCHES or value is not False:
        return None

    def asks(text: str) -> bool:
        return wants_off(text) and _names(text, path.partition(".")[0])

    if wish.means(asks):
        return None
    return "off_not_requested", (
        f"is switched off, and {wish.told} does not ask for that; session memory and episodic "
        "memory do not replace each other"
    )


def _on_request(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    """What was switched off before."""
    is_switched_on = path in SWITCHES and path not in (ON, f"{SIMILAR}.enabled") and value is True
    if not is_switched_on or wish.means(wants_on):
        return None
    return "on_not_requested", f"is switched on, and {wish.told} does not ask for memory"


def _credential_on_request(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    if path != EMBEDDINGS or wish.means(lambda text: wants_episodic(text) or speaks_of(text, "credential")):
        return None
    return "credential_not_requested", (
        f"is changed, and {wish.told} asks neither for that nor for memory across conversations"
    )


def _session_is_not_episodic(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    if not path.startswith(OBSERVATIONAL) or not wish.means(wants_episodic) or wish.means(_of_session):
        return None
    return "session_is_not_episodic", (
        f"tunes session memory, and {wish.told} asks for memory across conversations, which is {EPISODIC}"
    )


def _of_session(text: str) -> bool:
    return OBSERVATIONAL in kinds_named(text) or wants_off(text)


def _worker_on_request(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    if path not in WORKERS:
        return None
    model = str(value.get("model")) if isinstance(value, Mapping) else ""

    def asks(text: str) -> bool:
        named = workers_named(text)
        return wants_model(text, model) and (not named or path.rpartition(".")[2] in named)

    if wish.means(asks):
        return None
    return "model_not_requested", (
        f"is set when the user asks for another model for it, and {wish.told} does not; leave "
        "it out, the agent's own model is used then"
    )


def _storage_on_request(path: str, value: Any, wish: Wish, conversation: Conversation) -> Broken:
    url = value.get("url") if isinstance(value, Mapping) else value
    if path != STORAGE:
        return None
    if isinstance(url, str) and "://" in url:
        if is_address_said(url, conversation.of_user):
            return None
        return "storage_not_requested", (
            "is an address that the user has not given; ask for it, or keep the storage as it is"
        )
    if wish.means(lambda text: speaks_of(text, "storage")):
        return None
    return "storage_not_requested", f"is changed, and {wish.told} does not speak of it"


def is_address_said(url: str, text: str) -> bool:
    """Whether a user has given an address: as it stands, or user, host, port and database by their names."""
    said = text.lower()
    if url.lower() in re.split(r"[\s'\"<>()]+", said.replace(". ", " ").rstrip(".")):
        return True
    try:
        parts = urlsplit(url.lower())
        names = [parts.username, parts.hostname, parts.port, parts.path.strip("/")]
    except ValueError:
        return False
    given = [str(name) for name in names if name]
    is_plain = parts.scheme.startswith("postgres") and parts.hostname and not parts.query
    return bool(is_plain) and all(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", said) for name in given)


def _tuned_on_request(path: str, value: Any, wish: Wish, _: Conversation) -> Broken:
    switched = path in SWITCHES and (path != f"{SIMILAR}.enabled" or value is False)
    if switched or path in (EMBEDDINGS, STORAGE, *WORKERS):
        return None
    if wish.means(lambda text: wants_value(text, path, value)):
        return None
    return "value_not_requested", (
        f"is set to {shown(value)}, and {wish.told} does not ask for that; quote the words "
        "that do, in a change of its own, or leave it as it is"
    )


RULES: tuple[Callable[[str, Any, Wish, Conversation], Broken], ...] = (
    _not_taken_back,
    _episodic_on_request,
    _on_request,
    _off_on_request,
    _credential_on_request,
    _session_is_not_episodic,
    _worker_on_request,
    _storage_on_request,
    _tuned_on_request,
)


def _credential_given(path: str, value: Any, grants: Grants) -> Broken:
    holds_one = (path == EMBEDDINGS and isinstance(value, str)) or (
        path in (*WORKERS, STORAGE) and isinstance(value, Mapping)
    )
    return _not_given(path, value, grants) if holds_one and not grants.allow(path, value) else None


def _model_named(path: str, value: Any, facts: Facts) -> Broken:
    """A model comes from the host, or from the user's own words with a credential of its provider."""
    if path not in WORKERS or not isinstance(value, Mapping) or facts.grants.has_pair(path, value):
        return None
    if is_named(str(value.get("model")), facts.conversation.of_user):
        return None
    return "model_not_requested", (
        f"is {shown(value.get('model'))}, which the user has not named; call resolve_llm or "
        f"ask_llm for {path!r}"
    )


def _not_given(path: str, value: Any, grants: Grants) -> tuple[str, str]:
    credential = credential_in(value)
    if path in grants.skipped:
        return "credential_skipped", (
            "has no credential, because the user skipped the question for one; make no change, and tell the "
            "user that it stays switched off until there is a credential"
        )
    remedy = ASK_FIRST
    if path != EMBEDDINGS:
        remedy = f"call ask_credential, resolve_llm or ask_llm for {path!r} first"
    purposes = grants.purposes_of(credential)
    if path in purposes:
        rule, why = "credential_of_another_provider", f"was not returned for {_who(path, value)}"
    elif purposes:
        rule, why = "credential_for_another_purpose", f"was returned for {purposes[0]}"
    else:
        rule, why = "credential_not_returned", "no tool has returned in this conversation"
    return rule, f"names {shown_id(str(credential))}, which {why}; {remedy}"


def _who(path: str, value: Any) -> str:
    """Whose key is needed."""
    if path in WORKERS:
        return f"{shown(value.get('model'))} of {provider_of_model(str(value.get('model')))}"
    return f"embeddings of {EMBEDDING_PROVIDER}" if path == EMBEDDINGS else "a PostgreSQL server"


def _of_credential_in_use(after: Mapping[str, Any], grants: Grants) -> Iterator[Problem]:
    """Who switches episodic memory on has asked for its credential in this conversation."""
    section = after.get(EPISODIC)
    credential = section.get("credential") if isinstance(section, Mapping) else None
    place = f"{ROOT}.{EMBEDDINGS}"
    if credential is None and EMBEDDINGS not in grants.skipped:
        yield Problem(place, "missing_credential", f"is missing; {ASK_FIRST}, and set what it returns")
    elif credential is None or not grants.allow(EMBEDDINGS, credential):
        yield Problem(place, *_not_given(EMBEDDINGS, credential, grants))


def _is_working(memory: Mapping[str, Any]) -> bool:
    """Whether episodic memory is on, and memory as a whole."""
    values = flat(memory)
    return values["enabled"] is True and values[ON] is True

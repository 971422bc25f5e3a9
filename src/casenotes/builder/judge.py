"""The rules of setting up memory, as code: what a change must have so that it may be made.

Everything here is a function of the configuration before and after, of what was said, and of what the host has
given out. An assistant that ignores its guidance is refused with the rule it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from casenotes.builder.conversation import Conversation, Wish
from casenotes.builder.grants import EMBEDDING_PROVIDER, EMBEDDINGS, STORAGE, WORKERS, Grants, provider_of_model
from casenotes.builder.words import (
    about_observations,
    is_yes,
    orders_to_save,
    wants_episodic,
    wants_model,
    wants_off,
    wants_session,
)
from casenotes.config.json_form import (
    EPISODIC,
    OBSERVATIONAL,
    ROOT,
    RUN,
    TURN,
    Problem,
    leaves,
    read_json,
)
from casenotes.config.rules import shown
from casenotes.credentials import shown_id

INSTRUCTIONS = "instructions"
DEFAULT_STORAGE = "n8n"
ASK_FIRST = "call ask_credential(credential_type='openAiApi', purpose='episodicMemory.credential') first"


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

    def covers(self, path: str) -> bool:
        """Whether it speaks of a field."""
        own = self.field.replace(TURN, RUN)
        return f"{path.replace(TURN, RUN)}.".startswith(f"{own}.")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a change is judged by."""

    conversation: Conversation
    grants: Grants
    storage: str = DEFAULT_STORAGE


def default_memory(storage: str = DEFAULT_STORAGE) -> dict[str, Any]:
    """What a new agent gets."""
    return {"enabled": True, "storage": storage, OBSERVATIONAL: {"enabled": True}}


def judge(
    before: Mapping[str, Any], after: Mapping[str, Any], changes: list[Change], facts: Facts
) -> list[Problem]:
    """The rules that a change of `memory` violates; what was wrong before is not held against it."""
    known = set(structure(before, facts.storage))
    problems = [problem for problem in structure(after, facts.storage) if problem not in known]
    changed = dict(_changed(before, after))
    if _is_on(after) and not _is_on(before):
        changed[f"{EPISODIC}.enabled"] = True
        problems += _of_credential_in_use(after, facts)
    for path, value in changed.items():
        change = next((change for change in reversed(changes) if change.covers(path)), None)
        problems += _of_field(path, value, change, facts)
    return list(dict.fromkeys(problems))


def structure(memory: Mapping[str, Any], storage: str) -> list[Problem]:
    """What is wrong with `memory` in itself. The host may have a name of its own for its storage."""
    return read_json({ROOT: memory}, storage=storage).problems


def judge_instructions(text: str) -> list[Problem]:
    """Instructions may speak of using what is recalled, never of saving it or of observations."""
    saving = "; it is saved without the agent's doing, so speak only of using what is recalled"
    observing = "; session memory works by itself, leave it out"
    return [
        *(Problem(INSTRUCTIONS, "memory_writing", f"say {shown(s)}{saving}") for s in orders_to_save(text)),
        *(
            Problem(INSTRUCTIONS, "observations", f"say {shown(s)}{observing}")
            for s in about_observations(text)
        ),
    ]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields that differ, with their new value; None for one that is gone."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for path in dict.fromkeys((*old, *new)):
        was, now = old.get(path), new.get(path)
        is_same = was == now and isinstance(was, bool) == isinstance(now, bool)
        if not is_same and not _is_other_name(path, new):
            yield path, now


def _is_other_name(path: str, new: Mapping[str, Any]) -> bool:
    """Whether a field is gone because its other name took its place."""
    other = path.replace(TURN, RUN) if TURN in path else path.replace(RUN, TURN)
    return path not in new and other in new


def _of_field(path: str, value: Any, change: Change | None, facts: Facts) -> Iterator[Problem]:
    """What one changed field violates."""
    place = f"{ROOT}.{path}"
    if broken := _credential_given(path, value, facts.grants):
        yield Problem(place, *broken)
    wish = facts.conversation.wish(change.user_request) if change and change.user_request else None
    if wish is None:
        yield Problem(place, *_without_wish(change))
        return
    for rule in RULES:
        if broken := rule(path, value, wish):
            yield Problem(place, *broken)


def _without_wish(change: Change | None) -> tuple[str, str]:
    if change is None or not change.user_request:
        return "no_user_request", "was not asked for; give user_request, an exact quote of what the user said"
    return "user_request_not_found", (
        f"has the user_request {shown(change.user_request)}, which no message of the user contains word for "
        "word; quote one exactly, at least 12 characters or a whole message"
    )


Broken = tuple[str, str] | None
"""A rule that is violated, and how."""


def _episodic_on_request(path: str, value: Any, wish: Wish) -> Broken:
    is_switched_on = path == f"{EPISODIC}.enabled" and value is True
    if not is_switched_on or _means(wish, wants_episodic):
        return None
    return "episodic_not_requested", (
        f"is for those who ask for memory across conversations, and {shown(wish.words)} does not; ask the user "
        "whether the agent should remember earlier conversations"
    )


def _off_on_request(path: str, value: Any, wish: Wish) -> Broken:
    if not path.endswith("enabled") or value is not False or _means(wish, wants_off):
        return None
    return "off_not_requested", (
        f"is switched off, and {shown(wish.words)} does not ask for that; session memory and episodic "
        "memory do not replace each other"
    )


def _session_is_not_episodic(path: str, value: Any, wish: Wish) -> Broken:
    if not path.startswith(OBSERVATIONAL) or not _means(wish, wants_episodic) or _means(wish, _of_session):
        return None
    return "session_is_not_episodic", (
        f"tunes session memory, and {shown(wish.words)} asks for memory across conversations; that is "
        f"{EPISODIC}"
    )


def _of_session(text: str) -> bool:
    return wants_session(text) or wants_off(text)


def _worker_on_request(path: str, value: Any, wish: Wish) -> Broken:
    if path not in WORKERS or not isinstance(value, Mapping):
        return None
    if _means(wish, lambda text: wants_model(text, str(value.get("model")))):
        return None
    return "model_not_requested", (
        f"is set when the user asks for another model, and {shown(wish.words)} does not; leave it out, the "
        "agent's own model is used then"
    )


def _credential_given(path: str, value: Any, grants: Grants) -> Broken:
    holds_one = path in (EMBEDDINGS, *WORKERS) or (path == STORAGE and isinstance(value, Mapping))
    if not holds_one or value is None or grants.covers(path, value):
        return None
    return _not_given(path, value, grants)


def _not_given(path: str, value: Any, grants: Grants) -> tuple[str, str]:
    credential = value.get("credential") if isinstance(value, Mapping) else value
    if path in grants.skipped:
        return "credential_skipped", (
            "has no credential, because the user skipped the question for one; leave it as it is, and tell "
            "the user that it stays switched off until there is a credential"
        )
    remedy = (
        ASK_FIRST if path == EMBEDDINGS else f"call ask_credential, resolve_llm or ask_llm for {path!r} first"
    )
    purposes = grants.purposes_of(credential)
    if path in purposes:
        return "credential_of_another_provider", (
            f"names {shown_id(str(credential))}, which was not returned for {_who(value)}; {remedy}"
        )
    if purposes:
        return "credential_for_another_purpose", (
            f"names {shown_id(str(credential))}, which was returned for {purposes[0]}; {remedy}"
        )
    return "credential_not_returned", (
        f"names {shown_id(str(credential))}, which no tool has returned in this conversation; {remedy}"
    )


def _who(value: Any) -> str:
    """Whose key is needed."""
    if isinstance(value, Mapping):
        return f"{shown(value.get('model'))} of {provider_of_model(str(value.get('model')))}"
    return f"embeddings of {EMBEDDING_PROVIDER}"


def _of_credential_in_use(after: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """Who switches episodic memory on has asked for its credential in this conversation."""
    credential = after[EPISODIC].get("credential")
    if credential is None:
        if EMBEDDINGS in facts.grants.skipped:
            yield Problem(f"{ROOT}.{EMBEDDINGS}", *_not_given(EMBEDDINGS, None, facts.grants))
    elif not facts.grants.covers(EMBEDDINGS, credential):
        yield Problem(f"{ROOT}.{EMBEDDINGS}", *_not_given(EMBEDDINGS, credential, facts.grants))


def _is_on(memory: Mapping[str, Any]) -> bool:
    section = memory.get(EPISODIC)
    return isinstance(section, Mapping) and section.get("enabled", True) is True


def _means(wish: Wish, says: Callable[[str], bool]) -> bool:
    """Whether the words say it, or are a consent to a question that does."""
    return says(wish.words) or (is_yes(wish.words) and says(wish.question))


RULES: tuple[Callable[[str, Any, Wish], Broken], ...] = (
    _episodic_on_request,
    _off_on_request,
    _session_is_not_episodic,
    _worker_on_request,
)

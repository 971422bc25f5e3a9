"""The user profile: what an agent knows about a user, in front of every model call, across threads.

The agent changes single fields with the tool `update_profile`. With `learn` on, a model also proposes changes
after each turn, from what the user said and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from casenotes.clock import Clock
from casenotes.config import ProfileSettings
from casenotes.errors import CasenotesError
from casenotes.events import Events
from casenotes.layers.base import BaseLayer, LearnRequest, Recalled, RecallRequest, TokenRange, ToolRequest
from casenotes.layers.profile_document import (
    ACTIONS,
    Applied,
    Item,
    Patch,
    Source,
    apply,
    field_list,
    fitted_block,
    items_of,
    with_items,
)
from casenotes.layers.profile_shape import Shape, other_names, shape_of
from casenotes.layers.profile_update import (
    SCHEMA,
    Statements,
    Update,
    has_turn,
    read_patches,
    update_prompt,
    updated,
    user_texts,
)
from casenotes.layers.state import LayerState, change
from casenotes.learn.ask import Asker
from casenotes.learn.prompts import filled, prompt
from casenotes.masking import mask
from casenotes.tokens import TokenCounter
from casenotes.tracing import span
from casenotes.types import Tool

PROFILE_TOOL = "update_profile"
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "field": {"type": "string", "description": "One field, as Section/Name."},
        "action": {"type": "string", "enum": list(ACTIONS)},
        "value": {
            "type": "string",
            "description": "One short line. With remove: the value that goes, or nothing to clear the field.",
        },
    },
    "required": ["field", "action"],
    "additionalProperties": False,
}


class ProfileLayer(BaseLayer):
    """See Layer."""

    name = "user-profile"
    slot = 100
    stable = True

    def __init__(
        self,
        settings: ProfileSettings,
        count_tokens: TokenCounter,
        clock: Clock,
        events: Events,
        asker: Asker | None = None,
    ) -> None:
        self.shape: Shape = shape_of(settings)
        self.settings = settings
        self._count_tokens = count_tokens
        self._clock = clock
        self._events = events
        self._asker = asker if settings.learn else None
        self.learns_from = ("success",) if self._asker else ()
        self.budget = TokenRange(
            min(settings.min_block_tokens, settings.max_block_tokens), settings.max_block_tokens
        )

    async def recall(self, request: RecallRequest) -> Recalled:
        """The block with all that is known, or with as much as fits; empty if nothing is."""
        if request.state is None:
            return Recalled(left_out=("the store keeps no profile",))
        items = items_of((await request.state.read()).value)
        if not items:
            return Recalled(left_out=("nothing is known about the user yet",))
        return self._fitted(items, request.max_tokens)

    def _fitted(self, items: Sequence[Item], max_tokens: int) -> Recalled:
        fitted = fitted_block(items, self.shape, max_tokens, self._count_tokens)
        left_out = (f"{fitted.left_out} fields over the token budget",) if fitted.left_out else ()
        return Recalled(fitted.text, (), left_out, lambda room: self._fitted(items, room))

    def tools(self, request: ToolRequest) -> Sequence[Tool]:
        """`update_profile` for one user, called within a thread."""
        thread = request.scope.thread_id or ""
        return (update_profile_tool(request.state, self.shape, self.settings, thread, self._clock.now),)

    async def learn(self, request: LearnRequest) -> None:
        """Have a model propose changes, and make those that the user's own words carry."""
        if self._asker is None or request.state is None:
            return
        texts = await asyncio.to_thread(user_texts, request.messages)
        if not texts:
            return
        with span("learn user-profile", "update_memory", request.scope) as about:
            update = await self._update(self._asker, request, request.state, texts)
            about("casenotes.patches", len(update.changed))
        self._tell(request, update)

    async def _update(self, asker: Asker, request: LearnRequest, state: LayerState, texts: list[str]) -> Update:
        """Ask once; decide in view of the profile as it is when it is written."""
        value = (await state.read()).value
        if has_turn(value, request.turn_id):
            return Update(value, [], [])
        question = update_prompt(value, texts, self.shape)
        reply = await asker.ask(request.scope, "profile", prompt("profile_update"), question, SCHEMA)
        patches = read_patches(reply.output)
        said = await asyncio.to_thread(Statements, texts)
        source = Source(request.scope.thread_id or "", self._clock.now().isoformat(), "updater")
        decided: list[Update] = []

        def decide(current: Mapping[str, Any]) -> Mapping[str, Any]:
            decided.append(updated(current, patches, said, request.turn_id, self.shape, self.settings, source))
            return decided[-1].value

        await change(state, decide, "updater")
        return decided[-1]

    def _tell(self, request: LearnRequest, update: Update) -> None:
        for refused in update.refused:
            self._events.emit(
                "profile.refused",
                request.scope,
                turn_id=request.turn_id,
                source=self.name,
                field=refused.field,
                reason=refused.reason,
                error=refused.detail,
            )
        if update.changed:
            self._events.emit("profile.updated", request.scope, turn_id=request.turn_id, fields=update.changed)


def update_profile_tool(
    state: LayerState,
    shape: Shape,
    settings: ProfileSettings,
    thread_id: str,
    now: Callable[[], datetime],
) -> Tool:
    """The tool over the profile of one user: the model has no say in whose profile it changes."""

    async def call(field: Any = None, action: Any = None, value: Any = None, **unknown: Any) -> dict[str, Any]:
        """A wrong call is answered, not raised: models make them, and the host's turn goes on."""
        if unknown:
            return {"error": "Call it with field, action and value."}
        try:
            source = Source(thread_id, now().isoformat(), "agent")
            return _answer(await patch_profile(state, Patch(field, action, value), shape, settings, source))
        except CasenotesError as error:
            return {"error": mask(str(error))}

    return Tool(PROFILE_TOOL, _tool_text(shape), PARAMETERS, call)


@lru_cache(maxsize=16)
def _tool_text(shape: Shape) -> str:
    """The same in every turn, and long."""
    return filled("profile_tool", others=other_names(shape), fields=field_list(shape))


class Patched(NamedTuple):
    """What became of a patch: the version of the profile, what its field holds now, and whether that is new."""

    version: int
    field: str
    values: Sequence[str]
    is_new: bool


async def patch_profile(
    state: LayerState, patch: Patch, shape: Shape, settings: ProfileSettings, source: Source
) -> Patched:
    """Make one change of a profile; raises PatchRefused."""
    seen: list[tuple[Applied, bool]] = []

    def decide(value: Mapping[str, Any]) -> Mapping[str, Any]:
        items = items_of(value)
        applied = apply(items, patch, shape, settings, source)
        seen.append((applied, applied.items != items))
        return with_items(value, applied.items) if applied.items != items else value

    version = (await change(state, decide, source.by)).version
    applied, is_new = seen[-1]
    return Patched(version, applied.field, applied.values, is_new)


def _answer(patched: Patched) -> dict[str, Any]:
    values = patched.values
    value = values[0] if len(values) == 1 else list(values) or None
    answer = {"saved": patched.field, "value": value, "version": patched.version}
    return answer if patched.is_new else answer | {"note": "It was so already; nothing has changed."}

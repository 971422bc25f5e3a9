"""The verbs behind Memory for what layers keep: profile, plan, run summaries, and the log of attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from casenotes.clock import Clock
from casenotes.errors import InvalidScope, UsageError
from casenotes.layers.plan import PlanLayer, change_plan, read_plan
from casenotes.layers.plan_document import is_blank, read_change
from casenotes.layers.profile import ProfileLayer, patch_profile
from casenotes.layers.profile_document import Patch, Source, profile_of
from casenotes.layers.state import LayerState
from casenotes.layers.stored_state import VERSIONS_KEPT, States
from casenotes.layers.subagents import LOG, attempts_of, briefing, failed_turn, new_attempt, record_attempt
from casenotes.stores.base import Store
from casenotes.stores.states import StateVersion
from casenotes.tokens import TokenCounter
from casenotes.types import Attempt, Briefing, ChildScope, Episode, Message, Outcome, Plan, Profile, Scope

UNDO = "undo:"
CONTEXT_MESSAGES = 6


class Keeper:
    """Reads and changes what layers keep, on behalf of the host."""

    def __init__(
        self,
        store: Store,
        states: States,
        clock: Clock,
        count_tokens: TokenCounter,
        profile: ProfileLayer | None,
        plan: PlanLayer | None,
    ) -> None:
        self._store = store
        self._states = states
        self._clock = clock
        self._count_tokens = count_tokens
        self._profile = profile
        self._plan = plan

    async def profile(self, scope: Scope) -> Profile:
        """What is known about a user."""
        layer, state = self._profile_of(scope)
        return _as_profile(layer, await state.read())

    async def profile_history(self, scope: Scope, limit: int) -> list[Profile]:
        """Versions of a profile, newest first."""
        layer, state = self._profile_of(scope)
        return [_as_profile(layer, version) for version in await state.history(limit)]

    async def update_profile(self, scope: Scope, field: str, action: str, value: str | None) -> Profile:
        """Change one field on behalf of the host."""
        layer, state = self._profile_of(scope)
        source = Source(scope.thread_id or "", self._clock.now().isoformat(), "host")
        await patch_profile(state, Patch(field, action, value), layer.shape, layer.settings, source)
        return await self.profile(scope)

    async def undo_profile(self, scope: Scope) -> Profile:
        """Go back by one version, past gaps that erasing a thread has left; again goes on from there."""
        layer, state = self._profile_of(scope)
        history = await state.history()
        current = history[0] if history else StateVersion()
        wanted = _origin(current) - 1
        before = next((version for version in history if version.version <= wanted), None)
        is_known = before is not None or wanted == 0 or len(history) < VERSIONS_KEPT
        if wanted < 0 or not is_known:
            raise UsageError(
                f"there is no earlier version of the profile of {scope.resource_id!r} to go back to"
            )
        shown = before or StateVersion()
        return _as_profile(layer, await state.write(shown.value, current.version, f"{UNDO}{_origin(shown)}"))

    def _profile_of(self, scope: Scope) -> tuple[ProfileLayer, LayerState]:
        if self._profile is None:
            raise UsageError("the profile is switched off (setting profile.enabled)")
        if scope.resource_id is None:
            raise InvalidScope(f"{scope!r} has no resource_id; a profile belongs to a resource")
        return self._profile, self._states.of(self._profile.name, "resource", scope, create=True)

    async def plan(self, scope: Scope) -> Plan | None:
        """The plan of a thread, None if there is none."""
        plan = await read_plan(self._plan_of(scope))
        return None if is_blank(plan) else plan

    async def update_plan(self, scope: Scope, changes: Mapping[str, Any]) -> Plan:
        """Change the plan on behalf of the host; StateConflict if it is not at that version."""
        return await change_plan(self._plan_of(scope), read_change(changes), "host")

    def _plan_of(self, scope: Scope) -> LayerState:
        if self._plan is None:
            raise UsageError("plans are switched off (setting plan.enabled)")
        return self._states.of(self._plan.name, "thread", _with_thread(scope))

    async def episodes(self, scope: Scope, limit: int) -> list[Episode]:
        """Summaries of the last runs of a user, oldest first."""
        return list(reversed(await self._store.episodes.newest(scope, limit)))

    async def record_attempt(
        self, scope: Scope, task: str, tried: str, error: str, outcome: Outcome
    ) -> Attempt:
        """Note something that was tried in vain."""
        return await record_attempt(self._log(scope), new_attempt(task, tried, error, outcome, self._clock))

    async def record_failed_turn(
        self, child: ChildScope, turn_id: str, messages: Sequence[Message], error: str
    ) -> Attempt:
        """Note in its parent's thread that a sub-agent failed, once a turn."""
        attempt = new_attempt(*failed_turn(messages, error), "failure", self._clock)
        return await record_attempt(self._log(child.parent), attempt, turn_id, child.thread_id)

    async def attempts(self, scope: Scope) -> list[Attempt]:
        """What was tried in vain in a thread, oldest first."""
        return attempts_of((await self._log(scope).read()).value)

    async def briefing(self, scope: Scope, task: str, context: str | Sequence[Message] | None) -> Briefing:
        """What a sub-agent is told; without a context, the last few messages of the thread."""
        attempts = await self.attempts(scope)
        if context is None:
            context = await self._store.recent(scope, CONTEXT_MESSAGES)
        return briefing(task, context, attempts, self._count_tokens)

    def _log(self, scope: Scope) -> LayerState:
        return self._states.of(LOG, "thread", _with_thread(scope))


def _origin(version: StateVersion) -> int:
    """The version that a value was written with first: going back copies it, and what was undone stays so."""
    return int(version.author.removeprefix(UNDO)) if version.author.startswith(UNDO) else version.version


def _with_thread(scope: Scope) -> Scope:
    if scope.thread_id is None:
        raise InvalidScope(f"{scope!r} has no thread_id; this call works on one thread")
    return scope


def _as_profile(layer: ProfileLayer, state: StateVersion) -> Profile:
    return profile_of(state, layer.shape)

"""The blocks of session memory: the log of observations before the messages, where things stand behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from casenotes.config import ObservationalSettings
from casenotes.layers.base import BaseLayer, LayerScope, Recalled, RecallRequest, TokenRange
from casenotes.learn.prompts import prompt
from casenotes.observe import log, session
from casenotes.observe.limits import Limits
from casenotes.observe.tools import zone_for
from casenotes.stores.base import Store
from casenotes.stores.observations import Forgotten, Observing, is_touched, session_without
from casenotes.tokens import TokenCounter
from casenotes.types import Observation, Outcome, Scope, SessionState


class ObservationsLayer(BaseLayer):
    """See Layer. Its block is the same text until the log changes, which it does at activations only."""

    name = log.BLOCK
    slot = 200
    scope: LayerScope = "thread"
    stable = True
    every_step = True
    learns_from: Sequence[Outcome] = ()

    def __init__(
        self, store: Store, settings: ObservationalSettings, limits: Limits, count_tokens: TokenCounter
    ) -> None:
        self._store = store
        self._settings = settings
        self._count_tokens = count_tokens
        is_scarce = limits.render < settings.render_token_budget
        least = limits.render if is_scarce else min(settings.min_block_tokens, limits.render)
        self.budget = TokenRange(least, limits.render)  # scarce room must not depend on other blocks

    async def recall(self, request: RecallRequest) -> Recalled:
        """The log, or what has room of it; as it was shown last if it has not changed since."""
        state = await self._store.observations.state(request.scope)
        forgotten = await self._store.observations.forgotten(request.scope) if state.version else []
        version = f"{state.version}/{max((one.change for one in forgotten), default=0)}"
        shown = request.previous
        if shown is not None and shown.version == version and shown.tokens <= request.max_tokens:
            return Recalled(shown.text, version=version)
        rows = await shown_rows(self._store, request.scope, state, forgotten)
        if not rows:
            return Recalled(left_out=("nothing was observed yet",), version=version)
        return self._within(rows, request.scope, version, request.max_tokens)

    def _within(self, rows: Sequence[Observation], scope: Scope, version: str, most: int) -> Recalled:
        text, left_out = log.within(rows, most, zone_for(self._settings, scope), self._count_tokens)
        notes = (f"{left_out} observations over the token budget",) if left_out else ()
        again = partial(self._within, rows, scope, version)
        return Recalled(text, left_out=notes, fit=again, version=version)


class SessionLayer(BaseLayer):
    """See Layer."""

    name = session.BLOCK
    slot = 230
    scope: LayerScope = "thread"
    every_step = True
    learns_from: Sequence[Outcome] = ()

    def __init__(self, store: Store, settings: ObservationalSettings, count_tokens: TokenCounter) -> None:
        self._store = store
        self._settings = settings
        self._count_tokens = count_tokens
        most = settings.max_session_tokens
        self.budget = TokenRange(min(settings.min_session_tokens, most), most)

    async def recall(self, request: RecallRequest) -> Recalled:
        """Objective, state, what is left to do, dates ahead, decisions."""
        state = await self._store.observations.state(request.scope)
        if state.session == SessionState() and not state.version:
            return Recalled(left_out=("nothing was observed yet",))
        forgotten = await self._store.observations.forgotten(request.scope)
        dated = await self._store.observations.dated(request.scope) if state.log_tokens else []
        rows = [row for row in dated if not is_touched(row, forgotten)]
        state = replace(state, session=session_without(state, forgotten))
        hint = hint_for(state, request.input_seq)
        zone = zone_for(self._settings, request.scope)
        return self._within(session.parts(state.session, hint, rows, request.now, zone), request.max_tokens)

    def _within(self, parts: Sequence[Sequence[str]], most: int) -> Recalled:
        text, left_out = session.within(parts, most, self._count_tokens)
        notes = (f"{left_out} lines over the token budget",) if left_out else ()
        return Recalled(text, left_out=notes, fit=partial(self._within, parts))


def hint_for(state: Observing, input_seq: int) -> str:
    """How to go on in the middle of a turn; a hint ends with the next thing that the user says."""
    if state.session.hint and state.session_seq > input_seq:
        return state.session.hint
    return prompt("continuation_hint") if input_seq and state.active_seq > input_seq else ""


async def shown_rows(
    store: Store, scope: Scope, state: Observing, forgotten: Sequence[Forgotten]
) -> list[Observation]:
    """The rows of the log, without what was forgotten since they were made."""
    if not state.version:
        return []
    active = await store.observations.log(scope, ["active"])
    if not any(is_touched(row, forgotten) for row in active):
        return active
    every = await store.observations.log(scope, ["active", "superseded"])
    return log.without_forgotten(active, {row.id: row for row in every}, forgotten)

"""The Reflector: makes a log that has grown too long shorter, in the background, for the next activation.

Stronger levels are tried where a gentle one does not help, and the best candidate is kept. Where nothing
shrinks the log stays as it is and the next try waits until it has grown: no loop, and never twice on the same
rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from casenotes.errors import UnreadableOutput
from casenotes.learn.prompts import prompt
from casenotes.observe.limits import Limits
from casenotes.observe.reflection import (
    GOOD_SHARE,
    LEVELS,
    RAISE,
    SCHEMA,
    Candidate,
    Measure,
    best,
    input_hash,
    is_usable,
    judged,
    next_reflection,
    read_proposal,
    reflector_prompt,
)
from casenotes.observe.tools import ObservingTools, ask, zone_for
from casenotes.stores.learning import Lease
from casenotes.stores.observations import Observing, Reflected, is_touched
from casenotes.types import Observation

TASK = "reflect"


def is_due(state: Observing, limits: Limits) -> bool:
    """Whether the log will be too long with the next activation, and no shorter one waits for it already."""
    tokens = state.log_tokens + state.ready_tokens
    return state.log_tokens > 0 and not state.reflecting and tokens >= max(limits.reflect, state.reflect_at)


async def reflect(tools: ObservingTools, lease: Lease, state: Observing) -> bool:
    """Condense the log; says whether a shorter one waits for the next activation now."""
    started = time.perf_counter()
    rows = await _rows(tools, lease)
    digest = input_hash(rows)
    tokens = state.log_tokens + state.ready_tokens
    tools.events.emit("reflecting.started", lease.scope, observations=len(rows), tokens=state.log_tokens)
    chosen = None
    if rows and digest != state.reflected:
        chosen = await _chosen(tools, lease, state, rows)
    if chosen is None:
        saved = await tools.store.observations.reflect(lease, Reflected(digest, int(tokens * RAISE) + 1))
    else:
        again = next_reflection(chosen.after + state.ready_tokens, tools.limits.reflect)
        saved = await tools.store.observations.reflect(
            lease, Reflected(digest, again, chosen.rows, chosen.dropped)
        )
    tools.events.emit(
        "reflecting.finished",
        lease.scope,
        shrunk=bool(chosen and saved),
        before=chosen.before if chosen else state.log_tokens,
        after=chosen.after if chosen else state.log_tokens,
        refused=len(chosen.refused) if chosen else 0,
        seconds=time.perf_counter() - started,
    )
    return bool(chosen and saved)


async def put_off(tools: ObservingTools, lease: Lease, state: Observing) -> None:
    """A reflection that failed is tried again when the log has grown; observing goes on meanwhile."""
    tokens = state.log_tokens + state.ready_tokens
    await tools.store.observations.reflect(lease, Reflected(state.reflected, int(tokens * RAISE) + 1))


async def _rows(tools: ObservingTools, lease: Lease) -> list[Observation]:
    """The log, without what the user had forgotten since: nobody shall put that into other words."""
    active = await tools.store.observations.log(lease.scope, ["active"])
    forgotten = await tools.store.observations.forgotten(lease.scope)
    return [row for row in active if row.successor is None and not is_touched(row, forgotten)]


async def _chosen(
    tools: ObservingTools, lease: Lease, state: Observing, rows: Sequence[Observation]
) -> Candidate | None:
    """The best candidate of as many levels as it takes; None if the log does not get shorter."""
    zone = zone_for(tools.settings, lease.scope)
    measure = Measure(zone, tools.count_tokens, f"m{state.version}", tools.clock.now(), state.change)
    candidates: list[Candidate] = []
    for level in range(len(LEVELS)):
        question = (prompt("reflect"), reflector_prompt(rows, level, zone))
        reply = await ask(tools, tools.reflector, lease.scope, TASK, question, SCHEMA)
        try:
            proposal = read_proposal(reply.output)
        except UnreadableOutput:
            continue  # the next level asks for it in other words
        candidate = await asyncio.to_thread(judged, rows, proposal, measure)
        if is_usable(candidate, rows):
            candidates.append(candidate)
            if candidate.share <= GOOD_SHARE:
                break
    return best(candidates)

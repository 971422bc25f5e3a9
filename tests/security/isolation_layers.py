"""Operations of the campaign on what layers keep: profile, plan, runs, attempts, sub-agents, events."""

from __future__ import annotations

from collections.abc import Mapping

from isolation import Dice, Operation, Operations

from casenotes.layers.base import BaseLayer, RecallRequest


class Grumbling(BaseLayer):
    """Fails with the words of the input, so that events have words of their scope in them."""

    name = "grumbling"

    async def recall(self, request: RecallRequest) -> str:
        raise RuntimeError(request.query)


FIELDS = ("User Context/Role", "Preferences/Naming", "Current Goals/Task")


async def profile(dice: Dice) -> object:
    thread = dice.thread()
    scope = dice.mine.thread(thread)
    action = dice.chance.choice(("set", "set", "append"))
    return await dice.memory.update_profile(scope, dice.chance.choice(FIELDS), action, dice.text(thread))


async def profile_undone(dice: Dice) -> object:
    return await dice.memory.undo_profile(dice.mine.owner)


async def profile_removed(dice: Dice) -> object:
    """A field, or a value that is not there: the refusal tells what is."""
    value = dice.chance.choice((None, "none-such"))
    return await dice.memory.update_profile(dice.mine.owner, dice.chance.choice(FIELDS), "remove", value)


async def plan(dice: Dice) -> object:
    """A plan for a thread that other scopes name alike, by the version that was seen there."""
    thread = dice.thread()
    scope = dice.mine.thread(thread)
    seen = await dice.memory.plan(scope)
    steps = [{"text": dice.text(thread), "status": "pending"}]
    version = seen.version if seen else None
    return await dice.memory.update_plan(scope, goal=dice.text(thread), steps=steps, version=version)


async def plan_in_vain(dice: Dice) -> object:
    """A change that names the version of the other scope's plan of the same name."""
    thread = dice.thread()
    foreign = await dice.store.states.read(dice.other.thread(thread), "plan")
    mine = await dice.store.states.read(dice.mine.thread(thread), "plan")
    if foreign.version == mine.version:
        return None
    changing = dice.memory.update_plan(dice.mine.thread(thread), phase="taken", version=foreign.version)
    return await dice.refused(changing, "a plan by a foreign version")


async def tools(dice: Dice) -> object:
    """A turn whose model writes to profile and plan; it stays open."""
    thread = dice.thread()
    turn = await dice.memory.begin(dice.mine.thread(thread), dice.text(thread))
    known = await dice.store.messages(dice.mine.owner, turn.message_ids)
    dice.mine.heard(thread, [known[message_id] for message_id in turn.message_ids])
    calls = {tool.name: tool.call for tool in turn.tools}
    answers = [await calls["plan"](goal=dice.text(thread)), await calls["plan"]()]
    if "update_profile" in calls:
        field = dice.chance.choice(FIELDS)
        answers.append(await calls["update_profile"](field=field, action="set", value=dice.text(thread)))
    dice.mine.turns.append(turn)
    return [turn.context, answers, await dice.memory.step(turn, ())]


async def child(dice: Dice) -> object:
    """A sub-agent that fails; what it said is nobody's memory, what it tried is its parent's."""
    thread = dice.thread()
    scope = dice.mine.thread(thread)
    told = await dice.memory.briefing(scope, dice.text(thread))
    turn = await dice.memory.begin(scope.child("helper"), told.text)
    receipt = await dice.memory.complete(turn, dice.text(thread), "failure", error=dice.text(thread))
    return [told, turn.context, receipt, await dice.memory.history(turn.scope)]


async def attempts(dice: Dice) -> object:
    thread = dice.thread()
    scope = dice.mine.thread(thread)
    noted = await dice.memory.record_attempt(scope, dice.text(thread), dice.text(thread), dice.text(thread))
    told = await dice.memory.briefing(scope, dice.foreign_words())
    return [noted, await dice.memory.attempts(scope), told.attempts]


async def finish(dice: Dice) -> object:
    await dice.memory.finish(dice.mine.thread(dice.thread()), dice.chance.choice(("success", "failure")))
    return await dice.memory.episodes(dice.mine.owner)


async def notebook(dice: Dice) -> object:
    """All that can be read of layers."""
    scope, memory = dice.mine.thread(dice.thread()), dice.memory
    told = [await memory.plan(scope), await memory.attempts(scope), await memory.event_history(scope)]
    if scope.resource_id is None:
        return told
    return [*told, await memory.profile_history(scope), await memory.episodes(scope, 1_000)]


async def observe(dice: Dice) -> object:
    """A thread is observed to its end; others have threads of the same name."""
    scope = dice.mine.thread(dice.thread())
    await dice.memory.observe(scope)
    return [await dice.memory.observations(scope), await dice.memory.session(scope)]


async def observations(dice: Dice) -> object:
    scope = dice.mine.thread(dice.thread())
    return [await dice.memory.observations(scope, history=True), await dice.memory.session(scope)]


async def reobserve(dice: Dice) -> object:
    """What a thread was compressed to is thrown away, and nobody else's is."""
    thread = dice.thread()
    before = await dice.memory.observations(dice.other.thread(thread), history=True)
    await dice.memory.reobserve(dice.mine.thread(thread))
    after = await dice.memory.observations(dice.other.thread(thread), history=True)
    kept = {row.id for row in before} <= {row.id for row in after}
    dice.campaign.expect(kept, "observations were thrown away by another scope", dice.other)
    return None


WEIGHTS: Mapping[str, int] = {
    "profile": 10,
    "profile_undone": 3,
    "profile_removed": 3,
    "plan": 8,
    "plan_in_vain": 3,
    "tools": 8,
    "child": 6,
    "attempts": 6,
    "finish": 6,
    "notebook": 12,
    "observe": 8,
    "observations": 8,
    "reobserve": 1,
}
LAYER_OPERATIONS: Operations = {
    name: Operation(weight, globals()[name], is_of_layers=True) for name, weight in WEIGHTS.items()
}

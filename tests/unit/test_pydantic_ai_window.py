"""What of a run is sent again: whole steps from the first that is shown, and all that is not in the store."""

from __future__ import annotations

from dataclasses import replace

from pydantic_ai import messages as m

from casenotes.integrations.pydantic_ai_window import still_shown, stored
from casenotes.types import Context, Message

PROMPT = m.ModelRequest([m.UserPromptPart("Go")])
STEPS = [
    [
        m.ModelResponse([m.ThinkingPart("hm"), m.ToolCallPart("look", {}, "same")]),
        m.ModelRequest([m.ToolReturnPart("look", f"look {number}", "same")]),
    ]
    for number in range(4)
]
KNOWN = [stored(step, [f"call-{number}", f"result-{number}"]) for number, step in enumerate(STEPS)]
RUN = [PROMPT, *(message for step in STEPS for message in step)]


def shown(*ids: str) -> Context:
    return Context(messages=tuple(Message("user", "", id=name) for name in ids))


def test_steps_before_the_first_that_is_shown_are_left_out_whole() -> None:
    assert still_shown(RUN, KNOWN, shown("prompt", "result-2", "call-3", "result-3")) == [PROMPT, *RUN[5:]]
    assert still_shown(RUN, KNOWN, shown("call-0", "call-3")) == RUN


def test_the_newest_step_stays_whatever_is_shown() -> None:
    assert still_shown(RUN, KNOWN, shown()) == [PROMPT, *STEPS[3]]
    assert still_shown([PROMPT], [], shown()) == [PROMPT]


def test_parts_are_known_again_in_merged_and_copied_messages() -> None:
    system = m.SystemPromptPart("Be kind.")
    merged = m.ModelRequest([system, *PROMPT.parts, *STEPS[0][1].parts])
    copies = [replace(message, parts=list(message.parts)) for message in RUN[3:]]
    left = still_shown([merged, *copies], KNOWN, shown("call-1"))
    assert left == [m.ModelRequest([system, *PROMPT.parts]), *copies]
    assert len(merged.parts) == 3, "the run's own messages are never changed"


def test_no_result_is_sent_without_its_call() -> None:
    """Of a tool that said something besides, the words are still shown when its call has gone."""
    call = m.ModelResponse([m.ToolCallPart("look", {}, "old")])
    result = m.ModelRequest([m.ToolReturnPart("look", "seen", "old")])
    known = [stored([call], ["call"]), stored([result], ["result"]), KNOWN[0]]
    context = shown("result", "call-0", "result-0")
    assert still_shown([call, result, PROMPT, *STEPS[0]], known, context) == [PROMPT, *STEPS[0]]


def test_what_others_have_put_there_stays() -> None:
    summary = m.ModelRequest([m.UserPromptPart("A summary of the beginning.")])
    empty = m.ModelResponse([])
    assert still_shown([summary, empty, *RUN[-2:]], KNOWN, shown("call-3")) == [summary, empty, *STEPS[3]]


def test_what_the_framework_needs_later_stays() -> None:
    search = m.ModelResponse(
        [m.TextPart("I look."), m.ToolSearchCallPart("search_tools", {"queries": ["x"]}, "s")]
    )
    tools = m.ToolAvailabilityDeltaPart(tools_added=["look"], tool_call_id="s")
    found = m.ModelRequest(
        [m.ToolSearchReturnPart("search_tools", content={"discovered_tools": []}, tool_call_id="s"), tools]
    )
    compact = m.ModelResponse([m.TextPart("Well."), m.CompactionPart("shorter")])
    known = [stored([search, found, compact], ["a"]), stored(STEPS[0], ["b"])]
    left = still_shown([search, found, compact, *STEPS[0]], known, shown("b"))
    assert [message.parts for message in left[:3]] == [search.parts[1:], found.parts, compact.parts[1:]]
    assert left[3:] == STEPS[0]


def test_what_is_sent_begins_alike_until_the_first_shown_moves() -> None:
    before, after = (still_shown(RUN[: 2 * n + 1], KNOWN[:n], shown("call-1")) for n in (2, 3))
    assert before == [PROMPT, *STEPS[1]]
    assert after == [*before, *STEPS[2]]

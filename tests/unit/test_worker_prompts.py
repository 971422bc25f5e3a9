"""However long messages are, what workers are asked about them stays within the size of a request."""

from __future__ import annotations

from datetime import UTC, datetime

from casenotes.layers.profile_update import user_texts
from casenotes.learn.corrections import View
from casenotes.learn.reflect_entries import reflection_prompt
from casenotes.learn.summarise import run_prompt
from casenotes.learn.titles import title_prompt
from casenotes.learn.transcript import prompts
from casenotes.observe.transcript import MAX_REQUEST_TOKENS, MAX_REQUESTS, requests_for
from casenotes.tokens import estimate_tokens
from casenotes.types import Entry, Evidence, Message, ToolCall, ToolResult

AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
LONG = "".join(f"line {number}: the proxy answered {number * 7919 % 1000}\n" for number in range(3_000))
CALLS = Message(
    "assistant", LONG, "a", AT, tuple(ToolCall(f"c{n}", "look" * 99, {"at": LONG}) for n in range(60))
)
RESULTS = Message("tool", "", "r", AT, tuple(ToolResult(f"c{n}", LONG) for n in range(60)))
ASKED = Message("user", LONG, "u", AT)
SAID = [ASKED, CALLS, RESULTS]


def test_r05_08_one_message_with_many_calls_or_results_is_read_in_several_requests() -> None:
    for number, message in enumerate(SAID):
        asked = requests_for(SAID[number : number + 1], UTC, estimate_tokens)
        assert 1 < len(asked.transcripts) <= MAX_REQUESTS
        assert max(map(estimate_tokens, asked.transcripts)) <= MAX_REQUEST_TOKENS
        assert sum(text.count('"tool": ') + text.count('{"content": ') for text in asked.transcripts) == len(
            message.parts
        )


def test_the_summary_and_the_title_of_a_run() -> None:
    assert estimate_tokens(run_prompt(SAID, "success", 6_000, estimate_tokens)) <= 7_000
    assert estimate_tokens(title_prompt(SAID, estimate_tokens)) <= 3_000


def test_extraction_and_the_profile() -> None:
    asked = prompts([ASKED, CALLS], [ASKED] * 6, "", 8_000, estimate_tokens)
    assert max(map(estimate_tokens, asked)) <= 8_000 + 6 * 2_000 + 1_000
    assert sum(map(estimate_tokens, user_texts([ASKED] * 99))) <= 20 * 4_000


def test_the_reflector_of_entries() -> None:
    """What was remembered rests on all of the message that asked for it."""
    entry = Entry(
        "e",
        "The proxy.",
        "user_assertion",
        "active",
        True,
        "t",
        "u",
        AT,
        AT,
        (Evidence("u", 0, len(LONG), LONG),),
    )
    asked = reflection_prompt(View({"e": entry}, {"u": ASKED}, [ASKED] * 200), ["e"])
    assert estimate_tokens(asked) <= 21 * 2_000

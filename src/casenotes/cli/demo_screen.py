"""What `casenotes demo` prints: section by section, as a person reads it."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from casenotes.cli.demo import OTHER_USER, USER, Answer, Demo, LearnedTurn, NextTurn
from casenotes.cli.explain import print_explanation
from casenotes.cli.health import print_findings
from casenotes.cli.learning import print_receipt
from casenotes.cli.output import console, heading, safe
from casenotes.cli.search import print_hits


def print_demo(demo: Demo) -> None:
    """All of it."""
    heading("1. Import")
    _say(f"{demo.imported} sample messages of two users, {USER} and {OTHER_USER}, in {demo.threads} threads.")
    heading(f"2. {len(demo.turns)} turns of {USER}, each learned from when it was over")
    _say(
        "No model is asked here. What the worker model answers is recorded and ships with the samples, "
        "mistakes included; everything that is done with it is live."
    )
    for turn in demo.turns:
        _print_turn(turn)
    _print_context(demo.next_turn)
    for number, answer in enumerate(demo.answers, 4):
        _print_answer(number, answer)
    heading(f"{len(demo.answers) + 4}. One entry explained")
    print_explanation(demo.explained)
    heading(f"{len(demo.answers) + 5}. Health of the store")
    print_findings(demo.checks)
    _print_end(demo)


def _say(text: str) -> None:
    console.print(text, markup=False)


def _indented(text: str | Text, by: int = 3, style: str = "") -> None:
    body = Text(safe(text), style=style) if isinstance(text, str) else text
    console.print(Padding(body, (0, 0, 0, by)))


def _print_turn(turn: LearnedTurn) -> None:
    title = (f"\n{turn.time:%Y-%m-%d}  thread ", (turn.thread, "cyan"))
    console.print(Text.assemble(*title))
    for role, text in (("user", turn.user), ("assistant", turn.assistant)):
        _indented(Text.assemble((f"{role}: ", "bold"), safe(text)))
    for candidate in turn.receipt:
        console.print()
        print_receipt(candidate, indent=3)
    if turn.note:
        _indented(f"→ {turn.note}", by=6)


def _print_context(turn: NextTurn) -> None:
    heading("3. The next conversation: what its model is given")
    console.print(Text.assemble((f"{USER}: ", "bold"), safe(turn.user)))
    _say(f"turn.context.text, {turn.tokens} tokens, as it stands:\n")
    _indented(turn.context, style="green")
    _say(f"\nturn.tools: {', '.join(turn.tools)}, for what the block does not answer")


def _print_answer(number: int, answer: Answer) -> None:
    heading(f"{number}. recall for {answer.resource}: {answer.query}")
    print_hits(answer.hits)
    if answer.resource == OTHER_USER and not answer.hits:
        _say(f"{OTHER_USER} asked what {USER} asked and saw nothing of hers.")


def _print_end(demo: Demo) -> None:
    candidates = [candidate for turn in demo.turns for candidate in turn.receipt]
    counts = {
        status: sum(c.status == status for c in candidates) for status in ("stored", "corroborated", "rejected")
    }
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    _say(f"\nDone in {demo.seconds:.1f} s with no key and no network: {len(candidates)} candidates, {told}.")
    _say(
        "Next: casenotes import FILE, then casenotes recall QUERY --resource ID;\n"
        "docs/how-to/agent-memory.md gives an agent memory in 15 lines."
    )

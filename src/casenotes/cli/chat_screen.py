"""What `casenotes chat` prints besides the answers: what memory did in a turn, dimmed and short.

Answers and memories are hostile data like any other stored text: all of it passes through `safe`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.text import Text

from casenotes.cli.chat_turn import Item, Told
from casenotes.cli.output import console, errors, excerpt, print_json, safe
from casenotes.types import CandidateReceipt, Context, ContextItem, Receipt, Scope

EXCERPT_CHARACTERS = 160


def dim(text: str, indent: int = 0) -> None:
    """A line that is not part of the conversation."""
    console.print(Padding(Text(safe(text), style="dim"), (0, 0, 0, indent), expand=False))


def say(piece: str) -> None:
    """A piece of the answer, as soon as it is there."""
    console.out(safe(piece), end="", highlight=False)
    console.file.flush()


def print_problem(text: str) -> None:
    """Something went wrong; the conversation goes on."""
    errors.print(f"error: {safe(text)}", style="red", markup=False)


def print_start(partner: str, scope: Scope, location: str) -> None:
    """Who talks to whom, and where it is kept."""
    dim(f"model {partner}, agent {scope.agent_id}, resource {scope.resource_id}, in {location}")
    print_thread(scope)
    dim("/help lists the commands; Ctrl-D leaves")


def print_thread(scope: Scope) -> None:
    """In which thread the conversation is."""
    dim(f"thread {scope.thread_id}")


def print_told(told: Told, learns: bool) -> None:
    """What memory did in a turn: what it showed, what was learned, with numbers for `/why` and `/forget`."""
    if told.error:
        print_problem(excerpt(told.error, 2 * EXCERPT_CHARACTERS))
    print_items([("recalled", item) for item in told.shown])
    for line in learned_lines(told, learns):
        dim(line, 2)


def print_items(items: Sequence[tuple[str, Item]]) -> None:
    """Memories with the numbers by which they can be named."""
    for number, (what, item) in enumerate(items, 1):
        dim(f"{what} {number}. {_spoken_by(item.source)}{excerpt(item.content, EXCERPT_CHARACTERS)}", 2)


def _spoken_by(source: ContextItem | None) -> str:
    if source is None:
        return ""
    return f"{source.role or source.kind}, thread {excerpt(source.thread_id or '-', 40)}: "


def print_message(message: ContextItem) -> None:
    """A message that was quoted, whole, and where it was said."""
    where = f"thread {excerpt(message.thread_id or '-', 80)}, message {excerpt(message.id, 80)}"
    console.print(Text(f"{message.role}  {message.created_at:%Y-%m-%d %H:%M}  {where}", style="bold"))
    console.print(Padding(Text(safe(message.text)), (0, 0, 0, 3), expand=False))


def learned_lines(told: Told, learns: bool) -> list[str]:
    """What became of a turn, in words."""
    if not told.is_saved:
        return ["not saved; nothing is learned from it"]
    if told.outcome != "success":
        return [f"saved as {told.outcome}; nothing is learned from it"]
    if not learns:
        return ["saved; nothing learned: no model"]
    return _receipt_lines(told.receipt, len(told.shown))


def _receipt_lines(receipt: Receipt | None, before: int) -> list[str]:
    if receipt is None or receipt.status == "queued":
        return ["saved; still learning, /memory will show it"]
    if receipt.status != "learned":
        return [f"saved; learning {receipt.status}: {receipt.reason}"]
    numbers = iter(range(before + 1, before + 1 + len(receipt.candidates)))
    return [_candidate_line(c, next(numbers) if c.entry_id else None) for c in receipt] or [
        "saved; there was nothing to learn"
    ]


def _candidate_line(candidate: CandidateReceipt, number: int | None) -> str:
    reason = f" ({candidate.reason})" if candidate.reason else ""
    place = f" {number}." if number else ":"
    return f"{candidate.status}{reason}{place} {excerpt(candidate.content, EXCERPT_CHARACTERS)}"


def print_told_json(told: Told, learns: bool) -> None:
    """A turn as one line for machines."""
    blocks = told.context.blocks if told.context else ()
    values = {
        "thread": told.scope.thread_id,
        "question": told.question,
        "answer": told.answer,
        "outcome": told.outcome,
        "saved": told.is_saved,
        "learning": told.receipt.status if told.receipt else ("queued" if _waits(told, learns) else "skipped"),
        "receipts": list(told.receipt or ()),
        "shown": [{"kind": item.kind, "id": item.id, "content": item.content} for item in told.shown],
        "context": {
            "tokens": sum(block.tokens for block in blocks),
            "blocks": {block.name: block.tokens for block in blocks},
        },
    }
    problem = {"error": {"type": "AnswerFailed", "message": told.error}} if told.error else {}
    print_json(values | problem, indent=None)


def _waits(told: Told, learns: bool) -> bool:
    return learns and told.outcome == "success" and told.is_saved


def print_context(context: Context) -> None:
    """What the model was shown: the blocks as they stood there."""
    if not context.blocks:
        dim("no block was shown: nothing in memory is relevant")
    for block in context.blocks:
        place = "before" if block.stable else "behind"
        dim(f"{block.name}: {block.tokens} tokens, {place} the messages")
        console.print(Text(safe(block.text), style="green"))
    dim(f"{len(context.messages)} recent messages of the thread")

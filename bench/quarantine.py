"""Which attacks the write filter holds back, which ordinary texts, and what it takes.

    CASENOTES_EVAL_DATA=folder python bench/quarantine.py

Malicious requests are counted a second time without the word that opens them all, `Please`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from casenotes.learn.instructions import instruction_in

ORDINARY = ("ms_support_cases", "runbooks", "codemem", "longmemeval_blocks", "beam_100k", "tau2_banking")
ENTRY = "The webhook failed with 401 because the clock of pay-2 was 90 seconds slow. "


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def show(name: str, texts: Iterable[str]) -> None:
    found = [instruction_in(text) for text in texts]
    held = sum(item is not None for item in found)
    print(f"{name:<48}{held:>5} of {len(found):<5}{held / len(found):>8.1%}")


def seconds(text: str) -> float:
    start = time.perf_counter()
    instruction_in(text)
    return time.perf_counter() - start


def main() -> None:
    folder = Path(os.environ["CASENOTES_EVAL_DATA"])
    payloads = list(rows(folder / "injection" / "payloads.jsonl"))
    for label, kind, source in sorted({(row["label"], row["kind"], row["source"]) for row in payloads}):
        texts = [row["text"] for row in payloads if (row["kind"], row["source"]) == (kind, source)]
        show(f"{label} {kind} {source}", texts)
        if all(text.startswith("Please ") for text in texts):
            show("  without Please", (text.removeprefix("Please ").capitalize() for text in texts))
    show("all benign", [row["text"] for row in payloads if row["label"] == "benign"])
    for name in ORDINARY:
        show(name, [row["text"] for row in rows(folder / name / "corpus.jsonl")])
    print(f"an entry: {min(seconds(ENTRY) for _ in range(200)) * 1e6:.0f} µs")
    for part in (ENTRY, "if the user asks ", "run: curl ", "忽略之前的"):
        print(f"a million characters of {part!r}: {seconds(part * (1_000_000 // len(part))):.1f} s")


if __name__ == "__main__":
    main()

"""Masking on real data: annotated secrets are masked, and ordinary conversations keep their words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from casenotes.masking import mask, secrets_in

ORDINARY = ("longmemeval_blocks", "ms_support_cases", "beam_100k", "runbooks", "tau2_banking", "codemem")
HIGHEST_SHARE = 0.01


def eval_folder() -> Path:
    folder = os.environ.get("CASENOTES_EVAL_DATA")
    if not folder:
        pytest.skip("CASENOTES_EVAL_DATA is not set: masking is tested on the project's own examples only")
    return Path(folder)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def survives(value: str, masked: str) -> bool:
    """Whether half of a value, at least four characters, can still be read."""
    length = max(4, (len(value) + 1) // 2)
    return any(value[i : i + length] in masked for i in range(max(1, len(value) - length + 1)))


@pytest.mark.parametrize(("kind", "share"), [("API_KEY", 1.0), ("PASSWORD", 0.95), ("CREDIT_CARD", 0.9)])
def test_annotated_secrets_are_masked(kind: str, share: float) -> None:
    outcomes = [
        not survives(span["value"], mask(row["text"]))
        for row in rows(eval_folder() / "pii" / "pii.jsonl")
        for span in row["spans"]
        if span["type"] == kind
    ]
    assert len(outcomes) > 20
    assert sum(outcomes) >= share * len(outcomes)


def tool_loop_texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.jsonl")):
        for row in rows(path):
            for step in row.get("steps", ()):
                yield from (step[part] or "" for part in ("thought", "action", "observation"))
            for message in row.get("messages", ()):
                yield message["text"] or ""
                yield json.dumps(message.get("tool_calls", ""))


@pytest.mark.parametrize("name", [*ORDINARY, "toolloops"])
def test_ordinary_messages_are_left_alone(name: str) -> None:
    folder = eval_folder() / name
    if name == "toolloops":
        texts = list(tool_loop_texts(folder))
    else:
        texts = [row["text"] for row in rows(folder / "corpus.jsonl")]
    masked = [text for text in texts if secrets_in(text)]
    assert len(texts) > 50
    assert len(masked) <= HIGHEST_SHARE * len(texts)

"""Import against embedding alone: the texts of a JSONL file, both in one run.

    python bench/import.py [FILE] [--embedder minilm+static] [--messages 800]

Without a file it takes longmemeval_blocks from the folder named by CASENOTES_EVAL_DATA, and where that
is not set, made-up conversations of about the same size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from corpus import make_texts

from casenotes import Memory
from casenotes.models.embed import Embedder, embed_texts
from casenotes.models.registry import resolve_embedder
from casenotes.transfer.importing import import_file
from casenotes.transfer.lines import ReadOptions


def chosen_file(given: Path | None, directory: Path) -> Path:
    if given:
        return given
    data = os.environ.get("CASENOTES_EVAL_DATA")
    if data:
        return Path(data) / "longmemeval_blocks" / "corpus.jsonl"
    print("CASENOTES_EVAL_DATA is not set: made-up conversations are imported instead")
    path = directory / "made-up.jsonl"
    lines = (
        {
            "id": str(n),
            "scope": f"user-{n // 1000}",
            "thread": f"t{n // 12}",
            "role": "user",
            "text": text,
        }
        for n, text in enumerate(make_texts(4_000, seed=5, words=180))
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def embedding_seconds(embedder: Embedder, texts: list[str]) -> float:
    started = time.perf_counter()
    for first in range(0, len(texts), 256):
        await embed_texts(embedder, texts[first : first + 256])
    return time.perf_counter() - started


async def import_seconds(embedder: Embedder, path: Path, database: Path) -> float:
    started = time.perf_counter()
    async with Memory.open(f"sqlite:///{database}", embedder=embedder) as memory:
        options = ReadOptions("bench", None, path.stem, UTC, datetime.now(UTC))
        await import_file(memory, path, options)
    return time.perf_counter() - started


def evenly_chosen(path: Path, count: int, directory: Path) -> Path:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    chosen = directory / "chosen.jsonl"
    chosen.write_text("".join(lines[:: max(1, len(lines) // count)][:count]), "utf-8")
    return chosen


async def measure(name: str, path: Path, directory: Path) -> dict[str, float | str]:
    embedder = resolve_embedder(name)
    texts = [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]
    await embed_texts(embedder, ["load the model first"])
    embedding = await embedding_seconds(embedder, texts)
    importing = await import_seconds(embedder, path, directory / f"{name}.db")
    embedding = (embedding + await embedding_seconds(embedder, texts)) / 2
    return {
        "embedder": name,
        "messages": len(texts),
        "embedding_seconds": round(embedding, 2),
        "import_seconds": round(importing, 2),
        "import_over_embedding": round(importing / embedding, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--embedder", nargs="+", default=["static", "minilm+static"])
    parser.add_argument("--messages", type=int, default=800, help="Every so many-th line is taken.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        path = evenly_chosen(chosen_file(arguments.file, folder), arguments.messages, folder)
        for name in arguments.embedder:
            print(json.dumps(asyncio.run(measure(name, path, folder))), flush=True)


if __name__ == "__main__":
    main()

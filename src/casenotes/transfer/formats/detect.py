"""Which format a file is in: decided by the content of its first entries, never by its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from casenotes.errors import UsageError
from casenotes.transfer import jsonl
from casenotes.transfer.formats import chatgpt, claude, langchain, openai, pydantic_ai
from casenotes.transfer.lines import Format, ReadOptions, Unreadable, Value
from casenotes.transfer.source import Document, open_documents
from casenotes.transfer.values import read_values

AUTO = "auto"
SAMPLED_ENTRIES = 20
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (jsonl, openai, chatgpt, claude, langchain, pydantic_ai)
}
CHOICES = (AUTO, *FORMATS)
MOST_TELLING_FIRST = ("chatgpt", "claude", "pydantic-ai", "langchain", "openai", "jsonl")


def check_format(path: Path, wanted: str, options: ReadOptions) -> None:
    """Raise UsageError if the file could not be imported like that, before a store is made for it."""
    with open_documents(path) as documents:
        choose_format(documents, path, wanted, options)


def choose_format(documents: Sequence[Document], path: Path, wanted: str, options: ReadOptions) -> Format:
    """The format to read with; UsageError if it does not fit or if it leaves open whose memory it is."""
    if wanted not in CHOICES:
        raise UsageError(f"format {wanted!r} is unknown; choose one of {', '.join(CHOICES)}")
    found = _fitting_format(list(islice(read_values(documents), SAMPLED_ENTRIES)), path, wanted)
    if options.resource is None and not found.names_resource:
        raise UsageError(
            f"{str(path)!r} is {found.title}, which does not say whose conversations they are; "
            "add --resource ID, for example --resource user-42"
        )
    return found


def _fitting_format(samples: Sequence[Value], path: Path, wanted: str) -> Format:
    values = [sample.value for sample in samples if not isinstance(sample.value, Unreadable)]
    found = _recognised(values)
    if wanted == AUTO:
        chosen = found if samples else jsonl.FORMAT
    else:
        fits = any(FORMATS[wanted].recognises(value) for value in values)
        broken_lines = found is None and wanted == jsonl.FORMAT.name
        chosen = FORMATS[wanted] if fits or broken_lines or not samples else None
    if chosen is None:
        raise UsageError(_not_understood(samples, path, wanted, found))
    return chosen


def _recognised(values: Iterable[object]) -> Format | None:
    for value in values:
        for name in MOST_TELLING_FIRST:
            if FORMATS[name].recognises(value):
                return FORMATS[name]
    return None


def _not_understood(samples: Sequence[Value], path: Path, wanted: str, found: Format | None) -> str:
    if found:
        looks = f"it looks like {found.title}: use --format {found.name}"
        return f"{str(path)!r} is not in the format {wanted!r}; {looks}"
    first = samples[0].value
    reason = f" ({first.reason})" if isinstance(first, Unreadable) else ""
    known = "; ".join(f"{name}: {FORMATS[name].title}" for name in FORMATS)
    return (
        f"the format of {str(path)!r} is not understood{reason}. These are: {known}. "
        "If it is one of them, name it with --format"
    )

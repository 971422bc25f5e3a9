"""Reading a file as the import does, up to the lines."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from casenotes.transfer.formats.detect import choose_format
from casenotes.transfer.lines import LeftOutLine, Line, MessageLine, ReadOptions, RefusedLine
from casenotes.transfer.source import open_documents
from casenotes.transfer.values import read_values
from casenotes.types import Message

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)


class Reading(list[Line]):
    """The lines of a file, sorted out."""

    format: str

    @property
    def messages(self) -> list[Message]:
        return [line.message for line in self if isinstance(line, MessageLine)]

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(message.role, message.search_text) for message in self.messages]

    @property
    def threads(self) -> list[str]:
        return list(dict.fromkeys(str(line.scope.thread_id) for line in self if isinstance(line, MessageLine)))

    @property
    def left_out(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for line in self:
            if isinstance(line, LeftOutLine):
                total[line.what] += line.count
        return dict(total)

    @property
    def refused(self) -> list[RefusedLine]:
        return [line for line in self if isinstance(line, RefusedLine)]


def read_path(path: Path, format: str = "auto", resource: str | None = "quay") -> Reading:
    options = ReadOptions("agent", resource, path.stem, UTC, NOW)
    with open_documents(path) as documents:
        chosen = choose_format(documents, path, format, options)
        reading = Reading(line for line, _ in chosen.read(read_values(documents), options))
    reading.format = chosen.name
    return reading

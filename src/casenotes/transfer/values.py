"""The entries of a JSON file, one after another, so that no file has to fit into memory.

A file is lines (JSONL), one list, or values that simply follow each other, such as a single object
over many lines. In lines a broken entry is passed over; in the others nothing can be found behind it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Literal

from casenotes.transfer.lines import Unreadable, Value
from casenotes.transfer.source import Document

Layout = Literal["lines", "list", "values"]

MAX_LINE_BYTES = 32 * 2**20
MAX_VALUE_CHARACTERS = 128 * 2**20
HEAD_BYTES = 2**20
CHUNK_BYTES = 2**20
LONGEST_TOKEN = 16  # a literal or an escape that the end of what was read may have cut in two
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


def read_values(documents: Iterable[Document]) -> Iterator[Value]:
    """The entries of all documents, counted as if they were one file."""
    before = number = 0
    for document in documents:
        first = number
        with document.open() as file:
            for value in _READERS[_find_layout(file)](file):
                number = first + value.number
                yield Value(number, value.value, before + value.position)
        before += document.size


def _find_layout(file: IO[bytes]) -> Layout:
    """How the entries are laid out; the file is back at its beginning afterwards."""
    head = file.read(HEAD_BYTES)
    head = head if b"\n" in head else head + file.readline(MAX_LINE_BYTES)
    layout = _layout(head)
    file.seek(0)
    if layout != "lines" and b"\n" in head:
        first = next(_READERS[layout](file), None)
        layout = "lines" if first and isinstance(first.value, Unreadable) else layout
        file.seek(0)
    return layout


def _layout(head: bytes) -> Layout:
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    first, newline, rest = text.partition(b"\n")
    whole = bool(newline) and not isinstance(_decoded(1, first), Unreadable)
    if text.startswith(b"["):
        return "lines" if whole and rest.strip() else "list"
    return "values" if text.startswith(b"{") and not whole else "lines"


def _line_values(file: IO[bytes]) -> Iterator[Value]:
    """Every line that is not blank; one beyond the limit is passed over."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE_BYTES)
            reason = f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB"
            yield Value(number, Unreadable(reason), file.tell())
        elif raw.strip():
            yield Value(number, _decoded(number, raw), file.tell())


def _decoded(number: int, raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return Unreadable(f"not valid UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        return Unreadable(f"not valid JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:
        return Unreadable(_reason(error))


def _reason(error: ValueError | RecursionError) -> str:
    """Why a text is no JSON value, where its position says nothing to the reader."""
    if isinstance(error, UnicodeDecodeError):
        return "not valid UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg}"
    if isinstance(error, RecursionError):
        return "not valid JSON: nested too deeply"
    return f"not usable: {error}"  # for example a number of thousands of digits


class _Text:
    """A window on the text of a file that moves forward as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at = "", 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is no space, '' at the end."""
        while True:
            self._at = SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read_on()

    def take(self) -> str:
        """The next character that is no space, which is then behind us."""
        character = self.peek()
        self._at += 1
        return character

    def value(self) -> object:
        """The next JSON value; read on until it is whole."""
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or not self._may_be_cut_off(error):
                    raise
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
                raise ValueError(f"larger than {MAX_VALUE_CHARACTERS // 2**20} MiB")
            self._read_on()

    def _may_be_cut_off(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or error.pos > len(self._text) - LONGEST_TOKEN

    def _read_on(self) -> None:
        """Read as much again as is waiting, so that a large value is not tried too often."""
        raw = self._file.read(max(CHUNK_BYTES, len(self._text) - self._at))
        self._ended = not raw
        self._text = self._text[self._at :] + self._decoder.decode(raw, final=not raw)
        self._at = 0


def _values_in(file: IO[bytes], entries: Callable[[_Text], Iterator[object]]) -> Iterator[Value]:
    number = 0
    try:
        for number, value in enumerate(entries(_Text(file)), 1):
            yield Value(number, value, file.tell())
    except (ValueError, RecursionError) as error:
        yield Value(number + 1, Unreadable(f"{_reason(error)}; nothing after it was read"), file.tell())


def _list_entries(text: _Text) -> Iterator[object]:
    text.take()
    mark = text.take() if text.peek() == "]" else ","
    while mark == ",":
        text.peek()
        yield text.value()
        mark = text.take()
    if mark != "]" or text.peek():
        raise ValueError("the list is not closed, or more follows behind it")


def _following_entries(text: _Text) -> Iterator[object]:
    while text.peek():
        yield text.value()


def _list_values(file: IO[bytes]) -> Iterator[Value]:
    return _values_in(file, _list_entries)


def _following_values(file: IO[bytes]) -> Iterator[Value]:
    return _values_in(file, _following_entries)


_READERS: dict[Layout, Callable[[IO[bytes]], Iterator[Value]]] = {
    "lines": _line_values,
    "list": _list_values,
    "values": _following_values,
}

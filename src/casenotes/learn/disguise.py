"""The words of a text as a model reads them, whatever they are written with.

Unseen characters and marks on letters are dropped, entities resolved, letters of any width or style become
plain small ones, and words spelled out (`i g n o r e`) are joined. Look-alikes from other scripts, digits for
letters and words joined by underscores give a second reading instead of changing the first: in Russian the
same letters are no disguise. Each character is folded by itself, since normal forms of a whole text take
quadratic time on piled-up marks. Nothing is decoded: Base64 and other ciphers stay what they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from html import unescape

from casenotes.characters import BLANK
from casenotes.learn.quotes import without_unseen

HEAD = 3
"""Spelled-out words are looked up by so many first letters."""

_BLANKS = re.compile(f"[{BLANK}]+")
_NEW_LINE = re.compile("[\n-\r\x1c-\x1e\x85\u2028\u2029]")
_STYLED = re.compile(r"[^\x00-\x7f\s\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0010ffff]")
_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ ._*|+-][^\W\d_](?![^\W_])){3,}+")
_SEPARATOR = re.compile(r"[ ._*|+-]")
_LEET_WORD = re.compile(r"(?<![a-z0-9@$])(?=[a-z]{0,20}[013457@$])[a-z013457@$]{3,30}(?![a-z0-9@$])")
_LEET = str.maketrans("013457@$", "oieastas")
_LOOK_ALIKES = {
    "a": "аɑα",
    "A": "АΑ",
    "B": "ВΒ",
    "c": "сϲᴄ",
    "C": "СϹ",
    "d": "ԁᴅ",
    "e": "еєεᴇ",
    "E": "ЕΕ",
    "g": "ɡɢԍ",
    "h": "һ",
    "H": "НΗ",
    "i": "іıɩɪι",
    "I": "ІΙ",
    "j": "јϳ",
    "J": "Ј",
    "k": "кκᴋ",
    "K": "КΚ",
    "l": "ӏʟ",
    "m": "мᴍ",
    "M": "МΜ",
    "n": "пηɴ",
    "N": "Ν",
    "o": "оοσᴏ",
    "O": "ОΟ",
    "p": "рρᴘ",
    "P": "РΡ",
    "q": "ԛ",
    "r": "гʀ",
    "s": "ѕꜱ",
    "S": "Ѕ",
    "t": "тτᴛ",
    "T": "ТΤ",
    "u": "υᴜ",
    "v": "νѵᴠ",
    "w": "ѡωᴡ",
    "x": "хχ",
    "X": "ХΧ",
    "y": "уγʏ",
    "Y": "ҮΥУ",
    "z": "ᴢ",
    "Z": "Ζ",
}
_LOOKS_LIKE = {ord(other): plain for plain, others in _LOOK_ALIKES.items() for other in others}


def readings(text: str, spelled: Mapping[str, list[str]]) -> Iterator[str]:
    """The plain reading, then the one without disguise if it differs.

    `spelled` are the words to part letters into where no blank does it, by their first letters.
    """
    seen = without_unseen(text)
    if "&" in seen:
        seen = without_unseen(unescape(seen))
    plain = _joined(folded(seen), spelled)
    yield plain
    undisguised = _undisguised(seen, plain, spelled)
    if undisguised != plain:
        yield undisguised


def folded(text: str) -> str:
    """A text in plain small letters, with blanks made one."""
    if not text.isascii():
        text = text.translate({ord(character): _letter(character) for character in {*_STYLED.findall(text)}})
    return _BLANKS.sub(_blank, text.lower())


@lru_cache(4096)
def _letter(character: str) -> str:
    """A character without width, style, case and marks."""
    if character in "\u2018\u2019\u02bc":
        return "'"
    parts = unicodedata.normalize("NFKD", character.casefold())
    return "".join(part for part in parts if unicodedata.category(part) != "Mn")


def _blank(match: re.Match[str]) -> str:
    return "\n" if _NEW_LINE.search(match.group()) else " "


def _undisguised(seen: str, plain: str, spelled: Mapping[str, list[str]]) -> str:
    latin = seen if seen.isascii() else seen.translate(_LOOKS_LIKE)
    read = plain if latin == seen else _joined(folded(latin), spelled)
    return _LEET_WORD.sub(_without_leet, read).replace("_", " ")


def _without_leet(match: re.Match[str]) -> str:
    word = match.group()
    return word.translate(_LEET) if any(map(str.isalpha, word)) else word


def _joined(text: str, spelled: Mapping[str, list[str]]) -> str:
    return _SPELLED.sub(lambda match: _words(_SEPARATOR.sub("", match.group()), spelled), text)


def _words(letters: str, spelled: Mapping[str, list[str]]) -> str:
    """Letters in a row, parted before and behind every known word."""
    parts: list[str] = []
    position = 0
    while position < len(letters):
        known = spelled.get(letters[position : position + HEAD], ())
        word = next((word for word in known if letters.startswith(word, position)), "")
        parts.append(f" {word} " if word else letters[position])
        position += len(word) or 1
    return "".join(parts)

"""Read numbers: digits of any script, their separators, and number words.

Commas, apostrophes and thin or no-break spaces before groups of three are thousands separators and go;
points go only where they cannot be a decimal point, that is in two or more groups or before a decimal
comma: `1.234.567` and `1.234,5` lose them, `1.234` keeps it. Other runs keep their points (`1.2.3`) and
part at the rest. Signs are not part of a number, and leading zeros stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

from casenotes.learn.quotes import map_text
from casenotes.learn.vocabulary import ANY_LANGUAGE, vocabulary

MAX_DIGITS = 30
"""Longer numbers are not multiplied."""
MAX_IN_WORDS = 10**12
LIKELY = 0.6
"""Share of the best score from which a text may be in another language, too."""
JOINS = frozenset([" ", "-", " and ", " et ", " y ", " e "])
"""What may stand between two words of one number."""

_GROUPING = ",'\u2019\u066c\xa0\u2007\u2009\u202f"
RUN = rf"\d++(?:[.\u066b{_GROUPING}]\d++)*+"
SPACED = r"\d{1,3}(?: \d{3})++(?!\d)(?:,\d++)?"
"""Groups of three apart by plain spaces: one number or several."""

_RUN = re.compile(RUN)
_GROUPED = re.compile(rf"\d{{1,3}}([{_GROUPING}])(?:\d{{2,3}}\1)*\d{{3}}(?:(?!\1)[.,\u066b]\d+)?")
_POINT_GROUPED = re.compile(r"\d{1,3}(?:(?:\.\d{3}){2,}(?:,\d+)?|\.\d{3},\d+)")
_DECIMAL = re.compile(r"\d+[.,\u066b]\d+")
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_WHOLE = re.compile(r"(\d+)\.0{1,2}")
_NARROW_GROUPS = re.compile(r"(?<=\d)[\xa0\u2007\u2009\u202f](?=\d{3}(?!\d))")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_DIGIT_BEHIND = re.compile(r" \d")
_DIGIT_BEFORE = re.compile(r"\d \Z")
_WORD = re.compile(r"[^\W\d_]+")


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text in digits: `1,000`, `1\u00a0000` and `one thousand` give `1000`."""
    return frozenset(n for run in _RUN.findall(with_digits(text)) for n in plain_numbers(run))


def with_digits(text: str, spoken: Sequence[str] | None = None) -> str:
    """The mapped text with ASCII digits in place of other digits and of number words.

    `spoken` are the languages whose words are read, by default those that the text seems to be in.
    """
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda digit: str(int(digit.group())), text)
        text = _NARROW_GROUPS.sub("'", text)
    text = map_text(text)
    for language in [*(languages(text) if spoken is None else spoken), ANY_LANGUAGE]:
        text = _without_words(text, language)
    return vocabulary().halves.sub(r"\1.5", text)


def languages(text: str) -> list[str]:
    """The languages a text may be in, by its function words and number words; English if it has none."""
    counts = Counter(_WORD.findall(text.casefold()))
    scores = {
        language: sum(counts[word] for word in known & counts.keys())
        for language, known in vocabulary().known_words.items()
    }
    best = max(scores.values())
    likely = [language for language, score in scores.items() if score >= LIKELY * best]
    return likely if best else ["en"]


def _without_words(text: str, language: str) -> str:
    """The text with numbers in digits where they are words; 0 and 1 alone are too often no numbers."""
    pattern, values, scales = vocabulary().number_words[language]
    pieces: list[str] = []
    done = 0
    start = end = total = 0
    for match in [*pattern.finditer(text), None]:
        word = match.group().casefold() if match else ""
        if match and 0 < total < MAX_IN_WORDS and text[end : match.start()] in JOINS:
            if word in scales:
                total, end = total * scales[word], match.end()
                continue
            value = values[word]
            is_ten = total % 100 >= 20 and total % 10 == 0
            if (value < 10 and is_ten) or any(total % size == 0 and value < size for size in (100, 1000)):
                total, end = total + value, match.end()
                continue
        if total > 1:
            gap = " " if _DIGIT_BEHIND.match(text, end) else ""  # "forty 429s" is no 40 429
            pieces += (text[done:start], str(total), gap)
            done = end
        if match:
            start, end, total = match.start(), match.end(), values.get(word, 0)
            if word in scales and _DIGIT_BEFORE.search(text, max(0, start - 2), start):
                total = 0  # "20 mil" is one number
    return "".join((*pieces, text[done:]))


def plain_numbers(run: str) -> Iterator[str]:
    """The numbers in one run of digits and separators."""
    if grouped := _GROUPED.fullmatch(run):
        yield _with_point(run.replace(grouped[1], ""))
    elif _POINT_GROUPED.fullmatch(run):
        yield _with_point(run.replace(".", ""))
    elif _DECIMAL.fullmatch(run):
        yield _with_point(run)
    else:
        yield from re.split(r"[^\d.]", run)


def is_number(text: str) -> bool:
    """Whether a text is numbers only, none with two points."""
    return _RUN.fullmatch(text) is not None and all(plain.count(".") < 2 for plain in plain_numbers(text))


def read_number(run: str) -> list[str]:
    """The ways to read a number: `1.234` may be a decimal or a thousand; zeros behind a point are nothing."""
    run = run.replace(" ", "")
    readings = [next(plain_numbers(run))]
    if _AMBIGUOUS.fullmatch(run):
        readings += [re.sub("[.,]", "", run), run.replace(",", ".")]
    readings += [whole[1] for number in readings if (whole := _WHOLE.fullmatch(number))]
    return list(dict.fromkeys(readings))


def times(number: str, factor: int) -> str:
    """A number times a power of ten."""
    if factor == 1 or len(number) > MAX_DIGITS or number.count(".") > 1:
        return number
    product = Decimal(number) * factor
    return str(int(product)) if product == int(product) else str(product.normalize())


def _with_point(number: str) -> str:
    return re.sub(r"[^\d]", ".", number)

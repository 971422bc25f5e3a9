"""Find secrets made of digits alone: payment cards, card security codes, PINs and one-time codes.

Any digits can be an order number. A card number must therefore pass its check digit, begin as its
network's cards do and be grouped as people group cards, unless a word such as "card" stands before
it. A PIN needs to be called one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from casenotes.masking.shapes import Span, occurrences

NO_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")
FEWEST_DIGITS = 3
FEWEST_DIGITS_OF_CARD = 12
MANY_DIGITS = re.compile(r"[0-9][0-9]{3}[ -]?[0-9]{4}[ -]?[0-9]{2}")
CARD = re.compile(
    r"(?<![\w.+/#-])(?:[2-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,4}(?:\1\d{3})?|3\d{3}([ -])\d{6}\2\d{4,5}"
    r"|\d{12,19})(?![\w/]|[-.,]\d)",
    re.ASCII,
)
NETWORKS = (
    (re.compile(r"4"), 16),
    (re.compile(r"5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)"), 16),
    (re.compile(r"3[47]"), 15),
    (re.compile(r"6011|65|64[4-9]"), 16),
    (re.compile(r"35(?:2[89]|[3-8])"), 16),
)
CARD_WORD = re.compile(
    r"card|visa|master|amex|american express|credit|debit|diners|discover|maestro|jcb|carte|tarjeta|karte|"
    r"cc\b|pan\b"
)
OTHER_NUMBER = re.compile(
    r"(?:order|tracking|invoice|imei|serial|shipment|parcel|ticket|reference|ref|case|transaction|phone|"
    r"account|id|isbn|timestamp|customer)(?:[ _-]?(?:number|no|nr|id|num))?"
    r"[\"'.]?(?:\s*[:=#]+\s*|\s+is\s+|\s+)[\"'#]?\Z"
)
CONTEXT = 60

SAID = (
    r"(?:\s(?:for|to|of)\s[^\n.:=?]{1,30}?\sis\s|[\"'*_]{0,3}\s{0,2}[:=#]\s{0,2}"
    r"|\s(?:is|was|to|ist|lautet|est|es|é)\s|\s)[\"'*_`]{0,3}"
)
DIGITS_END = r"(?![\w/%€$£°]|[.,:-]\d|\s?(?:px|mm|cm|characters|digits|minutes|people|years|times)\b)"
PIN = re.compile(
    rf"pin(?:(?:[ -]?code| ?number| no\.?){SAID}(?P<short>\d{{4}})|{SAID}(?P<pin>\d{{4,5}}|\d{{7,8}})"
    rf"|(?:[\"'*_]{{0,3}}\s{{0,2}}[:=]\s{{0,2}}|\sis\s)[\"'*_`]{{0,3}}(?P<six>\d{{6}})){DIGITS_END}"
)
CVV = re.compile(rf"cv[vc]2?(?:\s(?:code|number))?{SAID}(\d{{3,4}}){DIGITS_END}")
CODE = re.compile(rf"code{SAID}(\d{{4,8}}|\d{{3,4}}[ -]\d{{3,4}}){DIGITS_END}")
CODE_OF = re.compile(
    r"(?:verification|one-time|otp|2fa|mfa|security|authentication|login|access|unlock|door|gate|alarm|entry|"
    r"recovery|sms)[ -](?:pass)?\Z"
)
WORD_END = re.compile(r"(?<![a-z])\Z")
BY_NAME = (("pin", PIN, WORD_END), ("cv", CVV, WORD_END), ("code", CODE, CODE_OF))


def numeric(text: str, lowered: str) -> Iterator[Span]:
    """Every secret number."""
    digits = len(text.encode("utf-8", "replace").translate(None, NO_DIGITS))
    if digits < FEWEST_DIGITS:
        return
    if digits >= FEWEST_DIGITS_OF_CARD and MANY_DIGITS.search(text):
        yield from _cards(text, lowered)
    for name, pattern, before in BY_NAME:
        for start in occurrences(lowered, name) if name in lowered else ():
            match = pattern.match(lowered, start)
            if match and before.search(lowered[max(0, start - CONTEXT) : start]):
                yield *match.span(match.lastindex or 0), "pin"


def _cards(text: str, lowered: str) -> Iterator[Span]:
    for match in CARD.finditer(text):
        if _is_card(match.group(), lowered[max(0, match.start() - CONTEXT) : match.start()]):
            yield *match.span(), "card"


def _is_card(number: str, before: str) -> bool:
    digits = number.replace(" ", "").replace("-", "")
    if not passes_luhn(digits) or len(set(digits)) < 2:
        return False
    if digits == number and OTHER_NUMBER.search(before):
        return False
    return bool(CARD_WORD.search(before)) or any(
        len(digits) == length and start.match(digits) for start, length in NETWORKS
    )


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit that card numbers carry."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0

r"""Read the values that a text names, in a form in which equal values are equal strings.

A value is a number, an amount, a date, a time of day, a version, a URL or an identifier. However it is
written, it is read into keys: `number:12000`, `amount:16 gb`, `time:06:00`, `date:05-03`, `version:2`. A
writing that can be understood in two ways has both keys, and two values are the same if they share one.

A text supports more than it claims. The digits of `pay-3` support the number 3, but not `3 GB`: an amount
needs the same amount, or its number without a unit. So each value has what it `needs`, and a reading has
all `keys` that the text says.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from casenotes.characters import BLANK, CJK, SOUTHEAST_ASIAN
from casenotes.learn.numerals import (
    RUN,
    SPACED,
    is_number,
    languages,
    plain_numbers,
    read_number,
    times,
    with_digits,
)
from casenotes.learn.vocabulary import ANY_LANGUAGE, vocabulary

MAX_IDENTIFIER = 500
"""Nothing that long is looked for; it is made up, or it is no identifier."""
MAX_BRACKETS = 8
TAKEN = "\n"
"""Stands for what was read already; a mapped text has no line breaks."""
MAX_PARTS = 6
MAX_SLASHES = 2
"""More of them make a path, whose parts do not stand for the whole."""
MAX_PRODUCT = 12
"""Letters of a name that stands before its number: `Node 18`."""
MAX_WORD = 20
MAX_ENDING = 3
"""Letters of what is no noun behind a name."""
MAX_ITEM_WORDS = 3
STATUS_DIGITS = 3
"""`401s` may be several of 401; `30s` are seconds only."""

_UNSPACED = CJK + SOUTHEAST_ASIAN
_WIDE_MARKS = "\u3001-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20"
_OUTSIDE = rf"{BLANK}{_UNSPACED}{_WIDE_MARKS}<>\"'`"
_TOKEN = re.compile(rf"(?:[^{_OUTSIDE}()\[\]{{}};|*!?\u2026,]|(?<=\d),(?=\d))+")
_CORE = re.compile(r"[\w@/](?:.*\w)?", re.DOTALL)
URL = re.compile(
    rf"(?<![a-z0-9])[a-z][a-z0-9+.-]{{0,30}}+://[\[/:]{{0,4}}[a-z0-9][^{_OUTSIDE}]*", re.IGNORECASE
)
_SENTENCE = ".,;:!?*_|"
_OPENED_BY = {")": "(", "]": "[", "}": "{"}
_INNER_POINT = re.compile(r"[^\W_]\.[^\W_]")
_CODE = re.compile(rf"(?<!\w)([A-Za-z]{{1,{MAX_PRODUCT}}}) ?(\d{{1,9}}[a-z]?)(?!\w)(?![.,]\d)")
_PRODUCT = re.compile(rf"([A-Za-z]{{1,{MAX_PRODUCT}}}) \Z")
_NEXT_WORD = re.compile(r" ([^\W\d_]{2,})")
_WORD_BEFORE = re.compile(r"([^\W\d_]+) \Z")
_LIST = re.compile(r"(?: [^\s:(,.;]{1,40}){1,2}(?::| \(|,) ?([^\n:().;]{3,200})")
_VERSION_MARK = re.compile(r"^v(?=\d)")
_YEAR_PART = re.compile(r"(?:mid|early|late|mitte|anfang|ende|fin|d\u00e9but)-(\d{4})", re.IGNORECASE)
_COUNTED = re.compile(rf"(?<![\w.,'])(\d{{1,9}}(?:[.,]\d{{1,9}})?) ([^\W\d_]{{1,{MAX_PRODUCT}}})(?!\w)")
_NUMBER_BEFORE = re.compile(r"(?<![\w.,'])(\d{1,9}(?:[.,]\d{1,9})?) \Z")
_TRAILING_ZERO = re.compile(r"\.[1-9]0\Z|\A0\.\d*[1-9]0+\Z")
_STATUS_CLASS = re.compile(r"([1-5])xx")
_CODE_NUMBER = re.compile(r" (\d{1,9}[a-z]?)(?!\w)")
_HOURS = frozenset(map(str, range(25)))
_JOINTS = re.compile(r"[/=:+&~\u2192]+|->")


@dataclass(frozen=True, slots=True)
class Value:
    """A value as a text names it.

    One of the sets in `needs` must be among the keys that the sources say; failing that, all `parts` of a
    compound must be named, or an identifier must stand in the sources as it is.
    """

    text: str
    needs: tuple[frozenset[str], ...]
    parts: tuple[str, ...] = ()
    is_identifier: bool = False


class Reading:
    """The values of a text, and all keys that it says."""

    def __init__(self, text: str) -> None:
        self._languages = languages(text)
        self.text = with_digits(text, self._languages)
        self.values: list[Value] = []
        self.keys: set[str] = set()
        self._rest = self.text
        patterns = _patterns()
        self._take(URL, self._read_url)
        for dates in patterns.dates:
            self._take(dates, self._read_date)
        for clock_times in patterns.times:
            self._take(clock_times, self._read_time)
        self._take(patterns.versions, self._read_version)
        self._take(patterns.weekdays, self._read_weekday)
        self._take(patterns.amounts, self._read_amount)
        self._take(patterns.rates, self._read_rate)
        self._read_identifiers()
        self._read_digits()
        self._read_words(patterns)

    def _take(self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], int | None]) -> None:
        """Read all matches in the rest; `read` returns where what it took ends, or None."""
        pieces: list[str] = []
        done = 0
        for match in pattern.finditer(self._rest):
            end = read(match)
            if end is not None:
                pieces += (self._rest[done : match.start()], TAKEN * (end - match.start()))
                done = end
        self._rest = "".join((*pieces, self._rest[done:]))

    def _add(self, text: str, *needs: Iterable[str]) -> None:
        self.values.append(Value(text, tuple(map(frozenset, needs))))

    def _read_url(self, match: re.Match[str]) -> int:
        url = trim_url(match.group())
        key = _url_key(url)
        self.keys.update((key, _url_key(re.split("[?#]", url)[0])))
        self.values.append(Value(url, (frozenset([key]),), is_identifier=True))
        return match.start() + len(url)

    def _read_date(self, match: re.Match[str]) -> int | None:
        named = match.groupdict()
        if match.group() in vocabulary().everyday:
            return None
        month = vocabulary().month(named["month"]) if named.get("month") else 0
        if month:
            days = [(month, int(day)) for day in (named["day"], named.get("last")) if day]
        elif named.get("before"):
            days = [(int(named["first"]), int(named["second"]))]
        else:
            days = [(int(named["second"]), int(named["first"]))]
            if "/" in match.group():
                days.append((int(named["first"]), int(named["second"])))
        days = [(m, day) for m, day in days if 1 <= m <= 12 and 1 <= day <= 31]
        if not days:
            return None
        year = named.get("before") or named.get("year") or ""
        year = f"20{year}" if len(year) == 2 else year
        needs: list[set[str]] = []
        for m, day in days:
            date = f"{m:02}-{day:02}"
            self.keys |= {f"date:{date}", f"number:{day}", f"number:{m}"}
            self.keys.add(f"date:{year}-{date}" if year else f"undated:{date}")
            if year:
                needs += [{f"date:{year}-{date}"}, {f"undated:{date}", f"number:{year}"}]
            else:
                needs.append({f"date:{date}"})
            if month:
                apart = {f"month:{m}", *([f"number:{year}"] if year else [])}
                needs += [apart | {f"bare:{day}"}, apart | {f"ordinal:{day}"}]
            elif "/" in match.group() and not year:  # "12/15" may be 12 of 15
                self.keys |= {f"bare:{m}", f"bare:{day}"}
        if named.get("last"):
            needs = [needs[0] | needs[len(needs) // 2]]
        elif named.get("point"):  # "3.5." may be a number that ends a sentence
            needs += [{f"number:{number}"} for number in read_number(match.group()[:-1])]
        parts = () if month or year else compound_parts(match.group())
        self.values.append(Value(match.group(), tuple(map(frozenset, needs)), parts))
        return match.end()

    def _read_time(self, match: re.Match[str]) -> int | None:
        named = match.groupdict()
        hour = int(named["hour"])
        minute = int(next((named[name] for name in ("minute", "minutes", "rest") if named.get(name)), 0))
        half = vocabulary().day_halves.get((named["half"] or "").casefold())
        if hour > 24 or minute > 59:
            return None
        hours = [hour]
        if named.get("half_before") or named.get("half_after"):
            hours, minute = [hour - 1 if named.get("half_before") else hour], 30
            hours += [] if half else [hours[0] + 12]
        elif not half and hour <= 12 and "clock" in match.group():
            hours.append(hour + 12)
        if half and hour <= 12:
            hours = [hours[0] % 12 + (12 if half == "pm" else 0)]
        keys = {f"time:{hour % 24:02}:{minute:02}" for hour in hours}
        self.keys |= {*keys, f"number:{hour}"}
        needs = [{key} for key in keys]
        if not half and not minute:
            needs.append({f"bare:{hour}"})
        elif not half:
            needs.append({f"bare:{hour}.{minute:02}"})  # "alle 9.40"
        self._add(match.group(), *needs)
        return match.end()

    def _read_version(self, match: re.Match[str]) -> int:
        number = match["number"]
        needs = [{f"version:{number}"}, {f"version:{number.removesuffix('.0')}"}]
        if product := _PRODUCT.search(self.text, max(0, match.start() - MAX_PRODUCT), match.start()):
            needs.append({f"code:{product[1]}{number}".casefold()})
        if "." in number:
            needs.append({f"number:{number}"})
        elif len(match["word"]) > 1:
            needs.append({f"bare:{number}"})
        self.keys |= needs[0] | needs[1]
        self._add(match.group(), *needs)
        return match.end()

    def _read_weekday(self, match: re.Match[str]) -> int:
        key = f"weekday:{vocabulary().weekdays[match['day'].casefold()]}"
        self.keys.add(key)
        self._add(match.group(), {key})
        return match.end()

    def _read_amount(self, match: re.Match[str]) -> int | None:
        """A number with its unit, if it has one, or two numbers that share it: `5 to 10 minutes`."""
        words = vocabulary()
        text, unit, scale = match.group(), match["unit"] or match["currency"], match["scale"]
        if not unit and not is_number(match["number"].replace(" ", "")) and match["number"].count(".") > 1:
            return None  # an address or a version, which is an identifier
        numbers = [read_number(number) for number in (match["from"], match["number"]) if number]
        if unit:  # 1.20 MB is 1.2 MB, while a bare 1.20 may be a version
            numbers = [
                [*found, *(n.rstrip("0") for n in found if _TRAILING_ZERO.search(n))] for found in numbers
            ]
        factor = (words.scales.get(scale) or words.scales[scale.casefold()]) if scale else 1
        needs: list[set[str]] = []
        for found in itertools.product(*([times(n, factor) for n in readings] for readings in numbers)):
            self.keys |= {f"number:{n}" for n in found}
            bare = {f"bare:{n}" for n in found}
            if not unit:
                self.keys |= bare
                is_strict = match["from"] or (not match["ordinal"] and self._is_count(match))
                if match["ordinal"]:
                    self.keys |= {f"ordinal:{n}" for n in found}
                needs.append(bare if is_strict else {f"number:{found[0]}"})
                if is_strict:
                    needs.append({f"plural:{n}" for n in found})
                    if self._lists(found[0], match.end()):
                        needs.append(set())
                continue
            is_word = len(unit) > 2 and unit.isalpha()
            for name in words.units_of(unit):
                amounts = {f"amount:{n} {name}" for n in found}
                self.keys |= {*amounts, f"unit:{name}"}
                if name == "times":
                    self.keys |= bare
                label = "unit" if name in words.currencies else "label"
                needs += [amounts, bare if is_word else bare | {f"{label}:{name}"}]
            if unit.casefold() in words.hours and found[0] in _HOURS and not match["from"]:
                clock_time = f"time:{int(found[0]):02}:00"
                self.keys.add(clock_time)
                needs.append({clock_time})
            if re.fullmatch(rf"\d{{{STATUS_DIGITS},}}s", text):
                self.keys.add(f"plural:{found[0]}")
                needs += [bare, {f"plural:{found[0]}"}]
        if scale in ("k", "K", "M") and not unit:  # 512M may be memory
            memory = {f"amount:{n} {scale.lower()}b" for n in numbers[-1]}
            self.keys |= memory
            needs += [{key} for key in memory]
        if " " in match["number"] and not unit and not scale:
            needs.append({f"number:{n}" for n in match["number"].split()})
        is_code = bool(match["from"]) and "-" in text and not unit
        is_code |= text.casefold() in words.everyday
        self.values.append(Value(text, tuple(map(frozenset, needs)), is_identifier=is_code))
        return match.end()

    def _read_rate(self, match: re.Match[str]) -> int:
        units = [f"unit:{unit}" for unit in vocabulary().units_of(match["unit"])]
        self.keys.update(units)
        self._add(match.group(), *([unit] for unit in units))
        return match.end()

    def _is_count(self, match: re.Match[str]) -> bool:
        """Whether a number counts what the next word names; behind a word of its own it may be a name."""
        if not (noun := _NEXT_WORD.match(self.text, match.end())):
            return False
        function_words = vocabulary().function_words
        before = _WORD_BEFORE.search(self.text, max(0, match.start() - MAX_WORD), match.start())
        is_name = before and before[1].casefold() not in function_words
        return not is_name and noun[1].casefold() not in function_words

    def _lists(self, number: str, end: int) -> bool:
        """Whether the text itself names as many things as it counts: `two hosts: pay-2 and pay-3`."""
        listed = _LIST.match(self.text, end)
        if not listed or not number.isdigit() or len(number) > 1:
            return False
        items = _patterns().list_joints.split(listed[1])[: int(number)]
        return len(items) == int(number) and all(len(item.split()) <= MAX_ITEM_WORDS for item in items)

    def _read_identifiers(self) -> None:
        words = vocabulary()
        compounds: list[str] = []
        for start, end in token_spans(self._rest):
            token = self._rest[start:end]
            if token[0] == "/" and self._rest[start - 1 : start] == TAKEN and token[1:].isalpha():
                continue  # "10 €/month"
            folded = token.casefold()
            needs = [{f"unit:{unit}"} for unit in words.units_of(token)]
            if len(token) <= MAX_IDENTIFIER:
                codes = {f"code:{folded}", f"code:{_VERSION_MARK.sub('', folded)}"}
                needs += [{code} for code in codes]
                self.keys |= codes
            if number := _CODE_NUMBER.match(self.text, end):
                needs.append({f"code:{folded}{number[1]}"})
            if number := _NUMBER_BEFORE.search(self.text, max(0, start - MAX_WORD), start):
                needs.append({f"code:{number[1]}{folded}"})
            if token.count(".") > 1 and re.fullmatch(RUN, token):
                needs += [{f"number:{token}"}, {f"version:{token}"}]
            if status := _STATUS_CLASS.fullmatch(folded):
                needs += [{f"number:{status[1]}{number:02}"} for number in range(100)]
            parts = compound_parts(token)
            compounds += parts
            self.values.append(Value(token, tuple(map(frozenset, needs)), parts, is_identifier=True))
        for pattern in (_CODE, _COUNTED):
            self.keys.update(f"code:{code[1]}{code[2]}".casefold() for code in pattern.finditer(self.text))
        if compounds:
            self.keys |= Reading("\n".join(compounds)).keys

    def _read_digits(self) -> None:
        """The numbers that digits support wherever they stand; of `3.11` also the 3."""
        for run in set(re.findall(RUN, self.text)):
            for number in plain_numbers(run):
                self.keys |= {f"number:{reading}" for reading in (number, *read_number(number))}
                if len(number) == 2 and number[0] == "0":
                    self.keys.add(f"number:{number[1]}")
                if "." in number and number[0] != "0":
                    self.keys.add(f"number:{number.partition('.')[0]}")
        for spaced in set(re.findall(rf"(?<![\d.,]){SPACED}", self.text)):
            self.keys |= {f"number:{number}" for number in read_number(spaced)}

    def _read_words(self, patterns: _Patterns) -> None:
        """What words support without claiming it: units and months alone, `an hour`, `both`, `third`."""
        words = vocabulary()
        for match in patterns.loose_units.finditer(self._rest):
            for unit in words.units_of(match["unit"]):
                self.keys.add(f"unit:{unit}")
                if match["label"]:
                    self.keys.add(f"label:{unit}")
        for match in patterns.single_units.finditer(self.text):
            self.keys |= {f"amount:1 {unit}" for unit in words.units_of(match["unit"])}
        for match in patterns.durations.finditer(self.text):
            self.keys.add(f"amount:{words.durations[match.group().casefold()]}")
        for match in patterns.moments.finditer(self.text):
            self.keys.add(f"time:{words.moments[match.group().casefold()]}")
        for match in patterns.months.finditer(self._rest):
            self.keys.add(f"month:{words.month(match.group())}")
        for match in patterns.short_weekdays.finditer(self._rest):
            self.keys.add(f"weekday:{words.weekdays[match.group()]}")
        for language in (*self._languages, ANY_LANGUAGE):
            pattern, numbers = words.loose_numbers[language]
            for match in pattern.finditer(self._rest):
                key = numbers[match.group().casefold()]
                self.keys |= {key, key.replace("bare", "number"), key.replace("number", "ordinal")}


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where identifiers stand in a text without URLs."""
    for token in _TOKEN.finditer(text):
        if token.group().islower() and token.group().isalpha():
            continue  # the usual word, told apart quickly
        if core := _CORE.search(token.group()):
            edge = 1 if _is_emphasised(core.group()) else 0
            start, end = token.start() + core.start() + edge, token.start() + core.end() - edge
            if _is_identifier(text[start:end]):
                yield start, end


def _is_emphasised(token: str) -> bool:
    """Whether the underscores around a word are markdown; two of them are a name's own."""
    return re.fullmatch(r"_[^_]+_", token) is not None


def _is_identifier(token: str) -> bool:
    if not any(map(str.isalnum, token)) or is_number(token) or token.casefold() in vocabulary().abbreviations:
        return False
    return (
        any(c.isdecimal() or c in "_/:@=" for c in token)
        or _INNER_POINT.search(token) is not None
        or any(map(_has_inner_capital, token.split("-")))
    )


def _has_inner_capital(part: str) -> bool:
    return any(map(str.isupper, part[1:]))


def compound_parts(token: str) -> tuple[str, ...]:
    """The parts that stand for a compound when each is named; none of an address, a path or a name.

    `pay-2/pay-3` and `PORT=80` part at their joints; hyphens part only words: `rate-LIMIT`. Behind an
    abbreviation a plain word needs not to be named, and neither does a noun behind a name: `TLS-Fehler`,
    `pay-2-Server`.
    """
    if token[0] in "/@" or "@" in token or "\\" in token or token.count("/") > MAX_SLASHES:
        return ()
    parts = tuple(filter(None, _JOINTS.split(token)))
    if len(parts) > 1:
        is_path = "/" in token and any(map(_INNER_POINT.search, parts))
        return () if is_path or len(parts) > MAX_PARTS else parts
    if year := _YEAR_PART.fullmatch(token):
        return (year[1],)
    head, _, noun = token.rpartition("-")
    if len(noun) > MAX_ENDING and noun.isalpha() and noun.istitle() and _is_identifier(head):
        return (head,)
    words = token.split("-")
    if len(words) < 2 or not all(word.isalpha() or word.casefold() in vocabulary().everyday for word in words):
        return ()
    if len(words[0]) > 1 and words[0].isupper():
        return tuple(filter(_is_identifier, words))
    return tuple(filter(None, words))


def trim_url(matched: str) -> str:
    """A matched URL without the punctuation of the sentence around it."""
    url = matched.rstrip(_SENTENCE)
    for _ in range(MAX_BRACKETS):
        if url[-1:] in _OPENED_BY and url.count(url[-1]) > url.count(_OPENED_BY[url[-1]]):
            url = url[:-1].rstrip(_SENTENCE)
    return url


def _url_key(url: str) -> str:
    return f"url:{url.casefold().rstrip('/')}"


class _Patterns:
    """How values are written. Each pattern is tried on what the ones before it left."""

    def __init__(self) -> None:
        words = vocabulary()
        self.list_joints = re.compile(rf",? (?:{words.any_of('list_words')}) |, ", re.IGNORECASE)
        edge = rf"(?<![^\W{_UNSPACED}])(?<![@\\/])(?<!\w[.:=_+-])"
        left, letter_left = rf"(?=\d){edge}", rf"(?=[^\W\d_]){edge}"
        right = rf"(?![^\W{_UNSPACED}])(?![.:@=+&']\w)(?!-(?=\w)(?![^\W\d_]{{3}}))"
        units, long_units, months = words.any_unit(), words.any_unit(min_length=2), words.any_month()
        between = rf" ?(?:[-/]|(?<= )(?:{words.any_of('between')})(?= )) ?"
        number = rf"(?:{SPACED}|{RUN})"
        currencies = words.any_of("currency_prefixes")
        self.amounts = re.compile(
            rf"(?=[\d$\u20ac\xa3\xa5\u20b9a-zA-Z])(?:(?<![^\W\d_])(?P<currency>(?i:{currencies})) ?|{left})"
            rf"(?:(?P<from>{number}){between})?(?P<number>{number})"
            rf"(?:[ -]?(?P<scale>{words.any_scale()})(?![^\W_])\.?)?"
            rf"(?:(?P<ordinal>{words.any_of('ordinal_endings')})(?![^\W_])"
            rf"|(?:[ -]| (?:{words.any_of('of')}) (?!us\b))?(?P<unit>{units})(?![^\W{_UNSPACED}]))?+"
            rf"{right}(?!/\d)"
        )
        half = rf"(?:,? ?(?P<half>{words.any_of('day_halves')})(?!\w))"
        unnamed_half = half.replace("?P<half>", "?:")
        time_left = rf"(?=\d)(?<![^\W{_UNSPACED}])(?<![@\\/])(?<!\w[.:=_+])"
        time_right = rf"(?![^\W{_UNSPACED}])(?![.:@=+&']\w)"
        self.times = tuple(
            re.compile(pattern + time_right, re.IGNORECASE)
            for pattern in (
                rf"(?<!\w)(?:(?P<half_before>{words.any_of('half_before')})|(?P<half_after>{words.any_of('half_after')}))"
                rf" (?P<hour>\d\d?){half}?",
                rf"{time_left}(?P<hour>\d\d?):(?P<minute>\d\d)(?::\d\d(?:\.\d+)?)?z?"
                rf"(?: ?(?:{words.any_of('oclock')}))?{half}?",
                rf"{time_left}(?P<hour>\d\d?)(?:\.(?P<minute>\d\d))? ?(?:{words.any_of('oclock')})"
                rf"(?: (?P<minutes>\d\d)(?!\d))?{half}?",
                rf"{time_left}(?P<hour>\d\d?) ?h ?(?P<rest>\d\d)(?! ?m){half}?",
                rf"{time_left}(?P<hour>\d\d?)(?: ?(?:{words.any_of('clock')}))?(?={unnamed_half}){half}",
            )
        )
        self.versions = re.compile(
            rf"{letter_left}(?P<word>{words.any_of('versions')})[. ]?(?P<number>\d+(?:\.\d+)*){right}(?!/\w)",
            re.IGNORECASE,
        )
        of = rf"(?:(?:{words.any_of('of')}) )?"
        year = rf"(?:,? {of}(?P<year>\d{{4}})(?!\w|:\d))?"
        article = rf"(?:(?:{words.any_of('day_articles')}) )?"
        ordinal = r"st|nd|rd|th|er|\.|\u00ba|\u00b0"
        self.dates = tuple(
            re.compile(pattern)
            for pattern in (
                left + r"(?P<before>\d{4})([-/.])(?P<first>\d\d?)\2(?P<second>\d\d?)(?:T(?=\d\d:)|(?![\w-]))",
                rf"{left}(?P<first>\d\d?)([-/.])(?P<second>\d\d?)\2(?P<year>\d{{4}}|\d\d){right}",
                rf"{left}(?:(?P<last>\d\d?)(?:{ordinal})?{between}{article})?(?P<day>\d\d?)(?:{ordinal})? "
                rf"{of}(?P<month>{months})(?!\w)\.?{year}",
                rf"{letter_left}(?P<month>{months})\.? (?:the )?(?P<day>\d\d?)(?:st|nd|rd|th)?"
                rf"(?:{between}(?P<last>\d\d?)(?![\w:.]))?{year}(?!\w|[.,:]\d)",
                rf"{left}(?P<first>\d\d?)/(?P<second>\d\d?){right}(?!/)",
                left + r"(?P<first>\d\d?)\.(?P<second>\d\d?)(?P<point>\.)(?!\w)",
            )
        )
        self.months = re.compile(rf"(?<!\w)(?:{months})(?!\w)")
        self.weekdays = re.compile(rf"(?<!\w)(?P<day>{words.any_of('weekdays')})s?(?!\w)", re.IGNORECASE)
        self.short_weekdays = re.compile(rf"(?<!\w)(?:{words.any_of('short_weekdays')})(?!\w)")
        self.loose_units = re.compile(
            rf"(?P<label>_|[(\[]|(?<!\w)(?:{words.any_of('unit_labels')}) )?"
            rf"(?<![^\W_])(?P<unit>{long_units})(?!\w)"
        )
        self.rates = re.compile(
            rf"(?!(?:{words.any_of('not_rates')})(?!\w))"
            rf"(?:(?<!\w)(?:{words.any_of('rates')}) |(?<={TAKEN})/)(?P<unit>{long_units})(?!\w)"
        )
        self.single_units = re.compile(
            rf"(?<!\w)(?:{words.any_of('articles')}) ?(?P<unit>{long_units})(?!\w)", re.IGNORECASE
        )
        self.moments = re.compile(rf"(?<!\w)(?:{words.any_of('moments')})(?!\w)", re.IGNORECASE)
        self.durations = re.compile(rf"(?<!\w)(?:{words.any_of('durations')})(?!\w)", re.IGNORECASE)


@cache
def _patterns() -> _Patterns:
    return _Patterns()

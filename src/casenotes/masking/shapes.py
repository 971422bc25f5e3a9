"""Find secrets that give themselves away by their shape, whatever stands around them.

Such a secret is a long word, and most texts have few of those: prefixes are looked for in the long
words alone. Only where one is found does its pattern run, and only at the start of a word, so that a
long run of prefixes is read once. Patterns are compiled when their prefix is first met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from casenotes.masking.values import DIGIT, LETTER, STANDARD, is_random, is_stand_in

Span = tuple[int, int, str]

ANY = r"[A-Za-z0-9_-]"
UNDERSCORED = (
    ("ghp_", "api_key", r"ghp_[A-Za-z0-9]{20,255}"),
    ("gho_", "api_key", r"gho_[A-Za-z0-9]{20,255}"),
    ("ghu_", "api_key", r"ghu_[A-Za-z0-9]{20,255}"),
    ("ghs_", "api_key", r"ghs_[A-Za-z0-9]{20,255}"),
    ("ghr_", "api_key", r"ghr_[A-Za-z0-9]{20,255}"),
    ("_pat_", "api_key", r"(?:github|dckr)_pat_[A-Za-z0-9_-]{20,255}"),
    ("k_live_", "api_key", r"[srp]k_live_[A-Za-z0-9]{10,255}"),
    ("k_test_", "api_key", r"[srp]k_test_[A-Za-z0-9]{10,255}"),
    ("whsec_", "secret", r"whsec_[A-Za-z0-9+/=]{16,255}"),
    ("rzp_", "api_key", r"rzp_(?:live|test)_[A-Za-z0-9]{10,64}"),
    ("hf_", "api_key", r"hf_[A-Za-z0-9]{20,64}"),
    ("npm_", "api_key", r"npm_[A-Za-z0-9]{30,64}"),
    ("_v1_", "api_key", r"do[opr]_v1_[a-f0-9]{40,64}"),
    ("shp", "api_key", r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{24,64}"),
    ("glsa_", "api_key", r"glsa_[A-Za-z0-9_]{32,64}"),
    ("glc_", "api_key", r"glc_[A-Za-z0-9+/=]{32,400}"),
    ("gsk_", "api_key", r"gsk_[A-Za-z0-9]{32,128}"),
    ("r8_", "api_key", r"r8_[A-Za-z0-9]{32,64}"),
    ("ntn_", "api_key", r"ntn_[A-Za-z0-9]{32,64}"),
    ("lin_api_", "api_key", r"lin_api_[A-Za-z0-9]{32,64}"),
    ("figd_", "api_key", rf"figd_{ANY}{{32,64}}"),
    ("sntry", "api_key", r"sntry[su]_[A-Za-z0-9+/=_]{40,400}"),
    ("sbp_", "api_key", r"sbp_[a-f0-9]{40}"),
    ("pscale_", "api_key", r"pscale_(?:pw|tkn|oauth)_[\w.-]{32,64}"),
    ("rubygems_", "api_key", r"rubygems_[a-f0-9]{48}"),
    ("CCIPAT_", "api_key", r"CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    ("fm2_", "api_key", r"fm2_[A-Za-z0-9+/=_-]{40,1000}"),
    ("tvly", "api_key", r"tvly[-_][A-Za-z0-9_-]{24,64}"),
)
DASHED = (
    ("sk-", "api_key", rf"sk-(?={ANY}{{0,60}}[A-Z0-9]){ANY}{{16,255}}"),
    ("glpat-", "api_key", r"glpat-[A-Za-z0-9_.-]{16,128}"),
    ("gl", "api_key", r"gl(?:dt|rt|ptt|ft|soat|agent|cbt|oas|imt|ffct)-[A-Za-z0-9_.-]{20,128}"),
    ("xox", "api_key", r"xox[abeoprsc](?:\.xox[a-z])?-(?=[A-Za-z-]{0,40}\d)[A-Za-z0-9-]{10,255}"),
    ("xapp-", "api_key", r"xapp-\d-[A-Za-z0-9-]{10,255}"),
    ("pypi-", "api_key", rf"pypi-(?=[A-Za-z0-9_-]{{0,40}}[A-Z])(?=[A-Za-z0-9_-]{{0,80}}\d){ANY}{{32,400}}"),
    ("GOCSPX-", "secret", rf"GOCSPX-{ANY}{{20,64}}"),
    ("key-", "api_key", r"key-(?=[a-f]{0,31}\d)[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("-us", "api_key", r"[a-f0-9]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    ("PMAK-", "api_key", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("NRAK-", "api_key", r"NRAK-[A-Z0-9]{27}"),
    ("xai-", "api_key", r"xai-[A-Za-z0-9]{40,128}"),
    ("pplx-", "api_key", r"pplx-[A-Za-z0-9]{32,64}"),
    ("sq0", "api_key", rf"sq0(?:atp|csp|idp)-{ANY}{{22,64}}"),
    ("AGE-SECRET-KEY-1", "private_key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,64}"),
    ("access-", "token", r"access-(?:sandbox|development|production)-[0-9a-f-]{36}"),
)
DOTTED = (
    ("SG.", "api_key", rf"SG\.{ANY}{{16,32}}\.{ANY}{{16,64}}"),
    ("ya29.", "token", rf"ya29\.{ANY}{{20,1000}}"),
    ("hv", "token", rf"hv[sbr]\.{ANY}{{20,300}}"),
    (".atlasv1.", "api_key", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{ANY}{{40,100}}"),
    ("dp.", "api_key", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,64}"),
    ("dt0c01.", "api_key", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("pat", "api_key", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
)
PLAIN = (
    ("AKIA", "api_key", r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("ASIA", "api_key", r"ASIA(?=[A-Z]{0,15}\d)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("AIza", "api_key", rf"AIza{ANY}{{30,45}}"),
    ("SK", "api_key", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("dapi", "api_key", r"dapi[a-f0-9]{32}(?:-\d)?"),
    ("ATATT3", "api_key", r"ATATT3[A-Za-z0-9_=-]{40,400}"),
    ("ATBB", "api_key", r"ATBB[A-Za-z0-9]{24,40}"),
    ("EAA", "token", r"EAA(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{60,400}"),
    ("APA91b", "token", rf"APA91b{ANY}{{100,300}}"),
    ("1//0", "token", rf"1//0{ANY}{{30,200}}"),
    ("eyJ", "token", rf"eyJ{ANY}{{8,}}\.{ANY}{{8,}}(?:\.{ANY}*)*"),
    ("Q~", "secret", r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{28,40}"),
    (":AA", "token", rf"\d{{7,12}}:AA{ANY}{{30,40}}(?![A-Za-z0-9])"),
    ("hooks.slack.com/services/", "token", r"hooks\.slack\.com/services/T\w+/B\w+/(\w{16,64})"),
    ("sig=", "token", r"sig=([A-Za-z0-9%+/]{30,128}={0,2})"),
    ("ignature=", "token", r"ignature=([A-Za-z0-9%+/]{40,128}={0,2})"),
    ("/api/webhooks/", "token", rf"/api/webhooks/\d+/({ANY}{{40,100}})"),
)
A_LONG_WORD = b"x" * 18
SPACES_AND_OTHERS = bytes(b" x"[byte > 32] for byte in range(256))
GATED = (("_", UNDERSCORED), ("-", DASHED), (".", DOTTED), ("", PLAIN))
OFFSETS = {
    "_pat_": (6, 4),
    "k_live_": (1,),
    "k_test_": (1,),
    "_v1_": (3,),
    "-us": (32,),
    ".atlasv1.": (14,),
    "Q~": (4,),
    ":AA": (12, 11, 10, 9, 8, 7),
}
INSIDE = frozenset(("sig=", "ignature=", "hooks.slack.com/services/", "/api/webhooks/"))
STARTS_WORD = re.compile(r"(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%3[ADad])|(?<=/bot)")

AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
AWS_NEAR = 160
DISCORD = re.compile(r"\.[\w-]{6}\.[\w-]{27,40}(?![\w-])", re.ASCII)
DISCORD_HEAD = re.compile(r"(?<![\w.-])[MNO][\w-]{22,27}\Z", re.ASCII)

PEM_NAME = "PRIVATE KEY"
PEM_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}")
PEM_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}\Z")
PEM_CLOSING = re.compile(r"PRIVATE KEY(?: BLOCK)? ?-{0,5}")
PEM_BODY = re.compile(
    r"(?:(?:\s|\\[nr]|[\"'+>,|\\])*+"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]*|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/]*=+))*"
)

USERINFO = re.compile(
    r"://[^\s:/@\"'<>`\[\]]{0,128}:(?!\d{1,5}(?:[/?#]|$))"
    r"([^\s\"'<>`/?#]{1,128}|[^\s\"'<>`]{1,128}?)@(?=[\w\[.$%{-])"
)
USER_TOKEN = re.compile(r"://([A-Za-z0-9_-]{20,128})@")
FARTHEST_AT = 300
BEARER = re.compile(r"[Bb](?:earer|EARER)(?:\s+|%20)[\"']?([A-Za-z0-9._~+/=-]{8,4096})")
EXAMPLE_PASSWORDS = frozenset(("password", "pass", "passwd", "pwd"))


def shaped(text: str) -> Iterator[Span]:
    """Every secret with a telling shape; spans may repeat or overlap."""
    if words := " ".join(_long_words(text)):
        yield from _prefixed(text, words)
        if DISCORD.search(words):
            yield from _discord(text)
        if PEM_NAME in text:
            yield from _private_keys(text)
    if "earer" in text or "EARER" in text:
        yield from ((*m.span(1), "token") for m in BEARER.finditer(text) if _is_bearer(m.group(1)))
    if "@" in text and "://" in text:
        yield from _passwords_in_addresses(text)


def occurrences(text: str, part: str) -> Iterator[int]:
    """Where a part occurs, from left to right."""
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + 1)


def _long_words(text: str) -> Iterator[str]:
    """The words that are long enough for a key; this takes a fifth of the time of splitting the text."""
    drawn = text.encode("ascii", "replace").translate(SPACES_AND_OTHERS)
    start = drawn.find(A_LONG_WORD)
    while start >= 0:
        end = drawn.find(b" ", start)
        end = end if end >= 0 else len(text)
        yield text[start:end]
        start = drawn.find(A_LONG_WORD, end)


def _prefixed(text: str, long_words: str) -> Iterator[Span]:
    for gate, prefixes in GATED:
        if gate in long_words:
            for prefix, kind, pattern in prefixes:
                if prefix in long_words:
                    yield from _with_prefix(text, prefix, kind, _compiled(pattern))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _with_prefix(text: str, prefix: str, kind: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    done = 0
    for position in occurrences(text, prefix):
        if position >= done and (match := _match_around(text, prefix, position, pattern)):
            done = match.end()
            yield *match.span(pattern.groups), kind
            if prefix == "AKIA":
                yield from _aws_secret(text, done)


def _match_around(text: str, prefix: str, position: int, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The secret whose telling part was found here; most begin with it, some have it inside."""
    for offset in OFFSETS.get(prefix, (0,)):
        start = position - offset
        begins = start >= 0 and (prefix in INSIDE or STARTS_WORD.match(text, start))
        if begins and (match := pattern.match(text, start)):
            return match
    return None


def _aws_secret(text: str, position: int) -> Iterator[Span]:
    """The secret half of a pair, which has no shape of its own, close behind its key id."""
    for match in AWS_SECRET.finditer(text, position, position + AWS_NEAR):
        if is_random(match.group()):
            yield *match.span(), "api_key"


def _discord(text: str) -> Iterator[Span]:
    for match in DISCORD.finditer(text):
        first = max(0, match.start() - 29)
        if head := DISCORD_HEAD.search(text[first : match.start()]):
            yield first + head.start(), match.end(), "token"


def _private_keys(text: str) -> Iterator[Span]:
    position = 0
    while begin := PEM_BEGIN.search(text, position):
        position = _end_of_private_key(text, begin.end())
        yield begin.start(), position, "private_key"


def _end_of_private_key(text: str, position: int) -> int:
    """Behind the closing line, or behind the last line of the key where it was cut off."""
    named = text.find(PEM_NAME, position)
    if named >= 0 and PEM_END.search(text[max(position, named - 60) : named]):
        closing = PEM_CLOSING.match(text, named)
        return closing.end() if closing else named
    body = PEM_BODY.match(text, position)
    return body.end() if body else position


def _passwords_in_addresses(text: str) -> Iterator[Span]:
    for position in occurrences(text, "://"):
        if text.find("@", position, position + FARTHEST_AT) < 0:
            continue
        if match := USERINFO.match(text, position):
            if match.group(1).lower() not in EXAMPLE_PASSWORDS and not is_stand_in(match.group(1)):
                yield *match.span(1), "connection_string"
        elif (match := USER_TOKEN.match(text, position)) and is_random(match.group(1)):
            yield *match.span(1), "token"


def _is_bearer(value: str) -> bool:
    mixed = DIGIT.search(value) and LETTER.search(value)
    return (bool(mixed) or is_random(value)) and not STANDARD.fullmatch(value) and not is_stand_in(value)

"""Find secrets that have no shape of their own by the name beside them, as in "my password is ...".

A name is looked for with `str.find`; from there on three short steps follow, each of bounded length:
the rest of the name, what joins it to a value, and the value. The join decides how much is believed.
An assignment may set any password; after "password is" a plain word must end the clause and not
describe a state; a value that merely stands near has to look like a secret by itself.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from casenotes.masking.shapes import Span, occurrences
from casenotes.masking.values import (
    WORDS,
    is_chosen,
    is_key,
    is_near_password,
    is_phrase,
    is_said,
    is_strong,
)

PASSWORD_STEMS = tuple("pass pw senha contrase clave wachtwoord kennwort parol mdp".split())
PASSWORD_STEMS += ("kata sandi", "identified by")
WORLD_STEMS = tuple(
    "парол 密码 密碼 口令 パスワード 비밀번호 암호 hasło lösenord şifre jelszó סיסמה รหัสผ่าน पासवर्ड".split()
)
WORLD_STEMS += ("mật khẩu", "كلمة المرور", "كلمة السر", "κωδικός")
KEY_STEMS = (("secret", "secret"), ("token", "token"), ("key", "api_key"), ("credential", "secret"))
WORLD_KEY_STEMS = tuple(
    (stem, "api_key")
    for stem in ("clé api", "schlüssel", "токен", "ключ", "密钥", "令牌", "トークン", "キー", "토큰", "키")
)
WHOLE_WORDS = frozenset(("pass", "pw", "mdp", "clave", "parol"))

REST_OF_NAME = {
    "pass": re.compile(r"(?:[ _-]?(?:word|wd|phrase|code)|wort|e(?![a-z]))?", re.IGNORECASE),
    "pw": re.compile("d?", re.IGNORECASE),
    "contrase": re.compile(r"ña|nha|nya|na|", re.IGNORECASE),
    "parol": re.compile("a?", re.IGNORECASE),
    "парол": re.compile("(?:ь|ем|я|ю|е)?", re.IGNORECASE),
}
SUFFIX = re.compile(r"(?:[_-]?[A-Za-z0-9]{1,32}){0,6}", re.ASCII)
WORD_BEFORE = re.compile(r"([A-Za-z]+)[\s_.-]{0,2}\Z")
KEY_OF = tuple(
    """
    api access secret private account shared encrypt encryption signing master auth subscription function
    storage client service app application consumer deploy webhook admin root hmac aes jwt rest license
    aws azure openai anthropic stripe google github gitlab twilio sendgrid datadog cloudflare live test
    prod production server bot sdk integration ingest write my your the new old this
    """.split()
)
ABOUT = frozenset(
    """
    id ids type types count url uri endpoint name names path file filename length len size min max policy field
    label hint expiry expires expired expire expiration ttl age limit limits usage used reset required
    enabled strength attempts changed updated created at date time index manager provider store ref
    version arn budget prefix format regex pattern placeholder error errors valid validation input encoder
    encoding list map vault rotation rules column class html link page form screen prompt text message status
    scope scopes kind owner issuer alg algorithm
    """.split()
)
NOT_A_SECRET_OF = frozenset(
    """
    max min num n total input output prompt completion page next continuation stop eos bos pad special design
    public primary foreign show hide has forgot no per sync cursor cancellation prev previous
    """.split()
)

QUOTE = r"(?:\\{0,3}[\"'`]|&quot;)"
MARK = r"[*_]{0,3}"
JOIN = re.compile(
    rf"""
      (?P<pair>{QUOTE}?[ \t]{{0,4}}[,;]?\s{{0,40}}(?:-\s)?{QUOTE}?value{QUOTE}?[ \t]{{0,4}}[:=][ \t]{{0,4}})
    | (?P<typed>:[ \t]{{0,4}}[A-Za-z_][\w.\[\]<>|?]{{0,30}}[ \t]{{1,4}}=[ \t]{{0,4}})
    | (?P<line>{MARK}[ \t]{{0,4}}[:：]{MARK}[ \t]{{0,4}}\r?\n[ \t]{{0,8}}(?:```[a-z]*\r?\n)?)
    | (?P<assign>[\])]?{QUOTE}?[\])]?{MARK}[ \t]{{0,12}}(?::=|[=-]>|[!=]==?|[:=：＝|]){MARK}[ \t]{{0,12}}{MARK})
    | (?P<element>{QUOTE}?>\s{{0,4}})
    | (?P<argument>{QUOTE}?[ \t]{{0,4}}[(,][ \t]{{0,4}}(?={QUOTE}))
    | (?P<said>{QUOTE}?{MARK}[ \t]{{1,4}}(?:is|was|will[ ]be|should[ ]be|ist|lautet|war|est|es|era|é|è|foi|это|
        är|er|jest|adalah|là)(?::|\b)[ \t]{{0,4}}(?:now[ ]|also[ ]|still[ ]|just[ ])?
        |'s[ ]|[是は为為은는이가][ ]?[:：]?[ ]?)
    | (?P<moved>{QUOTE}?[ \t](?:to|as|auf|a|en|para|в|на)[ ])
    | (?P<far>[ ](?:\([^)\n]{{1,40}}\)|(?:for|of|on|in|at|from|into|used|by|you|we|that|für|pour|para)[ ]
        (?:[^\n:=?.!]|[.:](?=\S)){{1,60}}?)(?:[ ]?[:=][ ]|[ ](?:is|was|ist|est|es)[ ]))
    | (?P<dash>[ ][-–—][ ])
    | (?P<space>[ \t]{{1,4}})
    """,
    re.VERBOSE | re.IGNORECASE,
)
TALK = re.compile(
    r"(?:word|phrase|code|wort)?s? (?!(?:is|was|will|should|ist|lautet|war|est|es|era|er|jest|adalah|to|as|"
    r"auf|a|en|para|for|of|on|in|at|from|into|used|by|you|we|that|pour|value)\b)[a-z]+[ .,\n]"
)
ASSIGNED = frozenset(("pair", "typed", "assign", "element"))
QUOTED = re.compile(
    r"(?:[bfruNL@]{1,2}(?=[\"']))?(?P<quote>\\{0,3}[\"'`]|&quot;)(?P<value>(?:[^\\\n]|\\.){1,512}?)(?P=quote)"
)
BARE = re.compile(r"[\"'`]?(?P<value>[^\s\"`;,&)][^\s\"`]{0,511})")
BEYOND = re.compile(r"[A-Za-z0-9+/=_.~%-]*")
LONGEST_JUDGED = 512
END_OF_BARE = re.compile(
    r"[&;,](?=[\"']?[A-Za-z][\w. -]{0,30}[\"']?[=:])|</|<br|\\[nrt\"']|'(?=[\s,;)\]}]|$)|&quot;"
    r"|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef]|[.,;:)\]}>'*|]+$"
)
CLAUSE_END = re.compile(r"\s*$|\s*\n|[.,;!?)](?:\s|$)|\s*[&;}|]")
LINE_END = re.compile(r"[ \t]*(?:\r?\n|$|\\n|[;,&}|#<]|//)")
KEY_CHARACTERS = re.compile(r"[A-Za-z0-9+/=_.~:$-]+")
VARIABLE = re.compile(r"[A-Za-z_]+\d?|[A-Za-z_]\w{0,9}")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NAME_WORDS = frozenset("password passwd pwd pass passphrase token secret key credentials hash field".split())

PHRASE_NAME = re.compile(r"(?:pass[ -]?|seed |recovery |backup |secret |mnemonic )phrase")
PHRASE = re.compile(r"[\"'`]?([A-Za-z]{2,12}(?:[ -][A-Za-z]{2,12}){2,24})")
BEFORE_NAME = re.compile(r"([^\s\"'`]{6,48})[\"'`]?,? (?:as|is) (?:the|my|your|our|a) (?:\w{1,12} )?\Z")
LONGEST_BEFORE = 40
LOGIN = re.compile(r"(?:credentials?|login)\b[^\n:=]{0,30}[:=] ?[^\s/:]{2,40}(?: ?/ ?|:)(\S{5,64})")
AUTH_PAIR = re.compile(r"auth\w{0,12}\s?[=(]\s?\(?[\"'][^\"'\n]{1,64}[\"'],\s?[\"']([^\"'\n]{3,128})[\"']")
AUTHORIZATION = re.compile(
    r"authorization[\"']?\s?[:=,]\s?[\"']?(?:(?:token|api-?key|digest|negotiate|sso-key|key|bearer|basic)[\s=]+)?"
    r"[\"']?([^\s\"']{8,4096})"
)
BASIC = re.compile(r"basic\s+([A-Za-z0-9+/]{6,1024}={0,2})(?![A-Za-z0-9+/])", re.IGNORECASE)
FLAGS = (
    (" -p", ("mysql", "mariadb"), re.compile(r" -p[\"']?([^\s\"']{3,128})")),
    (" -p", ("sshpass", "docker login", "podman login"), re.compile(r" -p ?[\"']?([^\s\"']{3,128})")),
    (" -u", ("curl", "wget", "http "), re.compile(r" -u ?[\"']?[^\s:\"']{1,64}:([^\s\"']{3,128})")),
    (" --u", ("curl",), re.compile(r" --user[ =][\"']?[^\s:\"']{1,64}:([^\s\"']{3,128})")),
    (" -a", ("redis-cli",), re.compile(r" -a ?[\"']?([^\s\"']{3,128})")),
)
LOOK_BACK = 200
MOST_INSIDE = 3


class Value(NamedTuple):
    """What stands where a value would, and how it is joined to its name."""

    start: int
    end: int
    text: str
    quoted: bool
    join: str

    @property
    def assigned(self) -> bool:
        return self.join in ASSIGNED


class _Crowd:
    """Names within a value that was judged already: a few are looked at, a thousand would take all day."""

    def __init__(self) -> None:
        self._end = 0
        self._inside = 0

    def judged(self, value: Value) -> None:
        self._end = max(self._end, value.end)

    def is_too_dense(self, start: int) -> bool:
        self._inside = self._inside + 1 if start < self._end else 0
        return self._inside > MOST_INSIDE


def named(text: str, lowered: str) -> Iterator[Span]:
    """Every secret that a name beside it gives away; spans may repeat or overlap."""
    everywhere = not text.isascii()
    for stem in PASSWORD_STEMS + WORLD_STEMS if everywhere else PASSWORD_STEMS:
        if stem in lowered:
            yield from _passwords(text, lowered, stem)
    for stem, kind in KEY_STEMS + WORLD_KEY_STEMS if everywhere else KEY_STEMS:
        if stem in lowered:
            yield from _keys(text, lowered, stem, kind)
            if stem == "credential":
                yield from _logins(text, lowered, stem)
    if "phrase" in lowered:
        yield from _phrases(text, lowered)
    if " -" in text:
        yield from _flagged(text)
    if "auth" in lowered:
        yield from _authorized(text, lowered)
    if "login" in lowered:
        yield from _logins(text, lowered, "login")


def _passwords(text: str, lowered: str, stem: str) -> Iterator[Span]:
    done = 0
    crowd = _Crowd()
    for start in occurrences(lowered, stem):
        if start < done or (stem in WHOLE_WORDS and not _starts_word(text, start, stem)):
            continue
        if crowd.is_too_dense(start):
            continue
        if " is " in (before := text[max(0, start - LONGEST_BEFORE) : start]) or " as " in before:
            yield from _named_behind(before, start)
        if before[-1:] == " " and TALK.match(lowered, start + len(stem)):
            continue
        end = _end_of_name(text, start + len(stem), stem)
        value = _value_after(text, end) if end else None
        if not end or not value:
            continue
        crowd.judged(value)
        if _is_password(text, text[start:end], start, value):
            done = value.end
            yield value.start, value.end, "password"


def _starts_word(text: str, start: int, stem: str) -> bool:
    """Whether a word or a hump of a camelCase name begins here; `password` may also end a longer word."""
    before = text[start - 1 : start]
    if not before.isalpha() or (text[start].isupper() and before.islower()):
        return True
    return stem == "pass" and text[start + 4 : start + 8].lower() in ("word", "wort", "phra")


def _end_of_name(text: str, end: int, stem: str) -> int | None:
    """The end of a whole name like `SECRET_KEY_2`; None for `passwordLength`, which only is about a secret."""
    if rest := REST_OF_NAME.get(stem):
        end = match.end() if (match := rest.match(text, end)) else end
    match = SUFFIX.match(text, end)
    suffix = match.group() if match else ""
    if suffix[:1] in ("s", "S") and not suffix[1:2].isalpha():
        suffix, end = suffix[1:], end + 1
    if suffix[:1].isalpha() and suffix[0].islower() == text[end - 1].islower():
        return None
    if any(word.lower() in ABOUT for word in WORDS.findall(suffix)):
        return None
    return end + len(suffix)


def _value_after(text: str, position: int) -> Value | None:
    joined = JOIN.match(text, position)
    if not joined:
        return None
    join, start = joined.lastgroup or "", joined.end()
    if match := QUOTED.match(text, start):
        return Value(*match.span("value"), match["value"], True, join)
    if join == "argument" or not (match := BARE.match(text, start)):
        return None
    return _bare_value(text, match.start("value"), match["value"], join)


def _bare_value(text: str, start: int, bare: str, join: str) -> Value:
    """A value without quotes; one that is too long to judge whole still ends where it ends."""
    if not (bare.isascii() and bare.isalnum()) and (cut := END_OF_BARE.search(bare, 1)):
        bare = bare[: cut.start()]
    end = start + len(bare)
    if len(bare) == LONGEST_JUDGED and (beyond := BEYOND.match(text, end)):
        end = beyond.end()
    return Value(start, end, bare, False, join)


def _is_password(text: str, name: str, start: int, value: Value) -> bool:
    if name.lower() == "pass" and not (value.quoted and value.assigned):
        return (value.assigned or value.join in ("said", "space")) and is_near_password(value.text)
    if name.lower() == "identified by":
        return is_chosen(value.text) and value.quoted
    if value.assigned or (
        value.join == "space" and text[max(0, start - 24) : start].rpartition(" ")[2][:1] == "-"
    ):
        return _is_assigned_password(text, value)
    if value.join == "said" and _is_said_password(text, value):
        return True
    if value.quoted and value.join == "moved":
        return is_chosen(value.text)
    return is_near_password(value.text)


def _is_assigned_password(text: str, value: Value) -> bool:
    if value.quoted or is_strong(value.text):
        return is_chosen(value.text)
    return is_chosen(value.text) and bool(LINE_END.match(text, value.end)) and not _is_variable(value.text)


def _is_said_password(text: str, value: Value) -> bool:
    if value.quoted or is_strong(value.text):
        return is_chosen(value.text)
    return is_said(value.text) and bool(CLAUSE_END.match(text, value.end))


def _is_variable(value: str) -> bool:
    words = WORDS.findall(value)
    return bool(words) and words[-1].lower() in NAME_WORDS and bool(IDENTIFIER.fullmatch(value))


def _named_behind(before: str, start: int) -> Iterator[Span]:
    """The value in "hunter2 is my password"."""
    match = BEFORE_NAME.search(before)
    if match and is_near_password(match.group(1)):
        first = start - len(before)
        yield first + match.start(1), first + match.end(1), "password"


def _keys(text: str, lowered: str, stem: str, kind: str) -> Iterator[Span]:
    done = 0
    crowd = _Crowd()
    for start in occurrences(lowered, stem):
        if start < done or not _names_a_key(text, start, stem) or crowd.is_too_dense(start):
            continue
        end = _end_of_name(text, start + len(stem), stem)
        value = _value_after(text, end) if end else None
        if value is None:
            continue
        crowd.judged(value)
        if _is_key(text, value):
            done = value.end
            yield value.start, value.end, kind


def _names_a_key(text: str, start: int, stem: str) -> bool:
    before = text[max(0, start - 16) : start]
    if stem == "key":
        return before.rstrip(" _-").lower().endswith(KEY_OF)
    if before.endswith("[") and stem in ("secret", "token"):
        return not text.startswith(":", start + len(stem))
    word = WORD_BEFORE.search(before)
    return not word or WORDS.findall(word.group(1))[-1].lower() not in NOT_A_SECRET_OF


def _is_key(text: str, value: Value) -> bool:
    """Whether a value is one; set plainly, it need not look random."""
    if not value.assigned:
        return is_key(value.text, assigned=False) and bool(KEY_CHARACTERS.fullmatch(value.text))
    plainly = LINE_END.match(text, value.end) and not VARIABLE.fullmatch(value.text)
    return is_key(value.text, assigned=value.quoted or bool(plainly))


def _phrases(text: str, lowered: str) -> Iterator[Span]:
    for name in PHRASE_NAME.finditer(lowered):
        joined = JOIN.match(text, name.end())
        if joined and (match := PHRASE.match(text, joined.end())) and is_phrase(match.group(1)):
            yield *match.span(1), "password"


def _flagged(text: str) -> Iterator[Span]:
    """Passwords given to a command by a short flag, which means something else to other commands."""
    for flag, commands, pattern in FLAGS:
        for start in occurrences(text, flag) if flag in text else ():
            match = pattern.match(text, start)
            if match and _is_argument_of(commands, text, start) and is_chosen(match.group(1)):
                yield *match.span(1), "password"


def _is_argument_of(commands: tuple[str, ...], text: str, start: int) -> bool:
    line = text[max(0, start - LOOK_BACK) : start].rpartition("\n")[2]
    return any(command in line for command in commands)


def _authorized(text: str, lowered: str) -> Iterator[Span]:
    yield from ((*m.span(1), "password") for m in BASIC.finditer(text) if _is_basic(m.group(1)))
    for match in AUTH_PAIR.finditer(lowered):
        if is_chosen(text[match.start(1) : match.end(1)]):
            yield *match.span(1), "password"
    for match in AUTHORIZATION.finditer(lowered):
        if is_key(text[match.start(1) : match.end(1)], assigned=True):
            yield *match.span(1), "token"


def _is_basic(value: str) -> bool:
    """Whether the value unpacks to `user:password`."""
    try:
        return b":" in (plain := binascii.a2b_base64(value + "==")) and plain.decode().isprintable()
    except (binascii.Error, UnicodeDecodeError):
        return False


def _logins(text: str, lowered: str, stem: str) -> Iterator[Span]:
    """The second half of "login: admin / hunter2"."""
    for start in occurrences(lowered, stem):
        if match := LOGIN.match(lowered, start):
            value = text[match.start(1) : match.end(1)].rstrip(".,;)")
            if is_near_password(value):
                yield match.start(1), match.start(1) + len(value), "password"

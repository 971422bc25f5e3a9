"""Judge whether a value that stands where a secret would stand is one.

Three questions are asked of a value. Is it a stand-in (`<your password>`, `${VAR}`, `null`)? Does it
look drawn at random, as keys and tokens do? Could a person have chosen it as a password? The last
one is asked with more or less trust, because "password is required" and "password is swordfish"
differ in nothing but the word.
"""

from __future__ import annotations

import re

MIN_RANDOM_LENGTH = 12
LONG_WITHOUT_DIGITS = 20

STAND_IN = re.compile(
    r"""\[secret:                         # already masked
    | ^(.)\1*$                            # ******, xxxxxx
    | \*\*\* | [xX]{4} | ••• | \.\.\.$ | …$
    | ^[<{\[(].*[>}\])]$ | ^[<{] | ^%[sdr(]  # <password>, {{ password }}, %s
    | \$\{ | \$\( | \{\{ | \#\{ | ^\{\w*\}
    | ^[$@:%&][A-Za-z_]+[%]?$ | ^[$@][A-Z_][A-Z0-9_]*$ | ^\$\w+[.\[>-] | ^\$env:
    | :// | ^arn: | ^vault: | ^op: | ^ENC\[""",
    re.VERBOSE,
)
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ONLY_WORDS = re.compile(r"[A-Za-z]+(?:[\s_.-]+[A-Za-z]+)*[.:]?")
KEBAB = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)+|/?[a-z0-9.-]+(?:/[a-z0-9.-]+)+")
CODE = re.compile(r"[A-Za-z_][\w.>:-]*(?:\(|\[['\"\w]*\]?)|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+[;,]?$")
FILE = re.compile(
    r"(?:~|\.{0,2})/(?:[A-Z][a-z]+|[a-z0-9_.-]+)(?:/|$)|[A-Za-z]:\\|.*\.(?:pem|json|ya?ml|txt|key|crt|env|py|js|ts|go|rb|html?|md)$"
)
STANDARD = re.compile(
    r"(?:sha|md|aes|rsa|utf|oauth|base|pbkdf|argon|bcrypt|win|windows|office|microsoft|http|ipv|tls|ssl|"
    r"fips|ntlmv?|v|version|step|figure|table|kb|erc|web|saml|ed|es|rs|hs|ps|iso|rfc|nist)"
    r"[-_ ]?\d[\d.-]*[a-z]?",
    re.IGNORECASE,
)
ORDINARY = re.compile(r"\d+[a-z]{1,12}|\W*\w+\W*\(.*|[\w.+-]+@[\w.-]+\.\w+|\d[\d.,:/-]*\w?", re.IGNORECASE)
RUN = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)
DIGIT = re.compile(r"\d")
LETTER = re.compile(r"[^\W\d_]")
SYMBOL = re.compile(r"[!@#$%^&*+=~|?\\/<>{}\[\]();:]")
INNER_CAPITALS = re.compile(r"[a-z][A-Z].*[a-z][A-Z]|[a-z][A-Z]{2}|[A-Z]{2}[a-z].*[a-z][A-Z]|[a-z][A-Z]$")

ASKING = frozenset(
    "your insert enter replace put add change choose set use type provide paste redacted".split()
)
NAMING = frozenset(
    """
    a an api app access account auth authentication aws azure bearer client code confirm credential credentials
    current db default demo dev dummy env environment example fake field file for from github google here
    hidden id input jwt key keys login masked mot my name new none null of old openai optional param pass
    passcode passe passphrase password passwords passwort passwd placeholder prod protected pw pwd refresh
    removed required root sample secret secrets service some stripe string test text the this token tokens
    undefined user username users value variable var webhook x your here str bool boolean int bytes any object
    true false empty varchar char nvarchar unknown char generated encrypted hashed contraseña senha wachtwoord
    kennwort parola clave nil void never self config settings options props data request req body form
    json args kwargs params process os getenv environ response result state ctx context
    """.split()
)
NOT_SAID = frozenset(
    """
    a about absent again all also always an and another any as asked at available back bad be because been
    being better blank both but by case changed clear compromised correct default different difficult down due
    easy either empty encrypted enough entered exactly expired for forgotten from gone good hard hashed here
    hidden identical in incorrect insecure invalid it its just kept known like locked long lost mandatory me
    mine missing more my never new no none not now null obsolete of off ok okay old on one only optional
    or our out outdated over plain plaintext please poor present private public random readable ready
    required reset right safe same saved secret secure sensitive sent set shared short simple so stale still
    stored strong synced that the their them then there they this to too true unchanged under unique unknown
    unsafe unset up us used user users valid very visible vulnerable weak what when where which why with within
    without wrong yes you your yours false bien falsch korrekt richtig abgelaufen incorrecta correcta incorrect
    incorrecte errada correta requerida obligatorio nicht ungültig
    """.split()
)
STATE_ENDINGS = ("ed", "ing", "ly", "able", "ible", "ful", "less", "ive", "ous", "ent", "al")


def is_stand_in(value: str) -> bool:
    """Whether a value only marks the place of one, or names it."""
    if value.isalpha():
        return value.lower() in NAMING or len(set(value)) == 1 or _is_made_of_names(value)
    if STAND_IN.search(value) or FILE.match(value):
        return True
    return bool(ONLY_WORDS.fullmatch(value)) and _is_made_of_names(value)


def _is_made_of_names(value: str) -> bool:
    words = [word.lower() for word in WORDS.findall(value)]
    return bool(words) and (words[0] in ASKING or all(word in NAMING for word in words))


def is_random(value: str) -> bool:
    """Whether letters and digits change as often as they do in what a machine has drawn."""
    length = len(SEPARATORS.sub("", value))
    if length < MIN_RANDOM_LENGTH:
        return False
    changes = len(RUN.findall(value)) - 1
    if not DIGIT.search(value):
        return length >= LONG_WITHOUT_DIGITS and changes * 3 >= length
    if not LETTER.search(value):
        return False
    return changes * 4 >= length or (changes * 10 >= length and bool(CONSONANTS.search(value)))


def is_key(value: str, assigned: bool) -> bool:
    """Whether a value of something named key, token or secret is one; a plain assignment is trusted more."""
    if len(value) < 8 or is_stand_in(value) or CODE.match(value):
        return False
    if is_random(value):
        return True
    mixed = DIGIT.search(value) and LETTER.search(value)
    return assigned and bool(mixed) and not KEBAB.fullmatch(value) and " " not in value


def is_strong(value: str) -> bool:
    """Whether a value is like no word: it has digits with letters, symbols, or odd capitals."""
    if value.isalpha() or len(value) < 4 or " " in value:
        return len(value) >= 4 and bool(INNER_CAPITALS.search(value))
    if STANDARD.fullmatch(value) or CODE.match(value):
        return False
    if DIGIT.search(value) and (LETTER.search(value) or value.isdigit()):
        return True
    return bool(SYMBOL.search(value.rstrip("?):;,"))) or bool(INNER_CAPITALS.search(value))


def is_near_password(value: str) -> bool:
    """Whether a value is a password though nothing says so but a name close to it."""
    if len(value) < 6 or not (DIGIT.search(value) and LETTER.search(value)):
        return False
    ordinary = ORDINARY.fullmatch(value) or KEBAB.fullmatch(value) or is_stand_in(value)
    return not ordinary and is_strong(value)


def is_chosen(value: str) -> bool:
    """Whether a value that is assigned to a password is one: also a plain word, but no name and no state."""
    if len(value) < 3 or is_stand_in(value) or CODE.match(value):
        return False
    words = value.lower().rstrip(".,!?:;").split()
    if len(words) > 1:
        return len(words) <= 6 and is_strong("".join(words)) and not any(_is_talk(word) for word in words)
    return bool(words) and words[0] not in NOT_SAID


def _is_talk(word: str) -> bool:
    return word in NOT_SAID or word in NAMING or word in ASKING


def is_said(value: str) -> bool:
    """Whether the plain word after "the password is" can be the password rather than its state."""
    parts = value.split("-")
    if not (is_chosen(value) and all(map(str.isalnum, parts)) and len(parts) not in (2, 3)):
        return False
    return len(parts) > 3 or not value.lower().endswith(STATE_ENDINGS)


def is_phrase(value: str) -> bool:
    """Whether words are put together at random rather than into a sentence."""
    words = value.lower().replace("-", " ").split()
    return sum(map(_is_talk, words)) * 3 < len(words)

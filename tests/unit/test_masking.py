"""Masking: secrets of many kinds are found wherever people put them, and nothing else is touched."""

from __future__ import annotations

import random
import string
import sys
import time
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.masking import Secret, lower, mask, placeholder, secrets_in
from casenotes.masking.numbers import passes_luhn

HEX = "0123456789abcdef"
WORD = string.ascii_letters + string.digits
URL_SAFE = WORD + "-_"
SYMBOLS = "!@#$%^*+?"

Draw = Callable[[str, int], str]


def drawer(rng: random.Random) -> Draw:
    return lambda alphabet, length: "".join(rng.choice(alphabet) for _ in range(length))


def password(rng: random.Random) -> str:
    """As people and managers make them: a word with a number and a symbol, or random characters."""
    draw = drawer(rng)
    word = rng.choice("harbour Falcon zebra Marmalade sunflower Tango copper".split())
    chosen = word + draw(string.digits, rng.randint(2, 4)) + rng.choice(SYMBOLS)
    drawn = draw(WORD, 6) + rng.choice(string.digits) + rng.choice(SYMBOLS) + draw(WORD, 4)
    return rng.choice((chosen, drawn))


def card(rng: random.Random) -> str:
    start, length = rng.choice((("4", 16), ("53", 16), ("37", 15), ("6011", 16), ("2223", 16)))
    body = start + drawer(rng)(string.digits, length - len(start) - 1)
    digits = next(body + check for check in string.digits if passes_luhn(body + check))
    if length == 15:
        return rng.choice((digits, f"{digits[:4]} {digits[4:10]} {digits[10:]}"))
    separator = rng.choice(("", " ", "-"))
    return separator.join(digits[i : i + 4] for i in range(0, 16, 4))


def jwt(rng: random.Random) -> str:
    draw = drawer(rng)
    return f"eyJhbGciOiJIUzI1NiJ9.eyJ{draw(URL_SAFE, 40)}.{draw(URL_SAFE, 43)}"


def private_key(rng: random.Random) -> str:
    draw = drawer(rng)
    label = rng.choice(("RSA ", "", "EC ", "OPENSSH "))
    body = "\n".join(draw(WORD + "+/", 64) for _ in range(6))
    return f"-----BEGIN {label}PRIVATE KEY-----\n{body}\n{draw(WORD, 21)}==\n-----END {label}PRIVATE KEY-----"


ANYWHERE = (
    "Please use {} for the staging calls.",
    "the old one was {}, rotate it today",
    'client = Client("{}")',
    "curl https://api.example.com/v1/items?key={}&page=2",
    "export SERVICE_KEY={}",
    '{{"auth": {{"value": "{}"}}}}',
    "Ich habe {} in die Konfiguration geschrieben.",
    "log: request with {} failed (401)\n",
)
AS_PASSWORD = (
    "my password is {}",
    "Password: {}\nUser: mira",
    'db_password = "{}"',
    "DB_PASS={}\nDB_HOST=db-3",
    '{{"user": "mira", "password": "{}"}}',
    "password: '{}'  # staging",
    "das Passwort lautet {}",
    "La contraseña es {}",
    "le mot de passe est {}",
    "пароль: {}",
    "mysqldump --password {} shop > dump.sql",
    "ALTER USER shop WITH PASSWORD '{}';",
    "<password>{}</password>",
    "Set-Variable Pwd='{}';",
)
AS_TOKEN = (
    'client_secret: "{}"',
    "CLIENT_SECRET={}",
    '"accessToken": "{}",',
    "the api key for the billing service is {}",
    "X-Api-Key: {}",
    "token := `{}`",
    "- name: WEBHOOK_SECRET\n  value: {}",
    "https://api.example.com/items?access_token={}&page=2",
    "my new credentials: {}",
    "export SIGNING_KEY='{}'",
)
AS_CONNECTION = (
    "postgres://shop:{}@db-3.internal:5432/shop",
    "DATABASE_URL=mysql://root:{}@10.0.0.5/app",
    "redis://:{}@cache:6379/0",
    "connect with amqp://worker:{}@mq.example.com please",
    'uri = "mongodb+srv://admin:{}@cluster0.example.net/test"',
    "git clone https://deploy:{}@git.example.com/app.git",
)
AS_CARD = (
    "charge it to {} please",
    "card number {}, expires 04/29",
    '"pan": "{}"',
    "My Visa is {}.",
    "{} exp 11/27",
)
AS_HEADER = (
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' https://api.example.com",
    '"authorization": "Bearer {}"',
    "it sends bearer {} every time",
)

Maker = Callable[[random.Random], str]


def of(prefix: str, alphabet: str, length: int) -> Maker:
    return lambda rng: prefix + drawer(rng)(alphabet, length)


KINDS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "aws id": (of("AKIA", string.ascii_uppercase + string.digits, 16), ANYWHERE),
    "aws secret": (
        of("", WORD + "/+", 40),
        tuple(f"AWS_SECRET_ACCESS_KEY{x}" for x in ("={}", ": {}", ' = "{}"')),
    ),
    "github": (of("ghp_", WORD, 36), ANYWHERE),
    "gitlab": (of("glpat-", URL_SAFE, 20), ANYWHERE),
    "slack": (lambda rng: f"xoxb-{drawer(rng)(string.digits, 12)}-{drawer(rng)(WORD, 24)}", ANYWHERE),
    "stripe": (of("sk_live_", WORD, 24), ANYWHERE),
    "openai": (of("sk-proj-", URL_SAFE, 48), ANYWHERE),
    "anthropic": (of("sk-ant-api03-", URL_SAFE, 95), ANYWHERE),
    "google": (of("AIza", URL_SAFE, 35), ANYWHERE),
    "sendgrid": (lambda rng: f"SG.{drawer(rng)(URL_SAFE, 22)}.{drawer(rng)(URL_SAFE, 43)}", ANYWHERE),
    "hugging face": (of("hf_", string.ascii_letters, 34), ANYWHERE),
    "digitalocean": (of("dop_v1_", HEX, 64), ANYWHERE),
    "telegram": (lambda rng: f"{drawer(rng)('123456789', 10)}:AA{drawer(rng)(URL_SAFE, 33)}", ANYWHERE),
    "jwt": (jwt, ANYWHERE),
    "private key": (private_key, ANYWHERE),
    "password": (password, AS_PASSWORD),
    "connection string": (lambda rng: password(rng).replace("#", "x").replace("?", "y"), AS_CONNECTION),
    "token by name": (of("", WORD, 32), AS_TOKEN),
    "card": (card, AS_CARD),
    "bearer": (of("", WORD, 40), AS_HEADER),
}


def survives(value: str, masked: str) -> bool:
    """Whether half of a value, at least four characters, can still be read."""
    length = max(4, (len(value) + 1) // 2)
    return any(value[i : i + length] in masked for i in range(max(1, len(value) - length + 1)))


def own_secrets() -> list[tuple[str, str, str]]:
    rng = random.Random(20240607)
    return [
        (kind, secret, contexts[n % len(contexts)].format(secret))
        for kind, (make, contexts) in KINDS.items()
        for n in range(10)
        for secret in [make(rng)]
    ]


def test_nearly_all_of_two_hundred_secrets_of_twenty_kinds_are_masked() -> None:
    secrets = own_secrets()
    missed = [(kind, text) for kind, secret, text in secrets if survives(secret, mask(text))]
    assert len(secrets) == 200
    assert len(KINDS) == 20
    assert len(missed) <= 4, missed


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("my password is hunter2!", "my password is [secret:password]"),
        ("My password is swordfish.", "My password is [secret:password]."),
        ("the Wi-Fi password is 'purple horse 7'", "the Wi-Fi password is '[secret:password]'"),
        ("passphrase: correct horse battery staple", "passphrase: [secret:password]"),
        ("Passwort: Sonnenblume\n", "Passwort: [secret:password]\n"),
        ("密码是Tr0ub4dor，请改", "密码是[secret:password]，请改"),
        ("パスワードはTr0ub4dorです", "パスワードは[secret:password]です"),
        ("비밀번호는 Tr0ub4dor 입니다", "비밀번호는 [secret:password] 입니다"),
        ("I use Tr0ub4dor&3 as my password", "I use [secret:password] as my password"),
        ("reset the password to Spring2024!", "reset the password to [secret:password]"),
        ("Log in as mira with password Tr0ub4dor&3", "Log in as mira with password [secret:password]"),
        ("login: mira / Tr0ub4dor&3", "login: mira / [secret:password]"),
        ("**Password:** `aX9-kk2Lq`", "**Password:** `[secret:password]`"),
        ("| password | aX9kk2Lq |", "| password | [secret:password] |"),
        ("Password:\naX9kk2Lq", "Password:\n[secret:password]"),
        ('{\\"password\\": \\"swordfish\\"}', '{\\"password\\": \\"[secret:password]\\"}'),
        ('password: str = "swordfish"', 'password: str = "[secret:password]"'),
        ('user.setPassword("aX9kk2Lq")', 'user.setPassword("[secret:password]")'),
        ("Server=db;User Id=sa;Password=aX9;kk!;", "Server=db;User Id=sa;Password=[secret:password];"),
        ("?user=mira&password=aX9kk&page=2", "?user=mira&password=[secret:password]&page=2"),
        ("mysql -u root -paX9kk2Lq shop", "mysql -u root -p[secret:password] shop"),
        ("sshpass -p 'swordfish' ssh host", "sshpass -p '[secret:password]' ssh host"),
        ("curl -u mira:swordfish https://x.example", "curl -u mira:[secret:password] https://x.example"),
        ("requests.get(u, auth=('mira', 'swordfish'))", "requests.get(u, auth=('mira', '[secret:password]'))"),
        ("CREATE USER m IDENTIFIED BY 'swordfish';", "CREATE USER m IDENTIFIED BY '[secret:password]';"),
        ("postgres://mira:sword@db:5432/x", "postgres://mira:[secret:connection_string]@db:5432/x"),
        ("https://mira:a@b@host/p?q=me@x.org", "https://mira:[secret:connection_string]@host/p?q=me@x.org"),
        ("Authorization: Basic bWlyYTpzd29yZGZpc2g=", "Authorization: Basic [secret:password]"),
        ("Authorization: Token 9a8b7c6d5e4f3a2b", "Authorization: Token [secret:token]"),
        ("my PIN is 4821", "my PIN is [secret:pin]"),
        ("The PIN for the safe is 4821", "The PIN for the safe is [secret:pin]"),
        ("pw: swordfish", "pw: [secret:password]"),
        ("The password you want is aX9kk2Lq", "The password you want is [secret:password]"),
        ("https://x.example/f?sv=1&sig=" + "aB3%" * 9, "https://x.example/f?sv=1&sig=[secret:token]"),
        ("cvv: 123", "cvv: [secret:pin]"),
        ("Your verification code is 482 913.", "Your verification code is [secret:pin]."),
        ("pay with 4111 1111 1111 1111.", "pay with [secret:card]."),
        ("SECRET_KEY=django7insecure!x", "SECRET_KEY=[secret:secret]"),
        ("HEROKU_API_KEY=6f1c7a5e-0b0d-4c8e-9a54-3d1f6b8a2c11", "HEROKU_API_KEY=[secret:api_key]"),
        ("AccountKey=" + "aB3/" * 21 + "xY==;Suffix=x", "AccountKey=[secret:api_key];Suffix=x"),
    ],
)
def test_only_the_secret_is_replaced(text: str, masked: str) -> None:
    assert mask(text) == masked


NEGATIVES = """
6f1c7a5e-0b0d-4c8e-9a54-3d1f6b8a2c11
session 6f1c7a5e-0b0d-4c8e-9a54-3d1f6b8a2c11 was closed
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
index 83db48f..bf2a1c0 100644
order number 4539578763621486
Order #112-7384955-1029384
tracking number 9400111899223197428490
tracking 1Z999AA10123456784
invoice INV-2024-000123
call me at +1 (555) 010-9999
phone: 0049 30 901820
2024-06-07T12:34:56.789Z
1717763696123
at 1717763696 seconds
IP 192.168.10.254 and 2001:0db8:85a3:0000:0000:8a2e:0370:7334
MAC e4:ee:9a:26:01:0f
ISBN 978-3-16-148410-0
ISBN-13: 9783161484100
IMEI 490154203237518
/usr/lib/python3.11/site-packages/numpy/core/_multiarray_umath.so
C:\\Program Files\\Common Files\\Microsoft Shared\\OFFICE16\\MSO.DLL
getUserAccountPasswordResetTokenFactoryBean
AbstractSingletonProxyFactoryBeanDefinitionParser
test_password_reset_token_expires_after_one_hour
gpt-4o-mini-2024-07-18 and claude-3-5-sonnet-20241022
sentence-transformers/all-MiniLM-L6-v2
https://example.com/docs/how-to-reset-your-password?page=2#token
https://example.com:8080/@mira/posts
mail me at mira@example.com or https://example.com
Supercalifragilisticexpialidocious
password is wrong
Your password is required.
The password is expired, so change it
password is not accepted
the password is stored in the vault
Passwords are hashed with SHA-256
password is case-sensitive
reset your password: click the link below
Reset your password: https://example.com/reset
password: null
"password": null,
password=<your password>
password=${DB_PASSWORD}
password: {{ vault.db_password }}
password = os.environ["DB_PASSWORD"]
password = getpass.getpass()
password: string;
password: str | None = None
password = ****
password: ********
"password": "string"
password=password
apiKey = 'YOUR_API_KEY_HERE'
API_KEY=your_api_key_here
api_key = process.env.API_KEY
const token = await getToken();
token = response.json()["token"]
token expired
the token is invalid
The token is used for signing requests.
max_tokens=4096
"total_tokens": 128000
next_page_token: "CAUQAA1b2c3d4e5f6a7b8c9d"
token_type: bearer
bearer token authentication
secret santa is on Friday
the secret is to whisk it slowly
secretName: app-tls-2024
secretKeyRef: db-credentials
the key points: 1. plan 2. build
primary key: customer_id
press any key: then wait
API key for backend: see the wiki
keyboard: Logitech MX-5500
SSH public key fingerprint SHA256 of the host
credentials: Ensure the contractor is licensed
forgot password: yes
password_length=12
password_hash_algorithm: bcrypt12
Tioga Pass: 3031 m
pass: True
GPIO pin: 13
PIN code 560001
the pin was wrong 2024 times
error code: 1234
zip code is 90210
postgres://localhost:5432/shop
postgres://user:password@localhost/shop
http://user:${PASSWORD}@proxy:3128
Basic knowledge of Python
basic authentication is off
task-based and risk-averse, sk-learn
-----BEGIN CERTIFICATE-----
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 mira@laptop
docker run -p 8080:80 nginx
mysql -u root -p shop
card_1234567
credit_card_4421486
4111111111111112
""".strip().splitlines()


@pytest.mark.parametrize("text", NEGATIVES)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert secrets_in(text) == []
    assert mask(text) is text


def test_there_are_many_negatives() -> None:
    assert len(NEGATIVES) >= 60


def test_a_private_key_that_was_cut_off_is_masked_to_its_last_line() -> None:
    key = private_key(random.Random(1)).partition("\n-----END")[0]
    assert mask(f"here:\n{key}") == f"here:\n{placeholder('private_key')}"
    first_lines = "\n".join(key.splitlines()[:4])
    assert mask(f"{first_lines}\n\nWhat is this?") == f"{placeholder('private_key')}\n\nWhat is this?"


def test_the_secret_half_of_an_aws_pair_needs_no_name() -> None:
    secret = of("", WORD + "/+", 40)(random.Random(2))
    assert mask(f"AKIAIOSFODNN7EXAMPLE\n{secret}") == "[secret:api_key]\n[secret:api_key]"


def test_a_value_longer_than_what_is_judged_is_masked_to_its_end() -> None:
    assert mask("secret: " + "aB3x" * 500 + " and more") == "secret: [secret:secret] and more"


def test_secrets_say_where_they_stand_and_what_they_are() -> None:
    text = "PIN: 4821, pwd=swordfish"
    assert secrets_in(text) == [Secret(5, 9, "pin"), Secret(15, 24, "password")]
    assert [text[s.start : s.end] for s in secrets_in(text)] == ["4821", "swordfish"]


PIECES = st.sampled_from(
    [
        *(
            "password",
            "Passwort",
            "pass",
            "token",
            "api_key",
            "secret",
            "пароль",
            "密码",
            "PIN",
            "card",
            "login",
        ),
        *(
            ":",
            "=",
            " ",
            " is ",
            "\n",
            '"',
            "'",
            "`",
            "(",
            ")",
            "<",
            ">",
            "/",
            "\\",
            "@",
            "://",
            " -p",
            "[",
            "]",
            "|",
        ),
        *("hunter2!", "swordfish", "sk-" + "aB3" * 8, "ghp_" + "aB3" * 9, "4111111111111111", "4821", "value"),
        *(
            "[secret:password]",
            "[secret:api_key]",
            "-----BEGIN PRIVATE KEY-----",
            "A" * 64,
            "eyJ",
            "Bearer ",
            "bWlyYTpw",
        ),
        *("mysql", "curl -u a:", "İ", "x is my ", " as the ", "passphrase: a b c"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join))


@given(TEXTS)
def test_secrets_lie_inside_the_text_in_order_and_apart(text: str) -> None:
    found = secrets_in(text)
    assert all(0 <= s.start < s.end <= len(text) for s in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


@given(TEXTS)
def test_what_is_masked_stays_as_it_is(text: str) -> None:
    masked = mask(text)
    assert mask(masked) is masked
    assert secrets_in(masked) == []


def test_lower_case_keeps_every_character_in_its_place() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert len(lower(every)) == len(every)
    assert all(len(lower(c)) == 1 for c in every if unicodedata.category(c) == "Lu")


@pytest.mark.parametrize(
    "part",
    [
        *("a", "password ", "password is ", "password=", 'pass":"', "token: ", "api key for ", "-----BEGIN "),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "4",
            "4111 ",
            "sk-",
            "://",
            "://a:",
            "eyJ.",
            "eyJ",
            "xox",
            "AKIA",
            "-us",
        ),
        *(
            " -p",
            "curl -u a:",
            "login: a/",
            "bearer ",
            "[secret:",
            " ",
            "\n",
            ".aaaaaa",
            "пароль ",
            "passphrase: a ",
        ),
    ],
)
def test_hostile_text_takes_time_that_grows_with_its_length(part: str) -> None:
    started = time.perf_counter()
    mask(part * (200_000 // len(part)) + "@")
    assert time.perf_counter() - started < 10


def test_basic_credentials_are_recognised_by_what_they_unpack_to() -> None:
    packed = b64encode(b"mira:swordfish").decode()
    assert mask(f"authorization: basic {packed}") == "authorization: basic [secret:password]"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Password:\xa0swordfish9", "Password:\xa0[secret:password]"),
        ("password\u2009is\u2009Sw0rdfish9!", "password\u2009is\u2009[secret:password]"),
        ("pass\u200bword: hunter2x9 and", "pass\u200bword: [secret:password] and"),
        (f"gh\u200bp_{'a1B2' * 9} ok", "[secret:api_key] ok"),
        (f"\ufeffghp_{'a1B2' * 4}\xad{'c3D4' * 5}", "\ufeff[secret:api_key]"),
        ("gh\x01p_" + "a1B2" * 9, "[secret:api_key]"),
        ("Bearer Xk9fQ2mN7pL4 works", "Bearer [secret:token] works"),
        ("password -> Sw0rdfish9", "password -> [secret:password]"),
    ],
)
def test_what_a_reader_does_not_see_hides_no_secret(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_a_secret_that_shows_beside_a_masked_one_has_its_place_in_the_text() -> None:
    text = "AKIAIOSFODNN7ABCDEF1: hunter2zebraQ9 is it"
    assert [text[s.start : s.end] for s in secrets_in(text)] == ["AKIAIOSFODNN7ABCDEF1", "hunter2zebraQ9"]
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize("text", ["access code 403", "login code 401", "the security code 500 page"])
def test_status_codes_are_no_secrets(text: str) -> None:
    assert mask(text) == text


def test_names_within_names_are_looked_at_a_few_times() -> None:
    assert secrets_in("api_key:" * 20_000 + " api_key: Xk9fQ2mN7pL4aB")[-1].kind == "api_key"

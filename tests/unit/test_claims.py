"""Numbers, identifiers and negation: what is one, and what supports it."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.learn import claims
from casenotes.learn.claims import Sources, identifiers, numbers, unsupported
from casenotes.learn.negation import _each_word_once, negations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none here", ""),
        ("401 and 7", "401 7"),
        ("1,000 1'000 1\u2019000 1\xa0000 1\u2009000 1\u202f000 1\u2007000", "1000"),
        ("12,345,678 and 1,234.5", "12345678 1234.5"),
        ("1\xa0234,5", "1234.5"),
        ("1,00,000 in lakhs", "100000"),
        ("1.234.567 and 1.234.567,89 and 1.234,5", "1234567 1234567.89 1234.5"),
        ("1.234 is a decimal, so is 3,14 and 2.5", "1.234 3.14 2.5"),
        ("1.2.3 and 10.0.0.1", "1.2.3 10.0.0.1"),
        ("1,2,3 and 5'30", "1 2 3 5 30"),
        ("1234,567", "1234.567"),
        ("12,3456", "12.3456"),
        ("1,234'567", "1 234 567"),
        ("10 000", "10 000"),
        ("-5, +6, $7, 8%, #9.", "5 6 7 8 9"),
        ("v2 pay-3 12:30", "2 3 12 30"),
        ("007", "007"),
        ("\u0661\u0662\u066c\u0663\u0664\u0665\u066b\u0666 ８０", "12345.6 80"),
        ("1\u200b2", "12"),
        ("5,", "5"),
    ],
)
def test_r45_18_numbers_lose_their_thousands_separators(text: str, expected: str) -> None:
    assert numbers(text) == frozenset(expected.split())


IDENTIFIERS = """
    v2 pay-2 x86_64 no_proxy src/app /etc/hosts host:80 me@x.com @alice key=value x.com www.x.io
    config.yaml a.b OpenAI API iPhone HTTPServer API-Key rate-LIMIT 5ms 3rd 10.0.0.1 1.2.3 2024-05-01 12:30 24/7
    __init__ C:\\temp https://x.com/a?b=c#d ftp://x 10-20 O2 _private a_
""".split()


@pytest.mark.parametrize("token", IDENTIFIERS)
def test_r45_21_these_are_identifiers(token: str) -> None:
    assert identifiers(f"The {token} is") == {token}


@pytest.mark.parametrize(
    "token",
    [
        *"word Word Xylophone read-only Follow-Up well-known E-Mail-Adresse I'm don't O'Brien".split(),
        *"5 -5 5% $5 5€ #5 5. (5) 1,000 3.14 1,2,3 ½ ٣ e.g. i.e. a.m. p.m. and/or z.B. OK n/a".split(),
        *". / : @ = _ -- ... -> == :) _word_ *word* **word** `word`".split(),
        *"\u4f60\u597d サーバー สวัสดี नमस्ते".split(),
    ],
)
def test_r45_21_these_are_no_identifiers(token: str) -> None:
    assert identifiers(f"the {token} is") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        *"pay-2. pay-2, (pay-2) 'pay-2' \u2018pay-2\u2019 \u201cpay-2\u201d pay-2's pay-2\u2019s".split(),
        *"**pay-2** `pay-2` pay-2: pay-2? pay-2! [pay-2] <pay-2> {pay-2} |pay-2| pay-2; pay-2\u2026".split(),
        *"_pay-2_ pay\u20112 pay-\u200b2 服务器pay-2失败 \u300cpay-2\u300d、 ~pay-2~ #pay-2 $pay-2".split(),
        *"pay-2,pay-2 pay-2\uff0cpay-2 เครื่องpay-2".split(),
    ],
)
def test_r45_21_what_surrounds_an_identifier_is_no_part_of_it(text: str) -> None:
    assert identifiers(text) == {"pay-2"}


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("see https://x.com/a.", "https://x.com/a"),
        ("(https://x.com/a)", "https://x.com/a"),
        ("(https://x.com/a_(b)).", "https://x.com/a_(b)"),
        ("https://x.com/(bb)", "https://x.com/(bb)"),
        ("(https://x.com/a.)", "https://x.com/a"),
        ("(see https://x.com/a).)", "https://x.com/a"),
        ("[it](https://x.com/a), so", "https://x.com/a"),
        ("{[https://x.com/a]}!", "https://x.com/a"),
        ("<https://x.com/a>", "https://x.com/a"),
        ("HTTPS://X.com/A?x=1,2;y", "HTTPS://X.com/A?x=1,2;y"),
        ("見るhttps://x.com/a。", "https://x.com/a"),
        ("-https://x.com/a", "https://x.com/a"),
        ("at http://[::1]:80/a", "http://[::1]:80/a"),
        ("at file:///etc/a", "file:///etc/a"),
    ],
)
def test_r45_21_a_url_is_one_identifier(text: str, url: str) -> None:
    assert identifiers(text) == {url}


def test_r45_17_a_number_that_nobody_named_is_unsupported() -> None:
    assert unsupported("7 of 10 failed", ["10 failed"]) == ("7",)
    assert unsupported("7 of 10 failed", ["10 failed", "these 7"]) == ()
    assert unsupported("7 failed, 7 again", []) == ("7",)
    assert unsupported("nothing to prove", []) == ()


@pytest.mark.parametrize(
    ("content", "source"),
    [
        ("10000 rows", "10,000 rows"),
        ("10,000 rows", "10000 rows"),
        ("10000 rows", "10 000 rows"),
        ("1234567 rows", "1 234 567 rows"),
        ("10\xa0000 rows", "10000 rows"),
        ("10\u202f000 rows", "10\u202f000 rows"),
        ("10 000 rows", "10 000 rows"),
        ("port 8080", "localhost:8080"),
        ("5 ms", "5ms"),
        ("8 ms", "\uff18 ms"),
        ("1.2", "is 1.2."),
        ("$5", "5 dollars"),
        ("5ms", "took 5 ms."),
        ("5ms", "took 5  ms."),
        ("5ms", "took 5MS"),
        ("1,500ms", "1500 ms"),
        ("5\u00b0C", "5 \u00b0C"),
        ("2.5GB", "has 2.5 gb left"),
    ],
)
def test_r45_18_numbers_are_supported_in_other_spellings(content: str, source: str) -> None:
    assert unsupported(content, [source]) == ()


@pytest.mark.parametrize(
    ("content", "source"),
    [
        ("23", "234"),
        ("23", "123"),
        ("1.2", "1.2.3"),
        ("2.3", "1.2.3"),
        ("1.2", "11.2"),
        ("000", "10,000"),
        ("1000", "1 0000"),
        ("110000", "1110 000"),
        ("12345", "12 3456"),
        ("5ms", "15 ms"),
        ("5ms", "1.5 ms"),
        ("5ms", "5 sec"),
        ("5ms", "5 and ms"),
        ("5ms", "5 ms-x"),
        ("5ms", "v-5 ms"),
    ],
)
def test_r45_17_a_part_of_a_number_supports_nothing(content: str, source: str) -> None:
    assert unsupported(content, [source]) == (content,)


@pytest.mark.parametrize(
    ("content", "source"),
    [
        ("pay-2", "host=pay-2"),
        ("pay-2", "pay-2's disk"),
        ("pay-2", "it is pay-2."),
        ("pay-2", "it is pay-2- really"),
        ("pay-2", "PAY-2:80"),
        ("Pay-2", "pay-23, pay-2"),
        ("pay-2", "(pay\u20112)"),
        ("pay-2", "-pay-2"),
        ("pay-2", "_pay-2_"),
        ("API", "_API_"),
        ("pay-2", "服务器pay-2 失败"),
        ("x.com", "https://x.com/path"),
        ("x.com", "me@x.com"),
        ("/etc/nginx", "/etc/nginx/nginx.conf"),
        ("https://x.com/a", "see (HTTPS://x.com/a/)."),
        ("https://x.com/a/", "https://x.com/a"),
        ("x_", "x_https://x.com"),
        ("http://_x_/a", "at http://_x_/a"),
        ("the API", "our API-Key"),
        ("the APIs", "an API"),
        ("the API", "the api's"),
        ("the API", "the APIs"),
        ("the OS", "an OS-API"),
        ("NaS", "the NaS"),
    ],
)
def test_r45_20_a_whole_identifier_supports(content: str, source: str) -> None:
    assert unsupported(content, ["nothing", source]) == ()


@pytest.mark.parametrize(
    ("content", "source"),
    [
        ("pay-2", "pay-23"),
        ("pay-2", "pay-2-eu"),
        ("pay-2", "eu-pay-2"),
        ("pay-2", "eu.pay-2"),
        ("pay-2", "xpay-2"),
        ("pay-2", "pay-2.eu"),
        ("pay-2", "pay-2_old"),
        ("pay-2", "old_pay-2"),
        ("API", "the_api"),
        ("API", "api_x"),
        ("pay-2", "pay 2"),
        ("v1.2", "v1.2.3"),
        ("10.0.0.1", "10.0.0.12"),
        ("10.0.0.1", "110.0.0.1"),
        ("x.com", "www.x.com"),
        ("x.com", "x.com.evil.org"),
        ("x.com", "xxcom"),
        ("/etc", "/usr/etc"),
        ("https://x.com/a", "https://x.com/a/b"),
        ("https://x.com/a", "https://x.com/ab"),
        ("https://x.com/a", "x.com/a"),
        ("API", "capi"),
        ("API", "apis.md"),
        ("API", "x.api"),
        ("API", "apiss"),
        ("OpenAI", "open AI"),
        ("Gas-API", "an API"),
    ],
)
def test_r45_20_a_part_of_a_longer_identifier_does_not_support(content: str, source: str) -> None:
    assert unsupported(content, [source]) == (content,)


def test_r45_19_all_missing_values_are_named_once_identifiers_first() -> None:
    content = "12 of pay-2, PAY-3 and pay-2 see https://x.com and 7 of 12"
    assert unsupported(content, ["7"]) == ("https://x.com", "pay-2", "PAY-3", "12")


def test_r45_19_values_before_and_after_others_are_found() -> None:
    assert unsupported("9 of pay-2 and pay-3 or 8", ["pay-2 pay-3"]) == ("9", "8")
    assert identifiers("at https://x.com and pay-2 or pay-3") == {"https://x.com", "pay-2", "pay-3"}


def test_r45_19_at_most_twenty_are_named() -> None:
    assert len(unsupported(" ".join(f"x{i}" for i in range(100)), [])) == 20


def test_sources_do_not_join() -> None:
    assert unsupported("pay-2", ["pay", "-2"]) == ("pay-2",)
    assert unsupported("12000", ["12", "000"]) == ("12000",)
    assert unsupported("5ms", ["5", "ms"]) == ("5ms",)


NEGATED = [
    ("it works", "it does not work"),
    ("it can work", "it can't work"),
    ("it can work", "it can\u2019t work"),
    ("it can work", "it cannot work"),
    ("with TLS", "without TLS"),
    ("there is an index", "there is no index"),
    ("it started", "it failed to start"),
    ("it was DNS", "DNS was ruled out"),
    ("reachable", "unreachable"),
    ("all of them", "none of them"),
    ("es geht", "es geht nicht"),
    ("ein Fehler", "kein Fehler"),
    ("mit Proxy", "ohne Proxy"),
    ("het werkt", "het werkt niet"),
    ("ça marche", "ça ne marche pas"),
    ("ça marche", "ça ne marche plus"),
    ("il y en a", "il n\u2019y en a plus"),
    ("avec le proxy", "sans le proxy"),
    ("A ou B", "ni A ni B"),
    ("funciona", "no funciona"),
    ("con los proxies", "sin los proxies"),
    ("funciona", "não funciona"),
    ("funziona", "non funziona"),
    ("det fungerar", "det fungerar inte"),
    ("det virker", "det virker ikke"),
    ("to działa", "to nie działa"),
    ("funguje", "nefunguje"),
    ("működik", "nem működik"),
    ("funcționează și", "nu funcționează și"),
    ("работает", "не работает"),
    ("працює", "немає"),
    ("λειτουργεί", "δεν λειτουργεί"),
    ("bağlandı", "bağlanmadı"),
    ("bağlı", "bağlı değil"),
    ("berfungsi", "tidak berfungsi"),
    ("hoạt động", "không hoạt động"),
    ("يعمل", "لا يعمل"),
    ("עובד", "לא עובד"),
    ("यह काम करता है", "यह काम नहीं करता है"),
    ("可以连接", "不可以连接"),
    ("有错误", "没有错误"),
    ("接続できる", "接続できない"),
    ("動きます", "動きません"),
    ("연결됩니다", "연결되지 않습니다"),
    ("서버가 돼요", "서버가 안 돼요"),
    ("ทำงาน", "ไม่ทำงาน"),
]


@pytest.mark.parametrize(("plain", "negated"), NEGATED)
def test_r45_23_negation_is_found_in_many_languages(plain: str, negated: str) -> None:
    assert negations(plain) == 0
    assert negations(negated) == 1
    assert "ı" in negated or negations(negated.upper()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "die Datei war groß und hat noch Platz",
        "o erro foi no servidor",
        "pas na de herstart werkt het",
        "hij brak het record van de dag",
        "faux number sans serif",
        "han tog sin dator nu",
        "de server is nu snel",
        "ne abbiamo due",
        "im Mai ist ein Ei da",
        "a NIC and a SAN",
        "Ni har rätt",
        "Mr Gomez and the rimedi",
        "notable knots, nonetheless annotate",
        "le serveur est plus rapide",
        "une personne que je connais",
        "dont le serveur",
        "非常好",
        "未来的无线网络",
        "そうかもしれない",
        "잘못 입력했다",
        "เร็วหรือไม่",
        "it failed, too",
        "",
    ],
)
def test_r45_24_words_of_one_language_are_no_negations_of_another(text: str) -> None:
    assert negations(text) == 0


def test_r45_23_each_negation_counts() -> None:
    assert negations("not DNS, not TLS and no proxy") == 3
    assert negations("non c'è") == 1
    assert negations("ne a b c d plus") == 0
    assert negations("ne a b c plus") == 1
    assert negations("il ne plus") == 1
    assert negations("plus ne vient") == 0
    assert negations("failed to start and fails to stop") == 2
    assert negations("不能，也没有") == 2


def test_r45_23_a_word_of_two_languages_counts_once() -> None:
    languages: dict[str, dict[str, object]] = {
        "a": {"words": ["x", "y"]},
        "b": {"words": ["z"]},
        "c": {"parts": ["p"]},
        "d": {"words": ["y", "z", "w"]},
    }
    words = {name: lists["words"] for name, lists in _each_word_once(languages).items()}
    assert words == {"a": {"x", "y"}, "b": {"z"}, "c": set(), "d": {"w"}}


def test_the_word_lists_are_lower_case_and_have_known_fields() -> None:
    text = resources.files("casenotes.learn").joinpath("data/negation.json").read_text("utf-8")
    assert text == text.lower()
    fields = {"words", "endings", "phrases", "pairs", "parts", "except", "with", "not_with", "letters"}
    for lists in json.loads(text).values():
        assert set(lists) <= fields
        assert len(set(lists.get("words", ()))) == len(lists.get("words", ()))
        assert {*lists.get("with", ()), *lists.get("not_with", ())} <= set(lists.get("words", ()))


sentences = st.text(st.sampled_from("ab12.,'_-/:@=%sT \xa0\u200b\u2019漢不") | st.characters(), max_size=60)


@given(sentences)
def test_a_text_supports_itself(text: str) -> None:
    assert unsupported(text, [text]) == ()


def test_large_hostile_texts_take_no_time() -> None:
    pieces = (
        "1",
        "1,",
        "1 ",
        "111 ",
        "a.",
        "a-",
        "a1",
        "_",
        "http",
        "://",
        "http://a)",
        "no ",
        "'1",
        "1ms",
        "@/",
    )
    for text in (*(piece * (20_000 // len(piece)) for piece in pieces), "http://a" + ")" * 20_000):
        unsupported("pay-2, 7 and http://b", [text])
        unsupported(text[:5_000], ["pay-2"])
        negations(text)


def test_r45_17_a_digit_run_of_a_version_supports_its_number() -> None:
    assert unsupported("Python 3 was used", ["it runs on Python 3.11"]) == ()
    assert unsupported("Python 31 was used", ["it runs on Python 3.11"]) == ("31",)


def test_r45_20_an_endless_identifier_is_unsupported_and_quickly_so() -> None:
    assert unsupported("A" * 20_000, ["A" * 500_000]) == ("A" * 20_000,)
    assert unsupported("A1" * 200, ["A1" * 200_000]) == ("A1" * 200,)


@pytest.mark.parametrize(
    ("identifier", "source", "is_there"),
    [
        ("pay-2", "pay-23 and pay-2", True),
        ("pay-2", "pay-2 and pay-23", True),
        ("pay-2", "pay-23 and pay-24, then pay-2, not pay-25", True),
        ("pay-2", "pay-2__old", False),
        ("pay-2", "pay-2.e or so", False),
        ("pay-2", "the a.pay-2 host", False),
        ("pay-2", "it is .xpay-2", False),
        ("pay-2", "-pay-2 or .pay-2", True),
        ("API", "the APIs are down", True),
        ("API", "the APIsome are down", False),
        ("x" * 499 + "1", "x" * 499 + "1", True),
        ("x" * 500 + "1", "x" * 500 + "1", False),
    ],
)
def test_r45_20_an_identifier_stands_alone_or_it_does_not(identifier: str, source: str, is_there: bool) -> None:
    assert unsupported(identifier, [source]) == (() if is_there else (identifier,))


@pytest.mark.parametrize("filler", ["$5", "?x=1", "1 ", "a", "id-7/x=1 "])
def test_huge_sources_are_read_at_both_ends(filler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_CHARACTERS", 5_000)
    middle = f" {filler * 5_000} pay-5 {filler * 5_000} "
    sources = Sources([f"host pay-2 {middle} host pay-3", "and port 8443"])
    assert unsupported("pay-2 and pay-3 at 8443, not pay-4 or pay-5", sources) == ("pay-4", "pay-5")


def test_a_cut_leaves_no_half_of_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_CHARACTERS", 5_000)
    assert Sources(["7" * 6_000]).keys == frozenset()
    compact = '"port":8443,' + '"id":1234567,' * 1_000 + '"host":"pay-3"'
    assert unsupported("8443 1234567 pay-3", Sources([compact])) == ()
    assert unsupported("the id 123", Sources([compact])) == ("123",)

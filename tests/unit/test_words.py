"""Search terms: Unicode words, folded and stemmed; scripts without spaces by character pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casenotes.recall import words
from casenotes.recall.words import ASCII_WORD, search_terms

SHARED = [
    ("東京タワーに行きました", "東京タワー"),
    ("我昨天在北京买了一台电脑", "北京"),
    ("데이터베이스 서버가 다운되었습니다", "서버"),
    ("เซิร์ฟเวอร์ฐานข้อมูลล่มเมื่อคืน", "ฐานข้อมูล"),
    ("Сервер базы данных упал", "сервер"),
    ("Η βάση δεδομένων έπεσε", "βάση"),
    ("قاعدة البيانات معطلة", "البيانات"),
    ("Café Müller, naïve", "cafe muller naive"),
    ("ＦＵＬＬ width", "full"),
    ("It happens in getUserName()", "user name"),
    ("ERR_RATE_LIMIT-429 at api.example.com:443", "rate limit 429 example"),
    ("costs 1,000.50 now", "1000.50 1,000.50"),
    ("the servers were restarted", "restart server"),
    ("don\u2019t panic\u00adking", "panicking"),
    ("c'était l'été", "été"),
    ("'Élan' and 'Apple'", "elan apple"),
]


@pytest.mark.parametrize(("text", "query"), SHARED)
def test_text_is_found_by_a_part_of_it(text: str, query: str) -> None:
    assert set(search_terms(query)) & set(search_terms(text))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The cat and the dog", ["cat", "dog"]),
        ("foo_bar", ["foo_bar", "foo", "bar"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("user's don't", ["user"]),
        ("v1.2.3", ["v1.2.3", "v", "1", "2", "3"]),
        ("東京都", ["東京", "京都", "東", "京", "都"]),
        ("猫", ["猫"]),
        ("...!?", []),
        ("", []),
    ],
)
def test_terms_exactly(text: str, terms: list[str]) -> None:
    assert search_terms(text) == terms


def test_a_single_han_or_hangul_character_is_found_inside_a_word() -> None:
    assert set(search_terms("책")) & set(search_terms("책을 읽었다"))
    assert set(search_terms("猫")) & set(search_terms("黒猫がいる"))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_fast_pattern_finds_the_words_of_the_unicode_rules(text: str) -> None:
    by_unicode_rules = words._patterns()["word"].findall(text)
    assert ASCII_WORD.findall(text) == by_unicode_rules


@given(st.text())
def test_any_text_gives_terms_and_the_same_ones_again(text: str) -> None:
    clean = text.encode("utf-8", "ignore").decode()
    terms = search_terms(clean)
    assert terms == search_terms(clean)
    assert all(terms)


def test_long_words_and_runs_are_not_remembered() -> None:
    before = len(words._known_words)
    terms = search_terms("x" * 5_000 + " " + "東京" * 5_000)
    assert len(words._known_words) == before
    assert max(map(len, terms)) == words.MAX_TERM_LENGTH
    assert search_terms("x" * 5_000)[0] in terms


def test_the_memory_of_known_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_KNOWN_WORDS", 10)
    search_terms(" ".join(f"word{n}" for n in range(100)))
    assert len(words._known_words) <= 10

"""Settings check themselves; the environment has its say."""

import pytest

from casenotes import SearchSettings, Settings, StorageSettings
from casenotes.config import Environment
from casenotes.errors import SettingsError


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SearchSettings(ranker="best"), "'best'.*default, rrf-decay"),
        (lambda: SearchSettings(top_k=0), "top_k is 0"),
        (lambda: SearchSettings(lexical_weight=1.5), "lexical_weight is 1.5.*between 0 and 1"),
        (lambda: SearchSettings(top_k="5"), "top_k must be a number"),
        (lambda: SearchSettings(bm25_k1=float("nan")), "bm25_k1"),
        (lambda: StorageSettings(max_message_characters=0), "max_message_characters"),
        (lambda: Settings(last_messages=0), "last_messages is 0"),
    ],
)
def test_wrong_settings_fail_at_once_by_name(make: object, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        make()


def test_the_environment_is_read() -> None:
    read = Environment.read(
        {
            "CASENOTES_DATABASE_URL": "postgresql://db/x",
            "CASENOTES_LAST_MESSAGES": "7",
            "CASENOTES_EMBEDDER_MODEL": "",
        }
    )
    assert (read.database_url, read.last_messages, read.embedder_model) == (
        "postgresql://db/x",
        7,
        "local",
    )
    assert read.settings().last_messages == 7
    assert Environment.read({}) == Environment("sqlite:///casenotes.db", "local", 20)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(SettingsError, match="CASENOTES_LAST_MESSAGES is 'many'"):
        Environment.read({"CASENOTES_LAST_MESSAGES": "many"})

"""Settings check themselves; the environment has its say."""

from dataclasses import replace

import pytest

from casenotes import EpisodicSettings, JobSettings, SearchSettings, Settings, StorageSettings
from casenotes.config import ModelSettings, ObservationalSettings, effective
from casenotes.errors import SettingsError


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SearchSettings(ranker="best"), "'best'.*default, rrf-decay"),
        (lambda: EpisodicSettings(top_k=0), "top_k is 0"),
        (lambda: EpisodicSettings(enabled="yes"), "enabled is 'yes'; it must be true or false"),
        (lambda: EpisodicSettings(inject_messages="maybe"), "'maybe'.*fill, never"),
        (lambda: EpisodicSettings(dedupe_similarity_threshold=True), "threshold is True.*or false"),
        (lambda: EpisodicSettings(dedupe_similarity_threshold=1.5), "threshold is 1.5"),
        (lambda: EpisodicSettings(verify_evidence=False), "verify_evidence is False without"),
        (
            lambda: EpisodicSettings(max_entries_per_turn=3, max_entries_per_run=4),
            "max_entries_per_turn is 3.*max_entries_per_run is 4",
        ),
        (
            lambda: Settings(
                episodic=EpisodicSettings(half_life_days=30), search=SearchSettings(half_life_days=60)
            ),
            "episodic.half_life_days is 30.*search.half_life_days is 60",
        ),
        (lambda: EpisodicSettings(extraction_prompt=""), "extraction_prompt is '', which is blank"),
        (lambda: EpisodicSettings(injection_prompt=" "), "injection_prompt is ' '"),
        (lambda: JobSettings(lease_seconds=0), "lease_seconds is 0"),
        (lambda: JobSettings(in_process=None), "in_process is None; it must be true or false"),
        (lambda: ModelSettings(attempts=0), "attempts is 0"),
        (lambda: SearchSettings(lexical_weight=1.5), "lexical_weight is 1.5.*between 0 and 1"),
        (lambda: EpisodicSettings(top_k="5"), "top_k is '5'; it must be a whole number"),
        (lambda: SearchSettings(bm25_k1=float("nan")), "bm25_k1"),
        (lambda: StorageSettings(max_message_characters=0), "max_message_characters"),
        (lambda: Settings(last_messages=0), "last_messages is 0"),
    ],
)
def test_wrong_settings_fail_at_once_by_name(make: object, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        make()


def test_the_defaults_of_episodic_memory() -> None:
    settings = EpisodicSettings()
    assert (settings.top_k, settings.auto_inject, settings.auto_inject_top_k) == (5, True, 12)
    assert (settings.half_life_days, settings.max_entries_per_turn, settings.max_entry_length) == (180, 5, 2000)
    assert (settings.dedupe_similarity_threshold, settings.sync, settings.verifies) == (0.86, False, True)
    assert (settings.extractor_model, settings.reflector_model) == (None, None)


def test_settings_with_two_names_are_one() -> None:
    assert EpisodicSettings(max_entries_per_run=2).max_entries_per_turn == 2
    changed = replace(EpisodicSettings(max_entries_per_run=2), max_entries_per_turn=7)
    assert changed.max_entries_per_turn == 7
    assert Settings(episodic=EpisodicSettings(half_life_days=30)).search.half_life_days == 30
    assert EpisodicSettings(dedupe_similarity_threshold=False).similarity_threshold is None


def test_evidence_is_checked_unless_the_prompt_is_ones_own() -> None:
    assert not EpisodicSettings(extraction_prompt="mine").verifies
    assert EpisodicSettings(extraction_prompt="mine", verify_evidence=True).verifies


@pytest.mark.parametrize(
    ("make", "both"),
    [
        (
            lambda: Settings(
                episodic=EpisodicSettings(extract_from="observations"),
                observational=ObservationalSettings(enabled=False),
            ),
            ("episodic.extract_from is 'observations'", "observational.enabled is False"),
        ),
        (
            lambda: effective(Settings(jobs=JobSettings(in_process=False)), url="sqlite:///:memory:"),
            ("jobs.in_process is False", "sqlite:///:memory:"),
        ),
        (
            lambda: EpisodicSettings(min_block_tokens=900, max_block_tokens=800),
            ("min_block_tokens is 900", "max_block_tokens is 800"),
        ),
        (
            lambda: ObservationalSettings(min_session_tokens=900),
            ("min_session_tokens is 900", "max_session_tokens is 800"),
        ),
        (
            lambda: StorageSettings(database="sqlite:///x.db", credential="c"),
            ("credential is 'c'", "database is 'sqlite:///x.db'"),
        ),
        (lambda: Settings(episodic=7), ("episodic is 7", "EpisodicSettings")),
    ],
)
def test_settings_that_cannot_go_together_are_refused_by_both_names(
    make: object, both: tuple[str, str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        make()
    assert all(name in str(caught.value) for name in both)

"""What can be set, and where it is read from: rules, settings, the doors (sources, JSON), and what counts."""

from __future__ import annotations

from casenotes.config.effective import Effective, effective
from casenotes.config.settings import (
    DEFAULT_AGENT,
    DEFAULT_DATABASE_URL,
    DEFAULT_LEXICAL_WEIGHT,
    BudgetSettings,
    EpisodesSettings,
    EpisodicSettings,
    JobSettings,
    ModelSettings,
    ObservationalSettings,
    PlanSettings,
    ProfileSettings,
    SearchSettings,
    SemanticRecallSettings,
    Settings,
    StorageSettings,
    WorkerModel,
    zone_named,
)
from casenotes.config.sources import cache_folder, usable_cores

__all__ = [
    "DEFAULT_AGENT",
    "DEFAULT_DATABASE_URL",
    "DEFAULT_LEXICAL_WEIGHT",
    "BudgetSettings",
    "Effective",
    "EpisodesSettings",
    "EpisodicSettings",
    "JobSettings",
    "ModelSettings",
    "ObservationalSettings",
    "PlanSettings",
    "ProfileSettings",
    "SearchSettings",
    "SemanticRecallSettings",
    "Settings",
    "StorageSettings",
    "WorkerModel",
    "cache_folder",
    "effective",
    "usable_cores",
    "zone_named",
]

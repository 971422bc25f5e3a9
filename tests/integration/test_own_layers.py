"""Layers of others: which names they may have."""

from __future__ import annotations

import pytest
from conversation import opened

from casenotes import EpisodicSettings, Settings
from casenotes.errors import SettingsError
from casenotes.layers.base import BaseLayer


class Notes(BaseLayer):
    def __init__(self, name: str) -> None:
        self.name = name


OURS = ["memory", "attempts", "user-profile", "plan", "episodes", "semantic-recall", "title"]


@pytest.mark.parametrize("name", OURS)
async def test_r10_03_a_layer_cannot_be_named_like_one_of_ours(sqlite_url: str, name: str) -> None:
    """It would share the state of ours; one named `memory` would be learned from for ever."""
    off = Settings(episodic=EpisodicSettings(enabled=False))
    with pytest.raises(SettingsError, match=f"{name!r}, which is built in"):
        async with opened(sqlite_url, config=off, layers=[Notes(name)]):
            pass


async def test_r10_03_no_two_layers_share_a_name(sqlite_url: str) -> None:
    with pytest.raises(SettingsError, match="two layers are named notes"):
        async with opened(sqlite_url, layers=[Notes("notes"), Notes("other"), Notes("notes")]):
            pass

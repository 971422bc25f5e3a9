"""Data files inside installed packages, found without importing the packages."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from casenotes.errors import MissingExtra


def is_installed(package: str) -> bool:
    """Whether a package could be imported."""
    return importlib.util.find_spec(package) is not None


@cache
def package_folder(package: str, remedy: str) -> Path:
    """Where a package lies; MissingExtra with the remedy if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the package {package} is not installed; {remedy}")
    return Path(spec.submodule_search_locations[0])

"""What the tests of the command line share: a file of data, and a place of their own to run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..typed import typed as run
from .shop import Typed, write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A CSV file of 240 rows, in the folder that commands run in."""
    return write_shop(tmp_path / "shop.csv")


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs the command line as a user types it, in a folder of its own and without data sets around."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ERASUREHEAD_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "no_cache"))
    return run

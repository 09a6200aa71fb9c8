"""What the tests of papers share: everything of the ErasureHead paper, reproduced once on small synthetic stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from erasurehead.papers import reproduce
from erasurehead.papers._reproduction import Reproduction

SMALL: Mapping[str, Any] = {"synthetic": "always", "rows": 600, "steps": 12}


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """All exhibits, on synthetic stand-ins of 600 rows with 12 steps a run, on the virtual engine."""
    pytest.importorskip("matplotlib")
    return reproduce("erasurehead", out=tmp_path_factory.mktemp("papers") / "all", **SMALL)

"""What tests with real ranks share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

QUICK_START = Path(__file__).with_name("quick_start")


@pytest.fixture
def quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test starts spare PyTorch's compiler: two of the five seconds of a core that a rank takes to begin.

    Ranks of `test_stacks.py`, `test_backward.py` and the tutorials load it, as those of a user do.
    """
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(QUICK_START), *before]))

"""What all tests share: deterministic hypothesis, Ctrl-C as a terminal has it, and where the real data are."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "erasurehead", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("erasurehead")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_as_in_a_terminal() -> Generator[None]:
    """Let SIGINT be what it is in a terminal: a shell ignores it for what it starts in the background.

    Python then installs no handler, and whatever the tests start would inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the public data files in their original formats, or a skip that says where it was looked for."""
    named = os.environ.get("ERASUREHEAD_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set ERASUREHEAD_DATA to the folder that holds them)")
    return folder

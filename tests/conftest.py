"""What all tests share: deterministic hypothesis, Ctrl-C as a terminal has it, and where the real data are."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from erasurehead.drills import keeper

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


@pytest.fixture(scope="session", autouse=True)
def what_tests_start_ends_with_them() -> Generator[None]:
    """Have a keeper end every process that tests have started and that is left when they are over, or were killed."""
    mark = secrets.token_hex(8)
    command = [sys.executable, "-I", "-S", keeper.__file__, mark]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(keeper.MARK, mark)
        yield
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the public data files in their original formats, or a skip that says where it was looked for."""
    named = os.environ.get("ERASUREHEAD_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set ERASUREHEAD_DATA to the folder that holds them)")
    return folder

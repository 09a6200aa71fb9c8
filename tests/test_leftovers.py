"""What the tests take for left in shared memory is what nobody uses any more."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from .leftovers import SHARED, left_since, unclaimed

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="there is no /dev/shm")


@pytest.fixture
def path() -> Generator[Path]:
    path = SHARED / f"left-by-a-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


def test_what_is_open_is_used_and_what_is_closed_is_left(path: Path) -> None:
    before = unclaimed()
    with path.open("wb") as file:
        file.write(b"held")
        assert path.name not in unclaimed()
    assert left_since(before, 0.0) >= {path.name}
    path.unlink()
    assert path.name not in left_since(before, 0.0)

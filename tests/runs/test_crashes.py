"""Whatever moment the coordinator is killed at, the run that goes on ends as if nothing had been, to the bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..bounded import PATIENCE

DRIVER = Path(__file__).with_name("crash_driver.py")


def driven(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-W", "error", str(DRIVER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_bit(tmp_path: Path) -> None:
    result = driven("moments", tmp_path, 0, 18)
    assert result["wrong"] == []
    assert result["crashes"] >= 50
    assert len(result["steps"]) >= 6  # of all stages of a run


@pytest.mark.slow
def test_a_crash_at_any_file_operation_loses_nothing_that_was_safe(tmp_path: Path) -> None:
    result = driven("operations", tmp_path)
    assert result["wrong"] == []
    assert result["crashes"] >= 100


@pytest.mark.slow
def test_whatever_a_run_keeps_it_goes_on_to_the_bit_when_it_is_killed(tmp_path: Path) -> None:
    """Of rules and aggregations that learn, late messages, targets, several points, penalties, wires and replays."""
    command = [sys.executable, "-W", "error", str(DRIVER.with_name("state_driver.py")), str(tmp_path), "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: one["wrong"] for name, one in found.items()} == {name: [] for name in found}
    assert len(found) >= 12
    assert sum(len(one["killed"]) for one in found.values()) >= len(found)
    assert found["until"]["steps"] < 14
    assert found["seconds"]["steps"] < 14
    assert found["patience"]["steps"] < 14

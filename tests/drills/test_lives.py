"""Fault schedules of many lives: real runs, killed in every way, and continued."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from erasurehead.drills._drill import DrillSettings
from erasurehead.drills._life import Strike
from erasurehead.drills._lives import Lives
from erasurehead.errors import InvalidArgument

from .small import small_table

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("engine", "count"),
    [
        ("virtual", 9),
        ("processes", 2),
        pytest.param(
            "mpi",
            1,
            marks=pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
        ),
    ],
)
def test_every_life_of_a_schedule_keeps_every_promise(tmp_path: Path, engine: str, count: int) -> None:
    said: list[str] = []
    found = Lives(DrillSettings(engine, workers=6, data=small_table(tmp_path)), count, tmp_path / "schedule").run(
        said.append
    )
    assert found.passed, said
    assert len(found.lives) == count
    assert found.verdict.startswith(f"{count} of {count} lives on the {engine} engine kept every promise")
    assert json.loads((tmp_path / "schedule" / "drill.json").read_text())["passed"] is True
    killed = [life for life in found.lives if life.strike.who != "workers"]
    assert [life.processes for life in killed] == [2] * len(killed)
    assert not [path.name for path in (tmp_path / "schedule").glob("life-*")]  # only what is broken is kept


def test_strikes_are_of_every_kind_and_the_same_for_the_same_seed() -> None:
    drawn = [Strike.drawn(3, life, 6, 40) for life in range(90)]
    assert drawn == [Strike.drawn(3, life, 6, 40) for life in range(90)]
    assert set(Counter((one.who, one.moment) for one in drawn).values()) == {10}
    assert all(bool(one.workers) == (one.who != "coordinator") for one in drawn)
    assert any(len(one.workers) == 6 for one in drawn)
    assert all(1 <= one.step < 39 for one in drawn)
    assert str(Strike("both", "writing", (1, 4), 7, 0.5)) == (
        "the coordinator and workers 1, 4 killed in step 7, while files were written"
    )


def test_no_lives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="lives must be at least 1, but it is 0"):
        Lives(DrillSettings(workers=6), 0, tmp_path / "schedule")

"""Fault schedules of many lives: real runs, killed in every way, and continued."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from erasurehead.drills import _drill as drilling, _lives
from erasurehead.drills._life import Strike
from erasurehead.drills._lives import Lives
from erasurehead.drills._supervisor import CommandResult
from erasurehead.errors import InvalidArgument

from .small import forked, small_table, tables

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
def test_every_life_of_a_schedule_keeps_every_promise(
    tmp_path: Path, engine: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "virtual":  # the others start their coordinators as users do
        monkeypatch.setattr(drilling, "run_command", forked)
    said: list[str] = []
    found = Lives(tables(6, engine, source=small_table(tmp_path)), count, out=tmp_path / "schedule").run(said.append)
    assert found.passed, said
    assert len(found.lives) == count
    assert found.verdict.startswith(f"{count} of {count} lives on the {engine} engine kept every promise")
    assert json.loads((tmp_path / "schedule" / "drill.json").read_text())["passed"] is True
    killed = [life for life in found.lives if life.strike.who != "workers"]
    assert [life.processes for life in killed] == [2] * len(killed)
    assert not [path.name for path in (tmp_path / "schedule").glob("life-*")]  # only what is broken is kept


class Played:
    """Lives whose processes are only thought of.

    Arguments:
        folder: an unused one.
        hopeless: a life that never finishes.
        hanging: a life that hangs.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, hopeless: int = -1, hanging: int = -1) -> None:
        self.lives, self.begun = Lives(tables(6), 9, out=folder), list[tuple[bool, int]]()
        self.hopeless, self.hanging, finished = hopeless, hanging, set[str]()

        def coordinate(name: str, limit: float, kills: int, seed: int, was_struck: int, *left: int) -> CommandResult:
            for place, life in enumerate(left):
                struck = not (was_struck and place == 0)
                self.begun.append((struck, life))
                if life == self.hanging:
                    return CommandResult(None, "", (), ())
                if life == self.hopeless:
                    return CommandResult(3, "no room", (), ())
                if struck and self.lives.strike(life).who != "workers":
                    return CommandResult(-9, "", (), ())
                finished.add(f"life-{life}")
            return CommandResult(0, "", (), ())

        def broken(out: Path, *rest: object) -> list[str]:
            return [] if out.name in finished else ["unfinished"]

        monkeypatch.setattr(self.lives, "coordinate", coordinate)
        monkeypatch.setattr(_lives, "RunFolder", SimpleNamespace(open=lambda out: out))
        monkeypatch.setattr(_lives, "_status", lambda out: "finished" if out.name in finished else "")
        monkeypatch.setattr(_lives, "_broken_promises", broken)
        self.found = self.lives._live(np.zeros(1), range(9))  # pyright: ignore[reportPrivateUsage]


def test_a_process_takes_up_a_life_and_begins_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path / "schedule", monkeypatch)
    assert [life.number for life in played.found] == list(range(9))
    assert [life.processes for life in played.found] == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert [life for struck, life in played.begun if struck] == list(range(9))  # each is struck once,
    assert [life for struck, life in played.begun if not struck] == list(range(3, 9))  # and then goes on
    assert not [life for life in played.found if life.broken]


def test_a_life_that_fails_is_given_up_and_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path / "schedule", monkeypatch, hopeless=1, hanging=4)
    assert [life.number for life in played.found] == list(range(9))
    assert [life.processes for life in played.found] == [1, 3, 1, 2, 1, 2, 2, 2, 2]
    assert {life.number: life.broken for life in played.found if life.broken} == {
        1: ("unfinished",),
        4: ("a process had not ended within 300 s", "unfinished"),
    }


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
        Lives(tables(6), 0, out=tmp_path / "schedule")

"""Drills of peers: promises that are kept, promises that are broken, and bad input in the user's words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.consensus._drill import PeerDrill, PeerFindings
from erasurehead.errors import InvalidArgument
from erasurehead.testing._pacing import at_some_pace


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["full()", "static(wait_for=1)", "dynamic()", "local()", "pairwise()"])
def test_promises_are_kept_on_the_virtual_clock(tmp_path: Path, policy: str) -> None:
    found = PeerDrill(policy, peers=8, seconds=60.0, seed=3).run(out=tmp_path)
    assert found.passed, [one.text for one in found.verdicts if one.kept is False]
    assert len(found.verdicts) >= 8
    kept = json.loads((tmp_path / "drill.json").read_text())
    assert kept["passed"] is True
    assert [one["kind"] for one in kept["faults"]] == ["crash", "crash", "partition"]
    assert [row["gone"] for row in kept["view_changes"]][-1]


@pytest.mark.slow
@pytest.mark.processes
@at_some_pace
def test_promises_are_kept_on_processes(tmp_path: Path, pace: float) -> None:
    faults = (Crash(0, pace * 0.4, pace * 0.9), NetworkPartition((1, 2), pace * 1.2, pace * 1.6), Crash(3, pace * 2.0))
    seconds, delays = pace * 3.0, f"exponential(mean={pace * 0.02})"
    drill = PeerDrill("dynamic()", "ring()", "processes", 4, seconds, delays=delays, faults=faults)
    found = drill.run(out=tmp_path)
    assert found.passed, [one.text for one in found.verdicts if one.kept is False]


def test_broken_promises_are_said(tmp_path: Path) -> None:
    drill = PeerDrill("local()", peers=6, seconds=40.0)
    found = drill.run(out=tmp_path)
    dead = drill.plan.faults[0]
    assert isinstance(dead, Crash)
    met = [replace(row, links=[dead.peer]) if row.begin > 15.0 else row for row in found.faulty.rows]
    idle = [row for row in found.faulty.rows if row.peer != 3 or row.end < 5.0]
    late = [replace(row, time=row.time + 2.0) for row in found.faulty.view_changes]

    def broken(**changed: Any) -> str:
        again = PeerFindings("", drill, found.baseline, replace(found.faulty, **changed))
        return " ".join(one.text for one in again.verdicts if one.kept is False)

    assert "that is gone" in broken(rows=met)
    assert "peer 3 stood still" in broken(rows=idle)
    assert "noticed, at most 2 s after" in broken(view_changes=late)
    assert "0 of 2000 samples" in broken(shares=())
    assert "of 40 s: all wait" in broken(stopped="all wait")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"engine": "mpi"}, "engine must be one of virtual, processes for peers"),
        ({"peers": 3}, "peers must be"),
        ({"seconds": 0.1}, "seconds must be at least 1"),
        ({"policy": "fully()"}, "fully"),
    ],
)
def test_what_cannot_be_drilled_is_said(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        PeerDrill(**more)


def test_the_command_drills_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ..typed import command_line

    words = ["drill", "--peers", "local()", "--workers", "6", "--seconds", "40", "--out", str(tmp_path), "--json"]
    command_line()(words, standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is True
    assert told["policy"] == "local()"
    command_line()([*words, "--kinds", "kill"], standalone_mode=False)
    assert "--kinds must be left out with --peers" in capsys.readouterr().err

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


def tables(policy: str, peers: int, **run: Any) -> dict[str, Any]:
    """Return tables of the run file of a drill."""
    return {"consensus": {"policy": policy, "peers": peers}, "run": run}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["full()", "static(wait_for=1)", "dynamic()", "local()", "pairwise()"])
def test_promises_are_kept_on_the_virtual_clock(tmp_path: Path, policy: str) -> None:
    found = PeerDrill(tables(policy, 8, seed=3), out=tmp_path).run()
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
    given = {**tables("dynamic()", 4, engine="processes"), "delays": {"model": f"exponential(mean={pace * 0.02})"}}
    given["consensus"]["graph"] = "ring()"
    found = PeerDrill(given, pace * 3.0, faults, tmp_path).run()
    assert found.passed, [one.text for one in found.verdicts if one.kept is False]


@pytest.mark.slow
def test_broken_promises_are_said(tmp_path: Path) -> None:
    drill = PeerDrill(tables("local()", 6), 40.0, out=tmp_path)
    found = drill.run()
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
        ({"run": {"engine": "mpi"}}, "engine must be one of virtual, processes for peers"),
        ({"consensus": {"peers": 3}}, "peers must be"),
        ({"seconds": 0.1}, "seconds must be at least 1"),
        ({"consensus": {"policy": "fully()"}}, "fully"),
    ],
)
def test_what_cannot_be_drilled_is_said(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        PeerDrill(more, more.pop("seconds", 60.0))


@pytest.mark.slow
def test_the_command_drills_peers(tmp_path: Path) -> None:
    from ..typed import typed

    words = [
        "drill",
        "peers",
        "--policy",
        "local()",
        "--peers",
        "6",
        "--seconds",
        "40",
        "--out",
        str(tmp_path),
        "--json",
    ]
    told = typed(*words).json
    assert told["passed"] is True
    assert told["policy"] == "local()"
    refused = typed(*words, "--kinds", "kill")
    assert refused.code == 2
    assert "No such option: --kinds" in refused.err


def test_faults_are_told_in_words() -> None:
    faults = (Crash(7, 6.0), Crash(8, 10.5, 15.0), NetworkPartition((5, 1), 18.0, 22.5), NetworkPartition((2,), 1.0))
    assert [str(fault) for fault in faults] == [
        "peer 7 is killed",
        "peer 8 is killed, and comes back at 15 s",
        "the network is cut: peers 1, 5 on one side, until 22.5 s",
        "the network is cut: peer 2 on one side",
    ]

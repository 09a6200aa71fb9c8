"""How many cores a process may keep busy: by its affinity, and by the quotas of its control groups in both versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from erasurehead._internal import resources
from erasurehead._internal.resources import usable_cores

Machine = Callable[[int, Mapping[str, str], str], None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """Makes a machine: its cores, files of control groups by their path, and the groups of this process."""

    def make(cores: int, files: Mapping[str, str], own: str) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(f"{text}\n")
        (tmp_path / "own").write_text(own)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
        monkeypatch.setattr(resources, "_CGROUP", tmp_path)
        monkeypatch.setattr(resources, "_OWN_GROUPS", tmp_path / "own")

    return make


def v1(quota: int, place: str = "cpu") -> dict[str, str]:
    return {f"{place}/cpu.cfs_quota_us": str(quota), f"{place}/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("cores", "files", "own", "usable"),
    [
        (8, {}, "", 8),
        (8, {"cpu.max": "max 100000"}, "0::/\n", 8),
        (8, {"cpu.max": "400000 100000"}, "0::/\n", 4),
        (2, {"cpu.max": "400000 100000"}, "0::/\n", 2),
        (8, {"cpu.max": "250000 100000"}, "0::/\n", 2),
        (8, {"cpu.max": "50000 100000"}, "0::/\n", 1),
        (8, {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, "0::/a/b\n", 3),  # of a group above ours
        (8, {"a/cpu.max": "300000 100000"}, "0::/b\n", 8),  # of others
        (8, {"cpu.max": "500000 100000"}, "0::/docker/4f\n", 5),  # a container whose root is that group
        (8, v1(-1), "4:cpu,cpuacct:/\n", 8),
        (8, v1(350_000), "4:cpu,cpuacct:/\n", 3),
        (8, v1(350_000, "cpu,cpuacct"), "4:cpu,cpuacct:/\n", 3),
        (8, v1(-1, "cpu/job/step") | v1(600_000, "cpu/job"), "9:memory:/x\n4:cpu:/job/step\n", 6),
        (8, v1(200_000, "cpu/x"), "9:memory:/x\n4:cpu:/\n", 8),
        (8, {"cpu.max": "nonsense"}, "nonsense\n", 8),
    ],
)
def test_no_more_cores_than_affinity_and_quotas_leave_rounded_down_and_at_least_one(
    machine: Machine, cores: int, files: Mapping[str, str], own: str, usable: int
) -> None:
    machine(cores, files, own)
    assert usable_cores() == usable

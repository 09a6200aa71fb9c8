"""Ranks that are processes: an epoch is each sample once, also where one is out of memory, and can be gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ..bounded import PATIENCE

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux"),
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.usefixtures("quick_start"),
]

SCRIPT = """
import json, os, sys, time
import torch
import erasurehead.torch as eht

folder, fails = sys.argv[1:]
torch.set_num_threads(1)

def clock_of(rank):
    try:
        with open(f"{folder}/{fails} clock {rank}") as file:
            return float(file.read())
    except FileNotFoundError:
        return -1.0

def set_clock(now):  # whoever is ahead waits for the others: ranks have their pace on whatever machine
    clock = f"{folder}/{fails} clock {team.rank}"
    with open(clock + ".new", "w") as file:
        file.write(str(now))
    os.replace(clock + ".new", clock)
    until(lambda: all(clock_of(rank) >= now for rank in range(3)) or now == float("inf"))

def until(ready):
    end = time.monotonic() + 250
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.005)

team = eht.join()
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.01, 0.9), model)
data = torch.utils.data.TensorDataset(torch.randn(600, 6), torch.arange(600))
begun = team.load(f"{folder}/team") if fails == "resumed" else 0
now = 0
set_clock(now)
for epoch in range(begun, 2):
    had = open(f"{folder}/{fails} {epoch} {team.rank}", "w", buffering=1)
    for step, (x, number) in enumerate(team.batches(data, 30, epoch, num_workers=2 * (fails == "workers"))):
        if fails == "memory" and team.rank == 2 and epoch == 0 and step == 1:
            set_clock(float("inf"))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if fails == "stopped" and epoch == 1 and step == 5 and team.first:
            team.save(f"{folder}/team")
        optimizer.zero_grad()
        model(x).square().mean().backward()
        now += 3 if team.rank == 1 else 1
        set_clock(now)
        optimizer.step()
        had.write(json.dumps(number.tolist()) + "\\n")
        if fails == "memory" and epoch == 0 and step == 3:
            until(lambda: "2 ranks make steps" in repr(team))
set_clock(float("inf"))
"""


def run(folder: Path, fails: str) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", "3", str(script), str(folder), fails]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def had(folder: Path, fails: str, epoch: int) -> list[Counter[int]]:
    """Return how often each rank trained on each sample."""
    return [
        Counter(
            one for line in (folder / f"{fails} {epoch} {rank}").read_text().splitlines() for one in json.loads(line)
        )
        for rank in range(3)
    ]


def each_once_and_more_for_the_fast(folder: Path, fails: str) -> None:
    for epoch in range(2):
        ranks = had(folder, fails, epoch)
        assert sum(ranks, Counter()) == Counter(range(600))
        assert ranks[1].total() < ranks[0].total()


def test_each_sample_once_an_epoch_and_more_of_them_for_the_fast_where_others_read_them(tmp_path: Path) -> None:
    done = run(tmp_path, "workers")
    assert done.returncode == 0, done.stderr
    each_once_and_more_for_the_fast(tmp_path, "workers")


def test_a_rank_that_is_out_of_memory_says_so_and_its_samples_are_trained_on_by_others(tmp_path: Path) -> None:
    done = run(tmp_path, "memory")
    assert "CUDA out of memory" in done.stderr
    ranks = had(tmp_path, "memory", 0)
    assert sum(ranks, Counter()) == Counter(range(600))
    assert ranks[2].total() == 10
    last = [
        Counter(one for line in (tmp_path / f"memory 1 {rank}").read_text().splitlines() for one in json.loads(line))
        for rank in range(2)
    ]
    assert sum(last, Counter()) == Counter(range(600))


def test_a_team_goes_on_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    done = run(tmp_path, "stopped")
    assert done.returncode == 0, done.stderr
    each_once_and_more_for_the_fast(tmp_path, "stopped")
    done = run(tmp_path, "resumed")
    assert done.returncode == 0, done.stderr
    again = sum(had(tmp_path, "resumed", 1), Counter())
    assert max(again.values()) == 1
    assert 300 <= again.total() < 600
    before = sum(had(tmp_path, "stopped", 1), Counter())
    assert (again.keys() | before.keys()) == set(range(600))

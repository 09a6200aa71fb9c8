"""What the benchmark of networks takes for `DistributedDataParallel` is what that computes, and waits as that does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import erasurehead.torch as eht
from erasurehead.delays import Exponential, Fixed

from ..bounded import PATIENCE
from .small import X, Y, net, weights

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
N_RANKS, STEPS = 3, 8


@pytest.fixture(scope="module")
def races() -> Iterator[ModuleType]:
    """The benchmark's races, of fewer ranks."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import networks_races

        networks_races.RANKS, before = N_RANKS, networks_races.RANKS
        yield networks_races
        networks_races.RANKS = before
    finally:
        sys.path.remove(str(BENCHMARKS))


def task(races: ModuleType, batches: int = 10**6, every: int = 100) -> Any:
    return races.Task("small", net, X, Y, X, Y, 2.0, 0.0, batches * races.BATCH, (0.1,), (0.001,), every)


REAL = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn

folder, root = sys.argv[1:]
sys.path.insert(0, root)
from tests.torch.small import X, Y, net, weights

torch.set_num_threads(1)
rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_ranks)
for kind in ("momentum", "adamw"):
    model = nn.parallel.DistributedDataParallel(net(7))
    if kind == "momentum":
        optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for own in torch.load(f"{folder}/drawn")[rank]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[own]), Y[own]).backward()
        optimizer.step()
    if rank == 0:
        torch.save(weights(model), f"{folder}/{kind}")
dist.destroy_process_group()
"""
"""Ranks that train as a script does with `DistributedDataParallel`; the first one writes its weights."""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux")
def test_a_step_of_all_samples_is_a_step_of_ddp(
    races: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = task(races)
    monkeypatch.setattr(races.Task, "model", lambda self, seed: net(seed))
    drawn = [[small.samples(7, rank, step) for step in range(STEPS)] for rank in range(N_RANKS)]
    torch.save(drawn, tmp_path / "drawn")
    script = tmp_path / "train.py"
    script.write_text(REAL)
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", str(N_RANKS), str(script)]
    words = [*command, str(tmp_path), str(BENCHMARKS.parent)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    for kind in ("momentum", "adamw"):
        simulated = next(islice(races.ddp_steps(small, kind, 0.1, 7), STEPS - 1, None))
        found = torch.load(tmp_path / kind)
        assert not torch.allclose(found, weights(net(7)), atol=0.01)
        assert torch.allclose(weights(simulated), found, atol=1e-5)


def test_a_team_without_delays_makes_the_steps_of_ddp(races: ModuleType) -> None:
    small = task(races, STEPS * N_RANKS, N_RANKS)
    law = races.Law("no delays", 0.1, lambda seed: Fixed(((0.0,) * N_RANKS,)), (1.0,) * N_RANKS)
    team = races.ours(small, law, "momentum", 0.1, 7)
    together = races.ddp(small, "momentum", 0.1, 7).timed(races.waited(law, 7))
    assert team.seconds[-1] == pytest.approx(0.1 * STEPS)
    assert together.seconds[-1] == pytest.approx(0.1 * STEPS)
    assert team.loss[-1] == pytest.approx(together.loss[-1], abs=0.02)


def test_a_step_ends_with_its_last_rank(races: ModuleType) -> None:
    table = ((0.0, 0.3, 0.1), (0.2, 0.0, 0.0), (0.0, 0.0, 0.5), (0.0, 0.4, 0.0))
    law = races.Law("drawn", 1.0, lambda seed: Fixed(table), (1.0,) * N_RANKS)
    samples = [N_RANKS * races.BATCH * step for step in range(5)]
    assert [races.waited(law, 0)(each) for each in samples] == pytest.approx([0.0, 1.3, 2.5, 4.0, 5.4])
    assert [races.waited(law, 0, 2)(each) for each in samples] == pytest.approx([0.0, 0.0, 2.3, 2.3, 4.8])
    assert [races.waited(law, 0, 2, 1)(each) for each in samples] == pytest.approx([0.0, 1.3, 2.5, 2.5, 5.0])


def test_a_late_rank_s_gradient_is_lost_and_it_goes_on(races: ModuleType) -> None:
    small = task(races, 6, 2)
    table = tuple(map(tuple, np.array([[0.0, 0.0, 2.5]] * 40)))
    law = races.Law("one slow", 1.0, lambda seed: Fixed(table), (1.0,) * N_RANKS)
    run = races.first_of(small, law, "momentum", 0.1, 0, 2)
    assert run.seconds == pytest.approx([1.0, 2.0, 3.0])
    assert run.samples == [2 * races.BATCH, 4 * races.BATCH, 6 * races.BATCH]


@pytest.mark.slow
def test_what_it_is_to_reach_is_reached(
    races: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On digits that need no file, and under two of the laws."""
    import networks

    monkeypatch.setattr(races, "RANKS", 10)
    monkeypatch.setenv("ERASUREHEAD_DATA", str(tmp_path))
    networks.main(["--quick"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["benchmark"] == "networks quick"
    assert len(told["targets"]) == 8
    for key, target in told["targets"].items():
        assert networks.verdict(told["ratios"][key], target) == "met", key


@pytest.mark.slow
def test_the_demonstration_draws_its_picture(
    races: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import networks

    monkeypatch.setattr(races, "RANKS", 10)
    monkeypatch.setenv("ERASUREHEAD_DATA", str(tmp_path))
    networks.main(["--demo", str(tmp_path / "runs" / "demo")])
    lines = capsys.readouterr().out.splitlines()
    ours, ddp, _ = ([float(word) for word in line.split() if word.isdigit()] for line in lines if line.endswith(" s"))
    assert 1.8 * ours[0] <= ddp[0]
    assert 1.8 * ours[1] <= ddp[1]
    assert (tmp_path / "runs" / "demo" / "networks.png").stat().st_size > 20_000


def test_what_a_run_came_to_is_kept_and_a_race_ends_in_time(races: ModuleType, tmp_path: Path) -> None:
    import networks

    path = tmp_path / "networks.json"
    assert networks.Kept(path).of("one", lambda: (1.5, np.inf)) == (1.5, np.inf)
    again = networks.Kept(path, until=0.0)
    assert again.of("one", lambda: (0.0, 0.0)) == (1.5, np.inf)
    with pytest.raises(TimeoutError):
        again.of("another", lambda: (0.0, 0.0))
    assert networks.race({"dense": task(races)}, networks.CELLS, networks.SEEDS, again) == {}


@pytest.mark.parametrize("scheme", ["exact(load=2, code='cyclic')", "erasurehead(load=2, wait_for=1)", "first(2)"])
def test_a_race_of_a_code_is_what_a_team_does(races: ModuleType, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 6
    small = task(races, batches=N_RANKS * steps, every=N_RANKS)
    monkeypatch.setattr(races.Task, "model", lambda self, seed: net(seed))
    law = races.Law("", 0.1, lambda seed: Exponential(mean=0.2, seed=seed), (1.0, 2.0, 1.5))
    text = scheme if "load" in scheme else "ignore_stragglers(wait_for=2)"
    race = races.coded(small, law, "momentum", 0.1, 7, text)
    drawn = torch.cat([small.samples(7, rank, step) for step in range(steps) for rank in range(N_RANKS)])

    def main() -> float:
        team = eht.join()
        model = net(7)
        inner = torch.optim.SGD(model.parameters(), 0.1, 0.9)
        optimizer = team.optimizer(inner, model, every="gradient", scheme=scheme)
        for own in team.batches(drawn, batch_size=N_RANKS * races.BATCH, shuffle=False):
            optimizer.zero_grad()
            team.backward(nn.functional.cross_entropy(model(X[own]), Y[own], reduction="none"))
            optimizer.step()
        return small.measure(model, "loss")

    run = eht.simulate(
        main, N_RANKS, delays=law.delays(7), seconds_per_sample=[0.1 * slow / races.BATCH for slow in law.slow]
    )
    assert [version.seconds for version in run.versions] == pytest.approx(race.seconds)
    assert run.returned == pytest.approx([race.loss[-1]] * N_RANKS, abs=1e-5)

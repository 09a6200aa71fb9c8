"""Late ranks of real processes that train with PyTorch's `DistributedDataParallel`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from erasurehead import errors, torch as eht
from erasurehead.torch import LateRank, _ddp

from ..bounded import PATIENCE

RANKS = 4  # on a clock of their own


@pytest.mark.alone  # it measures time
def test_all_name_a_slow_rank_soon_with_its_stage_and_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    script = Path(__file__).with_name("ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["same"]
        assert found["inner"]
        assert found["same, pairs"]  # each pair of ranks averages a model of its own
        for run, stage in (("", ""), (", data", "data")):
            assert [2, stage] in found[f"late{run}"]
            assert found[f"named{run}"] <= 6  # 3, where nothing else keeps the machine busy
        assert found["twice"].startswith("PyTorch takes no communication hook for this model")
    assert "Rank 2 on " in done.stderr  # as a warning, of the first rank only


def test_a_module_that_is_not_wrapped_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match="DistributedDataParallel, but it is 'Linear'"):
        eht.measure(torch.nn.Linear(1, 1))


class Lockstep:
    """Four ranks of `DistributedDataParallel` in one thread, each with `StepTimes` of its own, on a clock of its own.

    It stands where the module has `torch.distributed` and `time`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.rank, self.exchanges, self.told = 0.0, 0, 0, list[LateRank]()
        self.posted: dict[int, torch.Tensor] = {}
        monkeypatch.setattr(_ddp, "dist", self)
        monkeypatch.setattr(_ddp, "time", SimpleNamespace(perf_counter=lambda: self.now))
        self.reduced: list[torch.futures.Future[torch.Tensor]] = []
        self.bucket: Any = SimpleNamespace(buffer=lambda: torch.zeros(1), is_last=lambda: True)
        self.times = [eht.StepTimes(inner=self.inner, tell=self.told.append) for _ in range(RANKS)]

    def step(self, seconds: np.ndarray) -> None:
        begin = self.now
        for rank in np.argsort(seconds).tolist():
            self.now, self.rank = begin + float(seconds[rank]), rank
            self.times[rank].reduce(self.bucket)
        for future in self.reduced:
            future.set_result(torch.zeros(1))
        self.reduced.clear()
        assert len(self.posted) in (0, RANKS)  # all exchange their times after the same steps

    def inner(self, state: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        self.reduced.append(torch.futures.Future())
        return self.reduced[-1]

    def get_rank(self, group: Any) -> int:
        return self.rank

    def get_process_group_ranks(self, group: Any) -> list[int]:
        return list(range(RANKS))

    def new_group(self, ranks: list[int], **_: Any) -> None:
        assert len(ranks) == RANKS

    def all_gather_object(self, hosts: list[Any], own: str, group: Any) -> None:
        hosts[:] = [own] * len(hosts)

    def all_gather(self, times: list[torch.Tensor], own: torch.Tensor, group: Any, async_op: bool) -> Any:
        if len(self.posted) == RANKS:
            self.posted = {}
        posted = self.posted
        posted[self.rank] = own
        self.exchanges += self.rank == 0

        def wait() -> None:
            for rank, one in enumerate(times):
                one.copy_(posted[rank])

        return SimpleNamespace(wait=wait)


def calm(rng: np.random.Generator, seconds: float = 0.1) -> np.ndarray:
    return seconds * np.maximum(1.0 + 0.05 * rng.standard_normal(RANKS), 0.5)


@pytest.mark.slow
def test_a_hundred_slow_ranks_of_a_hundred_are_named_within_three_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100):
        rng, ranks = np.random.default_rng(seed), Lockstep(monkeypatch)
        slow, since = int(rng.integers(RANKS)), 1 + int(rng.integers(60))
        for step in range(since + 3):
            seconds = calm(rng)
            seconds[slow] *= 2.0 if step >= since else 1.0
            ranks.step(seconds)
        assert [[late.rank for late in times.late] for times in ranks.times] == RANKS * [[slow]]
        assert [late.rank for late in ranks.told] == [slow]


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "apart"), [(0.1, 3), (0.02, 6)])
def test_nobody_is_named_in_a_thousand_calm_steps_and_little_is_done_for_it(
    seconds: float, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of functions are counted: at a microsecond each, they are less than a hundredth of a step."""
    rng, ranks, calls = np.random.default_rng(0), Lockstep(monkeypatch), 0
    ranks.step(calm(rng, seconds))

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for _ in range(1_000):
        own = calm(rng, seconds)
        sys.setprofile(count)
        try:
            ranks.step(own)
        finally:
            sys.setprofile(None)
    assert ranks.told == []
    assert ranks.times[0].steps >= 990
    assert ranks.exchanges <= 10 + 1_000 / apart
    assert 1e-6 * calls / RANKS / 1_000 <= 0.01 * seconds

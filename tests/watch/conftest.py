"""Run folders to look at: small, made on the virtual clock, and so the same on every machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, optimizers, problems, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.runs import Recorder, RunFolder
from erasurehead.training import train

Made = Callable[..., Path]


def trained(place: Path, workers: int = 12, steps: int = 30, facts: dict[str, Any] | None = None) -> Path:
    """Train into a folder, with a worker that dies, and return its path."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((200, 4))
    y = np.where(X @ rng.standard_normal(4) + rng.standard_normal(200) > 0, 1.0, -1.0)
    problem = problems.LogisticRegression(X[:150], y[:150], l2=1e-3, test=(X[150:], y[150:]))
    engine = VirtualEngine(delays.Exponential(mean=0.5, seed=0))
    engine.kill(3, at=1.0)
    optimizer = optimizers.GradientDescent(problem.initial(), rate=0.5)
    recorder = Recorder(RunFolder.create(place), {"engine": "virtual", **(facts or {})})
    train(problem, schemes.erasurehead(workers, 3, 4), optimizer, engine, steps, [recorder])
    return place


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests have copies of."""
    return trained(tmp_path_factory.mktemp("watched") / "run")


@pytest.fixture
def run_folder(trained_once: Path, tmp_path: Path) -> Path:
    """The folder of a run of 12 workers and 30 steps, of which worker 3 dies after one second."""
    return shutil.copytree(trained_once, tmp_path / "run")


@pytest.fixture
def team_record(tmp_path: Path) -> Path:
    """The record of a team of three ranks, of which the last one leaves, and another gathers then."""
    path = tmp_path / "versions.jsonl"
    versions = [
        (1, 0, 100.0, 0, {"0": 1, "1": 1, "2": 1}, [0, 1, 2]),
        (2, 0, 101.0, 0, {"0": 2, "1": 2, "2": 1}, [0, 1, 2]),
        (3, 1, 7.0, 1, {"0": 3, "1": 3, "2": 1}, [0, 1]),
        (4, 1, 9.5, 1, {"0": 3, "1": 4, "2": 1}, [0, 1]),
    ]
    names = ("version", "term", "seconds", "gathered_by", "steps", "members")
    path.write_text("".join(json.dumps(dict(zip(names, one, strict=True))) + "\n" for one in versions))
    return path

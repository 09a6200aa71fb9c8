"""Trackers made by hand, and runs to show in them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead import delays, optimizers, problems, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.runs import Experiment
from erasurehead.trackers import Tracker
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.training import Callback, Notice, Run, train


class Kept(Tracker):
    """Keeps what it is given; hooks of its own may fail or hang."""

    package = "kept"

    def __init__(self, patience: float = 30.0, files: bool = False) -> None:
        super().__init__(patience, files)
        self.runs: list[TrackedRun] = []
        self.known: list[str] = []
        self.entries: list[Point] = []
        self.ended: list[tuple[str, list[str]]] = []
        self.threads: set[threading.Thread] = set()

    def __str__(self) -> str:
        return "kept"

    def open(self, run: TrackedRun, known: str) -> str:
        self.runs.append(run)
        self.known.append(known)
        return known or f"number {len(self.runs)}"

    def write(self, points: Sequence[Point]) -> None:
        self.threads.add(threading.current_thread())
        self.entries += points

    def close(self, status: str, files: Sequence[Path]) -> None:
        self.ended.append((status, [path.name for path in files]))

    def steps(self, kind: str = "step") -> list[float]:
        return [entry.step for entry in self.entries if entry.kind == kind]


class Heard(Callback):
    """Keeps notices."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def texts(self) -> list[str]:
        return [notice.text for notice in self.notices if notice.kind == "untracked"]


def trained(*callbacks: Callback, steps: int = 8, kill: int | None = None) -> Run:
    """Train with six workers on the virtual clock."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    y = np.where(X @ rng.standard_normal(3) > 0, 1.0, -1.0)
    problem = problems.LogisticRegression(X[:48], y[:48], l2=1e-2, test=(X[48:], y[48:]))
    engine = VirtualEngine(delays.Exponential(mean=0.5, seed=0))
    if kill is not None:
        engine.kill(kill, at=0.2)
    optimizer = optimizers.GradientDescent(problem.initial(), rate=0.5)
    return train(problem, schemes.erasurehead(6, 3, 4), optimizer, engine, steps, callbacks)


def experiment(place: Path, **more: Any) -> Experiment:
    """Return an experiment that records into `place/run`, with more settings of `[run]`."""
    rng = np.random.default_rng(3)
    lines = ["size,rooms,price"]
    for _ in range(120):
        size, rooms = rng.uniform(30, 200), rng.integers(1, 7)
        lines.append(f"{size:.1f},{rooms},{2.5 * size + 10 * rooms + rng.normal():.2f}")
    source = place / "homes.csv"
    source.write_text("\n".join(lines) + "\n")
    run: dict[str, Any] = {"engine": "virtual", "workers": 6, "steps": 10, "out": str(place / "run"), "preset": "paper"}
    tables: dict[str, Any] = {
        "data": {"source": str(source)},
        "run": run,
        "delays": {"model": "exponential(mean=0.5, seed=1)"},
        "checkpoints": {"every_steps": 1, "behind": 0},
    }
    return Experiment.from_config({**tables, "run": {**run, **more}})


class Stop(Callback):
    """Ends a run after a step, as Ctrl-C does."""

    def __init__(self, after: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.after, self.error = after, error

    def on_state(self, step: int, state: object) -> None:
        if step == self.after:
            raise self.error("told to end")

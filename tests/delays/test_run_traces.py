"""Every run is a trace: fitting its own records gives back the delays that were injected."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, schemes, training
from erasurehead.delays import Trace, fit_trace
from erasurehead.errors import DataError


def record(folder: Path, late: str, steps: int = 150) -> Path:
    """Train on the virtual clock, and write what a run folder would hold."""
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((60, 2)), rng.standard_normal(60))
    engine = engines.VirtualEngine(delays.Exponential(0.5, seed=4), late)
    scheme = schemes.erasurehead(30, load=3, wait_for=11)
    optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
    arrivals: list[object] = []

    class Recorder(training.Callback):
        def on_arrival(self, row: object) -> None:
            arrivals.append(row)

    run = training.train(problem, scheme, optimizer, engine, steps, [Recorder()], evaluate_every=0)
    for name, rows in (("arrivals", arrivals), ("steps", run.steps)):
        text = "".join(json.dumps(row.as_dict()) + "\n" for row in rows)  # pyright: ignore
        (folder / f"{name}.jsonl").write_text(text)
    return folder / "arrivals.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_fit_of_a_run_finds_the_injected_delays(tmp_path: Path, late: str) -> None:
    path = record(tmp_path, late)
    with warnings.catch_warnings():
        if late == "carry":  # busy workers give no samples: steps lack them
            warnings.filterwarnings("ignore", ".*lack some workers", UserWarning)
        trace = Trace.read(path)
    assert trace.censored.any()
    found = fit_trace(trace, ["exponential"])[0]
    low, high = found.intervals["mean"]
    assert low < 0.5 < high
    assert high - low < 0.1
    assert (trace.load == 3.0).all()


def row(worker: int, order: int, seconds: float, started: float | None = 0.0, **more: object) -> str:
    common = {"step": order, "round": order, "worker": worker, "message": worker, "unit": 0, "work": 3.0}
    return (
        json.dumps({**common, "started": started, "seconds": seconds, "censored": False, "late": False, **more}) + "\n"
    )


def test_of_a_step_in_two_rounds_the_first_one_is_the_sample(tmp_path: Path) -> None:
    """Reports, and then a sum, whose work was done before."""
    rounds = [(0, 0, 1.0), (0, 1, 0.0), (1, 2, 1.0), (1, 3, 0.0)]
    lines = [
        row(worker, number, 0.5 + number + worker, step=step, work=work)
        for step, number, work in rounds
        for worker in range(2)
    ]
    (tmp_path / "arrivals.jsonl").write_text("".join(lines))
    trace = Trace.read(tmp_path / "arrivals.jsonl")
    assert trace.seconds.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert (trace.load == 1.0).all()


def test_who_is_busy_with_an_old_order_gives_no_sample_of_the_new_ones(tmp_path: Path) -> None:
    lines = [
        row(0, 0, 0.7, 0.2),
        row(0, 0, 0.9, 0.2, unit=1),
        row(1, 0, 0.8, None, censored=True),
        row(0, 1, 0.4),
        row(1, 1, 0.5, None, censored=True),
        row(1, 0, 1.9, 0.0, late=True),
        row(0, 2, 1.0),
        row(1, 2, 1.0, None, censored=True),
    ]
    path = tmp_path / "arrivals.jsonl"
    path.write_text("".join(lines))
    begins = [{"round": 0, "begin": 0.0}, {"round": 1, "begin": 0.8}, {"round": 2, "begin": 1.3}]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(item) + "\n" for item in begins))
    with pytest.warns(UserWarning, match="1 of 3 steps lack some workers"):
        trace = Trace.read(path)
    samples = {
        (int(step), int(worker)): (seconds, bool(censored))
        for step, worker, seconds, censored in zip(trace.step, trace.worker, trace.seconds, trace.censored, strict=True)
    }
    assert samples == {
        (0, 0): (0.7 - 0.2, False),
        (0, 1): (1.9, False),
        (1, 0): (0.4, False),
        (2, 0): (1.0, False),
        (2, 1): (pytest.approx(1.0 - (1.9 - 1.3)), True),
    }
    (tmp_path / "steps.jsonl").unlink()
    with pytest.warns(UserWarning, match="lack some workers"):
        assert len(Trace.read(path).seconds) == 4


def test_a_broken_record_says_where(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.jsonl"
    path.write_text(row(0, 0, 1.0) + '{"step": 0}\n')
    with pytest.raises(DataError, match="line 2, is not an arrival: it lacks censored, late"):
        Trace.read(path)
    path.write_text(row(0, 0, 1.0) + '{"st')
    with pytest.raises(DataError, match="line 2, is not JSON"):
        Trace.read(path)

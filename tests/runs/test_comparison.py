"""Comparisons: which target is chosen when none is named, and what texts are targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.signals import Terminated
from erasurehead.errors import InvalidArgument, Unreachable
from erasurehead.runs import Comparison
from erasurehead.runs._targets import common_target, parse_target
from erasurehead.schemes import Scheme
from erasurehead.training import Callback, Run
from erasurehead.training._result import Evaluation

values = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6)


def run(metric: str, seen: Sequence[float]) -> Run:
    evaluations = [Evaluation(step, float(step), {metric: value}) for step, value in enumerate(seen)]
    return Run("scheme", "virtual", np.zeros(1), evaluations=evaluations)


@given(st.sampled_from(["auc", "mse"]), st.floats(0.1, 0.9), st.lists(values, min_size=1, max_size=4))
def test_every_run_reaches_the_common_target_and_none_begins_there(
    metric: str, start: float, rest: list[list[float]]
) -> None:
    runs = [run(metric, [start, *seen]) for seen in rest]
    target = common_target(runs)
    if target is None:
        better = min if metric == "mse" else max
        assert any(better([start, *seen]) == start for seen in rest)
        return
    assert target[0] == metric
    for one in runs:
        reached = one.time_to(*target)
        # Four digits of the target may round away a gain that is smaller than they can show.
        assert reached is not None or abs(target[1] - start) < 2e-3


def test_the_target_is_most_of_the_way_that_the_slowest_came() -> None:
    runs = [run("auc", [0.5, 0.8, 0.9]), run("auc", [0.5, 0.6, 0.7])]
    assert common_target(runs) == ("auc", 0.69)
    assert common_target([run("mse", [1.0, 0.2])]) == ("mse", 0.24)


def test_the_published_metric_goes_before_others() -> None:
    evaluations = [Evaluation(0, 0.0, {"accuracy": 0.5, "auc": 0.5}), Evaluation(1, 1.0, {"accuracy": 0.9, "auc": 0.7})]
    runs = [Run("scheme", "virtual", np.zeros(1), evaluations=evaluations)]
    assert common_target(runs, "auc") == ("auc", 0.69)
    assert common_target(runs, "mse") == ("accuracy", 0.88)


def test_there_is_no_target_without_progress_or_evaluations() -> None:
    assert common_target([run("auc", [0.5, 0.4])]) is None
    assert common_target([run("auc", [0.5, 0.6]), run("auc", [])]) is None


def test_a_target_is_a_metric_and_a_value() -> None:
    assert parse_target(" mse = 5e-2") == ("mse", 0.05)
    for wrong in ("auc", "auc=", "=0.8", "auc=high", "auc=nan"):
        with pytest.raises(InvalidArgument, match="target must be a metric and a value"):
            parse_target(wrong)


def small(folder: Path) -> Comparison:
    """The paper's schemes, uncoded and exact before ErasureHead, on a few rows."""
    rng = np.random.default_rng(0)
    np.save(folder / "data.npy", np.column_stack([rng.standard_normal((60, 3)), rng.integers(0, 2, 60)]))
    tables = {
        "data": {"source": str(folder / "data.npy")},
        "run": {"engine": "virtual", "workers": 6, "steps": 6, "out": str(folder / "out")},
    }
    return Comparison.from_config(tables)


class _Press(Callback):
    """Presses Ctrl-C in a step of a scheme, or lets something else happen there."""

    def __init__(self, step: int, scheme: str = "exact", event: BaseException | None = None) -> None:
        self.scheme_of_press = scheme
        self.event = event or KeyboardInterrupt()
        self.step_of_press = step
        self.scheme = ""

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self.scheme = scheme.name

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self.scheme == self.scheme_of_press and step == self.step_of_press:
            raise self.event


@pytest.mark.slow
@pytest.mark.parametrize(("step", "formats"), [(0, ("svg",)), (3, ())])
def test_a_scheme_that_fails_keeps_none_of_the_others_from_running(
    tmp_path: Path, step: int, formats: tuple[str, ...]
) -> None:
    comparison = small(tmp_path)
    trained = comparison.run([_Press(step, "uncoded", Unreachable("Too many workers have died."))])
    runs = trained.runs
    assert [(run.scheme, len(run.steps), run.stopped) for run in runs] == [
        ("uncoded", step, "Too many workers have died."),
        ("exact", 6, ""),
        ("erasurehead", 6, ""),
    ]
    outcome = trained.report(formats)
    assert outcome.failures == ("uncoded: Too many workers have died.",)
    assert not outcome.interrupted
    assert [row.stopped for row in outcome.compared.rows] == ["Too many workers have died.", "", ""]
    assert [path.name for path in outcome.folders] == ["uncoded", "exact", "erasurehead"]
    assert bool(outcome.figures) == bool(formats)
    assert outcome.compared.rows[0].basis.target == common_target(runs[1:])


def test_a_signal_before_anything_was_measured_is_not_blamed_on_the_target(tmp_path: Path) -> None:
    comparison = replace(small(tmp_path), target=("auc", 0.8))
    trained = comparison.run([_Press(3, "uncoded", Terminated())])
    assert not trained.runs[0].evaluations
    outcome = trained.report(())
    assert outcome.interrupted
    assert [row.stopped for row in outcome.compared.rows] == ["stopped by SIGTERM"]
    assert outcome.compared.rows[0].basis.target is None


@pytest.mark.slow
@pytest.mark.parametrize(("step", "formats"), [(0, ("svg",)), (3, ())])
def test_after_ctrl_c_the_runs_so_far_are_compared(tmp_path: Path, step: int, formats: tuple[str, ...]) -> None:
    comparison = small(tmp_path)
    trained = comparison.run([_Press(step)])
    runs = trained.runs
    assert [run.scheme for run in runs] == ["uncoded", "exact"]
    assert (runs[1].stopped, len(runs[1].steps)) == ("stopped by Ctrl-C", step)
    outcome = trained.report(formats)
    assert [row.stopped for row in outcome.compared.rows] == ["", "stopped by Ctrl-C"]
    assert (outcome.failures, outcome.interrupted) == ((), True)
    assert outcome.folders == (tmp_path / "out" / "uncoded", tmp_path / "out" / "exact")
    assert outcome.as_dict()["schemes"][0]["seconds_per_step"] == pytest.approx(runs[0].seconds_per_step)
    assert [path.suffix for path in outcome.figures] == [".svg"] * len(outcome.figures)
    assert bool(outcome.figures) == bool(formats)


def test_the_depth_of_each_run_is_told_from_the_exact_objective(tmp_path: Path) -> None:
    comparison = small(tmp_path)
    trained = comparison.run()
    runs = trained.runs
    problem, first = comparison.experiments[0].problem, comparison.experiments[0].first_model()
    beside = trained.alone(60.0)
    assert beside[0].converged
    assert beside[0].objective is not None
    outcome = trained.report((), beside)
    least = min([problem.objective(run.x) for run in runs] + [one.objective for one in beside if one.objective])
    for run, fell in zip(runs, outcome.descents, strict=True):
        assert fell.times.tolist() == [item.time for item in run.evaluations]
        assert fell.gaps[0] == 1.0
        gap = (problem.objective(run.x) - least) / (problem.objective(first) - least)
        assert fell.gaps[-1] == pytest.approx(gap, abs=1e-12)
    told = outcome.as_dict()["seconds_to_gap"]
    assert list(told) == ["uncoded", "exact", "erasurehead"]
    assert list(told["exact"]) == ["0.1", "0.01", "0.001", "1e-06"]
    page = (tmp_path / "out" / "comparison.md").read_text()
    assert "Time to each gap of the objective, (f(x) - f*)" in page
    deepest = min(gap for gap in (0.1, 0.01, 0.001, 1e-6) if any(one.seconds_to(gap) for one in outcome.descents))
    seconds, scheme = min((one.seconds_to(deepest) or np.inf, one.scheme) for one in outcome.descents)
    span = problem.objective(first) - least
    passes = next(n for n, value in enumerate(beside[0].objectives, 1) if value - least <= deepest * span)
    assert outcome.pays in page
    assert outcome.pays.startswith(
        f"To a gap of {deepest:g} one machine takes {passes} gradients of all data, and {scheme}"
    )
    assert f"where a pass takes one machine more than about {seconds / passes:.2g} s" in outcome.pays
    assert trained.report((), ()).pays == ""


def test_distributing_never_pays_where_every_worker_computes_all_of_the_data(tmp_path: Path) -> None:
    """One worker alone was said to be quicker than one machine from some time of a pass on."""
    small(tmp_path)
    tables = {
        "data": {"source": str(tmp_path / "data.npy")},
        "run": {"engine": "virtual", "workers": 3, "steps": 6, "out": str(tmp_path / "all")},
    }
    trained = Comparison.from_config(tables, ("exact(load=3)",)).run()
    assert trained.report((), trained.alone(60.0)).pays == ""
    tables["run"]["out"] = str(tmp_path / "some")
    trained = Comparison.from_config(tables, ("exact(load=3)", "uncoded()")).run()
    assert " of all data, and uncoded " in trained.report((), trained.alone(60.0)).pays


def test_gaps_are_not_told_from_the_best_of_the_runs(tmp_path: Path) -> None:
    """Six steps from the first model, the best of the runs was said to be at the minimum: a gap of 0."""
    trained = small(tmp_path).run()
    assert all(run.ended != "converged" for run in trained.runs)
    assert trained.report(()).as_dict()["seconds_to_gap"] == {}
    beside = trained.alone(60.0)
    given_up = [replace(one, converged=False) for one in beside]
    assert trained.report((), given_up).descents == ()
    assert min(float(fell.gaps[-1]) for fell in trained.report((), beside).descents) > 1e-4


def test_asynchronous_training_is_raced_with_others(tmp_path: Path) -> None:
    schemes = ("uncoded()", "asynchronous()")
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", np.column_stack([rng.standard_normal((60, 3)), rng.integers(0, 2, 60)]))
    tables = {
        "data": {"source": str(tmp_path / "data.npy")},
        "delays": {"late": "carry"},
        "optimizer": {"name": "gradient_descent"},
        "run": {"engine": "virtual", "workers": 6, "steps": 60, "max_seconds": 4.0, "out": str(tmp_path / "out")},
    }
    comparison = Comparison.from_config(tables, schemes)
    trained = comparison.run()
    runs = trained.runs
    assert [(run.scheme, run.ended) for run in runs] == [("uncoded", "max_seconds"), ("asynchronous", "max_seconds")]
    assert len(runs[1].steps) > 3 * len(runs[0].steps)
    assert any(row.late for row in runs[1].arrivals)
    tables["delays"] = {"late": "preempt"}
    with pytest.raises(InvalidArgument, match="late must be 'carry'"):
        Comparison.from_config({**tables, "run": {**tables["run"], "out": None}}, schemes)


@pytest.mark.parametrize(
    ("schemes", "compared"),
    [
        ((), ["uncoded()", "uncoded(speeds=[1, 2, 4])"]),
        (("adaptive", "exact(load=2)"), ["adaptive", "exact(load=2, speeds=[1, 2, 4])"]),
        (("uncoded", "uncoded(speeds=[1, 1, 1])"), ["uncoded(speeds=[1, 2, 4])", "uncoded(speeds=[1, 1, 1])"]),
    ],
)
def test_speeds_are_for_the_schemes_that_can_go_by_them(
    tmp_path: Path, schemes: tuple[str, ...], compared: list[str]
) -> None:
    data = {"source": "amazon", "synthetic": "always", "rows": 600}
    tables = {"data": data, "run": {"speeds": "1,2,4", "engine": "virtual", "out": str(tmp_path / "out")}}
    comparison = Comparison.from_config(tables, schemes)
    chosen = comparison.experiments[: len(compared)]
    assert [experiment.config.scheme for experiment in chosen] == compared
    assert all(
        ("speeds" in text) == ("speeds" in repr(one.scheme.code)) for text, one in zip(compared, chosen, strict=True)
    )
    with pytest.raises(InvalidArgument, match=r"run\.speeds must be for the scheme uncoded or exact"):
        Comparison.from_config(tables, ["adaptive"])

"""An experiment is what its configuration says: defaults, checks before anything starts, and a run on record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import optimizers, schemes
from erasurehead.datasets import shard
from erasurehead.engines import Program, VirtualEngine
from erasurehead.engines._base import NoRoom
from erasurehead.errors import DataError, Diverged, InvalidArgument
from erasurehead.runs import Experiment, RunFolder
from erasurehead.runs._config import merged
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, StepRow, train

SYNTHETIC = {"data": {"source": "amazon", "synthetic": "always", "rows": 500}, "run": {"engine": "virtual", "steps": 4}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def homes(n_rows: int = 120) -> str:
    """Write a file of houses and prices, and return its name."""
    rng = np.random.default_rng(3)
    lines = ["size,rooms,price"]
    for _ in range(n_rows):
        size, rooms = rng.uniform(30, 200), rng.integers(1, 7)
        lines.append(f"{size:.1f},{rooms},{2.5 * size + 10 * rooms + rng.normal():.2f}")
    Path("homes.csv").write_text("\n".join(lines) + "\n")
    return "homes.csv"


def experiment(*tables: dict[str, Any]) -> Experiment:
    whole: dict[str, Any] = {}
    for table in tables:
        whole = merged(whole, table)
    return Experiment.from_config(whole)


def own(**run: Any) -> dict[str, Any]:
    return {"data": {"source": homes()}, "run": {"engine": "virtual", "workers": 6, "steps": 4, **run}}


PAPER = {"run": {"preset": "paper"}}
DELAYED = {"delays": {"model": "exponential(1)"}}


def test_the_paper_s_settings_have_a_name() -> None:
    amazon = experiment(SYNTHETIC, PAPER)
    assert amazon.config.scheme == "erasurehead(load=3, wait_for=11)"
    assert amazon.config.problem.loss == "logistic"
    assert amazon.config.problem.l2 == pytest.approx(1 / amazon.data.n_train)
    assert amazon.config.optimizer.rate == 10.0
    assert amazon.config.delays.model == "exponential(mean=0.5, seed=0)"
    assert isinstance(amazon.optimizer(), optimizers.Nesterov)
    houses = experiment(SYNTHETIC, PAPER, {"data": {"source": "kc_housing"}})
    assert houses.config.problem.loss == "least_squares"
    assert houses.config.optimizer.rate == "geometric(0.1, 0.99)"
    assert repr(houses.optimizer().schedule) == "Geometric(rate=0.1, factor=0.99)"


@pytest.mark.parametrize("data", ["amazon", "kc_housing", "own"])
def test_nothing_need_be_set(data: str) -> None:
    table = own() if data == "own" else merged(SYNTHETIC, {"data": {"source": data}})
    table["run"].pop("steps", None)
    mine = experiment(table)
    assert mine.config.scheme == ("adaptive(load=1)" if data == "own" else "adaptive()")
    assert mine.config.optimizer.model_dump(exclude_none=True) == {"name": "quasi_newton"}
    assert isinstance(mine.optimizer(), optimizers.QuasiNewton)
    assert mine.config.run.steps == 5000


@pytest.mark.slow
def test_a_run_of_many_short_steps_ends_by_itself(data_folder: Path) -> None:
    """Where late work is dropped and takes its time, most steps are from few arrivals each; on houses hundreds."""
    table = {
        "data": {"source": "kc_housing", "path": str(data_folder)},
        "run": {"engine": "virtual", "evaluate_every": 0},
    }
    law = "exponential(0.5, seed=304, scale_with_load=True)"
    run = experiment(table, {"delays": {"model": law, "late": "preempt"}}).run()
    assert run.ended == "converged"
    assert len(run.steps) > 500  # five times as many as optimizers take that do not end by themselves


@pytest.mark.parametrize(
    ("table", "scheme", "name"),
    [
        ({"optimizer": {"rate": 0.1}}, "uncoded()", "nesterov"),
        ({"optimizer": {"restart": True}}, "uncoded()", "nesterov"),
        ({"optimizer": {"name": "heavy_ball", "momentum": 0.5}}, "uncoded()", "heavy_ball"),
        ({**DELAYED, "optimizer": {"rate": 0.1}}, "erasurehead(load=3, wait_for=2)", "nesterov"),
        ({"scheme": "exact(load=2)"}, "exact(load=2)", "nesterov"),
        ({"scheme": "piag(load=2)"}, "piag(load=2)", "gradient_descent"),
        ({"scheme": "exact(load=2)", "optimizer": {"name": "quasi_newton"}}, "exact(load=2)", "quasi_newton"),
        ({"scheme": "adaptive(load=2)"}, "adaptive(load=2)", "quasi_newton"),
        ({"scheme": "adaptive", "optimizer": {"rate": 0.1}}, "adaptive", "nesterov"),
        ({"problem": {"l1": 0.1}}, "adaptive(load=1)", "quasi_newton"),
        (DELAYED, "adaptive()", "quasi_newton"),
        (PAPER, "erasurehead(load=3, wait_for=2)", "nesterov"),
        ({**PAPER, "scheme": "exact(load=2)"}, "exact(load=2)", "nesterov"),
        ({**PAPER, "optimizer": {"name": "quasi_newton"}}, "erasurehead(load=3, wait_for=2)", "quasi_newton"),
    ],
)
def test_what_is_left_open_goes_with_what_is_said(table: dict[str, Any], scheme: str, name: str) -> None:
    mine = experiment(own(), table)
    assert (mine.config.scheme, mine.config.optimizer.name) == (scheme, name)
    assert (mine.config.optimizer.rate is None) == (name == "quasi_newton")
    assert mine.run().steps


def test_a_rate_is_none_of_an_optimizer_that_finds_its_steps() -> None:
    with pytest.raises(InvalidArgument, match="must be left out for quasi_newton"):
        experiment(own(), {"optimizer": {"name": "quasi_newton", "rate": 0.1}})
    stale = {"scheme": "asynchronous", "delays": {"late": "carry"}, "optimizer": {"name": "quasi_newton"}}
    waits = (
        r"scheme must be one that waits for whole gradients with QuasiNewton, .*'asynchronous'; take schemes.adaptive"
    )
    with pytest.raises(InvalidArgument, match=waits):
        experiment(own(), stale)
    exact = experiment(own(), {**stale, "scheme": "uncoded"})
    with pytest.raises(InvalidArgument, match=waits):
        exact.with_scheme("asynchronous", None)


def test_steps_and_optimizer_go_with_each_scheme_of_a_comparison() -> None:
    table = own()
    del table["run"]["steps"]
    first = experiment(table, {"scheme": "uncoded"})
    second = first.with_scheme("adaptive", None)
    third = second.with_scheme("exact(load=2)", None)
    settings = [(one.config.optimizer.name, one.config.run.steps) for one in (first, second, third)]
    assert settings == [("nesterov", 100), ("quasi_newton", 5000), ("nesterov", 100)]
    assert third.config.optimizer == first.config.optimizer
    assert experiment(own(), {"scheme": "uncoded"}).with_scheme("adaptive", None).config.run.steps == 4
    paper = experiment(own(), PAPER, {"scheme": "uncoded"})
    assert paper.with_scheme("adaptive", None).config.optimizer.name == "nesterov"


def test_data_of_ones_own_have_no_delays_and_a_step_size_that_converges() -> None:
    mine = experiment(own(steps=300), {"problem": {"l2": 0}, "optimizer": {"name": "gradient_descent"}})
    assert mine.config.delays.model == "none()"
    run = mine.run()
    assert (np.diff(run.losses) <= 1e-12).all()
    assert run.evaluations[-1].metrics["r2"] > 0.9


def test_the_default_step_size_is_one_over_the_curvature() -> None:
    mine = experiment(own(), {"problem": {"l2": 0.5}, "optimizer": {"name": "nesterov"}})
    X = np.asarray(mine.data.X_train)
    curvature = 2 * np.linalg.eigvalsh(X.T @ X / len(X)).max() + 2 * 0.5
    assert isinstance(mine.config.optimizer.rate, float)
    assert 0.85 < mine.config.optimizer.rate * curvature <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "lag"),
    [
        ("ringleader", 22),
        ("asynchronous(rescaled=True)", 22),
        ("asynchronous(adaptive=False)", 22),
        ("ringmaster(threshold=30)", 22),
        ("ringmaster(threshold=4)", 3),
        ("piag(adaptive=False)", 24),
        ("asynchronous", 0),
        ("piag", 0),
        ("uncoded", 0),
    ],
)
def test_the_default_step_size_converges_also_with_old_gradients(scheme: str, lag: int) -> None:
    old = {"scheme": scheme, "delays": {"late": "carry", "model": "exponential(1)"}, "problem": {"l2": 0.01}}
    mine = experiment(own(workers=12, steps=400), old)
    whole = mine.with_scheme("uncoded", None).config.optimizer.rate
    assert mine.config.optimizer.rate == pytest.approx(float(whole or 0) / (1 + lag), rel=0.01)
    if lag:
        assert mine.run().evaluations[-1].metrics["r2"] > 0.9


@pytest.mark.slow
def test_a_step_size_that_diverges_with_old_gradients_is_told_of_with_one_that_does_not() -> None:
    old = {"scheme": "ringleader", "delays": {"late": "carry", "model": "exponential(1)"}}
    default = experiment(own(workers=12, steps=400), old).config.optimizer.rate
    far = experiment(own(workers=12, steps=400, out="far"), old, {"optimizer": {"rate": 0.5}})
    with pytest.raises(Diverged, match=rf"The step size was 0.5; --rate {default:.2g} is small enough"):
        far.run()


def test_the_configuration_on_record_is_complete() -> None:
    mine = experiment(own(out="x", initial="randn"))
    mine.run()
    tables = RunFolder.open("x").tables
    assert tables["scheme"] == "adaptive(load=1)"
    assert set(tables["problem"]) == {"loss", "l2", "l1"}
    assert tables["optimizer"] == {"name": "quasi_newton"}
    assert "out" not in tables["run"]
    again = Experiment.from_config(tables)
    assert again.run().x.tobytes() == RunFolder.open("x").x.tobytes()


def test_the_first_model_is_zeros_or_drawn_from_the_seed() -> None:
    assert not experiment(own()).first_model().any()
    first, same = (experiment(own(initial="randn", seed=4)).first_model() for _ in range(2))
    other = experiment(own(initial="randn", seed=5)).first_model()
    assert first.tolist() == same.tolist() != other.tolist()


def test_another_scheme_shares_everything_else() -> None:
    first = experiment(own(out="x"))
    second = first.with_scheme("exact(load=2)", "y", name="mine")
    assert second.problem is first.problem
    assert second.delays is first.delays
    assert (second.scheme.name, second.config.scheme, second.out) == ("mine", "exact(load=2)", Path("y"))
    assert first.config.scheme == "adaptive(load=1)"
    assert (first.config.optimizer.name, second.config.optimizer.name) == ("quasi_newton", "nesterov")


def test_new_runs_get_new_folders() -> None:
    for number in (1, 2):
        mine = experiment(own())
        mine.run()
        assert mine.out == Path(f"runs/homes-adaptive-{number}")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"scheme": "exact(load=7)"}, "load must be at most the number of tasks, 6"),
        ({"delays": {"model": "never"}}, "delays must use known names"),
        ({"delays": {"model": "late([0, 1, 2])"}, "scheme": "exact(load=2)"}, r"workers \[0, 1, 2\] never answer"),
        ({"optimizer": {"rate": "warp"}}, "rate must use known names"),
        ({"optimizer": {"momentum": 0.5}}, "optimizer.momentum is for heavy_ball only, got 0.5"),
        ({"data": {"path": "x"}}, "data.path is for the data sets amazon"),
        ({"data": {"source": "amazon", "target": "x"}}, "data.target is for files of your own, not for 'amazon'"),
        ({"data": {"source": "amazon", "rows": 9}}, "data.rows is for synthetic data only"),
        ({"run": {"out": "/proc/x"}}, "cannot be written to"),
    ],
)
def test_settings_are_checked_before_the_data_are_read(tables: dict[str, Any], said: str) -> None:
    nowhere = {"data": {"source": "nowhere.csv"}, "run": {"engine": "virtual", "workers": 6, "out": "x"}}
    with pytest.raises(InvalidArgument, match=said):
        experiment(nowhere, tables)
    assert not Path("x").exists()


def test_a_worker_that_is_stuck_under_carry_is_stuck_for_good() -> None:
    tables = {"scheme": "ignore_stragglers(wait_for=6)", "delays": {"late": "carry"}}
    table = "fixed([[0, 0, 0, 0, 0, 0], [inf, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])"
    with pytest.raises(InvalidArgument, match=r"workers \[0\] never answer \(step 1\)"):
        experiment(own(), tables, {"delays": {"model": table}})
    mild = {"scheme": "custom('uncoded', 'first(5)')", "delays": {"late": "carry", "model": table}}
    assert len(experiment(own(), mild).run().steps) == 4


class _Fail(Callback):
    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        raise OSError(28, "No space left on device")


def test_what_ends_a_run_from_outside_is_on_record() -> None:
    mine = experiment(own(out="x"))
    with pytest.raises(OSError, match="No space left"):
        mine.run([_Fail()])
    summary = RunFolder.open("x").summary
    assert summary["status"] == "failed"
    assert "No space left on device" in summary["reason"]
    assert RunFolder.open("x").x.shape == (mine.problem.n_parameters,)


class _NoWorkers(VirtualEngine):
    """Has no room for any worker."""

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        raise NoRoom("there is no room")


class _Refuses(Callback):
    """Objects to a run before it begins."""

    def on_start(self, seconds: float) -> None:
        raise InvalidArgument("this", "must not be", 1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_that_ends_by_an_error_before_its_first_step_leaves_nothing_behind(here: Path, overwrite: bool) -> None:
    mine = experiment(own(out="deep/er/x", overwrite=overwrite))
    with pytest.raises(NoRoom, match="no room"):
        mine.run(engine=_NoWorkers())
    with pytest.raises(InvalidArgument, match="this must not be"):
        mine.run([_Refuses()])
    assert [path.name for path in here.iterdir()] == ["homes.csv"]
    (here / "mine").mkdir()
    with pytest.raises(NoRoom, match="no room"):
        experiment(own(out="mine")).run(engine=_NoWorkers())
    assert list((here / "mine").iterdir()) == []  # which is the user's


def test_what_is_refused_does_not_remove_the_run_that_it_would_have_replaced(here: Path) -> None:
    experiment(own(out="x")).run()
    before = {path.name: path.read_bytes() for path in (here / "x").iterdir() if path.is_file()}
    lossy = {"scheme": "erasurehead(load=3, wait_for=3)", "faults": {"verify": True}}
    again = experiment(own(out="x", overwrite=True, wire="dithered(2)"), lossy)
    with pytest.raises(InvalidArgument, match="wire must lose less precision"):
        again.run()
    assert {path.name: path.read_bytes() for path in (here / "x").iterdir() if path.is_file()} == before


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("engine", ["virtual", "processes"])
@pytest.mark.parametrize(
    ("name", "act", "said"),
    [
        ("test.safetensors", Path.unlink, "test.safetensors is missing; copy it again"),
        ("test.safetensors", _cut, "test.safetensors holds .* bytes instead of"),
        ("test.safetensors", _damage, "test.safetensors is damaged: its SHA-256"),
        ("task-00002.safetensors", Path.unlink, "task-00002.safetensors is missing; copy it again"),
        ("task-00002.safetensors", _cut, "task-00002.safetensors holds .* bytes instead of"),
    ],
)
def test_files_that_training_reads_or_its_evaluation_are_looked_at_before_it_begins(
    here: Path, engine: str, name: str, act: Callable[[Path], object], said: str
) -> None:
    shard(homes(), 6, "shards")
    act(here / "shards" / name)
    tables = {"data": {"source": "shards"}, "run": {"engine": engine, "workers": 6, "steps": 3, "out": "x"}}
    with pytest.raises(DataError, match=said):
        experiment(tables).run()
    assert not (here / "x").exists()


def test_a_metric_that_cannot_be_computed_is_told_before_workers_are_started(here: Path) -> None:
    class Unmeasured(Quadratic):
        def metrics(self, x: np.ndarray) -> dict[str, float]:
            raise DataError("there is nothing to measure on")

    problem = Unmeasured.random(24, 6, seed=4)
    with pytest.raises(DataError, match="nothing to measure on"):
        train(problem, schemes.uncoded(6), optimizers.Nesterov(problem.initial(), 0.1), _NoWorkers(), 3)

"""`erasurehead delays`: fits, summaries and conversions, of files of others and of runs; and bad input, as typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Trace

from .shop import Typed


@pytest.fixture
def latencies(tmp_path: Path) -> Path:
    """60 steps of 8 workers with exponential delays of 0.5 s, worker 5 three times as slow."""
    rows = delays.Exponential(0.5, seed=3).rows(0, 60, 8)
    rows[:, 5] *= 3.0
    path = tmp_path / "latencies.csv"
    Trace.from_table(rows).write(path)
    return path


class TestFit:
    @pytest.mark.slow
    def test_families_are_ranked_with_intervals_gaps_and_slow_workers(self, typed: Typed, latencies: Path) -> None:
        done = typed("delays", "fit", latencies, "--json", "--no-figures")
        assert done.code == 0
        found = done.json
        aics = [item["aic"] for item in found["fits"]]
        assert aics == sorted(aics)
        assert [item["aic_above_best"] for item in found["fits"]] == [aic - aics[0] for aic in aics]
        direct = delays.fit_trace(Trace.read(latencies))
        assert [item["family"] for item in found["fits"]] == [item.family for item in direct]
        exponential = next(item for item in found["fits"] if item["family"] == "exponential")
        low, high = exponential["intervals"]["mean"]
        assert low < exponential["parameters"]["mean"] < high
        assert 0.0 < exponential["gap"] < 1.0
        assert [item["name"] for item in found["slow_workers"]] == ["5"]
        assert found["files"] == []

    @pytest.mark.slow
    def test_it_is_printed_and_drawn(self, typed: Typed, latencies: Path) -> None:
        done = typed("delays", "fit", latencies, "--family", "weibull", "--family", "exponential")
        assert done.code == 0
        assert "480 delays of 8 workers in 60 steps" in done.out
        assert "scale 0." in done.out
        assert "Persistently slow, by median over that of the others: worker 5 (" in done.out
        assert "lognormal" not in done.out
        for name in ("fits.png", "fits.svg"):
            assert (Path("runs/fit-1") / name).stat().st_size > 10_000
        drawing = Path("runs/fit-1/fits.svg").read_text()
        assert "mathdefault" not in drawing  # formulas are not parsed, so that there must be none

    def test_a_worker_is_fitted_alone_where_its_rows_are_selected(self, typed: Typed, latencies: Path) -> None:
        options = ("--family", "exponential", "--no-figures", "--json")
        means = [
            typed("delays", "fit", latencies, "--where", f"worker={worker}", *options).json["fits"][0]["parameters"]
            for worker in (4, 5)
        ]
        assert means[1]["mean"] > means[0]["mean"]

    def test_a_file_of_others_needs_only_its_columns_and_unit(self, typed: Typed) -> None:
        rows = delays.Exponential(400.0, seed=0).rows(0, 50, 4)
        lines = ["region,round,host,latency_ms"]
        for region, factor in (("Tokyo", 1.0), ("Oslo", 2.0)):
            lines += [f"{region},{step},{host},{factor * rows[step, host]}" for step, host in np.ndindex(50, 4)]
        Path("theirs.csv").write_text("\n".join(lines))
        mapping = ("--column", "step=round", "--column", "worker=host", "--column", "seconds=latency_ms")
        done = typed(
            "delays",
            "fit",
            "theirs.csv",
            *mapping,
            "--unit",
            "ms",
            "--where",
            "region=Oslo",
            "--family",
            "exponential",
            "--no-figures",
            "--json",
        )
        (found,) = done.json["fits"]
        assert found["n"] == 200
        assert found["parameters"]["mean"] == pytest.approx(2.0 * rows.mean() / 1000.0)

    @pytest.mark.slow
    def test_a_run_is_a_trace_whose_censored_delays_count(self, typed: Typed, shop: Path) -> None:
        options = ("--data", shop, "--categorical", "--engine", "virtual", "-w", 12, "--steps", 150)
        done = typed("train", *options, "--delays", "exponential(mean=0.5)", "--rate", 0.01, "--out", "r")
        assert done.code == 0
        found = typed("delays", "fit", "r", "--family", "exponential", "--no-figures", "--json").json
        assert found["trace"]["censored"] > 900  # four of twelve are waited for
        low, high = found["fits"][0]["intervals"]["mean"]
        assert low < 0.5 < high
        assert typed("delays", "fit", "r/arrivals.jsonl", "--no-figures", "--json").code == 0


class TestShow:
    def test_a_trace(self, typed: Typed, latencies: Path) -> None:
        found = typed("delays", "show", latencies, "--json").json
        table = Trace.read(latencies).table()
        assert (found["workers"], found["steps"], found["censored"]) == (8, 60, 0)
        assert found["mean"] == pytest.approx(table.mean())
        assert found["quantiles"]["1"] == table.max()
        assert found["longest_over_median"]["max"] > found["longest_over_median"]["median"] > 1.0
        shown = typed("delays", "show", latencies).out
        assert "longest over median, worst step" in shown
        assert "worker 5 (" in shown

    def test_a_model(self, typed: Typed) -> None:
        found = typed("delays", "show", "exponential(mean=0.5)", "-w", 5, "-n", 4000, "--json").json
        assert found["model"] == "exponential(mean=0.5, seed=0)"
        assert found["mean"] == pytest.approx(0.5, rel=0.03)

    def test_an_infinite_mean_is_allowed_and_said(self, typed: Typed) -> None:
        done = typed("delays", "show", "pareto(0.1, 0.9)")
        assert done.code == 0
        assert "has an infinite mean" in done.err

    def test_who_never_answers_never_does(self, typed: Typed) -> None:
        done = typed("delays", "show", "exponential(mean=0.5) + late([0, 1])", "-w", 4)
        assert "never" in done.out
        assert "worker 0 (" in done.out


def csv(*rows: str) -> str:
    return "\n".join(["worker,step,seconds", *rows]) + "\n"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (csv("0,0,1", "0,1,-2"), (), "line 3: seconds must be a finite number of at least 0, but it is -2.0"),
        (csv("0,0,1", "0,1,nan"), (), "line 3: seconds must be a finite number"),
        (csv("0,0,1", "0,1,soon"), (), "line 3: seconds must be a number, but it is 'soon'"),
        (csv(), (), "holds no samples"),
        (csv("0,0,2", "1,0,2", "0,1,2"), (), "all that are known exactly are 2 s, so that there is no distribution"),
        ("host,round,ms\n0,0,1\n", (), "no column 'worker', 'step', 'seconds'; it has host, round, ms"),
        (
            "host,round,ms\n0,0,1\n",
            (),
            "--column worker=... --column step=... --column seconds=... on the command line",
        ),
        (csv("0,0,1"), ("--column", "seconds=latency"), "no column 'latency' for 'seconds'; it has worker, step"),
        (csv("0,0,1"), ("--column", "latency=seconds"), "--column must map some of worker, step, seconds"),
        (csv("0,0,1"), ("--column", "seconds"), "--column must be written KEY=VALUE, but it is 'seconds'"),
        (csv("0,0,1"), ("--where", "region=x"), "no column 'region'; it has worker, step, seconds"),
        (csv("0,0,1"), ("--unit", "h"), "unit must be one of s, ms, us, ns, but it is 'h'"),
        (csv("0,0,1", "0,1,2"), ("--family", "normal"), "family must be one of exponential"),
    ],
)
def test_traces_that_cannot_be_fitted(typed: Typed, text: str, options: tuple[object, ...], said: str) -> None:
    Path("bad.csv").write_text(text)
    done = typed("delays", "fit", "bad.csv", *options)
    assert done.code == 2
    assert done.out == ""
    assert said in done.sentence


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("fit", "absent.csv"), "There is no file 'absent.csv'"),
        (("fit", "."), "is a folder without arrivals.jsonl"),
        (("show", "pareto(0.1, -1)"), "TRACE|MODEL 'pareto(0.1, -1)': exponent must be"),
        (("show", "magic(1)"), "must use known names"),
    ],
)
@pytest.mark.usefixtures("latencies")
def test_what_cannot_be_done_is_said(typed: Typed, command: tuple[object, ...], said: str) -> None:
    done = typed("delays", *command)
    assert done.code == 2
    assert said in done.sentence


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda rows: np.where(np.eye(60, 8) > 0, np.nan, rows), "8 of 60 steps lack some workers"),
        (lambda rows: rows[:, :1], "one worker only"),
        (lambda rows: rows[:1], "one step only"),
        (lambda rows: (rows + 0.5) * np.where(np.arange(8) < 4, 1.0, 1000.0), "seconds and milliseconds may be mixed"),
    ],
)
def test_odd_traces_are_fitted_with_a_warning(
    typed: Typed, spoil: Callable[[np.ndarray], np.ndarray], said: str
) -> None:
    Trace.from_table(spoil(delays.Exponential(0.5, seed=3).rows(0, 60, 8))).write("odd.csv")
    done = typed("delays", "fit", "odd.csv", "--family", "weibull", "--no-figures")
    assert done.code == 0
    assert said in done.err
    assert "weibull" in done.out


def test_the_delays_of_one_worker_are_not_taken_for_mixed_units(typed: Typed) -> None:
    Trace.from_table(delays.Exponential(0.5, seed=3).rows(0, 500, 1)).write("one.csv")
    assert "may be mixed" not in typed("delays", "show", "one.csv").err


def test_the_mean_that_is_printed_is_the_models_own(typed: Typed) -> None:
    done = typed("delays", "show", "bimodal(0.1, none(), exponential(5.0))", "--workers", 4, "--steps", 20)
    assert [line.split() for line in done.out.splitlines() if line.startswith("mean")] == [["mean", "0.50"]]

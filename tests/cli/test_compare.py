"""`erasurehead compare`: fair runs, a table, figures, and a folder for each scheme."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from erasurehead.runs import RunFolder

from ..typed import other
from .shop import SMALL, Typed


@pytest.mark.slow
def test_the_papers_schemes_race_by_default_and_are_overwritten_only_when_that_is_said(
    typed: Typed, shop: Path
) -> None:
    command = ("compare", "--data", shop, "--label", "bought", *SMALL)
    done = typed(*command)
    assert done.code == 0
    for name in ("uncoded", "exact", "erasurehead"):
        assert name in done.out
        assert len(RunFolder.open(f"runs/compare-shop-1/{name}").run.steps) == 12
    figures = {path.name for path in Path("runs/compare-shop-1/figures").iterdir()}
    assert {"comparison.png", "comparison.svg"} <= figures
    assert "| uncoded" in Path("runs/compare-shop-1/comparison.md").read_text()
    there = (*other(command, "--steps", 2), "--no-figures", "--out", "runs/compare-shop-1")
    again = typed(*there)
    assert (again.code, "'runs/compare-shop-1' is already in use" in again.sentence) == (2, True)
    assert figures == {path.name for path in Path("runs/compare-shop-1/figures").iterdir()}
    assert typed(*there, "--overwrite").code == 0
    assert not Path("runs/compare-shop-1/figures").exists()


def test_all_schemes_meet_the_same_delays_and_first_model(typed: Typed, shop: Path) -> None:
    done = typed(
        "compare",
        "--data",
        shop,
        *SMALL,
        "--scheme",
        "uncoded",
        "--scheme",
        "ignore_stragglers(wait_for=3)",
        "--out",
        "x",
        "--initial",
        "randn",
        "--no-figures",
        "--json",
    )
    slow, quick = (RunFolder.open(scheme["folder"]).run for scheme in done.json["schemes"])
    times = [{(row.step, row.worker): row.seconds for row in run.arrivals if not row.censored} for run in (slow, quick)]
    assert {key: times[0][key] for key in times[1]} == pytest.approx(times[1])
    assert len(times[1]) == 3 * 12
    assert slow.evaluations[0].metrics == quick.evaluations[0].metrics
    assert slow.losses[0] == pytest.approx(quick.losses[0], rel=0.5)


def test_json_holds_the_whole_table(typed: Typed, shop: Path) -> None:
    done = typed("compare", "--data", shop, *SMALL, "--target", "auc=0.8", "--no-figures", "--json", "-o", "x")
    assert done.json["target"] == {"metric": "auc", "value": 0.8}
    assert done.json["figures"] == []
    uncoded, exact, erasurehead = done.json["schemes"]
    assert (uncoded["speed_up"], uncoded["residual"], exact["residual"]) == (1.0, 0.0, 0.0)
    assert erasurehead["residual"] > 0
    assert erasurehead["seconds_per_step"] < exact["seconds_per_step"] < uncoded["seconds_per_step"]
    assert json.loads(Path("x/comparison.json").read_text())["schemes"] == done.json["schemes"]


def test_why_there_are_no_times_to_gaps_is_said(typed: Typed, shop: Path) -> None:
    given = ("compare", "--data", shop, *SMALL, "--scheme", "uncoded", "--no-figures")
    assert "Time to each gap of the objective" in typed(*given, "--out", "x").out
    done = typed(*given, "--out", "y", "--no-alone")
    assert done.code == 0
    assert "gap" not in done.out
    assert done.sentence == (
        "Times to each gap are not known, as the minimum is not known; one core alone may find it: leave out "
        "--no-alone."
    )


def test_without_a_target_there_is_one_that_all_reach(typed: Typed, shop: Path) -> None:
    done = typed("compare", "--data", shop, *SMALL, "--no-figures", "--json")
    assert done.json["target"]["metric"] == "auc"
    assert all(scheme["seconds_to_target"] is not None for scheme in done.json["schemes"])


def test_schemes_of_one_name_are_told_apart(typed: Typed, shop: Path) -> None:
    done = typed(
        "compare",
        "--data",
        shop,
        *SMALL,
        "--no-figures",
        "--json",
        "-o",
        "x",
        "-s",
        "erasurehead(2, 3)",
        "-s",
        "erasurehead(3, 2)",
        "-s",
        "erasurehead(3, 2)",
    )
    folders = [scheme["folder"] for scheme in done.json["schemes"]]
    assert folders == ["x/erasurehead-2-3", "x/erasurehead-3-2-1", "x/erasurehead-3-2-2"]


@pytest.mark.slow
def test_a_scheme_that_fails_is_a_row_and_the_others_go_on(typed: Typed) -> None:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((120, 3))
    np.save("line.npy", np.column_stack([features, features @ [1.0, 2.0, 3.0]]))
    # A rate at which the whole gradient overshoots, and the part of it that the first one or two send does not.
    done = typed(
        "compare",
        "--data",
        "line.npy",
        "--loss",
        "least_squares",
        *other(SMALL[1:], "--steps", 150),
        "--rate",
        1.5,
        "--optimizer",
        "gradient_descent",
        "--no-figures",
        "-o",
        "x",
        "-s",
        "ignore_stragglers(1, rescale='none')",
        "-s",
        "uncoded",
        "-s",
        "erasurehead(1, 2, rescale='none')",
    )
    assert done.code == 1
    stopped = [scheme["stopped"] for scheme in json.loads(Path("x/comparison.json").read_text())["schemes"]]
    assert [bool(text) for text in stopped] == [False, True, False]
    assert done.sentence == f"erasurehead: uncoded: {stopped[1]}"
    assert "uncoded ended early" in done.out
    assert "| uncoded" in Path("x/comparison.md").read_text()
    assert RunFolder.open("x/uncoded").summary["status"] == "diverged"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--target", "bought"), "target must be a metric and a value, but it is 'bought'; write auc=0.84"),
        (("--target", "f1=0.5"), "must name a metric that is measured, got 'f1' (in 'f1=0.5'); the metrics are auc"),
        (("--target", "auc=0.5", "--test-fraction", 0), "there are no test rows"),
        (("-s", "uncoded", "-s", "exact(load=7)"), "load must be at most the number of tasks, 6, but it is 7"),
    ],
)
def test_bad_input_ends_before_the_first_run(typed: Typed, shop: Path, options: tuple[object, ...], said: str) -> None:
    done = typed("compare", "--data", shop, *SMALL, *options, "--out", "x")
    assert done.code == 2
    assert said in done.sentence
    assert not Path("x").exists()

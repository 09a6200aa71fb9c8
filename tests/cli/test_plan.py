"""`erasurehead plan`: a table, a picture and a run file in one command; the run is as planned; bad input is said."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Trace, read_trace, write_trace
from erasurehead.runs.config import read_config

from .shop import Typed

SHORT = ("-s", "exact(load=3)", "-s", "erasurehead(load=3, wait_for=5)", "-s", "ignore_stragglers(wait_for=9)")
MODEL = ("--delays", "exponential(mean=0.5)", "--workers", 12)
SHOP = ("--data", "shop.csv", "--categorical")


def write_rows(rows: np.ndarray, name: str = "latencies.csv") -> str:
    write_trace(Trace.from_table(rows), name)
    return name


def exponential(steps: int = 200, workers: int = 12) -> np.ndarray:
    return delays.Exponential(0.5, seed=3).rows(0, steps, workers)


class TestNewcomer:
    """Nothing but latencies.csv."""

    def test_one_command_gives_a_plan_a_picture_and_a_run_file_and_the_run_behaves_as_predicted(
        self, typed: Typed
    ) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", "--json")
        assert done.code == 0
        found = done.json
        folder = Path("runs/plan-1")
        assert {Path(file).name for file in found["files"]} == {
            "run.toml", "plan.json", "trace.csv", "tradeoff.png", "tradeoff.svg"
        }  # fmt: skip
        assert json.loads((folder / "plan.json").read_text())["best"] == found["best"]
        assert (read_trace(folder / "trace.csv").table() == read_trace("latencies.csv").table()).all()
        assert "mathdefault" not in (folder / "tradeoff.svg").read_text()
        best = found["settings"][0]
        assert best["setting"] == found["best"] == read_config(folder / "run.toml").scheme
        run = typed("train", folder / "run.toml", "--engine", "virtual", "--steps", 200, "--out", "r", "--json")
        assert run.code == 0
        assert run.json["seconds_per_step"] == pytest.approx(best["seconds_per_step"], rel=0.1)

    def test_the_table_says_time_loss_speed_up_memory_bytes_and_why(self, typed: Typed) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", "--no-figures", *SHORT, "--current", "exact(load=2)")
        assert done.code == 0
        for heading in ("Per step", "lost (%)", "95% band", "× un-", "× cur-", "Data a", "Sends"):
            assert heading in done.out
        for setting in ("uncoded()", "exact(load=2)", "erasurehead(load=3, wait_for=5)"):
            assert setting in done.out
        assert "it waits for 12.0 of 12 workers, so that the slowest decide." in done.out
        assert "Use " in done.out
        assert not list(Path("runs/plan-1").glob("*.png"))

    def test_explained_in_words(self, typed: Typed) -> None:
        done = typed("plan", *MODEL, *SHORT, "--seconds-per-task", 0.01, "--no-figures", "--explain", "--out", "p")
        assert "times as fast as uncoded" in done.out
        assert "What limits uncoded:" in done.out

    def test_rows_agree_with_each_other(self, typed: Typed) -> None:
        found = typed("plan", *MODEL, *SHORT, "--current", "exact(load=3)", "--no-figures", "--json").json
        rows = {row["setting"]: row for row in found["settings"]}
        assert [row["place"] for row in found["settings"]] == list(range(1, len(rows) + 1))
        uncoded, current = rows["uncoded()"], rows["exact(load=3)"]
        for row in found["settings"]:
            low, high = row["band"]
            assert low <= row["seconds_to_target"] <= high
            assert row["speed_up_over_uncoded"] == uncoded["seconds_to_target"] / row["seconds_to_target"]
            assert row["speed_up_over_current"] == current["seconds_to_target"] / row["seconds_to_target"]
            assert row["share_of_data"] == row["load"] / 12
        assert rows["exact(load=3)"]["missing"] == 0.0
        assert any(row["pareto"] for row in found["settings"])


class TestHonesty:
    def test_redundancy_that_does_not_pay_is_said(self, typed: Typed) -> None:
        law = "shifted_exponential(0.1, 0.001, scale_with_load=True)"
        done = typed("plan", "--delays", law, "--workers", 12, "-s", "exact(load=2)", "--no-figures")
        assert "Redundancy does not pay here: train uncoded" in done.out

    def test_what_a_task_may_cost_is_said_of_a_trace(self, typed: Typed) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert "Redundancy pays as long as a task takes less than about" in done.out
        dear = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--seconds-per-task", 5)
        assert "Redundancy does not pay here" in dear.out

    def test_a_trace_that_is_too_short_to_tell_is_said(self, typed: Typed) -> None:
        settings = ("-s", "erasurehead(load=3, wait_for=5)", "-s", "erasurehead(load=3, wait_for=6)")
        write_rows(exponential(steps=5))
        assert "is too short to tell the best setting from" in typed("plan", "--trace", "latencies.csv", *settings).out
        write_rows(exponential(steps=1))
        done = typed("plan", "--trace", "latencies.csv", *settings)
        assert done.code == 0
        assert "The trace of one round is too short to tell" in done.out
        assert "one step only" in done.err

    def test_an_infinite_mean_is_allowed_and_said(self, typed: Typed) -> None:
        done = typed("plan", "--delays", "pareto(0.1, 0.9)", "--workers", 12, *SHORT, "--no-figures")
        assert done.code == 0
        assert "infinite mean" in done.err
        assert "The delays have an infinite mean" in done.out

    def test_mixed_units_are_warned_of(self, typed: Typed) -> None:
        write_rows((exponential() + 0.5) * np.where(np.arange(12) < 6, 1.0, 1000.0))
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert done.code == 0
        assert "seconds and milliseconds may be mixed" in done.err

    def test_steps_that_lack_workers_are_left_out_and_counted(self, typed: Typed) -> None:
        rows = exponential(steps=40)
        rows[:10, 3] = np.nan
        write_rows(rows)
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert done.code == 0
        assert "10 of 40 steps lack some workers" in done.err
        assert "30 rounds of latencies.csv" in done.err

    def test_constant_delays_leave_nothing_to_gain(self, typed: Typed) -> None:
        write_rows(np.full((20, 12), 0.5))
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--seconds-per-task", 0.1)
        assert done.code == 0
        assert "all samples are 0.5 s" in done.err
        assert "Redundancy does not pay here: train uncoded" in done.out

    def test_more_workers_than_in_the_trace_can_be_drawn_from_the_pool(self, typed: Typed) -> None:
        write_rows(exponential())
        found = typed(
            "plan", "-t", "latencies.csv", "-w", 24, "--keep", "pooled", *SHORT, "--no-figures", "--json"
        ).json
        assert found["workers"] == 24
        assert "keep='pooled'" in found["delays"]


@pytest.mark.usefixtures("shop")
class TestData:
    def test_settings_are_tried_on_the_data_and_the_run_file_trains_on_them(self, typed: Typed) -> None:
        options = (*SHOP, "--steps", 40, "--rate", 2.0, "--repeats", 2, "--seconds-per-task", 0.01)
        done = typed("plan", *MODEL, *SHORT, *options, "--target", "auc=0.8", "--out", "p", "--json")
        assert done.code == 0, done.err
        found = done.json
        tried = [row for row in found["settings"] if row["trial"] is not None]
        assert {row["setting"] for row in tried} >= {"uncoded()", "exact(load=3)"}
        reached = [row for row in tried if row["trial"]["reached"] == 1.0]
        assert found["settings"][0] is not None
        assert found["best"] == min(reached, key=lambda row: row["trial"]["seconds"])["setting"]
        for row in tried:
            assert row["bytes_of_data"] > 0
            assert row["bytes_sent"] == 8 * 6  # age, income, three towns and the constant
        assert any("Of those tried on the data" in line for line in found["advice"])
        tables = tomllib.loads(Path("p/run.toml").read_text())
        assert tables["optimizer"] == {"rate": 2.0}
        assert tables["data"]["source"] == str(Path("shop.csv").absolute())
        run = typed("train", "p/run.toml", "--engine", "virtual", "--out", "r", "--json")
        assert run.code == 0
        assert run.json["metrics"]["auc"] > 0.8

    def test_without_a_target_one_is_chosen(self, typed: Typed) -> None:
        done = typed(
            "plan", *MODEL, *SHORT, *SHOP, "--steps", 30, "--rate", 2.0, "--repeats", 1, "--no-figures", "--json"
        )
        assert done.json["goal"]["metric"] == "auc"
        assert 0.5 < done.json["goal"]["value"] < 1.0

    def test_a_target_that_no_setting_reaches_says_what_the_best_one_reaches(self, typed: Typed) -> None:
        options = (*SHOP, "--steps", 10, "--repeats", 1, "--target", "auc=0.9999", "--no-figures")
        done = typed("plan", *MODEL, *SHORT, *options)
        assert done.code == 0
        assert "No setting that was tried on the data reached auc 0.9999: the best, " in done.out
        assert "came to 0." in done.out

    def test_an_error_as_the_target_takes_the_constants_of_the_data(self, typed: Typed) -> None:
        done = typed("plan", *MODEL, *SHORT, *SHOP, "--target", "error=0.01", "--no-figures", "--json")
        assert done.json["error"] == 0.01
        assert all(row["trial"] is None for row in done.json["settings"])
        assert done.json["settings"][-1]["steps"] is None or done.json["settings"][-1]["steps"] > 1

    def test_a_run_is_planned_anew_from_its_own_records(self, typed: Typed) -> None:
        options = (*SHOP, "--engine", "virtual", "-w", 12, "--steps", 150, "--delays", "exponential(mean=0.5)")
        trained = typed("train", *options, "-s", "erasurehead(load=2, wait_for=4)", "--out", "r", "--json")
        done = typed("plan", "--trace", "r", *SHORT, "--no-figures", "--json")
        assert done.code == 0
        assert "delays are censored" in done.err
        rows = {row["setting"]: row for row in done.json["settings"]}
        current = rows["erasurehead(load=2, wait_for=4)"]
        assert current["speed_up_over_current"] == 1.0
        assert current["seconds_per_step"] == pytest.approx(trained.json["seconds_per_step"], rel=0.05)
        true = 0.5 * sum(1 / k for k in range(1, 13))
        assert rows["uncoded()"]["seconds_per_step"] == pytest.approx(true, rel=0.25)  # a third of it was ever seen


def test_an_error_as_the_target_with_constants_of_ones_own(typed: Typed) -> None:
    constants = ("--constants", "mu=0.01,beta=1,sigma=5,gap=1")
    done = typed("plan", *MODEL, *SHORT, "--target", "error=1e-6", *constants, "--no-figures")
    assert done.code == 0
    assert "its noise keeps the error above" in done.out
    deaf = ("--delays", "exponential(mean=0.5) + late([0,1,2,3])", "--workers", 12)
    settings = ("-s", "ignore_stragglers(wait_for=6)")
    none = typed("plan", *deaf, *settings, "--target", "error=1e-6", *constants, "--no-figures")
    assert none.code == 0
    assert "No setting reaches an error of 1e-06; the lowest that one is sure to reach is" in none.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--trace or --delays must be given, and not both"),
        (("--trace", "latencies.csv", "--delays", "none()"), "--trace or --delays must be given, and not both"),
        (("--delays", "none()"), "--workers must be given with --delays"),
        (("--delays", "magic()", "-w", 4), "--delays 'magic()': delays must not name 'magic'"),
        (("--trace", "latencies.csv", "-w", 13), "--workers must be at most the 12 workers of the trace, but it is 13"),
        (("--trace", "latencies.csv", "-w", 13), "--keep pooled draws for any number"),
        (("--trace", "latencies.csv", "-w", 1), "--workers must be at least 2, but it is 1"),
        (("--trace", "one.csv"), "one worker has nobody to wait for; --keep pooled"),
        (("--trace", "one.csv", "-w", 4), "--keep pooled draws for any number"),
        (("--trace", "holes.csv"), "no step has samples of all 3 workers"),
        (("--trace", "twice.csv"), "several samples of worker 0 in step 0"),
        (("--trace", "latencies.csv", "--column", "seconds=ms"), "no column 'ms' for 'seconds'; it has worker, step"),
        (("--trace", "negative.csv"), "line 3: seconds must be a finite number of at least 0, but it is -1.0"),
        (("--trace", "absent.csv"), "There is no file 'absent.csv'"),
        (("--trace", "latencies.csv", "--keep", "order"), "--keep must be rounds, workers or pooled"),
        ((*MODEL, "-s", "exact(load=13)"), "exact(load=13)"),
        ((*MODEL, "--current", "magic()"), "magic"),
        ((*MODEL, "--seconds-per-task", -1), "--seconds-per-task must be finite and at least 0, but it is -1.0"),
        ((*MODEL, "--max-load", 0), "--max-load must be at least 1"),
        ((*MODEL, "--late", "never"), "delays.late (--late) must be 'preempt' or 'carry'"),
        ((*MODEL, "--target", "auc=0.9"), "--target must be error=VALUE without --data"),
        ((*MODEL, "--target", "error=0.1"), "--target must come with --data or --constants"),
        ((*MODEL, "--target", "error=0", "--constants", "mu=1,beta=1,sigma=1,gap=1"), "an error greater than 0"),
        ((*MODEL, "--target", "error=0.1", "--constants", "mu=1"), "--constants must give mu, beta, sigma, gap"),
        ((*MODEL, "--target", "error=0.1", "--constants", "mu=2,beta=1,sigma=1,gap=1"), "beta must be at least mu"),
        ((*MODEL, "--constants", "mu=1,beta=1,sigma=1,gap=1"), "--constants must come with a target"),
        ((*MODEL, *SHOP, "--target", "speed=3"), "--target must name a metric of the problem"),
        ((*MODEL, *SHOP, "--sample", 0), "--sample must be at least 1"),
        ((*MODEL, "--data", "absent.csv"), "There is no file"),
        ((*MODEL, "--out", "latencies.csv"), "'latencies.csv' is a file; name another one (--out)"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_bad_input_is_one_sentence(typed: Typed, options: tuple[object, ...], said: str) -> None:
    write_rows(exponential(steps=20))
    write_rows(exponential(steps=20, workers=1), "one.csv")
    Path("holes.csv").write_text("worker,step,seconds\n0,0,1\n1,0,2\n1,1,1\n2,1,2\n")
    Path("twice.csv").write_text("worker,step,seconds\n0,0,1\n0,0,2\n1,0,2\n")
    Path("negative.csv").write_text("worker,step,seconds\n0,0,1\n1,0,-1\n")
    done = typed("plan", "--no-figures", *(() if "-s" in options else SHORT), *options)
    assert done.code == 2, done.err
    assert done.out == ""
    assert said in done.sentence
    assert done.sentence.startswith("erasurehead: ")


def test_an_earlier_plan_is_not_overwritten_unasked(typed: Typed) -> None:
    assert typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p").code == 0
    again = typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p")
    assert again.code == 2
    assert "--out must not hold an earlier plan, got 'p'; say --overwrite" in again.sentence
    assert typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p", "--overwrite").code == 0


def test_carried_work_takes_longer_and_goes_into_the_run_file(typed: Typed) -> None:
    settings = ("-s", "erasurehead(load=3, wait_for=4)", "--no-figures", "--json")
    dropped = typed("plan", *MODEL, *settings, "--out", "a").json["settings"]
    carried = typed("plan", *MODEL, *settings, "--late", "carry", "--out", "b").json["settings"]
    by_name = [{row["setting"]: row["seconds_per_step"] for row in rows} for rows in (dropped, carried)]
    assert by_name[1]["erasurehead(load=3, wait_for=4)"] > 1.3 * by_name[0]["erasurehead(load=3, wait_for=4)"]
    assert read_config("b/run.toml").delays.late == "carry"

"""`erasurehead plan`: a table, a picture and a run file in one command; the run is as planned; bad input is said."""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays, planning
from erasurehead.cli import _plan_asked as plan_asked, _plan_pages as plan_pages
from erasurehead.delays import Trace

from ..run_files import read_config
from ..typed import other
from .shop import Typed

SHORT = ("-s", "exact(load=3)", "-s", "erasurehead(load=3, wait_for=5)", "-s", "ignore_stragglers(wait_for=9)")
MODEL = ("--delays", "exponential(mean=0.5)", "--workers", 12)
SHOP = ("--data", "shop.csv", "--categorical")


def write_rows(rows: np.ndarray, name: str = "latencies.csv") -> str:
    Trace.from_table(rows).write(name)
    return name


def exponential(steps: int = 200, workers: int = 12) -> np.ndarray:
    return delays.Exponential(0.5, seed=3).rows(0, steps, workers)


class TestNewcomer:
    """Nothing but latencies.csv."""

    @pytest.mark.slow
    def test_one_command_gives_a_plan_a_picture_and_a_run_file_and_the_run_behaves_as_predicted(
        self, typed: Typed
    ) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", "--json")
        assert done.code == 0
        found = done.json
        folder = Path("runs/plan-1")
        assert {Path(file).name for file in found["files"]} == {
            "run.toml",
            "plan.json",
            "trace.csv",
            "tradeoff.png",
            "tradeoff.svg",
        }
        assert json.loads((folder / "plan.json").read_text())["best"] == found["best"]
        assert (Trace.read(folder / "trace.csv").table() == Trace.read("latencies.csv").table()).all()
        assert "mathdefault" not in (folder / "tradeoff.svg").read_text()
        best = found["settings"][0]
        assert best["setting"] == found["best"] == read_config(folder / "run.toml").scheme
        assert best["setting"].startswith("adaptive")  # whose steps are not all as long as one with a whole gradient
        options = ("--engine", "virtual", "--steps", 200, "--json")
        assert typed("train", folder / "run.toml", *options, "--out", "r").code == 0
        other = next(row for row in found["settings"] if not row["setting"].startswith("adaptive"))
        run = typed("train", folder / "run.toml", *options, "-s", other["setting"], "--out", "s")
        assert run.json["seconds_per_step"] == pytest.approx(other["seconds_per_step"], rel=0.1)

    @pytest.mark.slow
    def test_the_table_says_time_loss_speed_up_memory_bytes_and_why(self, typed: Typed) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", "--no-figures", *SHORT, "--current", "exact(load=2)")
        assert done.code == 0
        for heading in ("Per step", "lost (%)", "95% band", "× un-", "× cur-", "Data per", "Sent per"):
            assert heading in done.out
        for setting in ("uncoded()", "exact(load=2)", "erasurehead(load=3, wait_for=5)"):
            assert setting in done.out
        assert "it waits for 12.0 of 12 workers, so the slowest workers set the pace." in done.out
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
            assert low <= row["seconds_to_target"] <= (math.inf if high is None else high)
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

    @pytest.mark.slow
    def test_what_a_task_may_cost_is_said_of_a_trace(self, typed: Typed) -> None:
        write_rows(exponential())
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert "Redundancy pays as long as a task takes less than about" in done.out
        dear = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--seconds-per-task", 5)
        assert "Redundancy does not pay here" in dear.out

    @pytest.mark.slow
    def test_a_trace_that_is_too_short_to_tell_is_said(self, typed: Typed) -> None:
        settings = ("-s", "exact(load=4)", "-s", "exact(load=3)", "--seconds-per-task", 0.13, "--no-figures")
        write_rows(exponential(steps=5))
        assert "is too short to tell the best setting from" in typed("plan", "--trace", "latencies.csv", *settings).out
        write_rows(exponential(steps=1))
        done = typed("plan", "--trace", "latencies.csv", *settings)
        assert done.code == 0
        assert "The trace of one round is too short to tell" in done.out
        assert "This is a guess: the trace has only one round, and a plan needs at least 20." in done.out
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

    def test_steps_that_lack_workers_are_planned_with(self, typed: Typed) -> None:
        rows = exponential(steps=40)
        rows[:10, 3] = np.nan
        write_rows(rows)
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert done.code == 0
        assert "10 of 40 steps lack some workers" in done.err
        assert "40 rounds of latencies.csv" in done.err
        assert "uncoded() waits for workers that did not answer in the trace" in done.out

    @pytest.mark.parametrize("absent", [None, "dead"])
    def test_a_worker_that_is_gone_is_not_waited_for(self, typed: Typed, absent: str | None) -> None:
        """Of 200 rounds 3 are complete; waiting for everybody looked best, and stopped for good after two steps."""
        rows = 1.0 + 0.01 * exponential(steps=200)
        rows[3:, 7] = np.nan
        write_rows(rows)
        option = () if absent is None else ("--absent", absent)
        done = typed(
            "plan", "--trace", "latencies.csv", *SHORT, "-s", "exact(load=2)", *option, "--no-figures", "--json"
        )
        assert done.code == 0
        assert done.json["best"].startswith("exact")
        rows = {row["setting"]: row for row in done.json["settings"]}
        assert rows["uncoded()"]["seconds_per_step"] is None or rows["uncoded()"]["unanswered"] > 0.9
        assert "These workers stopped answering for good: 7" in done.err
        late = typed("plan", "--trace", "latencies.csv", *SHORT, "--absent", "late", "--no-figures", "--json")
        assert "gone" not in late.err
        assert all(row["seconds_per_step"] < 2.0 for row in late.json["settings"])

    @pytest.mark.slow
    def test_rows_that_are_missing_by_chance_do_not_make_it_wait_for_everybody(self, typed: Typed) -> None:
        rows = 1.0 + 0.1 * exponential(steps=200)
        rows[np.random.default_rng(0).random(rows.shape) < 0.01] = np.nan
        write_rows(rows)
        found = typed("plan", "--trace", "latencies.csv", "--no-figures", "--json")
        by_name = {row["setting"]: row for row in found.json["settings"]}
        assert by_name["uncoded()"]["unanswered"] == pytest.approx(1 - 0.99**12, abs=0.05)
        assert by_name[found.json["best"]]["unanswered"] == 0.0
        assert found.json["effective_rounds"] > 100

    def test_slow_workers_are_named_whatever_the_trace(self, typed: Typed) -> None:
        write_rows(exponential() * np.where(np.arange(12) == 5, 4.0, 1.0))
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures")
        assert "Persistently slow: 5 (" in done.err

    def test_drift_is_said_and_the_recent_part_counts(self, typed: Typed) -> None:
        rows = exponential()
        rows[100:] *= 2.0
        write_rows(rows)
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--json")
        assert "Delays drift: from round " in done.err
        uncoded = next(row for row in done.json["settings"] if row["setting"] == "uncoded()")
        assert uncoded["seconds_per_step"] == pytest.approx(rows[100:].max(axis=1).mean(), rel=0.05)

    @pytest.mark.slow
    def test_computing_is_not_counted_twice(self, typed: Typed) -> None:
        """Measured times are whole: what another task would add is no part of them, what the own one took is."""
        write_rows(1.0 + exponential())
        whole = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--json").json["settings"]
        split = typed("plan", "--trace", "latencies.csv", *SHORT, "--seconds-per-task", 0.5, "--no-figures", "--json")
        before, after = (
            {row["setting"]: row["seconds_per_step"] for row in rows} for rows in (whole, split.json["settings"])
        )
        assert after["uncoded()"] == pytest.approx(before["uncoded()"], rel=1e-9)
        assert after["exact(load=3)"] == pytest.approx(before["exact(load=3)"] + 2 * 0.5, rel=1e-9)
        again = typed("train", "runs/plan-2/run.toml", "--engine", "virtual", "--steps", 30, "--out", "r", "--json")
        assert again.code == 0

    @pytest.mark.slow
    def test_a_run_is_planned_with_the_computing_that_it_did(self, typed: Typed) -> None:
        """4.001 s were predicted for a run that measured 3.517: its computing was in its records, and added again."""
        dear = ("--delays", "exponential(mean=0.5)", "-w", 12, "--seconds-per-task", 0.5, "-s", "exact(load=2)")
        assert typed("plan", *dear, "--no-figures", "--out", "p").code == 0
        tables = tomllib.loads(Path("p/run.toml").read_text())
        assert tables["run"]["seconds_per_task"] == 0.5
        run = typed(
            "train", "p/run.toml", "-s", "uncoded()", "--engine", "virtual", "--steps", 60, "--out", "r", "--json"
        )
        assert run.code == 0, run.err
        done = typed("plan", "--trace", "r", "-s", "exact(load=2)", "--no-figures", "--json")
        assert done.json["seconds_per_task"] == 0.5
        assert done.json["seconds_per_task_from"] == "run"
        uncoded = next(row for row in done.json["settings"] if row["setting"] == "uncoded()")
        assert uncoded["seconds_per_step"] == pytest.approx(run.json["seconds_per_step"], rel=0.05)

    def test_nothing_but_none_is_a_sentence(self, typed: Typed) -> None:
        done = typed("plan", "--delays", "none()", "--workers", 12)
        assert done.code == 2
        assert "--delays must take some time if computing takes none, got 'none()'" in done.sentence
        assert not Path("runs").exists()
        Trace.from_table(np.zeros((20, 4))).write("zeros.csv")
        done = typed("plan", "--trace", "zeros.csv")
        assert done.code == 2
        assert "--trace must have times above 0 if computing takes none, got 'zeros.csv'" in done.sentence

    def test_one_worker_is_refused_before_anything_is_tried(self, typed: Typed) -> None:
        done = typed("plan", "--delays", "exponential(mean=0.5)", "--workers", 1)
        assert done.code == 2
        assert "trying" not in done.err

    @pytest.mark.slow
    def test_without_a_cost_no_one_is_told_to_compute_everything(self, typed: Typed) -> None:
        write_rows(exponential(workers=8))
        found = typed("plan", "--trace", "latencies.csv", "--no-figures", "--json").json
        assert max(row["load"] for row in found["settings"]) == 3
        more = typed("plan", "--trace", "latencies.csv", "--no-figures", "--max-load", 8, "--json").json
        assert max(row["load"] for row in more["settings"]) == 8

    @pytest.mark.slow
    def test_what_was_not_said_is_advised_of_case_by_case(self, typed: Typed) -> None:
        done = typed("plan", *MODEL, "--seconds-per-task", 0.05, "--no-figures", "--json").json
        cases = {(case["data"], case["gap"]): case["best"] for case in done["cases"]}
        assert len(cases) == 6
        assert len(set(cases.values())) > 1
        said = typed(
            "plan", *MODEL, *SHORT, "--target", "gap=0.001", "--task-noise", 0.3, "--no-figures", "--json"
        ).json
        assert said["cases"] == []
        assert said["accuracy"] == {"gap": 0.001, "task_noise": 0.3}

    def test_it_is_said_what_worse_delays_would_do_and_explained_in_three_sentences(self, typed: Typed) -> None:
        done = typed("plan", *MODEL, *SHORT, "--no-figures", "--explain")
        assert "If delays exceeded their median by twice as much, the recommended setting would take" in done.out
        for begin in ("\nWhy: ", "\nWhat would change it: ", "\nWhat it does not know: "):
            assert done.out.count(begin) == 1
        assert "is assumed to take" not in done.out  # only these three were to be tried

    @pytest.mark.slow
    def test_what_train_does_by_default_is_ranked_without_data_unless_a_rate_is_given(self, typed: Typed) -> None:
        options = (*MODEL, "--seconds-per-task", 0.02, "--max-load", 3, "--no-figures", "--json")
        found = typed("plan", *options, "--out", "p").json
        own = [row for row in found["settings"] if row["setting"].startswith("adaptive")]
        assert {row["load"] for row in own} == {1, 2, 3}
        assert found["best"] in [row["setting"] for row in own]
        (said,) = [line for line in found["advice"] if "is assumed to take as long as" in line]
        assert said.startswith(found["best"])
        assert said.endswith("--data measures it on yours.")
        rated = typed("plan", *options, "--rate", 2.0).json
        assert not any(row["setting"].startswith("adaptive") for row in rated["settings"])

    @pytest.mark.slow
    def test_constant_delays_leave_nothing_to_gain(self, typed: Typed) -> None:
        write_rows(np.full((20, 12), 0.5))
        done = typed("plan", "--trace", "latencies.csv", *SHORT, "--no-figures", "--seconds-per-task", 0.1)
        assert done.code == 0
        assert "all samples are 0.5 s" in done.err
        assert "Redundancy does not pay here: train uncoded" in done.out

    def test_times_that_grow_with_the_load_are_told_unless_the_plan_knows(self, typed: Typed) -> None:
        late = exponential()
        rows = [
            f"{worker},{step},{(1 + step % 2) * seconds!r},{1 + step % 2}"
            for step, times in enumerate(late)
            for worker, seconds in enumerate(map(float, times))
        ]
        Path("loads.csv").write_text("\n".join(["worker,step,seconds,load", *rows]))
        options = ("plan", "-t", "loads.csv", *SHORT, "--no-figures", "--json")
        (said,) = [text for text in typed(*options).json["warnings"] if "grow" in text]
        assert re.match(r"Times grow with the load: with 2 tasks they are \d\.\d+ times as long as with 1 task, ", said)
        assert not any("grow" in text for text in typed(*options, "--scale-with-load").json["warnings"])
        Path("loads.csv").write_text("\n".join(["worker,step,seconds,load", *(row[:-1] + "1" for row in rows)]))
        assert not any("grow" in text for text in typed(*options).json["warnings"])

    def test_more_workers_than_in_the_trace_can_be_drawn_from_the_pool(self, typed: Typed) -> None:
        write_rows(exponential())
        found = typed(
            "plan", "-t", "latencies.csv", "-w", 24, "--keep", "pooled", *SHORT, "--no-figures", "--json"
        ).json
        assert found["workers"] == 24
        assert "keep='pooled'" in found["delays"]


@pytest.mark.usefixtures("shop")
class TestData:
    @pytest.mark.slow
    def test_settings_are_tried_on_the_data_and_the_run_file_trains_on_them(self, typed: Typed) -> None:
        options = (*SHOP, "--steps", 40, "--rate", 2.0, "--repeats", 2, "--seconds-per-task", 0.01, "--no-figures")
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
        assert any("Of the settings tried on the data" in line for line in found["advice"])
        tables = tomllib.loads(Path("p/run.toml").read_text())
        assert tables["optimizer"] == {"rate": 2.0}
        assert tables["data"]["source"] == str(Path("shop.csv").absolute())
        run = typed("train", "p/run.toml", "--engine", "virtual", "--out", "r", "--json")
        assert run.code == 0
        assert run.json["metrics"]["auc"] > 0.8

    @pytest.mark.slow
    def test_what_train_does_with_nothing_said_is_among_what_is_tried_unless_a_rate_is_given(
        self, typed: Typed
    ) -> None:
        options = (*MODEL, *SHOP, "--max-load", 3, "--repeats", 1, "--target", "gap=1e-4", "--no-figures", "--json")
        done = typed("plan", *options, "--out", "p")
        assert done.code == 0, done.err
        rows = {row["setting"]: row for row in done.json["settings"]}
        own = [row for name, row in rows.items() if name.startswith("adaptive")]
        assert {row["load"] for row in own} == {1, 2, 3}
        assert done.json["best"] == min(own, key=lambda row: row["trial"]["seconds"])["setting"]
        low, high = rows[done.json["best"]]["speed_up_over_uncoded_range"]
        assert low < rows[done.json["best"]]["speed_up_over_uncoded"] < high
        assert any(line.startswith("With the optimizer that train uses by default, ") for line in done.json["advice"])
        tables = tomllib.loads(Path("p/run.toml").read_text())
        assert "optimizer" not in tables
        run = typed("train", "p/run.toml", "--engine", "virtual", "--out", "r", "--json")
        assert run.json["ended"] == "converged"
        rated = typed("plan", *options, "--rate", 2.0)
        assert not any(row["setting"].startswith("adaptive") for row in rated.json["settings"])

    @pytest.mark.slow
    def test_without_a_target_one_is_chosen(self, typed: Typed) -> None:
        done = typed(
            "plan", *MODEL, *SHORT, *SHOP, "--steps", 30, "--rate", 2.0, "--repeats", 1, "--no-figures", "--json"
        )
        assert done.json["goal"]["metric"] == "gap"
        assert 0.0 < done.json["goal"]["value"] < 1.0
        assert done.json["accuracy"]["task_noise"] > 0.0

    @pytest.mark.slow
    def test_a_target_that_no_setting_reaches_says_what_the_best_one_reaches(self, typed: Typed) -> None:
        options = (*SHOP, "--steps", 10, "--repeats", 1, "--target", "auc=0.9999", "--no-figures")
        done = typed("plan", *MODEL, *SHORT, *options)
        assert done.code == 1
        assert "No setting is recommended, and no run file is written." in done.out
        assert "No setting that was tried on the data reached auc 0.9999: the best, " in done.out
        assert ", reached 0." in done.out
        assert "More steps (--steps)" in done.out
        assert "A task takes " in done.out
        assert not Path("runs").exists()

    @pytest.mark.slow
    def test_an_error_as_the_target_takes_the_constants_of_the_data(self, typed: Typed) -> None:
        done = typed("plan", *MODEL, *SHORT, *SHOP, "--target", "error=0.01", "--no-figures", "--json")
        assert done.json["error"] == 0.01
        assert all(row["trial"] is None for row in done.json["settings"])
        assert done.json["settings"][-1]["steps"] is None or done.json["settings"][-1]["steps"] > 1

    @pytest.mark.slow
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


class TestWhatATaskTakes:
    """Said, known from a run, measured on data, or unknown: then larger loads would look free, and are not tried."""

    QUICK = ("--repeats", 1, "--target", "gap=1e-3", "--no-figures")

    @pytest.fixture
    def measured(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
        """What sets the seconds that measuring a task comes to."""

        def pretend(seconds: float) -> None:
            monkeypatch.setattr(plan_asked, "measure_task", lambda *_: seconds)

        return pretend

    @pytest.mark.usefixtures("shop")
    @pytest.mark.slow
    def test_with_data_it_is_measured_and_larger_loads_are_tried_and_the_run_file_does_as_planned(
        self, typed: Typed
    ) -> None:
        several = other(self.QUICK, "--repeats", 3)  # in a single draw, a smaller load may win by chance
        done = typed("plan", *MODEL, *SHOP, *several, "--late", "carry", "--out", "p", "--json")
        assert done.code == 0, done.err
        found = done.json
        seconds = found["seconds_per_task"]
        assert found["seconds_per_task_from"] == "measured"
        assert 0.0 < seconds < 1e-2
        assert seconds == float(f"{seconds:.1g}")
        assert max(row["load"] for row in found["settings"]) == 6  # no larger load makes other groups of 12 workers
        best, *others = found["settings"]
        assert best["load"] > 1  # a task of twenty rows takes next to nothing
        alone = next(row for row in others if row["setting"] == "adaptive(load=1)")
        assert alone["trial"]["seconds"] > 2.0 * best["trial"]["seconds"]
        tables = tomllib.loads(Path("p/run.toml").read_text())
        assert tables["run"]["seconds_per_task"] == seconds
        run = typed("train", "p/run.toml", "--engine", "virtual", "--until", "gap < 1e-3", "--out", "r", "--json")
        assert run.json["ended"] == "until"
        assert read_config("r/config.toml").scheme == best["setting"]
        shortest, longest = best["trial"]["band"]  # the first of the trials had the same delays
        assert shortest * (1.0 - 1e-9) <= run.json["seconds"] <= longest * (1.0 + 1e-9)

    @pytest.mark.slow
    @pytest.mark.usefixtures("shop")
    def test_what_was_measured_is_said_and_saying_it_gives_the_same_plan(
        self, typed: Typed, measured: Callable[[float], None]
    ) -> None:
        measured(0.02)
        done = typed("plan", *MODEL, *SHOP, *self.QUICK, *SHORT, "--out", "p")
        assert done.code == 0, done.err
        assert "A task takes 20 ms on this machine (--seconds-per-task 0.02; give another value if your" in done.out
        again = typed("plan", *MODEL, *SHOP, *self.QUICK, *SHORT, "--seconds-per-task", 0.02, "--out", "q")
        assert "on this machine (" not in again.out
        assert Path("p/run.toml").read_text().replace("p/run", "q/run") == Path("q/run.toml").read_text()
        one, other = (json.loads(Path(place, "plan.json").read_text()) for place in "pq")
        assert (one.pop("seconds_per_task_from"), other.pop("seconds_per_task_from")) == ("measured", "option")
        assert one == other

    @pytest.mark.slow
    @pytest.mark.usefixtures("shop")
    def test_what_was_measured_is_taken_out_of_the_times_of_a_trace_as_what_was_said_is(
        self, typed: Typed, measured: Callable[[float], None]
    ) -> None:
        write_rows(1.0 + exponential())
        options = ("--trace", "latencies.csv", *SHOP, *SHORT, *self.QUICK, "--json")
        measured(0.5)
        rows = {row["setting"]: row["seconds_per_step"] for row in typed("plan", *options).json["settings"]}
        said = typed("plan", *options, "--seconds-per-task", 0.5).json["settings"]
        assert rows == {row["setting"]: row["seconds_per_step"] for row in said}

    @pytest.mark.slow
    @pytest.mark.usefixtures("shop")
    def test_a_trace_that_is_shorter_than_computing_is_planned_with_as_if_nothing_had_been_measured(
        self, typed: Typed, measured: Callable[[float], None]
    ) -> None:
        write_rows(exponential())
        measured(0.5)
        done = typed("plan", "--trace", "latencies.csv", *SHOP, *self.QUICK)
        assert done.code == 0, done.err
        assert "of the measured times are shorter than computing their tasks takes on this machine, 500 ms" in done.err
        assert "No setting with more than 3 tasks a worker was tried" in done.out
        assert "--data has it measured" not in done.out
        found = json.loads(Path("runs/plan-1/plan.json").read_text())
        assert (found["seconds_per_task"], found["seconds_per_task_from"]) == (0.0, None)
        assert max(row["load"] for row in found["settings"]) == 3

    @pytest.mark.slow
    @pytest.mark.usefixtures("shop")
    def test_nothing_is_taken_out_of_the_times_of_a_run_on_the_virtual_clock_that_took_computing_for_free(
        self, typed: Typed, measured: Callable[[float], None]
    ) -> None:
        run = ("--engine", "virtual", "-w", 12, "--steps", 40, "--preset", "paper", "-s", "uncoded()")
        assert typed("train", *SHOP, *run, "--delays", "exponential(mean=0.5)", "--out", "r").code == 0
        options = ("plan", "--trace", "r", *SHOP, *SHORT, *self.QUICK, "--json")
        measured(0.5)
        whole = {
            row["setting"]: row["seconds_per_step"] for row in typed(*options, "--scale-with-load").json["settings"]
        }
        done = typed(*options)
        assert done.json["seconds_per_task_from"] == "measured"
        added = {row["setting"]: row["seconds_per_step"] for row in done.json["settings"]}
        assert added["uncoded()"] == pytest.approx(whole["uncoded()"] + 0.5, rel=1e-9)

    @pytest.mark.usefixtures("shop")
    @pytest.mark.slow
    def test_delays_that_grow_with_the_load_have_computing_in_them(
        self, typed: Typed, measured: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(planning, "plan", partial(planning.plan, steps=64))  # a quarter: trials decide here
        write_rows(exponential(steps=60, workers=6))
        measured(0.5)
        options = ("--trace", "latencies.csv", "--scale-with-load", "--late", "carry", *SHOP, "--max-load", 6)
        repeated = other(self.QUICK, "--repeats", 3)  # one draw would be luck
        found = typed("plan", *options, *repeated, "--json").json
        assert (found["seconds_per_task"], found["seconds_per_task_from"]) == (0.0, "delays")
        own = {row["setting"]: row for row in found["settings"] if row["setting"].startswith("adaptive")}
        sums = {row["load"]: row["trial"]["seconds"] for row in own.values() if "multi_message" not in row["setting"]}
        assert set(sums) == {1, 2, 3, 6}
        several = {row["load"] for row in own.values() if "multi_message" in row["setting"]}
        assert several == {2, 3, 4, 5}  # here a message per task may pay, and is tried, too
        assert sums[6] > sums[1]
        assert found["settings"][0]["load"] < 6

    @pytest.mark.slow
    def test_without_data_it_is_said_that_larger_loads_were_not_tried(self, typed: Typed) -> None:
        sentence = (
            "No setting with more than 3 tasks a worker was tried, because the computing time of a task is not known"
        )
        workers = ("--delays", "exponential(mean=0.5)", "--workers", 6, "--no-figures")
        done = typed("plan", *workers)
        assert (
            f"{sentence}: give it with --seconds-per-task, have it measured with --data, or try larger loads anyway"
            in done.out
        )
        for more in (("--seconds-per-task", 0.01), ("--max-load", 2), ("-s", "exact(load=3)")):
            assert sentence not in typed("plan", *workers, *more).out

    def test_processes_that_share_cores_take_longer_than_workers_with_a_core_each(
        self, typed: Typed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = ("--delays", "exponential(mean=0.5)", "--workers", 12, *SHORT, "--no-figures")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
        dear, cheap = (typed("plan", *options, "--seconds-per-task", seconds).out for seconds in (0.1, 1e-5))
        assert "12 processes of this machine share 2 cores: computing a step takes them " in dear
        assert "processes of this machine" not in cheap
        assert "processes of this" not in typed("plan", *options, "--seconds-per-task", 0.1, "--engine", "virtual").out


def test_an_error_as_the_target_with_constants_of_ones_own(typed: Typed) -> None:
    constants = ("--constants", "mu=0.01,beta=1,sigma=5,gap=1")
    done = typed("plan", *MODEL, *SHORT, "--target", "error=1e-6", *constants, "--no-figures")
    assert done.code == 0
    assert "the noise of its gradients keeps the error above" in done.out
    deaf = ("--delays", "exponential(mean=0.5) + late([0,1,2,3])", "--workers", 12)
    settings = ("-s", "ignore_stragglers(wait_for=6)")
    assert "Theorem 1 guarantees this error within" in done.out
    assert "This is an upper bound; the forecast is" in done.out
    none = typed("plan", *deaf, *settings, "--target", "error=1e-6", *constants, "--no-figures", "--out", "q")
    assert none.code == 1
    assert "Every setting waits for workers that never answer, or never counts some task." in none.out
    assert not Path("q").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Exactly one of --trace and --delays must be given"),
        (("--trace", "latencies.csv", "--delays", "none()"), "Exactly one of --trace and --delays must be given"),
        (("--delays", "magic()", "-w", 4), "--delays 'magic()': delays must use known names"),
        (("--trace", "latencies.csv", "-w", 13), "--workers must be at most the 12 workers of the trace, but it is 13"),
        (("--trace", "latencies.csv", "-w", 13), "--keep pooled draws for any number"),
        (("--trace", "latencies.csv", "-w", 1), "--workers must be at least 2, but it is 1"),
        (("--trace", "one.csv"), "one worker has nobody to wait for; --keep pooled"),
        (("--trace", "one.csv", "-w", 4), "--keep pooled draws for any number"),
        (("--trace", "never.csv"), "all of its samples are censored"),
        (("--trace", "forever.csv"), "leave the row out (--absent says what is taken of it)"),
        (("--trace", "latencies.csv", "--absent", "gone"), "--absent must be censored, dead or late, but it is 'gone'"),
        ((*MODEL, "--absent", "dead"), "--absent must come with --trace"),
        (
            (*MODEL, "--speeds", "1,2"),
            "--speeds must be left out of a plan, which tries settings, got '1,2'; -s ",
        ),
        ((*MODEL, "--speeds", "1,x"), "--speeds must be positive numbers with commas between them"),
        ((*MODEL, "--target", "gap=1.5"), "--target must be a fraction of the initial gap, between 0 and 1"),
        ((*MODEL, "--task-noise", -1), "--task-noise must be finite and at least 0"),
        (("--trace", "twice.csv"), "several samples of worker 0 in step 0"),
        (("--trace", "latencies.csv", "--column", "seconds=ms"), "no column 'ms' for 'seconds'; it has worker, step"),
        (("--trace", "negative.csv"), "line 3: seconds must be a finite number of at least 0, but it is -1.0"),
        (("--trace", "absent.csv"), "There is no file 'absent.csv'"),
        (("--trace", "latencies.csv", "--keep", "order"), "--keep must be rounds, workers or pooled"),
        ((*MODEL, "-s", "exact(load=13)"), "exact(load=13)"),
        ((*MODEL, "--current", "magic()"), "magic"),
        ((*MODEL, "--seconds-per-task", -1), "--seconds-per-task must be finite and at least 0, but it is -1.0"),
        ((*MODEL, "--max-load", 0), "--max-load must be at least 1"),
        ((*MODEL, "--late", "never"), "--late must be 'preempt' or 'carry'"),
        ((*MODEL, "--target", "auc=0.9"), "--target must be error=VALUE or gap=VALUE without --data"),
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
    Path("never.csv").write_text("worker,step,seconds,censored\n0,0,1,1\n1,0,2,1\n1,1,1,1\n2,1,2,1\n")
    Path("forever.csv").write_text("worker,step,seconds\n0,0,1\n1,0,inf\n")
    Path("twice.csv").write_text("worker,step,seconds\n0,0,1\n0,0,2\n1,0,2\n")
    Path("negative.csv").write_text("worker,step,seconds\n0,0,1\n1,0,-1\n")
    done = typed("plan", "--no-figures", *(() if "-s" in options else SHORT), *options)
    assert done.code == 2, done.err
    assert done.out == ""
    assert said in done.sentence
    assert done.sentence.startswith("erasurehead: ")


def test_what_is_said_of_faults_and_checkpoints_goes_into_the_run_file(typed: Typed) -> None:
    options = ("--on-suspicion", "replace", "--checkpoint-every", 5, "--l2", 0.5)
    assert typed("plan", *MODEL, *SHORT, "--no-figures", *options, "--out", "p").code == 0
    config = read_config("p/run.toml")
    assert config.faults.on_suspicion == "replace"
    assert config.checkpoints.every_steps == 5
    assert config.problem.l2 == 0.5


def test_an_earlier_plan_is_not_overwritten_by_default(typed: Typed) -> None:
    assert typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p").code == 0
    again = typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p")
    assert again.code == 2
    assert "--out must not hold an earlier plan, got 'p'; add --overwrite" in again.sentence
    assert typed("plan", *MODEL, *SHORT, "--no-figures", "--out", "p", "--overwrite").code == 0


def test_carried_work_takes_longer_and_goes_into_the_run_file(typed: Typed) -> None:
    settings = ("-s", "erasurehead(load=3, wait_for=4)", "--no-figures", "--json")
    dropped = typed("plan", *MODEL, *settings, "--out", "a").json["settings"]
    carried = typed("plan", *MODEL, *settings, "--late", "carry", "--out", "b").json["settings"]
    by_name = [{row["setting"]: row["seconds_per_step"] for row in rows} for rows in (dropped, carried)]
    assert by_name[1]["erasurehead(load=3, wait_for=4)"] > 1.3 * by_name[0]["erasurehead(load=3, wait_for=4)"]
    assert read_config("b/run.toml").delays.late == "carry"


@pytest.mark.slow
def test_what_a_plan_takes_is_said_early_and_refused_where_it_is_too_long(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ("-s", "uncoded", "-s", "exact(load=2)", "--no-figures")
    monkeypatch.setattr(plan_pages, "_LONG", 0.0)
    done = typed("plan", *MODEL, *SHORT, *more, "--out", "said")
    assert done.code == 0
    assert "  it takes about " in done.err
    monkeypatch.setenv("ERASUREHEAD_SECONDS", "1e-3")
    done = typed("plan", *MODEL, *SHORT, *more, "--out", "refused")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("erasurehead: A plan of 5 settings for 12 workers would take about ")
    assert not Path("refused").exists()

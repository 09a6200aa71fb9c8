"""`erasurehead train`: options, run files, what is printed where, and what is left in the folder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from erasurehead.runs import Experiment, RunFolder

from ..run_files import read_config
from ..typed import other
from .shop import SMALL, Typed


def test_a_run_leaves_its_folder_and_says_where(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--label", "bought", *SMALL, "-v")
    assert done.code == 0
    assert "erasurehead: 12 steps in" in done.err
    assert "model and records in runs/shop-erasurehead-1" in done.out
    assert "\ntest rows: auc " in done.out
    assert "6 workers on a virtual clock" in done.err
    names = {path.name for path in Path("runs/shop-erasurehead-1").iterdir()}
    assert names == {
        "config.toml",
        "steps.jsonl",
        "arrivals.jsonl",
        "evaluations.jsonl",
        "model.safetensors",
        "encoding.json",
        "summary.json",
        "checksums.json",
        "checkpoints",
    }
    run = RunFolder.open("runs/shop-erasurehead-1").run
    assert len(run.steps) == 12
    assert run.losses[-1] < run.losses[0]


def test_the_end_says_what_data_what_came_of_it_how_long_it_took_whether_distributing_paid_and_where(
    typed: Typed, shop: Path
) -> None:
    done = typed("train", "--data", shop, "--categorical", "--out", "x")
    data, tested, trained, took, paid, where = done.out.splitlines()
    assert data == "shop: 192 training rows, 48 test rows, 5 columns; bought is no or yes"
    measured = r"auc 0\.\d+, pr_auc 0\.\d+, accuracy 0\.\d+, log_loss 0\.\d+"
    assert re.fullmatch(f"test rows: {measured}", tested)
    assert re.fullmatch(f"training rows: {measured}", trained)
    parts = ", ".join(rf"{part} [\d.]+ m?s" for part in ("reading", "starting", "training", "evaluating"))
    assert re.fullmatch(rf"took [\d.]+ m?s: {parts}", took)
    assert re.fullmatch(r"not distributed: .*", paid)
    assert where == "converged; model and records in x"
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err == f"reading {shop} ...\n"
    told = typed("train", "--data", shop, "--categorical", "--json", "-v")
    assert told.json["training_metrics"].keys() == told.json["metrics"].keys()
    assert f"log_loss {told.json['training_metrics']['log_loss']:.4g}" in trained
    assert told.json["distributing"]["paid"] is None
    assert f"not distributed: {told.json['distributing']['reason'][17:]}" == told.json["distributing"]["reason"]
    assert "in this process" in told.err


@pytest.mark.slow
@pytest.mark.processes
def test_workers_of_their_own_are_weighed_against_this_process_alone(typed: Typed, shop: Path) -> None:
    given = ("train", "--data", shop, "--categorical", "-w", 2)
    told = typed(*given, "--json").json["distributing"]
    assert told["paid"] is (told["seconds"] < told["alone_seconds"]) is False
    assert "distributing did not pay: " in (said := typed(*given, "--delays", "exponential(0.01)", "--steps", 2).out)
    assert " with 2 workers, about " in said
    assert " alone, without the injected delays\n" in said
    assert typed("shard", shop, "--categorical", "--tasks", 2, "--out", "shards").code == 0
    assert "distributing did not pay: " in typed("train", "--data", "shards", "-w", 2).out


def test_json_is_all_that_is_on_stdout(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, *SMALL, "--json", "--out", "mine")
    assert done.json["status"] == "finished"
    assert done.json["folder"] == "mine"
    assert done.json["metrics"]["auc"] > 0.8
    assert done.json["data"]["train_rows"] == 192


def test_what_ends_a_run_early_is_said(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, *SMALL, "--until", "gap < 0.9", "--out", "x")
    assert done.code == 0
    assert "ended because gap < 0.9 was reached, after " in done.out
    assert "converged" not in done.out
    assert "has not converged" not in done.err
    assert RunFolder.open("x").summary["ended"] == "until"
    missed = typed("train", "--data", shop, *SMALL, "--until", "auc > 1", "--out", "y")
    assert (missed.code, "auc > 1 was not reached" in missed.err) == (0, True)
    bad = typed("train", "--data", shop, *SMALL, "--until", "gap")
    assert (bad.code, "--until must be a metric" in bad.sentence) == (2, True)


def test_a_run_that_has_made_the_model_worse_says_so_however_short_it_was(typed: Typed, shop: Path) -> None:
    given = ("--data", shop, "--categorical", "--engine", "virtual", "-w", 3, "-s", "exact(load=3)")
    done = typed("train", *given, "--optimizer", "gradient_descent", "--rate", 1e6, "--steps", 1, "-v")
    assert done.code == 0
    assert "erasurehead: " not in done.sentence
    assert "training has not made the model better: the objective is " in done.err
    assert " after 1 step, and it was 0.69315 at the first model" in done.err
    assert "the step size (--rate) may be too large; it is 1000000.0" in done.err
    assert "exact: 1 step in " in done.err
    for wrong in ("fallen", "more steps", "1 steps"):
        assert wrong not in done.err + done.out


def test_a_limit_that_ends_a_run_at_the_optimum_is_not_said_to_have_ended_it_too_soon(typed: Typed) -> None:
    rows = [(a, a * a % 7, 3 * a - 2 * (a * a % 7) + a % 3) for a in range(60)]
    Path("line.csv").write_text("a,b,y\n" + "".join(f"{a}.5,{b},{y}.5\n" for a, b, y in rows))
    given = ("--data", "line.csv", "--engine", "virtual", "-w", 2, "--json")
    whole = typed("train", *given)
    assert whole.json["ended"] == "converged"
    last_but_one = typed("train", *given, "--steps", whole.json["steps"] - 1)  # the last step only saw that it was over
    assert last_but_one.json["ended"] == "steps"
    assert last_but_one.json["warnings"] == []
    assert typed("train", *given, "--steps", 2).json["warnings"][0].startswith("training has not converged: after 2")


def test_few_rows_are_counted_as_people_do(typed: Typed) -> None:
    Path("few.csv").write_text(
        "a,b,y\n" + "".join(f"{a},{b},{a + 2 * b}.5\n" for a, b in ((1, 2), (2, 2), (3, 4), (4, 1)))
    )
    done = typed("train", "--data", "few.csv", "--engine", "virtual", "-w", 2, "-v")
    assert "few: 3 x 3 for training, 1 row for testing" in done.err
    assert "few: 3 training rows, 1 test row, 2 columns; y is a number\n" in done.out


def test_balanced_classes_are_said_apart_from_the_penalty(typed: Typed, shop: Path) -> None:
    given = ("--categorical", "--engine", "virtual", "--steps", 2, "--class-weight", "balanced", "--l1", 0.01)
    done = typed("train", "--data", shop, *given, "-v")
    assert ", l1 0.01 on all but the intercept, classes balanced, quasi_newton; " in done.err
    assert "starting" not in done.err


def test_quiet_is_quiet_but_for_warnings_which_json_lists_too(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, *SMALL, "--quiet", "--json")
    (warning,) = done.json["warnings"]
    assert warning.startswith("training has not converged: after ")
    assert done.err == f"{warning}\n"
    assert typed("predict", done.json["folder"], shop, "--json").json["warnings"] == []
    Path("other.csv").write_text(shop.read_text().replace("Ely", "Rome", 1))
    other = typed("predict", done.json["folder"], "other.csv", "--json", "-q")
    assert other.json["warnings"] == ["town: 1 of 240 rows have a value that training never saw"]


def test_the_folders_own_file_makes_the_same_run_again(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "first", "--scheme", "exact(load=2)", "--initial", "randn")
    done = typed("train", "first/config.toml", "--out", "second")
    assert done.code == 0
    first, second = RunFolder.open("first"), RunFolder.open("second")
    assert first.x.tobytes() == second.x.tobytes()
    assert first.run.steps == second.run.steps
    assert first.tables == second.tables
    assert first.x.any()


def test_options_go_before_the_file(typed: Typed, shop: Path) -> None:
    Path("run.toml").write_text(
        'scheme = "uncoded"\n[data]\nsource = "shop.csv"\ncategorical = true\n'
        '[run]\nengine = "virtual"\nworkers = 4\nsteps = 9\n'
    )
    done = typed("train", "run.toml", "--steps", 3, "--rate", "geometric(0.5, 0.9)", "--json", "--out", "x")
    assert (done.json["scheme"], done.json["steps"], done.json["workers"]) == ("uncoded", 3, 4)
    config = read_config("x/config.toml")
    assert (config.optimizer.rate, config.delays.model) == ("geometric(0.5, 0.9)", "none()")
    typed("train", "run.toml", "--rate", "0.25", "--out", "y")
    assert read_config("y/config.toml").optimizer.rate == 0.25
    assert config.data.source == str(shop)


def test_a_run_is_replayed_by_its_recorded_arrivals(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "first", "--late", "carry")
    done = typed(
        "train",
        "first/config.toml",
        "--delays",
        "recorded('first/arrivals.jsonl')",
        "--late",
        "preempt",
        "--out",
        "again",
    )
    assert done.code == 0
    assert RunFolder.open("again").x.tobytes() == RunFolder.open("first").x.tobytes()


def test_python_runs_the_same_file(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "typed")
    experiment = Experiment.from_file("typed/config.toml")
    run = experiment.run()
    assert run.x.tobytes() == RunFolder.open("typed").x.tobytes()
    assert experiment.out == Path("runs/shop-erasurehead-1")


def test_a_stand_in_is_used_when_it_is_asked_for(typed: Typed) -> None:
    done = typed(
        "train",
        "--synthetic",
        "always",
        "--rows",
        500,
        "--engine",
        "virtual",
        "--steps",
        5,
        "-s",
        "erasurehead(3, 11)",
        "--json",
    )
    assert done.json["data"]["name"] == "amazon-synthetic"
    config = read_config(Path(done.json["folder"]) / "config.toml")
    assert (config.optimizer.rate, config.delays.model) == (10.0, "exponential(mean=0.5, seed=0)")
    assert config.problem.l2 == pytest.approx(1 / done.json["data"]["train_rows"])


@pytest.mark.slow
def test_a_stand_in_is_announced(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: object, **named: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    options = ("--engine", "virtual", "--steps", 1, "--evaluate-every", 0)
    done = typed("train", *options, "--synthetic", "fallback", "--quiet")
    assert done.code == 0
    assert "The data set amazon is not available here: synthetic data of the same shape are used." in done.err
    refused = typed("train", *options)
    assert refused.code == 2
    assert "There is no amazon data" in refused.sentence


def test_an_earlier_run_is_overwritten_only_when_that_is_said(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, *SMALL, "--out", "x")
    again = typed("train", "--data", shop, *SMALL, "--out", "x")
    assert (again.code, len(RunFolder.open("x").run.steps)) == (2, 12)
    assert "'x' is already in use" in again.sentence
    again = typed("train", "--data", shop, *other(SMALL, "--steps", 4), "--out", "x", "--overwrite")
    assert (again.code, len(RunFolder.open("x").run.steps)) == (0, 4)
    Path("x/precious.txt").write_text("mine")
    again = typed("train", "--data", shop, *SMALL, "--out", "x", "--overwrite")
    assert again.code == 2
    assert "it holds 'precious.txt', which no run wrote" in again.sentence
    assert Path("x/precious.txt").read_text() == "mine"


def test_a_model_that_diverges_ends_with_a_sentence_and_its_records(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, *SMALL, "--loss", "logistic", "--rate", "1e300", "--l2", 1.0, "--out", "x")
    assert done.code == 1
    assert "the model has diverged; take a smaller step size" in done.sentence
    assert "The records so far are in x." in done.err
    assert RunFolder.open("x").summary["status"] == "diverged"


@pytest.mark.parametrize("command", ["train", "compare", "consensus"])
@pytest.mark.slow
def test_what_users_are_warned_of_is_a_sentence_in_every_command(typed: Typed, shop: Path, command: str) -> None:
    """It was a line of Python's, with the path of a module and a line of its code."""
    rows = [f"{worker},{step},{0.1 * (worker + 1)}\n" for step in range(9) for worker in range(4) if step < 7 or worker]
    Path("gaps.csv").write_text("worker,step,seconds\n" + "".join(rows))
    virtual = ("--workers", 4, "--engine", "virtual")
    short = {"compare": (*virtual, "--no-figures"), "consensus": ("--peers", 4, "--no-pictures")}.get(command, virtual)
    given = ("--data", shop, "--categorical", "--delays", "bootstrap('gaps.csv')", "--steps", 2, *short)
    done = typed(command, *given, "--quiet")
    assert done.code == 0, done.err
    assert done.err.splitlines()[0] == "gaps.csv: 2 of 9 steps lack some workers."
    assert done.err.count("some workers") == 1
    assert ".py" not in done.err


@pytest.mark.slow
def test_the_penalty_is_tuned_on_wish(typed: Typed, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 12))
    lines = [",".join(f"{value:.4f}" for value in row) + f",{row[0] + rng.standard_normal():.4f}\n" for row in X]
    Path("noisy.csv").write_text("".join(lines))
    done = typed("train", "--data", "noisy.csv", "--l2", "tuned", "--out", "a", "--json")
    assert "looking for the best l2 by 5-fold cross-validation" in done.err
    assert "5-fold cross-validation on the training rows: loss" in done.err
    assert done.json["l2"]["l2"] == read_config(Path("a/config.toml")).problem.l2
    assert done.json["wall"]["tuning_seconds"] > 0
    typed("shard", "noisy.csv", "--tasks", 3, "--out", "shards")
    assert "--l2 must be a number for folders" in typed("train", "--data", "shards", "--l2", "tuned").sentence
    told = typed("consensus", "--data", "noisy.csv", "--l2", "tuned", "--out", "b", "--peers", 3, "--steps", 5).err
    assert f"l2 {done.json['l2']['l2']:.3g}, the best" in told
    asked = ("consensus", "--data", "mnist", "--synthetic", "always", "--model", "network", "--l2", "tuned")
    assert "--l2 must be a number for a network" in typed(*asked).sentence

"""What is wrong is said of the option that the user typed, or of the key in the run file, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from .shop import SMALL, Typed

SHOP = ("--data", "shop.csv", "--categorical")
TRAIN, COMPARE, SHARD = ("train", *SHOP), ("compare", *SHOP), ("shard", "shop.csv", "--tasks", 3, "--out", "new")
PLAN = ("plan", "--delays", "exponential(0.5)", "--workers", 6)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((*TRAIN, "--one-hot", "city"), "--one-hot must name columns of shop.csv"),
        ((*TRAIN, "--label", "profit"), "--label must name columns of shop.csv"),
        ((*TRAIN, "--one-hot", "bought"), "--one-hot must not name the column of the labels"),
        ((*COMPARE, "--label", "profit"), "--label must name columns of shop.csv"),
        ((*COMPARE, "--target", "profit"), "--target must be a metric and a value"),
        ((*TRAIN, "--path", "x"), "--path is for the data sets amazon"),
        ((*TRAIN, "--workers", 250, "--scheme", "uncoded"), "--scheme 'uncoded' with 250 workers: the number of its"),
        ((*TRAIN, "--delays", "late([0])", "--scheme", "uncoded"), "--delays must let uncoded meet its wait rule"),
        ((*TRAIN, "--wire", "cast('int8')"), "--wire \"cast('int8')\": dtype must be one of"),
        ((*COMPARE, "--wire", "top"), "--wire must use known names"),
        ((*TRAIN, "--late", "drop(x)"), "--late must be 'preempt' or 'carry' or 'drop(R)'"),
        ((*PLAN, "--late", "drop"), "--late must be 'preempt' or 'carry' or 'drop(R)'"),
        ((*TRAIN, "--rate", "geometric(0.1, 2)"), "--rate 'geometric(0.1, 2)': factor must lie in"),
        (("data", "shop.csv", "--one-hot", "city"), "--one-hot must name columns"),
        ((*SHARD[:2], "--tasks", 0, "--out", "new"), "--tasks must be at least 1"),
        ((*SHARD, "--one-hot", "city"), "--one-hot must name columns"),
        ((*SHARD, "--interaction", "age"), "--interaction must combine two or more"),
        ((*SHARD, "--categorical", "--loss", "magic"), "--loss must be one of logistic"),
        ((*SHARD, "--test-fraction", 3), "--test-fraction must lie in"),
        (SHARD[:2], "--tasks must be given; try --tasks 30"),
        (("drill", "--seed", -1), "--seed must be at least 0"),
        (("drill", "--seconds", 0), "--seconds must be a positive number"),
        (("drill", "--delays", "nope()"), "--delays 'nope()': delays must use known names"),
        (("drill", "--schedule", "nofile.toml"), "The schedule file 'nofile.toml' cannot be read: No such file"),
        (("drill", "--schedule", "shop.csv"), "The schedule file 'shop.csv' is not TOML"),
        (("drill", "--schedule", "."), "The schedule file '.' is a folder. Name a file."),
        (("drill", "--out", "shop.csv"), "--out must be an empty folder, or one that does not exist yet"),
        (("drill", "--out", "/proc/x"), "The drill's folder '/proc/x' cannot be written to: nothing can be made in"),
        ((*PLAN, "--current", "magic"), "--current must use known names"),
        ((*PLAN, *SHOP, "--target", "speed=3"), "--target must name a metric of the problem"),
        (("plan",), "Exactly one of --trace and --delays must be given."),
        (("reproduce", "erasurehead", "--synthetic", "always", "--rows", -3), "--rows must be at least 1"),
        (("reproduce", "erasurehead", "--engine", "mpi"), "--engine must be one of virtual, processes"),
        (("codes", "show", "magic"), "CODE must be a code of the catalogue"),
        (("delays", "show", "magic()"), "TRACE|MODEL 'magic()': delays must use known names"),
        (("resize", "x", "--workers", 3), "There is no option --workers here: type erasurehead resize RUN WORKERS."),
        (("predict", "x", "y", "--out", "z"), "There is no option --out here: to have a file of what is printed, type"),
        (
            ("train", *SHOP, "--loss", "poisson"),
            "shop.csv, line 2: the label 'bought', 'yes', is not a number; leave the",
        ),
        (("consensus", "--graph", "edges(['a-b', 'c-d'])"), "--graph \"edges(['a-b', 'c-d'])\": the graph edges("),
        (("resize", "nowhere", 0), "WORKERS must be at least 1"),
        (("resize", "nowhere", 3), "'nowhere' is not a run folder: it does not exist."),
        (("resize", "shop.csv", 3), "'shop.csv' is not a run folder: it is a file."),
        (("consensus", "--graph", "magic()"), "--graph must use known names"),
        (("consensus", "--policy", "static(wait_for=99)"), "--policy 'static(wait_for=99)': wait_for must be at most"),
        (("consensus", "--rate", "fast"), "--rate must use known names"),
        (("drill", "--kinds", "corrupt", "--scheme", "uncoded", "--workers", 6), "--kinds must not be corrupt alone"),
        (("drill", "peers", "--policy", "static(wait_for=99)"), "--policy 'static(wait_for=99)': wait_for must be at"),
        (("drill", "peers", "--peers", 3), "--peers must be at least 4, but it is 3"),
    ],
)
def test_the_option_is_named(typed: Typed, command: tuple[object, ...], said: str) -> None:
    done = typed(*command)
    assert done.code == 2, done.err
    assert done.sentence.startswith(f"erasurehead: {said}"), done.sentence
    assert "None" not in done.sentence.partition(";")[0]


@pytest.mark.usefixtures("shop")
def test_a_column_of_texts_names_the_options_that_help(typed: Typed) -> None:
    hint = "; name the column in one_hot (--one-hot), or use categorical (--categorical), if its values are categories."
    for command in ("train", "compare"):
        assert typed(command, "--data", "shop.csv").sentence.endswith(hint)
    assert typed("shard", "shop.csv", "--tasks", 3, "--out", "new").sentence.endswith(hint)


def test_a_folder_that_cannot_be_written_to_has_a_remedy(typed: Typed) -> None:
    assert typed("drill", "--out", "/proc/x").sentence.endswith("; name another one (--out).")


@pytest.mark.usefixtures("shop")
def test_what_stands_in_a_run_file_is_named_as_there(typed: Typed) -> None:
    Path("run.toml").write_text('[data]\nsource = "shop.csv"\none_hot = ["city"]\n[optimizer]\nrate = "fast"\n')
    said = "erasurehead: run.toml, line 5: optimizer.rate must use known names"
    assert typed("train", "run.toml").sentence.startswith(said)
    assert typed("train", "run.toml", "--rate", "slow").sentence.startswith("erasurehead: --rate must use known names")
    assert typed("train", "run.toml", "--rate", 1).sentence.startswith(
        "erasurehead: run.toml, line 3: data.one_hot must name columns of shop.csv, got 'city' (in [\"city\"]);"
    )


@pytest.mark.usefixtures("shop")
def test_a_run_that_goes_on_takes_options_and_keys_likewise(typed: Typed) -> None:
    assert typed("train", *SHOP, *SMALL[1:], "--out", "run", "--keep-checkpoints").code == 0
    assert typed("train", "--resume", "run", "--steps", 2).sentence.startswith("erasurehead: --steps must be more than")
    assert typed("train", "--resume", "run").sentence.startswith("erasurehead: run/config.toml, line")


def test_all_places_of_public_data_are_named(typed: Typed) -> None:
    done = typed("data")
    for way in (
        "--path",
        "ERASUREHEAD_DATA",
        "scikit_learn_data",
        "SCIKIT_LEARN_DATA",
        "network",
        "--synthetic always",
    ):
        assert way in done.out

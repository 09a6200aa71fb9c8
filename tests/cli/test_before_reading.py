"""What can be known before data are read is refused before: here they are not there, and nobody finds that out."""

from __future__ import annotations

from pathlib import Path

import pytest

from .shop import Typed

NOWHERE = ("--data", "nowhere.csv")
PLAN = ("plan", "--delays", "exponential(0.5)", "--workers", 6)
TRACE = ("plan", "--trace", "nowhere.csv", "--workers", 6)
SHARD = ("shard", "nowhere.csv", "--tasks", 3, "--out", "new")

RUNS = [
    (("--scheme", "magic"), "--scheme must use known names"),
    (("--scheme", "exact(load=99)"), "--scheme 'exact(load=99)': load must be at most"),
    (("--scheme", "asynchronous()"), "--late must be 'carry', or 'drop(R)'"),
    (
        ("--scheme", "ringmaster(threshold=9)", "--late", "carry", "--optimizer", "quasi_newton"),
        "--scheme must be one that waits for whole gradients with QuasiNewton",
    ),
    (("--rate", "fast"), "--rate must use known names"),
    (("--rate", -1), "--rate must be a positive finite number"),
    (("--momentum", 0.5), "--momentum is for heavy_ball only"),
    (("--delays", "nope()"), "--delays 'nope()': delays must use known names"),
    (("--delays", "late([0])", "--scheme", "uncoded"), "--delays must let uncoded meet its wait rule"),
    (("--wire", "top"), "--wire must use known names"),
    (("--scheme", "uncoded", "--verify"), "fault_policy.verify (--verify) must have messages to compare"),
    (("--until", "soon"), "--until must be a metric, one of < <= > >=, and a number"),
    (("--until", "speed < 3"), "--until must name a metric that is measured"),
    (("--until", "auc > 0.8", "--loss", "least_squares"), "--until must name a metric that is measured"),
    (("--class-weight", "balanced", "--loss", "least_squares"), "--class-weight must be left out for targets"),
    (("--initial", "absent"), "--initial must be zeros, randn or the folder of a run"),
    (("--address", "auto"), "--address is for the engine ray"),
    (("--path", "x"), "--path is for the data sets amazon"),
]
SETTINGS = [
    (("--scheme", "magic"), "--scheme must use known names"),
    (("--scheme", "exact(load=7)"), "--scheme 'exact(load=7)': load must be at most"),
    (("--current", "magic"), "--current must use known names"),
]
PLANS = [
    (("--max-load", 0), "--max-load must be at least 1"),
    (("--task-noise", -1), "--task-noise must be finite and at least 0"),
    (("--rate", "fast"), "--rate must use known names"),
    (("--wire", "top"), "--wire must use known names"),
    (("--until", "speed < 3"), "--until must name a metric that is measured"),
    (("--initial", "absent"), "--initial must be zeros, randn or the folder of a run"),
    (("--address", "auto"), "--address is for the engine ray"),
]
OF_DATA = [
    ("--sample", 10),
    ("--sample", 0),
    ("--repeats", 2),
    ("--label", "y"),
    ("--drop", "a"),
    ("--one-hot", "a"),
    ("--delimiter", "tab"),
    ("--test-fraction", 0.3),
    ("--path", "x"),
    ("--rows", 100),
    ("--synthetic", "always"),
    ("--data-at", "x"),
    ("--categorical",),
    ("--header", "no"),
    ("--names", "a,b"),
    ("--decimal", ","),
    ("--quotes", "none"),
    ("--missing", "-999"),
]
OF_TRACES = [
    ("--keep", "pooled"),
    ("--absent", "late"),
    ("--column", "seconds=ms"),
    ("--where", "a=b"),
    ("--unit", "ms"),
    ("--scale-with-load",),
]
PEERS = [
    (("--graph", "magic()"), "--graph must use known names"),
    (("--policy", "static(wait_for=99)"), "--policy 'static(wait_for=99)': wait_for must be at most"),
    (("--mixing", "magic"), "--mixing must be one of metropolis"),
    (("--algorithm", "magic"), "--algorithm must use known names"),
    (("--split", "dirichlet(alpha=-1)"), "--split 'dirichlet(alpha=-1)': alpha must be"),
    (("--rate", "fast"), "--rate must use known names"),
    (("--delays", "nope()"), "--delays 'nope()': delays must use known names"),
    (("--faults", "absent.toml"), "The schedule file 'absent.toml' cannot be read"),
    (("--model-of", 99), "--model-of must be a peer, 0 to 9"),
    (("--model", "linear", "--hidden", 4), "--hidden must be 0 for a linear model"),
    (("--class-weight", "balanced", "--loss", "least_squares"), "--class-weight must be left out for targets"),
]
SHARDS = [
    (("--loss", "magic"), "--loss must be one of logistic"),
    (("--test-fraction", 3), "--test-fraction must lie in"),
    (("--seed", -1), "--seed must be at least 0"),
    (("--delimiter", "xx"), "--delimiter must be one character"),
    (("--header", "perhaps"), "--header must be yes or no"),
    (("--names", "a,b,a"), "--names must give each column a name of its own"),
    (("--decimal", ";"), "--decimal must be . or ,"),
    (("--quotes", "single"), "--quotes must be one of doubled, backslash, none"),
]
DRILLS = [
    (("--scheme", "magic"), "--scheme must use known names"),
    (("--delays", "nope()"), "--delays 'nope()': delays must use known names"),
    (("--seconds", 0), "--seconds must be a positive number"),
    (("--kinds", "magic"), "--kinds must be among kill"),
]


def refused(typed: Typed, said: str, *words: object) -> None:
    """Assert that a command is refused with one sentence, which begins so, and that nothing was read or made."""
    done = typed(*words)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith(f"erasurehead: {said}"), done.err
    assert "There is no file 'nowhere.csv'" not in done.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(("options", "said"), RUNS)
def test_a_run(typed: Typed, command: str, options: tuple[object, ...], said: str) -> None:
    refused(typed, said, command, *NOWHERE, *options)


def test_every_scheme_of_a_comparison(typed: Typed) -> None:
    schemes = ("-s", "uncoded", "-s", "cyclic")
    refused(typed, "--scheme must use known names", "compare", *NOWHERE, *schemes)
    lives_on_late_work = ("-s", "uncoded", "-s", "asynchronous()")
    refused(typed, "--late must be 'carry', or 'drop(R)'", "compare", *NOWHERE, *lives_on_late_work)


@pytest.mark.parametrize("begin", [(*PLAN, *NOWHERE), TRACE, PLAN])
@pytest.mark.parametrize(("options", "said"), PLANS)
def test_a_plan(typed: Typed, begin: tuple[object, ...], options: tuple[object, ...], said: str) -> None:
    refused(typed, said, *begin, *options)


@pytest.mark.parametrize("begin", [(*PLAN, *NOWHERE), PLAN])
@pytest.mark.parametrize(("options", "said"), SETTINGS)
def test_settings_that_a_plan_tries(
    typed: Typed, begin: tuple[object, ...], options: tuple[object, ...], said: str
) -> None:
    refused(typed, said, *begin, *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--repeats", 0), "--repeats must be at least 1"),
        (("--sample", 0), "--sample must be at least 1"),
        (("--target", "speed=3"), "--target must name a metric of the problem"),
        (("--target", "auc=0.9", "--loss", "least_squares"), "--target must name a metric of the problem"),
    ],
)
def test_what_a_plan_tries_on_data(typed: Typed, options: tuple[object, ...], said: str) -> None:
    refused(typed, said, *PLAN, *NOWHERE, *options)


@pytest.mark.parametrize("option", OF_DATA)
@pytest.mark.parametrize("begin", [PLAN, TRACE])
def test_an_option_about_data_needs_data(typed: Typed, begin: tuple[object, ...], option: tuple[object, ...]) -> None:
    refused(typed, f"{option[0]} must come with --data", *begin, *option)


def test_what_needs_data_is_quoted_as_it_was_written(typed: Typed) -> None:
    refused(typed, "--interaction must come with --data, got 'a,b'", *PLAN, "--interaction", "a,b")


@pytest.mark.parametrize("option", OF_TRACES)
def test_an_option_about_traces_needs_a_trace(typed: Typed, option: tuple[object, ...]) -> None:
    refused(typed, f"{option[0]} must come with --trace", *PLAN, *option)


@pytest.mark.parametrize("option", [("--label", "y"), ("--drop", "a"), ("--one-hot", "a"), ("--categorical",)])
def test_an_option_about_a_file_needs_a_file(typed: Typed, option: tuple[object, ...]) -> None:
    refused(typed, f"{option[0]} must come with a file to be read", "data", *option)
    if option[0] != "--categorical":
        refused(typed, f"{option[0]} is for files of your own, not for 'mnist'", "consensus", *option)
    refused(typed, f"{option[0]} is for files of your own, not for 'amazon'", "train", *option[:2])


@pytest.mark.parametrize(("options", "said"), PEERS)
def test_a_run_without_a_coordinator(typed: Typed, options: tuple[object, ...], said: str) -> None:
    refused(typed, said, "consensus", *NOWHERE, *options)


@pytest.mark.parametrize(("options", "said"), SHARDS)
def test_shards(typed: Typed, options: tuple[object, ...], said: str) -> None:
    refused(typed, said, *SHARD, *options)


@pytest.mark.parametrize(("options", "said"), DRILLS)
def test_a_drill(typed: Typed, options: tuple[object, ...], said: str) -> None:
    refused(typed, said, "drill", *NOWHERE, *options)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("drill", "peers"), ("--records", "optional")),
        (("drill", "peers"), ("--on-suspicion", "replace")),
        (("drill", "peers"), ("--data", "shop.csv")),
        (("drill", "peers"), ("--categorical",)),
        (("drill", "peers"), ("--figures",)),
        (("drill", "lives", 2), ("--figures",)),
        (("drill", "lives", 2), ("--seconds", 60)),
        (("drill", "lives", 2), ("--schedule", "faults.toml")),
    ],
)
def test_a_drill_takes_nothing_that_it_would_not_heed(
    typed: Typed, command: tuple[object, ...], option: tuple[object, ...]
) -> None:
    done = typed(*command, *option)
    assert done.code == 2
    assert f"No such option: {option[0]}" in done.err
    assert not done.out


def test_a_fit_and_a_reproduction(typed: Typed) -> None:
    refused(typed, "--family must be one of exponential", "delays", "fit", "nowhere.csv", "--family", "magic")
    refused(typed, "--rows is for synthetic data only", "reproduce", "erasurehead", "--rows", 3)


def test_the_columns_of_several_files_are_checked_before_the_first_is_read(typed: Typed) -> None:
    refused(typed, "--label is for files of your own", "data", "nowhere.csv", "amazon", "--label", "y")

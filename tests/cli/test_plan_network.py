"""`erasurehead plan-network` as it is typed: a ranking with ranges and reasons; bad input is said."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Trace

from .shop import Typed

LAW = ("--delays", "exponential(mean=0.2)", "--ranks", 8)
STEP = ("--seconds-per-sample", 0.002, "--batch", 400)


def trace(ranks: int = 8, computing: float = 0.1) -> str:
    Trace.from_table(computing + delays.Exponential(0.2, seed=3).rows(0, 200, ranks)).write("latencies.csv")
    return "latencies.csv"


def test_a_law_gives_a_ranking_with_ranges_and_what_to_write(typed: Typed) -> None:
    done = typed("plan-network", *LAW, *STEP)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[3].startswith("busy")
    assert " to " in lines[3]
    assert "busy, in a script: as it is" in done.out
    assert "times as fast as waiting for all" in done.out
    assert "busy: Nobody waits" in done.out
    assert "from about a half on, a code can pay" in " ".join(lines)


def test_a_code_of_which_no_range_is_known_is_told_without_one(typed: Typed) -> None:
    said = typed("plan-network", *LAW, "--seconds-per-sample", 0.0001, "--batch", 400).out
    assert " times as fast as waiting for all.\n" in said
    assert "exact(load=8): 8 ranks have the same shares" in said
    assert "all but one of them may be late." in " ".join(said.split())


def test_what_is_computed_is_subtracted_from_a_trace(typed: Typed) -> None:
    found = typed("plan-network", "--trace", trace(), *STEP, "--json").json
    law = typed("plan-network", *LAW, *STEP, "--json").json
    assert found["best"] == law["best"] == "busy"
    assert found["ranks"] == 8
    of_all = [next(way["seconds"] for way in each["ways"] if way["name"] == "wait for all") for each in (found, law)]
    assert of_all[0] == pytest.approx(of_all[1], rel=0.1)


def test_ranks_may_differ(typed: Typed) -> None:
    each = ",".join(["0.004", "0.002", "0.002", "0.002"])
    rows = np.array([0.4, 0.2, 0.2, 0.2]) + delays.Exponential(0.01, seed=3).rows(0, 100, 4)
    Trace.from_table(rows).write("latencies.csv")
    found = typed(
        "plan-network", "--trace", "latencies.csv", "--seconds-per-sample", each, "--batch", 400, "--json"
    ).json
    assert "shares by speed" in [way["name"] for way in found["ways"]]
    assert not found["warnings"][1:]


def test_computing_longer_than_the_trace_is_said(typed: Typed) -> None:
    done = typed("plan-network", "--trace", trace(), "--seconds-per-sample", 0.01, "--batch", 400)
    assert "shorter than computing --seconds-per-sample says" in done.err
    assert "--seconds-per-task" not in done.err


def test_waiting_for_all_is_advised_where_nothing_is_worth_a_change(typed: Typed) -> None:
    done = typed("plan-network", "--delays", "exponential(mean=0.0001)", "--ranks", 4, *STEP)
    assert "Wait for all, with DistributedDataParallel: no other way is worth a change here." in done.out


def test_a_rank_that_never_answers_is_told_without_numbers_that_are_none(typed: Typed) -> None:
    done = typed("plan-network", "--delays", "late([1])", "--ranks", 4, *STEP)
    assert "Waiting for all would never end a step." in done.out
    assert "Some rank never answers, and a step never ends." in done.out
    assert not {"inf", "nan", "inf."} & set(done.out.split())


def test_what_may_never_get_there_is_not_0_times_as_fast(typed: Typed) -> None:
    slow = ("--optimizer", "adamw", "--model-bytes", "40e6", "--mbit", 20)
    done = typed("plan-network", "--delays", "exponential(mean=0.01)", "--ranks", 8, *STEP, *slow)
    assert "times at most, and never at worst, by how many samples networks have needed" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--delays", "none()", "--ranks", 8, "--seconds-per-sample", 0, "--batch", 64),
            "--seconds-per-sample must be greater than 0 where delays and sending take no time, either",
        ),
        (("--delays", "late([0, 1])", "--ranks", 2, *STEP), "--delays must have a rank that answers"),
        (STEP, "Exactly one of --trace and --delays must be given."),
        ((*LAW, "--trace", "latencies.csv", *STEP), "Exactly one of --trace and --delays must be given."),
        (("--delays", "exponential(mean=0.2)", *STEP), "--delays needs --ranks: of how many?"),
        ((*LAW, "--batch", 400), "Missing option '--seconds-per-sample'"),
        ((*LAW, "--seconds-per-sample", 0.002), "Missing option '--batch'"),
        ((*LAW, "--seconds-per-sample", "fast", "--batch", 400), "--seconds-per-sample must be a number of seconds"),
        ((*LAW, "--seconds-per-sample", "1,2", "--batch", 400), "one for each of 8 ranks"),
        (
            (*LAW, *STEP, "--mbit", 0, "--model-bytes", "4e7"),
            "--mbit must be a number of million bits a second",
        ),
        ((*LAW, *STEP, "--mbit", 20), "--model-bytes must be given where lines are slow"),
        ((*LAW, *STEP, "--optimizer", "sgd"), "--optimizer must be 'momentum' or 'adamw'"),
        ((*LAW, "--seconds-per-sample", 0.002, "--batch", 4), "--batch must be at least 8"),
        ((*LAW, "--seconds-per-sample", 0.002, "--batch", 0), "--batch must be at least 8"),
        ((*LAW, *STEP, "--keep", "pooled"), "--keep must come with --trace"),
        ((*LAW, *STEP, "--unit", "ms"), "--unit must come with --trace"),
        (("--trace", "latencies.csv", "--ranks", 12, *STEP), "--ranks must be at most the 8 workers of the trace"),
        (("--trace", "latencies.csv", "--keep", "all", *STEP), "--keep must be 'rounds', 'workers' or 'pooled'"),
        (("--trace", "nowhere.csv", *STEP), "nowhere.csv"),
        (
            ("--trace", "latencies.csv", "--seconds-per-sample", "1,2", "--batch", 400),
            "must be one number, or one for each of the 8 ranks of the trace",
        ),
    ],
)
def test_bad_input_is_said(typed: Typed, words: tuple[object, ...], said: str) -> None:
    trace()
    done = typed("plan-network", *words)
    assert done.code == 2
    assert said in done.err


def test_a_trace_serves_more_ranks_than_it_has_if_they_are_alike(typed: Typed) -> None:
    found = typed("plan-network", "--trace", trace(), "--ranks", 12, "--keep", "pooled", *STEP, "--json").json
    assert found["ranks"] == 12

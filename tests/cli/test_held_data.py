"""What redundant data cost is said before a run, in a comparison and in a plan, and is in their JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead.datasets import Dataset
from erasurehead.runs import Experiment

from .shop import SMALL, Typed


def test_a_run_says_it_where_redundancy_is_used(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--label", "bought", *SMALL, "--scheme", "exact(load=2)", "--json")
    assert "each worker holds 2 of 6 tasks: " in done.err
    assert done.json["held"]["tasks"] == 2
    assert done.json["held"]["of"] == 6
    assert done.json["held"]["bytes"] == pytest.approx(2 * done.json["held"]["share"], abs=1)
    plain = typed("train", "--data", shop, "--label", "bought", *SMALL, "--scheme", "uncoded", "--json")
    assert "each worker holds" not in plain.err
    assert plain.json["held"] is None


def test_of_a_folder_of_shards_they_are_those_of_its_files(typed: Typed, shop: Path) -> None:
    made = typed("shard", shop, "--label", "bought", "--categorical", "--tasks", 4, "--out", "sharded")
    assert made.code == 0
    experiment = Experiment.from_config(
        {"data": {"source": "sharded"}, "scheme": "exact(load=2)", "run": {"engine": "virtual", "workers": 4}}
    )
    files = sum(path.stat().st_size for path in Path("sharded").glob("task-*"))
    assert experiment.held is not None
    assert 0.4 * files <= experiment.held.bytes <= 0.6 * files
    assert not isinstance(experiment.data, Dataset)


def test_a_comparison_says_it_of_each_scheme(typed: Typed, shop: Path) -> None:
    schemes = ("-s", "uncoded", "-s", "exact(load=2)", "--no-figures", "--no-alone")
    done = typed("compare", "--data", shop, "--label", "bought", *SMALL, *schemes, "--json")
    assert done.err.count("; each worker holds 2 of 6 tasks: ") == 1
    none, held = done.json["held"]
    assert none is None
    assert held["tasks"] == 2


@pytest.mark.slow
def test_a_plan_says_it_of_the_setting_that_it_advises(typed: Typed, shop: Path) -> None:
    words = (
        "--delays",
        "exponential(mean=0.5)",
        "-w",
        "6",
        "--scheme",
        "exact(load=2)",
        "--no-figures",
        "--out",
        "plan",
    )
    done = typed("plan", "--data", shop, "--label", "bought", "--categorical", *words, "--json")
    held = done.json["held"]
    assert (held["tasks"], held["of"]) == (2, 6)
    shown = typed("plan", "--data", shop, "--label", "bought", "--categorical", *words, "--overwrite")
    assert "What that takes: each worker holds 2 of 6 tasks: " in shown.out

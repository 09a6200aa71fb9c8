"""`erasurehead shard` as a user types it, and training from what it makes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from erasurehead.datasets._sharded.placement import described
from erasurehead.errors import InvalidArgument
from erasurehead.problems import ShardedProblem
from erasurehead.runs import Experiment, RunFolder

from .shop import SMALL, Typed

RUN = SMALL[1:]  # the columns are fixed in the shards


@pytest.mark.usefixtures("shop")
def test_training_from_shards_gives_the_model_of_the_file(typed: Typed) -> None:
    made = typed("shard", "shop.csv", "--label", "bought", "--categorical", "--tasks", 12, "--out", "shards")
    assert made.code == 0
    assert "shop: logistic, 192 x 6 for training, 48 rows for testing" in made.out
    assert "12 shards of 16 rows, sparse" in made.out
    assert typed("train", "--data", "shop.csv", *SMALL, "--out", "a").code == 0
    done = typed("train", "--data", "shards", *RUN, "--out", "b", "--json")
    assert done.code == 0
    one, other = RunFolder.open("a"), RunFolder.open("b")
    np.testing.assert_array_equal(one.x, other.x)
    assert one.summary["metrics"] == other.summary["metrics"] == done.json["metrics"]
    assert other.encoding.to_json() == one.encoding.to_json()
    assert "12 shards of" in done.err
    assert typed("predict", "b", "shop.csv").out == typed("predict", "a", "shop.csv").out


def test_shards_keep_the_loss_that_they_were_made_for(typed: Typed) -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 60, 120)
    lines = [f"{age},{rng.poisson(np.exp(age / 30))}" for age in ages]
    Path("visits.csv").write_text("\n".join(["age,visits", *lines]) + "\n")
    made = typed("shard", "visits.csv", "--loss", "poisson", "--tasks", 4, "--out", "shards")
    assert "visits: poisson, 96 x 2 for training" in made.out
    assert "least_squares" not in made.out
    where = ("--engine", "virtual", "--workers", 4)
    of_shards = typed("train", "--data", "shards", *where, "--out", "a", "-v")
    of_file = typed("train", "--data", "visits.csv", "--loss", "poisson", *where, "--out", "b", "-v")
    for done in (of_shards, of_file):
        assert "visits is a number (poisson)" in done.out
        assert "least_squares" not in done.out + done.err
    np.testing.assert_array_equal(RunFolder.open("a").x, RunFolder.open("b").x)
    assert typed("train", "--data", "shards", "--loss", "least_squares", *where, "--out", "c").code == 0
    assert ShardedProblem("shards").sample_loss.name == "poisson"


@pytest.mark.usefixtures("shop")
def test_training_computes_where_the_shards_are(typed: Typed) -> None:
    held = {"node1": [0, 1, 2, 3], "node2": [2, 3, 4, 5], "node3": [4, 5, 0, 1]}
    Path("hosts.json").write_text(json.dumps(held))
    made = typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--out", "shards", "--placement", "hosts.json")
    assert made.code == 0
    assert "3 machines: any 1 of them may be late or missing, as every task is on 2" in made.out
    where = ("--engine", "virtual", "--steps", 5)
    done = typed("train", "--data", "shards", *where, "--out", "a")
    assert done.code == 0
    code = Path("a/config.toml").read_text()
    assert "placed(held=[[0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 4, 5]], stragglers=1)" in code
    assert "hosts" not in code  # they are not this machine's
    assert typed("train", "--data", "shards", *where, "--scheme", "uncoded()", "--workers", 2, "--out", "b").code == 0
    wrong = typed("train", "--data", "shards", *where, "--workers", 2, "--out", "c")
    assert wrong.code == 2
    assert "workers must be 3, the number of machines" in wrong.err

    Path("hosts.json").write_text(json.dumps({"node1": [0, 1, 2], "node2": [2, 3, 4, 5]}))
    again = typed("shard", "shards", "--placement", "hosts.json", "--json")
    assert again.json["placement"] == {"node1": [0, 1, 2], "node2": [2, 3, 4, 5]}
    assert described(again.json["placement"]) == (
        "2 machines: none of them may be late or missing, as tasks 0, 1, 3, 4, 5 are on one alone"
    )
    assert typed("shard", "--check", "shards").code == 0


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": [0, 1], "b": [1, 2]}', "must name every task, but no machine has tasks 3, 4, 5. Name the"),
        ('{"a": [0, 1, 2, 3, 4, 6]}', "must name tasks from 0 to 5"),
        ('{"a": "all"}', "placement['a'] must"),
        ("[0, 1]", "must be a file of JSON that names the tasks of each machine"),
        ("{", "must be a file of JSON that names the tasks of each machine"),
        ("[" * 100_000, "must be a file of JSON that names the tasks of each machine"),
    ],
)
def test_placements_that_do_not_fit_are_refused_before_anything_is_read(typed: Typed, text: str, what: str) -> None:
    Path("hosts.json").write_text(text)
    made = typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--out", "shards", "--placement", "hosts.json")
    assert made.code == 2
    assert what in " ".join(made.err.split())
    assert not Path("shards").exists()


@pytest.mark.usefixtures("shop")
def test_workers_see_the_folder_elsewhere(typed: Typed) -> None:
    typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--out", "shards")
    Path("elsewhere").mkdir()
    for file in Path("shards").glob("task-*"):
        file.rename(Path("elsewhere") / file.name)
    rate = ("--rate", 1.0)  # the default rate would be found from the data, which are not here
    assert typed("train", "--data", "shards", "--data-at", "elsewhere", *rate, *RUN, "--out", "run").code == 0
    config = RunFolder.open("run").tables
    assert config["data"]["worker_path"] == "elsewhere"
    finds_steps = tuple(option for option in RUN if option not in ("--preset", "paper"))
    assert typed("train", "--data", "shards", "--data-at", "elsewhere", *finds_steps, "--out", "third").code == 0
    refused = typed("train", "--data", "shards", "--data-at", "elsewhere", *RUN, "--out", "other")
    assert refused.code == 2
    assert "task-00000.safetensors is missing" in refused.sentence
    assert "--rate" in refused.sentence


@pytest.mark.usefixtures("shop")
def test_the_options_of_the_encoding(typed: Typed) -> None:
    facts = typed(
        "shard",
        "shop.csv",
        "--one-hot",
        "town,age",
        "--interaction",
        "town,age",
        "--no-constant",
        "--no-standardize",
        "--loss",
        "softmax",
        "--test-fraction",
        0,
        "--tasks",
        5,
        "--out",
        "shards",
        "--json",
    ).json
    assert (facts["task"], facts["train_rows"], facts["test_rows"], facts["tasks"]) == ("softmax", 240, 0, 5)
    assert facts["columns"] > 3 + 50 + 50
    assert len(facts["fingerprint"]) == 64


@pytest.mark.usefixtures("shop")
def test_training_and_looking_take_the_options_of_the_encoding(typed: Typed) -> None:
    how = ("--one-hot", "town", "--interaction", "town,age", "--no-constant", "--no-standardize")
    (looked,) = typed("data", "shop.csv", *how, "--json").json["data"]
    assert typed("train", "--data", "shop.csv", *how, *RUN, "--out", "run").code == 0
    section = RunFolder.open("run").tables["data"]
    assert (section["interactions"], section["constant"], section["standardize"]) == ([["town", "age"]], False, False)
    assert RunFolder.open("run").encoding.n_columns == looked["columns"]


@pytest.mark.usefixtures("shop")
def test_a_copy_is_checked(typed: Typed) -> None:
    typed("shard", "shop.csv", "--categorical", "--tasks", 4, "--out", "shards")
    whole = typed("shard", "--check", "shards")
    assert whole.code == 0
    assert "7 of 7 files are intact" in whole.out
    Path("shards/task-00002.safetensors").write_bytes(b"")
    broken = typed("shard", "--check", "shards", "--json")
    assert broken.code == 1
    assert len(broken.json["damaged"]) == 1
    assert "task-00002.safetensors holds 0 bytes instead of" in broken.json["damaged"][0]


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shard", "nowhere.csv", "--tasks", 4, "--out", "new"), "There is no file 'nowhere.csv'"),
        (("shard", "shop.csv", "--out", "new"), "--tasks must be given"),
        (("shard", "shop.csv", "--tasks", 4), "--out must be given"),
        (("shard", "shop.csv", "--tasks", 4, "--out", "new"), "line 2, column 'town'"),
        (("shard", "shop.csv", "--categorical", "--tasks", 500, "--out", "new"), "--tasks must be at most the number"),
        (("shard", "shop.csv", "--categorical", "--tasks", 4, "--out", "shards"), "is already in use"),
        (("shard", "shop.csv", "--categorical", "--tasks", 4, "--out", "/proc/new"), "/proc/new"),
        (("shard", "--check", "nowhere"), "manifest.json cannot be read: No such file or directory"),
        (("shard", "--check", "shards", "--tasks", 4), "--tasks must be left out with --check"),
        (("train", "--data", "shards", "-w", 5), "the number of its tasks must divide the 12 tasks that"),
        (
            ("train", "--data", "shards", "--speeds", ",".join(["1"] * 13)),
            "13 workers: the number of its tasks must be at most the number of training samples (192)",
        ),
        (("train", "--data", "shards", "--categorical"), "it was settled when the data were sharded"),
        (("train", "--data", "shards", "--synthetic", "always"), "--synthetic is for the data sets amazon"),
        (("train", "--data", "shards", "--loss", "softmax"), "--loss must be logistic, which shards is sharded"),
        (("train", "--data", "shop.csv", "--data-at", "x"), "--data-at is for folders of shards"),
        (("plan", "--data", "shards", "-w", 6, "--delays", "exponential(mean=0.5)"), "--data must be in memory"),
    ],
)
def test_bad_input(typed: Typed, arguments: tuple[object, ...], said: str) -> None:
    typed("shard", "shop.csv", "--categorical", "--tasks", 12, "--out", "shards")
    done = typed(*arguments)
    assert done.code in (1, 2)
    assert done.sentence.startswith("erasurehead: ")
    assert said in done.sentence
    assert not Path("new").exists()
    assert not [entry for entry in Path().iterdir() if entry.name.endswith(".part")]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("speeds", "tasks"), [("1,3", 12), ("1,1,1,1,2", 12), ("measured", 12)])
def test_workers_of_any_speeds_take_the_tasks_that_there_are(typed: Typed, speeds: str, tasks: int) -> None:
    typed("shard", "shop.csv", "--categorical", "--tasks", 12, "--out", "shards")
    where = ("--engine", "virtual", "--steps", 3, "--out", "run")
    done = typed("train", "--data", "shards", "--speeds", speeds, *where)
    assert done.code == 0, done.sentence
    assert f"n_tasks={tasks})" in Path("run/config.toml").read_text()


@pytest.mark.usefixtures("shop")
def test_a_run_goes_on_with_a_copy_of_its_shards_and_with_no_others(typed: Typed) -> None:
    typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--out", "shards")
    typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--seed", 1, "--out", "others")
    whole = {"data": {"source": "shards"}, "run": {"engine": "virtual", "workers": 6, "out": "whole", "steps": 8}}
    expected = Experiment.from_config(whole).run()
    saving = {"every_steps": 1, "every_seconds": 0.0, "keep_finished": True}
    short = {**whole, "run": {**whole["run"], "steps": 4, "out": "short"}, "checkpoints": saving}
    Experiment.from_config(short).run()
    Path("shards").rename("moved")
    with pytest.raises(InvalidArgument, match=r"data was '[0-9a-f]+' and is"):
        Experiment.resume("short", {"run": {"steps": 8}, "data": {"source": "others"}})
    found = Experiment.resume("short", {"run": {"steps": 8}, "data": {"source": "moved", "worker_path": "moved"}}).run()
    np.testing.assert_array_equal(found.x, expected.x)


@pytest.mark.usefixtures("shop")
def test_a_placement_that_cannot_be_read_or_kept_is_a_sentence(typed: Typed) -> None:
    assert typed("shard", "shop.csv", "--categorical", "--tasks", 6, "--out", "shards").code == 0
    for name, what in (("nobody.json", "nobody.json"), ("http://x/hosts.json", "hosts.json"), ("~nobody/x", "~nobody")):
        refused = typed("shard", "shards", "--placement", name)
        assert refused.code == 2
        assert what in refused.sentence
    Path("hosts.json").write_text(json.dumps({"node1": [*range(6)]}))
    Path("shards/placement.json").mkdir()
    refused = typed("shard", "shards", "--placement", "hosts.json")
    assert refused.code == 1
    assert "placement.json cannot be written" in refused.sentence

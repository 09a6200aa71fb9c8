"""A run folder whose files were edited, and sealed again: each command refuses it in a sentence, or reads it."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from erasurehead.errors import InvalidArgument
from erasurehead.runs._config import to_toml

from ..bounded import in_time
from ..cli.shop import write_shop
from ..sealing import seal
from ..typed import typed
from .test_edited_checkpoints import edit

DATA = ("--data", "shop.csv", "--categorical", "-q", "--checkpoint-every", 2)
BASES: dict[str, tuple[object, ...]] = {
    "train": (
        "train",
        *DATA,
        "--engine",
        "virtual",
        "-w",
        4,
        "-n",
        6,
        "--scheme",
        "exact(load=2)",
        "--delays",
        "exponential(mean=0.5)",
    ),
    "consensus": (
        "consensus",
        *DATA,
        "--loss",
        "logistic",
        "--peers",
        4,
        "--graph",
        "ring()",
        "--steps",
        4,
        "--no-against-full",
        "--no-pictures",
    ),
}
FILES = {
    "train": ("config.toml", "summary.json", "steps.jsonl", "arrivals.jsonl", "evaluations.jsonl", "encoding.json"),
    "consensus": ("config.toml", "summary.json", "peers.jsonl", "means.jsonl", "encoding.json"),
}


@pytest.fixture(scope="module", autouse=True)
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both runs, in the current folder."""
    folder, here = tmp_path_factory.mktemp("bases"), Path.cwd()
    os.chdir(folder)
    write_shop(folder / "shop.csv")
    for name, words in BASES.items():
        assert typed(*words, "--out", name).code == 0
    yield
    os.chdir(here)


def edited(base: str, file: str, change: Callable[[Any], Any]) -> None:
    """Make the folder `run`: that of a run, with what a file holds changed; of rows, a list of objects."""
    shutil.rmtree("run", ignore_errors=True)
    shutil.copytree(base, "run")
    path = Path("run", file)
    if path.suffix == ".toml":
        tables = tomllib.loads(path.read_text())
        change(tables)
        try:
            path.write_text(to_toml(tables))
        except InvalidArgument:  # TOML has no such value
            return
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
    seal(Path("run"), file)


COMMANDS: dict[str, tuple[object, ...]] = {
    "compare": ("compare", "run", "kept", "--no-figures", "--out", "compared", "--overwrite"),
    "predict": ("predict", "run", "shop.csv"),
    "resume": ("kept", "--resume", "run", "--steps", 8, "-q"),
}


def refused(base: str, command: str) -> str:
    """Return how a command that reads run folders refuses `run`, as a sentence; empty if it does not."""
    words = [base if word == "kept" else word for word in COMMANDS[command]]
    if words[0] == "consensus":
        words.append("--no-pictures")
    with in_time():
        done = typed(*words)
    assert "Traceback" not in done.err, done.err
    assert done.code in (0, 1, 2)
    assert not done.code or done.sentence.startswith("erasurehead: ")
    return done.sentence if done.code else ""


@pytest.mark.slow
@pytest.mark.parametrize(("base", "file"), [(base, file) for base, files in FILES.items() for file in files])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(command=st.sampled_from(list(COMMANDS)), chance=st.randoms(use_true_random=False), edits=st.integers(1, 2))
def test_an_edited_file_is_refused_in_a_sentence_or_read(
    base: str, file: str, command: str, chance: random.Random, edits: int
) -> None:
    def change(document: Any) -> None:
        for _ in range(edits):
            edit(document, chance)

    edited(base, file, change)
    refused(base, command)


def put(*path: Any) -> Callable[[Any], None]:
    """Return what puts the last of some values in the place that the others are the keys of."""
    *keys, last, value = path

    def change(document: Any) -> None:
        for key in keys:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("base", "file", "change", "said"),
    [
        ("consensus", "means.jsonl", lambda rows: rows.append({}), "without 'step' it is not a run's record"),
        ("consensus", "means.jsonl", put(0, "time", "late"), "line 1: time must be a number, but it is 'late'"),
        ("consensus", "summary.json", put("peers", 0.5), "peers must be a whole number"),
        ("train", "summary.json", put("neglected", ["x"]), "neglected.0 must be an object with keys, but it is 'x'"),
        ("train", "summary.json", put("final", {"objective": 1.0}), "summary.json lacks 'first_objective'"),
        ("train", "summary.json", put("resumed", 1), "resumed must be a list, but it is 1"),
        ("train", "summary.json", put("data", "name", 7), "data.name must be a text, but it is 7"),
        ("train", "evaluations.jsonl", put(1, "metrics", "auc", "x"), "line 2: metrics.auc must be a number"),
        ("train", "evaluations.jsonl", put(1, "metrics", "auc", {}), "line 2: metrics.auc must be a number"),
        ("train", "evaluations.jsonl", put(2, "step", "text"), "line 3: step must be a whole number"),
        ("train", "steps.jsonl", put(0, "used", [0, None]), "line 1: used.1 must be a whole number"),
        (
            "train",
            "steps.jsonl",
            put(0, "notices", [{"kind": "refused", "data": {"messages": 3}}]),
            "line 1: notices.0.data.messages must be a list, but it is 3",
        ),
        ("train", "arrivals.jsonl", put(0, "censored", "no"), "line 1: censored must be true or false"),
        ("train", "config.toml", put("run", "workers", "all"), "run.workers must be a whole number"),
    ],
)
def test_a_value_of_another_type_is_named(base: str, file: str, change: Callable[[Any], Any], said: str) -> None:
    edited(base, file, change)
    compared = refused(base, "compare")
    assert file in compared
    assert said in compared


def test_a_date_among_the_settings_of_a_run_is_refused() -> None:
    shutil.rmtree("run", ignore_errors=True)
    shutil.copytree("train", "run")
    path = Path("run", "config.toml")
    day = datetime.datetime(1979, 5, 27, tzinfo=datetime.UTC)
    path.write_text(path.read_text().replace('model = "exponential(mean=0.5, seed=0)"', f"model = {day.isoformat()}"))
    seal(Path("run"), path.name)
    assert "delays.model must be a text, but it is datetime.datetime(1979" in refused("train", "compare")


@pytest.mark.parametrize("lacking", [0, -1])
def test_a_metric_that_an_evaluation_lacks_is_compared_where_it_is_there(lacking: int) -> None:
    edited("train", "evaluations.jsonl", put(lacking, "metrics", {}))
    assert refused("train", "compare") == ""


def test_numbers_that_are_not_finite_are_read_as_no_numbers() -> None:
    edited("train", "steps.jsonl", put(-1, "end", None))
    assert refused("train", "compare") == ""

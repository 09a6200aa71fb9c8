"""Bad input as a user types it: one sentence on stderr, exit code 2, and nothing begun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ..typed import other
from .shop import Typed, write_shop

AMAZON = ["RESOURCE", "MGR_ID", "ROLE_ROLLUP_1", "ROLE_ROLLUP_2", "ROLE_DEPTNAME", "ROLE_TITLE"]
AMAZON += ["ROLE_FAMILY_DESC", "ROLE_FAMILY", "ROLE_CODE"]
SHOP = ("--data", "shop.csv", "--categorical", "--workers", 12)


def refused(typed: Typed, *arguments: object) -> str:
    """Run a command that must be refused before any worker starts, and return the sentence."""
    done = typed("train", *(() if "--out" in arguments else ("--out", "out")), *arguments)
    assert done.code == 2, done.err
    assert done.out == ""
    assert not Path("out").exists()  # the folder is made just before the workers start
    said = [line for line in done.err.splitlines() if not line.startswith("reading ")]
    assert len(said) == 1
    assert said[0].startswith("erasurehead: ")
    assert said[0].endswith(".")
    return said[0]


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        # more load than tasks
        (("--scheme", "exact(load=13)"), "scheme 'exact(load=13)': load must be at most the number of tasks, 12"),
        # more stragglers than the code bears under an exact rule
        (
            ("--scheme", "exact(load=3)", "--delays", "late([3, 4, 5])"),
            "must let exact meet its wait rule decodable(), which it does not when workers [3, 4, 5] never answer",
        ),
        (("--scheme", "uncoded", "--delays", "late([0], since=4)"), "when workers [0] never answer (step 4)"),
        (("--scheme", "custom('cyclic_repetition(stragglers=12)', 'decodable()')"), "stragglers must be"),
        # first(0), or beyond the workers
        (("--scheme", "custom('uncoded', 'first(0)')"), "first(workers) must be at least 1, but it is 0"),
        (("--scheme", "custom('uncoded', 'first(13)')"), "first(workers) must be at most the 12 workers"),
        (("--scheme", "erasurehead(load=3, wait_for=13)"), "wait_for must be at most 12, but it is 13"),
        (("--scheme", "ignore_stragglers(wait_for=0)"), "wait_for must be at least 1, but it is 0"),
        # texts and values that stand for nothing
        (("--scheme", "magic"), "--scheme must use known names"),
        (("--delays", "exponential(mean=-1)"), "--delays 'exponential(mean=-1)': mean must be"),
        (("--delays", "recorded('nowhere.jsonl')"), "There is no file 'nowhere.jsonl'"),
        (("--rate", "fast"), "--rate must use known names"),
        (("--rate", "0"), "--rate must be a positive finite number"),
        (("--momentum", 0.5), "--momentum is for heavy_ball only"),
        (("--steps", 0), "--steps must be at least 1, but it is 0"),
        (("--workers", -3), "--workers must be at least 1, but it is -3"),
        (("--late", "sometimes"), "--late must be 'preempt' or 'carry'"),
        (("--engine", "cloud"), "--engine must be 'processes', 'in_process', 'virtual', 'mpi' or 'ray'"),
        (("--l2", "nan"), "--l2 must be"),
        (("--synthetic", "always"), "--synthetic is for the data sets amazon, kc_housing, covertype"),
        # columns
        (("--label", "profit"), "--label must name columns of shop.csv, got 'profit'; they are age, town"),
        (("--one-hot", "age,city"), "--one-hot must name columns of shop.csv, got 'city'"),
        # labels that are not two classes
        (("--loss", "logistic", "--label", "town"), "needs two classes, but the label 'town' has 3"),
    ],
)
def test_settings_that_do_not_fit(typed: Typed, options: tuple[object, ...], said: str) -> None:
    assert said in refused(typed, *other(SHOP, *options))


def test_more_tasks_than_rows(typed: Typed, tmp_path: Path) -> None:
    write_shop(tmp_path / "shop.csv", n_rows=20)
    sentence = refused(typed, *other(SHOP, "--workers", 17), "--scheme", "uncoded")
    said = "--scheme 'uncoded' with 17 workers: the number of its tasks must be at most the number of training samples"
    assert f"{said} (16)" in sentence


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a,y\n1,0\ninf,1\n3,0\n4,1\n", "line 3, column 'a': 'inf' is not a finite number"),
        ("a,y\n1,0\n2,1\ninf,0\n4,1\n", "line 4, column 'a': 'inf' is not a finite number"),
        ("a,y\n1,0.5\n2,inf\n3,2.5\n4,1\n", "line 3, column 'y'"),
        ("a,y\n1,0\n2,1\n3\n4,1\n", "line 4"),
        ("a,y\n1,0\n2,1\n3,\n4,1\n", "line 4: the label 'y' is missing"),
        ("a,y\n1,0\nbig,1\n3,0\n4,1\n", "line 3, column 'a': 'big' is not a number"),
        ("a,y\n1,0\n2,0\n3,0\n4,0\n", "in every row; there must be two classes"),
        ("a,y\n", "bad.csv"),
        ("", "bad.csv"),
    ],
)
def test_a_csv_file_that_cannot_be_used(typed: Typed, lines: str, said: str) -> None:
    Path("bad.csv").write_text(lines)
    assert said in refused(typed, "--data", "bad.csv", "-w", 2)


def test_a_file_that_is_not_there(typed: Typed) -> None:
    sentence = refused(typed, "--data", "amazn")
    assert (
        "There is no file 'amazn'; name one file, a folder of shards or of Parquet files, or one of amazon, kc_housing"
        in sentence
    )


def test_a_public_file_that_was_cut_off(typed: Typed) -> None:
    header = ",".join(("ACTION", *AMAZON)) + "\n"
    Path("train.csv").write_text(header + "1,1,2,3,4,5,6,7,8,9\n0,1,2,3,4,5,6,7,8,9\n1,1,2,3,4,5,6,7,8,9")
    assert "train.csv, line 4: the file is cut off there" in refused(typed, "--path", "train.csv")
    Path("train.csv").write_text(header.replace("MGR_ID", "MANAGER") + "1,1,2,3,4,5,6,7,8,9\n")
    assert "train.csv, line 1: there is no column 'MGR_ID'" in refused(typed, "--path", "train.csv")
    assert "There is no amazon data: looked for" in refused(typed, "--path", "nowhere")


def test_arrays_that_cannot_be_used(typed: Typed) -> None:
    X = np.arange(40.0).reshape(10, 4)
    np.save("X.npy", X)
    np.save("y.npy", np.arange(9.0))
    assert "9" in refused(typed, "--data", "X.npy", "--label", "y.npy", "-w", 2)
    X[3, 2] = np.nan
    np.save("nan.npy", X)
    assert "nan.npy" in refused(typed, "--data", "nan.npy", "-w", 2)
    y = np.arange(10.0)
    y[4] = np.inf
    np.save("X.npy", np.ones((10, 4)))
    np.save("y.npy", y)
    assert "y.npy" in refused(typed, "--data", "X.npy", "--label", "y.npy", "-w", 2)
    Path("broken.npy").write_bytes(Path("X.npy").read_bytes()[:200])
    assert "broken.npy" in refused(typed, "--data", "broken.npy", "-w", 2)


@pytest.mark.usefixtures("shop")
def test_a_run_folder_that_cannot_be_used(typed: Typed) -> None:
    assert "The run folder '/proc/x' cannot be written to" in refused(typed, *SHOP, "--out", "/proc/x")
    Path("used").mkdir()
    Path("used/thesis.tex").write_text("")
    assert "The run folder 'used' is already in use" in refused(typed, *SHOP, "--out", "used")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "[run]\nstep = 3\n",
            "There is no key 'step' in [run]; did you mean 'steps'? The keys of [run] are engine, workers",
        ),
        ("[optimiser]\nrate = 3\n", "There is no key 'optimiser' in the run file; did you mean 'optimizer'?"),
        ("[run]\nsteps = 'ten'\n", "run.steps must be a whole number, but it is 'ten'"),
        ("[run\n", "The run file 'run.toml' is not TOML"),
    ],
)
def test_a_run_file_that_cannot_be_used(typed: Typed, lines: str, said: str) -> None:
    Path("run.toml").write_text(lines)
    assert said in refused(typed, "run.toml")


def test_a_run_file_that_is_not_there(typed: Typed) -> None:
    assert "The run file 'run.toml' cannot be read: No such file or directory" in refused(typed, "run.toml")


def test_options_that_do_not_exist(typed: Typed) -> None:
    done = typed("train", "--stepz", 3)
    assert done.code == 2
    assert "--stepz" in done.err

"""Mistakes that users make: each is a sentence that says what would work, before any data are read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from erasurehead.runs import RunFolder

from ..bounded import PATIENCE
from ..typed import other
from .shop import SMALL, Typed


def test_an_address_goes_with_the_engine_ray_only(typed: Typed) -> None:
    done = typed("train", "--synthetic", "always", "--engine", "processes", "--address", "auto")
    assert done.code == 2
    assert "--address is for the engine ray, not for processes" in done.sentence
    assert not Path("runs").exists()


@pytest.mark.parametrize("address", ["nonsense", "host", "http://host:6379", "host:", ""])
def test_an_address_is_host_and_port_or_auto(typed: Typed, address: str) -> None:
    done = typed("train", "--synthetic", "always", "--engine", "ray", "--address", address)
    assert done.code == 2
    assert done.sentence.endswith(f"must be HOST:PORT of the cluster's head, or 'auto', but it is {address!r}.")


def test_resuming_is_an_option_and_no_command(typed: Typed) -> None:
    done = typed("resume", "runs/x")
    assert done.code == 2
    assert "To resume a run: erasurehead train --resume FOLDER." in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --data a.csv --data b.csv", "--data must be given once, and not 2 times; put the rows of several"),
        ("train --scheme=uncoded --scheme uncoded", "--scheme must be given once, and not 2 times"),
        ("compare --standardize --no-standardize", "--standardize must be given once, and not 2 times"),
        (
            "predict runs/a b.csv --threshold 1 --threshold 0 --threshold 1",
            "--threshold must be given once, and not 3 times",
        ),
        ("codes compare uncoded -o a --out b", "--out must be given once, and not 2 times"),
    ],
)
def test_an_option_of_one_value_is_not_given_again(typed: Typed, words: str, sentence: str) -> None:
    done = typed(*words.split())
    assert done.code == 2
    assert sentence in done.sentence


def test_a_list_goes_on_and_a_switch_may_be_said_again(typed: Typed) -> None:
    done = typed("train", "-q", "-q", "--data", "no.csv", "--drop", "a", "--drop", "b")
    assert "There is no file 'no.csv'" in done.sentence


@pytest.mark.slow
@pytest.mark.processes
def test_records_are_not_said_to_be_in_a_folder_that_is_not_there(shop: Path) -> None:
    pytest.importorskip("mpi4py")
    arguments = ["train", "--data", shop, *other(SMALL, "--engine", "mpi"), "--out", "run"]
    command = [sys.executable, "-c", "from erasurehead.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, cwd=shop.parent, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done.stderr
    assert "start the job with one rank more than there are workers" in done.stderr  # there is no mpiexec around it
    assert "The records up to then" not in done.stderr
    assert not (shop.parent / "run").exists()


@pytest.mark.processes
@pytest.mark.parametrize(("command", "these"), [("train", "workers"), ("consensus", "peers")])
def test_too_few_files_are_one_sentence(shop: Path, command: str, these: str) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)); "
    arguments = [command, "--data", shop, "--categorical", f"--{these}", 20, "--out", "run", "--quiet"]
    arguments += ["--engine", "processes"]
    command = [sys.executable, "-c", f"{limited}from erasurehead.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, cwd=shop.parent, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert (
        f"workers use up the 60 files that a process may have open; raise the limit (ulimit -n), or use fewer {these}"
        in done.stderr
    )
    assert not (shop.parent / "run").exists()
    assert len(done.stderr.splitlines()) == 1, done.stderr  # and nothing of the server that forks workers


def test_a_run_file_of_a_cluster_runs_on_another_engine(typed: Typed, shop: Path) -> None:
    Path("run.toml").write_text('[run]\nengine = "ray"\naddress = "head.example.org:6379"\n')
    done = typed("train", "run.toml", "--data", shop, *SMALL)
    assert done.code == 0, done.err


def test_a_file_of_data_is_no_run_file(typed: Typed, shop: Path) -> None:
    done = typed("train", shop)
    assert done.code == 2
    assert done.sentence.endswith("To train on a file of data, which has all rows: erasurehead train --data FILE.")


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_run_file_of_peers_names_the_command_that_takes_it(typed: Typed, command: str) -> None:
    Path("peers.toml").write_text("[consensus]\npeers = 4\n")
    done = typed(command, "peers.toml")
    assert done.code == 2
    assert done.sentence == (
        "erasurehead: RUN_FILE must have no section [consensus] where there is a coordinator, got 'peers.toml'; "
        "erasurehead consensus takes it."
    )


@pytest.mark.parametrize("names", [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")])
def test_ranks_that_each_make_a_run_of_their_own_are_warned_of(
    typed: Typed, shop: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    said = "Each of the 3 ranks of this job makes a run of its own, because the engine is virtual"
    for rank, size, warned in (("0", "3", True), ("1", "3", False), ("0", "1", False)):
        monkeypatch.setenv(names[0], rank)
        monkeypatch.setenv(names[1], size)
        done = typed("train", "--data", shop, *SMALL, "--quiet")
        assert done.code == 0
        assert (said in done.err) == warned


@pytest.mark.parametrize("rate", ["100", "1e4", "1e9"])
def test_a_step_size_that_is_far_too_large_fails_and_the_advice_does_not_lead_there_again(
    typed: Typed, shop: Path, rate: str
) -> None:
    done = typed("train", "--data", shop, *SMALL, "--rate", rate, "--out", "x")
    assert done.code == 1
    assert f"The step size was {float(rate)}; --rate " in done.sentence
    assert "--resume" not in done.err
    assert RunFolder.open("x").summary["status"] == "diverged"
    found = re.search(r"; --rate (\S+) is small enough", done.sentence)
    assert found is not None
    again = typed("train", "--data", shop, *SMALL, "--rate", found[1], "--quiet")
    assert again.code == 0
    assert "--rate" not in again.err


def test_the_columns_of_a_drills_file_are_as_for_train(typed: Typed, shop: Path) -> None:
    done = typed("drill", "--workers", 6, "--data", shop, "--categorical", "--label", "price")
    assert done.code == 2
    assert "must name columns of" in done.sentence
    assert "age, town, income, bought" in done.sentence

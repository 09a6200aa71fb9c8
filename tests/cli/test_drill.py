"""`erasurehead drill`: what it prints, what it leaves, and how it fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .shop import Typed

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")

SMALL = ("--workers", 6, "--seconds", 12)


@pytest.mark.slow
@pytest.mark.processes
def test_a_drill_prints_what_was_noticed_what_it_cost_and_what_was_kept(typed: Typed, tmp_path: Path) -> None:
    done = typed("drill", *SMALL, "--kinds", "kill,corrupt", "--out", "drill")
    assert done.code == 0, done.err
    assert "kill worker" in done.err  # the storm, before it begins
    assert "another takes its place" in done.out
    assert "lies, and is put aside" in done.out
    assert "what it cost" in done.out
    assert "every promise was kept; the storm, both runs and this report are in drill" in done.out
    assert "BROKEN" not in done.out
    kept = typed("drill", *SMALL, "--storm", tmp_path / "drill" / "storm.toml", "--out", "again", "--json")
    first, second = (json.loads((tmp_path / folder / "drill.json").read_text()) for folder in ("drill", "again"))
    assert json.loads(kept.out) == second
    for found in (first, second):
        for run in found["runs"].values():
            del run["real_seconds"]
        del found["folder"]
    assert first == second


@pytest.mark.slow
@pytest.mark.processes
def test_a_broken_promise_is_said_and_is_the_exit_code(typed: Typed, tmp_path: Path) -> None:
    """Two of three lie alike: they outvote the honest one, which no guarantee covers."""
    lies = "".join(f"[[fault]]\nkind = 'corrupt'\nat = 2.0\nworker = {worker}\nlie = 'flip'\n" for worker in (0, 1))
    (tmp_path / "storm.toml").write_text(lies)
    done = typed("drill", *SMALL, "--storm", "storm.toml", "--out", "drill", "-q")
    assert done.code == 1
    assert "BROKEN worker 2 was put aside as a liar, and is honest" in done.out
    assert re.search(r"1 promise was broken|[2-9] promises were broken", done.out)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--kinds", "flood"), "--kinds must be among kill, stop, slow"),
        (("--kinds", ","), "--kinds must be among kill, stop, slow"),
        (("--storm", "nowhere.toml"), "'nowhere.toml' cannot be read: No such file"),
        (("--engine", "cloud"), "run.engine (--engine) must be"),
        (("--workers", 0), "run.workers (--workers) must be"),
        (("--seconds", 0), "seconds must be a positive number"),
        (("--seed", -1), "seed must be at least 0"),
        (("--scheme", "magic()"), "scheme must not name 'magic'"),
        (("--delays", "none()"), "delays must make each step wait"),
        (("--records", "maybe"), "run.records (--records) must be"),
        (("--on-suspicion", "pray"), "survive.suspected (--on-suspicion) must be"),
        (("--out", "full"), "out must be a folder that is empty or not there"),
    ],
)
def test_bad_input_is_one_sentence(typed: Typed, tmp_path: Path, options: tuple[object, ...], sentence: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").touch()
    done = typed("drill", *options)
    assert done.code == 2
    assert sentence in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "drills").exists()

"""`erasurehead drill`: what it prints, what it leaves, and how it fails."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from erasurehead.drills import _drill as drilling

from ..bounded import PATIENCE, PROMPT
from ..drills.small import forked
from .shop import Typed

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")

SMALL = ("--workers", 6, "--seconds", 12)


@pytest.fixture
def coordinators_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no coordinator anew: what the command prints is looked at."""
    monkeypatch.setattr(drilling, "run_command", forked)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("coordinators_are_forked")
def test_a_drill_prints_what_was_noticed_what_it_cost_and_what_was_kept(typed: Typed, tmp_path: Path) -> None:
    done = typed("drill", *SMALL, "--kinds", "kill,corrupt", "--out", "drill")
    assert done.code == 0, done.err
    assert "kill worker" in done.err  # the fault schedule, before it begins
    assert "a replacement had started" in done.out
    assert "lies, and is put aside" in done.out
    assert "what it cost" in done.out
    assert "every promise was kept; the fault schedule, both runs and this report are in drill" in done.out
    assert "BROKEN" not in done.out
    kept = typed("drill", *SMALL, "--schedule", tmp_path / "drill" / "faults.toml", "--out", "again", "--json")
    first, second = (json.loads((tmp_path / folder / "drill.json").read_text()) for folder in ("drill", "again"))
    assert json.loads(kept.out) == second | {"warnings": []}
    for found in (first, second):
        for run in found["runs"].values():
            del run["real_seconds"]
        del found["folder"]
    assert first == second


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("coordinators_are_forked")
def test_a_broken_promise_is_said_and_is_the_exit_code(typed: Typed, tmp_path: Path) -> None:
    """Two of three lie alike: they outvote the honest one, which no guarantee covers."""
    lies = "".join(f"[[fault]]\nkind = 'corrupt'\nat = 2.0\nworker = {worker}\nlie = 'flip'\n" for worker in (0, 1))
    (tmp_path / "faults.toml").write_text(lies)
    done = typed("drill", *SMALL, "--schedule", "faults.toml", "--out", "drill", "-q")
    assert done.code == 1
    assert "BROKEN worker 2 was put aside as a liar, and is honest" in done.out
    assert re.search(r"1 promise was broken|[2-9] promises were broken", done.out)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--kinds", "flood"), "--kinds must be among kill, stop, slow"),
        (("--kinds", ","), "--kinds must be among kill, stop, slow"),
        (("--schedule", "nowhere.toml"), "'nowhere.toml' cannot be read: No such file"),
        (("--engine", "cloud"), "--engine must be"),
        (("--workers", 0), "--workers must be at least 3, but it is 0"),
        (("--seconds", 0), "seconds must be a positive number"),
        (("--seed", -1), "seed must be at least 0"),
        (("--scheme", "magic()"), "scheme must use known names"),
        (("--delays", "none()"), "delays must make each step take"),
        (("--records", "maybe"), "--records must be"),
        (("--on-suspicion", "pray"), "--on-suspicion must be"),
        (("--out", "full"), "out must be an empty folder, or one that does not exist yet"),
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


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_all_that_a_drill_has_started_ends_with_it_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    code = "from erasurehead.cli import main; main()"
    words = ["drill", "--engine", "processes", "--workers", "4", "--seconds", "60", "--out", str(tmp_path / "drill")]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    ) as process:
        end = time.monotonic() + PATIENCE
        steps = tmp_path / "drill" / "baseline" / "steps.jsonl"
        while not (steps.exists() and steps.read_bytes().count(b"\n") > 2):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(PATIENCE)
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    end = time.monotonic() + PROMPT
    while (left := _left(tmp_path, process.pid)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def _left(folder: Path, drill: int) -> list[str]:
    """Return what is left of a drill: processes that name its folder, files in that for temporary files and memory."""
    found = [str(path) for path in (folder / "tmp").iterdir()]
    found += [str(path) for path in Path("/dev/shm").glob(f"erasurehead-{drill}-*")]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_text())
    return found


@pytest.mark.slow
@pytest.mark.processes
def test_many_lives_have_one_verdict(typed: Typed) -> None:
    done = typed("drill", "lives", 2, "--workers", 6, "--out", "drill")
    assert done.code == 0, done.err
    assert "2 of 2 lives on the virtual engine kept every promise" in done.out
    refused = typed("drill", "lives", 2, "--kinds", "kill", "--workers", 6)
    assert refused.code == 2
    assert "No such option: --kinds" in refused.err

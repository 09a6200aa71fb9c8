"""Whatever command is killed, at whatever moment: nothing that it has started stays.

Commands run in forked children, so that the first hundred milliseconds are those of their work, not of importing. What
they start is found by a mark in its environment.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from erasurehead.cli import main
from erasurehead.cli._app import build

from ..bounded import PATIENCE
from ..leftovers import left_since, unclaimed
from .shop import write_shop

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]

MARK = "ERASUREHEAD_TEST_OF_ORPHANS"

LONG = (
    "--data",
    "shop.csv",
    "--categorical",
    "--preset",
    "paper",
    "--engine",
    "processes",
    "--workers",
    6,
    "--steps",
    100_000,
)

COMMANDS: dict[str, tuple[object, ...]] = {
    "train": ("train", *LONG),
    "compare": ("compare", *LONG, "-s", "uncoded", "-s", "exact(load=2)"),
    "reproduce": ("reproduce", "erasurehead", "--engine", "processes", "--synthetic", "always", "--rows", 2000),
    "drill": ("drill", "--workers", 6, "--seconds", 600),
    "drill on processes": ("drill", "--engine", "processes", "--workers", 4, "--seconds", 60),
    "drill of many lives": ("drill", "lives", 50, "--workers", 4, "--engine", "processes"),
}

MOMENTS = (0.02, 0.1, 0.4, 1.5)
"""Seconds after its beginning at which a command is killed; later ones are in `test_processes.py`."""


def begun(command: tuple[object, ...], folder: Path, mark: str) -> int:
    """Begin a command in a forked child, and return its process."""
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        os.setsid()
        os.environ.update({MARK: mark, "TMPDIR": str(folder)})
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        sys.argv = ["erasurehead", *map(str, command)]
        main()
    finally:
        os._exit(0)


def marked(mark: str) -> dict[int, str]:
    """Return the processes with this mark: process -> what it is."""
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")[:200]
    return found


def wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := marked(mark):
        if time.monotonic() > deadline:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            pytest.fail(f"left behind: {left}")
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_outlives_a_command_that_is_killed(tmp_path: Path, name: str) -> None:
    build()  # imported once, here
    before, mark = unclaimed(), secrets.token_hex(8)
    for number, moment in enumerate(MOMENTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_shop(folder / "shop.csv", 60)
        child = begun(COMMANDS[name], folder, mark)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    wait_until_gone(mark)
    assert not left_since(before)
    for number in range(len(MOMENTS)):
        left = {path.name for path in (tmp_path / str(number)).iterdir()}
        assert left <= {"shop.csv", "runs", "drills"}, left


FORKED = """
    import multiprocessing, os, sys
    import numpy as np
    from erasurehead import engines, optimizers, problems, schemes
    from erasurehead.training import train

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.sign(X @ np.ones(3))

    def trained(number):
        problem = problems.LogisticRegression(X, y, l2=0.1)
        optimizer = optimizers.GradientDescent(problem.initial(), 0.5)
        try:
            return train(problem, schemes.uncoded(2), optimizer, engines.ProcessEngine(), 3).x.tolist()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    if __name__ == "__main__":
        multiprocessing.set_start_method("fork")
        here = trained(0)
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, repr(trained(1)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        print(eval(os.read(reader, 10_000)) == here)
        with multiprocessing.Pool(1) as pool:
            print(pool.map(trained, [2])[0])
        print(trained(3) == here)
"""


@pytest.mark.slow
def test_forked_children_train_and_those_of_a_pool_are_told_why_not(tmp_path: Path) -> None:
    (tmp_path / "forked.py").write_text(textwrap.dedent(FORKED))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "forked.py")], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    said = done.stdout.splitlines()
    assert [said[0], said[-1]] == ["True", "True"], done.stderr
    assert said[1].startswith("EngineError: a worker of multiprocessing.Pool may not start processes of its own; take")
    assert "Traceback" not in done.stderr


KILLED = """
    import subprocess, sys

    def test_that_is_killed(tmp_path):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (tmp_path / "begun").touch()
        import time; time.sleep(600)
"""


@pytest.mark.slow
def test_nothing_outlives_tests_that_are_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(root)!r})\nfrom tests.conftest import what_tests_start_ends_with_them\n"
    )
    (tmp_path / "test_killed.py").write_text(textwrap.dedent(KILLED))
    mark = secrets.token_hex(8)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base"), "."],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark},
    )
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("base/*/begun")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    wait_until_gone(mark)

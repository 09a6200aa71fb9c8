"""Whether the wheel installs anywhere: `make wheel` builds it, checks it, and tries it with each extra.

Each environment has nothing but the wheel and what it asks for. What is tried is what its users come for: the command
line, a run on the virtual clock, one on processes, and what the extra is for. Prints seconds and megabytes of each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

RUN = ["erasurehead", "train", "--synthetic", "always", "--rows", "600", "--workers", "4", "--steps", "5", "--out"]
"""A run that needs no data; its folder and its engine follow."""

TRIES = {
    "": ["import erasurehead as eh; assert eh.train"],
    "report": ["import matplotlib, pyarrow; from erasurehead import reports"],
    "mpi": ["from erasurehead import engines; assert engines.MPIEngine"],
    "ray": ["from erasurehead import engines; assert engines.RayEngine"],
    "jax": [
        "import jax.numpy as jnp, numpy as np; from erasurehead import problems; "
        "X = np.ones((8, 2)); y = np.ones(8); "
        "problems.jax(lambda w, x, t: jnp.mean((x @ w - t) ** 2), np.zeros(2), (X, y)).exact([np.zeros(2)])"
    ],
    "torch": [
        "import torch, numpy as np; from erasurehead import problems; import erasurehead.torch as eht; "
        "assert eht.measure; "
        "problems.torch(torch.nn.Linear(2, 1), (np.ones((8, 2)), np.ones((8, 1))), torch.nn.MSELoss())"
    ],
}
"""What is tried with each extra, and with none."""


def call(words: Sequence[str | Path], cwd: Path) -> None:
    """Run a command; if it fails, say what it said, and end."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def try_wheel(wheel: Path, extra: str, python: str) -> None:
    """Install the wheel with an extra into an empty environment, and use it there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if python:
            call([python, "-m", "venv", folder / "venv"], folder)
        else:
            venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / "bin"
        empty = megabytes(folder)
        begin = time.perf_counter()
        call([programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]" if extra else wheel], folder)
        installed = time.perf_counter() - begin
        size = megabytes(folder) - empty
        begin = time.perf_counter()
        call([programs / "erasurehead", "--version"], folder)
        for engine in ("virtual", "processes"):
            call([programs / RUN[0], *RUN[1:], engine, "--engine", engine], folder)
        for code in TRIES[extra]:
            call([programs / "python", "-c", code], folder)
        used = time.perf_counter() - begin
        print(
            f"{extra or 'no extra':10} installed in {installed:6.1f} s, {size:7.1f} MB; tried in {used:5.1f} s",
            flush=True,
        )


def main() -> None:
    """Build the wheel and try it."""
    parser = argparse.ArgumentParser(description="Build the wheel, check it, and try it in empty environments.")
    parser.add_argument("extras", nargs="*", help=f"extras to try: {', '.join(extra for extra in TRIES if extra)}; all")
    parser.add_argument("--python", default="", help="interpreter of the environments, such as python3.13")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        call([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", name, ROOT], ROOT)
        (wheel,) = Path(name).glob("*.whl")
        call([sys.executable, "-m", "twine", "check", "--strict", wheel], ROOT)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, as it should be for the index of packages")
        for extra in chosen.extras or TRIES:
            try_wheel(wheel, extra, chosen.python)


if __name__ == "__main__":
    main()

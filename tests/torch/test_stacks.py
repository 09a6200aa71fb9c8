"""Scripts as people write them become a team's by ten lines at most: the diffs of `docs/stacks`, applied and run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from ..bounded import PATIENCE
from ..docs.pages import DOCS, blocks

HERE = Path(__file__).parent
STACKS = DOCS / "stacks"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux")

TORCHVISION = '''
"""Stands in for torchvision: the digits of scikit-learn, as large as those of MNIST."""

import types

import torch
from sklearn.datasets import load_digits


class MNIST(torch.utils.data.TensorDataset):
    def __init__(self, root, train, download=False, transform=None):
        images, labels = load_digits(return_X_y=True)
        which = slice(1500) if train else slice(1500, None)
        images = torch.tensor(images[which] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
        super().__init__(torch.nn.functional.interpolate(images, (28, 28)), torch.tensor(labels[which]))


datasets = types.SimpleNamespace(MNIST=MNIST)
transforms = types.SimpleNamespace(Compose=list, ToTensor=str, Normalize=lambda mean, deviation: None)
'''


@dataclass(frozen=True)
class Stack:
    """A script, and what becomes of it.

    Arguments:
        name: of its files.
        arguments: when it is run.
        needs: a package.
        groups: how many process groups it makes by itself.
        finds: what it prints at the end: by what word.
        least, most: how much more than the script as it was it may find after the difference, one rank having died.
    """

    name: str
    arguments: tuple[str, ...]
    needs: str
    groups: int
    finds: str
    least: float
    most: float


ALL = [
    Stack("mnist", (), "sklearn", 0, "accuracy", -0.03, 1.0),
    Stack("lightning_digits", (), "lightning", 1, "accuracy", -0.03, 1.0),
    Stack("accelerate_digits", ("--cpu",), "accelerate", 1, "accuracy", -0.03, 1.0),
    Stack("gpt", ("--steps", "200", "--batch-size", "4"), "torch", 1, "loss", -9.0, 0.15),
]
EACH = pytest.mark.parametrize("stack", ALL, ids=[stack.name for stack in ALL])


def changed(difference: str) -> tuple[int, int]:
    """Return how many lines a difference writes, and how many it takes away, empty ones aside."""
    lines = [line for line in difference.splitlines()[2:] if line[1:].strip()]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def written(name: str, folder: Path) -> Path:
    """Return a script in a folder of its own, with what it reads."""
    script = folder / f"{name}.py"
    shutil.copy(STACKS / script.name, script)
    if name == "mnist":
        (folder / "torchvision.py").write_text(TORCHVISION)
    if name == "gpt":
        from pydoc_data.topics import topics  # the manual of Python

        text = "\n".join(str(topics[topic]) for topic in sorted(topics))[:60_000]
        (folder / "input.txt").write_text(text.encode("ascii", "ignore").decode())
    return script


def applied(script: Path) -> None:
    """Make a script a team's."""
    patch = str(STACKS / f"{script.stem}.diff")
    subprocess.run(["git", "apply", "-p0", "--unidiff-zero", patch], cwd=script.parent, check=True)


def run(words: list[str], folder: Path) -> str:
    """Return what is printed by a program."""
    shared = {"OMPI_MCA_btl_sm_backing_directory": str(folder)}  # Lightning starts MPI to see whether MPI started it
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | shared | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,  # two clusters, three frameworks, and models fitted with each
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ranks(stack: Stack, script: Path, n: int, dies: int = 0) -> tuple[float, list[dict[str, Any]]]:
    """Run a script under our launcher; return what it has found, and what its ranks tell at their ends."""
    rank = [str(HERE / "stack_rank.py"), str(script.parent), str(dies), str(script), *stack.arguments]
    out = run(["-m", "erasurehead.torch.run", "-n", str(n), "--output", "plain", *rank], script.parent)
    found = re.findall(rf"{stack.finds}\W+(\d\.\d+)", out)
    assert found, out
    return float(found[-1]), [json.loads(line) for line in re.findall(r"\{.*?\}", out)]


def test_ten_lines_are_written_at_most_and_the_page_says_how_many() -> None:
    (of_jax,) = blocks(DOCS / "networks-jax.md", "diff")
    found = {"networks-jax.md#from-a-script-of-your-own": changed(of_jax.text)} | {
        f"stacks/{path.name}": changed(path.read_text(encoding="utf-8")) for path in STACKS.glob("*.diff")
    }
    told = re.findall(r"\[\+(\d+) \u2212(\d+)\]\(([^)]+)\)", (DOCS / "stacks.md").read_text(encoding="utf-8"))
    assert {address: (int(written), int(gone)) for written, gone, address in told} == found
    assert len(found) == 6
    assert max(written for written, _ in found.values()) <= 10


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(4 * PATIENCE)
@EACH
def test_a_script_trains_as_before_although_a_rank_dies(stack: Stack, tmp_path: Path) -> None:
    if importlib.util.find_spec(stack.needs) is None:
        pytest.skip(f"the script needs {stack.needs}")
    script = written(stack.name, tmp_path)
    before, (alone,) = ranks(stack, script, 1)
    assert alone["groups"] == stack.groups  # it installs DistributedDataParallel, even for one
    applied(script)
    after, told = ranks(stack, script, 3, dies=10)
    assert stack.least <= after - before <= stack.most
    assert sorted(one["rank"] for one in told) == [0, 2]
    assert all(one["size"] == [3] and one["groups"] == 0 for one in told)
    assert sum(one["steps"] for one in told) > alone["steps"] // 3
    first, other = (
        torch.cat([weight.flatten() for weight in torch.load(tmp_path / f"{rank}.pt").values() if weight.dim()])
        for rank in (0, 2)
    )
    assert torch.linalg.vector_norm(first - other) < 0.02 * torch.linalg.vector_norm(first)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.xdist_group("clusters")  # beside another cluster, parts of Ray do not know which is theirs
def test_a_script_for_ray_train_trains_as_before(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("the script needs ray")
    stock = written("ray_digits", tmp_path)
    shutil.copy(stock, tmp_path / "stock.py")
    applied(stock)
    out = run([str(HERE / "ray_stacks.py"), "stock.py", "1", "ray_digits.py", "3"], tmp_path)
    before, after = (float(found) for found in re.findall(r"test accuracy: (\d\.\d+)", out))
    assert after > before - 0.03

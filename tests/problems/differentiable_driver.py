"""Trains problems of JAX and PyTorch on some engines, and prints what they come to: run by tests.

As `python differentiable_driver.py ENGINE,... PROBLEM,...`, for MPI under `mpiexec`.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np

from erasurehead import engines, optimizers, problems, schemes, train

WORKERS = 2
X = np.random.default_rng(0).standard_normal((61, 3)).astype("f4")
Y = np.tanh(X.sum(axis=1)).astype("f4")


def network(p: Any, batch: Any) -> Any:
    import jax.numpy as jnp

    hidden = jnp.tanh(batch["x"] @ p["v"] + p["b"])
    return jnp.mean((hidden @ p["w"] - batch["y"]) ** 2)


def made(name: str) -> problems.Problem:
    rng = np.random.default_rng(1)
    if name == "torch":
        import torch
        from torch import nn

        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 1))
        return problems.torch(module, (X, Y[:, np.newaxis]), nn.MSELoss(), batch_size=8)
    v, w = rng.standard_normal((3, 4)).astype("f4"), rng.standard_normal(4).astype("f4")
    given = network, {"v": v, "b": np.zeros(4, "f4"), "w": w}, {"x": X, "y": Y}
    if name == "jax":
        return problems.jax(*given, batch_size=8)
    sources = problems.jax(*given, batch_size=8, worker_backend="numpy").sources
    return problems.jax(*given, batch_size=8, worker_backend="numpy", hashes=[one.hash for one in sources.values()])


KINDS = {"virtual": "VirtualEngine", "processes": "ProcessEngine", "mpi": "MPIEngine", "ray": "RayEngine"}


def main(names: list[str], whats: list[str]) -> None:
    if names == ["mpi"]:
        from erasurehead.engines import MPIEngine

        MPIEngine.serve_unless_coordinator()
    with contextlib.ExitStack() as open_:
        if "ray" in names:  # engines of a process share one cluster as long as one of them is open
            open_.enter_context(engines.RayEngine())
        _train(names, whats)


def _train(names: list[str], whats: list[str]) -> None:
    for what in whats:
        problem = made(what)
        for name in names:
            optimizer = optimizers.GradientDescent(problem.initial(), rate=0.1)
            run = train(problem, schemes.uncoded(WORKERS), optimizer, getattr(engines, KINDS[name])(), steps=3)
            print("came to", name, what, run.losses[-1], run.x.tobytes().hex())


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2].split(","))

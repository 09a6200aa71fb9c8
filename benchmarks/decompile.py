"""What decompiled gradients cost: against the originals under jit, and in numpy against gradients written by hand.

Logistic regression and a network of two layers on 10,000 x 100 numbers in float64: the decompiled gradient under jit
over the original under jit (an ordinary XLA program each), and the decompiled numpy gradient over a good one that is
written by hand, below. Then the seconds to decompile the gradient of 50 layers of width 64, checks apart, and how the
source grows with the program.

Run: python benchmarks/decompile.py
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import itertools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from common import interleave, ratio, report
from erasurehead.decompile import decompile

N, M, WIDTH, LAYERS = 10_000, 100, 32, 50
REPETITIONS = 31


def logistic(w: Any, x: Any, y: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0.0, -y * (x @ w)))


def logistic_by_hand(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.T @ (-y / (1.0 + np.exp(y * (x @ w)))) / len(y)


def network(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["v"] + params["b"])
    return jnp.mean((hidden @ params["w"] - y) ** 2)


def network_by_hand(params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    hidden = np.tanh(x @ params["v"] + params["b"])
    error = (hidden @ params["w"] - y) * (2.0 / len(y))
    back = np.outer(error, params["w"]) * (1.0 - hidden**2)
    return {"b": back.sum(0), "v": x.T @ back, "w": hidden.T @ error}


def deep(params: Any, x: Any) -> Any:
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.mean(x**2)


def best_of(work: Callable[[], Any], times: int = 3) -> float:
    seconds: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(N, M)), np.sign(random.normal(size=N))
    w = 0.1 * random.normal(size=M)
    params = {"v": 0.1 * random.normal(size=(M, WIDTH)), "b": np.zeros(WIDTH), "w": random.normal(size=WIDTH)}
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    cases: list[tuple[str, Callable[..., Any], Callable[..., Any], Any]] = [
        ("logistic", logistic, logistic_by_hand, w),
        ("network", network, network_by_hand, params),
    ]
    for name, loss, by_hand, start in cases:
        gradient = jax.grad(loss)
        sources = {b: decompile(gradient, start, x, y, backend=b) for b in ("jax", "numpy")}
        hand, ours = by_hand(start, x, y), sources["numpy"](start, x, y)
        assert all(np.allclose(a, b) for a, b in zip(jax.tree.leaves(hand), jax.tree.leaves(ours), strict=True))
        original, decompiled = jax.jit(gradient), jax.jit(sources["jax"].function)
        placed = jax.device_put((start, x, y))
        sides: dict[str, Callable[[], object]] = {
            "original": lambda f=original, a=placed: jax.block_until_ready(f(*a)),
            "decompiled": lambda f=decompiled, a=placed: jax.block_until_ready(f(*a)),
            "numpy": lambda f=sources["numpy"].function, a=(start, x, y): f(*a),
            "by hand": lambda f=by_hand, a=(start, x, y): f(*a),
        }
        # Each pair by itself: JAX has a copy of the data, which would push ours out of the cache for one side only.
        seconds: dict[str, list[float]] = {}
        for pair in (("original", "decompiled"), ("numpy", "by hand")):
            seconds |= interleave({side: sides[side] for side in pair}, repetitions=REPETITIONS, warmup=3)
        print(
            f"# {name}: " + ", ".join(f"{k} {1e3 * float(np.median(v)):.2f} ms" for k, v in seconds.items()), flush=True
        )
        ratios[f"{name}: decompiled / original, jit"] = ratio(seconds, "decompiled", "original")
        ratios[f"{name}: numpy / by hand"] = ratio(seconds, "numpy", "by hand")
        targets[f"{name}: decompiled / original, jit"] = "<= 1.05"
        targets[f"{name}: numpy / by hand"] = "<= 2"
    jax.config.update("jax_enable_x64", False)
    lines: list[int] = []
    for layers in (LAYERS // 2, LAYERS):
        sizes = [64] * (layers + 1)
        model = [(random.normal(size=s).astype("f4") / 8, np.zeros(64, "f4")) for s in itertools.pairwise(sizes)]
        batch = random.normal(size=(32, 64)).astype("f4")
        for backend in ("jax", "numpy"):
            source = decompile(jax.grad(deep), model, batch, backend=backend, check=False)
            if layers == LAYERS:
                spent = best_of(
                    lambda m=model, b=backend, x=batch: decompile(jax.grad(deep), m, x, backend=b, check=False)
                )
                ratios[f"{layers} layers, seconds, {backend}"] = spent
                targets[f"{layers} layers, seconds, {backend}"] = "<= 10"
        lines.append(len(source.text.splitlines()))
    ratios["lines of 50 layers / of 25"] = lines[1] / lines[0]
    targets["lines of 50 layers / of 25"] = "<= 2"
    report("decompile", ratios, targets)


if __name__ == "__main__":
    main()

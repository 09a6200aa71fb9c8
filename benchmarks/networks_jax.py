"""What a step of JAX costs the ranks of a team on this machine, beside a plain jitted loop; and what is compiled.

python benchmarks/networks_jax.py                 all of it
python benchmarks/networks_jax.py --compiling     only the last

CPU seconds of whole processes: in each rank, blocks of plain steps and of the team's in turn, on random batches of a
dense network; the median of the blocks' ratios, and of the ranks. And what the first step of three ranks takes if they
share what is compiled, over that if each compiles for itself. That a team makes the steps of one of PyTorch is a test
(`tests/jax/test_team.py`).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import erasurehead.jax as ehj
from common import report

RANKS, BLOCKS = 4, 9
SIZES = {
    "51k, batches of 64": (64, 64, 100),
    "1.6M, batches of 64": (900, 64, 20),
    "1.6M, batches of 512": (900, 512, 5),
}
ONE = "a team of one, 1.6M, batches of 64"
TARGETS = {
    **{f"{name}: CPU of a step over a plain one": "<= 1.2" for name in SIZES},
    f"{ONE}: CPU of a step over a plain one": "<= 1.05",
    "first step: compiled by one over compiled by each": "<= 0.7",
}
LAYERS = 60


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def network(width: int) -> list[Any]:
    drawn = np.random.default_rng(0)
    pairs = ((784, width), (width, width), (width, 10)) if width > 100 else ((784, width), (width, 10))
    return [
        (drawn.normal(size=pair).astype(np.float32) / pair[0] ** 0.5, np.zeros(pair[1], np.float32)) for pair in pairs
    ]


def loss(params: Any, batch: Any) -> Any:
    x, y = batch
    *hidden, (weights, bias) = params
    for own, added in hidden:
        x = jax.nn.relu(x @ own + added)
    return optax.softmax_cross_entropy_with_integer_labels(x @ weights + bias, y).mean()


def step_rank(name: str) -> None:
    width, size, steps = SIZES[name]
    optimizer = optax.sgd(0.01, 0.9)

    def plain(params: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    team = ehj.join()
    step = team.step(loss, optimizer)
    first = jax.tree.map(jnp.asarray, network(width))
    sides = {
        "plain": (jax.jit(plain, donate_argnums=(0, 1)), (first, optimizer.init(first))),
        "team": (step, step.init(network(width))),
    }
    drawn = np.random.default_rng(team.rank)
    batches = [(drawn.normal(size=(size, 784)).astype(np.float32), drawn.integers(0, 10, size)) for _ in range(16)]
    for block in range(-1, BLOCKS):
        for side, (call, (params, state)) in sides.items():
            begin = time.process_time()
            for number in range(steps):
                params, state, value = call(params, state, batches[number % 16])
            jax.block_until_ready((params, value))
            if block >= 0:
                say(side=side, rank=team.rank, block=block, seconds=(time.process_time() - begin) / steps)
            sides[side] = call, (params, state)


def compile_rank() -> None:
    def deep(params: Any, batch: Any) -> Any:
        for layer in params:
            batch = jnp.tanh(batch @ layer + jnp.sort(batch, axis=1))
        return (batch**2).mean()

    step = ehj.join().step(deep, optax.adamw(1e-3))
    params, state = step.init([np.full((8, 8), 0.1 + layer, np.float32) for layer in range(LAYERS)])
    begin = time.process_time()
    jax.block_until_ready(step(params, state, np.ones((4, 8), np.float32)))
    say(seconds=time.process_time() - begin)


def run(ranks: int, *arguments: str, **variables: str) -> list[dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "erasurehead.torch.run",
        "-n",
        str(ranks),
        "--output",
        "plain",
        __file__,
        *arguments,
    ]
    done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def cost(name: str, ranks: int = RANKS) -> tuple[float, float]:
    """Return milliseconds of a plain step, and the team's over it."""
    said = run(ranks, name, XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    of = {(one["side"], one["rank"], one["block"]): one["seconds"] for one in said}
    each = [
        statistics.median(of["team", rank, block] / of["plain", rank, block] for block in range(BLOCKS))
        for rank in range(ranks)
    ]
    plain = statistics.median(seconds for (side, *_), seconds in of.items() if side == "plain")
    return 1e3 * plain, statistics.median(each)


def compiling() -> dict[str, float]:
    """Return what the first step of three ranks takes, in CPU seconds of all."""
    shared = sum(one["seconds"] for one in run(3, "compile"))
    each = sum(one["seconds"] for one in run(3, "compile", JAX_COMPILATION_CACHE_DIR=""))
    return {
        "first step: compiled by one, seconds of CPU": shared,
        "first step: compiled by each, seconds of CPU": each,
        "first step: compiled by one over compiled by each": shared / each,
    }


def main(only_compiling: bool) -> None:
    ratios: dict[str, float] = {}
    if not only_compiling:
        costs = {name: cost(name) for name in SIZES}
        for name, (plain, over) in {**costs, ONE: cost("1.6M, batches of 64", 1)}.items():
            ratios |= {f"{name}: plain, ms of CPU": plain, f"{name}: CPU of a step over a plain one": over}
    ratios |= compiling()
    report(Path(__file__).stem, ratios, {name: target for name, target in TARGETS.items() if name in ratios})


if __name__ == "__main__":
    rank = sys.argv[1] if sys.argv[1:] and not sys.argv[1].startswith("--") else None
    if rank is None:
        main("--compiling" in sys.argv)
    else:
        compile_rank() if rank == "compile" else step_rank(rank)

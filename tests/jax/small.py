"""A small task and a stock loop over it, for teams on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import erasurehead.jax as ehj

_DRAWN = np.random.default_rng(5)
X = _DRAWN.standard_normal((2000, 12)).astype(np.float32)
Y = (X @ _DRAWN.standard_normal((12, 3))).argmax(1)

Params = dict[str, Any]

MOMENTUM = optax.sgd(0.1, 0.9)
ADAM = optax.adamw(0.01)


def net(seed: int = 3, width: int = 16) -> Params:
    """Return a network of which all ranks have the same; one leaf is None."""
    drawn = np.random.default_rng(seed)
    sizes = (12, width, 3)
    layers = [
        {"w": drawn.uniform(-1, 1, pair).astype(np.float32) / pair[0] ** 0.5, "b": np.zeros(pair[1], np.float32)}
        for pair in pairwise(sizes)
    ]
    return {"layers": layers, "unused": None}


def loss(params: Params, batch: Any) -> Any:
    """Return the mean cross-entropy."""
    x, y = batch
    first, second = params["layers"]
    hidden = jax.nn.relu(x @ first["w"] + first["b"])
    return optax.softmax_cross_entropy_with_integer_labels(hidden @ second["w"] + second["b"], y).mean()


def batch(rank: int, step: int, size: int = 16) -> tuple[Any, Any]:
    """Return the samples of a rank's step."""
    own = np.random.default_rng((step, rank)).integers(0, len(X), size)
    return X[own], Y[own]


def weights(params: Params) -> Any:
    """Return all parameters as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def loss_of(params: Params) -> float:
    """Return the loss over all samples."""
    return float(loss(params, (X, Y)))


def alone(ranks: int, steps: int, optimizer: Any = MOMENTUM) -> Params:
    """Return the parameters of synchronous training: one process that has the batches of all ranks in each step."""
    params = jax.tree.map(jnp.asarray, net())
    state, gradient = optimizer.init(params), jax.jit(jax.grad(loss))
    for step in range(steps):
        every = [batch(rank, step) for rank in range(ranks)]
        whole = tuple(np.concatenate(parts) for parts in zip(*every, strict=True))
        updates, state = optimizer.update(gradient(params, whole), state, params)
        params = optax.apply_updates(params, updates)
    return params


def loop(
    steps: int | Callable[[int], int],
    optimizer: Any = MOMENTUM,
    each: Callable[[ehj.JaxTeam, Params], object] | None = None,
    **options: Any,
) -> Callable[[], Params]:
    """Return a main: a stock loop of so many steps, and the team's parameters as this rank then has them."""

    def main() -> Params:
        team = ehj.join()
        step = team.step(loss, optimizer, **options)
        params, state = step.init(net())
        for number in range(steps if isinstance(steps, int) else steps(team.rank)):
            params, state, _ = step(params, state, batch(team.rank, number))
            if each is not None:
                each(team, params)
        return team.params()

    return main

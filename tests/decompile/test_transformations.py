"""Functions transformed twice and three times: each becomes a source that gives the same values in the same pytree."""

# ruff: noqa: E402

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp
from jax import lax

from erasurehead.decompile import decompile

pytestmark = pytest.mark.usefixtures("not_optimised")

X = np.array([0.7, -0.4, 1.3], np.float32)
TABLE = np.array([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0], [2.0, 0.5, 1.0]], np.float32)
Function = Callable[[Any], Any]


@jax.custom_jvp
def _rounded(x: Any) -> Any:
    return jnp.sqrt(x * x + 1)


_rounded.defjvp(lambda p, t: (_rounded(p[0]), t[0] * p[0] / _rounded(p[0])))


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return jnp.tanh(x)


_clipped.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (jnp.where(x > 0, g, 0.5 * g),))

FUNCTIONS: dict[str, Function] = {  # from an array of three numbers to one
    "max": lambda x: jnp.maximum(x, 0.0),
    "relu": jax.nn.relu,
    "where": lambda x: jnp.where(x > 0, jnp.log1p(jnp.abs(x)), 0.0),
    "clip": lambda x: jnp.clip(x, -1.0, 0.5) * 2,
    "of closures": lambda x: jnp.tanh(jnp.asarray(TABLE) @ x),
    "largest": lambda x: x * jnp.max(x),
    "softmax": jax.nn.softmax,
    "norm": lambda x: (x - x.mean()) / jnp.sqrt(x.var() + 0.1),
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
    "own jvp": _rounded,
    "own vjp": _clipped,
    "outer": lambda x: jnp.sin(jnp.outer(x, x)).sum(0),
    "steps": lambda x: jnp.cumsum(jnp.sort(x)) * jnp.arange(3.0),
    "updates": lambda x: x.at[0].set(x[2] * 2.0).at[1].add(1.0),
    "convolved": lambda x: jnp.convolve(x, jnp.array([1.0, -1.0, 0.5]), mode="same"),
}


def _sum(function: Function) -> Function:
    return lambda x: jnp.sum(jnp.cos(function(x)))


def _own_jvp(function: Function) -> Function:
    made = jax.custom_jvp(lambda x: function(x))
    made.defjvp(lambda p, t: (made(p[0]), jax.jvp(function, p, t)[1] * 1.0))
    return made


def _own_vjp(function: Function) -> Function:
    made = jax.custom_vjp(lambda x: function(x))
    made.defvjp(lambda x: (function(x), x), lambda x, g: jax.vjp(function, x)[1](g))
    return made


TRANSFORMATIONS: dict[str, Callable[[Function], Function]] = {
    "jit": jax.jit,
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])).sum(0),
    "vmap over one": lambda f: lambda x: jax.vmap(lambda a, b: f(a * b), (None, 0))(x, x[:2]).mean(0),
    "grad": lambda f: jax.grad(_sum(f)),
    "value and grad": lambda f: lambda x: (lambda v, g: v * g)(*jax.value_and_grad(_sum(f))(x)),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1],
    "jacobian": lambda f: lambda x: jax.jacrev(f)(x) @ x,
    "hessian": lambda f: lambda x: jax.hessian(_sum(f))(x)[0],
    "scan": lambda f: (
        lambda x: (lambda c, rows: c + rows.sum())(
            *lax.scan(lambda c, s: (f(c * s), c[0] * s), x, jnp.array([0.5, 2.0]))
        )
    ),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, lambda y: y * 2, x),
    "switch": lambda f: lambda x: lax.switch(jnp.argmax(x), [lambda y: y * y, lambda y: -y, f], x),
    "remat": jax.checkpoint,
    "own jvp": _own_jvp,
    "own vjp": _own_vjp,
    "loop": lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c) + i, x),
}


def composed(chain: tuple[str, ...], function: Function) -> Function:
    """Return a function after transformations, the first of which comes first, in a pytree with empty parts."""
    for name in chain:
        function = TRANSFORMATIONS[name](function)
    return lambda x: {"y": function(x), "none": None, "empty": [(), {}]}


def round_trip(chain: tuple[str, ...], name: str) -> None:
    """Decompile for both backends, and compare values and pytree with the function's own."""
    function = composed(chain, FUNCTIONS[name])
    try:
        wanted = jax.jit(function)(X)
    except (TypeError, NotImplementedError):  # JAX has no forward derivative of a rule for the backward one
        return
    for backend in ("jax", "numpy"):
        source = decompile(function, X, backend=backend, check=False)
        assert jax.tree.structure(source(X)) == jax.tree.structure(wanted)
        report = source.check(function, X, draws=1, other_mode=False)
        assert report.passed, f"{report}\n{source.text}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "name"),
    [
        (("grad", "vmap"), "max"),
        (("grad", "vmap"), "where"),
        (("grad", "vmap over one"), "relu"),
        (("hessian",), "own jvp"),
        (("switch", "grad"), "softmax"),
        (("scan", "remat", "grad"), "own vjp"),
        (("cond", "jit", "vmap"), "norm"),
        (("grad", "jvp"), "largest"),
    ],
)
def test_transformed(chain: tuple[str, ...], name: str) -> None:
    round_trip(chain, name)


def chains(count: int) -> list[Any]:
    """Return chains of up to three transformations, drawn at random, each with a function."""
    every = [
        (chain, name)
        for depth in (1, 2, 3)
        for chain in itertools.product(TRANSFORMATIONS, repeat=depth)
        for name in FUNCTIONS
    ]
    return [pytest.param(*one, id=" ".join((*one[0], one[1]))) for one in random.Random(2).sample(every, count)]


@pytest.mark.slow
@pytest.mark.parametrize(("chain", "name"), chains(16))
def test_transformed_up_to_three_times(chain: tuple[str, ...], name: str) -> None:
    round_trip(chain, name)

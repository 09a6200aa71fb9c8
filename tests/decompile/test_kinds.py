"""What people decompile: gradients and their gradients, loops, models in training, and 40 functions transformed."""

# ruff: noqa: E402

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from erasurehead.decompile import decompile

pytestmark = pytest.mark.usefixtures("not_optimised")

_random = np.random.default_rng(3)
X = _random.normal(size=(6, 4)).astype(np.float32)
V = _random.normal(size=4).astype(np.float32)
T = _random.normal(size=(6, 2)).astype(np.float32)


def both(function: Callable[..., Any], *arguments: Any, draws: int = 1) -> dict[str, Any]:
    """Return the sources of a function for both backends, checked."""
    compiled = jax.jit(function)
    found: dict[str, Any] = {}
    for backend in ("jax", "numpy"):
        source = decompile(function, *arguments, backend=backend, check=False)
        report = source.check(compiled, *arguments, draws=draws)
        assert report.passed, report
        found[backend] = source
    return found


def test_scalars() -> None:
    both(jax.value_and_grad(lambda x: jnp.log(1 + jnp.exp(x)) * x**-0.1), 10.0)


@pytest.mark.slow
def test_gradients_of_gradients() -> None:
    cube = lambda x: jnp.sin(x) * x**3  # noqa: E731
    both(jax.grad(jax.grad(jax.grad(cube))), 1.5)


def test_what_has_no_gradient() -> None:
    both(jax.grad(lambda x: jnp.round(x) + x - lax.stop_gradient(x)), 0.7)


def test_pmap_and_shard_map_over_one_device_are_their_bodies() -> None:
    both(jax.pmap(lambda x: lax.psum(x, "i") * lax.axis_index("i"), axis_name="i"), X[:1])
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

    def body(x: Any) -> Any:
        whole = lax.all_gather(x, "i", tiled=True) + lax.pmax(x, "i")
        swapped = lax.ppermute(whole, "i", [(0, 0)])
        return (
            lax.psum_scatter(swapped, "i", tiled=True),
            lax.all_gather(x, "i").sum(0),
            lax.all_to_all(x, "i", 0, 0, tiled=True),
        )

    spec = PartitionSpec()
    sources = both(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=(spec,) * 3, check_vma=False), X)
    assert "shard_map" not in sources["jax"].text


def linear(w: Any, x: Any, y: Any) -> Any:
    return jnp.mean((x @ w - y) ** 2)


def layers(params: Any, x: Any, y: Any) -> Any:
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.mean((x - y) ** 2)


def model(*sizes: int) -> list[Any]:
    random = np.random.default_rng(0)
    return [
        [random.normal(size=(a, b)).astype(np.float32) / a**0.5, random.normal(size=b).astype(np.float32)]
        for a, b in itertools.pairwise(sizes)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_training_with_a_decompiled_gradient_gives_the_same_losses(backend: str) -> None:
    start = model(4, 5, 2)
    source = decompile(jax.value_and_grad(layers), start, X, T, backend=backend)
    losses: list[list[float]] = []
    for gradient in (jax.jit(jax.value_and_grad(layers)), source.function):
        params, seen = start, list[float]()
        for _ in range(10):
            loss, slope = gradient(params, X, T)
            params = jax.tree.map(lambda p, g: np.asarray(p - 0.5 * g), params, slope)
            seen.append(float(loss))
        losses.append(seen)
    assert losses[0][-1] < losses[0][0]
    assert losses[1] == losses[0] if backend == "jax" else np.allclose(*losses, rtol=1e-5)


def test_linear_regression_step() -> None:
    def step(w: Any, momentum: Any, x: Any, y: Any) -> Any:
        slope = jax.grad(linear)(w, x, y)
        momentum = 0.9 * momentum + slope
        return w - 0.1 * momentum, momentum

    both(step, V, V, X, T[:, 0])


@pytest.mark.slow
def test_adam_step() -> None:
    def step(state: dict[str, Any], x: Any, y: Any) -> Any:
        slope = jax.grad(linear)(state["w"], x, y)
        count = state["count"] + 1
        mean = 0.9 * state["mean"] + 0.1 * slope
        square = 0.999 * state["square"] + 0.001 * slope**2
        scale = jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        w = state["w"] - 0.01 * scale * mean / (jnp.sqrt(square) + 1e-8)
        return {"w": w, "count": count, "mean": mean, "square": square}

    both(step, {"w": V, "count": np.int32(3), "mean": V, "square": V**2}, X, T[:, 0])


@pytest.mark.slow
def test_fifty_layers_stay_linear_in_size() -> None:
    sizes: list[int] = []
    for n in (10, 20, 40):
        params = model(*[8] * (n + 1))
        sizes.append(
            len(
                decompile(
                    jax.grad(layers), params, X[:, :1] * np.ones(8, "f4"), X[:, :1] * np.ones(8, "f4"), check=False
                ).text
            )
        )
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


@pytest.mark.slow
def test_with_64_bit_types() -> None:
    with jax.enable_x64(True):
        wide = X.astype(np.float64)
        for backend in ("jax", "numpy"):
            source = decompile(
                lambda x: (jnp.sin(x) * 2, jnp.arange(3), jnp.sum(x > 0), x.astype(jnp.float32)), wide, backend=backend
            )
            assert source.report.passed
            result = source(wide)
            assert [np.asarray(r).dtype.name for r in result] == ["float64", "int64", "int64", "float32"]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: jnp.sin(x).sum(),
    "tanh": lambda x: jnp.tanh(x).sum(),
    "exp": lambda x: jnp.exp(x * 0.1).sum(),
    "log": lambda x: jnp.log(x**2 + 1).sum(),
    "sqrt": lambda x: jnp.sqrt(x**2 + 1).sum(),
    "power": lambda x: (jnp.abs(x) + 1 + x**3).sum(),
    "division": lambda x: (x / (1 + x**2)).sum(),
    "atan2": lambda x: jnp.arctan2(x, x**2 + 1).sum(),
    "logistic": lambda x: jax.nn.sigmoid(x).sum(),
    "softmax": lambda x: (jax.nn.softmax(x) * x).sum(),
    "logsumexp": jax.nn.logsumexp,
    "softplus": lambda x: jax.nn.softplus(x).sum(),
    "gelu": lambda x: jax.nn.gelu(x).sum(),
    "silu": lambda x: jax.nn.silu(x).sum(),
    "relu": lambda x: (jax.nn.relu(x) ** 2).sum(),
    "maximum": lambda x: jnp.maximum(x, 0.5 * x**2).sum(),
    "where": lambda x: jnp.where(x > 0, x**2, jnp.sin(x)).sum(),
    "clip": lambda x: (jnp.clip(x, -1, 1) ** 2).sum(),
    "max": lambda x: jnp.max(x) * x.sum(),
    "prod": lambda x: jnp.prod(x + 2),
    "mean": lambda x: jnp.mean(x) ** 2,
    "var": jnp.var,
    "norm": jnp.linalg.norm,
    "cumsum": lambda x: (jnp.cumsum(x) ** 2).sum(),
    "sort": lambda x: (jnp.sort(x) * jnp.arange(4.0)).sum(),
    "outer": lambda x: jnp.sin(jnp.outer(x, x)).sum(),
    "matmul": lambda x: ((jnp.asarray(X) @ x) ** 2).sum(),
    "einsum": lambda x: jnp.einsum("i,ij,j->", x, jnp.asarray(X[:4]), jnp.sin(x)),
    "reshape": lambda x: (x.reshape(2, 2) @ x.reshape(2, 2)).sum(),
    "concatenate": lambda x: (jnp.concatenate([x, x**2]) ** 2).sum(),
    "roll": lambda x: (jnp.roll(x, 1) * x).sum(),
    "index": lambda x: x[jnp.array([0, 2, 2])].sum() * x[0],
    "scatter": lambda x: (x.at[1].set(x[0] ** 2) ** 2).sum(),
    "slices": lambda x: (x[1:] * x[:-1]).sum(),
    "pad": lambda x: (jnp.pad(x, 1) ** 3).sum(),
    "convolve": lambda x: (jnp.convolve(x, x) ** 2).sum(),
    "pooling": lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID") ** 2).sum(),
    "scan": lambda x: lax.scan(lambda c, v: (jnp.sin(c + v), c * v), 0.5, x)[1].sum(),
    "cond": lambda x: lax.cond(x[0] > 0, lambda: (x**2).sum(), lambda: jnp.cos(x).sum()),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + x, x).sum(),
    "solve": lambda x: jnp.linalg.solve(jnp.diag(x**2 + 1) + 0.1, x).sum(),
    "cholesky": lambda x: jnp.linalg.cholesky(jnp.outer(x, x) + 2 * jnp.eye(4)).sum(),
    "eigh": lambda x: (jnp.linalg.eigvalsh(jnp.outer(x, x) + jnp.diag(jnp.arange(4.0))) ** 2).sum(),
    "fft": lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum(),
    "erf": lambda x: jax.scipy.special.erf(x).sum(),
}


def hessian_vector(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, t: jax.jvp(jax.grad(function), (x,), (t,))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_jvps_vmaps_and_hessian_vector_products(name: str) -> None:
    function = FUNCTIONS[name]
    hessian = hessian_vector(function) if name not in ("eigh",) else (lambda x, t: x)

    def everything(x: Any, t: Any) -> Any:
        return (
            jax.grad(function)(x),
            jax.jvp(function, (x,), (t,)),
            jax.vmap(function)(jnp.stack([x, t])),
            hessian(x, t),
        )

    both(everything, V, V[::-1].copy())


def test_there_are_forty_functions() -> None:
    assert len(FUNCTIONS) >= 40

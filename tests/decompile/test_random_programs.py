"""Random programs of the supported primitives, against JAX."""

# ruff: noqa: E402

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp
from jax import lax

from erasurehead.decompile import decompile
from erasurehead.decompile._checking.check import check
from erasurehead.decompile._writing import text_of

pytestmark = pytest.mark.usefixtures("not_optimised")

Step = tuple[Callable[..., Any], int]

FLOATS: list[Callable[[Any], Any]] = [
    jnp.sin,
    jnp.tanh,
    jnp.exp,
    jnp.abs,
    jnp.square,
    jnp.floor,
    jnp.sign,
    lax.logistic,
    lambda x: -x,
    lambda x: x * 2.5,
    lambda x: 1.0 - x,
    lambda x: x**3,
    lambda x: x > 0.1,
    lambda x: x.astype(jnp.int32),
    lambda x: jnp.sqrt(jnp.abs(x)),
]
INTEGERS: list[Callable[[Any], Any]] = [
    lambda x: x * 3,
    lambda x: x // 2,
    lambda x: x % 3,
    lambda x: x & 5,
    lambda x: x ^ 3,
    lambda x: ~x,
    lambda x: x << 2,
    lambda x: x >> 1,
    lambda x: x.astype(jnp.float32),
    lambda x: x > 1,
    lambda x: -x,
    lambda x: jnp.abs(x),
]
BOOLEANS: list[Callable[[Any], Any]] = [
    lambda x: ~x,
    lambda x: x.astype(jnp.float32),
    lambda x: x.astype(jnp.int32),
    lambda x: jnp.where(x, 1.5, -0.5),
]
PAIRS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    jnp.maximum,
    jnp.minimum,
    lambda a, b: a == b,
    lambda a, b: jnp.where(a < b, a, b),
]
REDUCTIONS = [jnp.sum, jnp.max, jnp.min, jnp.mean, jnp.argmax, jnp.any, jnp.cumsum, jnp.sort, jnp.prod]
SHAPES: list[Callable[[Any], Any]] = [
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x.ravel(),
    lambda x: x[None],
    lambda x: x[..., None],
    lambda x: jnp.concatenate([x, x]),
    lambda x: jnp.pad(x, 1),
    lambda x: jnp.repeat(x, 2, axis=0),
    lambda x: jnp.roll(x, 1),
    lambda x: x[1:],
    lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    lambda x: jnp.take(x, jnp.array([0, 0]), axis=0),
    lambda x: x.at[0].set(x[-1]),
]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A function of one to three arrays, and examples."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 3), (2, 1, 3)]))
    kinds = draw(st.lists(st.sampled_from(["f", "f", "i", "b"]), min_size=1, max_size=3))
    arrays: list[np.ndarray] = []
    for kind in kinds:
        own = tuple(n if draw(st.booleans()) else 1 for n in shape)
        values = random.normal(size=own) * 2
        arrays.append(
            {"f": values.astype(np.float32), "i": np.rint(values * 3).astype(np.int32), "b": np.asarray(values > 0)}[
                kind
            ]
        )
    plan = draw(
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 5)), min_size=2, max_size=9)
    )

    def function(*inputs: Any) -> Any:
        values = [jnp.asarray(v) for v in inputs]
        for a, b, kind in plan:
            x, y = values[a % len(values)], values[b % len(values)]
            if x.size > 300:
                continue
            if kind == 0 and x.ndim and x.size:
                function = REDUCTIONS[b % len(REDUCTIONS)]
                values.append(function(x, axis=b % x.ndim))
            elif kind == 1 and x.ndim and x.shape[0]:
                values.append(SHAPES[b % len(SHAPES)](x))
            elif kind == 2:
                try:
                    np.broadcast_shapes(x.shape, y.shape)
                except ValueError:
                    continue
                if x.dtype == bool or y.dtype == bool:
                    values.append(x == y)
                else:
                    values.append(PAIRS[(a + b) % len(PAIRS)](x, y))
            else:
                table = {"f": FLOATS, "i": INTEGERS, "b": BOOLEANS}[x.dtype.kind]
                values.append(table[b % len(table)](x))
        return values[-3:]

    return function, arrays


def round_trip(program: tuple[Callable[..., Any], list[np.ndarray]]) -> None:
    function, arrays = program
    compiled = jax.jit(function)
    for backend in ("jax", "numpy"):
        source = decompile(function, *arrays, backend=backend, check=False)
        report = check(source, compiled, arrays, draws=1, other_mode=False)
        assert report.passed, f"{report}\n{source.text}"
        if backend == "jax":
            assert text_of(source.function, tuple(arrays)) == source.text


@pytest.mark.slow
@settings(max_examples=8)
@given(programs())
def test_round_trips_of_random_programs(program: tuple[Callable[..., Any], list[np.ndarray]]) -> None:
    round_trip(program)


@pytest.mark.slow
@settings(max_examples=25)
@given(programs())
def test_round_trips_of_many_random_programs(program: tuple[Callable[..., Any], list[np.ndarray]]) -> None:
    round_trip(program)

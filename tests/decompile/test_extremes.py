"""Infinities, NaN, signed zeros, subnormal numbers and the ends of integers: what sources do with them, and checks."""

# ruff: noqa: E402

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
import jax.numpy as jnp
from jax import lax

from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.decompile._checking.check import MOST_ULPS

pytestmark = pytest.mark.usefixtures("not_optimised")

_random = np.random.default_rng(11)
IMAGE = _random.normal(size=(1, 4, 5, 2)).astype(np.float32)
KERNEL = _random.normal(size=(3, 3, 2, 3)).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")
V = np.array([0.5, -1.5, 2.0, 0.25], np.float32)
MATRIX = (_random.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=LAYOUT),
        lambda w, x: jax.grad(lambda x: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=LAYOUT).sum())(
            x
        ),
        lambda w, x: lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(1, 2), dimension_numbers=LAYOUT),
        lambda w, x: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAYOUT),
    ],
)
def test_an_infinite_weight_gives_nan_only_where_xla_has_it(function: Callable[..., Any]) -> None:
    source = decompile(function, KERNEL, IMAGE, backend="numpy", check=False)
    kernel = KERNEL.copy()
    kernel[0, 0, 0, 0] = np.inf
    for weights in (KERNEL, kernel):
        assert np.allclose(source(weights, IMAGE), function(weights, IMAGE), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [jnp.linalg.qr, jnp.linalg.svd, jnp.linalg.eigh, jnp.linalg.eig, jnp.linalg.cholesky, jax.scipy.linalg.schur],
)
def test_factors_of_matrices_with_infinities_raise_no_error(function: Callable[[Any], Any]) -> None:
    source = decompile(function, MATRIX, backend="numpy", check=False)
    matrix = MATRIX.copy()
    matrix[1, 1] = np.inf
    shapes = [a.shape for a in jax.tree.leaves(function(MATRIX))]
    found = jax.tree.leaves(source(matrix))
    assert [a.shape for a in found] == shapes
    assert all(not np.isfinite(a).all() for a in found)


def test_rounding_and_choices_among_several_at_the_ends() -> None:
    ends = np.array([np.inf, -np.inf, np.nan, -0.25, 2.5, -0.5], np.float32)
    rounded = decompile(lax.round, ends, backend="numpy", check=False)(ends)
    assert np.array_equal(rounded, lax.round(ends), equal_nan=True)
    assert np.array_equal(np.signbit(rounded), np.signbit(lax.round(ends)))

    def chosen(which: Any, x: Any) -> Any:
        return lax.select_n(which, x, x * 2, x * 3)

    which = np.array([np.iinfo(np.int32).min, 1, np.iinfo(np.int32).max, 2], np.int32)
    assert np.array_equal(decompile(chosen, which, V, backend="numpy", check=False)(which, V), chosen(which, V))


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (lambda x: jnp.where(x == jnp.inf, 0.0, x), "np.where(x == np.inf, 0.0, x)", "x"),
        (lambda x: jnp.maximum(x, 0.0), "np.maximum(x, 0.0)", "np.fmax(x, 0.0)"),
        (lambda n: jnp.abs(n) * 3, "np.abs(n)", "np.abs(np.minimum(n, 1000))"),
    ],
)
def test_edits_that_are_wrong_at_extremes_only_are_found(function: Callable[..., Any], old: str, new: str) -> None:
    x = np.arange(4, dtype=np.int32) if "n" in function.__code__.co_varnames else V
    source = decompile(function, x, backend="numpy")
    assert old in source.text
    report = DecompiledSource(source.text.replace(old, new), source.name, "numpy").check(function, x)
    assert any(d.draw > 4 for d in report.differences), report


def test_what_xla_simplifies_is_no_difference() -> None:
    """XLA takes a product with the cast of a mask for a choice, so that NaN times 0 is 0."""
    report = decompile(lambda x: jnp.sum((x > 0).astype(jnp.float32) * x * 2.0), V, backend="numpy").report
    assert report.passed


@pytest.mark.slow
def test_cancellation_is_judged_by_the_condition_of_the_computation() -> None:
    def gru(p: Any, rows: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z, r = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"]), jax.nn.sigmoid(x @ p["wr"] + h @ p["ur"])
            h = (1 - z) * jnp.tanh(x @ p["wn"] + (r * h) @ p["un"]) + z * h
            return h, h

        last, every = lax.scan(step, jnp.zeros(4), rows)
        return last.sum() + 1.1 * every.sum()

    random = np.random.default_rng(11)
    shapes = {"wz": (3, 4), "wr": (3, 4), "wn": (3, 4), "uz": (4, 4), "ur": (4, 4), "un": (4, 4)}
    p = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arguments = p, random.normal(size=(7, 3)).astype(np.float32)
    source = decompile(jax.grad(gru), *arguments, check=False)
    report = source.check(draws=4, other_mode=False)
    assert report.passed, report
    assert report.worst > MOST_ULPS
    source = DecompiledSource(source.text.replace("1.1", "1.1001"), source.name, "jax")
    assert not source.check(jax.grad(gru), *arguments, draws=0).passed

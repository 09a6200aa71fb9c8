"""Short forms in texts for numpy: the same as JAX's long ones, for infinities and NaN, too."""

# ruff: noqa: E402

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the decompiler needs JAX: pip install 'erasurehead[jax]'")
jnp = jax.numpy

from erasurehead.decompile import decompile

ODD = [
    np.array([-np.inf, np.inf, np.nan, 0.0, 800.0]),
    np.array([-np.inf, -np.inf, -0.0, np.inf, np.inf]),
    np.array([np.inf, np.nan, 1e-300, -np.inf, -800.0]),
]

SHORT: list[tuple[str, Callable[[Any], Any], str]] = [
    ("softplus", lambda z: jax.nn.softplus(z).sum(), "np.logaddexp(z, 0.0)"),
    ("log_sigmoid", lambda z: jax.nn.log_sigmoid(z).sum(), "np.logaddexp(-z, 0.0)"),
    ("first is 0", lambda z: jnp.logaddexp(0.0, z).sum(), "np.logaddexp(0.0, z)"),
    ("both", lambda z: jnp.logaddexp(z, z[::-1]).sum(), "np.logaddexp(z, np.flip(z, 0))"),
    ("slope of softplus", jax.grad(lambda z: jax.nn.softplus(z).sum()), "1.0 / (1.0 + np.exp(-z))"),
    ("slope, first is 0", jax.grad(lambda z: jnp.logaddexp(0.0, z).sum()), "1.0 / (1.0 + np.exp(-z))"),
    ("slope of the opposite", jax.grad(lambda z: jnp.logaddexp(0.0, -z).sum()), "1.0 / (1.0 + np.exp(z))"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "text"), [case[1:] for case in SHORT], ids=[case[0] for case in SHORT])
def test_what_is_written_short_is_the_same(function: Callable[[Any], Any], text: str) -> None:
    with jax.enable_x64(True):
        source = decompile(function, np.linspace(-3, 5, 5), backend="numpy", name="f")
        assert text in source.text
        for z in ODD:
            np.testing.assert_allclose(source(z), np.asarray(function(z)), rtol=1e-12, atol=1e-300)


LONG: list[tuple[str, Callable[[Any], Any]]] = [
    ("another constant", jax.grad(lambda z: jnp.logaddexp(z, 1.0).sum())),
    ("not the maximum", lambda z: jnp.where(z != z, z + 0.0, jnp.minimum(z, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(z))))),
    ("no absolute value", lambda z: jnp.where(z != z, z + 0.0, jnp.maximum(z, 0.0) + jnp.log1p(jnp.exp(-jnp.sin(z))))),
    ("another test", lambda z: jnp.where(z > 3, z + 0.0, jnp.maximum(z, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(z))))),
]


@pytest.mark.parametrize("function", [case[1] for case in LONG], ids=[case[0] for case in LONG])
def test_what_only_looks_like_it_stays(function: Callable[[Any], Any]) -> None:
    with jax.enable_x64(True):
        source = decompile(function, np.linspace(-3, 5, 5), backend="numpy", name="f")
    assert "np.exp(" in source.text
    assert "1.0 / (1.0 +" not in source.text

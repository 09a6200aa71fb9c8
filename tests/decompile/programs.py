"""Functions to decompile, with examples: by family, so that every primitive is met."""

# ruff: noqa: E741

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import sparse
from jax.extend.core import primitives
from jax.scipy import special


@dataclass(frozen=True)
class Case:
    """A function with arguments.

    Arguments:
        name: of the case.
        function: to decompile.
        arguments: of it.
        numpy: whether the numpy backend writes it, or refuses it.
        loose: how many times the usual tolerance numpy may need: of functions that XLA approximates.
        ordered: False where signs of vectors are free, so that values are not compared.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    numpy: bool = True
    loose: float = 1.0
    ordered: bool = True


_random = np.random.default_rng(7)
X = _random.normal(size=(3, 4)).astype(np.float32)
Y = _random.normal(size=(3, 4)).astype(np.float32)
V = _random.normal(size=4).astype(np.float32)
W = _random.normal(size=5).astype(np.float32)
P = _random.uniform(0.1, 0.9, size=(3, 4)).astype(np.float32)
Q = _random.uniform(1.1, 3.0, size=(3, 4)).astype(np.float32)
SQUARE = (_random.normal(size=(4, 4)) + 4 * np.eye(4)).astype(np.float32)
SPD = (SQUARE @ SQUARE.T + np.eye(4)).astype(np.float32)
BATCH = _random.normal(size=(2, 4, 4)).astype(np.float32)
C = (_random.normal(size=(3, 4)) + 1j * _random.normal(size=(3, 4))).astype(np.complex64)
I = _random.integers(-9, 9, size=(3, 4)).astype(np.int32)
J = _random.integers(1, 7, size=(3, 4)).astype(np.int32)
U = _random.integers(0, 2**32, size=(3, 4)).astype(np.uint32)
B = _random.integers(0, 2, size=(3, 4)).astype(bool)
K = np.array([2, 0, 1, 2], np.int32)
H = X.astype(np.float16)
KEY = np.array([3, 5], np.uint32)
SIGNAL = _random.normal(size=(2, 3, 10)).astype(np.float32)
IMAGE = _random.normal(size=(2, 4, 6, 7)).astype(np.float32)
KERNEL = _random.normal(size=(6, 2, 3, 2)).astype(np.float32)
SPECIALS = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 3e38], np.float32)


def _sparse(dense: Any) -> sparse.BCOO:
    """Return a matrix as `BCOO.fromdense` does, which compiles dozens of programs on the way."""
    rows = np.argwhere(dense).astype(np.int32)
    return sparse.BCOO((dense[dense != 0], rows), shape=dense.shape, indices_sorted=True, unique_indices=True)


def _cases() -> list[Case]:
    found: list[Case] = []

    def add(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        found.append(Case(name, function, arguments, **options))

    # -- elementwise
    for name in (
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "atanh",
        "exp",
        "exp2",
        "log",
        "log1p",
        "expm1",
        "sqrt",
        "cbrt",
        "rsqrt",
        "logistic",
        "floor",
        "ceil",
        "sign",
        "abs",
        "is_finite",
        "erf",
        "erfc",
        "neg",
        "square",
        "reciprocal",
    ):
        add(name, getattr(lax, name), P)
    for name, loose in (("erf_inv", 64), ("lgamma", 64), ("digamma", 64), ("bessel_i0e", 8), ("bessel_i1e", 8)):
        add(name, getattr(lax, name), P, loose=loose)
    add("acosh", lax.acosh, Q)
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "atan2",
        "pow",
        "nextafter",
        "rem",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ):
        add(name, getattr(lax, name), P, Q)
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "rem",
        "eq",
        "lt",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        *(["mulhi"] if hasattr(lax, "mulhi") else []),  # since JAX 0.10
    ):
        add(f"{name} of integers", getattr(lax, name), I, J)
        add(f"{name} of unsigned", getattr(lax, name), U, J.astype(np.uint32))
    add(
        "shifts too far",
        lambda x, n: (lax.shift_left(x, n), lax.shift_right_logical(x, n), lax.shift_right_arithmetic(x, n)),
        I,
        np.full((3, 4), 40, np.int32),
    )
    add(
        "division by zero",
        lambda x, y: (lax.div(x, y), lax.rem(x, y)),
        np.array([5, -5, -(2**31), 0], np.int32),
        np.array([0, 0, -1, 0], np.int32),
    )
    add("bits", lambda x: (lax.population_count(x), lax.clz(x), ~x, -x, lax.abs(x), lax.sign(x)), I)
    add("unsigned bits", lambda x: (lax.population_count(x), lax.clz(x), ~x, -x), U)
    add(
        "booleans",
        lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, jnp.any(a, 1), jnp.all(a, 0), a.astype(jnp.float32)),
        B,
        ~B,
    )
    add("overflow", lambda x: (x * x * x, x + (2**31 - 1), (x << 20) * 77), I * 99991)
    add("floor division", lambda x, y: (x // y, x % y, jnp.divmod(x, y)), I, J)
    add("float floor division", lambda x, y: (x // y, x % y), X, Q)
    add("powers", lambda x, y: (x**2, x**3, x**-1, x**0, x**7, lax.pow(x, y), jnp.abs(x) ** 0.5, x**5.0), X, J)
    add("integer powers", lambda x, y: (x**2, x**3, x**y), I, J)
    add(
        "rounding",
        lambda x: (jnp.round(x * 3), lax.round(x * 2), jnp.trunc(x)),
        np.append(X.ravel(), [0.5, 1.5, -0.5]).astype(np.float32),
    )
    add("clamp", lambda x: (lax.clamp(-0.5, x, 0.5), jnp.clip(x, -1, 1)), X)
    add(
        "select",
        lambda c, x, y: (
            jnp.where(c, x, y),
            jnp.where(c, 0.0, x),
            jnp.where(c, x, 1.0),
            jnp.where(c, 1.0, 2.0),
            lax.select_n(c.astype(jnp.int32), x, y),
        ),
        B,
        X,
        Y,
    )
    add("select of three", lambda i, x: lax.select_n(i, x, x * 2, x + 1), J % 3, X)
    add(
        "complex",
        lambda z: (
            z * z,
            jnp.abs(z),
            z.real,
            z.imag,
            jnp.conj(z),
            jnp.exp(z),
            z / (z + 1),
            jnp.angle(z),
            jnp.sqrt(z),
            jnp.sign(z),
            jnp.sum(z, 0),
            jnp.prod(z),
        ),
        C,
        loose=4,
    )
    add("complex from parts", lambda x, y: lax.complex(x, y) * 2j, X, Y)
    add(
        "casts",
        lambda x, i: (
            x.astype(jnp.int32),
            i.astype(jnp.float32),
            (x > 0).astype(jnp.int8),
            i.astype(jnp.uint8),
            x.astype(jnp.bool_),
            i.astype(jnp.complex64),
            x.astype(jnp.float16),
            x.astype(jnp.uint8),
        ),
        X * 50,
        I,
    )
    add(
        "casts out of range",
        lambda x: (x.astype(jnp.int32), x.astype(jnp.int8), x.astype(jnp.uint8), x.astype(jnp.uint32)),
        np.array([1e20, -1e20, np.nan, np.inf, 300.7, -5.5], np.float32),
    )
    add(
        "bitcasts",
        lambda x, u: (
            lax.bitcast_convert_type(x, jnp.uint32),
            lax.bitcast_convert_type(u, jnp.float32),
            lax.bitcast_convert_type(x, jnp.uint8),
            lax.bitcast_convert_type(u, jnp.uint16),
        ),
        X,
        U >> 9,
    )
    add(
        "reduce precision",
        lambda x: (lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 8, 7), lax.reduce_precision(x * 1e6, 4, 3)),
        X,
    )
    add(
        "specials",
        lambda x: (
            x + 1,
            x * -1,
            jnp.maximum(x, 0.0),
            jnp.minimum(x, 0.0),
            jnp.abs(x),
            jnp.sign(x),
            x == x,
            x > 0,
            jnp.isnan(x),
            jnp.floor(x),
            jnp.where(x > 0, x, -x),
        ),
        SPECIALS,
    )
    add("half", lambda x: (x * 2.5, jnp.sum(x), jnp.tanh(x), x @ x.T, jnp.max(x), x > 0.5, x + 1), H, loose=4)
    add(
        "brain float",
        lambda x: (
            (x.astype(jnp.bfloat16) * 2.5).astype(jnp.float32),
            jnp.maximum(x.astype(jnp.bfloat16), 0).sum().astype(jnp.float32),
            x.astype(jnp.bfloat16),
        ),
        X,
        loose=4,
    )
    add("igamma", lambda a, x: (lax.igamma(a, x), lax.igammac(a, x)), Q, P, loose=64)
    add("grad of igamma", jax.grad(lambda a: lax.igamma(a, jnp.float32(0.7)).sum()), Q[0], loose=1e4)
    add("betainc", lambda a, b, x: lax.betainc(a, b, x), Q, Q + 1, P, loose=512)
    add("zeta", lambda x, q: lax.zeta(x, q), Q + 1, Q, loose=64)
    add("polygamma", lambda x: lax.polygamma(jnp.float32(2), x), Q, loose=256)
    # -- reductions
    for name in ("sum", "prod", "max", "min", "mean", "std", "var"):
        add(
            f"{name} along axes",
            lambda x, name=name: (
                getattr(jnp, name)(x),
                getattr(jnp, name)(x, axis=0),
                getattr(jnp, name)(x, axis=1, keepdims=True),
            ),
            X,
        )
    add("integer sums", lambda x, b: (jnp.sum(x), jnp.prod(x, 1), jnp.sum(b), jnp.max(x, 0), jnp.mean(x)), I, B)
    add("bitwise reductions", lambda x: (lax.reduce_and(x, (0,)), lax.reduce_or(x, (1,)), lax.reduce_xor(x, (0, 1))), U)
    add("searches", lambda x: (jnp.argmax(x), jnp.argmin(x, axis=0), lax.argmax(x, 1, jnp.int32)), X)
    add("searches with NaN", lambda x: (jnp.argmax(x), jnp.argmin(x), jnp.max(x), jnp.nanmax(x)), SPECIALS)
    add(
        "running",
        lambda x: (
            jnp.cumsum(x, 0),
            jnp.cumprod(x, 1),
            lax.cummax(x, 1),
            lax.cummin(x, 0, reverse=True),
            lax.cumlogsumexp(x, 1),
            lax.cumsum(x, 1, reverse=True),
        ),
        X,
    )
    add("running integers", lambda x: (jnp.cumsum(x), lax.cummax(x, 0)), I)
    add("reduce with a function", lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b - 0.0 * a, (0,)), X)
    add(
        "reduce pairs",
        lambda x, i: lax.reduce(
            (x, i),
            (np.float32(-9), np.int32(0)),
            lambda a, b: (jnp.maximum(a[0], b[0]), jnp.where(b[0] > a[0], b[1], a[1])),
            (0,),
        ),
        X,
        I,
    )
    add("logsumexp", lambda x: (special.logsumexp(x, 1), jax.nn.softmax(x), jax.nn.log_softmax(x, 0)), X)
    add(
        "windows",
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 1), "SAME"),
            lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (1, 1), "SAME", window_dilation=(1, 2)),
        ),
        X,
    )
    add(
        "integer windows",
        lambda x: (
            lax.reduce_window(x, np.int32(-(2**31)), lax.max, (2, 2), (1, 1), "VALID"),
            lax.reduce_window(x, np.int32(0), lax.add, (2, 2), (1, 1), "SAME"),
        ),
        I,
    )
    add(
        "window with a function",
        lambda x: lax.reduce_window(x, np.float32(1), lambda a, b: a * b, (2, 2), (1, 1), "VALID"),
        X,
    )
    add(
        "grad of max pooling",
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME") ** 2).sum()),
        X,
    )
    add(
        "grad of mean pooling",
        jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), "SAME") ** 2).sum()),
        X,
    )
    add(
        "jvp of max pooling",
        lambda x, t: jax.jvp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"), (x,), (t,)),
        X,
        Y,
    )
    # -- sorting
    add("sorts", lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=1), -jnp.sort(-x), lax.sort(x, dimension=0)), X)
    add("sorts of pairs", lambda i, x: lax.sort((i, x, i), num_keys=2), J, X)
    add("sorts with NaN", lambda x: (jnp.sort(x), jnp.argsort(x)), SPECIALS)
    add("top k", lambda x: (lax.top_k(x, 2), lax.top_k(jnp.array([1, 3, 3, 2]), 3)), X)
    add("approximate top k", lambda x: lax.approx_max_k(x, 2), X, numpy=False)
    add("medians", lambda x: (jnp.median(x), jnp.quantile(x, 0.3, axis=0), jnp.percentile(x, 80)), X)
    add("unique of a size", lambda x: jnp.unique(x, size=5), J)
    add("searchsorted", lambda x, v: jnp.searchsorted(jnp.sort(x), v), W, V)
    add("histogram", lambda x: jnp.histogram(x, bins=4), X.ravel())
    # -- shapes
    add(
        "shapes",
        lambda x: (
            x.T,
            x.reshape(2, 6),
            x[None],
            x[:, None],
            x.ravel(),
            jnp.squeeze(x[:1]),
            jnp.broadcast_to(x, (2, 3, 4)),
            jnp.expand_dims(x, -1),
            jnp.flip(x, 0),
            jnp.tile(x, (2, 1)),
            jnp.repeat(x, 2, axis=1),
            jnp.roll(x, 1),
        ),
        X,
    )
    add(
        "joins",
        lambda x, y: (
            jnp.concatenate([x, y]),
            jnp.stack([x, y], 1),
            lax.split(x, (1, 3), axis=1),
            jnp.hstack([x, y]),
            jnp.vstack([x, y]),
            *([lax.unstack(x)] if hasattr(lax, "unstack") else []),
        ),
        X,
        Y,
    )
    add(
        "pads",
        lambda x: (
            jnp.pad(x, 1),
            lax.pad(x, 0.5, ((1, -1, 2), (-1, 2, 0))),
            jnp.pad(x, ((0, 1), (2, 0)), mode="edge"),
            jnp.pad(x, 2, mode="reflect"),
        ),
        X,
    )
    add(
        "made from nothing",
        lambda x: (
            jnp.zeros(3) + x,
            jnp.arange(4.0) * x,
            jnp.eye(3, 4) + x[0],
            jnp.linspace(0, 1, 5),
            jnp.full((2, 2), x[0]),
            lax.broadcasted_iota(jnp.int32, (2, 3), 1),
        ),
        np.float32([2.0]),
    )
    add("transposes", lambda x: (x.transpose(1, 2, 0), jnp.moveaxis(x, 0, -1), jnp.swapaxes(x, 0, 1)), BATCH)
    add(
        "broadcasts",
        lambda x, v: (
            x + v,
            x * v[None, :],
            x - x.sum(1, keepdims=True),
            v[:, None] * v,
            jnp.outer(v, v),
            lax.broadcast_in_dim(v, (4, 2), (0,)),
        ),
        X,
        V,
    )
    add("triangles", lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.trace(x), jnp.diagonal(x, 1)), SQUARE)
    # -- indexing
    add("slices", lambda x: (x[0], x[1:, ::2], x[..., -1], x[::-1], x[-1, -1], x[:0]), X)
    add(
        "taken",
        lambda x, k: (
            x[k % 3],
            x[:, k],
            jnp.take(x, k, axis=1),
            x[k % 3, k],
            jnp.take_along_axis(x, k[None, :] % 4, 1),
            x[-k],
        ),
        X,
        K,
    )
    add(
        "modes of taking",
        lambda x, k: (
            x.at[k].get(mode="clip"),
            x.at[k].get(mode="fill"),
            x.at[k].get(mode="fill", fill_value=7.0),
            jnp.take(x, k, mode="fill"),
        ),
        V,
        np.array([1, 9, -2, -9], np.int32),
    )
    add(
        "modes of taking integers",
        lambda x, k: (x.at[k].get(mode="fill"), x.at[k].get(mode="clip")),
        I[0],
        np.array([1, 9, -9], np.int32),
    )
    add(
        "updates",
        lambda x, k: (
            x.at[0].set(1.0),
            x.at[k].add(2.0),
            x.at[k].multiply(3.0),
            x.at[k, k].min(0.0),
            x.at[:, k].max(0.5),
            x.at[1:, ::2].set(0.0),
            x.at[k].subtract(1.0),
            x.at[k].power(2.0),
        ),
        X,
        np.array([2, 0, 2], np.int32),
    )
    add(
        "modes of updates",
        lambda x, k: (x.at[k].add(1.0, mode="drop"), x.at[k].add(1.0, mode="clip"), x.at[k].set(5.0, mode="drop")),
        V,
        np.array([1, 9, 1], np.int32),
    )
    add(
        "dynamic slices",
        lambda x, i: (
            lax.dynamic_slice(x, (i, 1), (2, 2)),
            lax.dynamic_update_slice(x, x[:2, :2], (i, i)),
            lax.dynamic_index_in_dim(x, i),
            x[i],
        ),
        X,
        np.int32(1),
    )
    add(
        "dynamic slices outside",
        lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 2)), lax.dynamic_update_slice(x, x[:2, :2], (i, i))),
        X,
        np.int32(7),
    )
    add(
        "batched dynamic slices",
        jax.vmap(lambda x, i: (lax.dynamic_slice(x, (i,), (2,)), lax.dynamic_update_slice(x, x[:2], (i,)), x[i])),
        X,
        np.array([0, 2, 3], np.int32),
    )
    add("grad of taking", jax.grad(lambda x, k: (x[k % 3] ** 2).sum()), X, K)
    add("grad of sorting", jax.grad(lambda x: (jnp.sort(x, axis=1) * jnp.arange(4.0)).sum()), X)
    add("segment sum", lambda x, k: jax.ops.segment_sum(x, k, 3), V, K)
    add("one hot", lambda k: (jax.nn.one_hot(k, 4), jnp.bincount(k, length=4)), K)
    # -- products
    add(
        "products",
        lambda x, y, v: (
            x @ y.T,
            x.T @ y,
            x @ v,
            v @ v,
            jnp.outer(v, v),
            jnp.vdot(x, y),
            jnp.dot(x, v),
            jnp.matmul(x, y.T),
        ),
        X,
        Y,
        V,
    )
    add(
        "batched products",
        lambda a, b: (
            a @ b,
            jnp.einsum("bij,bkj->bik", a, b),
            jnp.einsum("bij,bij->b", a, b),
            jnp.einsum("ijk,ljk->il", a, b),
            jnp.einsum("bij,kj->bki", a, b[0]),
            jnp.tensordot(a, b, ((1, 2), (1, 2))),
        ),
        BATCH,
        BATCH + 1,
    )
    add(
        "integer products",
        lambda i, j: (
            i @ j.T,
            lax.dot_general(
                i.astype(jnp.int8), j.astype(jnp.int8), (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32
            ),
        ),
        I,
        J,
    )
    add(
        "products of precision",
        lambda x, y: (jnp.dot(x, y.T, precision="highest"), lax.dot(x, y.T, preferred_element_type=jnp.float32)),
        X,
        Y,
    )
    add("ragged product", lambda x, y: lax.ragged_dot(x, y, jnp.array([1, 2])), X, np.stack([X.T, Y.T]), numpy=False)
    conv = partial(lax.conv_general_dilated, window_strides=(1, 1), padding="VALID")
    add(
        "convolutions",
        lambda x, k: (conv(x[:, :2], k), conv(x[:, :2], k, window_strides=(2, 1), padding=((1, 2), (0, 1)))),
        IMAGE,
        KERNEL,
    )
    add(
        "dilated convolutions",
        lambda x, k: (
            conv(x[:, :2], k, lhs_dilation=(2, 1), padding=((1, 2), (0, 1))),
            conv(x[:, :2], k, rhs_dilation=(1, 2)),
        ),
        IMAGE,
        KERNEL,
    )
    add("grouped convolution", lambda x, k: conv(x, k, feature_group_count=2), IMAGE, KERNEL)
    add("batch grouped convolution", lambda x, k: conv(x[:, :2], k, batch_group_count=2), IMAGE, KERNEL)
    add(
        "channels last",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        IMAGE.transpose(0, 2, 3, 1)[..., :2],
        KERNEL.transpose(2, 3, 1, 0),
    )
    add(
        "transposed convolution",
        lambda x, k: lax.conv_transpose(x, k, (2,), "SAME"),
        SIGNAL.transpose(0, 2, 1),
        _random.normal(size=(3, 3, 2)).astype(np.float32),
    )
    add(
        "grad of convolution",
        jax.grad(lambda x, k: (conv(x[:, :2], k, window_strides=(2, 1), padding="SAME") ** 2).sum(), argnums=(0, 1)),
        IMAGE,
        KERNEL,
    )
    add("convolve", lambda x, y: (jnp.convolve(x, y, mode="same"), jnp.correlate(x, y)), W, V[:3])
    add(
        "fourier",
        lambda x: (
            jnp.fft.fft(x),
            jnp.fft.rfft(x),
            jnp.fft.ifft(x),
            jnp.fft.irfft(jnp.fft.rfft(x), n=4),
            jnp.fft.fft2(x),
            jnp.fft.rfft2(x),
            jnp.fft.irfft2(jnp.fft.rfft2(x), s=(3, 4)),
        ),
        X,
    )
    # -- control
    add("cond", lambda x, y: lax.cond(jnp.sum(x) > 0, lambda x, y: (x * 2, y), lambda x, y: (y - 1, x + y), x, y), X, Y)
    add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x), np.int32(1), X)
    add("switch beyond", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x), np.int32(9), X)
    add(
        "while",
        lambda x: lax.while_loop(
            lambda c: (c[0] < 5) & (jnp.sum(c[1]) < 100), lambda c: (c[0] + 1, c[1] * x + 1), (0, x)
        ),
        P,
    )
    add("while on one value", lambda x: lax.while_loop(lambda c: jnp.sum(c) < 50, lambda c: c * 2 + 1, x), P)
    add("fori", lambda x: lax.fori_loop(0, 4, lambda i, c: c * 1.5 + i, x), X)
    add("fori to a limit", lambda n, x: lax.fori_loop(0, n, lambda i, c: jnp.sin(c) + x, x), np.int32(3), X)
    add("scan", lambda x, v: lax.scan(lambda c, row: (c * v + row, jnp.sin(c)), jnp.zeros(4), x), X, V)
    add("scan in reverse", lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(4), x, reverse=True), X)
    add(
        "scan of two",
        lambda x, y: lax.scan(
            lambda c, rows: ((c[0] + rows[0], c[1] * 0.5), (rows[1], c[0])), (jnp.zeros(4), jnp.float32(2)), (x, y)
        ),
        X,
        Y,
    )
    add("scan without rows", lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=3), X)
    add("map", lambda x: lax.map(lambda row: row.sum() * row, x), X)
    add("associative scan", lambda x: lax.associative_scan(jnp.add, x), W)
    add(
        "loops in loops",
        lambda x: lax.fori_loop(0, 2, lambda i, c: lax.scan(lambda d, r: (d + r * c.sum(), None), c, x)[0], x[0]),
        X,
    )
    add(
        "branch in a loop",
        lambda x: lax.scan(lambda c, r: (lax.cond(r[0] > 0, lambda: c + r, lambda: c - r), c.sum()), x[0], x),
        X,
    )
    add(
        "grad of scan",
        jax.grad(lambda v, x: (lax.scan(lambda c, r: (jnp.tanh(c * v + r), c), jnp.zeros(4), x)[1] ** 2).sum()),
        V,
        X,
    )
    add(
        "grad of cond",
        jax.grad(lambda x: lax.cond(x.sum() > 0, lambda x: (x**2).sum(), lambda x: jnp.sin(x).sum(), x)),
        X,
    )
    add("vmap of cond", jax.vmap(lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: jnp.sin(x), x)), X)
    add("vmap of while", jax.vmap(lambda x: lax.while_loop(lambda c: c < 5, lambda c: c * 2, jnp.abs(x) + 0.1)), V)
    # -- linear algebra
    add(
        "cholesky",
        lambda a: (jnp.linalg.cholesky(a), jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), a[0])),
        SPD,
        loose=16,
    )
    add("cholesky of no such matrix", jnp.linalg.cholesky, -SPD)
    add("qr", lambda a: jnp.linalg.qr(a), SQUARE, loose=16)
    add("full qr", lambda a: jnp.linalg.qr(a, mode="complete"), SQUARE[:, :2], loose=16)
    add("svd", lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)), X, loose=16)
    add("singular values", lambda a: jnp.linalg.svd(a, compute_uv=False), X, loose=16)
    add("eigh", lambda a: tuple(jnp.linalg.eigh(a)), SPD, loose=16)
    add("eigenvalues", lambda a: jnp.linalg.eigvalsh(a), SPD, loose=16)
    add("eig", lambda a: tuple(jnp.linalg.eig(a)), SQUARE, loose=64)
    add("lu", lambda a: (lax.linalg.lu(a), jax.scipy.linalg.lu(a)), SQUARE, loose=16)
    add("solve", lambda a, b: jnp.linalg.solve(a, b), SQUARE, V, loose=16)
    add("batched solve", lambda a, b: jnp.linalg.solve(a + 4 * jnp.eye(4), b), BATCH, BATCH, loose=16)
    add("inverse", lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)[1]), SQUARE, loose=16)
    add(
        "triangular solves",
        lambda a, b: (
            lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
            lax.linalg.triangular_solve(a, b.T, lower=False, transpose_a=True),
            lax.linalg.triangular_solve(a, b, left_side=True, lower=True, unit_diagonal=True),
        ),
        SQUARE,
        SQUARE[:, :3],
        loose=64,
    )
    add("schur", lambda a: lax.linalg.schur(a), SQUARE, loose=64)
    add("hessenberg", lambda a: lax.linalg.hessenberg(a), SQUARE, loose=64)
    add("householder", lambda a: lax.linalg.householder_product(*lax.linalg.hessenberg(a)), SQUARE, loose=64)
    add("tridiagonal", lambda a: lax.linalg.tridiagonal(a), SPD, numpy=False)
    add(
        "tridiagonal solve",
        lambda d, b: lax.linalg.tridiagonal_solve(d * 0.1, d + 5, d * 0.2, b),
        V,
        SQUARE,
        numpy=False,
    )
    add("least squares", lambda a, b: jnp.linalg.lstsq(a, b)[0], X.T, V, loose=64)
    add("pinv", lambda a: jnp.linalg.pinv(a), X, loose=64)
    add(
        "matrix functions",
        lambda a: (jnp.linalg.matrix_power(a, 3), jax.scipy.linalg.expm(a * 0.1), jnp.linalg.norm(a)),
        SQUARE,
        loose=64,
    )
    add("grad of cholesky", jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), SPD, loose=64)
    add("grad of eigh", jax.grad(lambda a: (jnp.linalg.eigh(a)[0] ** 2).sum()), SPD, loose=64)
    add("grad of svd", jax.grad(lambda a: jnp.linalg.svd(a, compute_uv=False).sum()), X, loose=64)
    add("grad of solve", jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()), SQUARE, V, loose=64)
    add("grad of det", jax.grad(jnp.linalg.det), SQUARE, loose=64)
    add("cholesky update", lax.linalg.cholesky_update, np.linalg.cholesky(SPD).T.copy(), V, numpy=False)

    # -- randomness
    def random(name: str, draw: Callable[..., Any], **options: Any) -> None:
        add(name, lambda key: draw(jax.random.wrap_key_data(key)), KEY, **options)

    random("uniform", lambda k: jax.random.uniform(k, (3, 2)))
    random("normal", lambda k: jax.random.normal(k, (5,)), loose=64)
    random("random integers", lambda k: jax.random.randint(k, (5,), 0, 100))
    random(
        "random bits",
        lambda k: (jax.random.bits(k, (3,)), jax.random.bits(k, (3,), jnp.uint8), jax.random.bits(k, (2,), jnp.uint16)),
    )
    random(
        "splits",
        lambda k: (
            jax.random.key_data(jax.random.split(k, 3)),
            jax.random.key_data(jax.random.fold_in(k, 7)),
            jax.random.uniform(jax.random.split(k)[1]),
        ),
    )
    random("permutation", lambda k: jax.random.permutation(k, 6))
    random("choice", lambda k: jax.random.choice(k, 10, (3,), replace=False))
    random("bernoulli", lambda k: jax.random.bernoulli(k, 0.3, (6,)))
    random("exponential", lambda k: jax.random.exponential(k, (3,)), loose=8)
    random("gamma", lambda k: jax.random.gamma(k, 2.5, (3,)), loose=512)
    random("categorical", lambda k: jax.random.categorical(k, jnp.array([0.1, 0.5, 0.4]), shape=(4,)))
    random("truncated normal", lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (3,)), loose=64)
    random("keys under vmap", lambda k: jax.vmap(lambda q: jax.random.uniform(q, (2,)))(jax.random.split(k, 3)))
    add("seeds", lambda n: jax.random.key_data(jax.random.key(n)), np.int32(-5))
    add("old keys", lambda: jax.random.normal(jax.random.PRNGKey(3), (2,)), loose=64)
    random("rbg", lambda k: jax.random.uniform(jax.random.key(3, impl="rbg"), (2,)), numpy=False)
    random("cloned keys", lambda k: jax.random.uniform(jax.random.clone(k), (2,)))
    add("threefry", lambda k: primitives.threefry2x32_p.bind(k[0], k[1], k, k + 1), KEY)
    add("XLA's generator", lambda k: lax.rng_bit_generator(k, (3,))[1], np.arange(4, dtype=np.uint32), numpy=False)
    # -- what gives back what it is given
    add(
        "identities",
        lambda x: (
            jnp.array(x, copy=True),
            checkpoint_name(x, "x"),
            jax.device_put(x) * 2,
            lax.stop_gradient(x),
            lax.dce_sink(x),
        ),
        X,
    )
    add(
        "constrained to one device",
        lambda x: lax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])),
        X,
    )
    add(
        "total order",
        lambda x, y: (primitives.eq_to_p.bind(x, y), primitives.lt_to_p.bind(x, y), primitives.le_to_p.bind(x, y)),
        SPECIALS,
        SPECIALS[::-1].copy(),
    )
    if hasattr(lax.linalg, "ormqr"):
        add(
            "products with reflectors",
            lambda a, c: lax.linalg.ormqr(*lax.linalg.hessenberg(a), c[:, :2]),
            SQUARE,
            SQUARE,
            numpy=False,
        )
    add(
        "symmetric product",
        lambda a, c: lax.linalg.symmetric_product(a, c, symmetrize_output=True),
        SQUARE,
        SPD,
        numpy=False,
    )
    # -- calls and rules
    add(
        "relu and others",
        lambda x: (
            jax.nn.relu(x),
            jax.nn.gelu(x),
            jax.nn.softplus(x),
            jax.nn.silu(x),
            jax.nn.elu(x),
            jax.nn.leaky_relu(x),
            jax.nn.sigmoid(x),
        ),
        X,
        loose=4,
    )
    add("jit in jit", jax.jit(lambda x: jax.jit(lambda y: y * 2)(x) + jax.jit(lambda y: y * 2)(x * 3)), X)
    add("remat", jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum()), X)
    add("custom jvp", jax.grad(lambda x: _custom_jvp(x).sum()), X)
    add("custom vjp", jax.grad(lambda x: _custom_vjp(x).sum()), X)
    add(
        "value and grad",
        jax.value_and_grad(lambda p, x: jnp.mean(jnp.tanh(x @ p["w"] + p["b"]) ** 2)),
        {"w": V, "b": np.float32(0.1)},
        X,
    )
    add("hessian", jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v[0])), V)
    add("jacobian", jax.jacfwd(lambda v: jnp.sin(v) * v[0]), V)
    add("vmap of grad", jax.vmap(jax.grad(lambda v: jnp.sum(v**3) * v[1])), X)
    add("linear solve by cg", lambda a, b: jax.scipy.sparse.linalg.cg(a, b, maxiter=4)[0], SPD, V, loose=256)
    add("sparse", lambda m, v: (m @ v, m.todense() * 2, (m.T @ v[:3])), _sparse(X), V)
    add(
        "sparse grad",
        jax.grad(lambda d, i, v: (sparse.BCOO((d, i), shape=(3, 4)) @ v).sum()),
        V,
        np.array([[0, 1], [1, 2], [2, 0], [2, 3]], np.int32),
        V,
    )
    add("pytrees", lambda a: {"x": [a["u"], (a["v"][0],)], "none": None}, {"u": X, "v": (Y, Y)})
    add("barrier", lambda x: lax.optimization_barrier(x * 2) + 1, X)
    add("python numbers", lambda x, n: (x * 2 + n, x / n, x > n, x**2), 3.5, 2)
    return found


@jax.custom_jvp
def _custom_jvp(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


@_custom_jvp.defjvp
def _custom_jvp_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _custom_jvp(x), t * jax.nn.sigmoid(x)


@jax.custom_vjp
def _custom_vjp(x: Any) -> Any:
    return jnp.sin(x)


_custom_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * g * jnp.cos(x),))

CASES = {case.name: case for case in _cases()}

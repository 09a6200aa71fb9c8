"""How far rounding can carry a result: each rounded operation of a program is perturbed by as much as rounding would.

This is Monte Carlo arithmetic (Parker 1997): the spread of the results over disturbed runs shows how ill-conditioned
the program is at these inputs, including its intermediate results, which no bound from dtypes and lengths alone can
show.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.decompile._assemble import assemble
from erasurehead.decompile._checking.compare import array_of, is_float, leaves, parts
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._program import Statement, TracedFunction
from erasurehead.decompile._running import run_text
from erasurehead.decompile._writer import Scope

RUNS, TRIES = 4, 10
"""Number of perturbed runs to keep, and the most to try for them."""

FACTOR = 8.0
"""The tolerance is this many times the spread of the disturbed runs, times the root of what is summed (below)."""

EXACT = {
    "neg",
    "abs",
    "max",
    "min",
    "clamp",
    "select_n",
    "reshape",
    "squeeze",
    "transpose",
    "broadcast_in_dim",
    "slice",
    "concatenate",
    "stack",
    "unstack",
    "split",
    "pad",
    "rev",
    "gather",
    "dynamic_slice",
    "dynamic_update_slice",
    "sort",
    "top_k",
    "reduce_max",
    "reduce_min",
    "cummax",
    "cummin",
    "iota",
    "eye",
    "real",
    "imag",
    "conj",
    "floor",
    "ceil",
    "round",
    "sign",
    "tile",
    "broadcast_to",
    "scatter",
    "scatter-max",
    "scatter-min",
    "copy",
    "reduce_window_max",
    "reduce_window_min",
    "nextafter",
    "reduce_precision",
    "expand_dims",
    "bitcast_convert_type",
    "is_finite",
}
"""Operations that do not round."""

SPECIAL = {
    "erf_inv": 64,
    "lgamma": 64,
    "digamma": 64,
    "igamma": 256,
    "igammac": 256,
    "zeta": 64,
    "polygamma": 256,
    "regularized_incomplete_beta": 2048,
    "bessel_i0e": 16,
    "bessel_i1e": 16,
    "erf": 8,
    "erfc": 16,
    "pow": 16,
    "igamma_grad_a": 2048,
    "random_gamma_grad": 2048,
    "cumlogsumexp": 16,
    "svd": 64,
    "eigh": 64,
    "eig": 256,
    "qr": 64,
    "schur": 256,
    "lu": 64,
    "cholesky": 32,
    "triangular_solve": 64,
    "hessenberg": 64,
    "tridiagonal": 64,
    "tridiagonal_solve": 64,
    "householder_product": 32,
    "cholesky_update": 16,
    "fft": 8,
    "conv_general_dilated": 4,
}
"""Units in the last place by which two good implementations differ, where that is more than four."""

DISCRETE = {"floor", "ceil", "round", "sign"}
"""Discontinuous operations from real numbers to real numbers."""


def unit(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a dtype."""
    ml_dtypes: Any = importlib.import_module("ml_dtypes")
    return float(ml_dtypes.finfo(dtype).eps)


def summed(statement: Statement) -> int:
    """Return the number of terms that an operation sums."""
    op, inputs = statement.op, statement.inputs
    if op in (
        "reduce_sum",
        "reduce_prod",
        "reduce",
        "cumsum",
        "cumprod",
        "scatter-add",
        "scatter-mul",
        "reduce_window_sum",
    ):
        return max(
            1, max((v.type.size for v in inputs), default=1) // max(1, min(v.type.size for v in statement.outputs))
        )
    if op == "dot_general":
        (contract, _), _ = statement.params["dimension_numbers"]
        return math.prod(inputs[0].type.shape[int(d)] for d in contract) or 1
    if op == "conv_general_dilated":
        return max(1, inputs[1].type.size)
    return 1


@dataclass
class Watched:
    """A program for numpy that reports the result of every statement.

    Arguments:
        program: the program that is watched.
        statements: its statements, by their numbers in the text.
        function: the program, which calls `watch` of this object.
    """

    program: TracedFunction
    statements: list[Statement] = field(default_factory=list[Statement])
    top: set[int] = field(default_factory=set[int])
    function: Callable[..., Any] | None = None
    watch: Callable[[int, int, Any], Any] = lambda k, i, value: value

    def __post_init__(self) -> None:
        outermost = {id(s) for s in self.program.block.statements}

        def hook(scope: Scope, statement: Statement, names: list[str]) -> None:
            k = len(self.statements)
            self.statements.append(statement)
            if id(statement) in outermost:
                self.top.add(k)
            for i, name in enumerate(names):
                scope.lines.append(f"{' ' * scope.indent}{name} = watch({k}, {i}, {name})")

        assembled = assemble(self.program, "numpy", unfold=True, hook=hook)
        function = run_text(assembled.text, assembled.name, assembled.constants, {"watch": self._show})
        self.function = function

    def _show(self, k: int, i: int, value: Any) -> Any:
        return self.watch(k, i, value)

    @property
    def most_summed(self) -> int:
        """The largest number of terms that a statement sums."""
        return max((summed(s) for s in self.statements), default=1)

    def outcomes(self, arguments: tuple[Any, ...], random: np.random.Generator | None) -> tuple[list[Any], list[bytes]]:
        """Return a run's results and what its discontinuous operations gave; perturbed if `random` is given."""
        jumps: list[bytes] = []

        def watch(k: int, i: int, value: Any) -> Any:
            statement = self.statements[k]
            output = statement.outputs[i]
            kind = output.type.kind
            if kind not in "fc":
                if any(v.type.kind in "fc" for v in statement.inputs):
                    jumps.append(np.asarray(value).tobytes())
                return value
            if statement.op in DISCRETE:
                jumps.append(np.asarray(value).tobytes())
            if random is None or statement.op in EXACT or statement.blocks:
                return value
            same = statement.op == "convert_element_type" and statement.inputs[0].type.kind == kind
            if same and unit(statement.inputs[0].type.dtype) >= unit(output.type.dtype):
                return value
            return disturbed(value, statement, random)

        self.watch = watch
        assert self.function is not None
        result = self.function(*[_disturb_argument(a, random) for a in arguments])
        return [array_of(v) for _, v in leaves(result)], jumps

    def values(
        self, arguments: tuple[Any, ...], given: Mapping[tuple[int, int], Any], flush: bool = False
    ) -> tuple[Any, dict[tuple[int, int], Any]]:
        """Return a run's result and the values of its outermost statements.

        Arguments:
            arguments: of the function.
            given: values to use in place of the run's own, by statement and output.
            flush: whether subnormal numbers are zero, as XLA has them on CPUs.
        """
        seen: dict[tuple[int, int], Any] = {}

        def watch(k: int, i: int, value: Any) -> Any:
            value = flushed(value) if flush else value
            if k in self.top:
                value = given.get((k, i), value)
                seen[k, i] = value
            return value

        self.watch = watch
        assert self.function is not None
        jax = jax_module()
        return self.function(*(jax.tree.map(flushed, a) if flush else a for a in arguments)), seen

    def spread(self, arguments: tuple[Any, ...], seed: int) -> list[Any]:
        """Return by how much rounding moves each result where it makes nothing jump."""
        random = np.random.default_rng(seed)
        base, jumps = self.outcomes(arguments, None)
        far = [np.zeros(np.shape(b)) for b in base]
        kept = 0
        for _ in range(TRIES):
            moved, other = self.outcomes(arguments, random)
            if other != jumps:
                continue
            far = [
                np.maximum(f, distance(m, b)) if is_float(b) else f for f, m, b in zip(far, moved, base, strict=True)
            ]
            kept += 1
            if kept == RUNS:
                break
        return far


def flushed(value: Any) -> Any:
    """Return an array or a number with zeros in place of subnormal numbers."""
    if isinstance(value, bool | int | float | complex) or value.dtype.kind not in "fc":
        return value
    array = np.array(value)
    for part in parts(array):
        part[...] = np.where(np.abs(part) < np.finfo(part.dtype).tiny, np.copysign(0.0, part), part)
    return array


def distance(a: Any, b: Any) -> Any:
    """Return how far apart elements are; 0 where both are NaN, or the same infinity."""
    with np.errstate(all="ignore"):
        total = np.zeros(np.shape(a))
        for x, y in zip(parts(a), parts(b), strict=True):
            x, y = x.astype(np.float64), y.astype(np.float64)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            gap = np.where(same, 0.0, np.abs(x - y))
            total = np.maximum(total, np.where(np.isnan(gap), np.inf, gap))
        return total


def disturbed(value: Any, statement: Statement, random: np.random.Generator) -> Any:
    """Return a value with the rounding errors of a statement."""
    array = np.asarray(value)
    wide = array.astype(np.float32) if array.dtype.kind not in "fc" else array  # bfloat16 and its kin
    size = SPECIAL.get(statement.op, 1 if statement.op in _BASIC else 4) * unit(array.dtype)
    size *= math.sqrt(summed(statement))
    signs = _signs(array.shape, random)
    if statement.op in WHOLE:
        change = size * np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)) * signs
    else:
        change = np.where(np.isfinite(wide), size * wide, 0.0) * signs
    return (wide + np.asarray(change).astype(wide.dtype)).astype(array.dtype)


_BASIC = ("add", "sub", "mul", "div", "add_any", "sqrt", "convert_element_type", "integer_pow", "square")

WHOLE = {
    "svd",
    "eigh",
    "eig",
    "qr",
    "schur",
    "lu",
    "cholesky",
    "triangular_solve",
    "hessenberg",
    "tridiagonal",
    "fft",
    "householder_product",
    "tridiagonal_solve",
    "cholesky_update",
    "dot_general",
    "conv_general_dilated",
}
"""Operations whose errors are small beside the largest element of the result, and not beside each."""


def _signs(shape: tuple[int, ...], random: np.random.Generator) -> Any:
    """Return random signs of sizes around 1, so that two errors seldom cancel each other exactly."""
    return random.choice([-1.0, 1.0], size=shape) * random.uniform(0.75, 1.25, size=shape)


def _disturb_argument(argument: Any, random: np.random.Generator | None) -> Any:
    if random is None:
        return argument
    jax = jax_module()

    def one(leaf: Any) -> Any:
        if isinstance(leaf, bool | int):
            return leaf
        array = np.asarray(leaf, np.float32) if isinstance(leaf, float) else np.asarray(leaf)
        if not is_float(array):
            return leaf
        return (array * (1 + 0.5 * unit(array.dtype) * _signs(array.shape, random))).astype(array.dtype)

    return jax.tree.map(one, argument)

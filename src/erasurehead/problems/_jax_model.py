"""A loss that JAX differentiates, as it runs on workers: parameters in and gradients out as one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decompile import DecompiledSource
from erasurehead.errors import UNSAID, MissingExtra, invalid
from erasurehead.problems._additivity import Value, value_of
from erasurehead.problems._differentiable import Differentiated, by_value
from erasurehead.problems._trees import Nest, mapped, refitted, sample_count

_OPTIONS = {"xla_cpu_multi_thread_eigen": False}
"""For XLA: with more cores, threads would sum in another order, but equal arrivals must give equal bits."""


def jax_library() -> Any:
    """Return JAX.

    Raises:
        MissingExtra: if it is not installed.
    """
    try:
        return import_module("jax")
    except ImportError as error:
        raise MissingExtra(
            "problems.jax needs JAX, which is not installed; install it with: pip install 'erasurehead[jax]'."
        ) from error


@dataclass(frozen=True)
class Form:
    """How parameters lie in one vector.

    Arguments:
        shapes: shape of each array, in order.
        dtypes: name of each array's dtype, in order.
        tree: structure of the parameters, in JAX's terms.
        x64: whether JAX computes with 64-bit types.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    tree: Any
    x64: bool

    @property
    def sizes(self) -> list[int]:
        """Number of elements of each array."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def wide(self) -> str:
        """The dtype that can hold all of them."""
        return "float64" if "float64" in self.dtypes else "float32"

    def split(self, x: Any, numbers: Any) -> list[Any]:
        """Return the arrays that a vector holds; `numbers` is the module that makes them: numpy or jax.numpy."""
        cuts: list[Any] = []
        low = 0
        for shape, dtype, size in zip(self.shapes, self.dtypes, self.sizes, strict=True):
            cuts.append(numbers.reshape(x[low : low + size], shape).astype(dtype))
            low += size
        return cuts


@final
class JaxModel(Differentiated):
    """A pure function of parameters and a batch, which JAX compiles and differentiates.

    Arguments:
        loss: `loss(parameters, batch)`, returning one number.
        form: how the parameters lie in one vector.
        gradient: source of the gradient to use in place of JAX's own; None for JAX's own.
        rows: batch size that this source is for; for other batches, JAX's own gradient is used.
    """

    def __init__(
        self, loss: Callable[..., Any], form: Form, gradient: DecompiledSource | None = None, rows: int | None = None
    ) -> None:
        self._given, self.form, self.gradient, self._rows = loss, form, gradient, rows
        self.n_parameters, self.dtype = sum(form.sizes), form.wide

    def __reduce__(self) -> Any:
        gradient = None if self.gradient is None else bare(self.gradient)
        return by_value(JaxModel, self._given, self.form, gradient, self._rows)

    def place(self, batch: Nest) -> Any:
        jax = jax_library()
        with jax.enable_x64(self.form.x64):
            return mapped(jax.numpy.asarray, batch)

    def differentiate(self, x: Array, batch: Any, noise: int | None = None) -> tuple[float, Array]:
        with jax_library().enable_x64(self.form.x64):
            if self.gradient is not None and self.gradient.backend == "numpy" and self._fits(batch):
                return self.loss(x, batch), self._by_numpy(x, batch)
            value, slope = self._compiled[0](self._wide(x), batch)
            return float(value), np.asarray(slope)

    def loss(self, x: Array, batch: Any) -> float:
        with jax_library().enable_x64(self.form.x64):
            return float(self._compiled[1](self._wide(x), batch))

    def parameters(self, x: Array) -> Any:
        """Return the parameters that a vector holds, in the form that the loss takes."""
        jax = jax_library()
        with jax.enable_x64(self.form.x64):
            return jax.tree.unflatten(self.form.tree, self.form.split(jax.numpy.asarray(self._wide(x)), jax.numpy))

    def _fits(self, batch: Any) -> bool:
        return sample_count(batch) == self._rows

    def _wide(self, x: Array) -> Any:
        with np.errstate(over="ignore"):
            return x.astype(self.form.wide, copy=False)

    def _by_numpy(self, x: Array, batch: Any) -> Array:
        assert self.gradient is not None
        arrays = self.form.split(self._wide(x), np)
        jax = jax_library()
        gradient = self.gradient(jax.tree.unflatten(self.form.tree, arrays), jax.tree.map(np.asarray, batch))
        return join([np.asarray(leaf) for leaf in jax.tree.leaves(gradient)], self.form)

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The function that returns loss and gradient, and the one that returns only the loss."""
        jax, form, given = jax_library(), self.form, self._given

        def loss(x: Any, batch: Any) -> Any:
            return given(jax.tree.unflatten(form.tree, form.split(x, jax.numpy)), batch)

        def both(x: Any, batch: Any) -> Any:
            parameters = jax.tree.unflatten(form.tree, form.split(x, jax.numpy))
            if self.gradient is None or self.gradient.backend == "numpy" or not self._fits(batch):
                value, slope = jax.value_and_grad(given)(parameters, batch)
            else:
                value, slope = given(parameters, batch), self.gradient(parameters, batch)
            flat = [jax.numpy.ravel(leaf).astype(form.wide) for leaf in jax.tree.leaves(slope)]
            return value, jax.numpy.concatenate(flat)

        return jax.jit(both, compiler_options=_OPTIONS), jax.jit(loss, compiler_options=_OPTIONS)


def bare(source: DecompiledSource) -> DecompiledSource:
    """Return a source as workers need it: without the function that it was made from."""
    return DecompiledSource(source.text, source.name, source.backend, source.constants)


def join(arrays: Sequence[Any], form: Form) -> Array:
    """Join the arrays of a gradient into one vector, shape (n_parameters,).

    Raises:
        InvalidArgument: if they do not have the shapes of the parameters.
    """
    shapes = tuple(tuple(np.shape(array)) for array in arrays)
    if shapes != form.shapes:
        raise invalid("the gradient", f"must have the shapes of the parameters, {list(form.shapes)}", list(shapes))
    if not arrays:
        return np.zeros(0)
    return np.concatenate([np.asarray(array).astype(form.wide, copy=False).ravel() for array in arrays])


def form_of(parameters: Any) -> tuple[Form, Array]:
    """Return how parameters lie in a vector, and that vector, shape (n_parameters,).

    Raises:
        InvalidArgument: if one of them is not an array of finite, real floating-point numbers.
    """
    jax = jax_library()
    entries, tree = jax.tree.flatten_with_path(parameters)
    if not entries:
        raise invalid("parameters", "must hold at least one array", parameters)
    for path, leaf in entries:
        place = f"parameters{jax.tree_util.keystr(path)}"
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise invalid(place, "must be an array", leaf, "write numbers as jnp.asarray(0.0)")
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
            raise invalid(
                place,
                "must be an array of real numbers, which training moves",
                f"one of {leaf.dtype}",
                "put what is not trained into the data, or into the loss",
            )
        if not np.isfinite(np.asarray(leaf).astype(np.float64)).all():
            raise invalid(place, "must be finite", UNSAID)
    arrays = [np.asarray(leaf) for _, leaf in entries]
    dtypes = tuple(array.dtype.name for array in arrays)
    # numpy's arrays of float64 mean float64, whatever JAX would make of them by default
    x64 = bool(jax.config.jax_enable_x64) or "float64" in dtypes
    form = Form(tuple(array.shape for array in arrays), dtypes, tree, x64)
    return form, join(arrays, form)


def called(loss: Callable[..., Any], parameters: Any, batch: Nest, form: Form) -> Value:
    """Return what a loss returns for some samples, or raise an error that says what is wrong with it.

    Raises:
        InvalidArgument: if it fails, or returns anything but one real number, or a sum and its weight.
    """
    jax = jax_library()

    def compute() -> Any:
        with jax.enable_x64(form.x64):
            return loss(parameters, mapped(jax.numpy.asarray, batch))

    return value_of(compute, _number, lambda weight: jax.numpy.asarray(weight, dtype=float), "loss(parameters, batch)")


def _number(result: Any) -> float:
    jax = jax_library()
    shape: Any = np.shape(result) if hasattr(result, "dtype") or np.isscalar(result) else None
    if shape != ():
        came = "an array of shape " + str(shape) if shape is not None else type(result).__name__
        raise invalid(
            "loss(parameters, batch)",
            "must return one number, or a sum and its weight",
            came,
            "return the mean over the samples, and nothing else",
        )
    number = jax.numpy.asarray(result)
    if not jax.numpy.issubdtype(number.dtype, jax.numpy.floating):
        raise invalid("loss(parameters, batch)", "must return a real number", f"one of {number.dtype}")
    return float(number)


def mean_of_pair(loss: Callable[..., Any], weight: float, parameters: Any, batch: Any) -> Any:
    """Return as a mean over samples what a loss returns as (sum, weight).

    Arguments:
        loss: the user's function.
        weight: mean weight of a sample.
        parameters, batch: its arguments.
    """
    return loss(parameters, batch)[0] / (sample_count(batch) * weight)


def canonical(data: Nest, form: Form, argument: str) -> Nest:
    """Return data in the dtypes that JAX computes with: of 32 bits, unless 64-bit types are enabled.

    Raises:
        InvalidArgument: if a number does not fit.
    """
    jax = jax_library()
    with jax.enable_x64(form.x64):
        return refitted(data, argument, jax.dtypes.canonicalize_dtype)


def precision(form: Form) -> float:
    """Return the relative rounding error of the coarsest of the parameters' dtypes."""
    jax = jax_library()
    return max(float(jax.numpy.finfo(dtype).eps) for dtype in form.dtypes)

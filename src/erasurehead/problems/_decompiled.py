"""Losses and gradients as decompiled source: run on workers without JAX, or in place of JAX's own gradient."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decompile import DecompiledSource, decompile
from erasurehead.errors import UNSAID, DataError, InvalidArgument, check_type, counted, first_line, invalid
from erasurehead.problems._differentiable import Differentiated
from erasurehead.problems._jax_model import Form, bare, join, precision
from erasurehead.problems._trees import Nest, leaves, mapped

BOTH, LOSS, GRADIENT = "loss_and_gradient", "loss", "gradient"
"""Names of a problem's sources: either one source for both, or one for the loss and one for an edited gradient."""


@final
class DecompiledModel(Differentiated):
    """A loss and its gradient as source for numpy: the worker that runs it needs no JAX.

    It is unpickled only where each source has one of the accepted hashes.

    Arguments:
        sources: the sources by name: one for both, or one for the loss and one for the gradient.
        form: how the parameters lie in one vector.
        tree: the parameters' tree, with the number of each array in its place, as the source takes them.
        hashes: SHA-256 sums of the sources that a person has accepted.
    """

    def __init__(
        self, sources: Mapping[str, DecompiledSource], form: Form, tree: Nest, hashes: Collection[str]
    ) -> None:
        self.sources = {name: bare(source) for name, source in sources.items()}
        self.form, self.hashes = replace(form, tree=None), frozenset(hashes)
        self._tree = tree
        self.n_parameters, self.dtype = sum(form.sizes), form.wide

    def __reduce__(self) -> Any:
        plain = {name: bare(source) for name, source in self.sources.items()}
        return _unpack, (plain, self.form, self._tree, sorted(self.hashes))

    def place(self, batch: Nest) -> Any:
        return batch

    def differentiate(self, x: Array, batch: Any, noise: int | None = None) -> tuple[float, Array]:
        parameters = self._parameters(x)
        if BOTH in self.sources:
            value, slope = self.sources[BOTH](parameters, batch)
        else:
            value, slope = self.sources[LOSS](parameters, batch), self.sources[GRADIENT](parameters, batch)
        return float(value), join([leaf for _, leaf in leaves(slope)], self.form)

    def loss(self, x: Array, batch: Any) -> float:
        if LOSS in self.sources:
            return float(self.sources[LOSS](self._parameters(x), batch))
        return self.differentiate(x, batch)[0]

    def _parameters(self, x: Array) -> Any:
        with np.errstate(over="ignore"):
            arrays = self.form.split(x.astype(self.form.wide, copy=False), np)
        return mapped(lambda number: arrays[number], self._tree)


def _unpack(sources: dict[str, DecompiledSource], form: Form, tree: Nest, hashes: list[str]) -> DecompiledModel:
    check_accepted(sources, hashes)
    return DecompiledModel(sources, form, tree, hashes)


def check_accepted(sources: Mapping[str, DecompiledSource], hashes: Collection[str]) -> None:
    """Raise unless every source has one of the accepted hashes.

    Raises:
        InvalidArgument: if one does not; the error names the source and its hash.
    """
    for name, source in sources.items():
        if source.hash not in hashes:
            given = ", ".join(sorted(hashes)) or "none"
            raise invalid(
                "hashes",
                f"must name the source {name!r}, whose SHA-256 is {source.hash}",
                given,
                "read its text (problem.sources), and accept it by adding the hash",
            )


def check_hashes(hashes: Any) -> frozenset[str]:
    """Return accepted hashes, or raise if one is not a SHA-256 sum in hexadecimal."""
    given: list[Any] = [hashes] if isinstance(hashes, str) else list(hashes)
    for one in given:
        if not (isinstance(one, str) and len(one) == 64 and set(one) <= set("0123456789abcdef")):
            raise invalid("hashes", "must be SHA-256 sums of sources, 64 hexadecimal digits each", one)
    return frozenset(given)


def places_of(parameters: Any, jax: Any) -> Nest:
    """Return the tree of parameters with the number of each array in its place.

    Raises:
        InvalidArgument: if JAX accepts a structure as a tree that source for numpy cannot take.
    """
    identities = [id(leaf) for _, leaf in leaves(parameters)]
    if identities != [id(leaf) for leaf in jax.tree.leaves(parameters)]:
        raise invalid(
            "parameters",
            "must be arrays in dicts, lists and tuples for worker_backend='numpy'",
            str(jax.tree.structure(parameters)),
        )
    numbers = iter(range(len(identities)))
    return mapped(lambda leaf: next(numbers), parameters)


def read_gradient(gradient: DecompiledSource | str | os.PathLike[str]) -> DecompiledSource:
    """Return the source of a gradient: from a file that somebody has edited, or one that has been read already."""
    if isinstance(gradient, DecompiledSource):
        return gradient
    check_type(
        "gradient", gradient, str | os.PathLike, "must be the file of an edited gradient, or its DecompiledSource"
    )
    return DecompiledSource.load(Path(gradient))


def check_gradient(source: DecompiledSource, loss: Any, parameters: Any, batch: Nest, form: Form, jax: Any) -> None:
    """Compare an edited gradient with JAX's own, at the initial parameters, on one batch.

    They may differ by 16 times the rounding error of JAX's own gradient in the model's dtype, plus 64 units of that
    dtype (in float64: a billionth) of the largest element of the array. Elements that are not finite in JAX's own do
    not count: an edit may have made them so.

    Raises:
        InvalidArgument: if it fails, or computes something else.
    """
    wanted, exact = _derived(loss, parameters, batch, form, jax)
    try:
        with jax.enable_x64(form.x64):
            given: Any = (parameters, batch)
            if source.backend == "numpy":
                given = jax.tree.map(np.asarray, given)
            result = source(*given)
    except Exception as error:
        sentence = f"gradient: {source.name}(parameters, batch) fails on a batch, with {first_line(error)}"
        raise InvalidArgument("gradient", "must not fail on a batch", sentence=sentence) from error
    if jax.tree.structure(result) != form.tree:
        raise invalid("gradient", f"must return {form.tree}, as the parameters are", str(jax.tree.structure(result)))
    join(jax.tree.leaves(result), form)  # raises if shapes differ
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.flatten_with_path(parameters)[0]]
    counted = 0
    for path, ours, rounded, right in zip(paths, jax.tree.leaves(result), wanted, exact, strict=True):
        finite = np.isfinite(right) & np.isfinite(rounded)
        counted += int(finite.sum())
        if not finite.any():
            continue
        size = float(np.abs(right[finite]).max())
        noise = 16 * float(np.abs(rounded - right)[finite].max())
        allowed = noise + max(64 * precision(form), 1e-9) * size
        far = np.where(finite, np.abs(np.asarray(ours).astype(np.float64) - right), 0.0)
        place = np.unravel_index(int(np.argmax(far)), far.shape)
        if not far.max(initial=0.0) <= allowed:
            where = "".join(f"[{index}]" for index in place)
            raise invalid(
                f"gradient{path}{where}",
                f"must be {right[place]:.9g}, as the loss's is, to {allowed:.1g}",
                float(np.asarray(ours)[place]),
                "sources are for batches of one size: was it made with batch_size?",
            )
    if not counted:
        raise invalid(
            "parameters",
            "must be such that JAX's own gradient is finite somewhere, to compare the edited one with",
            UNSAID,
        )


def _derived(loss: Any, parameters: Any, batch: Nest, form: Form, jax: Any) -> tuple[list[Any], list[Any]]:
    """Return JAX's own gradient, and the same in float64 if the loss can be computed so."""

    def wide(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(np.float64) if jax.numpy.issubdtype(array.dtype, jax.numpy.floating) else array

    def plain(tree: Any) -> list[Any]:
        return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(tree)]

    with jax.enable_x64(form.x64):
        wanted = plain(jax.jit(jax.grad(loss))(parameters, batch))
    try:
        with jax.enable_x64(True):
            return wanted, plain(jax.jit(jax.grad(loss))(jax.tree.map(wide, parameters), mapped(wide, batch)))
    except Exception:  # a loss may insist on a dtype
        return wanted, wanted


def write_sources(
    loss: Any, parameters: Any, batch: Nest, form: Form, gradient: DecompiledSource | None, jax: Any
) -> dict[str, DecompiledSource]:
    """Return the sources that workers without JAX run, by name, decompiled and checked.

    Raises:
        Unsupported: if the loss has no counterpart in numpy; the error says what and where.
        InvalidArgument: if an edited gradient is for JAX.
    """
    if gradient is not None and gradient.backend != "numpy":
        raise invalid(
            "gradient",
            "must be a source for numpy where worker_backend is 'numpy'",
            "one for JAX",
            "decompile it with backend='numpy' (--backend numpy)",
        )
    with jax.enable_x64(form.x64):
        if gradient is None:
            both = decompile(jax.value_and_grad(loss), parameters, batch, backend="numpy", name=BOTH)
            return {BOTH: both}
        return {LOSS: decompile(loss, parameters, batch, backend="numpy", name=LOSS), GRADIENT: gradient}


def check_tasks(tasks: Collection[slice], rows: int) -> None:
    """Raise if a task has fewer samples than the batches that a source is for.

    Raises:
        DataError: if one has; the error says how many.
    """
    fewest = min(task.stop - task.start for task in tasks)
    if fewest < rows:
        raise DataError(
            f"A task has {counted('sample', fewest)}, and the decompiled source is for batches of {rows}: take "
            "a smaller "
            "batch_size, or fewer tasks."
        )

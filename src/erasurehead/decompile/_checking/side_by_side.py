"""Two runs of one program, side by side: JAX's, one statement at a time, and numpy's, whose results were watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from erasurehead.decompile._checking.compare import array_of, is_float
from erasurehead.decompile._checking.rounding import Watched, distance, flushed, unit
from erasurehead.decompile._helpers import randomness
from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._program import Literal, Operand, Statement, Variable


class SideBySide:
    """JAX's run of a program up to some statement, and numpy's whole run of it.

    Arguments:
        watched: the program.
        arguments: for numpy's run.
        inputs: for JAX's, the same as it takes them.
        flush: whether both have zeros in place of subnormal numbers.

    Attributes:
        given: JAX's values that numpy's run was given in place of its own, by statement and output.
    """

    def __init__(
        self, watched: Watched, arguments: tuple[Any, ...], inputs: tuple[Any, ...], flush: bool = False
    ) -> None:
        self.given: dict[tuple[int, int], Any] = {}
        self._watched, self._arguments, self._flush = watched, arguments, flush
        jax = jax_module()
        self._in_jax: dict[Variable, Any] = {
            leaf.variable: flushed(array_of(value))
            if flush and leaf.variable.type.kind in "fc"
            else value
            if hasattr(value, "dtype")
            else jax.numpy.asarray(value)
            for leaf, value in zip(watched.program.leaves, jax.tree.leaves(inputs), strict=True)
        }
        numbers = {id(s): k for k, s in enumerate(watched.statements) if k in watched.top}
        self._places = {
            output: (numbers[id(s)], i)
            for s in watched.program.block.statements
            if id(s) in numbers
            for i, output in enumerate(s.outputs)
        }
        _, self._in_numpy = watched.values(arguments, self.given, flush)

    def take(self, statement: Statement) -> bool:
        """Run the next statement in JAX; return whether that could be done."""
        if statement.bound is None:
            return False
        try:
            operands = [self.read(operand) for operand in statement.bound[0]]
        except KeyError:  # the statement that makes it was simplified away
            return False
        results = _results(statement, operands)
        self._in_jax |= results or {}
        return results is not None

    def read(self, operand: Operand) -> Any:
        """Return JAX's value of an operand."""
        if isinstance(operand, Literal):
            return np.asarray(operand.value, operand.type.dtype)
        return self._in_jax[operand] if operand.constant is None else operand.constant

    def numpys(self, statement: Statement) -> list[Any]:
        """Return numpy's values of a statement's outputs, as far as they were watched."""
        return [value for _, value in self._watched_outputs(statement)]

    def differs(self, statement: Statement) -> bool:
        """Return whether the two runs differ in some output of a statement."""
        return not self._agrees(statement, self._in_jax)

    def right_by_itself(self, statement: Statement) -> bool:
        """Return whether JAX, given numpy's operands of a statement, gets numpy's outputs."""
        assert statement.bound is not None
        operands: list[Any] = []
        for operand in statement.bound[0]:
            place = self._places.get(operand) if isinstance(operand, Variable) else None
            value = None if place is None else self._in_numpy.get(place)
            operands.append(self.read(operand) if value is None or operand.type.is_key else np.asarray(value))
        results = _results(statement, operands)
        return results is not None and self._agrees(statement, results)

    def gap(self, statement: Statement) -> float:
        """Return by how much the operands of a statement differ between the two runs, relative to their size."""
        most = 0.0
        for operand in statement.inputs:
            place = self._places.get(operand) if isinstance(operand, Variable) else None
            if place in self._in_numpy and operand.type.kind in "fc":
                a, b = array_of(self.read(operand)), np.asarray(self._in_numpy[place])
                most = max(most, float(np.max(distance(a, b), initial=0.0)) / _scale(a))
        return most

    def is_finite(self, statement: Statement) -> bool:
        """Return whether all operands and results of a statement are finite in both runs."""
        values = [self.read(operand) for operand in statement.inputs]
        values += [*(self._in_jax[output] for output in statement.outputs), *self.numpys(statement)]
        arrays = [array_of(value) for value in values]
        return all(bool(np.all(np.isfinite(a.astype(np.complex128)))) for a in arrays if is_float(a))

    def take_over(self, statement: Statement) -> None:
        """Run numpy's program again with JAX's results of a statement in place of its own."""
        for output, _ in self._watched_outputs(statement):
            self.given[self._places[output]] = array_of(self._in_jax[output])
        _, self._in_numpy = self._watched.values(self._arguments, self.given, self._flush)

    def _watched_outputs(self, statement: Statement) -> Iterator[tuple[Variable, Any]]:
        for output in statement.outputs:
            place = self._places.get(output)
            if place in self._in_numpy:
                value = self._in_numpy[place]
                yield output, np.asarray(_key_data(value) if output.type.is_key else value)

    def _agrees(self, statement: Statement, in_jax: dict[Variable, Any]) -> bool:
        return all(_close(array_of(in_jax[output]), value) for output, value in self._watched_outputs(statement))


_key_data: Callable[[Any], Any] = vars(randomness)["key_data"]


def _results(statement: Statement, operands: list[Any]) -> dict[Variable, Any] | None:
    """Return what JAX makes of operands, by output; None if it cannot run the statement by itself."""
    if statement.bound is None or statement.primitive is None:
        return None
    try:
        values = statement.primitive.bind(*operands, **statement.bound[1])
    except Exception:
        return None
    values = list(values) if statement.primitive.multiple_results else [values]
    return dict(zip(statement.bound_outputs, values, strict=True))


def _close(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    if not is_float(a):
        return bool(np.array_equal(a, b))
    return bool(np.all(distance(a, b) <= 2**12 * unit(a.dtype) * _scale(a)))


def _scale(a: Any) -> float:
    """Return the size of the largest finite element; 1 where that is 0."""
    wide = a.astype(np.complex128)
    return float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide))) or 1.0

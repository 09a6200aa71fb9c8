"""What is known of operands while equations are lowered: what made each, and what is simpler for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.decompile import _folding as folding
from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._program import Literal, Operand, Statement, Type, Variable

IDENTITIES = {
    "copy",
    "copy_p",
    "name",
    "pvary",
    "device_put",
    "sharding_constraint",
    "stop_gradient",
    "layout_constraint",
    "reshard",
    "psum",
    "psum_invariant",
    "pmax",
    "pmin",
    "preduced",
    "reduced_vary_cast_p",
    "vary_unreduced_cast_p",
    "unreduced_psum",
    "pbroadcast",
    "with_memory_space_constraint",
    "random_clone",
    "inspect_sharding",
    "pin",
    "unpin",
    "dce_sink",
    "tie",
    "custom_lin_identity",
}
"""Primitives that return their input unchanged, at least on one device and without differentiation."""

_UNIT_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")


def type_of(aval: Any, backend: str = "jax") -> Type:
    """Return the type of an abstract value of JAX.

    Raises:
        Unsupported: if it is not an array of fixed shape.
    """
    if not hasattr(aval, "shape") or not hasattr(aval, "dtype"):
        raise Unsupported(type(aval).__name__, backend, "it is not an array; effects and references are refused")
    if "Ref" in type(aval).__name__:
        raise Unsupported("a mutable reference", backend, "references are effects")
    for length in aval.shape:
        if not isinstance(length, int | np.integer):
            raise Unsupported("a symbolic shape", backend, f"the length {length} is only known at run time")
    return Type(tuple(int(n) for n in aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


def literal(value: Any, dtype: Any) -> Literal:
    """Return a number as a literal of a dtype."""
    array = np.asarray(value, dtype)
    return Literal(array[()], Type((), array.dtype))


class Operands:
    """The operands of a program so far.

    Arguments:
        backend: `"jax"` or `"numpy"`: some identities apply to one of them only.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._definitions: dict[Variable, Statement] = {}

    def define(self, statement: Statement) -> None:
        """Take note of a statement that is part of the program."""
        self._definitions.update(dict.fromkeys(statement.outputs, statement))

    def index(self, index: Operand) -> Operand:
        """Return the index of a branch without the clamp that JAX adds, as branches clamp their index anyway."""
        clamped = self.made_by(index, "clamp")
        return clamped[1] if clamped is not None and clamped[1].type.name == "int32" else index

    def made_by(self, operand: Operand, op: str) -> list[Operand] | None:
        """Return the inputs of the operation `op` that computed an operand; None if another one did, or none."""
        maker = self._definitions.get(operand) if isinstance(operand, Variable) else None
        return maker.inputs if maker is not None and maker.op == op else None

    def simplified(self, statement: Statement) -> Operand | None:
        """Change a statement into a simpler one.

        Consecutive broadcasts and reshapes become one, arrays of one number broadcasts of it, comparisons of places
        identity matrices, reductions over axes of length 1 reshapes; for choices see `_selected`.

        Returns:
            The operand that the statement is equal to; None if the statement is needed.
        """
        op, params, inputs = statement.op, statement.params, statement.inputs
        if op == "select_n" and len(inputs) == 3 and inputs[0].type.kind == "b":
            return self._selected(statement)
        makers = [self._definitions.get(v) if isinstance(v, Variable) else None for v in inputs] or [None]
        maker = makers[0]
        number = self._number(statement)
        if op == "broadcast_in_dim":
            if maker is not None and maker.op == op and len(inputs) == len(maker.inputs) == 1:
                dims = [params["broadcast_dimensions"][d] for d in maker.params["broadcast_dimensions"]]
                statement.inputs, statement.params = maker.inputs[:], {**params, "broadcast_dimensions": tuple(dims)}
            return None
        if number is not None:
            statement.op, statement.inputs = "broadcast_in_dim", [number]
            statement.params = {"shape": statement.output.type.shape, "broadcast_dimensions": ()}
            return None
        axes = [m.params["dimension"] if m is not None and m.op == "iota" else None for m in makers]
        if (op == "eq" and statement.output.type.rank == 2 and axes in ([0, 1], [1, 0])) or (
            op == "convert_element_type" and maker is not None and maker.op == "eye"
        ):
            statement.op, statement.inputs, statement.params = "eye", [], {}
            return None
        reshaped = {"new_sizes": statement.outputs[0].type.shape, "dimensions": None} if statement.outputs else {}
        if op in _UNIT_REDUCTIONS and params["axes"] and isinstance(inputs[0], Variable):
            before = inputs[0].type
            if before.dtype == statement.output.type.dtype and all(before.shape[int(a)] == 1 for a in params["axes"]):
                statement.op, statement.params = "reshape", reshaped
        if (
            _is_plain_reshape(statement)
            and maker is not None
            and _is_plain_reshape(maker)
            and len(maker.inputs) == 1
            and not inputs[0].type.is_key
        ):
            statement.op, statement.inputs, statement.params = "reshape", maker.inputs[:], reshaped
            if maker.inputs[0].type.shape == statement.output.type.shape:
                return maker.inputs[0]
        return None

    def _number(self, statement: Statement) -> Literal | None:
        """Return the number that all elements of a result are, where that is known; None where it is not."""
        if len(statement.outputs) != 1 or statement.blocks:
            return None
        kind = statement.output.type
        if statement.op == "iota" and kind.shape[int(statement.params["dimension"])] == 1:
            return literal(0, kind.dtype) if kind.kind in "iu" else None
        numbers = [self._filled(v) for v in statement.inputs]
        if not numbers or None in numbers or kind.shape == () or kind.is_key:
            return None
        if statement.op in ("reshape", "squeeze", "transpose", "slice"):
            return numbers[0]
        scalar = Variable(Type((), kind.dtype, kind.weak))
        return folding.folded(
            Statement(statement.op, [n for n in numbers if n is not None], [scalar], statement.params)
        )

    def _selected(self, statement: Statement) -> Operand | None:
        """Simplify a choice between two values; see `simplified`."""
        mask, no, yes = statement.inputs
        kind = statement.output.type
        if isinstance(mask, Literal):
            chosen = yes if mask.value else no
            return (
                Literal(chosen.value, kind) if isinstance(chosen, Literal) else chosen if chosen.type == kind else None
            )
        if mask.type.shape != kind.shape or kind.is_key or kind.weak:
            return None
        if self._is_number(no, 0.0) and self._is_number(yes, 1.0):
            if kind.kind == "b":
                return mask
            if self._backend == "jax":  # XLA takes products with casts of masks for choices, in which NaN * 0 is 0
                return None
            statement.op, statement.inputs = "convert_element_type", [mask]
            statement.params = {"new_dtype": kind.dtype, "weak_type": False, "sharding": None}
        elif kind.kind == "b" and self._is_number(no, 1.0) and self._is_number(yes, 0.0):
            statement.op, statement.inputs, statement.params = "not", [mask], {}
        return None

    def is_identity(self, op: str, params: dict[str, Any], equation: Any, inputs: list[Operand]) -> bool:
        """Return whether an operation returns its inputs unchanged, of which the one that counts is put first."""
        if op in IDENTITIES or (op == "optimization_barrier" and self._backend == "numpy"):
            groups = params.get("axis_index_groups")
            if groups is not None and any(len(group) != 1 for group in groups):
                raise Unsupported(op, self._backend, "it works across several devices")
            return True
        if not inputs or len(equation.outvars) != 1:
            return False
        before, after = inputs[0].type, type_of(equation.outvars[0].aval, self._backend)
        if op == "convert_element_type":
            return before.dtype == after.dtype
        if op in ("broadcast_in_dim", "reshape", "squeeze", "slice", "expand_dims", "broadcast_to", "tile"):
            return len(inputs) == 1 and before.shape == after.shape and params.get("dimensions") in (None, ())
        if op == "transpose":
            return tuple(params["permutation"]) == tuple(range(before.rank))
        if op in _UNIT_REDUCTIONS:
            return params.get("axes") == () and before == after
        if op in ("add", "add_any", "sub", "mul", "div") and before.kind in "fiu" and len(inputs) == 2:
            if "add" in op and before.kind == "f":  # -0.0 + 0.0 is 0.0
                return False
            neutral = 1.0 if op in ("mul", "div") else 0.0
            if op not in ("sub", "div") and self._is_number(inputs[0], neutral) and inputs[1].type == after:
                inputs[0] = inputs[1]  # 1.0 * x is x, to the bit
                return True
            # So are x * 1.0, x / 1.0 and x - 0.0.
            return before == after and self._is_number(inputs[1], neutral)
        if op == "rev":
            return not params["dimensions"]
        if op in ("concatenate", "split"):
            return len(inputs) == len(equation.outvars)
        return False

    def _filled(self, operand: Operand) -> Literal | None:
        """Return the number that an operand is, or is filled with; None if there is none."""
        spread = self.made_by(operand, "broadcast_in_dim")
        source = operand if spread is None else spread[0]
        return source if isinstance(source, Literal) else None

    def _is_number(self, operand: Operand, number: float) -> bool:
        """Return whether an operand is a given number, or an array filled with it."""
        filling = self._filled(operand)
        if filling is None or filling.type.kind == "c":
            return False
        value = float(filling.value)
        return value == number and not np.signbit(value)


def _is_plain_reshape(statement: Statement) -> bool:
    return statement.op == "squeeze" or (statement.op == "reshape" and statement.params.get("dimensions") is None)

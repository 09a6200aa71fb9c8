"""How often variables are used, where, and what they are called where the user has no name for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from erasurehead.decompile._program import Body, Operand, Variable

DEFAULT_NAMES = {
    "reduce_sum": "total",
    "reduce_max": "largest",
    "reduce_min": "smallest",
    "reduce_prod": "product",
    "dot_general": "product",
    "exp": "e",
    "log": "logarithm",
    "select_n": "chosen",
    "gather": "taken",
    "sort": "sorted_",
    "argmax": "best",
    "argmin": "best",
    "transpose": "transposed",
    "reshape": "reshaped",
    "broadcast_in_dim": "spread",
    "convert_element_type": "cast",
    "concatenate": "joined",
    "slice": "part",
    "sqrt": "root",
    "div": "ratio",
    "sub": "difference",
    "mul": "scaled",
    "add": "sum_",
    "add_any": "sum_",
    "scatter": "updated",
    "scatter-add": "updated",
    "cumsum": "running",
    "iota": "places",
    "random_bits": "bits",
    "random_split": "keys",
    "gt": "mask",
    "lt": "mask",
    "ge": "mask",
    "le": "mask",
    "eq": "mask",
    "ne": "mask",
    "and": "mask",
    "or": "mask",
    "not": "mask",
    "is_finite": "mask",
    "conv_general_dilated": "convolved",
    "while": "carry",
    "scan": "carry",
    "cond": "chosen",
    "pad": "padded",
    "max": "larger",
    "min": "smaller",
    "neg": "minus",
    "square": "squared",
    "integer_pow": "power",
    "pow": "power",
    "rsqrt": "inverse_root",
    "dynamic_slice": "part",
    "dynamic_update_slice": "updated",
    "logistic": "sigmoid",
    "tanh": "tanh",
    "sin": "sine",
    "cos": "cosine",
    "fft": "spectrum",
    "split": "part",
    "random_seed": "key",
    "random_fold_in": "key",
    "eye": "identity",
    "random_wrap": "key",
    "random_unwrap": "key_data",
    "cholesky": "factor",
    "erf_inv": "quantile",
}
"""Names for values without a name in the user's source, by primitive."""


@dataclass
class Uses:
    """How often a variable is used, and in which blocks."""

    count: int = 0
    blocks: set[int] = field(default_factory=set[int])


def uses_of(block: Body) -> dict[Variable, Uses]:
    """Return the uses of all variables in a block and its inner blocks."""
    by_variable: dict[Variable, Uses] = {}

    def see(operands: Iterable[Operand], at: Body) -> None:
        for operand in operands:
            if isinstance(operand, Variable):
                uses = by_variable.setdefault(operand, Uses())
                uses.count += 1
                uses.blocks.add(id(at))

    def walk(at: Body) -> None:
        for statement in at.statements:
            see(statement.inputs, at)
            for blocks in statement.blocks.values():
                for inner in blocks:
                    walk(inner)
        see(at.results, at)

    walk(block)
    return by_variable

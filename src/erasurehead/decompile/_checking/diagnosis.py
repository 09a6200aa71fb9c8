"""Where two runs diverge: the first statement whose results differ, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from erasurehead.decompile._checking.compare import array_of
from erasurehead.decompile._checking.factors import FREE, are_factors
from erasurehead.decompile._checking.rounding import DISCRETE, SPECIAL, Watched
from erasurehead.decompile._checking.side_by_side import SideBySide
from erasurehead.decompile._program import Statement

CONVENTIONS = (
    FREE | SPECIAL.keys() - {"pow", "erf", "erfc", "erf_inv"} | {"select_and_scatter_add", "select_and_gather_add"}
)
"""Operations whose results at infinities, NaN and poles are a convention: JAX's differ from numpy's and scipy's."""

_JUMPING = {*DISCRETE, "sort", "argmax", "argmin", "top_k"}


@dataclass
class Diagnosis:
    """Why numpy's run gives other results than JAX's.

    Attributes:
        text: a sentence without a full stop; empty if nothing was found.
        flip: whether a discontinuous operation went the other way within rounding.
        sound: whether each statement by itself does the same in both.
        given: JAX's values that numpy's run was given in place of its own, by statement and output.
    """

    text: str = ""
    flip: bool = False
    sound: bool = False
    given: dict[tuple[int, int], Any] = field(default_factory=dict[tuple[int, int], Any])


def diagnose(watched: Watched, given: tuple[Any, ...], inputs: tuple[Any, ...], flush: bool = False) -> Diagnosis:
    """Run a program statement by statement in JAX and in numpy, and return where the results diverge.

    Arguments:
        watched: the program to run.
        given: the arguments for numpy's run.
        inputs: the same arguments for JAX's run.
        flush: whether numpy's run has zero in place of subnormal numbers.
    """
    runs = SideBySide(watched, given, inputs, flush)
    diagnosis = Diagnosis(given=runs.given)
    grown = ""
    for statement in watched.program.block.statements:
        if not runs.take(statement):
            return diagnosis
        if not runs.differs(statement):
            continue
        if (statement.op in CONVENTIONS and not runs.is_finite(statement)) or (
            statement.op in FREE
            and are_factors(statement, array_of(runs.read(statement.inputs[0])), runs.numpys(statement))
        ):
            runs.take_over(statement)
            continue
        place = statement.op + (f" ({statement.where})" if statement.where else "")
        if _jumps(statement) and (gap := runs.gap(statement)) > 0:
            diagnosis.flip = True
            diagnosis.text = f"{place} flips within rounding: its operands differ by {gap:.2g} of their size"
            return diagnosis
        if not runs.right_by_itself(statement):
            diagnosis.text = f"the first to differ is {place}"
            return diagnosis
        grown = grown or place
    diagnosis.sound = True
    if grown:
        diagnosis.text = f"every statement alone is right, and rounding grows from {grown} on"
    return diagnosis


def _jumps(statement: Statement) -> bool:
    """Return whether a small change of the operands can make the result jump."""
    rounded = any(operand.type.kind in "fc" for operand in statement.inputs)
    return statement.op in _JUMPING or (rounded and statement.outputs[0].type.kind not in "fc")

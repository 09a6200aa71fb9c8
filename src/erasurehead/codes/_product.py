"""Codes made from codes: Kronecker products, and finer tasks."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from erasurehead.codes._assemble import blocks
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exactness import MOST_ELIMINATED
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_size, invalid

# Decoders whose weights stay optimal when tasks are cut.
_DECODERS = ("groups", "classes", "pieces_by_group", "fixed_weights", "majority", "syndrome")


def kronecker(first: GradientCode, second: GradientCode) -> GradientCode:
    """The product of two codes: worker (i, j) holds the products of what i and j hold.

    Worker (i, j) is number i * second.n_workers + j; tasks likewise. Loads and replications multiply.

    Arguments:
        first: a code with one piece.
        second: a code with one piece; an all-ones row, `fractional_repetition(t, t)`, makes t exact replicas.

    Structure:
        decoder: `"groups"` if both are repetition codes, else `"least_squares"`.

    Guarantees: exact for any set of fewer than (t1 + 1) (t2 + 1) stragglers, for factors that tolerate t1 and t2; for
        any max(t1, t2), where the factors together amplify rounding too much for float64. For biregular factors, any s
        stragglers leave at most n_tasks x s / (n - s + x s), with the larger of the factors' x = `spectrum.ratio`.
    Choose it: to enlarge a good small design without weakening its bound.
    Raises:
        InvalidArgument: if a factor has several pieces.

    >>> from erasurehead.codes._designs import block_design, projective_plane
    >>> code = kronecker(projective_plane(2), block_design([[0, 1], [1, 2], [0, 2]]))
    >>> code.n_workers, code.load, round(code.spectrum.ratio, 6)
    (21, 6, 0.25)
    """
    for argument, code in (("first", first), ("second", second)):
        if code.n_pieces != 1:
            raise invalid(argument, "must have one piece a gradient", f"a code with {code.n_pieces} pieces")
    tolerance = None
    if first.tolerance is not None and second.tolerance is not None:
        tolerance = (first.tolerance + 1) * (second.tolerance + 1) - 1
        if amplified(first) * amplified(second) > MOST_ELIMINATED:
            # With so few missing, one factor's erasures are decoded around separately for each worker of the other.
            tolerance = max(first.tolerance, second.tolerance)
    groups = None
    if first.groups is not None and second.groups is not None:
        groups = np.add.outer(first.groups * (int(second.groups.max()) + 1), second.groups).ravel()
    elif first.groups is not None:
        groups = np.repeat(first.groups, second.n_messages)
    elif second.groups is not None:
        groups = np.tile(second.groups, first.n_messages)
    return GradientCode(
        name="kronecker",
        parameters={"first": described(first), "second": described(second)},
        encoding=sparse.csr_array(sparse.kron(first.encoding, second.encoding, format="csr")),
        owner=np.add.outer(first.owner * second.n_workers, second.owner).ravel(),
        n_workers=first.n_workers * second.n_workers,
        n_tasks=first.n_tasks * second.n_tasks,
        groups=groups,
        tolerance=tolerance,
        source=f"Sakorikar and Wang (arXiv:2105.05231), product codes; factors: {first.source}; {second.source}",
        structure=Structure(
            decoder="groups" if first.replicas and second.replicas else "least_squares",
        ),
    )


def refine(code: GradientCode, n_tasks: int) -> GradientCode:
    """The same code over finer tasks: each task is cut into several, in numbers that differ by at most one.

    This way a code whose number of tasks is tied to its workers, such as a cyclic one, serves any larger number.

    Arguments:
        code: any code.
        n_tasks: number of finer tasks, at least `code.n_tasks`.

    Structure:
        that of the code, as far as it is about messages and not about tasks; inner, the code.

    Guarantees: the code's own tolerance; if all tasks are cut into equally many, its residuals times that number.
    Choose it: when the data have more partitions than the code has tasks, for example after workers have left.
    Raises:
        InvalidArgument: if there are fewer tasks than the code has.

    >>> from erasurehead.codes._cyclic import cyclic_mds
    >>> refine(cyclic_mds(6, stragglers=3), n_tasks=15).loads.tolist()
    [11, 10, 9, 9, 10, 11]
    """
    n_tasks = check_size("n_tasks", n_tasks, at_least=code.n_tasks)
    part = blocks(n_tasks, code.n_tasks)
    whole = part[:, None] * code.n_pieces + np.arange(code.n_pieces)
    return GradientCode(
        name="refine",
        parameters={"code": described(code), "n_tasks": n_tasks},
        encoding=sparse.csr_array(code.encoding[:, whole.ravel()]),
        owner=code.owner,
        n_workers=code.n_workers,
        n_tasks=n_tasks,
        n_pieces=code.n_pieces,
        groups=code.groups,
        tolerance=code.tolerance,
        source=code.source,
        inner=(code,),  # exact weights are valid for the finer tasks, too
        structure=_of_messages(code, n_tasks),
    )


def _of_messages(code: GradientCode, n_tasks: int) -> Structure:
    """Return what is known about a code's messages and remains true when its tasks are cut."""
    structure, bound = code.structure, code.structure.amplification_bound
    if bound is not None and n_tasks % code.n_tasks:  # a message of the largest parts is longer than the mean
        bound *= float(np.sqrt(-(-n_tasks // code.n_tasks) * code.n_tasks / n_tasks))
    return Structure(
        decoder=structure.decoder if structure.decoder in _DECODERS else "least_squares",
        amplification=structure.amplification,
        amplification_bound=bound,
        largest_coefficient=structure.largest_coefficient,
        classes=structure.classes,
        complex_part=structure.complex_part,
        corrupted=structure.corrupted,
        generators=structure.generators,
        hardest=structure.hardest,
        levels=structure.levels,
        parity=structure.parity,
        parts=structure.parts,
        position=structure.position,
        straggling=structure.straggling,
        weights=structure.weights,
    )


def amplified(code: GradientCode) -> float:
    """Return the amplification of rounding that a code states; 1 if it states none."""
    return max(1.0, code.structure.amplification or 1.0)


def described(code: GradientCode) -> dict[str, object]:
    """Return a code in the form that `build` reads: its name and parameters in one mapping."""
    return {"name": code.name, **code.parameters}

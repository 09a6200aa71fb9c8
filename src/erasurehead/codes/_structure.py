"""What the construction of a code knows about its rows, for decoders, analysis and reports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes._assemble import frozen

DecoderName: TypeAlias = Literal[
    "least_squares",
    "groups",
    "classes",
    "bibd",
    "graph",
    "cyclic_mds",
    "pieces_by_group",
    "levels",
    "parts",
    "fixed_weights",
    "majority",
    "syndrome",
]
"""The decoder that a construction's paper gives:

- `"least_squares"`: none; least squares always works;
- `"groups"`: the messages of a group are equal, the first one speaks for it (`GradientCode.groups`);
- `"classes"`: all messages of a class add up to the target (`classes`);
- `"bibd"`: equal weights are optimal, `r / (r + lambda * (arrived - 1))` (`design`);
- `"graph"`: each message is the sum of two tasks, decoded by components (`edges`);
- `"cyclic_mds"`: row i is the generator polynomial shifted by i (`generator`, `roots`);
- `"pieces_by_group"`: in each group the messages are a linear code over the pieces of the group's sum (`generators`,
  `position`);
- `"levels"`: nested codes, each level decodes by itself (`levels`, and `GradientCode.inner`);
- `"parts"`: uncoded first messages, then an inner code (`parts`, and `GradientCode.inner`);
- `"fixed_weights"`: the sum with the fixed `weights` is unbiased (`weights`, `straggling`);
- `"majority"`: as `"groups"`, and at most `corrupted` equal messages may lie;
- `"syndrome"`: `parity` locates at most `corrupted` corrupted workers.
"""


_EMPTY = ("generators", "rounded")  # fields that are empty where nothing is known


class BlockDesign(NamedTuple):
    """The numbers of a balanced incomplete block design, whose points are workers and whose blocks are tasks.

    Attributes:
        workers: v.
        tasks: b.
        load: tasks that each worker holds, r.
        replication: workers that hold each task, k.
        common: tasks that any two workers have in common, lambda.
    """

    workers: int
    tasks: int
    load: int
    replication: int
    common: int


@dataclass(frozen=True, eq=False)
class Structure:
    """What the construction of a code knows about its rows beyond their numbers; None, or empty, where unknown.

    Nothing here is needed to decode: least squares always works. It tells what is quicker, and what a paper promises.

    Arguments:
        decoder: the decoder that the paper gives.
        classes: the class of each message, shape (n_messages,).
        design: the numbers of a block design.
        edges: the two tasks of each worker, shape (n_workers, 2).
        generator: coefficients of the generator polynomial, constant first. Worker i holds tasks i, i+1, ... around
            the circle.
        roots: exponents j such that the generator polynomial vanishes at exp(2 pi i j / n).
        generators: for each group its generator, shape (n_pieces, messages of the group).
        position: the generator's column of each message, shape (n_messages,).
        levels: stragglers that the message's own code tolerates, shape (n_messages,).
        parts: 0 for an uncoded first message, 1 for a coded second one, shape (n_messages,).
        weights: fixed weights, shape (n_messages,).
        straggling: the probabilities of straggling for which the weights are unbiased, shape (n_workers,).
        expected_residual: mean residual of the fixed weights for orthogonal partial gradients, in tasks.
        aligned_residual: the same for equal partial gradients.
        mean_load: expected load s of a random 0/1 code: one-step decoding has rho = n_tasks / (r s).
        common: expected inner product lambda of two rows of a soft design, whose equal weights are
            `mean_load / (mean_load + common * (arrived - 1))`.
        shift: the rows are one row, complex where there is a `complex_part`; that of worker i is moved by `i * shift`
            tasks around the circle.
        complex_part: 0 for the real, 1 for the imaginary row of a complex one, shape (n_messages,); the two are
            neighbours.
        corrupted: corrupted workers that can be located and outvoted.
        located: how large the lies of `corrupted` neighbours must be for float64 to name all of them with a probability
            of at least 99% (over the seed of what is compared), relative to the norm of an honest message.
        parity: complex matrix of shape (checks, n_workers): `parity @ complex rows == 0`.
        largest_coefficient: largest coefficient in magnitude, if rows begin with one.
        second_eigenvalue: second eigenvalue of a graph, in magnitude; `lambda` of the expander bounds.
        amplification: the largest factor found, over sets of `tolerance` stragglers, between the rounding error of a
            message and the relative error of the decoded gradient.
        amplification_bound: a factor that no such set exceeds: `amplification` itself where all sets were examined;
            None where there are too many sets, and no theorem.
        hardest: the stragglers of `amplification`.
        rounded: what the construction had to round, as a sentence; empty if nothing.
    """

    decoder: DecoderName = "least_squares"
    classes: IntArray | None = None
    design: BlockDesign | None = None
    edges: IntArray | None = None
    generator: Array | None = None
    roots: IntArray | None = None
    generators: tuple[Array, ...] = ()
    position: IntArray | None = None
    levels: IntArray | None = None
    parts: IntArray | None = None
    weights: Array | None = None
    straggling: Array | None = None
    expected_residual: float | None = None
    aligned_residual: float | None = None
    mean_load: float | None = None
    common: float | None = None
    shift: int | None = None
    complex_part: IntArray | None = None
    corrupted: int | None = None
    located: float | None = None
    parity: NDArray[np.complex128] | None = None
    largest_coefficient: float | None = None
    second_eigenvalue: float | None = None
    amplification: float | None = None
    amplification_bound: float | None = None
    hardest: IntArray | None = None
    rounded: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, frozen(getattr(self, item.name)))
        object.__setattr__(self, "generators", tuple(frozen(one) for one in self.generators))

    def known(self) -> dict[str, Any]:
        """Return what is known, by name: every field that differs from its default."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: value for name, value in values.items() if not (value is None or (name in _EMPTY and not len(value)))
        }

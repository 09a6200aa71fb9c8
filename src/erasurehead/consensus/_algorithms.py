"""The algorithms by which a peer's model moves: plain SGD, momentum, gradient tracking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.text_parser import read_or_keep
from erasurehead.errors import invalid, real

Memory: TypeAlias = dict[str, Array]
"""An algorithm's state of one peer: its model `x`, and vectors of the same shape. Arrays are replaced, not changed."""


class Algorithm(ABC):
    """How a peer's model moves, before and after averaging. Immutable data: the state is in the peer's memory.

    A step computes a vector of `n_vectors * n_parameters` numbers, which begins with a model. Peers average these
    vectors, and adopt the result.
    """

    n_vectors: ClassVar[int] = 1
    """Number of vectors of the model's length that are averaged together."""

    def begin(self, x: Array) -> Memory:
        """Return the memory of a peer that begins at a model, shape (n_parameters,)."""
        return {"x": x}

    def vector(self, memory: Memory) -> Array:
        """Return the vector to average with neighbours without taking a step, shape (n_vectors * n_parameters,)."""
        return memory["x"]

    @abstractmethod
    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        """Take a step along a gradient.

        Arguments:
            memory: the peer's memory, which is updated.
            gradient: shape (n_parameters,).
            rate: step size.

        Returns:
            The vector to average with neighbours, shape (n_vectors * n_parameters,).
        """

    def adopt(self, memory: Memory, vector: Array, rate: float) -> None:
        """Adopt an average.

        Arguments:
            memory: the peer's memory, which is updated.
            vector: the average, shape (n_vectors * n_parameters,).
            rate: step size.
        """
        memory["x"] = vector


@final
@dataclass(frozen=True)
class DecentralizedSGD(Algorithm):
    """`x <- average of (x - rate * gradient)`: Lian et al., 2017; the update of cb-DyBW."""

    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        memory["x"] = memory["x"] - rate * gradient
        return memory["x"]

    def __str__(self) -> str:
        return "sgd()"


@dataclass(frozen=True)
class _WithMomentum(Algorithm):
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 <= real(self.momentum) < 1.0:
            raise invalid("momentum", "must lie in [0, 1)", self.momentum)


@final
@dataclass(frozen=True)
class Momentum(_WithMomentum):
    """Heavy-ball momentum: `v <- momentum * v + gradient`, and a step along `v`. Velocities are not averaged.

    Arguments:
        momentum: in [0, 1).
    """

    def begin(self, x: Array) -> Memory:
        return {"x": x, "velocity": np.zeros_like(x)}

    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        memory["velocity"] = self.momentum * memory["velocity"] + gradient
        memory["x"] = memory["x"] - rate * memory["velocity"]
        return memory["x"]

    def __str__(self) -> str:
        return f"momentum(momentum={self.momentum})"


@final
@dataclass(frozen=True)
class QuasiGlobalMomentum(_WithMomentum):
    """Momentum along the path of the averaged model, which suits peers with dissimilar data (Lin et al., 2021).

    Arguments:
        momentum: in [0, 1).
    """

    def begin(self, x: Array) -> Memory:
        return {"x": x, "before": x, "direction": np.zeros_like(x)}

    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        memory["x"] = memory["x"] - rate * (self.momentum * memory["direction"] + gradient)
        return memory["x"]

    def adopt(self, memory: Memory, vector: Array, rate: float) -> None:
        moved = (memory["before"] - vector) / rate
        memory["direction"] = self.momentum * memory["direction"] + (1.0 - self.momentum) * moved
        memory["x"] = memory["before"] = vector

    def __str__(self) -> str:
        return f"quasi_global(momentum={self.momentum})"


@final
@dataclass(frozen=True)
class GradientTracking(Algorithm):
    """Each peer also tracks the mean gradient of all peers, so that dissimilar data do not bias the limit.

    `y <- average of (y + gradient - last gradient)`, `x <- average of (x - rate * y)`, both in one message (the
    adapt-then-combine form of Nedic, Olshevsky and Shi, 2017, and of Xu et al., 2015). Averaging preserves sums: the
    sum of all `y` is the sum of the last gradients of all peers, whichever peers took part in which step.
    """

    n_vectors = 2

    def begin(self, x: Array) -> Memory:
        return {"x": x, "tracked": np.zeros_like(x), "last": np.zeros_like(x)}

    def vector(self, memory: Memory) -> Array:
        return np.concatenate([memory["x"], memory["tracked"]])

    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        memory["tracked"] = memory["tracked"] + gradient - memory["last"]
        memory["last"] = gradient
        memory["x"] = memory["x"] - rate * memory["tracked"]
        return self.vector(memory)

    def adopt(self, memory: Memory, vector: Array, rate: float) -> None:
        half = len(vector) // 2
        memory["x"], memory["tracked"] = vector[:half].copy(), vector[half:].copy()

    def __str__(self) -> str:
        return "gradient_tracking()"


ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    "sgd": DecentralizedSGD,
    "momentum": Momentum,
    "quasi_global": QuasiGlobalMomentum,
    "gradient_tracking": GradientTracking,
}
"""The class for each name in the text of an algorithm."""


def parse_algorithm(text: str | Algorithm) -> Algorithm:
    """Return the algorithm that a text stands for, such as `"momentum(momentum=0.9)"`, or an algorithm as it is."""
    return read_or_keep(text, "algorithm", Algorithm, ALGORITHMS)

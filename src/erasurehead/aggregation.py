"""What the optimizer sees: from decoded messages to the gradient estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoding
from erasurehead.engines.base import Arrived, Order
from erasurehead.errors import invalid
from erasurehead.layout import Layout


class Aggregation(ABC):
    """Decoded messages -> the estimate of the gradient, with the loss as its last coordinate.

    Attributes:
        wants_late: whether messages of earlier rounds are of use; the loop then passes them to `late`.
    """

    wants_late: bool = False

    def late(self, arrived: Arrived) -> None:
        """Take a message of an earlier round; its vector is gone when this returns."""
        return

    @abstractmethod
    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        """Return the estimate, shape (layout.n_coordinates,), or None where nothing is known: no step is taken then.

        Arguments:
            decoding: of the messages that arrived in time.
            vectors: of `decoding.messages`, in their order.
            layout: where the vectors' elements belong.
            order: what the messages answer.
        """

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs to continue to the bit."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        return


@dataclass(frozen=True)
class Plain(Aggregation):
    """The decoded sum as it is: equations (1) and (2) of the ErasureHead paper.

    Where groups are missing it is too short by their share: its mean is (1 - p) times the gradient (Lemma 3).
    """

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        if not _counted(decoding):
            return None
        return layout.decode(decoding, vectors)


@dataclass(frozen=True)
class ByCoverage(Aggregation):
    """The decoded sum divided by the fraction of the tasks that it counts, as it turned out in this step.

    For a repetition code with Y of B groups present the factor is B / Y. Given how many groups are present it is
    unbiased when workers are exchangeable. With no task counted there is no estimate.
    """

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        coverage = _counted(decoding)
        if coverage <= 0.0:
            return None
        return layout.decode(replace(decoding, weights=decoding.weights / coverage), vectors)


@dataclass(frozen=True)
class ByExpectation(Aggregation):
    """Each message divided by the probability that its content is present: g / (1 - p) in the paper's section 3.

    Unbiased over the draw of the stragglers, but of greater variance than `ByCoverage`.

    Arguments:
        presence: for each message the probability, in (0, 1], that it or an equal one arrives in time.
    """

    presence: tuple[float, ...]

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        if not _counted(decoding):
            return None
        presence = np.asarray(self.presence)[decoding.messages]
        return layout.decode(replace(decoding, weights=decoding.weights / presence), vectors)


def _counted(decoding: Decoding) -> float:
    """Return the coverage; exactly 0 where nothing has come, or nothing that says anything of the gradient."""
    coverage = decoding.coverage if len(decoding.messages) else 0.0
    return coverage if abs(coverage) > 1e-12 else 0.0


def presence_among_first(code: GradientCode, arrivals: int) -> tuple[float, ...]:
    """Return for each message the probability that its group is among the first `arrivals` workers.

    With k exchangeable workers and l workers in the group: 1 - C(k-l, r) / C(k, r) (ErasureHead, Lemma 2). Stopping
    earlier because all groups are in changes nothing: none is missing then.

    Arguments:
        code: whose groups are replicas, with one message a worker.
        arrivals: r, in 1..n_workers.
    """
    if not code.replicas or code.n_messages != code.n_workers:
        raise invalid("rescale", "must be 'coverage' or 'none' for a code whose groups are not replicas", "expectation")
    assert code.groups is not None
    sizes = np.bincount(code.groups)[code.groups].tolist()
    ways = math.comb(code.n_workers, arrivals)
    return tuple(1.0 - math.comb(code.n_workers - size, arrivals) / ways for size in sizes)


def rescaling(rescale: str, code: GradientCode, arrivals: int) -> Aggregation:
    """Return the aggregation that a name stands for.

    Arguments:
        rescale: `"none"` (the paper's algorithm as written), `"expectation"` or `"coverage"`.
        code: the code.
        arrivals: for `"expectation"`: the number of workers waited for.
    """
    if rescale == "none":
        return Plain()
    if rescale == "coverage":
        return ByCoverage()
    if rescale == "expectation":
        return ByExpectation(presence_among_first(code, arrivals))
    raise invalid("rescale", "must be one of 'none', 'expectation', 'coverage'", rescale)

"""What the optimizer sees: from decoded messages to the gradient estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.resumable import Resumable
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.errors import invalid
from erasurehead.schemes._recorded import RecordedArrival, RecordedStep

_MOST_COUNTED = 4_000  # workers up to which presence is counted, which takes time as their square: two seconds there


@dataclass(frozen=True, eq=False)
class LateMessage:
    """A message of an earlier round, checked like those that came in time: it is finite, and not found to be wrong.

    Attributes:
        worker: the worker that sent it.
        message: the message's row of the code; where the code has been resized since, its row in the current code.
        content: messages with the same content are equal for the same model; None if no other message is like it.
        step: the step of the order that it answers.
        order_round: the round of the order that it answers.
        age: how many steps ago that was.
        positions: the coordinate of each element in each piece, shape (n_pieces, length), -1 for padding; None if it
            holds all coordinates in order.
        vector: a copy of its own, shape (length,).
        vectors: number of vectors of equal length that it holds, one after the other.
    """

    worker: int
    message: int
    content: int | None
    step: int
    order_round: int
    age: int
    positions: NDArray[np.integer] | None
    vector: Array
    vectors: int = 1


class Vectors(list[Array]):
    """The vectors of the messages that were decoded, in their order.

    Arguments:
        decoded: those vectors.
        arrived: the vector of every message that has arrived, whether it has a weight or not, by its row of the code.
    """

    def __init__(self, decoded: Iterable[Array], arrived: Mapping[int, Array]) -> None:
        super().__init__(decoded)
        self.arrived = arrived


def arrived_vectors(decoding: Decoding, vectors: Sequence[Array]) -> Mapping[int, Array]:
    """Return the vectors of all messages that have arrived, by row; for plain sequences, of those that were decoded."""
    if isinstance(vectors, Vectors):
        return vectors.arrived
    return dict(zip(decoding.messages.tolist(), vectors, strict=True))


class Aggregation(Resumable, ABC):
    """Turns decoded messages into the estimate of the gradient, with the loss as its last coordinate.

    Attributes:
        wants_late: whether messages of earlier rounds are used; the training loop then passes them to `late`.
        greatest_age: the greatest age, in steps, of such a message; older ones are recorded, but not passed on.
        after_own_step: whether a worker that has answered waits for the step that its answer makes, and goes on from
            that model; else it goes on at once, from the newest model there is.
        faithful: whether the estimate is the full gradient wherever the decoding is exact.
    """

    wants_late: bool = False
    greatest_age: float = math.inf
    after_own_step: bool = False
    faithful: ClassVar[bool] = False

    @property
    def share(self) -> float:
        """The fraction of the optimizer's step size, in (0, 1], that the last estimate is worth. The step along the
        estimate and along the penalty is shortened by it."""
        return 1.0

    def lag(self, n_workers: int) -> float:
        """Return how many steps old gradients are, if whole steps are made along them, whatever their age."""
        return 0.0

    @property
    def tasks_counted(self) -> Sequence[int] | None:
        """The tasks that the last estimate counts, ascending, where it remembers some of which no message came; None
        if they are those of the messages that were used."""
        return None

    @property
    def remembers(self) -> bool:
        """Whether it keeps anything from one step to the next; all messages are then checked before it sees them."""
        return self.wants_late or type(self).begin is not Aggregation.begin

    def begin(self) -> Aggregation:
        """Return a fresh aggregation for a new run: itself, if it remembers nothing.

        An aggregation that remembers returns a new, empty one, so that two runs of one scheme do not influence each
        other. When the code is resized, a new one takes over what this one knows, through `state` and `restore`: key
        the state by content or by task, as the rows of the code may change.
        """
        return self

    def late(self, message: LateMessage) -> None:
        """Take a message of an earlier round.

        Late messages are passed on when waiting has ended, before `estimate`, in the order of their steps and rows,
        whatever the order of their arrival.
        """
        return

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        """Learn from a finished step. Only its records may be read, so that a replay learns the same.

        Arguments:
            step: its row.
            arrivals: the rows of all of its messages, censored and late ones included.
        """
        return

    @abstractmethod
    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        """Return the estimate, shape (layout.n_coordinates,), or None if nothing is known: no step is taken then.

        Arguments:
            decoding: the decoding of the messages that arrived in time.
            vectors: those of `decoding.messages`, in their order; `vectors.arrived` (see `Vectors`) has those of all
                messages that have arrived.
            layout: where the vectors' elements belong.
            order: the order that the messages answer.
        """


@dataclass(frozen=True)
class Plain(Aggregation):
    """The decoded sum, unscaled: equations (1) and (2) of the ErasureHead paper.

    Where groups are missing it is too short: its mean is (1 - p) times the gradient (Lemma 3).
    """

    faithful = True

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        if not _counted(decoding):
            return None
        return layout.decode(decoding, vectors)


@dataclass(frozen=True)
class ByCoverage(Aggregation):
    """The decoded sum divided by the fraction of the tasks that it counts, as observed in this step.

    For a repetition code with Y of B equal groups present the factor is B / Y. Given how many groups are present it is
    unbiased when workers are exchangeable. Where groups differ in their workers or their tasks it is not: see
    `ByPresence`. With no task counted there is no estimate.
    """

    faithful = True

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
        presence: for each message the probability, in (0, 1], that it or an equal one arrives in time, shape
            (n_messages,).
    """

    presence: tuple[float, ...]

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        if not _counted(decoding):
            return None
        presence = np.asarray(self.presence)[decoding.messages]
        return layout.decode(replace(decoding, weights=decoding.weights / presence), vectors)


@dataclass(frozen=True, eq=False)
class ByPresence(Aggregation):
    """Each group's sum divided by the probability that it is present, given how many groups are: coverage, unbiased.

    After the first r arrivals of exchangeable workers, a group of more workers is present more often than one of fewer.
    Given that Y of the B groups are present, the probabilities of the single groups add up to Y; dividing each group's
    sum by its probability makes the mean the full gradient for every Y, whatever the groups hold. Where so few groups
    are present that some cannot be among them (being too small for all r arrivals), these counts are pooled. Where all
    groups are equal, the probability is Y / B, and the estimate is that of `ByCoverage`. With no group present there is
    no estimate.

    Arguments:
        code: a code whose groups are replicas, with one message per worker.
        arrivals: r, in 1..n_workers: the wait rule stops after so many arrivals, or when every group is in.
    """

    code: GradientCode
    arrivals: int
    faithful = True

    def __post_init__(self) -> None:
        _check_replicas(self.code, "coverage")

    @cached_property
    def presence(self) -> Array:
        """Probability that each group is present, given how many are: shape (B + 1, B); 0 where so many cannot be."""
        assert self.code.groups is not None
        return _presence_given_count(np.bincount(self.code.groups), self.arrivals)

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        coverage = _counted(decoding)
        if coverage <= 0.0:
            return None
        assert self.code.groups is not None
        groups = self.code.groups[decoding.messages]
        probability = self.presence[len(np.unique(self.code.groups[decoding.used]))][groups]
        if decoding.code is not self.code or not (probability > 0.0).all():  # tasks are lost, or others awaited
            probability = np.full(len(groups), coverage)
        return layout.decode(replace(decoding, weights=decoding.weights / probability), vectors)


def _counted(decoding: Decoding) -> float:
    """Return the coverage; exactly 0 where nothing has arrived, or nothing that says anything about the gradient."""
    coverage = decoding.coverage if len(decoding.messages) else 0.0
    return coverage if abs(coverage) > 1e-12 else 0.0


def presence_among_first(code: GradientCode, arrivals: int) -> tuple[float, ...]:
    """Return for each message the probability that its group is among the first `arrivals` workers.

    With k exchangeable workers and l workers in the group: 1 - C(k-l, r) / C(k, r) (ErasureHead, Lemma 2). Stopping
    earlier because all groups are in changes nothing: none is missing then.

    Arguments:
        code: a code whose groups are replicas, with one message per worker.
        arrivals: r, in 1..n_workers.
    """
    _check_replicas(code, "expectation")
    assert code.groups is not None
    sizes: list[int] = np.bincount(code.groups)[code.groups].tolist()
    ways = math.comb(code.n_workers, arrivals)
    # Once for each size, of which there are few: with thousands of workers these numbers have thousands of digits.
    presence = {size: 1.0 - math.comb(code.n_workers - size, arrivals) / ways for size in set(sizes)}
    return tuple(presence[size] for size in sizes)


def _check_replicas(code: GradientCode, rescale: str) -> None:
    if not (code.replicas and code.one_message_each):
        raise invalid("rescale", "must be 'coverage' or 'none' for a code whose groups are not replicas", rescale)


def _presence_given_count(sizes: IntArray, arrivals: int) -> Array:
    """Return the probability that each group is among the first arrivals, given how many groups are.

    Counted by generating functions: x marks a worker that has arrived, and (1 + x)^size - 1 a group that is present.
    Groups of one size are alike, and there are few sizes.

    Arguments:
        sizes: number of workers in each group, shape (B,).
        arrivals: r.

    Returns:
        Shape (B + 1, B); 0 where so many groups cannot be present. The smallest counts are pooled, up to the first one
        from which on every group may be present.
    """
    kinds, kind_of, many = np.unique(sizes, return_inverse=True, return_counts=True)
    powers = [_powers(int(size), int(count), arrivals) for size, count in zip(kinds, many, strict=True)]
    presence = np.zeros((len(sizes) + 1, len(sizes)))
    chance = np.full(len(sizes) + 1, -np.inf)  # of each count, as a logarithm
    # For each kind: how often (in logarithms) so many groups in all are present, and how many of this kind on average.
    for kind in range(len(kinds)):
        others = _joined([powers[other] for other in range(len(kinds)) if other != kind], arrivals)
        mine = powers[kind]
        for count in range(1, len(sizes) + 1):
            least, most = max(0, count - (len(others) - 1)), min(count, len(mine) - 1)
            ways = np.array([_ways(mine[n], others[count - n], arrivals) for n in range(least, most + 1)])
            if not len(ways) or ways.max() == -np.inf:
                continue
            share = np.exp(ways - ways.max())
            mean = float(share @ np.arange(least, most + 1)) / float(share.sum())
            presence[count, kind_of == kind] = mean / many[kind]
            chance[count] = ways.max() + math.log(float(share.sum()))
    likely = np.exp(chance - chance.max())[:, None]
    together = np.cumsum(likely * presence, axis=0)
    few = int(np.argmax((together > 0.0).all(axis=1)))
    possible = chance[: few + 1] > -np.inf
    presence[: few + 1][possible] = together[few] / likely[: few + 1].sum()
    return presence


_Scaled: TypeAlias = tuple[Array, float]
"""Coefficients of a polynomial, and the logarithm of what they are to be multiplied by."""


def _powers(size: int, count: int, degree: int) -> list[_Scaled]:
    """Return C(count, n) ((1 + x)^size - 1)^n for n = 0..count, up to a degree."""
    one = np.array([0.0, *(float(math.comb(size, n)) for n in range(1, min(size, degree) + 1))])
    power: _Scaled = np.ones(1), 0.0
    powers: list[_Scaled] = []
    for n in range(count + 1):
        ways = math.lgamma(count + 1) - math.lgamma(n + 1) - math.lgamma(count - n + 1)
        powers.append((power[0], power[1] + ways))
        power = _scaled(np.convolve(power[0], one)[: degree + 1], power[1])
    return powers


def _joined(kinds: Sequence[Sequence[_Scaled]], degree: int) -> list[_Scaled]:
    """Return the polynomials of several kinds of groups together, by how many are present."""
    joined: list[_Scaled] = [(np.ones(1), 0.0)]
    for kind in kinds:
        together: list[_Scaled] = []
        for count in range(len(joined) + len(kind) - 1):
            pairs = [(joined[count - n], kind[n]) for n in range(len(kind)) if 0 <= count - n < len(joined)]
            largest = max(one[1] + other[1] for one, other in pairs)
            total = np.zeros(degree + 1)
            for one, other in pairs:
                term = np.convolve(one[0], other[0])[: degree + 1]
                total[: len(term)] += term * math.exp(one[1] + other[1] - largest)
            together.append(_scaled(total, largest))
        joined = together
    return joined


def _scaled(numbers: Array, factor: float) -> _Scaled:
    largest = float(numbers.max(initial=0.0))
    return (numbers / largest, factor + math.log(largest)) if largest > 0.0 else (numbers, factor)


def _ways(one: _Scaled, other: _Scaled, degree: int) -> float:
    """Return the logarithm of the coefficient of x^degree in a product."""
    left = one[0][: degree + 1]
    right = np.zeros(degree + 1)
    right[: min(len(other[0]), degree + 1)] = other[0][: degree + 1]
    total = float(left @ right[::-1][: len(left)])
    return one[1] + other[1] + math.log(total) if total > 0.0 else -math.inf


def _equal_groups(code: GradientCode) -> bool:
    """Return whether all groups have equally many workers and equally many tasks."""
    assert code.groups is not None
    first = np.unique(code.groups, return_index=True)[1]
    return len(set(np.bincount(code.groups).tolist())) == 1 and len(set(np.diff(code.encoding.indptr)[first])) == 1


def rescaling(rescale: str, code: GradientCode, arrivals: int | None) -> Aggregation:
    """Return the aggregation that a name stands for.

    `"coverage"` is `ByCoverage` where groups are equal, else `ByPresence` where the arrivals are known (for more than
    4,000 workers `ByExpectation`).

    Arguments:
        rescale: `"none"` (the paper's algorithm as written), `"expectation"` or `"coverage"`.
        code: the code.
        arrivals: the number of workers waited for, where the wait rule stops after so many or when every group is in;
            None for other rules. It is needed for `"expectation"`, and for `"coverage"` to be unbiased where groups of
            replicas are unequal.
    """
    if rescale == "none":
        return Plain()
    if rescale == "coverage":
        counted = arrivals is not None and code.replicas and code.one_message_each
        if arrivals is None or not counted or _equal_groups(code):
            return ByCoverage()
        if code.n_workers > _MOST_COUNTED:  # unbiased as well
            return ByExpectation(presence_among_first(code, arrivals))
        return ByPresence(code, arrivals)
    if rescale == "expectation" and arrivals is not None:
        return ByExpectation(presence_among_first(code, arrivals))
    raise invalid("rescale", "must be one of 'none', 'expectation', 'coverage'", rescale)

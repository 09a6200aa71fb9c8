"""How much each task's gradient counts in a step under a scheme's aggregation: weights, their bias and variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import EXACT
from erasurehead.decoding import Decoder
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.schemes import Aggregation, ByCoverage
from erasurehead.schemes._aggregation import ByExpectation, ByPresence, Plain
from erasurehead.schemes.wait_rules._group_arrival_times import replica_groups

_LAGS = 32  # largest lag in steps at which the autocovariance of weights is computed


@dataclass(frozen=True, eq=False)
class Counted:
    """Statistics of the weights of the tasks' gradients in the estimates of a setting.

    An estimate is `sum_j w_j g_j`, where `g_j` is the gradient of task j; `w_j = 1` for all j gives the full gradient.

    Attributes:
        mean: mean weight over all tasks and steps: 1 for an estimate that is not too short.
        covariances: `E[sum_j v_j(t) v_j(t + k)] / n^2` for lags k = 0, 1, ... steps, where v_j is the deviation of a
            weight from its mean, and the sum is over n tasks. The first, the variance, is about 1 for the gradient of
            one random task, and 0 if nothing is ever missing. The others are not 0 if workers are busy, or slow, for
            more than one step.
        bias: `sum_j (E[w_j] / mean - 1)^2 / n^2`, less what is expected by chance in so few steps: above 0 if some
            tasks are counted less than others in the long run.
        shares: share of the steps in which each task is counted, from 0 to 1, shape (n_tasks,).
        rounds: number of independent steps on which these statistics are based.
    """

    mean: float
    covariances: Array
    bias: float
    shares: Array
    rounds: float = math.inf

    @property
    def variance(self) -> float:
        """Variance of the estimate of one step."""
        return float(self.covariances[0])

    def noise(self, fading: float) -> float:
        """Return the variance of independent steps that would keep a run equally far from the minimum.

        As an error fades by a constant factor per step, correlated errors add up to `c_0 + 2 sum_k fading^k c_k`.

        Arguments:
            fading: factor by which a step reduces an earlier error, from 0 to 1.
        """
        lags = np.arange(1, len(self.covariances))
        return max(0.0, self.variance + 2.0 * float((fading**lags * self.covariances[1:]).sum()))


@dataclass(eq=False)
class CountedSum:
    """Accumulates statistics of the tasks' weights over simulated steps; called as a `simulation.Watch`.

    Arguments:
        decoder: decoder of the code.
        aggregation: aggregation that makes the estimate.
        rounds: number of independent steps on which the delays are based, if smaller than that of simulated steps.
        runs: number of runs that are simulated side by side; their steps are interleaved, one of each run in turn.
        steps: number of steps so far.
    """

    decoder: Decoder
    aggregation: Aggregation
    rounds: float = math.inf
    runs: int = 1
    steps: int = 0
    _lagged: Array = field(init=False)
    _pairs: Array = field(init=False)
    _first: Array = field(init=False)
    _second: Array = field(init=False)
    _seen: Array = field(init=False)

    def __post_init__(self) -> None:
        self._first, self._second, self._seen = (np.zeros(self.decoder.code.n_tasks) for _ in range(3))
        self._lagged, self._pairs = np.zeros(_LAGS + 1), np.zeros(_LAGS + 1)

    def __call__(self, times: Array, stop: Array, residual: Array) -> None:
        """Add simulated steps, with arguments as in `erasurehead.planning._simulation.Watch`."""
        lossy = np.flatnonzero(residual > EXACT * self.decoder.code.n_tasks)
        whole = len(times) - len(lossy)
        self.steps += len(times)
        for total in (self._first, self._second, self._seen):
            total += whole
        if len(lossy):
            weights = task_weights(self.decoder, self.aggregation, times[lossy], stop[lossy])
            self._first += weights.sum(axis=0)
            self._second += np.einsum("st,st->t", weights, weights)
            self._seen += np.count_nonzero(weights, axis=0)
            if len(times) % self.runs == 0:
                self._correlate(weights, lossy, len(times))

    def _correlate(self, weights: Array, lossy: IntArray, count: int) -> None:
        """Add products of weight deviations at all lags, separately for each run."""
        whole = np.ones((count, weights.shape[1]))
        whole[lossy] = weights
        whole -= whole.mean(axis=0)
        series = whole.reshape(count // self.runs, self.runs, -1)
        length = len(series)
        lags = min(_LAGS, length - 1)
        # Autocovariances from the power spectrum, padded so that the series does not wrap around.
        spectrum = np.fft.rfft(series, 2 * length, axis=0)
        power = (spectrum.real**2 + spectrum.imag**2).sum(axis=(1, 2))
        self._lagged[: lags + 1] += np.fft.irfft(power, 2 * length)[: lags + 1]
        self._pairs[: lags + 1] += self.runs * (length - np.arange(lags + 1))

    def result(self) -> Counted:
        """Return the statistics of all steps so far."""
        steps, n_tasks = max(1, self.steps), self.decoder.code.n_tasks
        means = self._first / steps
        spreads = np.maximum(self._second / steps - means**2, 0.0)
        mean = float(means.mean())
        rounds = min(float(steps), self.rounds)
        covariances = np.divide(self._lagged, self._pairs, out=np.zeros_like(self._lagged), where=self._pairs > 0.0)
        covariances[0] = float(spreads.sum())
        lasting = covariances[0] + 2.0 * float(covariances[1:].sum())
        chance = max(float(covariances[0]) / rounds, lasting / steps)
        bias = (float(((means - mean) ** 2).sum()) - chance) / (n_tasks * mean) ** 2 if mean > 0.0 else 0.0
        return Counted(mean, covariances / n_tasks**2, max(0.0, bias), self._seen / steps, rounds)


def task_weights(decoder: Decoder, aggregation: Aggregation, times: Array, stop: Array) -> Array:
    """Return the weight of each task in the estimate of each step.

    Arguments:
        decoder: decoder of the code.
        aggregation: aggregation that makes the estimate.
        times: arrival time of each message, in seconds, shape (rounds, n_messages).
        stop: time at which waiting stops, in seconds, shape (rounds,).

    Returns:
        Shape (rounds, n_tasks); 0 for all tasks of a step without an estimate.
    """
    code = decoder.code
    groupwise = isinstance(aggregation, Plain | ByCoverage | ByExpectation | ByPresence)
    if code.replicas and code.n_pieces == 1 and groupwise:
        return _of_groups(code, aggregation, times, stop)
    inside = (times <= stop[:, None]) & np.isfinite(times)
    sets, which = np.unique(np.packbits(inside, axis=1), axis=0, return_inverse=True)
    by_set = [
        _of_messages(decoder, aggregation, np.flatnonzero(np.unpackbits(packed, count=code.n_messages)).tolist())
        for packed in sets
    ]
    return np.array(by_set)[which.ravel()]


def _of_groups(code: GradientCode, aggregation: Aggregation, times: Array, stop: Array) -> Array:
    groups = replica_groups(code)
    arrived = (groups.earliest(times) <= np.minimum(stop, np.finfo(np.float64).max)[:, None]).astype(np.float64)
    if isinstance(aggregation, ByExpectation):
        presence = np.ones(groups.n_groups)
        presence[groups.of_message] = np.asarray(aggregation.presence)
        arrived /= presence
    alpha = arrived @ groups.weights
    if isinstance(aggregation, Plain | ByExpectation):
        return alpha
    if isinstance(aggregation, ByPresence):
        probability = aggregation.presence[np.count_nonzero(arrived, axis=1)]
        likely = np.where(probability > 0.0, probability, 1.0)
        return (arrived / likely) @ groups.weights
    coverage = alpha.mean(axis=1, keepdims=True)
    return np.divide(alpha, coverage, out=np.zeros_like(alpha), where=coverage > 1e-12)


def _of_messages(decoder: Decoder, aggregation: Aggregation, messages: list[int]) -> Array:
    """Aggregate as in a run, with unit vectors as the tasks' gradients, such that the estimate is the weights."""
    code = decoder.code
    if not messages:
        return np.zeros(code.n_tasks)
    decoding = decoder.decode(messages)
    if code.n_pieces > 1:
        pieces = decoding.alpha.reshape(code.n_pieces, code.n_tasks, code.n_pieces)
        return np.asarray(pieces.trace(axis1=0, axis2=2) / code.n_pieces)
    vectors = [np.asarray(code.encoding[int(message)].todense()).ravel() for message in decoding.messages]
    layout = Layout(code.n_tasks, [None] * code.n_messages)
    estimate = aggregation.estimate(decoding, vectors, layout, Order(0, (np.zeros(1),)))
    return np.zeros(code.n_tasks) if estimate is None else np.asarray(estimate)

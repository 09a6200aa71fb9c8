"""How representative the rounds of a trace are of later ones: correlation in time, drift, and heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.factors import least_squares

_SIGNIFICANT = 1.96  # of an autocorrelation, in Politis and White's rule
_CRITICAL = 1.63  # of the largest excursion of a Brownian bridge, at 1%
_FEW_KNOWN = 150.0  # independent rounds below which that value is too small: stalls would be taken for drift
_WORTH = 0.1  # change of the logarithm of delays that is worth mentioning
_FEW = 20  # rounds below which drift is not examined


def block_length(table: Array) -> int:
    """Return how many successive rounds to draw together: Politis and White's automatic block length.

    The optimal length for the circular block bootstrap of a mean (Politis and White 2004, with the correction of
    Patton, Politis and White 2009), applied to the logarithms of the delays: to the rounds' means and longest delays,
    and to the single workers, whose autocovariances are averaged. The largest length is returned.

    Arguments:
        table: seconds, shape (rounds, workers); inf for workers that do not answer.

    Returns:
        1 if rounds are uncorrelated, at most a third of the number of rounds.
    """
    logs = _logs(table)
    rounds = len(logs)
    if rounds < 8:
        return 1
    own = logs - logs.mean(axis=0)
    together = [_autocovariances(series[:, None]) for series in (logs.mean(axis=1), logs.max(axis=1))]
    # Workers are many series with the same memory: their mean is known as well as that of a longer trace.
    lengths = [_politis_white(item, rounds, 1) for item in together]
    lengths.append(_politis_white(_autocovariances(own), rounds, logs.shape[1]))
    return max(1, round(max(lengths)))


def effective_rounds(table: Array) -> float:
    """Return the effective number of independent rounds in a table whose rounds may be correlated.

    Arguments:
        table: as for `block_length`.
    """
    logs = _logs(table)
    if len(logs) < 8:
        return float(len(logs))
    worst = 1.0
    for series in (logs.mean(axis=1), logs.max(axis=1)):
        covariances = _autocovariances(series[:, None])
        if covariances[0] > 0.0:
            worst = max(worst, _long_run(covariances, len(logs), 1) / float(covariances[0]))
    return len(logs) / worst


def tail_index(table: Array) -> float:
    """Return the exponent of the delays' tail, by Hill's estimator: below 2 the variance is infinite, below 1 the mean.

    Each worker's delays are divided by their median: a machine that is always slow does not make a tail.

    Arguments:
        table: as for `block_length`.

    Returns:
        The exponent, from the longest twentieth; inf if there are fewer than 200 delays, or none above 0.
    """
    usable = np.isfinite(table) & (table > 0.0)
    over = [
        column[mask] / np.median(column[mask]) for column, mask in zip(table.T, usable.T, strict=True) if mask.any()
    ]
    seconds = np.sort(np.concatenate(over)) if over else np.zeros(0)
    longest = len(seconds) // 20
    if longest < 10:
        return math.inf
    excess = float(np.log(seconds[-longest:] / seconds[-longest - 1]).mean())
    return 1.0 / excess if excess > 0.0 else math.inf


@dataclass(frozen=True)
class Drift:
    """A lasting change of the delays.

    Attributes:
        since: the round at which they changed.
        factor: how many times as long they are since then.
    """

    since: int
    factor: float


def drift(table: Array) -> Drift | None:
    """Return where delays changed most, if by more than chance (at a significance level of 1%).

    The test statistic is the largest excursion of the cumulated deviations of the rounds' mean logarithms, divided by
    the square root of their long-run variance after a jump there and a trend are taken out (CUSUM): stalls that last
    for a while are not drift, as they raise that variance.

    Arguments:
        table: as for `block_length`.
    """
    series = _logs(table).mean(axis=1)
    rounds = len(series)
    if rounds < _FEW:
        return None
    sums = np.cumsum(series - series.mean())[:-1]
    split = int(np.abs(sums).argmax()) + 1
    before, after = float(series[:split].mean()), float(series[split:].mean())
    later = np.arange(rounds)
    shapes = np.stack([np.ones(rounds), (later >= split).astype(np.float64), later / rounds], axis=1)
    fitted = np.asarray(least_squares(shapes, series).solution, dtype=np.float64)
    rest: Array = series - shapes @ fitted  # delays may creep as well as jump
    covariances = _autocovariances(rest[:, None])
    variance = max(_long_run(covariances, rounds, 1), float(covariances[0]))
    shift = after - before
    if abs(shift) < math.log1p(_WORTH):
        return None
    if variance > 0.0:
        # Rounds that are correlated for long are too few to estimate their variance.
        least = _CRITICAL * math.sqrt(1.0 + _FEW_KNOWN * variance / (float(covariances[0]) * rounds))
        if float(np.abs(sums).max()) < least * math.sqrt(variance * rounds):
            return None
    return Drift(split, math.exp(shift))


def _logs(table: Array) -> Array:
    """Return logarithms of delays, with the longest finite one in place of infinite ones."""
    finite = table[np.isfinite(table)]
    shortest = float(finite[finite > 0.0].min(initial=math.inf))
    low = 1e-3 * shortest if math.isfinite(shortest) else 1.0
    answering = np.isfinite(table).any(axis=0)
    values = np.where(np.isfinite(table), table, finite.max(initial=low))[:, answering]
    return np.asarray(np.log(np.maximum(values, low)))


def _autocovariances(series: Array) -> Array:
    """Return the autocovariances at all lags considered, averaged over the columns."""
    rounds = len(series)
    centred = series - series.mean(axis=0)
    most = min(rounds - 1, 2 * (math.ceil(math.sqrt(rounds)) + 5))
    if not (np.abs(centred) > 1e-9).any():  # nothing but rounding
        return np.zeros(most + 1)
    return np.array([float((centred[lag:] * centred[: rounds - lag]).sum()) for lag in range(most + 1)]) / series.size


def _bandwidth(covariances: Array, rounds: int, series: int) -> int:
    """Return M of the flat-top window: twice the lag after which correlations are within chance."""
    if covariances[0] <= 0.0:
        return 0
    correlations = np.abs(covariances / covariances[0])
    chance = _SIGNIFICANT * math.sqrt(math.log10(rounds) / (rounds * series))
    row = max(5, math.ceil(math.sqrt(math.log10(rounds))))
    most = len(covariances) - 1
    for lag in range(max(1, most - row)):
        if (correlations[lag + 1 : lag + 1 + row] < chance).all():
            return min(2 * lag, most)
    return most


def _window(bandwidth: int) -> Array:
    share = np.arange(bandwidth + 1) / max(bandwidth, 1)
    return np.where(share <= 0.5, 1.0, 2.0 * (1.0 - share))


def _long_run(covariances: Array, rounds: int, series: int) -> float:
    bandwidth = _bandwidth(covariances, rounds, series)
    kept = covariances[: bandwidth + 1] * _window(bandwidth)
    return float(kept[0] + 2.0 * kept[1:].sum())


def _politis_white(covariances: Array, rounds: int, series: int) -> float:
    bandwidth = _bandwidth(covariances, rounds, series)
    if not bandwidth:
        return 1.0
    weights = _window(bandwidth)
    lags = np.arange(bandwidth + 1)
    slope = 2.0 * float((weights * lags * covariances[: bandwidth + 1]).sum())
    level = _long_run(covariances, rounds, series)
    if level <= 0.0:
        return 1.0
    length = (1.5 * slope**2 / level**2) ** (1.0 / 3.0) * rounds ** (1.0 / 3.0)
    return min(length, math.ceil(min(3.0 * math.sqrt(rounds), rounds / 3.0)))

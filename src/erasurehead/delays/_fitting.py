"""Fitting a distribution to delays, some of which are censored: known only to be longer than the wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, real_numbers
from erasurehead._internal.factors import pseudo_inverse
from erasurehead.delays._base import Around, Delays
from erasurehead.delays._families import FAMILIES, DistributionFamily, family
from erasurehead.delays._kaplan_meier import kaplan_meier
from erasurehead.delays._trace import Trace
from erasurehead.errors import DataError, counted, invalid

_Z95 = 1.959963984540054
_FAR = 0.05  # P-P gap below which times are right within a few percent, whatever the number of samples


@dataclass(frozen=True, eq=False)
class Fit:
    """A distribution fitted by maximum likelihood.

    Attributes:
        family: its name, one of `FAMILIES`.
        parameters: fitted values by name, in seconds where they are times.
        intervals: 95% confidence intervals by name. From the curvature of the likelihood; for a location at the
            smallest sample from the law of the smallest sample. A location at the edge of the search's
            range has no interval.
        model: the delay model with these parameters, and seed 0.
        log_likelihood: logarithm of the likelihood at the fitted values.
        aic: Akaike's criterion, 2 * (number of parameters - log_likelihood): among families, the smaller fits
            better; a difference below 2 means nothing.
        gap: largest vertical distance of the P-P plot from the diagonal, from 0 to 1. About 1.4 / sqrt(n) is what
            chance alone produces with n uncensored samples of the right family. With censored samples it is taken up to
            the time when 5% of all samples were still waited for.
        n: number of samples.
        n_censored: number of censored samples.
        empirical: P-P plot, the Kaplan-Meier estimate of the distribution at each uncensored sample, shape (points,).
        fitted: P-P plot, the fitted distribution at the same points, shape (points,).
    """

    family: str
    parameters: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    model: Delays
    log_likelihood: float
    aic: float
    gap: float
    n: int
    n_censored: int
    empirical: Array
    fitted: Array

    @property
    def short(self) -> str:
        """The text of the model, with four digits per parameter."""
        rounded = {name: float(f"{value:.4g}") for name, value in self.parameters.items()}
        return str(FAMILIES[self.family].build(rounded, 0, bool(getattr(self.model, "scale_with_load", False))))

    @property
    def bad(self) -> bool:
        """Whether the P-P plot is farther from the diagonal than chance explains, and far enough to matter."""
        count = max(1, self.n - self.n_censored)
        return self.gap > max(_FAR, 2.0 * 1.4 / math.sqrt(count))

    def drawn(self, count: int = 8) -> tuple[Delays, ...]:
        """Return models with parameters drawn from their uncertainty: log-normal, as wide as their intervals.

        Arguments:
            count: number of models, at least 1; the same ones every time.
        """
        chosen, random = family(self.family), np.random.default_rng(0)
        models: list[Delays] = []
        for _ in range(count):
            values: dict[str, float] = {}
            for name, value in self.parameters.items():
                low, high = self.intervals.get(name, (value, value))
                width = math.log(high / low) / (2.0 * _Z95) if low > 0.0 and math.isfinite(high) else 0.0
                values[name] = value * math.exp(width * float(random.standard_normal()))
            models.append(chosen.build(values, 0, bool(getattr(self.model, "scale_with_load", False))))
        return tuple(models)


@final
@dataclass(frozen=True)
class Uncertain(Around):
    """A fitted model that knows how uncertain its parameters are.

    Arguments:
        model: the model with the most likely parameters, which is drawn from and written in run files.
        draws: models with other parameters that the same samples are compatible with, at least two.
    """

    model: Delays
    draws: tuple[Delays, ...]

    def __str__(self) -> str:
        return str(self.model)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # the search looks far beyond what is likely
def fit(
    seconds: Array | Sequence[float],
    censored: BoolArray | Sequence[bool] | None = None,
    name: str = "exponential",
    scale_with_load: bool = False,
) -> Fit:
    """Fit one family to delays by maximum likelihood.

    Arguments:
        seconds: delays, at least 0, shape (n,); for a censored sample, the length of the wait.
        censored: whether each sample is known only to be longer, shape (n,); by default none is.
        name: name of the family, one of `FAMILIES`.
        scale_with_load: whether the returned model's delays grow with the load; the seconds are then those of one task.

    Raises:
        DataError: if there are fewer than two different uncensored samples, or samples of 0 in a family without 0.
    """
    chosen = family(name)
    times, hidden = _checked(seconds, censored)
    exact = times[~hidden]
    if exact.min() == 0.0 and (chosen.name == "pareto" or len(chosen.parameters) == 2):
        zeros = int(np.sum(exact == 0.0))
        raise _RuledOut(
            chosen.name,
            f"{zeros:,} of the {len(times):,} delays {'is' if zeros == 1 else 'are'} 0 s, which it excludes; where "
            "delays were not measured, or are shorter than the clock can tell, leave them out",
        )
    vector, loss, decode, at_edge = _search(chosen, times, hidden)
    theta, location = decode(vector)
    values = dict(zip(chosen.parameters, theta.tolist(), strict=True))
    if chosen.location:
        values[chosen.location] = location
    at_risk = int(np.count_nonzero(times >= decode.fixed))  # shorter waits say nothing about the smallest sample
    intervals = _intervals(chosen, vector, loss, decode, at_edge, at_risk)
    longer, points = kaplan_meier(times, hidden)
    empirical = 1.0 - longer
    if hidden.any():
        # Where few samples are still at risk, the estimate is mostly chance.
        waited = np.searchsorted(np.sort(times), points, side="left") <= 0.95 * len(times)
        empirical, points = empirical[waited], points[waited]
    fitted = -np.expm1(chosen.log_survival(points, theta, location))
    likelihood = -loss(vector)
    before = np.concatenate(([0.0], empirical[:-1]))
    gap = float(max(np.abs(fitted - empirical).max(), np.abs(fitted - before).max()))
    return Fit(
        family=chosen.name,
        parameters=values,
        intervals=intervals,
        model=chosen.build(values, 0, scale_with_load),
        log_likelihood=likelihood,
        aic=2.0 * (chosen.n_parameters - likelihood),
        gap=gap,
        n=len(times),
        n_censored=int(hidden.sum()),
        empirical=0.5 * (empirical + before),
        fitted=fitted,
    )


class Ranking(tuple[Fit, ...]):
    """Fits of several families to the same samples, the best first.

    Attributes:
        ruled_out: families that the samples rule out, each with the reason.
    """

    ruled_out: Mapping[str, str]

    def __new__(cls, fits: Iterable[Fit], ruled_out: Mapping[str, str]) -> Self:
        self = super().__new__(cls, fits)
        self.ruled_out = MappingProxyType(dict(ruled_out))
        return self


class _RuledOut(DataError):
    def __init__(self, name: str, reason: str) -> None:
        article = "an" if name.startswith("e") else "a"
        super().__init__(f"{article} {name} distribution cannot be fitted: {reason}.")
        self.reason = reason


def fit_trace(trace: Trace, names: Sequence[str] | None = None, scale_with_load: bool = False) -> Ranking:
    """Fit families to all samples of a trace together, and rank them by AIC, the best first.

    Arguments:
        trace: the trace, with its censored samples.
        names: families to try; by default all of `FAMILIES`. Those that the samples rule out are left out, and named
            with the reason.
        scale_with_load: whether to fit seconds per task.

    Raises:
        DataError: if the samples rule out all of them.
    """
    seconds = trace.seconds / trace.load if scale_with_load else trace.seconds
    fits: list[Fit] = []
    refused: dict[str, _RuledOut] = {}
    tried = FAMILIES if names is None else dict.fromkeys(names)  # one named twice would be as good as itself
    if not tried:
        raise invalid("names", "must name at least one family", names, f"there are {', '.join(FAMILIES)}")
    for name in tried:
        try:
            fits.append(fit(seconds, trace.censored, name, scale_with_load))
        except _RuledOut as error:
            refused[name] = error
    if not fits:
        raise next(iter(refused.values()))
    ranked = sorted(fits, key=lambda item: item.aic)
    return Ranking(ranked, {name: error.reason for name, error in refused.items()})


def _checked(seconds: Array | Sequence[float], censored: BoolArray | Sequence[bool] | None) -> tuple[Array, BoolArray]:
    times = real_numbers("seconds", seconds)
    if times.ndim != 1:
        raise invalid("seconds", "must have shape (n,)", times.shape)
    hidden = np.zeros(len(times), dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
    if hidden.shape != times.shape:
        raise invalid("censored", f"must have the shape of seconds, {times.shape}", hidden.shape)
    if not (np.isfinite(times) & (times >= 0.0)).all():
        raise invalid(
            "seconds", "must be finite and at least 0", float(times[~(times >= 0.0) | ~np.isfinite(times)][0])
        )
    exact = np.unique(times[~hidden])
    if len(exact) < 2:
        what = "none is known exactly" if not len(exact) else f"all that are known exactly are {exact[0]:g} s"
        raise DataError(f"of {counted('delay', len(times))} {what}, so that there is no distribution to fit.")
    return times, hidden


class _Decode:
    """From an unconstrained vector to (positive parameters, location)."""

    def __init__(self, chosen: DistributionFamily, exact: Array) -> None:
        self.n = len(chosen.parameters)
        self.fixed = float(exact.min()) if chosen.at_minimum else 0.0
        self.searched = bool(chosen.location) and not chosen.at_minimum
        # The likelihood of a shifted family may grow without bound as the shift approaches the smallest sample; as the
        # smallest of n lies about 1/n of their spread above the shift, the search keeps that distance.
        spread = float(np.median(exact) - exact.min())
        self.ceiling = max(0.0, float(exact.min()) - spread / len(exact))

    def __call__(self, vector: Array) -> tuple[Array, float]:
        theta = np.exp(vector[: self.n])
        if not self.searched:
            return theta, self.fixed
        return theta, self.ceiling / (1.0 + math.exp(-float(np.clip(vector[self.n], -50.0, 50.0))))


class _Loss:
    """The negative log-likelihood, as a function of the unconstrained vector."""

    def __init__(self, chosen: DistributionFamily, times: Array, hidden: BoolArray, decode: _Decode) -> None:
        self.chosen, self.decode = chosen, decode
        self.known, self.waited = times[~hidden], times[hidden]

    def __call__(self, vector: Array) -> float:
        if np.abs(vector).max() > 300.0:
            return math.inf
        theta, location = self.decode(vector)
        total = self.chosen.log_density(self.known, theta, location).sum()
        if len(self.waited):
            total += self.chosen.log_survival(self.waited, theta, location).sum()
        return -float(total) if np.isfinite(total) else math.inf


def _search(chosen: DistributionFamily, times: Array, hidden: BoolArray) -> tuple[Array, _Loss, _Decode, bool]:
    from scipy.optimize import minimize  # slow to import, and not needed to draw delays

    decode = _Decode(chosen, times[~hidden])
    loss = _Loss(chosen, times, hidden, decode)
    best, least = np.zeros(0), math.inf
    for begin in (-2.0, 1.0, 4.0) if decode.searched else (0.0,):
        location = decode.ceiling / (1.0 + math.exp(-begin)) if decode.searched else decode.fixed
        above = times[~hidden] - (location if chosen.name != "pareto" else 0.0)
        start = np.log(chosen.start(above[above > 0.0]))
        vector = np.append(start, begin) if decode.searched else start
        for _ in range(2):  # a second simplex, started where the first one ended, undoes its premature shrinking
            result = minimize(
                loss, vector, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9 * len(times), "maxiter": 2000}
            )
            vector = np.asarray(result.x, dtype=np.float64)
        if loss(vector) < least:
            best, least = vector, loss(vector)
    if not math.isfinite(least):
        raise _RuledOut(chosen.name, "its likelihood of the samples is 0 wherever it was tried")
    at_edge = decode.searched and (decode.ceiling == 0.0 or abs(float(best[-1])) > 6.0)
    return best, loss, decode, at_edge


def _intervals(
    chosen: DistributionFamily, vector: Array, loss: _Loss, decode: _Decode, at_edge: bool, at_risk: int
) -> dict[str, tuple[float, float]]:
    free = len(chosen.parameters) if at_edge or not decode.searched else len(vector)
    rest = vector[free:]  # at the edge of what is searched, so that it has no curvature of its own
    curvature = _curvature(lambda moved: loss(np.concatenate((moved, rest))), vector[:free])
    if not np.isfinite(curvature).all():
        raise _RuledOut(chosen.name, "the delays are so much alike that its parameters are not settled")
    covariance = pseudo_inverse(curvature)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    low, high = vector.copy(), vector.copy()
    low[:free] -= _Z95 * errors
    high[:free] += _Z95 * errors
    (below, low_location), (above, high_location) = decode(low), decode(high)
    intervals = {name: (float(a), float(b)) for name, a, b in zip(chosen.parameters, below, above, strict=True)}
    theta, location = decode(vector)
    if decode.searched and not at_edge:
        intervals[chosen.location] = (low_location, high_location)
    elif chosen.name == "shifted_exponential" and location > 0.0:  # there is no other shift where a delay is 0
        intervals["shift"] = (max(0.0, location - float(theta[0]) * math.log(20.0) / at_risk), location)
    elif chosen.name == "pareto":
        intervals["minimum"] = (location * 20.0 ** (-1.0 / (at_risk * float(theta[0]))), location)
    return intervals


def _curvature(function: Callable[[Array], float], at: Array, step: float = 1e-3) -> Array:
    n = len(at)
    hessian = np.empty((n, n))
    steps = step * np.eye(n)
    for i in range(n):
        for j in range(i + 1):
            a, b = steps[i], steps[j]
            mixed = function(at + a + b) - function(at + a - b) - function(at - a + b) + function(at - a - b)
            hessian[i, j] = hessian[j, i] = mixed / (4.0 * step * step)
    return hessian

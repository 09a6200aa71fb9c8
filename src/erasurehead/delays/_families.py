"""Families of distributions that delays are fitted to: density, survival function, and starting point of the search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from erasurehead._internal.arrays import Array
from erasurehead.delays._base import Delays
from erasurehead.delays._distributions import Exponential, LogNormal, Pareto, ShiftedExponential, Weibull
from erasurehead.errors import check_choice

_ROOT = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class DistributionFamily:
    """A family of distributions of positive times.

    Arguments:
        name: its name in `FAMILIES`.
        parameters: names of the positive parameters, in order.
        location: name of the parameter that is the smallest delay, or "" if the family has none.
        at_minimum: whether the likelihood rises with the location up to the smallest sample, which is then its
            maximum-likelihood value; otherwise the location is searched for.
        log_density: logarithm of the density, as a function of seconds, the positive parameters and the location.
        log_survival: logarithm of the probability of being slower, with the same arguments.
        start: positive parameters to begin from, given uncensored seconds above the location.
        model: builds the delay model from all parameters by name, a seed and the law.
    """

    name: str
    parameters: tuple[str, ...]
    location: str
    at_minimum: bool
    log_density: Callable[[Array, Array, float], Array]
    log_survival: Callable[[Array, Array, float], Array]
    start: Callable[[Array], tuple[float, ...]]
    model: Callable[..., Delays]

    @property
    def n_parameters(self) -> int:
        """Number of fitted parameters."""
        return len(self.parameters) + bool(self.location)

    def build(self, values: Mapping[str, float], seed: int, scale_with_load: bool) -> Delays:
        """Return the delay model with the fitted parameters."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fitted Pareto may have an infinite mean: its exponent says so
            return self.model(**values, seed=seed, scale_with_load=scale_with_load)


def _logs(seconds: Array, location: float) -> Array:
    # Below the location the density is 0, and the survival probability 1.
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(seconds - location, 0.0))


def _exponential_density(seconds: Array, theta: Array, location: float) -> Array:
    return np.where(seconds >= location, -np.log(theta[0]) - (seconds - location) / theta[0], -np.inf)


def _exponential_survival(seconds: Array, theta: Array, location: float) -> Array:
    return -np.maximum(seconds - location, 0.0) / theta[0]


def _weibull_density(seconds: Array, theta: Array, location: float) -> Array:
    scale, shape = theta
    z = _logs(seconds, location) - np.log(scale)
    return np.where(np.isfinite(z), np.log(shape / scale) + (shape - 1.0) * z - np.exp(shape * z), -np.inf)


def _weibull_survival(seconds: Array, theta: Array, location: float) -> Array:
    scale, shape = theta
    return -np.exp(shape * (_logs(seconds, location) - np.log(scale)))


def _lognormal_density(seconds: Array, theta: Array, location: float) -> Array:
    median, sigma = theta
    logs = _logs(seconds, location)
    z = (logs - np.log(median)) / sigma
    return np.where(np.isfinite(z), -0.5 * z * z - logs - np.log(sigma) - _ROOT, -np.inf)


def _lognormal_survival(seconds: Array, theta: Array, location: float) -> Array:
    median, sigma = theta
    z = (np.log(median) - _logs(seconds, location)) / sigma
    return np.asarray(special.log_ndtr(z), dtype=np.float64)


def _pareto_density(seconds: Array, theta: Array, location: float) -> Array:
    exponent = theta[0]
    with np.errstate(divide="ignore"):
        logs = np.log(seconds)
    density = np.log(exponent) + exponent * np.log(location) - (exponent + 1.0) * logs
    return np.where(seconds >= location, density, -np.inf)


def _pareto_survival(seconds: Array, theta: Array, location: float) -> Array:
    return -theta[0] * np.log(np.maximum(seconds / location, 1.0))


def _start_exponential(above: Array) -> tuple[float, ...]:
    return (float(above.mean()),)


def _start_weibull(above: Array) -> tuple[float, ...]:
    spread = float(np.std(np.log(above)))
    return float(above.mean()), min(20.0, 1.28 / max(spread, 1e-3))


def _start_lognormal(above: Array) -> tuple[float, ...]:
    logs = np.log(above)
    return float(np.exp(logs.mean())), max(1e-3, float(logs.std()))


def _start_pareto(above: Array) -> tuple[float, ...]:
    return (1.0 / max(1e-3, float(np.log(above / above.min()).mean())),)


def _families() -> Mapping[str, DistributionFamily]:
    exponential = (_exponential_density, _exponential_survival, _start_exponential)
    weibull = (_weibull_density, _weibull_survival, _start_weibull)
    lognormal = (_lognormal_density, _lognormal_survival, _start_lognormal)
    pareto = (_pareto_density, _pareto_survival, _start_pareto)
    families = (
        DistributionFamily("exponential", ("mean",), "", False, *exponential, Exponential),
        DistributionFamily("shifted_exponential", ("mean",), "shift", True, *exponential, ShiftedExponential),
        DistributionFamily("weibull", ("scale", "shape"), "", False, *weibull, Weibull),
        DistributionFamily("shifted_weibull", ("scale", "shape"), "shift", False, *weibull, Weibull),
        DistributionFamily("lognormal", ("median", "sigma"), "", False, *lognormal, LogNormal),
        DistributionFamily("shifted_lognormal", ("median", "sigma"), "shift", False, *lognormal, LogNormal),
        DistributionFamily("pareto", ("exponent",), "minimum", True, *pareto, Pareto),
    )
    return {family.name: family for family in families}


FAMILIES: Mapping[str, DistributionFamily] = _families()


def family(name: str) -> DistributionFamily:
    """Return a family by name."""
    check_choice("family", name, FAMILIES)
    return FAMILIES[name]

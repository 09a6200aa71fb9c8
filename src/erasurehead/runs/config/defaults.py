"""The default scheme and optimizer of a run, which are chosen together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead.datasets import NAMES
from erasurehead.schemes.text import default_scheme, is_adaptive, takes_old_gradients

if TYPE_CHECKING:
    from erasurehead.runs.config.sections import Config, OptimizerSection


_CLUSTERS = ("mpi", "ray")  # engines whose workers may be on machines that are slow at different times

MOST_STEPS = 5000
"""Default number of steps for an optimizer that ends by itself: those from few arrivals are short, and many."""


def chosen_scheme(config: Config) -> str:
    """Return the text of the scheme: the given one, or a default that fits the other settings."""
    if config.scheme is not None:
        return config.scheme
    if config.run.preset == "paper":
        return default_scheme(config.run.workers)
    delayed = config.data.source in NAMES or config.delays.model is not None
    if _finds_steps(config):
        # Without delays, workers on one machine are late together: computing everything three times gains nothing.
        return "adaptive()" if delayed or config.run.engine in _CLUSTERS else "adaptive(load=1)"
    return default_scheme(config.run.workers) if delayed else "uncoded()"


def chosen_optimizer(config: Config, scheme: str) -> OptimizerSection:
    """Return the optimizer's section with a name: the given one, or the default for the scheme.

    Arguments:
        config: the configuration as given.
        scheme: text of the scheme.
    """
    section = config.optimizer
    if section.name is not None:
        return section
    if config.run.preset is None and is_adaptive(scheme) and _finds_steps(config):
        name = "quasi_newton"
    else:  # momentum adds up the error of old gradients
        name = "gradient_descent" if takes_old_gradients(scheme) else "nesterov"
    return section.model_copy(update={"name": name})


def _finds_steps(config: Config) -> bool:
    """Whether no setting is given that an optimizer which finds its steps itself cannot use."""
    section = config.optimizer
    said = (section.rate, section.momentum, section.restart)
    return section.name in (None, "quasi_newton") and said == (None, None, None)

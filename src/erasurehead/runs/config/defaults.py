"""What a run takes where nothing is said: engine and number of workers, scheme and optimizer, number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from erasurehead.datasets import NAMES
from erasurehead.runs.config import parts
from erasurehead.schemes.text import default_scheme, is_adaptive, takes_old_gradients
from erasurehead.training.arguments import default_workers

if TYPE_CHECKING:
    from erasurehead.runs.config.sections import Config, OptimizerSection


_CLUSTERS = ("mpi", "ray")  # engines whose workers may be on machines that are slow at different times

STEPS = 100
"""Default number of steps for an optimizer that does not end by itself."""

MOST_STEPS = 5000
"""Default number of steps for an optimizer that ends by itself: those from few arrivals are short, and many."""


def settled(config: Config, schemes: Sequence[str] = ()) -> Config:
    """Return the configuration with an engine and a number of workers, chosen where nobody has said them.

    Arguments:
        config: the configuration as given.
        schemes: texts of schemes, beside that of the configuration, that must exist for this number of workers.

    Raises:
        InvalidArgument: if a key does not fit the engine.
        EngineError: if the engine is that of an MPI job or a Ray cluster, and this cannot be asked for its size.
    """
    run = config.run.model_copy(update={"engine": config.run.engine or "processes"})
    if not run.says("workers"):
        parts.check_engine_keys(run)
        texts = [*schemes, *([] if config.scheme is None else [config.scheme])]
        run = run.model_copy(update={"workers": _default_workers(config, run.engine, texts)})
    return config.model_copy(update={"run": run})


def _default_workers(config: Config, engine: str, schemes: Sequence[str]) -> int:
    named, model = config.data.source in NAMES, config.delays.model
    delayed = named if model is None else parts.build_delays(model).expected != 0.0
    published = config.run.preset == "paper" or (delayed and named)
    return default_workers(engine, schemes, delayed, published, config.run.address)


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


def chosen_steps(config: Config, optimizer: OptimizerSection) -> int:
    """Return the number of steps: the given one, or the default for the optimizer.

    Arguments:
        config: the configuration as given.
        optimizer: the optimizer's section, with a name.
    """
    return config.run.steps or (MOST_STEPS if optimizer.name == "quasi_newton" else STEPS)


def _finds_steps(config: Config) -> bool:
    """Whether no setting is given that an optimizer which finds its steps itself cannot use."""
    section = config.optimizer
    said = (section.rate, section.momentum, section.restart)
    return section.name in (None, "quasi_newton") and said == (None, None, None)

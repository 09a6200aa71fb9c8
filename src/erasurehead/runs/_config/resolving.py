"""A run file is resolved once: what it leaves open is chosen, and what it says is checked, before any data are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from erasurehead._internal.resources import check_memory
from erasurehead.datasets._published.public import NAMES
from erasurehead.datasets._sharded import is_sharded
from erasurehead.decoding._rounding import check_rounding
from erasurehead.delays import Delays
from erasurehead.errors import InvalidArgument, counted, invalid
from erasurehead.faults._byzantine.comparable import check_comparable
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems._families import FAMILIES, read_loss
from erasurehead.runs._config import parts
from erasurehead.runs._config.reachable import check_reachable
from erasurehead.runs._config.sections import Config, OptimizerSection, RunSection
from erasurehead.runs._names import check_free
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import (
    by_speed,
    deals_by_speed,
    default_scheme,
    gives_whole_gradients,
    parse_rate,
    takes_old_gradients,
    workers_of,
)
from erasurehead.training import _arguments as arguments
from erasurehead.training._arguments import default_workers
from erasurehead.training._stopping import Until

PUBLISHED_DELAYS = "exponential(mean=0.5, seed=0)"
"""The delays of the experiments in the ErasureHead paper, section 5."""

STEPS, MOST_STEPS = 100, 5000
"""Default number of steps: for an optimizer that does not end by itself, and for one that does: from few arrivals, its
steps are short, and many."""

_CLUSTERS = ("mpi", "ray")  # engines whose workers may be on machines that are slow at different times

_OF_WORKER: Mapping[str, float] = {"processes": 8e6, "virtual": 3e4}
"""The least memory of a worker by the engine, in bytes: a bare interpreter, or a row in tables."""

_INITIAL = ("zeros", "randn")

_OF_EVERY_MODEL = ("gap", "objective")
"""Metrics by which any run can end."""


@dataclass(frozen=True, eq=False)
class Resolved:
    """A configuration that fits together, with everything chosen that does not depend on the data.

    Attributes:
        asked: the configuration as given.
        config: the same with engine, workers, scheme, optimizer and number of steps.
        scheme: the scheme.
        delays: the delay model.
        initial: the folder of the run whose final model is the first one; None for zeros, or a random one.
    """

    asked: Config
    config: Config
    scheme: Scheme
    delays: Delays
    initial: Path | None

    def again(self, scheme: str | None = None, **run: Any) -> Resolved:
        """Return the same for another scheme, engine or number of workers, with what follows from that chosen anew.

        Arguments:
            scheme: text of the scheme, in place of that of the configuration.
            **run: engine and workers; those that are not given stay.

        Raises:
            InvalidArgument: if the text is not a scheme for so many workers.
        """
        settled = {"engine": self.config.run.engine, "workers": self.config.run.workers, **run}
        asked = self.asked.model_copy(update={"run": self.asked.run.model_copy(update=settled)})
        config = with_choices(asked, scheme)
        return replace(self, config=config, scheme=parse_scheme(config.scheme or "", config.run.workers))


def resolve(asked: Config, run: RunSection | None = None, *, resuming: bool = False, starting: bool = True) -> Resolved:
    """Choose what a configuration leaves open, and check everything in it that does not need the data.

    Arguments:
        asked: the configuration.
        run: its `[run]` with engine and workers, if they have been chosen; by default they are chosen here.
        resuming: whether the run is continued; the run of its first model then need not exist any more.
        starting: whether workers are going to be started, for which this machine must have the memory.

    Raises:
        InvalidArgument: if something does not fit; the error names the key.
        TooLarge: if this machine has no memory for so many workers.
        EngineError: if the engine is that of an MPI job or a Ray cluster, and this cannot be asked for its size.
    """
    config = filled_in(asked, run)
    run = config.run
    if starting:  # before anything is built for them
        hint = "use fewer workers (--workers)"
        if run.engine == "processes":
            hint += ", or a virtual clock (--engine virtual), which starts no processes"
        check_memory(f"A run of {counted('worker', run.workers)}", _OF_WORKER.get(run.engine, 0.0) * run.workers, hint)
    scheme = parse_scheme(config.scheme or "", run.workers)
    _check_engine_keys(run)
    parts.check_data_keys(config.data)
    parts.check_problem_keys(config.problem, is_sharded(config.data.source), config.problem.loss)
    _check_optimizer(config.optimizer)
    if run.until is not None:
        try:
            check_metric_name("until", Until.parse(run.until).metric, config, _OF_EVERY_MODEL)
        except InvalidArgument as error:
            raise error.about("run.until") from None
    delays = _delays(config)
    check_scheme(scheme, config, delays)
    if run.out is not None:
        check_free(run.out, run.overwrite)
    return Resolved(asked, config, scheme, delays, None if resuming else _initial_folder(run))


def filled_in(asked: Config, run: RunSection | None = None) -> Config:
    """Return a configuration with all that `resolve` chooses, which is not checked yet; arguments as there."""
    return with_choices(asked.model_copy(update={"run": run or settled(asked)}))


def settled(config: Config, schemes: Sequence[str] = ()) -> RunSection:
    """Return `[run]` with an engine and a number of workers, chosen where nobody has said them.

    Arguments:
        config: the configuration as given.
        schemes: texts of schemes, beside that of the configuration, that must exist for this number of workers.

    Raises:
        InvalidArgument: if a key does not fit the engine.
        EngineError: as for `resolve`.
    """
    run = config.run.model_copy(update={"engine": config.run.engine or "processes"})
    if run.says("workers"):
        return run
    _check_engine_keys(run)
    if (n_workers := workers_of(run.speeds)) is not None:
        return run.model_copy(update={"workers": n_workers})
    texts = [*schemes, *([] if config.scheme is None else [config.scheme])]
    delayed = _delays(config).expected != 0.0
    published = run.preset == "paper" or (delayed and config.data.source in NAMES)
    workers = default_workers(run.engine, texts, delayed, published, run.address)
    return run.model_copy(update={"workers": workers})


def _delays(config: Config) -> Delays:
    """Return the delays: by default those of the published experiments for the paper's data, and else none."""
    return parts.build_delays(config.delays.model or (PUBLISHED_DELAYS if config.data.source in NAMES else "none()"))


def with_choices(config: Config, scheme: str | None = None) -> Config:
    """Return a configuration with scheme, optimizer and number of steps, chosen where nobody has said them.

    Arguments:
        config: the configuration as given, with engine and workers, unless a scheme is given.
        scheme: text of the scheme, in place of that of the configuration.
    """
    run, optimizer, text = config.run, config.optimizer, scheme or config.scheme
    if run.speeds is not None:
        if scheme is None or deals_by_speed(scheme):  # of several schemes, those that can
            text = by_speed(text, run.speeds)
        run = run.model_copy(update={"speeds": None})
    finds_steps = optimizer.name in (None, "quasi_newton") and (
        (optimizer.rate, optimizer.momentum, optimizer.restart) == (None, None, None)
    )  # nothing is said that an optimizer which finds its steps itself cannot use
    if text is None:
        delayed = config.data.source in NAMES or config.delays.model is not None
        if run.preset != "paper" and finds_steps:
            # Without delays, workers on one machine are late together: computing everything three times gains nothing.
            text = "adaptive()" if delayed or run.engine in _CLUSTERS else "adaptive(load=1)"
        else:
            text = default_scheme(run.workers) if delayed or run.preset == "paper" else "uncoded()"
    if optimizer.name is None:
        if run.preset is None and gives_whole_gradients(text) and finds_steps:
            name = "quasi_newton"
        else:  # momentum adds up the error of old gradients
            name = "gradient_descent" if takes_old_gradients(text) else "nesterov"
        optimizer = optimizer.model_copy(update={"name": name})
    steps = run.steps or (MOST_STEPS if optimizer.name == "quasi_newton" else STEPS)
    return config.model_copy(
        update={"scheme": text, "optimizer": optimizer, "run": run.model_copy(update={"steps": steps})}
    )


def check_scheme(scheme: Scheme, config: Config, delays: Delays) -> None:
    """Raise if a scheme does not go with the other settings.

    Arguments:
        scheme: the scheme.
        config: the settings, with an optimizer's name and a number of steps.
        delays: the delay model.

    Raises:
        InvalidArgument: if so; the error names the key.
    """
    if config.optimizer.name == "quasi_newton":
        arguments.check_kinds(QuasiNewton, scheme)
    wire = parts.build_wire(config.run)
    if wire is not None:
        check_rounding(scheme.code, wire.rounding, given=("run.wire", str(wire)))
    if config.faults.policy().verify:
        check_comparable(scheme.decoder, scheme.rule)
    check_reachable(scheme, delays, config.delays, config.run.steps)
    scheme.check_late(config.delays.late)


def check_target(config: Config, metric: str) -> None:
    """Raise if a metric cannot be measured on test rows, whatever the data.

    Arguments:
        config: the configuration of a run.
        metric: such as `"auc"`.

    Raises:
        InvalidArgument: if so; the error names the metrics that can be.
    """
    own = config.data.source not in NAMES and not is_sharded(config.data.source)
    if not config.run.evaluate_every or (own and not config.data.test_fraction):
        what = "test rows" if config.run.evaluate_every else "evaluations"
        raise invalid("target", "must name a metric that is measured", metric, f"there are no {what}")
    check_metric_name("target", metric, config)


def check_metric_name(
    argument: str,
    metric: str,
    config: Config,
    besides: tuple[str, ...] = (),
    rule: str = "must name a metric that is measured",
) -> None:
    """Raise if a metric does not exist.

    Arguments:
        argument: the argument that names it, for errors.
        metric: such as `"auc"`.
        config: the configuration of a run; if it leaves the loss open, the metrics of all losses are allowed.
        besides: further metrics, in addition to those of test rows.
        rule: the rule that is violated, for errors.

    Raises:
        InvalidArgument: if so; the error names those that exist.
    """
    losses = [config.problem.loss] if config.problem.loss else ["logistic", "softmax", "least_squares", *FAMILIES]
    scores = [name for loss in losses for name in read_loss(loss).score_names]
    names = tuple(dict.fromkeys((*besides, *scores)))
    if metric not in names:
        raise invalid(argument, rule, metric, f"the metrics are {', '.join(names)}")


def _check_engine_keys(run: RunSection) -> None:
    """Raise if keys are given that do not fit the engine."""
    for key, engine in (("address", "ray"), ("start_limit", "mpi")):
        value = getattr(run, key)
        if value is not None and run.engine != engine:
            hint = f"leave it out, or take the engine {engine}"
            raise invalid(f"run.{key}", f"is for the engine {engine}, not for {run.engine}", value, hint)
    if run.address is not None and re.fullmatch(r"auto|[^/]+:\d+", run.address) is None:
        raise invalid("run.address", "must be HOST:PORT of the cluster's head, or 'auto'", run.address)


def _initial_folder(section: RunSection) -> Path | None:
    """Return the folder of the run whose final model is the first one; None if it is zeros, or drawn.

    Raises:
        InvalidArgument: if there is no such folder.
    """
    if section.initial in _INITIAL:
        return None
    folder = Path(section.initial).expanduser().absolute()
    if not folder.exists():
        raise invalid("run.initial", f"must be {', '.join(_INITIAL)} or the folder of a run", section.initial)
    return folder


def _check_optimizer(section: OptimizerSection) -> None:
    """Raise if the step size is not valid, or a setting is given that the optimizer does not use."""
    if section.rate is not None:
        parse_rate(section.rate)
        if section.name == "quasi_newton":
            rule = "must be left out for quasi_newton, which finds its steps itself"
            raise invalid("optimizer.rate", rule, section.rate)
    if section.momentum is not None and section.name != "heavy_ball":
        raise invalid("optimizer.momentum", "is for heavy_ball only", section.momentum)
    if section.restart and section.name != "nesterov":
        raise invalid("optimizer.restart", "is for nesterov only", section.restart)

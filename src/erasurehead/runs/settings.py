"""Checks whether the settings of a run fit together, as far as possible before its data are read."""

from __future__ import annotations

from collections.abc import Mapping

from erasurehead.datasets import NAMES
from erasurehead.datasets.sharded import is_sharded
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.faults.byzantine.comparable import check_comparable
from erasurehead.problems.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from erasurehead.runs.config import parts
from erasurehead.runs.config.defaults import chosen_optimizer, chosen_scheme, chosen_steps
from erasurehead.runs.config.sections import Config
from erasurehead.runs.names import check_free
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.text import parse_scheme
from erasurehead.training.stopping import Until

_SCORES: Mapping[str, tuple[str, ...]] = {
    loss.name: loss.score_names for loss in (LogisticLoss, SquaredLoss, SoftmaxLoss)
}
"""For each loss, the metrics that are measured on test rows."""

_OF_EVERY_MODEL = ("gap", "objective")
"""Metrics by which any run can end."""


def check_settings(config: Config, resuming: bool = False) -> Scheme:
    """Check everything in a configuration that does not need the data.

    Arguments:
        config: the configuration of a run, with engine and workers settled.
        resuming: whether the run is continued; the run of its first model then need not exist any more.

    Returns:
        The scheme.

    Raises:
        InvalidArgument: if something does not fit; the error names the key.
    """
    workers, run, text = config.run.workers, config.run, chosen_scheme(config)
    scheme = parse_scheme(text, workers)
    parts.check_engine_keys(run)
    parts.check_data_keys(config.data)
    parts.check_class_weight(config.problem, is_sharded(config.data.source), config.problem.loss)
    optimizer = chosen_optimizer(config, text)
    parts.check_optimizer(optimizer)
    parts.check_kinds(optimizer, scheme)
    parts.check_wire(scheme, run)
    _check_until(config)
    if config.faults.policy().verify:
        check_comparable(scheme.decoder, scheme.rule)
    if config.delays.model is not None:
        steps = chosen_steps(config, optimizer)
        parts.check_reachable(scheme, parts.build_delays(config.delays.model), config.delays, steps)
    scheme.check_late(config.delays.late)
    if run.out is not None:
        check_free(run.out, run.overwrite)
    if not resuming:
        parts.initial_folder(run)
    return scheme


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
    loss = config.problem.loss
    known = [name for of, names in _SCORES.items() if loss in (None, of) for name in names]
    if metric not in (*besides, *known):
        listed = ", ".join(dict.fromkeys((*besides, *known)))
        raise invalid(argument, rule, metric, f"the metrics are {listed}")


def _check_until(config: Config) -> None:
    if config.run.until is None:
        return
    try:
        metric = Until.parse(config.run.until).metric
        check_metric_name("until", metric, config, _OF_EVERY_MODEL)
    except InvalidArgument as error:
        raise error.about("run.until") from None

"""Checks of a plan's options that need no file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from erasurehead.cli.plan_costs import FREE
from erasurehead.delays.absences import ABSENT
from erasurehead.delays.bootstrap import KEEP
from erasurehead.errors import UNSAID, InvalidArgument, check_count, invalid
from erasurehead.planning.planner import check_effort
from erasurehead.planning.settings import default_settings
from erasurehead.planning.trainer import GAP
from erasurehead.runs.config import Config, build_config
from erasurehead.runs.config.defaults import settled
from erasurehead.runs.settings import check_metric_name, check_settings
from erasurehead.schemes.text import PAPER_WORKERS, parse_scheme

if TYPE_CHECKING:
    from erasurehead.cli.options import RunOptions
    from erasurehead.cli.plan_options import SearchOptions, SourceOptions
    from erasurehead.cli.traces import TraceOptions

_OF_ITS_ENGINE = ("out", "overwrite", "address", "start_patience", "start_limit")
"""Keys of `[run]` that do not apply to trials, which run on the virtual clock and write no folder."""


def check_options(source: SourceOptions, reading: TraceOptions, search: SearchOptions, options: RunOptions) -> None:
    """Check the options of a plan, one by one and in combination.

    Arguments:
        source, reading, search, options: options of the command.

    Raises:
        InvalidArgument: if an option is not valid; the error names it.
        TooLarge: if by estimate the plan would take longer than allowed.
    """
    _check_source(source, reading, options)
    spelled = options.spelled()
    of_data = {
        option: options.tables()["data"][key.removeprefix("data.")]
        for key, option in spelled.items()
        if key.startswith("data.") and key != "data.source"
    }
    _come_with("--data", options.data, {**of_data, "--sample": search.sample, "--repeats": search.repeats})
    for name, count in (("--sample", search.sample), ("--repeats", search.repeats), ("--max-load", search.max_load)):
        if count is not None:
            check_count(name, count)
    noise = search.task_noise
    if noise is not None and not 0.0 <= noise < math.inf:
        raise invalid("--task-noise", "must be finite and at least 0", noise)
    workers = PAPER_WORKERS if source.trace is None and options.workers is None else options.workers
    if workers is not None:
        load = FREE if search.max_load is None else min(FREE, search.max_load)
        least = search.scheme or default_settings(check_count("--workers", workers), load)
        check_effort(workers, len(least))
    check_settings(settled(_config(options, workers=options.workers or PAPER_WORKERS)))


def check_schemes(search: SearchOptions, n_workers: int) -> None:
    """Check the settings to try, and the one in use.

    Arguments:
        search: options of the command.
        n_workers: number of workers of the plan.

    Raises:
        InvalidArgument: if a text is not a scheme for this number of workers.
    """
    for text in search.scheme or ():
        parse_scheme(text, n_workers)
    if search.current is None:
        return
    try:
        parse_scheme(search.current, n_workers)
    except InvalidArgument as error:
        raise error.about("--current") from None


def check_metric(metric: str, options: RunOptions) -> None:
    """Check that trials can measure the metric of the target.

    Arguments:
        metric: name of the metric.
        options: options of the command, with data.

    Raises:
        InvalidArgument: if they cannot; the error names the metrics that they can measure.
    """
    check_metric_name("target", metric, _config(options), (GAP,), "must name a metric of the problem")


def trial_config(options: RunOptions, n_workers: int) -> Config:
    """Return the configuration of trials on the user's data: uncoded, without delays, on a virtual clock.

    Arguments:
        options: options of the command.
        n_workers: number of workers of the plan.
    """
    return _config(options, _OF_ITS_ENGINE, workers=n_workers, engine="virtual")


def _config(options: RunOptions, without: Sequence[str] = ("out", "overwrite"), **run: Any) -> Config:
    tables = options.tables()
    section = {key: value for key, value in tables.get("run", {}).items() if key not in without}
    settings: Mapping[str, Any] = {
        **tables,
        "scheme": "uncoded()",
        "delays": {"model": "none()"},
        "run": {**section, **run},
    }
    return build_config(settings)


def _check_source(source: SourceOptions, reading: TraceOptions, options: RunOptions) -> None:
    if (source.trace is None) == (options.delays is None):
        said = "Exactly one of --trace and --delays must be given."
        raise InvalidArgument("--trace", "must be given if --delays is not, and left out if it is", sentence=said)
    given = source.seconds_per_task
    if given is not None and not 0.0 <= given < math.inf:
        raise invalid("--seconds-per-task", "must be finite and at least 0", given)
    of_traces = {
        "--keep": source.keep,
        "--absent": source.absent,
        "--scale-with-load": source.scale_with_load or None,
        "--column": reading.column,
        "--where": reading.where,
        "--unit": reading.unit,
    }
    _come_with("--trace", source.trace, of_traces)
    _check_choice("--keep", source.keep, KEEP)
    _check_choice("--absent", source.absent, ABSENT)


def _check_choice(option: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise invalid(option, f"must be {', '.join(choices[:-1])} or {choices[-1]}", value)


def _come_with(other: str, value: object, given: Mapping[str, Any]) -> None:
    """Raise if options were given without another one that they require."""
    for option, said in given.items() if value is None else ():
        if said is not None:
            shown = UNSAID if isinstance(said, bool) else _typed(said)
            raise InvalidArgument(option, f"must come with {other}", shown)


def _typed(value: Any) -> Any:
    """Return the value of an option as the user would write it; several are joined by commas."""
    return ",".join(map(str, cast("Sequence[object]", value))) if isinstance(value, list | tuple) else value

"""What `erasurehead plan` is asked: its options are checked, and what they name is read, sampled and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from erasurehead._internal.documents import Entries
from erasurehead.cli._output import Screen
from erasurehead.cli._plan_options import FREE, PlanOptions
from erasurehead.delays import Delays, Trace
from erasurehead.delays._bootstrap import KEEP, Keep
from erasurehead.delays._unobserved import ABSENT, Absent, completed
from erasurehead.errors import (
    UNSAID,
    DataError,
    InvalidArgument,
    check_count,
    check_not_negative,
    check_size,
    counted,
    invalid,
)
from erasurehead.planning import measure_task
from erasurehead.planning._planner import check_effort
from erasurehead.planning._settings import default_settings
from erasurehead.planning._trace_delays import drawn_from, shorter_than_computing
from erasurehead.problems import Problem
from erasurehead.reports._units import seconds_text
from erasurehead.runs._config import Config, build_config, parts, read_config
from erasurehead.runs._config.resolving import resolve
from erasurehead.runs._names import CONFIG, RUNS, check_writable, next_free
from erasurehead.schemes import parse_scheme
from erasurehead.schemes._text import PAPER_WORKERS, by_speed

TRACE = "trace.csv"
"""Name of the trace file next to the run file, from which the run draws its delays."""

_SHORT = 0.01  # share of a trace's times that may be shorter than computing, as clocks are not exact


def check_options(asked: PlanOptions) -> None:
    """Check the options of a plan, one by one and in combination, before any file is read.

    Raises:
        InvalidArgument: if an option is not valid; the error names it.
        TooLarge: if by estimate the plan would take longer than allowed.
    """
    check_source(asked.trace, asked.delays)
    if asked.speeds is not None:
        hint = f'-s "{by_speed(None, asked.speeds)}" tries them'
        raise invalid("--speeds", "must be left out of a plan, which tries settings", asked.speeds, hint)
    _check_nonnegative("--seconds-per-task", asked.seconds_per_task)
    of_traces = {
        "--keep": asked.keep,
        "--absent": asked.absent,
        "--scale-with-load": asked.scale_with_load or None,
        "--column": asked.column,
        "--where": asked.where,
        "--unit": asked.unit,
    }
    come_with("--trace", asked.trace, of_traces)
    for option, value, choices in (("--keep", asked.keep, KEEP), ("--absent", asked.absent, ABSENT)):
        if value is not None and value not in choices:
            raise invalid(option, f"must be {', '.join(choices[:-1])} or {choices[-1]}", value)
    of_data = {
        option: asked.tables()["data"][key.removeprefix("data.")]
        for key, option in asked.spelled().items()
        if key.startswith("data.") and key != "data.source"
    }
    come_with("--data", asked.data, {**of_data, "--sample": asked.sample, "--repeats": asked.repeats})
    for name, count in (("--sample", asked.sample), ("--repeats", asked.repeats), ("--max-load", asked.max_load)):
        if count is not None:
            check_size(name, count)
    _check_nonnegative("--task-noise", asked.task_noise)
    workers = PAPER_WORKERS if asked.trace is None and asked.workers is None else asked.workers
    if workers is not None:
        load = FREE if asked.max_load is None else min(FREE, asked.max_load)
        least = asked.scheme or default_settings(check_count("--workers", workers), load)
        check_effort(workers, len(least))
    resolve(plan_config(asked, workers=asked.workers or PAPER_WORKERS), starting=False)


def check_source(trace: object, delays: object) -> None:
    """Raise if delays have no source, or two."""
    if (trace is None) == (delays is None):
        sentence = "Exactly one of --trace and --delays must be given."
        raise InvalidArgument("--trace", "must be given if --delays is not, and left out if it is", sentence=sentence)


def check_schemes(asked: PlanOptions, n_workers: int) -> None:
    """Check the settings to try, and the one in use, for the number of workers of the plan.

    Raises:
        InvalidArgument: if a text is not a scheme for this number of workers.
    """
    for text in asked.scheme or ():
        parse_scheme(text, n_workers)
    if asked.current is None:
        return
    try:
        parse_scheme(asked.current, n_workers)
    except InvalidArgument as error:
        raise error.about("--current") from None


def _check_nonnegative(option: str, value: float | None) -> None:
    if value is not None:
        check_not_negative(option, value, "must be finite and at least 0")


def come_with(other: str, value: object, given: Entries) -> None:
    """Raise if options were given without another one that they require."""
    for option, text in given.items() if value is None else ():
        if text is not None:
            raise InvalidArgument(
                option, f"must come with {other}", UNSAID if isinstance(text, bool) else _listed(text)
            )


def _listed(value: object) -> object:
    """Return a value of an option as it is written, lists and lists of lists with commas."""
    if not isinstance(value, list | tuple):
        return value
    return ",".join(str(_listed(item)) for item in cast("Sequence[object]", value))


def plan_config(asked: PlanOptions, without: Sequence[str] = ("out", "overwrite"), **run: Any) -> Config:
    """Return the configuration of a run as asked, but uncoded and without delays."""
    tables = asked.tables()
    section = {key: value for key, value in tables.get("run", {}).items() if key not in without}
    settings = {**tables, "scheme": "uncoded()", "delays": {"model": "none()"}, "run": {**section, **run}}
    return build_config(settings)


@dataclass(frozen=True)
class TaskCost:
    """The computing time of a task, where a task is the data of an uncoded worker.

    Arguments:
        seconds: seconds that each task of a worker's load adds.
        known_from: source of this number: the user (`"option"`), the run that recorded the trace (`"run"`), delays that
            grow with the load (`"delays"`), or a measurement on this machine (`"measured"`); None if it is not known.
        in_trace: seconds of computing per task that are included in a trace's times.
    """

    seconds: float = 0.0
    known_from: Literal["option", "run", "delays", "measured"] | None = None
    in_trace: float = 0.0


@dataclass(frozen=True, eq=False)
class Workers:
    """The workers of a plan, as the options describe them: how many, how slow, what they run now.

    Arguments:
        count: number of workers.
        described: their number in words, and where it is from if the user did not give it.
        delays: the delay model; None if there is a trace.
        trace: the trace; None if there is a delay model.
        config: configuration of the run that recorded the trace, if there is one.
    """

    count: int
    described: str
    delays: Delays | None = None
    trace: Trace | None = None
    config: Config | None = None

    @classmethod
    def named(cls, asked: PlanOptions) -> Workers:
        """Read and check the delay model or trace that the options name.

        Raises:
            DataError: if nothing can be drawn from the trace.
            InvalidArgument: if the trace has too few workers, or the model is not valid.
        """
        count, trace, default = asked.workers, None, " (as in the trace)"
        if asked.trace is None:
            delays = parts.build_delays(asked.delays)
            count, default = count or PAPER_WORKERS, "" if count else " (the default; see --workers)"
            if count < 2:
                hint = "with one worker there is nobody else to wait for"
                raise invalid("--workers", "must be at least 2", count, hint)
            return cls(count, f"{counted('worker', count)}{default}", delays)
        trace = asked.read(asked.trace)
        count, default = (trace.n_workers, default) if count is None else (count, "")
        check_drawable(trace, count, asked.keep or "rounds")
        completed(trace, cast("Absent", asked.absent or "censored"))  # raises if nothing can be drawn from it
        recorded_by = _recorded_by(Path(asked.trace).expanduser())
        return cls(count, f"{counted('worker', count)}{default}", None, trace, recorded_by)

    @property
    def current(self) -> str | None:
        """The scheme of the run that recorded the trace; None if that had another number of workers, or is unknown."""
        config = self.config
        return config.scheme if config is not None and config.run.workers == self.count else None

    def known_cost(self, asked: PlanOptions) -> TaskCost | None:
        """Return the cost of a task if it is known without a measurement, and None otherwise."""
        if asked.seconds_per_task is not None:
            return TaskCost(asked.seconds_per_task, "option", asked.seconds_per_task)
        if self._on_virtual_clock and self.config is not None and self.config.run.seconds_per_task > 0.0:
            took, before = self.config.run.seconds_per_task, self.config.run.workers
            return TaskCost(took * before / self.count, "run", took)  # for as many samples as a worker has here
        return TaskCost(known_from="delays") if asked.scale_with_load else None

    def measured_cost(self, problem: Problem, screen: Screen) -> TaskCost | None:
        """Measure the cost of a task on this machine; if the trace contradicts it, warn and return None.

        Arguments:
            problem: the problem with all of the user's data.
            screen: prints the warning.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            seconds = measure_task(problem, self.count)
        if self.trace is None or self._on_virtual_clock:  # whose times do not include computing
            return TaskCost(seconds, "measured")
        short = shorter_than_computing(self.trace, seconds)
        if short > _SHORT:
            screen.warn(
                f"{short:.1%} of the measured times are shorter than computing their tasks takes on this machine, "
                f"{seconds_text(seconds)} a task: how long those workers compute is not known (--seconds-per-task)."
            )
            return None
        return TaskCost(seconds, "measured", seconds)

    @property
    def _on_virtual_clock(self) -> bool:
        return self.config is not None and self.config.run.engine == "virtual"

    def drawn(
        self, asked: PlanOptions, cost: TaskCost, folder: Path, screen: Screen
    ) -> tuple[Delays, str, Trace | None]:
        """Return the delays of the plan, their description, and the trace from which they are drawn, if there is one.

        Arguments:
            asked: options of the command.
            cost: cost of computing a task.
            folder: folder in which the trace will be written.
            screen: prints warnings.
        """
        if self.trace is None:
            assert self.delays is not None
            return self.delays, f"{self.delays}, {self.described}", None
        if not cost.seconds and not self.trace.seconds.any():
            hint = "give the computing time of a task (--seconds-per-task)"
            raise invalid("--trace", "must have times above 0 if computing takes none", asked.trace, hint)
        drawn = drawn_from(
            self.trace,
            self.count,
            cast("Keep", asked.keep or "rounds"),
            cast("Absent", asked.absent or "censored"),
            cost.in_trace,
            scale_with_load=asked.scale_with_load,
            warn=screen.warn,
            source=str((folder / TRACE).absolute()),
        )
        text = f"{drawn.text}, {self.described}"
        if drawn.block > 1:
            text += f" ({drawn.block} successive rounds at a time, as they are alike)"
        return drawn.delays, text, drawn.trace


def check_drawable(trace: Trace, n_workers: int, keep: str, option: str = "--workers") -> None:
    """Raise if the delays of a trace cannot be drawn for this number of workers, which an option has."""
    hint = "--keep pooled draws for any number"
    if trace.n_workers == 1 and n_workers > 1 and keep != "pooled":
        raise invalid(option, "must be 1, as in the trace", n_workers, hint)
    if n_workers < 2:
        alone = f"one worker has nobody to wait for; {hint} from one worker's delays"
        raise invalid(option, "must be at least 2", n_workers, alone)
    if keep != "pooled" and n_workers > trace.n_workers:
        raise invalid(option, f"must be at most the {trace.n_workers} workers of the trace", n_workers, hint)


def _recorded_by(place: Path) -> Config | None:
    """Return the configuration of the run that recorded a trace; None if it is not that of a run."""
    file = (place if place.is_dir() else place.parent) / CONFIG
    if place.suffix not in ("", ".jsonl") or not file.is_file():
        return None
    try:
        return read_config(file)
    except (DataError, ValueError):
        return None


RUN_FILE = "run.toml"
"""Name of the run file of a plan."""


def folder(out: str | None, overwrite: bool) -> Path:
    """Return the folder for the files, and check it early, before anything takes time.

    Arguments:
        out: path of the folder; None for a new one in `runs`.
        overwrite: whether an earlier plan in the folder may be replaced.

    Raises:
        InvalidArgument: if it holds an earlier plan, or cannot be written to.
    """
    if out is None:
        return next_free(RUNS, "plan")
    place = Path(out).expanduser()
    if (place / RUN_FILE).exists() and not overwrite:
        raise invalid("--out", "must not hold an earlier plan", out, "add --overwrite to replace it")
    check_writable(place, "The folder")
    return place

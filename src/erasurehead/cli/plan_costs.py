"""The computing time of a task in a plan, and the source of this number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from erasurehead._internal.resources import check_seconds, usable_cores
from erasurehead.cli.screen import Screen
from erasurehead.planning import measure_task
from erasurehead.planning.trace_delays import shorter_than_computing
from erasurehead.problems.base import Problem
from erasurehead.reports.units import seconds_text

if TYPE_CHECKING:
    from erasurehead.delays import Trace
    from erasurehead.planning import Plan
    from erasurehead.runs.config import Config

FREE = 3
"""Largest load of the settings that are tried if the cost of a further task is not known."""

_SHORT = 0.01  # share of a trace's times that may be shorter than computing, as clocks are not exact
_MATTERS = 0.1  # share of a step from which the effect of shared cores is mentioned


_TRIED = 3
"""Number of settings after which it is foreseen how long all of them take."""

_LONG = 20.0
"""Seconds from which it is said how long a plan takes."""


def foreseen(what: str, progress: Callable[[int, int], None], screen: Screen) -> Callable[[int, int], None]:
    """Return the progress of a search that says after a few settings how long it takes, or that it takes too long.

    It raises `TooLarge` where it takes longer than allowed.

    Arguments:
        what: what takes that long, as the subject of a sentence.
        progress: called with the number of settings that are done, and how many there are.
        screen: prints how long it takes.
    """
    began = time.monotonic()

    def told(done: int, of: int) -> None:
        progress(done, of)
        if done == _TRIED and of > done:
            seconds = (time.monotonic() - began) / done * of
            check_seconds(what, seconds, "name the settings to try (--scheme), or plan for fewer workers (--workers)")
            if seconds > _LONG:
                screen.say(f"  it takes about {seconds_text(seconds)} ...")

    return told


@dataclass(frozen=True)
class Cost:
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


def known_cost(given: float | None, scale_with_load: bool, config: Config | None, n_workers: int) -> Cost | None:
    """Return the cost of a task if it is known without a measurement, and None otherwise.

    Arguments:
        given: seconds given by the user, if any.
        scale_with_load: whether measured times, including computing, grow with the load.
        config: configuration of the run that recorded the trace, if there is one.
        n_workers: number of workers of the plan.
    """
    if given is not None:
        return Cost(given, "option", given)
    if config is not None and config.run.engine == "virtual" and config.run.seconds_per_task > 0.0:
        took = config.run.seconds_per_task
        return Cost(took * config.run.workers / n_workers, "run", took)  # for as many samples as a worker has here
    return Cost(known_from="delays") if scale_with_load else None


def measured_cost(
    problem: Problem, n_workers: int, trace: Trace | None, config: Config | None, screen: Screen
) -> Cost | None:
    """Measure the cost of a task on this machine; if a trace contradicts it, warn and return None.

    Arguments:
        problem: the problem with all of the user's data.
        n_workers: number of workers of the plan.
        trace: trace from which delays are drawn, if there is one; its times include computing.
        config: configuration of the run that recorded the trace, if there is one; if it ran on the virtual clock, the
            times do not include computing.
        screen: prints the warning.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        seconds = measure_task(problem, n_workers)
    if trace is None or (config is not None and config.run.engine == "virtual"):
        return Cost(seconds, "measured")
    short = shorter_than_computing(trace, seconds)
    if short > _SHORT:
        screen.warn(
            f"{short:.1%} of the measured times are shorter than computing their tasks takes on this machine, "
            f"{seconds_text(seconds)} a task: how long those workers compute is not known (--seconds-per-task)."
        )
        return None
    return Cost(seconds, "measured", seconds)


def about_cost(cost: Cost, with_data: bool, limited: bool) -> tuple[str, ...]:
    """Return sentences on what a user should know about the cost that the plan assumes.

    Arguments:
        cost: cost of a task.
        with_data: whether there were data to measure it on.
        limited: whether larger loads would have been tried if the cost had been known.
    """
    if cost.known_from == "measured":
        said = f"A task takes {seconds_text(cost.seconds)} on this machine"
        return (f"{said} (--seconds-per-task {cost.seconds:g}; give another value if your workers differ).",)
    if cost.known_from is not None or not limited:
        return ()
    measured = "" if with_data else ", have it measured with --data"
    return (
        f"No setting with more than {FREE} tasks a worker was tried, because the computing time of a task is not "
        f"known: give it with --seconds-per-task{measured}, or try larger loads anyway with --max-load.",
    )


def on_shared_cores(plan: Plan) -> tuple[str, ...]:
    """Return a sentence if computing takes much longer than planned when processes share this machine's cores.

    Arguments:
        plan: the plan.
    """
    cores = usable_cores()
    alone = plan.seconds_per_task * plan.best.load
    together = alone * plan.n_workers / cores
    if plan.n_workers <= cores or together - alone <= _MATTERS * plan.best.seconds_per_step:
        return ()
    return (
        f"{plan.n_workers} processes of this machine share {cores} core{'' if cores == 1 else 's'}: computing a step "
        f"takes them {seconds_text(together)} together; the plan assumes {seconds_text(alone)}, as for workers with a "
        "core each.",
    )

"""What computing a further task costs the workers that are planned with, and how that is known."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

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
"""Most tasks a worker in the settings that are tried where nobody knows what a further task costs."""

_SHORT = 0.01  # share of a trace's times that may be shorter than computing, as clocks are not exact
_MATTERS = 0.1  # of a step: computing beside each other is worth a word


@dataclass(frozen=True)
class Cost:
    """What computing a task takes, where a task is what an uncoded worker has.

    Arguments:
        seconds: that each task of a worker's load adds.
        known_from: who says so: the user (`"option"`), the run that the trace is of (`"run"`), delays that grow with
            the load (`"delays"`), or a measurement on this machine (`"measured"`); None if nobody does.
        in_trace: the part of a trace's times that computing a task was.
    """

    seconds: float = 0.0
    known_from: Literal["option", "run", "delays", "measured"] | None = None
    in_trace: float = 0.0


def known_cost(given: float | None, scale_with_load: bool, config: Config | None, n_workers: int) -> Cost | None:
    """Return what is known of a task's cost before anything is measured; None if nothing is.

    Arguments:
        given: by the user.
        scale_with_load: whether measured times grow with the load, the computing that is part of them included.
        config: of the run that the trace is of, if it is one.
        n_workers: that the plan is for.
    """
    if given is not None:
        return Cost(given, "option", given)
    if config is not None and config.run.engine == "virtual" and config.run.seconds_per_task > 0.0:
        took = config.run.seconds_per_task
        return Cost(took * config.run.workers / n_workers, "run", took)  # of as many samples as a worker has here
    return Cost(known_from="delays") if scale_with_load else None


def measured_cost(
    problem: Problem, n_workers: int, trace: Trace | None, config: Config | None, screen: Screen
) -> Cost | None:
    """Return what a task takes on this machine, or None, having said so, where a trace contradicts it.

    Arguments:
        problem: of all the user's data.
        n_workers: that the plan is for.
        trace: that the delays are drawn from, if it is one; with whole step times, computing included.
        config: of the run that the trace is of, if it is one: on the virtual clock computing took it no time.
        screen: to print on.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        seconds = measure_task(problem, n_workers)
    if trace is None or (config is not None and config.run.engine == "virtual"):
        return Cost(seconds, "measured")
    short = shorter_than_computing(trace, seconds)
    if short > _SHORT:
        screen.warn(
            f"{short:.1%} of the measured times are shorter than computing their tasks takes on this machine, "
            f"{seconds_text(seconds)} a task: what it takes those workers is not known (--seconds-per-task)."
        )
        return None
    return Cost(seconds, "measured", seconds)


def about_cost(cost: Cost, with_data: bool, limited: bool) -> tuple[str, ...]:
    """Return what a person should know of the cost that was planned with, as sentences.

    Arguments:
        cost: of a task.
        with_data: whether there were data to measure it on.
        limited: whether larger loads would have been tried, had it been known.
    """
    if cost.known_from == "measured":
        said = f"A task takes {seconds_text(cost.seconds)} on this machine"
        return (f"{said} (--seconds-per-task {cost.seconds:g}; say it if your workers are different).",)
    if cost.known_from is not None or not limited:
        return ()
    measured = "" if with_data else ", --data has it measured"
    return (
        f"No setting with more than {FREE} tasks a worker was tried, as nobody said what computing a further one "
        f"takes: --seconds-per-task says it{measured}, and --max-load has them tried all the same.",
    )


def on_shared_cores(plan: Plan) -> tuple[str, ...]:
    """Return a sentence if computing takes processes that share this machine's cores much longer than was planned."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    alone = plan.seconds_per_task * plan.best.load
    together = alone * plan.n_workers / cores
    if plan.n_workers <= cores or together - alone <= _MATTERS * plan.best.seconds_per_step:
        return ()
    return (
        f"{plan.n_workers} processes of this machine share {cores} core{'' if cores == 1 else 's'}: computing a step "
        f"takes them {seconds_text(together)} together, where the plan has {seconds_text(alone)} for workers with a "
        "core each.",
    )

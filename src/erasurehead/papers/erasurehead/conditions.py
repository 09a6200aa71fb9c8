"""The conditions to state for every training run: data, delays, what late workers do, what computing costs."""

from __future__ import annotations

from erasurehead.papers.erasurehead.bench import Bench
from erasurehead.papers.erasurehead.published import DELAYS_MEAN, N_WORKERS, TITLES
from erasurehead.reports.units import seconds_text


def conditions(bench: Bench, delayed: bool, seeds: int = 1) -> list[str]:
    """Return the conditions of a data set's runs, one sentence each."""
    settings = bench.settings
    virtual = settings.engine == "virtual"
    which = "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1}"
    if delayed:
        injected = (
            f"Delays: each message exponential with mean {DELAYS_MEAN:g} s, whatever the load, {which}; the same for "
            "all methods."
        )
    elif virtual:
        injected = (
            "Delays: none injected; the only stragglers are those among the task times measured here, which are more "
            "the busier the machine is. For real ones: --engine processes."
        )
    else:
        injected = f"Delays: none injected; {N_WORKERS} processes share this machine's cores."
    return [
        bench.described,
        injected,
        "Late work is dropped when the next step begins (preempt): each step finds idle workers, as the paper assumes.",
        f"{N_WORKERS} workers, {settings.engine} engine, {settings.steps} steps of the published accelerated gradient "
        "descent with the step sizes of Table 1; ErasureHead's sum is not rescaled (Algorithm 1).",
        *([_computing(bench, delayed, which)] if virtual else []),
    ]


def _computing(bench: Bench, delayed: bool, which: str) -> str:
    """Return what a task costs on the virtual clock."""
    title, tasks = TITLES[bench.name], bench.tasks
    cost = seconds_text(bench.seconds_per_task(delayed))
    if delayed:
        return f"Computing, {title}: c x {cost} a step, the median of all tasks measured on this machine."
    most = seconds_text(float(tasks.table.max() - tasks.fastest))
    typical = seconds_text(tasks.typical - tasks.fastest)
    return (
        f"Computing, {title}: c x {cost} a step, the quickest task measured on this machine, and for each message one "
        f"of the measured excesses over it (median {typical}, largest {most}, {which}); sending costs nothing."
    )

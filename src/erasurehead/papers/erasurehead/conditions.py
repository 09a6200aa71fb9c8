"""What has to be said of every training run: data, delays, what late workers do, what computing costs."""

from __future__ import annotations

from erasurehead.papers.erasurehead.bench import Bench
from erasurehead.papers.erasurehead.published import DELAYS_MEAN, N_WORKERS, TITLES
from erasurehead.progress import seconds_text


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
        injected = f"Delays: none injected; only this machine's own jitter, as measured, {which}."
    else:
        injected = "Delays: none injected; 30 processes share this machine's cores."
    return [
        bench.described,
        injected,
        "Late work is dropped when the next step begins (preempt): every step finds idle workers, as the paper assumes.",
        f"{N_WORKERS} workers, {settings.engine} engine, {settings.steps} steps of the published accelerated gradient "
        "descent, step sizes of Table 1; ErasureHead's sum is not rescaled (Algorithm 1).",
        *([_computing(bench, delayed)] if virtual else []),
    ]


def _computing(bench: Bench, delayed: bool) -> str:
    """Return what a task costs on the virtual clock."""
    title, tasks = TITLES[bench.name], bench.tasks
    cost = seconds_text(bench.seconds_per_task(delayed))
    if delayed:
        return f"Computing on {title}: c x {cost} a step, the median over tasks measured on this machine."
    most = seconds_text(float(tasks.table.max() - tasks.fastest))
    typical = seconds_text(tasks.typical - tasks.fastest)
    return (
        f"Computing on {title}: c x {cost} a step, the quickest measured on this machine, plus one measured excess a "
        f"message (median {typical}, largest {most}). Sending costs nothing on the virtual clock."
    )

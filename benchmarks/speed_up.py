"""Time to test AUC 0.84 on the Amazon data, from a zero model, on thirty real processes with delays of mean 0.5 s.

How many steps each scheme needs is found beforehand on the virtual clock; the real runs then take that many, and the
time at which they reach the target is read off their own evaluations.
"""

from __future__ import annotations

import statistics

from amazon import WORKERS, erasurehead, run
from common import report
from erasurehead import schemes
from erasurehead._internal.late_work import LateWork

REPETITIONS = 3
TARGET = 0.84
SIDES = {
    "uncoded": schemes.uncoded(WORKERS),
    "exact load 2": schemes.exact(WORKERS, load=2),
    "exact load 3": schemes.exact(WORKERS, load=3),
    "erasurehead load 3 first 11": erasurehead(),
}


def steps_needed(scheme: schemes.Scheme, late: LateWork) -> int:
    """Return the first step after which the target is reached on the virtual clock."""
    reached = [
        e.step
        for e in run(scheme, 100, "virtual", late=late, evaluate_every=1).evaluations
        if e.metrics["auc"] >= TARGET
    ]
    if not reached:
        raise SystemExit(f"{scheme.name} does not reach AUC {TARGET} within 100 steps")
    return reached[0]


def measure(late: LateWork, repetitions: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the medians of the time to the target, and of the time per step."""
    steps = {name: steps_needed(scheme, late) for name, scheme in SIDES.items()}
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    per_step: dict[str, list[float]] = {name: [] for name in SIDES}
    for repetition in range(repetitions):
        for name, scheme in SIDES.items():
            done = run(scheme, steps[name], late=late, evaluate_every=1)
            seconds = done.time_to("auc", TARGET)
            if seconds is None:  # real arrivals may differ from the virtual ones within the machine's noise
                seconds = run(scheme, steps[name] + 10, late=late, evaluate_every=1).time_to("auc", TARGET)
            assert seconds is not None
            times[name].append(seconds)
            per_step[name].append(done.seconds_per_step)
            print(
                f"{late} {repetition} {name:<28} {steps[name]:3d} steps, {done.seconds_per_step:6.3f} s a step, "
                f"AUC {TARGET} after {seconds:7.2f} s",
                flush=True,
            )
    return _medians(times), _medians(per_step)


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Measure and report."""
    ratios: dict[str, float] = {}
    plan: list[tuple[LateWork, int]] = [("preempt", REPETITIONS), ("carry", 1)]
    for late, repetitions in plan:
        times, per_step = measure(late, repetitions)
        ours = "erasurehead load 3 first 11"
        tag = "" if late == "preempt" else "carry_"
        ratios[f"{tag}time_to_target_uncoded_over_erasurehead"] = times["uncoded"] / times[ours]
        ratios[f"{tag}time_to_target_exact_over_erasurehead"] = times["exact load 3"] / times[ours]
        ratios[f"{tag}step_exact_load_2_over_erasurehead"] = per_step["exact load 2"] / per_step[ours]
    report(
        "speed_up",
        ratios,
        {
            "time_to_target_uncoded_over_erasurehead": ">= 6",
            "time_to_target_exact_over_erasurehead": ">= 1.5",
            "step_exact_load_2_over_erasurehead": ">= 3",
        },
    )


if __name__ == "__main__":
    main()

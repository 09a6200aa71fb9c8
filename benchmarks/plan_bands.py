"""How far off seconds per step are that a plan forecasts, and how often its 95% bands hold the true mean.

Each situation of `benchmarks/plan_truth.py` with 12 workers draws fresh traces of 200 rounds. From each, five fixed
settings are forecast as `erasurehead plan --trace` does: what came before a drift is left out, and rounds are drawn in
blocks. A situation is excused where the tests that a plan makes say of nine traces in ten that means do not settle:
drift, or a tail whose variance has no end.
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import numpy as np

from common import report
from erasurehead import delays
from erasurehead._internal.late_work import LateWork
from erasurehead.delays._stationarity import block_length, drift
from erasurehead.planning import forecast
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._simulation import Timing, stop_times
from erasurehead.schemes import parse_scheme
from truth import ROUNDS, STEPS, Situation, replayed, situations

SETTINGS = (
    "uncoded()",
    "ignore_stragglers(wait_for=8)",
    "exact(load=3)",
    "erasurehead(load=2, wait_for=5)",
    "erasurehead(load=3, wait_for=5)",
)
TASK, LONG, SIMULATED = 0.02, 20_000, 1000


def true_means(situation: Situation, late: LateWork) -> dict[str, float]:
    """Return the mean seconds of a step of each setting, over rounds that no plan has seen."""
    found: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    drifting = situation.family == "drift"  # how far it goes, hangs on how long a trace is
    many, long = (40, ROUNDS + STEPS) if drifting else (10 if late == "preempt" else 2, LONG)
    for replay in range(many):
        rows = replayed(situation.rounds(100_000 + replay, long)[ROUNDS:])
        for setting in SETTINGS:
            scheme = parse_scheme(setting, situation.workers)
            if late == "preempt":
                seconds = stop_times(Timing(scheme.decoder, scheme.rule, rows, TASK), long - ROUNDS)
            else:
                steps = simulate_with_memory(Timing(scheme.decoder, scheme.rule, rows, TASK, late=late), long - ROUNDS)
                seconds = steps.seconds
            found[setting].append(float(seconds.mean()))
    return {setting: statistics.fmean(means) for setting, means in found.items()}


def forecasts(table: np.ndarray, workers: int, late: LateWork) -> tuple[bool, dict[str, tuple[float, float]]]:
    """Return whether a plan says of a trace that means do not settle, and each setting's mean and standard error."""
    moved = drift(table)
    model = delays.Bootstrap(table if moved is None else table[moved.since :])
    model = delays.Bootstrap(model.table, block=min(block_length(model.table), len(model.table)))
    found = {setting: forecast(setting, workers, model, TASK, None, SIMULATED, late) for setting in SETTINGS}
    excused = moved is not None or model.tail_index < 2.0
    return excused, {setting: (item.seconds_per_step, item.error) for setting, item in found.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=200, help="fresh ones of each situation")
    parser.add_argument("--only", default="", help="situations with this in their names")
    parser.add_argument("--late", choices=["preempt", "carry"], default=None, help="one kind of late work")
    options = parser.parse_args()
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for late, most in (("preempt", "<= 0.03"), ("carry", "<= 0.06")):
        if options.late not in (None, late):
            continue
        errors: list[float] = []
        shares: dict[str, float] = {}
        excused: list[str] = []
        for situation in situations():
            if situation.workers != 12 or options.only not in situation.name:
                continue
            true = true_means(situation, late)
            known = {setting: mean for setting, mean in true.items() if np.isfinite(mean)}
            _, oracle = forecasts(situation.rounds(0, 4000), situation.workers, late)
            made = [forecasts(situation.rounds(n + 1, ROUNDS), situation.workers, late) for n in range(options.traces)]
            held, off = [], []
            for setting, mean in known.items():
                floor = abs(oracle[setting][0] / mean - 1.0)
                for _, one in made:
                    middle, error = one[setting]
                    if not np.isfinite(middle):
                        continue
                    held.append(abs(middle - mean) <= 1.96 * error)
                    off.append(max(0.0, abs(middle / mean - 1.0) - floor))
            if not held:  # workers that fail for good, while late work is carried on: no step ends any more
                print(f"{situation.name}, {late}: no setting has a mean", flush=True)
                continue
            said = statistics.fmean(doubt for doubt, _ in made)
            share, wrong = statistics.fmean(held), statistics.median(off)
            name = f"{situation.name}, {late}"
            print(
                f"{name:<60} bands hold {share:.1%}, median error {wrong:.2%}, means said not to settle {said:.0%}",
                flush=True,
            )
            if said >= 0.9:
                excused.append(name)
            else:
                errors += off
                shares[name] = share
        ratios[f"situations excused, {late}"] = len(excused)
        targets[f"situations excused, {late}"] = "<= 2"
        if not shares:
            continue
        ratios[f"median error of seconds per step over the oracle's, {late}"] = statistics.median(errors)
        targets[f"median error of seconds per step over the oracle's, {late}"] = most
        ratios[f"least share of bands that hold, {late}"] = min(shares.values())
        targets[f"least share of bands that hold, {late}"] = ">= 0.90"
        ratios[f"median share of bands that hold, {late}"] = statistics.median(shares.values())
    report("plan_bands", ratios, targets)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main()

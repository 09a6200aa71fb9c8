"""Is the planner right? Its advice against the best choice there was, and its times against real processes.

`--truth` makes the table of what every choice takes in every situation (`plan_truth.json`), goes on where it stopped,
and ends after `--minutes`; `--only WORD` makes the rows with the word in their names. Without it, a random 3% of the
table is made again and compared, each row's advice is judged, and thirty processes replay the other half of traces:
two real ones where they are there (set ERASUREHEAD_DATA to the folder that holds `traces/aws_lambda`), and two
synthetic ones; `--virtual` replays them on the virtual clock, in seconds, `--advice` leaves them out, and
`--quick` races nothing either. Times are divided by ten, so that a stall of half a minute does not take that long.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from common import report
from erasurehead import delays, engines, optimizers, problems, training
from erasurehead.delays.stationarity import block_length, drift
from erasurehead.engines import LateWork
from erasurehead.planning import Forecast, Plan, after, measured_accuracy, plan, race
from erasurehead.schemes.text import parse_scheme
from truth import (
    DATA,
    GAPS,
    REPLAYS,
    ROUNDS,
    STEPS,
    Situation,
    choices,
    key,
    problem,
    rate,
    sampled,
    situations,
    times_of,
    trainer,
)

WORKERS, REPLAYED, SCALE = 30, 40, 0.1
SETTINGS = (
    "uncoded()",
    "ignore_stragglers(wait_for=24)",
    "exact(load=3)",
    "erasurehead(load=2, wait_for=11)",
    "erasurehead(load=3, wait_for=11)",
)
SECONDS_PER_TASK = 0.0
TASK = 0.02
TABLE = Path(__file__).with_name("plan_truth.json")
_SLOWER = 3.0  # a choice that takes so many times the best of its replays is none for the advice


def recorded() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each trace with its rounds of 30 workers, shape (rounds, 30)."""
    data = Path(os.environ.get("ERASUREHEAD_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
    columns = {"step": "round", "seconds": "latency_s"}
    files = {"desktop_long": ("Canada", 0.0), "mbp": ("London", 0.0)}
    for path in sorted((data / "traces" / "aws_lambda").glob("*.csv.gz")):
        region, load = next(block for name, block in files.items() if name in path.name)
        table = delays.read_trace(path, columns, {"region": region, "load": load}).table()
        # 256 workers are eight sets of 30; each set's rounds are rounds of their own.
        sets = [table[:, low : low + WORKERS] for low in range(0, table.shape[1] - WORKERS + 1, WORKERS)]
        yield path.name.removesuffix(".csv.gz"), SCALE * np.stack(sets, axis=1).reshape(-1, WORKERS)
    yield "exponential", delays.Exponential(SCALE, seed=5).rows(0, 240, WORKERS)
    usual, slow = delays.ShiftedExponential(0.5 * SCALE, 0.1 * SCALE, seed=6), delays.Exponential(3 * SCALE, seed=6)
    yield "markov", delays.MarkovModulated(0.02, 0.2, usual, slow, seed=7).rows(0, 240, WORKERS)


def measured(setting: str, rows: np.ndarray, late: LateWork, virtual: bool) -> tuple[float, float]:
    """Replay rounds, and return seconds per step and the mean share of the gradient that was missing."""
    replay = delays.Fixed(tuple(map(tuple, rows.tolist())))
    engine = engines.VirtualEngine(replay, late) if virtual else engines.ProcessEngine(replay, late)
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((300, 4)), rng.standard_normal(300))
    optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
    run = training.train(problem, parse_scheme(setting, WORKERS), optimizer, engine, REPLAYED, evaluate_every=0)
    return run.seconds_per_step, float(np.mean([row.residual for row in run.steps])) / WORKERS


def rows() -> dict[str, tuple[Situation, str, LateWork]]:
    """Return all rows of the table, by name: 30 workers meet one data set, as they take longest."""
    found: dict[str, tuple[Situation, str, LateWork]] = {}
    for data in DATA:
        for situation in situations():
            for late in ("preempt", "carry"):
                if situation.workers == 12 or data == DATA[0]:
                    found[key(situation, data, late)] = situation, data, late
    return found


def truth_of(situation: Situation, data: str, late: LateWork) -> dict[str, list[list[float | None]]]:
    """Return what each choice takes to each gap in each replay, in seconds; None where it is never reached."""
    of = trainer(problem(data))
    best = [[math.inf] * len(GAPS) for _ in range(REPLAYS)]
    found: dict[str, list[list[float]]] = {}
    for setting in choices(situation.workers):
        found[setting] = []
        for replay in range(REPLAYS):
            most = [_SLOWER * seconds for seconds in best[replay]]
            times = times_of(setting, situation, late, of, replay + 1, most)
            best[replay] = [min(one, other) for one, other in zip(best[replay], times, strict=True)]
            found[setting].append(times)
    return {
        setting: [[float(f"{seconds:.6g}") if math.isfinite(seconds) else None for seconds in times] for times in runs]
        for setting, runs in found.items()
    }


def make_truth(minutes: float, only: str) -> None:
    """Make rows that are not there yet, until the time is over."""
    begin = time.monotonic()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {"rows": {}}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    command = f"python benchmarks/plan_truth.py --truth --minutes {minutes:g}" + f" --only '{only}'" * bool(only)
    for name, (situation, data, late) in rows().items():
        if name in table["rows"] or only not in name:
            continue
        if time.monotonic() - begin > 60.0 * minutes:
            print("time is over; --truth again goes on")
            break
        made = truth_of(situation, data, late)
        table["rows"][name] = {
            "seed": situation.seed, "commit": commit.stdout.strip(), "command": command, "seconds": made
        }  # fmt: skip
        TABLE.write_text(json.dumps(table, indent=None, separators=(",", ":")).replace('"rows":{', '"rows":{\n')
                         .replace("]]},", "]]},\n").replace('}},"', '}},\n"'))  # fmt: skip
        print(f"{time.monotonic() - begin:6.0f} s  {name}: {len(made)} choices", flush=True)


def medians(runs: list[list[float | None]], gap: int, half: int) -> float:
    """Return the median seconds to a gap over one half of the replays."""
    times = sorted(math.inf if run[gap] is None else float(run[gap] or 0.0) for run in runs[half::2])
    return times[(len(times) - 1) // 2]


def planned(situation: Situation, data: str, late: LateWork, known: bool) -> Plan:
    """Return the plan that sees the first half of a trace, or knows the law: it draws from 4,000 fresh rounds of it."""
    table = situation.rounds(0, 4000 if known else ROUNDS)
    if not known:
        moved = drift(table)
        table = table if moved is None else table[moved.since :]
    model = delays.Bootstrap(table, block=min(block_length(table), len(table)))
    return plan(model, situation.workers, TASK, choices(situation.workers), late=late)


def advice(found: Plan, data: str, gap: float, raced: bool) -> Forecast:
    """Return what a plan advises.

    Arguments:
        found: the plan.
        data: of the row.
        gap: the depth of the target.
        raced: whether it has the data to race settings on.
    """
    one = problem(data)
    size = rate(one)

    def descent() -> optimizers.Nesterov:
        return optimizers.Nesterov(one.initial(), size)

    found = found.for_accuracy(measured_accuracy(one, descent, found.n_workers, gap, STEPS))
    if not raced:
        return found.best
    trials = race(found, one, descent, ("gap", gap), STEPS, 3)
    return after(found, trials).best


def judge(name: str, made: dict[str, list[list[float | None]]], quick: bool) -> list[tuple[str, bool, float]]:
    """Print the regret of one row, and return kind of advice, whether the row was drawn, and regret over the oracle."""
    situation, data, late = rows()[name]
    found: list[tuple[str, bool, float]] = []
    plans = {known: planned(situation, data, late, known) for known in (True, False)}
    for place, gap in enumerate(GAPS):
        best = min(made, key=lambda setting: medians(made[setting], place, 0))
        least = medians(made[best], place, 1)
        if not math.isfinite(least):
            continue
        regrets: dict[str, float] = {}
        for kind, known, raced in (
            ("oracle, data", True, True), ("data", False, True), ("oracle, trace", True, False), ("trace", False, False)
        ):  # fmt: skip
            if raced and quick:
                continue
            chosen = advice(plans[known], data, gap, raced)
            regrets[kind] = medians(made[chosen.setting], place, 1) / least
            if kind in ("data", "trace"):
                floor = regrets[f"oracle, {kind}"]  # an oracle that misses the target excuses nothing
                over = regrets[kind] / floor if math.isfinite(floor) else regrets[kind]
                found.append((kind, situation.drawn, max(over, 1.0)))
        said = ", ".join(f"{kind} {regret:.2f}" for kind, regret in regrets.items())
        print(f"{name:<56} gap {gap:<6g} best {best:<32} regret: {said}", flush=True)
    return found


def judged(
    made: dict[str, dict[str, dict[str, list[list[float | None]]]]], quick: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """Judge all rows of the table, and check a random part of it; quickly, from traces alone and without the check."""
    again = [] if quick else sampled(list(made), int(time.time()), 0.03)
    for name in again:
        if truth_of(*rows()[name]) != made[name]["seconds"]:
            raise SystemExit(f"{name}: the table says otherwise; remake it (--truth).")
        print(f"made again, and equal: {name}")
    regrets = [item for name, row in made.items() for item in judge(name, row["seconds"], quick)]
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for kind, middle, worst in (("data", "<= 1.05", "<= 1.30"), ("trace", "<= 1.20", "<= 2.00")):
        for drawn in (False, True):
            own = [regret for one, of, regret in regrets if one == kind and of == drawn]
            if own:
                said = f"regret over the oracle, {kind}{', drawn rows' * drawn}"
                ratios[f"{said}, median"], targets[f"{said}, median"] = statistics.median(own), middle
                ratios[f"{said}, worst"], targets[f"{said}, worst"] = max(own), worst
    return ratios, targets


def replayed_by_processes(virtual: bool) -> tuple[dict[str, float], dict[str, str]]:
    """Plan from one half of a trace, replay the other half with 30 workers, and compare times per step."""
    errors: list[float] = []
    right: list[bool] = []
    for name, table in recorded():
        half = len(table) // 2
        for late in ("preempt", "carry"):
            found = plan(delays.Bootstrap(table[:half]), WORKERS, SECONDS_PER_TASK, SETTINGS, late=late, steps=400)
            true: dict[str, float] = {}
            for item in found.ranked:
                seconds, _ = measured(item.setting, table[half : half + REPLAYED], late, virtual)
                true[item.setting] = seconds * item.steps
                errors.append(abs(item.seconds_per_step / seconds - 1.0))
                print(
                    f"{name:<38} {late:<8} {item.setting:<34} predicted {item.seconds_per_step:.4f} s "
                    f"(+- {1.96 * item.error:.4f}), measured {seconds:.4f} s"
                )
            best = min(true, key=lambda setting: true[setting])
            right.append(best in [item.setting for item in found.ranked[:2]])
    return {
        "median error of time per step": statistics.median(errors),
        "true best within the planner's top two": sum(right) / len(right),
    }, {"median error of time per step": "<= 0.10", "true best within the planner's top two": ">= 1.00"}


def main() -> None:
    """Make the truth, or judge plans by it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", action="store_true", help="make the table, or go on with it")
    parser.add_argument("--minutes", type=float, default=180.0, help="after which --truth begins no row any more")
    parser.add_argument("--only", default="", help="rows with this in their names")
    parser.add_argument("--virtual", action="store_true", help="replay on the virtual clock instead of processes")
    parser.add_argument("--advice", action="store_true", help="judge advice only, and replay nothing")
    parser.add_argument("--quick", action="store_true", help="as --advice, of traces alone, with no row made again")
    options = parser.parse_args()
    if options.truth:
        make_truth(options.minutes, options.only)
        return
    made = json.loads(TABLE.read_text())["rows"] if TABLE.exists() else {}
    ratios, targets = judged({name: row for name, row in made.items() if options.only in name}, options.quick)
    if not (options.advice or options.quick):
        more, further = replayed_by_processes(options.virtual)
        ratios, targets = {**ratios, **more}, {**targets, **further}
    report("plan_truth", ratios, targets)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main()

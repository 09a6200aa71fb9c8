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
import contextlib
import io
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from advice import Judgement, Runs, judge
from common import report
from erasurehead import delays, engines, optimizers, problems, training
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import _sometimes_slow
from erasurehead.planning import plan
from erasurehead.schemes import parse_scheme
from truth import (
    DATA,
    GAPS,
    REPLAYS,
    Situation,
    choices,
    key,
    problem,
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
TABLE = Path(__file__).with_name("plan_truth.json")
_SLOWER = 3.0  # a choice that takes so many times the best of its replays is none for the advice


def recorded() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each trace with its rounds of 30 workers, shape (rounds, 30)."""
    data = Path(os.environ.get("ERASUREHEAD_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
    columns = {"step": "round", "seconds": "latency_s"}
    files = {"desktop_long": ("Canada", 0.0), "mbp": ("London", 0.0)}
    for path in sorted((data / "traces" / "aws_lambda").glob("*.csv.gz")):
        region, load = next(block for name, block in files.items() if name in path.name)
        table = delays.Trace.read(path, columns, {"region": region, "load": load}).table()
        # 256 workers are eight sets of 30; each set's rounds are rounds of their own.
        sets = [table[:, low : low + WORKERS] for low in range(0, table.shape[1] - WORKERS + 1, WORKERS)]
        yield path.name.removesuffix(".csv.gz"), SCALE * np.stack(sets, axis=1).reshape(-1, WORKERS)
    yield "exponential", delays.Exponential(SCALE, seed=5).rows(0, 240, WORKERS)
    usual, slow = delays.ShiftedExponential(0.5 * SCALE, 0.1 * SCALE, seed=6), delays.Exponential(3 * SCALE, seed=6)
    yield "markov", _sometimes_slow.MarkovModulated(0.02, 0.2, usual, slow, seed=7).rows(0, 240, WORKERS)


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
            "seed": situation.seed,
            "commit": commit.stdout.strip(),
            "command": command,
            "seconds": made,
        }
        TABLE.write_text(
            json.dumps(table, indent=None, separators=(",", ":"))
            .replace('"rows":{', '"rows":{\n')
            .replace("]]},", "]]},\n")
            .replace('}},"', '}},\n"')
        )
        print(f"{time.monotonic() - begin:6.0f} s  {name}: {len(made)} choices", flush=True)


def _truth_of_row(name: str) -> dict[str, list[list[float | None]]]:
    warnings.simplefilter("ignore", UserWarning)
    return truth_of(*rows()[name])


def _judged_row(name: str, seconds: Runs, quick: bool) -> tuple[str, Judgement]:
    """Judge one row; return what is printed of it, and what it counts."""
    warnings.simplefilter("ignore", UserWarning)
    found, lines = Judgement(), io.StringIO()
    with contextlib.redirect_stdout(lines):
        judge(name, *rows()[name], seconds, quick, found)
    return lines.getvalue(), found


def judged(made: dict[str, dict[str, Runs]], quick: bool) -> tuple[dict[str, float], dict[str, str]]:
    """Judge all rows of the table, and check a random part of it; quickly, from traces alone and without the check."""
    again = [] if quick else sampled(list(made), int(time.time()), 0.03)
    found = Judgement()
    # Rows of the same data follow each other, so that a process trains them alone once for several.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        remade = [(name, pool.submit(_truth_of_row, name)) for name in again]
        one_by_one = [pool.submit(_judged_row, name, row["seconds"], quick) for name, row in made.items()]
        for name, truth in remade:
            if truth.result() != made[name]["seconds"]:
                pool.shutdown(wait=False, cancel_futures=True)
                raise SystemExit(f"{name}: the table says otherwise; remake it (--truth).")
            print(f"made again, and equal: {name}", flush=True)
        for row in one_by_one:
            lines, own = row.result()
            print(lines, end="", flush=True)
            found.add(own)
    return summed(found)


def summed(found: Judgement) -> tuple[dict[str, float], dict[str, str]]:
    """Return the ratios of all rows, with their targets."""
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}

    def add(name: str, value: float, target: str = "") -> None:
        ratios[name] = value
        if target:
            targets[name] = target

    for kind, middle, worst in (
        ("data", "<= 1.05", "<= 1.30"),
        ("data and adaptive", "<= 1.05", "<= 1.30"),
        ("trace", "<= 1.20", "<= 2.00"),
    ):
        for drawn in (False, True):
            if own := found.regrets.get((kind, drawn)):
                said = f"regret over the oracle, {kind}{', drawn rows' * drawn}"
                add(f"{said}, median", statistics.median(own), middle)
                add(f"{said}, worst", max(own), worst)
        if best := found.best.get(kind):
            add(f"regret over the best, {kind}, median", statistics.median(best))
            add(f"regret over the best, {kind}, 9 of 10 rows", float(np.quantile(best, 0.9, method="higher")))
            add(f"share of rows within 5% of the best, {kind}", float(np.mean(np.array(best) <= 1.05)))
        if errors := found.errors.get(kind):
            add(f"median error of time to target, {kind}", statistics.median(errors), "<= 0.20" * (kind != "trace"))
        if promises := found.promises.get(kind):
            add(f"speed-ups within their range, {kind}", statistics.mean(one.held for one in promises), ">= 0.90")
            add(
                f"median width of that range, {kind}",
                statistics.median(one.high / one.low for one in promises),
                "<= 2.00",
            )
    for gap, ahead in found.ahead.items():
        add(f"best of other choices over adaptive, gap {gap:g}, median", statistics.median(ahead))
        add(f"share of rows in which adaptive is quicker, gap {gap:g}", float(np.mean(np.array(ahead) > 1.0)))
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

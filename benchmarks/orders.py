"""Who computes what, and in which order: time of a step where some workers are slow, beside what could be least.

Twelve workers, two of which are five times slower on average: the same ones for about 100 steps, for about ten, others
in each step, or nobody. A worker's share takes 1 s, and to begin with an order takes it an exponential time of mean 0.1
s. The steps are exact, of the real loop on the virtual clock; printed are means of seconds a step, the median over the
seeds. Then the same on real processes, in which a task is a sleep. Below, shares by speed: given, and found by a run.

    python benchmarks/orders.py                  five seeds, about five minutes
    python benchmarks/orders.py --seeds 1 --steps 100 --real 0
"""

from __future__ import annotations

import argparse
import statistics
from itertools import combinations, pairwise

import numpy as np

from common import report
from erasurehead import codes, engines, optimizers, training
from erasurehead.decoding import make_decoder
from erasurehead.problems import LeastSquares
from erasurehead.schemes import parse_scheme
from orders_law import Slowness

WORKERS, LOAD, PIECES = 12, 3, 6
LAWS = {
    "persistent": (0.002, 0.01),  # a worker turns slow, and usual again
    "ten steps": (0.02, 0.1),
    "memoryless": (1 / 6, 5 / 6),
    "nobody": (0.0, 1.0),
}
WANTED = {"persistent": 1.8, "ten steps": 1.9, "memoryless": 2.1, "nobody": 1.35}
SCHEMES = {
    "uncoded": "uncoded()",
    "repetition": f"exact(load={LOAD})",
    "a message per task": f"custom(code='multi_message(load={LOAD * PIECES}, n_tasks={WORKERS * PIECES})', "
    "wait='decodable()')",
    "computed once": f"compute_once(load={LOAD}, pieces={PIECES})",
    "computed once, sums": f"compute_once(load={LOAD}, pieces={PIECES}, sums=True)",
}
SUMS = {"bytes over a message per task": 0.4, "steps over it": 1.0}
PLACED = {"time over ideal": 1.08, "error in float64": 1e-11, "stated error of float32 messages": 1e-4}
MACHINES = {
    "one of 4 slow for good": ((1.0, 2.0, 2.0, 2.0), 1.2),
    "30 of speeds 1 to 4": (tuple(np.linspace(1.0, 4.0, 30).tolist()), 1.1),
}


def problem_of(n_samples: int) -> LeastSquares:
    """Return a small problem: what is timed is waiting."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4))
    return LeastSquares(X, X @ rng.standard_normal(4), l2=1.0)


def seconds_a_step(scheme: str, delays: Slowness, steps: int, workers: int = WORKERS, skip: int = 0) -> float:
    """Return the mean seconds of the steps of a run on the virtual clock."""
    made = parse_scheme(scheme, workers)
    problem = problem_of(4 * made.code.n_tasks)
    share = workers / made.code.n_tasks / made.code.task_work  # seconds of a unit of work: a share takes 1 s
    law = Slowness(delays.enter, delays.leave, share, delays.begin, delays.seed, delays.speeds)
    run = training.train(
        problem,
        made,
        optimizers.GradientDescent(problem.initial(), 1e-3),
        engines.VirtualEngine(law),
        steps,
        evaluate_every=0,
        tolerance=None,
    )
    return statistics.fmean(row.waited for row in run.steps[skip:])


def over_ideal(scheme: str, speeds: tuple[float, ...], seed: int, steps: int = 30, skip: int = 10) -> float:
    """Return the mean seconds of a step over what they would be if every machine were busy until the end.

    Arguments:
        scheme: its text.
        speeds: of the machines; a share takes a machine of speed 1 a second.
        seed: of the starts, exponential with mean 1 ms.
        steps: of the run.
        skip: of these, those that are left for finding the speeds.
    """
    law = Slowness(0.0, 1.0, 0.0, begin=0.001, seed=seed, speeds=speeds)
    return seconds_a_step(scheme, law, steps, len(speeds), skip) * sum(speeds) / len(speeds)


def report_then_sum(seed: int, n_parameters: int = 1_000) -> tuple[float, float]:
    """Train a dense model until it is close to the optimum, by a message per task and by reports and sums.

    Returns:
        The ratios of the bytes that were received, and of the steps.
    """
    made = parse_scheme(SCHEMES["computed once"], WORKERS)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20 * made.code.n_tasks, n_parameters))
    problem = LeastSquares(X, X @ rng.standard_normal(n_parameters), l2=0.1)
    share = WORKERS / made.code.n_tasks / made.code.task_work
    runs = [
        training.train(
            problem,
            parse_scheme(f"compute_once(load={LOAD}, pieces={PIECES}, sums={sums})", WORKERS),
            optimizers.QuasiNewton(problem.initial()),
            engines.VirtualEngine(Slowness(*LAWS["persistent"], share, seed=seed)),
            100,
            until="gap < 1e-6",
        )
        for sums in (True, False)
    ]
    summed, by_task = (sum(row.received for row in run.steps) for run in runs)
    return summed / by_task, len(runs[0].steps) / len(runs[1].steps)


def where_they_are(
    seed: int, n_workers: int = 30, n_tasks: int = 120, stragglers: int = 2
) -> tuple[float, float, float]:
    """Measure the code for data that stay where they are, with loads in proportion to speeds between 1 and 4.

    Returns:
        The time of a step over the ideal; the largest error of a task's weight, without any two; and the relative error
        that is stated for float32 messages.
    """
    speeds = np.random.default_rng(seed).uniform(1.0, 4.0, n_workers)
    ends = np.cumsum(codes.uncoded(n_workers, n_tasks * (stragglers + 1), speeds.tolist()).loads).tolist()
    held = [[task % n_tasks for task in range(*span)] for span in pairwise([0, *ends])]
    code = codes.build("placed", held=held, stragglers=stragglers)
    decoder, rows, left = make_decoder(code), code.encoding.toarray(), 0.0
    for gone in combinations(range(n_workers), stragglers):
        decoding = decoder.decode(code.messages_without(gone))
        left = max(left, float(np.abs(decoding.weights[0] @ rows[decoding.messages] - 1.0).max()))
    over = float((code.loads / speeds).max() * speeds.sum() / (n_tasks * (stragglers + 1)))
    return over, left, float(code.structure.amplification_bound or np.inf) * float(np.finfo(np.float32).eps) / 2


def excess(scheme: str, law: Slowness, steps: int) -> dict[str, float]:
    """Return by how many milliseconds a step of real processes is longer than on the virtual clock, and where they go.

    All are medians over the steps: the whole; until the worker that was last had begun; and how much later each message
    of that worker came than its delays add up to. All twelve begin at the same moment, on as many cores as there are.
    """
    made = parse_scheme(scheme, WORKERS)
    problem = problem_of(4 * made.code.n_tasks)
    runs: list[training.Run] = []
    for engine in (engines.VirtualEngine(law), engines.ProcessEngine(law)):
        optimizer = optimizers.GradientDescent(problem.initial(), 1e-3)
        runs.append(training.train(problem, made, optimizer, engine, steps, evaluate_every=0, tolerance=None))
    virtual, real = runs
    parts = {"excess": [1e3 * (b.waited - a.waited) for a, b in zip(virtual.steps, real.steps, strict=True)]}
    for step in range(steps):
        came = [row for row in real.arrivals if row.step == step and row.rank is not None and not row.late]
        last = max(came, key=lambda row: row.rank or 0)
        own = [row for row in came if row.worker == last.worker]
        delays = sum(law.seconds(row.worker, step, row.unit, row.work) for row in own)
        begun = last.started or 0.0
        parts.setdefault("until the last one begins", []).append(1e3 * begun)
        parts.setdefault("a message of the last one", []).append(1e3 * (last.seconds - begun - delays) / len(own))
    return {name: statistics.median(each) for name, each in parts.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--real", type=int, default=60, help="steps on real processes; 0 for none")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for law, (enter, leave) in LAWS.items():
        for name, scheme in SCHEMES.items():
            each = [seconds_a_step(scheme, Slowness(enter, leave, 0.0, seed=seed), given.steps) for seed in seeds]
            ratios[f"{law}: {name}"] = statistics.median(each)
        targets[f"{law}: computed once"] = f"<= {WANTED[law]}"
    for machines, (speeds, most) in MACHINES.items():
        told = f"speeds={[round(speed, 3) for speed in speeds]}"
        ways = {
            "uncoded": "uncoded()",
            "speeds given": f"uncoded({told})",
            "speeds found": "uncoded(speeds='measured')",
            "computed once": f"compute_once(load={LOAD}, pieces={PIECES})",
        }
        for name, scheme in ways.items():
            ratios[f"{machines}: {name}"] = statistics.median(over_ideal(scheme, speeds, seed) for seed in seeds)
        targets[f"{machines}: speeds found"] = f"<= {most}"
    dense = [report_then_sum(seed) for seed in seeds]
    for place, (name, most) in enumerate(SUMS.items()):
        ratios[f"report, then sum: {name}"] = max(one[place] for one in dense)
        targets[f"report, then sum: {name}"] = f"<= {most}"
    measured = [where_they_are(seed) for seed in seeds]
    for place, (name, most) in enumerate(PLACED.items()):
        ratios[f"placed by speed: {name}"] = max(one[place] for one in measured)
        targets[f"placed by speed: {name}"] = f"<= {most}"
    if given.real:
        law = Slowness(*LAWS["persistent"], 0.1, begin=0.01, seed=given.first)
        for part, milliseconds in excess(SCHEMES["computed once"], law, given.real).items():
            ratios[f"12 processes, computed once: {part} in ms"] = milliseconds
        targets["12 processes, computed once: excess in ms"] = "<= 3"
    report("orders", ratios, targets)


if __name__ == "__main__":
    main()

"""Training without a coordinator: time to a target by policy, against waiting for all neighbours, on the virtual clock.

Each policy has the best rate of a factor-2 grid, found on another seed; some are run with momentum, too. `carry` is the
headline, `preempt` stands beside it with --preempt. Ratios are medians over the seeds of full waiting's time over the
policy's. Times are those of the virtual clock, so that a busy machine changes none of them.

    python benchmarks/consensus.py            the whole table, about half an hour
    python benchmarks/consensus.py --keep F   the same; what is in the file F is not run again, and what is not, added
    python benchmarks/consensus.py --quick    to a gap of 1e-1 on two graphs, with one slow peer: seconds
    python benchmarks/consensus.py --cost     what the virtual clock costs a peer and step, above the gradients
    python benchmarks/consensus.py --cost --peers 1000 --steps 1000          the same over a long run
    python benchmarks/consensus.py --coordinator          coordinator and peers in one table, on the same delays
    python benchmarks/consensus.py --processes            what a step of real peers takes longer than on that clock
    mpiexec -n 11 python benchmarks/consensus.py --mpi    the same for ranks of MPI
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import json
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import optimize

import erasurehead as eh
from common import commit, report, verdict
from erasurehead.consensus import train
from erasurehead.consensus._graphs import Graph, parse_graph
from erasurehead.consensus._plans import plan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._training import run_plan
from erasurehead.consensus._training_options import TrainingOptions
from erasurehead.delays import Delays, Exponential, Fixed, ShiftedExponential
from erasurehead.delays._base import Scaled
from erasurehead.engines import Engine, ProcessEngine, VirtualEngine
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LogisticRegression
from erasurehead.schemes import parse_scheme

GRAPHS = {
    "ring(6)": ("ring()", 6),
    "erdos_renyi(10, 0.4)": ("erdos_renyi(p=0.4)", 10),
    "complete(10)": ("complete()", 10),
    "torus(16)": ("torus()", 16),
}
SKEWED = {"torus(16)": "dirichlet(alpha=0.5, seed=1)"}  # of seed 0 one of 16 peers would have no data
STRAGGLERS = ("none", "fixed", "moving", "trace")
OURS = ("dynamic()", "local()", "local(window=8)", "local(window=16)")
OTHERS = ("bounded_staleness(steps=4)", "pairwise()")
TRIED = (
    "pairwise(partners='in turn')",
    "local(), momentum(0.5)",
    "pairwise(), momentum(0.5)",
    "pairwise(partners='in turn'), momentum(0.5)",
)
"""What else may be ahead of AD-PSGD; an algorithm other than `sgd()` stands behind the policy."""
PUBLISHED = "dynamic(tree='fixed')"
RATES = tuple(0.4 * 2.0**power for power in range(-2, 4))
GAPS = (1e-1, 1e-2)
FEATURES, SAMPLES, BATCH = 100, 4_000, 32
ROWS = 4_000  # of a table of delays along the clock, a row a second
TRACE = Path(os.environ.get("ERASUREHEAD_DATA", "")) / "traces/aws_lambda/sam-gc-cnn_profile_est_desktop_long.csv.gz"


@cache
def problem() -> tuple[LogisticRegression, float]:
    """Return logistic regression of 100 features, and its least objective."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SAMPLES, FEATURES)) * np.linspace(0.5, 1.5, FEATURES)
    y = np.sign(X @ rng.standard_normal(FEATURES) / 3.0 + rng.standard_normal(SAMPLES))
    made = LogisticRegression(X, y, l2=1e-3)
    found = optimize.minimize(
        lambda x: (made.objective(x), made.gradient(x) + made.penalty_gradient(x)),
        made.initial(),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-9},
    )
    return made, float(found.fun)


@cache
def trace_blocks() -> dict[tuple[str, str], list[tuple[int, int, float]]]:
    """Return the recorded latencies by region and load: round, worker, seconds."""
    blocks: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    with gzip.open(TRACE, "rt") as file:
        for row in csv.DictReader(file):
            block = blocks.setdefault((row["region"], row["load"]), [])
            block.append((int(row["round"]), int(row["worker"]), float(row["latency_s"])))
    return blocks


def trace_table(n_peers: int, seed: int) -> np.ndarray:
    """Return rounds of the recorded latencies of some workers, in units of their median, shape (rounds, n_peers)."""
    blocks = trace_blocks()
    chosen = blocks[sorted(blocks)[seed % len(blocks)]]
    table = np.full((max(r for r, _, _ in chosen) + 1, max(w for _, w, _ in chosen) + 1), np.nan)
    for number, worker, seconds in chosen:
        table[number, worker] = seconds
    columns = np.random.default_rng(seed).choice(table.shape[1], n_peers, replace=False)
    part = table[:, columns]
    return part[~np.isnan(part).any(axis=1)] * (2.0 / np.nanmedian(part))


@cache
def delays(kind: str, n_peers: int, seed: int) -> tuple[Delays, float | None]:
    """Return the delays of a kind of stragglers, and the seconds of the clock after which the next row holds."""
    base = ShiftedExponential(shift=1.0, mean=1.0, seed=seed)
    if kind == "none":
        return base, None
    if kind == "fixed":
        return Scaled(base, tuple(5.0 if peer == seed % n_peers else 1.0 for peer in range(n_peers))), None
    if kind == "moving":  # somebody else is slow every twenty seconds
        table = base.rows(0, ROWS, n_peers)
        slow = np.repeat(np.random.default_rng(seed).integers(0, n_peers, ROWS // 20 + 1), 20)[:ROWS]
        table[np.arange(ROWS), slow] *= 5.0
        return Fixed(table), 1.0
    rounds = trace_table(n_peers, seed)
    return Fixed(np.tile(rounds, (ROWS // len(rounds) + 1, 1))[:ROWS]), 2.0


def policies(graph: Graph) -> list[str]:
    """Return what is compared on a graph, full waiting first."""
    static = [f"static(wait_for={k})" for k in range(1, max(graph.degrees) + 1) if k in (1, 2, 3, 4, 6, 8)]
    return ["full()", *static, PUBLISHED, *OURS, *OTHERS, *TRIED]


def with_algorithm(policy: str) -> tuple[str, str]:
    """Return a policy, and the algorithm that stands behind it; `sgd()` if none does."""
    waits, _, algorithm = policy.partition("), ")
    return f"{waits.removesuffix(')')})", algorithm or "sgd()"


Times = tuple[float, ...]
"""The seconds to each gap; inf where it is not reached."""

Setting = tuple[str, str, str, str]
"""Graph, stragglers, split, and what becomes of late work."""


class Race:
    """One setting, in which all policies meet the same delays."""

    def __init__(
        self, made: tuple[LogisticRegression, float], graph: Graph, kind: str, split: str, late: str, gaps: Times
    ) -> None:
        self.problem, self.best = made
        self.gaps = gaps
        self.graph, self.kind, self.split, self.late = graph, kind, split, late

    def times(self, policy: str, rate: float, seed: int, until: float = ROWS - 100.0) -> Times:
        """Return what a policy takes at a rate."""
        model, rows_every = delays(self.kind, self.graph.n_peers, seed)
        waits, algorithm = with_algorithm(policy)
        try:
            done: ConsensusRun = train(
                self.problem,
                self.graph,
                waits,
                algorithm=algorithm,
                rate=rate,
                batch=BATCH,
                split=self.split,
                delays=model,
                rows_every=rows_every,
                late=self.late,
                steps=400,
                seed=seed,
                target=self.best + 0.98 * self.gaps[-1],
                metrics=False,
                records=False,
                until=until,
            )
        except ArithmeticError:  # the rate is too large
            return (math.inf,) * len(self.gaps)
        return tuple(found if (found := done.time_to(self.best + gap)) else math.inf for gap in self.gaps)

    def best_rate(self, policy: str) -> float:
        """Return the rate with which a policy reaches the last gap first; none is tried beyond the best so far."""
        best, least = RATES[0], (math.inf,) * len(self.gaps)
        for rate in reversed(RATES):
            times = self.times(policy, rate, 1_000, min(ROWS - 100.0, least[0]))[::-1]
            if times < least:
                best, least = rate, times
        return best


@cache
def set_up(setting: Setting, gaps: Times = GAPS) -> Race:
    """Return the race of a setting to some gaps."""
    name, kind, split, late = setting
    return Race(problem(), parse_graph(*GRAPHS[name]), kind, split, late, gaps)


def measured(setting: Setting, policy: str, seeds: int, gaps: Times = GAPS) -> list[Times]:
    """Return the times of a policy to some gaps, seed by seed, at its own best rate."""
    made = set_up(setting, gaps)
    rate = made.best_rate(policy)
    return [made.times(policy, rate, seed) for seed in range(seeds)]


class Kept:
    """Times that were measured already, in a file with a line a setting and policy.

    Arguments:
        path: of the file; None to keep nothing.
        seeds: how many belong to an entry.
        trusted: commits whose times count, too, besides those of the commit that is there.
    """

    def __init__(self, path: str | None, seeds: int, trusted: Sequence[str] = ()) -> None:
        self.seeds, self.commit = seeds, commit()
        self.found: dict[tuple[Setting, str], list[Times]] = {}
        self.commits = Counter[str]()
        self._path = None if path is None else Path(path)
        there = self._path is not None and self._path.exists()
        for line in map(json.loads, self._path.read_text().splitlines() if self._path and there else ()):
            if line["seeds"] == seeds and line["commit"] in (self.commit, *trusted):
                times = [tuple(math.inf if one is None else one for one in own) for own in line["times"]]
                self.found[tuple(line["setting"]), line["policy"]] = times
                self.commits[line["commit"]] += 1

    def add(self, setting: Setting, policy: str, times: list[Times]) -> None:
        """Take up an entry."""
        self.found[setting, policy] = times
        plain = [[one if math.isfinite(one) else None for one in own] for own in times]
        self.commits[self.commit] += 1
        if self._path is not None:
            line = {"commit": self.commit, "setting": setting, "policy": policy, "seeds": self.seeds, "times": plain}
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def gain(found: dict[str, list[Times]], policy: str, gap: int = -1) -> float:
    """Return how many times as long full waiting takes to a gap, by default the last, the median over the seeds.

    A seed in which the policy does not reach it counts 0; where full waiting does not, either, nothing can be said.
    """
    pairs = zip(found["full()"], found[policy], strict=True)
    return statistics.median(_over(full[gap], own[gap]) for full, own in pairs)


def _over(full: float, own: float) -> float:
    return full / own if math.isfinite(own) else 0.0


def best(found: dict[str, list[Times]], names: Sequence[str]) -> str:
    """Return the one of some policies that is ahead at the last gap."""
    return max(names, key=lambda policy: gain(found, policy))


def table(
    settings: Sequence[Setting],
    seeds: int,
    jobs: int = 2,
    kept: Kept | None = None,
    only: Sequence[str] = (),
    gaps: Times = GAPS,
    name: str = "consensus",
) -> None:
    """Run the races, several policies beside each other, and print the table.

    Arguments:
        settings: where.
        seeds: how many.
        jobs: policies that are run beside each other; 0 for one after the other in this process.
        kept: times that are there already.
        only: policies that are run, to be kept, and no table; empty for all.
        gaps: that are to be reached.
        name: of the benchmark, in the table of results.
    """
    kept, begin = Kept(None, seeds) if kept is None else kept, time.perf_counter()
    wanted = {setting: only or policies(set_up(setting).graph) for setting in settings}
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    with ProcessPoolExecutor(jobs) if jobs else contextlib.nullcontext() as pool:
        running = {
            key: None if pool is None else pool.submit(measured, *key, seeds, gaps)
            for key in ((setting, policy) for setting, names in wanted.items() for policy in names)
            if key not in kept.found
        }
        for setting, names in wanted.items():  # in their order, as soon as all of one are there
            for policy in names:
                key = setting, policy
                if key in running:
                    run = running[key]
                    kept.add(*key, measured(*key, seeds, gaps) if run is None else run.result())
            if not only:
                show(setting, {policy: kept.found[setting, policy] for policy in names}, gaps, ratios, targets)
    print(f"\n{time.perf_counter() - begin:.0f} s, {jobs} at a time; times measured at {dict(kept.commits)}")
    missed = [key for key, target in targets.items() if verdict(ratios[key], target) == "missed"]
    print(
        f"{len(targets) - len(missed)} of {len(targets)} targets are met"
        + "".join(f"\n  missed: {key}" for key in missed)
    )
    report(name, ratios, targets)


def show(
    setting: Setting, found: dict[str, list[Times]], gaps: Times, ratios: dict[str, float], targets: dict[str, str]
) -> None:
    """Print a setting, and add what is to be reached in it."""
    name, kind, split, late = setting
    print(f"\n{name}, stragglers {kind}, {split}, {late}")
    print(f"  {'policy':<28}" + "".join(f" {f'to {gap:.0e}':>9}" for gap in gaps) + "   against full waiting")
    for policy, times in found.items():
        medians = "".join(f" {statistics.median(own[gap] for own in times):9.4g}" for gap in range(len(gaps)))
        print(f"  {policy:<28}{medians}   " + "  ".join(f"{gain(found, policy, gap):5.2f}" for gap in range(len(gaps))))
    static = [policy for policy in found if policy.startswith("static")]
    ours, fixed, other = (best(found, names) for names in (OURS, static, OTHERS))
    print(
        f"  ahead: {ours} of ours, {fixed} of those that always wait for as many; of the others {other}, which is "
        f"{_share(gain(found, other), gain(found, ours)):.2f} times as fast as ours",
        flush=True,
    )
    where = f"{name} {kind} {split.partition('(')[0]}{'' if late == 'carry' else ' preempt'}"
    ratios[f"{where}: best of ours"] = gain(found, ours)
    if late == "carry":
        if kind == "none" and name != "complete(10)":
            targets[f"{where}: best of ours"] = ">= 1.1"
        elif kind in ("fixed", "moving"):
            targets[f"{where}: best of ours"] = ">= 1.7"
    if gain(found, fixed) > 0.0:
        ratios[f"{where}: ours over best static k"] = gain(found, ours) / gain(found, fixed)
        if late == "carry":
            targets[f"{where}: ours over best static k"] = ">= 0.95"
    ratios[f"{where}: cb-DyBW as published"] = gain(found, PUBLISHED)
    for policy, said in zip(OTHERS, ("bounded staleness", "AD-PSGD"), strict=True):
        if gain(found, policy) > gain(found, ours):
            ratios[f"{where}: {said}, which is faster"] = gain(found, policy)
    for policy in TRIED:
        ratios[f"{where}: {policy}"] = gain(found, policy)


def _share(above: float, below: float) -> float:
    return above / below if below else math.nan


def cost(peers: list[int], steps: int) -> None:
    """Print what a peer and step costs on the virtual clock, above the gradients."""
    made, ratios, targets = problem()[0], dict[str, float](), dict[str, str]()
    for n_peers in peers:
        many = np.random.default_rng(0).integers(0, SAMPLES, n_peers * BATCH)
        chosen = LogisticRegression(made._design.matrix[many], made.labels[many], l2=1e-3)
        for policy in ("full()", "static(wait_for=2)", "local(window=8)"):
            ready = plan(
                chosen,
                "random_regular(degree=4)",
                policy,
                peers=n_peers,
                rate=0.2,
                batch=BATCH,
                delays=ShiftedExponential(shift=1.0, mean=1.0),
            )
            begin = time.process_time()
            done = run_plan(ready, TrainingOptions(steps=steps, evaluate_every=steps, records=False, metrics=False))
            spent = time.process_time() - begin - done.gradient_seconds
            key = f"{n_peers} peers, {policy}: us a peer and step"
            ratios[key], targets[key] = 1e6 * spent / done.steps, "<= 100"
    report("consensus cost", ratios, targets)


COORDINATED = (
    "uncoded",
    "exact(load=2)",
    "exact(load=3)",
    "erasurehead(load=2, wait_for=6)",
    "erasurehead(load=3, wait_for=5)",
)
Way = Callable[[float, Delays, float], float]
"""From rate, delays, and seconds after which it is given up, to the seconds that it takes."""

PEERS = ("full()", "static(wait_for=2)", "dynamic()", "local(window=8)", "pairwise()", *TRIED)


def coordinated(scheme: str, goal: float, rate: float, model: Delays, until: float) -> float:
    """Return the seconds that ten workers and a coordinator take to an objective; inf if it is not reached."""
    made = problem()[0]
    done = eh.train(
        made,
        parse_scheme(scheme, 10),
        GradientDescent(made.initial(), rate=rate),
        VirtualEngine(model, "carry"),
        steps=400,
        until=f"objective < {goal}",
        max_seconds=until,
    )
    return done.measured[-1].time if done.ended == "until" else math.inf


def among_peers(graph: str, policy: str, goal: float, rate: float, model: Delays, until: float) -> float:
    """Return the seconds that ten peers take to the same objective of their mean model."""
    waits, algorithm = with_algorithm(policy)
    done = train(
        problem()[0],
        graph,
        waits,
        peers=10,
        algorithm=algorithm,
        rate=rate,
        batch=None,
        delays=model,
        steps=400,
        target=goal,
        metrics=False,
        records=False,
        until=until,
    )
    return found if (found := done.time_to(goal)) else math.inf


def beside_a_coordinator(seeds: int, most: float = 1_500.0) -> None:
    """Report the seconds to a gap of 1e-2 with a coordinator and with peers: same workers, data, gradients, delays."""
    goal = problem()[1] + GAPS[-1]
    ways: dict[str, Way] = {f"coordinator, {scheme}": partial(coordinated, scheme, goal) for scheme in COORDINATED} | {
        f"peers on {graph}, {policy}": partial(among_peers, graph, policy, goal)
        for graph in ("ring()", "erdos_renyi(p=0.4)", "complete()")
        for policy in PEERS
    }
    found: dict[str, float] = {}
    for name, way in ways.items():
        for kind in ("none", "fixed"):
            best, least = RATES[0], math.inf
            for rate in reversed((*RATES, 6.4, 12.8)):
                seconds = attempt(way, rate, delays(kind, 10, 1_000)[0], min(most, least))
                if seconds < least:
                    best, least = rate, seconds
            times = [attempt(way, best, delays(kind, 10, seed)[0], most) for seed in range(seeds)]
            found[f"{name}: {kind}"] = statistics.median(times)
    report("consensus coordinator", found, {})


def attempt(way: Way, rate: float, model: Delays, most: float) -> float:
    """Return the seconds that a way takes; inf where its rate is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return way(rate, model, most)
        except ArithmeticError:
            return math.inf


def excess(engine: str, steps: int, most: str) -> None:
    """Print how much longer a step of ten real peers takes than on the virtual clock, on the same delays."""
    made, graph, ratios = problem()[0], parse_graph("erdos_renyi(p=0.4)", 10), dict[str, float]()
    with peers_on(engine) as opened:
        for policy in ("full()", "static(wait_for=2)", "dynamic()", "local(window=8)"):
            ready = plan(made, graph, policy, rate=0.2, batch=BATCH, delays=Exponential(mean=0.05))
            conduct = TrainingOptions(steps=steps, evaluate_every=steps, records=True, metrics=False)
            real = run_plan(ready, conduct, opened)
            priced = replace(ready, seconds_per_step=real.gradient_seconds / real.steps)
            virtual = run_plan(priced, conduct)
            print(
                f"{policy:<20} {1e3 * real.seconds_per_step:7.2f} ms a step, {1e3 * virtual.seconds_per_step:7.2f} ms "
                f"on the virtual clock, of these {1e3 * priced.seconds_per_step:.2f} ms a gradient"
            )
            ratios[f"{engine}, {policy}: excess of a step"] = real.seconds / virtual.seconds - 1.0
    report(f"consensus {engine}", ratios, dict.fromkeys(ratios, f"<= {most}"))


def peers_on(engine: str) -> Engine:
    """Return an engine; of MPI on its first rank, while the others serve."""
    if engine == "processes":
        return ProcessEngine()
    from erasurehead.engines import MPIEngine

    MPIEngine.serve_unless_coordinator()
    return MPIEngine()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to a gap of 1e-1 on two graphs, two seeds")
    parser.add_argument("--preempt", action="store_true", help="late work is dropped, besides")
    parser.add_argument("--cost", action="store_true", help="what the virtual clock costs")
    parser.add_argument("--coordinator", action="store_true", help="coordinator and peers in one table")
    parser.add_argument("--processes", action="store_true", help="what real peers cost, as processes")
    parser.add_argument("--mpi", action="store_true", help="what real peers cost, as ranks")
    parser.add_argument("--jobs", type=int, default=2, help="policies that are run beside each other; 0: here")
    parser.add_argument("--keep", metavar="FILE", help="times that are there already, and those that are added")
    parser.add_argument("--trust", metavar="COMMIT", action="append", help="times in FILE of this commit count, too")
    parser.add_argument("--only", metavar="POLICY", action="append", help="run this one only, for --keep")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peers", type=int, nargs="+", default=[100, 1_000, 10_000], help="how many, for --cost")
    parser.add_argument("--steps", type=int, default=20, help="of each peer, for --cost")
    given = parser.parse_args(arguments)
    if given.cost:
        cost(given.peers, given.steps)
        return
    if given.coordinator:
        beside_a_coordinator(given.seeds)
        return
    if given.processes or given.mpi:
        excess("mpi" if given.mpi else "processes", 100, "0.25" if given.mpi else "0.1")
        return
    kinds = [kind for kind in STRAGGLERS if kind != "trace" or TRACE.is_file()]
    if "trace" not in kinds:
        print("No trace: ERASUREHEAD_DATA names no folder with traces/aws_lambda.")
    if given.quick:
        quick = [(name, "fixed", "even()", "carry") for name in ("ring(6)", "erdos_renyi(10, 0.4)")]
        table(quick, 2, given.jobs, gaps=GAPS[:1], name="consensus quick")
        return
    settings = [
        (name, kind, split, late)
        for late in (("carry", "preempt") if given.preempt else ("carry",))
        for skewed in (False, True)
        for name in GRAPHS
        for kind in kinds
        for split in [SKEWED.get(name, "dirichlet(alpha=0.5)") if skewed else "even()"]
    ]
    kept = Kept(given.keep, given.seeds, given.trust or ())
    table(settings, given.seeds, given.jobs, kept, given.only or ())


if __name__ == "__main__":
    main()

"""Networks on ten ranks some of which are late: our default against DistributedDataParallel, and all else.

Five laws of delays (a to e), a dense network and a small one of convolutions on MNIST, and one on a batch of CIFAR-10;
on the virtual clock, where sending takes no time and the machine's load has no part. Rates are the best of those tried
for `DistributedDataParallel` on seeds of its own, and nothing is set for ours; the rivals have the same. Each row is a
ratio of seconds, paired by seed, its median; the tables before have the ranges. One process alone is beside every row:
it has no delays, and a rate of its own.

What a run came to is kept in `networks.json` as soon as it is over, so that a race that was ended goes on from there;
rivals that wait for each other compute the same under each law, and are run once for all. The most important cells come
first, and rows are of those whose seeds are all there.

    python benchmarks/networks.py                     all that is not kept yet, about an hour of one core
    python benchmarks/networks.py --seconds 600       what can be begun within ten minutes
    python benchmarks/networks.py --fresh             nothing that is kept counts
    python benchmarks/networks.py --quick             the dense network, two seeds, laws a and d; nothing is kept
    python benchmarks/networks.py --only dense        a task with this in its name
    python benchmarks/networks.py --real              ten processes whose computing is a sleep, beside the virtual clock
    python benchmarks/networks.py --demo runs/networks     `make demo-networks`: one race, and its picture
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

import erasurehead.torch as eht
import networks_races as races
from common import kept_since, report, verdict as verdict
from erasurehead.reports import _canvas as canvas
from networks_races import LAWS, REACHED, Law, Race, Task, alone, coded, ddp, diloco, first_of, ours, post_local, waited

SEEDS = (1, 2, 3, 4, 5)
TUNED_ON = (11, 12, 13)
BEHIND_AT_MOST = 1.2  # of the samples of the best rate so far, when another one is given up
PERIODS = (4, 16)
KEPT = Path(__file__).with_name("networks.json")

OURS, DDP, ALONE = "ours", "DDP", "one process alone"
FIRST_GRADIENTS, FIRST_7, POST_LOCAL, DILOCO = "ours, first gradients", "first 7", "PostLocalSGD", "DiLoCo"
CODES = (  # each with three times the computing of a share
    *(f"erasurehead(load=3, wait_for={count})" for count in (2, 3, 4, 5)),
    "custom(code='regular(load=3)', wait='first(4)', rescale='coverage')",
    "exact(load=3)",
)
MAIN, OTHERS = (DDP, ALONE, OURS), (FIRST_7, POST_LOCAL, DILOCO, FIRST_GRADIENTS)
CELLS = (  # task, optimizer, laws and methods, the most important first
    ("dense", "momentum", "eabdc", MAIN),
    ("dense", "adamw", "ad", MAIN),
    ("dense", "momentum", "a", CODES),
    ("dense", "momentum", "e", OTHERS),
    ("convolutions", "momentum", "ea", MAIN),
    ("CIFAR-10", "momentum", "ea", MAIN),
    ("dense", "momentum", "ad", OTHERS),
    ("convolutions", "momentum", "d", MAIN),
    ("CIFAR-10", "momentum", "d", MAIN),
    ("convolutions", "adamw", "ad", MAIN),
    ("CIFAR-10", "adamw", "ad", MAIN),
    ("dense", "adamw", "e", MAIN),
    ("dense", "momentum", "bc", OTHERS),
    ("dense", "adamw", "ad", OTHERS),
    ("CIFAR-10", "momentum", "ead", OTHERS),
    ("convolutions", "momentum", "ead", OTHERS),
)
QUICK = (("dense", "momentum", "ad", MAIN), ("dense", "adamw", "ad", MAIN))
TARGETS = {  # over DistributedDataParallel, by optimizer and law: to the accuracy, to the loss
    ("momentum", "a"): (2.8, 2.5),
    ("momentum", "b"): (8.5, 8.5),
    ("momentum", "c"): (1.15, 1.15),
    ("momentum", "d"): (0.95, 0.95),
    ("momentum", "e"): (1.8, 1.8),
    ("adamw", "a"): (2.2, 2.2),
    ("adamw", "d"): (0.97, 0.97),
}
BEHIND = 1.35
BY_CODES = 3.0  # over DistributedDataParallel, under a
REAL_STEPS, REAL_FROM = 80, 10
BEYOND = 3.0  # milliseconds

clock_of = cache(waited)

Both: TypeAlias = tuple[float, float]
"""When a run reached the accuracy and the loss; inf where it never did."""


class Kept:
    """What runs came to, by name: kept in a file as soon as each is over, unless there is none.

    Arguments:
        path: the file, or None.
        until: when no run is begun any more, by `time.monotonic`.
    """

    def __init__(self, path: Path | None, until: float = math.inf) -> None:
        self._path, self._until, self.has_run = path, until, False
        self._known: dict[str, list[float | None]] = {}
        if path is not None and path.exists():
            self._known = json.loads(path.read_text())

    def of(self, name: str, run: Callable[[], Both]) -> Both:
        """Return what a run of this name came to, from the file or by running it.

        Raises:
            TimeoutError: if it would have to be run, and the time is over.
        """
        if name not in self._known:
            if time.monotonic() >= self._until:
                raise TimeoutError
            begun = time.perf_counter()
            found, self.has_run = run(), True
            self._known[name] = [None if math.isinf(each) else float(f"{each:.6g}") for each in found]
            print(f"{name}: {self._known[name]} ({time.perf_counter() - begun:.0f} s)", file=sys.stderr, flush=True)
            if self._path is not None:
                lines = [f"{json.dumps(key)}: {json.dumps(self._known[key])}" for key in sorted(self._known)]
                self._path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        accuracy, loss = (math.inf if each is None else each for each in self._known[name])
        return accuracy, loss


@dataclass(frozen=True)
class Cell:
    """One task, trained by one optimizer.

    Arguments:
        task, kind: the task, and the optimizer's name in rows.
        kept: what runs came to.
    """

    task: Task
    kind: str
    kept: Kept

    def seconds(self, method: str, law: str, seed: int) -> Both:
        """Return the seconds that a method takes under a law."""
        if method == ALONE:
            one = LAWS[law].compute + (0.02 if law in "bd" else 0.0)
            accuracy, loss = self._samples(method, self.best(method), seed)
            return one * accuracy / races.BATCH, one * loss / races.BATCH
        if method in (DDP, POST_LOCAL, DILOCO):
            best = self.best(method)
            return self._timed(method, best[1], law, seed, self._samples(method, best, seed))
        rate, _ = self.best(DDP)
        way = "first-gradients" if method == FIRST_GRADIENTS else None

        def run() -> Both:
            if method in CODES:
                return coded(self.task, LAWS[law], self.kind, rate, seed, method).seconds_to()
            if method == FIRST_7:
                return first_of(self.task, LAWS[law], self.kind, rate, seed, 7).seconds_to()
            return ours(self.task, LAWS[law], self.kind, rate, seed, way).seconds_to()

        return self.kept.of(f"{self.task.name}, {self.kind} {rate:g}, law {law}, {method}, seed {seed}", run)

    def best(self, method: str) -> tuple[float, int]:
        """Return the rate, and for rivals with one the period, that is first at the accuracy and the loss.

        Added up, the median of seeds of their own: a rate that is the first on one of them may never get there on
        another. A rate that is far behind the best so far on some seed is not run to its end.
        """
        rates = self.task.momentum_rates if self.kind == "momentum" else self.task.adamw_rates
        if method == ALONE:
            rates = tuple(rate / (10.0 if self.kind == "momentum" else 4.0) for rate in rates)
        candidates = [(rate, 1) for rate in rates]
        if method in (POST_LOCAL, DILOCO):
            candidates = [(self.best(DDP)[0], period) for period in PERIODS]
        seeds = TUNED_ON[: self.task.tuned_on if method in (DDP, ALONE) else 1]
        least = [math.inf] * len(seeds)
        sums: dict[tuple[float, int], float] = {}
        for candidate in candidates:
            each: list[float] = []
            for place, seed in enumerate(seeds):
                found = self._samples(method, candidate, seed, BEHIND_AT_MOST * least[place])
                least[place] = min(least[place], max(found))
                each.append(sum(self._timed(method, candidate[1], "e", seed, found)))
            sums[candidate] = statistics.median(each)
        return min(sums, key=lambda each: sums[each])

    def _timed(self, method: str, period: int, law: str, seed: int, samples: Both) -> Both:
        clock = clock_of(LAWS[law], seed, period, 100 if method == POST_LOCAL else 0)
        accuracy, loss = (math.inf if math.isinf(each) else clock(int(each)) for each in samples)
        return accuracy, loss

    def _samples(self, method: str, setting: tuple[float, int], seed: int, most: float = math.inf) -> Both:
        """Return after how many samples a method gets there whose steps do not depend on the law."""
        rate, period = setting
        task = replace(self.task, most=int(min(self.task.most, most)))

        def run() -> Both:
            if method == DDP:
                return ddp(task, self.kind, rate, seed).samples_to()
            if method == ALONE:
                return alone(task, self.kind, rate, seed).samples_to()
            return (post_local if method == POST_LOCAL else diloco)(task, self.kind, rate, seed, period).samples_to()

        every = f" every {period} steps" if period > 1 else ""
        return self.kept.of(f"{self.task.name}, {self.kind} {rate:g}, {method}{every}, seed {seed}, samples", run)


Found: TypeAlias = dict[tuple[str, str, str], dict[str, list[Both]]]
"""By task, optimizer and law, then by method: what each seed came to."""


def race(
    tasks: Mapping[str, Task],
    cells: Sequence[tuple[str, str, str, tuple[str, ...]]],
    seeds: Sequence[int],
    kept: Kept,
) -> Found:
    """Run methods, law by law, and return what is whole when the time is over."""
    found = Found()
    for name, kind, laws, methods in cells:
        task = tasks.get(name)
        if task is None:
            continue
        for law in laws:
            if law == "c" and not (races.folder() / "traces").is_dir():
                continue
            for method in methods:
                try:
                    own = [Cell(task, kind, kept).seconds(method, law, seed) for seed in seeds]
                except TimeoutError:
                    continue
                found.setdefault((name, kind, law), {})[method] = own
    return found


def rows_of(found: Found) -> dict[str, float]:
    """Return the rows of what was found."""
    rows: dict[str, float] = {}
    for (name, kind, law), by_method in found.items():
        if DDP not in by_method or OURS not in by_method:
            continue
        for place, what in enumerate(REACHED):
            title = f"{name}, {kind}, {law}, to the {what}"
            mine = by_method[OURS]
            rows[f"{title}: DDP over ours"] = paired(by_method[DDP], mine, place)
            if all(method in by_method for method in OTHERS):
                rows[f"{title}: ours over the best of others"] = max(
                    paired(mine, by_method[method], place) for method in (DDP, *OTHERS)
                )
            codes = {code: paired(by_method[DDP], by_method[code], place) for code in CODES if code in by_method}
            if codes:
                best = max(codes, key=lambda code: codes[code])
                rows[f"{title}: DDP over the best code of load 3"] = codes[best]
                print(f"{title}, seconds of DDP over: {', '.join(f'{code} {codes[code]:.2f}' for code in codes)}")
            if ALONE in by_method:
                rows[f"{title}: alone over ours"] = paired(by_method[ALONE], mine, place)
    return rows


def seconds_of(found: Found) -> dict[str, list[float]]:
    """Return what runs took to the accuracy and to the loss: the median, and its range."""
    rows: dict[str, list[float]] = {}
    for (name, kind, law), by_method in found.items():
        for place, what in enumerate(REACHED):
            for method, each in by_method.items():
                own = sorted(both[place] for both in each)
                key = f"{name}, {kind}, {law}, to the {what}, seconds: {method}"
                rows[key] = [statistics.median_high(own), own[0], own[-1]]
    return rows


def paired(above: Sequence[Both], below: Sequence[Both], place: int) -> float:
    """Return the median of ratios, seed by seed; 0 if most of those above never got there, but those below did not."""
    ratios = [one[place] / other[place] for one, other in zip(above, below, strict=True)]
    finite = [0.0 if ratio != ratio else min(ratio, 1e3) for ratio in ratios]
    return statistics.median(finite)


def targets_of(rows: dict[str, float]) -> dict[str, str]:
    """Return what each row is to reach."""
    found: dict[str, str] = {}
    for key in rows:
        kind, law, to = key.split(": ")[0].split(", ")[1:]
        bounds = TARGETS.get((kind, law))
        if key.endswith("DDP over ours") and bounds:
            found[key] = f">= {bounds[to.endswith('loss')]}"
        elif key.endswith("the best code of load 3"):
            found[key] = f">= {BY_CODES:g}"
        elif key.endswith("the best of others"):
            found[key] = f"<= {BEHIND}"
        elif key.endswith("alone over ours") and law == "e" and kind == "momentum":
            found[key] = ">= 1"
    return found


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--demo", type=Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--rank", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.demo is not None:
        demo(options.demo)
        return
    torch.set_num_threads(1)
    if options.rank:
        print(json.dumps(sleeping(LAWS[options.rank], asleep=True)), flush=True)
        return
    if options.real:
        rows = {f"ms a step beyond the virtual clock, law {law}": beyond(law) for law in "ae"}
        report("networks --real", rows, dict.fromkeys(rows, f"<= {BEYOND:g}"))
        return
    if options.fresh:
        KEPT.unlink(missing_ok=True)
    kept = Kept(None if options.quick else KEPT, time.monotonic() + options.seconds)
    cells = [cell for cell in (QUICK if options.quick else CELLS) if options.only in cell[0]]
    tasks = races.tasks()
    found = race(tasks, cells, SEEDS[:2] if options.quick else SEEDS, kept)
    rows = rows_of(found)
    name = "networks quick" if options.quick else "networks"
    since = None if options.quick or kept.has_run else kept_since(KEPT)
    report(name, seconds_of(found) | rows, targets_of(rows), since)


# Real ranks


def sleeping(law: Law, asleep: bool) -> float:
    """Train as one rank of a team, and return the seconds of its steps, from the first few on.

    Arguments:
        law: how long a step takes.
        asleep: whether a step lasts so long by sleeping, and not because a virtual clock says so.
    """
    team, seed = eht.join(), SEEDS[0]
    torch.manual_seed(seed)
    model = races.dense(784)()
    optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.1, 0.9), model)
    x, y = torch.randn(races.BATCH, 784), torch.randint(0, 10, (races.BATCH,))
    lasts, since = law.steps(seed, 0, REAL_STEPS)[:, team.rank], 0.0
    for step in range(REAL_STEPS):
        if step == REAL_FROM:
            since = team.seconds
        begun = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        if asleep:
            time.sleep(max(begun + float(lasts[step]) - time.perf_counter(), 0.0))
        optimizer.step()
    return team.seconds - since


def beyond(law: str) -> float:
    """Return the milliseconds by which steps of ten processes on this host are longer than on the virtual clock."""
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", str(races.RANKS), "--output", "plain"]
    done = subprocess.run([*command, __file__, "--rank", law], stdout=subprocess.PIPE, text=True, check=True)
    own = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(own) == races.RANKS
    given, seed = LAWS[law], SEEDS[0]
    clock = eht.simulate(
        lambda: sleeping(given, asleep=False),
        races.RANKS,
        delays=given.delays(seed),
        seconds_per_sample=given.seconds_per_sample(),
    )
    virtual = [each for each in clock.returned if each is not None]
    print(f"law {law}: {statistics.mean(own):.4g} s for {statistics.mean(virtual):.4g} s on the virtual clock")
    return 1e3 * (statistics.mean(own) - statistics.mean(virtual)) / (REAL_STEPS - REAL_FROM)


# The demonstration


def demo(out: Path) -> None:
    """Race the default against DistributedDataParallel and one process alone, and draw the picture."""
    begun = time.perf_counter()
    path = races.folder() / "mnist"
    task = replace(races.tasks()["dense"], whole=True)
    data = "MNIST" if path.is_dir() else "the written digits that come with scikit-learn"
    print(f"Ten ranks train a network of two dense layers on {data}, on a virtual clock: {LAWS['e'].title}.")
    if not path.is_dir():
        print("(MNIST is not here: set ERASUREHEAD_DATA to a folder with mnist/train-images-idx3-ubyte.gz and so on.)")
    law, seed, rate = LAWS["e"], 1, 0.1
    runs = {
        "ErasureHead, nobody waits": ours(task, law, "momentum", rate, seed),
        "DistributedDataParallel": ddp(task, "momentum", rate, seed).timed(waited(law, seed)),
        "one process alone, no delays": alone(task, "momentum", 0.2 * rate, seed).timed(
            lambda samples: law.compute * samples / races.BATCH
        ),
    }
    print(f"\n{'':<30}{'to ' + format(task.accuracy, '.0%'):>12}{'to loss ' + format(task.loss, 'g'):>18}")
    for name, run in runs.items():
        accuracy, loss = run.seconds_to()
        print(f"{name:<30}{accuracy:>10.0f} s{loss:>16.0f} s")
    with canvas.drawing():
        (path,) = canvas.save(picture(task, data, runs), canvas.prepare_folder(out), "networks", ("png",))
    print(f"\nPicture: {path} ({time.perf_counter() - begun:.0f} s)")


def picture(task: Task, data: str, runs: dict[str, Race]) -> canvas.Figure:
    """Draw how error and loss of each run fell over time."""
    figure = canvas.new_figure(10.0, 4.8, f"Ten ranks on {data}: {LAWS['e'].title}")
    last = max(max(run.seconds_to()) for run in runs.values())
    last = last if last < float("inf") else max(run.seconds[-1] for run in runs.values())
    panels = figure.subplots(1, 2)
    for axes, what, level in zip(panels, REACHED, (100.0 - 100.0 * task.accuracy, task.loss), strict=True):
        for index, (name, run) in enumerate(runs.items()):
            style = canvas.run_style((2, 1, 0)[index])
            values = 100.0 * (1.0 - np.array(run.accuracy)) if what == "accuracy" else np.array(run.loss)
            canvas.curve(axes, np.array(run.seconds), values, style, name, index)
        axes.axhline(level, color="#777777", linewidth=1.0, linestyle=":")
        axes.set_yscale("log")
        axes.set_xlim(0.0, 1.05 * last)
        axes.set_xlabel("time in seconds (virtual clock)")
        axes.set_ylabel("wrong on test images, in percent" if what == "accuracy" else "training loss")
        canvas.plain_ticks(axes.yaxis)
        axes.annotate(
            f"{level:g}%" if what == "accuracy" else f"{level:g}",
            *((0.0, level), (4, -14)),
            textcoords="offset points",
        )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(runs))
    return figure


if __name__ == "__main__":
    main()

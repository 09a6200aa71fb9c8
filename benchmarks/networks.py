"""Networks on ten ranks some of which are late: our default against DistributedDataParallel, and all else.

Five laws of delays (a to e), a dense network and a small one of convolutions on MNIST, and one on a batch of CIFAR-10;
on the virtual clock, where sending takes no time. Rates are the best of those tried for `DistributedDataParallel` on
seeds of its own, and nothing is set for ours; the rivals have the same. Each row is a ratio of seconds, paired by
seed, its median; the tables before it have ranges. One process alone is beside every row: it has no delays, and a rate
of its own.

    python benchmarks/networks.py                     all of it, about an hour
    python benchmarks/networks.py --quick             the dense network, two seeds, laws a and d
    python benchmarks/networks.py --only dense        a task with this in its name
    python benchmarks/networks.py --demo runs/networks     `make demo-networks`: one race, and its picture
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch

import networks_races as races
from common import report, verdict as verdict
from erasurehead.reports import _canvas as canvas
from networks_races import LAWS, Race, Task, alone, ddp, diloco, first_of, ours, post_local, waited

SEEDS = (1, 2, 3, 4, 5)
TUNED_ON = (11, 12, 13)
WAYS = ("first-gradients",)
REACHED: tuple[Literal["accuracy", "loss"], ...] = ("accuracy", "loss")
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


@cache
def best(task: Task, kind: str, method: str) -> tuple[float, int]:
    """Return the rate, and for rivals with one the period, that is first at the accuracy and the loss.

    Added up, the median of seeds of their own: a rate that is the first on one of them may never get there on another.
    """
    rates = task.momentum_rates if kind == "momentum" else task.adamw_rates
    candidates: dict[tuple[float, int], list[Race]] = {}
    for seed in TUNED_ON if method in ("ddp", "alone") else TUNED_ON[:1]:
        if method == "ddp":
            found = {(rate, 1): ddp(task, kind, rate, seed).timed(waited(LAWS["d"], seed)) for rate in rates}
        elif method == "alone":
            smaller = (rate / (10.0 if kind == "momentum" else 4.0) for rate in rates)
            found = {(rate, 1): alone(task, kind, rate, seed) for rate in smaller}
        else:
            rate, _ = best(task, kind, "ddp")
            run, together = (post_local, 100) if method == "post_local" else (diloco, 0)
            found = {
                (rate, period): run(task, kind, rate, seed, period).timed(waited(LAWS["e"], seed, period, together))
                for period in (4, 16)
            }
        for key, race in found.items():
            candidates.setdefault(key, []).append(race)
    return min(
        candidates,
        key=lambda each: statistics.median(sum(map(race.seconds_to, REACHED)) for race in candidates[each]),
    )


def of_rivals(task: Task, kind: str, seed: int, laws: Sequence[str], more: bool) -> dict[tuple[str, str], Race]:
    """Return what rivals came to, by name and law: what they compute does not depend on the law."""
    rate, _ = best(task, kind, "ddp")
    found: dict[tuple[str, str], Race] = {}
    synchronous, single = ddp(task, kind, rate, seed), alone(task, kind, best(task, kind, "alone")[0], seed)
    local: list[tuple[str, Race, int, int]] = []
    if more:
        period = best(task, kind, "post_local")[1]
        local.append(("PostLocalSGD", post_local(task, kind, rate, seed, period), period, 100))
        period = best(task, kind, "diloco")[1]
        local.append(("DiLoCo", diloco(task, kind, rate, seed, period), period, 0))
    for law in laws:
        found["DDP", law] = synchronous.timed(waited(LAWS[law], seed))
        one = LAWS[law].compute + (0.02 if law in "bd" else 0.0)
        found["one process alone", law] = single.timed(lambda samples, one=one: one * samples / races.BATCH)
        for name, race, period, together in local:
            found[name, law] = race.timed(waited(LAWS[law], seed, period, together))
        if more:
            found["first 7", law] = first_of(task, LAWS[law], kind, rate, seed, 7)
    return found


def race(task: Task, kind: str, laws: Sequence[str], seeds: Sequence[int], more: bool) -> dict[str, float]:
    """Run all of a task's methods, print a table for each law, and return its rows."""
    rate, _ = best(task, kind, "ddp")
    found: dict[tuple[str, str], list[Race]] = {}
    for seed in seeds:
        for key, each in of_rivals(task, kind, seed, laws, more).items():
            found.setdefault(key, []).append(each)
        for law in laws:
            for way in (None, *(WAYS if more else ())):
                name = f"ours, {way}" if way else "ours"
                mine = ours(task, LAWS[law], kind, rate, seed, way)
                found.setdefault((name, law), []).append(mine)
                against = found["DDP", law][-1]
                print(
                    f"seed {seed}, law {law}, {name}: "
                    + ", ".join(f"{mine.seconds_to(to):.4g} s (DDP {against.seconds_to(to):.4g} s)" for to in REACHED),
                    file=sys.stderr,
                )
    rows: dict[str, float] = {}
    for law in laws:
        print(f"\n{task.name}, {kind} {rate:g}, law {law}: {LAWS[law].title}")
        names = [name for name, its in found if its == law]
        for name in sorted(names, key=lambda each: (each != "ours", each)):
            print(f"  {name:<24}" + "".join(f"{seconds(found[name, law], what):>40}" for what in REACHED))
        for what in REACHED:
            title = f"{task.name}, {kind}, {law}, to the {what}"
            rows[f"{title}: DDP over ours"] = paired(found["DDP", law], found["ours", law], what)
            if more:
                others = [name for name in names if name not in ("ours", "one process alone")]
                rows[f"{title}: ours over the best of others"] = max(
                    paired(found["ours", law], found[name, law], what) for name in others
                )
            rows[f"{title}: alone over ours"] = paired(found["one process alone", law], found["ours", law], what)
    return rows


def seconds(runs: Sequence[Race], what: Literal["accuracy", "loss"]) -> str:
    """Return the median of what runs took, and its range."""
    each = sorted(run.seconds_to(what) for run in runs)
    return f"{statistics.median(each):.4g} s ({each[0]:.4g} to {each[-1]:.4g}) to the {what}"


def paired(above: Sequence[Race], below: Sequence[Race], what: Literal["accuracy", "loss"]) -> float:
    """Return the median of ratios, seed by seed; 0 if most of those above never got there, but those below did not."""
    ratios = [one.seconds_to(what) / other.seconds_to(what) for one, other in zip(above, below, strict=True)]
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
        elif key.endswith("the best of others"):
            found[key] = f"<= {BEHIND}"
        elif key.endswith("alone over ours") and law == "e" and kind == "momentum":
            found[key] = ">= 1"
    return found


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--kind", choices=("momentum", "adamw"))
    parser.add_argument("--laws", default="abcde")
    parser.add_argument("--without-others", action="store_true", help="DDP and one process alone only")
    parser.add_argument("--demo", type=Path)
    options = parser.parse_args(given)
    if options.demo is not None:
        demo(options.demo)
        return
    torch.set_num_threads(1)
    found = races.tasks()
    rows: dict[str, float] = {}
    laws = [law for law in ("ad" if options.quick else options.laws) if law != "c" or "digits" not in found]
    for name, task in found.items():
        if options.only in name and not (options.quick and name != next(iter(found))):
            for kind in ("momentum", "adamw") if options.kind is None else (options.kind,):
                seeds = SEEDS[: 2 if options.quick else options.seeds]
                more = not (options.quick or options.without_others)
                rows |= race(task, kind, laws, seeds, more)
    parts = ["networks", "quick" * options.quick, options.only, options.kind or ""]
    report(" ".join(filter(None, parts)), rows, targets_of(rows))


# The demonstration


def demo(out: Path) -> None:
    """Race the default against DistributedDataParallel and one process alone, and draw the picture."""
    begun = time.perf_counter()
    path = races.folder() / "mnist"
    task = races.tasks()["dense"] if path.is_dir() else races.written_digits()
    data = "MNIST" if path.is_dir() else "the written digits that come with scikit-learn"
    print(f"Ten ranks train a network of two dense layers on {data}, on a virtual clock: {LAWS['e'].title}.")
    if not path.is_dir():
        print("(MNIST is not here: set ERASUREHEAD_DATA to a folder with mnist/train-images-idx3-ubyte.gz and so on.)")
    law, seed, rate = LAWS["e"], 1, 0.1
    runs = {
        "ErasureHead, nobody waits": ours(task, law, "momentum", rate, seed),
        "DistributedDataParallel": ddp(task, "momentum", rate, seed).timed(waited(law, seed)),
        "one process alone, no delays": alone(task, "momentum", 0.1 * rate, seed).timed(
            lambda samples: law.compute * samples / races.BATCH
        ),
    }
    print(f"\n{'':<30}{'to ' + format(task.accuracy, '.0%'):>12}{'to loss ' + format(task.loss, 'g'):>18}")
    for name, run in runs.items():
        print(f"{name:<30}{run.seconds_to('accuracy'):>10.0f} s{run.seconds_to('loss'):>16.0f} s")
    with canvas.drawing():
        (path,) = canvas.save(picture(task, data, runs), canvas.prepare_folder(out), "networks", ("png",))
    print(f"\nPicture: {path} ({time.perf_counter() - begun:.0f} s)")


def picture(task: Task, data: str, runs: dict[str, Race]) -> canvas.Figure:
    """Draw how error and loss of each run fell over time."""
    figure = canvas.new_figure(10.0, 4.8, f"Ten ranks on {data}: {LAWS['e'].title}")
    last = max(run.seconds_to(what) for run in runs.values() for what in REACHED)
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

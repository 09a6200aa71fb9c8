"""`compute_once` beside `adaptive`: seconds to a gap with the same solver, by what makes workers slow.

Thirty workers and a small logistic regression on the virtual clock; late work is dropped. Where time grows with the
work, a worker's share takes 1 s, and five times as long while it is slow. Medians of three seeds.

Then the same for `adaptive` on the published data, where they are there, beside itself if workers send sums alone and
keep their data: medians of five seeds that nothing was chosen on.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable
from dataclasses import replace

from common import report
from erasurehead import engines, optimizers, training
from erasurehead.delays import Delays, Exponential
from erasurehead.schemes import parse_scheme
from orders import LAWS
from orders_law import Slowness
from redundancy import problem
from target_cells import DATA, LATE, MOST_SECONDS, of_adaptive

WORKERS, SEEDS, GAPS, MOST = 30, (1, 2, 3), ("1e-3", "1e-6"), 400
UNSEEN = (11, 12, 13, 14, 15)
SCHEMES = {"adaptive": "adaptive()", "compute_once": "compute_once(load=3)"}


def slow(name: str) -> Callable[[int], Delays]:
    """Return workers that turn slow, by seed."""
    enter, leave = LAWS[name]
    return lambda seed: Slowness(enter, leave, 1.0, seed=seed)


KINDS: dict[str, Callable[[int], Delays]] = {
    **{name: slow(name) for name in ("persistent", "ten steps", "memoryless")},
    "exponential by work": lambda seed: Exponential(mean=0.5, seed=seed, scale_with_load=True),
    "exponential": lambda seed: Exponential(mean=0.5, seed=seed),
}


def seconds_to(scheme: str, law: Delays) -> list[float]:
    """Return when each gap was reached."""
    one = problem(in_order=False)
    run = training.train(
        one,
        parse_scheme(scheme, WORKERS),
        optimizers.QuasiNewton(one.initial()),
        engines.VirtualEngine(law),
        MOST,
        until=f"gap < {GAPS[-1]}",
    )
    return [next((item.time for item in run.measured if item.value < float(gap)), math.inf) for gap in GAPS]


def on_published_data(found: dict[str, float | list[float]], targets: dict[str, str]) -> None:
    """Measure what choosing messages and moving data come to, beside sums alone."""
    whole = parse_scheme("adaptive()", WORKERS)
    for data in DATA:
        for kind, least in (("persistent", 1.3), ("memoryless", 0.97)):
            for late in LATE:
                cell = f"{data}, {kind}: {late}"
                reached = {
                    name: [of_adaptive(data, late, slow(kind)(seed), scheme, levels=GAPS).times for seed in UNSEEN]
                    for name, scheme in ((", sums", replace(whole, by_task=None)), ("", whole))
                }
                for name, each in reached.items():
                    found[cell + name] = [statistics.median(times.get(gap, math.inf) for times in each) for gap in GAPS]
                for gap in GAPS:
                    pairs = zip(reached[", sums"], reached[""], strict=True)
                    ratio = f"{cell}, sums over adaptive to {gap}"
                    found[ratio] = statistics.median(  # at least, where sums alone never come to it
                        sums.get(gap, MOST_SECONDS) / times.get(gap, math.inf) for sums, times in pairs
                    )
                    targets[ratio] = f">= {least}"


def main() -> None:
    """Measure and report."""
    found: dict[str, float | list[float]] = {}
    targets: dict[str, str] = {}
    for kind, law in KINDS.items():
        for name, scheme in SCHEMES.items():
            times = [seconds_to(scheme, law(seed)) for seed in SEEDS]
            found[f"{kind}: {name}"] = [statistics.median(each) for each in zip(*times, strict=True)]
    if "ERASUREHEAD_DATA" in os.environ:
        on_published_data(found, targets)
    report("compute_once", found, targets)


if __name__ == "__main__":
    main()

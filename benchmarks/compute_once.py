"""`compute_once` beside `adaptive`: seconds to a gap with the same solver, by what makes workers slow.

Thirty workers and a small logistic regression on the virtual clock; late work is dropped. Where time grows with the
work, a worker's share takes 1 s, and five times as long while it is slow. Medians of three seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from common import report
from erasurehead import engines, optimizers, training
from erasurehead.delays import Delays, Exponential
from erasurehead.schemes import parse_scheme
from orders import LAWS
from orders_law import Slowness
from redundancy import problem

WORKERS, SEEDS, GAPS, MOST = 30, (1, 2, 3), ("1e-3", "1e-6"), 400
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


def main() -> None:
    """Measure and report."""
    found: dict[str, list[float]] = {}
    for kind, law in KINDS.items():
        for name, scheme in SCHEMES.items():
            times = [seconds_to(scheme, law(seed)) for seed in SEEDS]
            found[f"{kind}: {name}"] = [statistics.median(each) for each in zip(*times, strict=True)]
    report("compute_once", found, {})


if __name__ == "__main__":
    main()

"""A virtual ErasureHead run on the Amazon data against plain full gradient descent by the same kernels, same steps.

Both begin with a problem that has been checked, put its rows into the form that the kernels multiply fastest, and
move the same Nesterov model. Plain descent has the gradient of all samples in one piece and keeps nothing; the run
has messages of ten groups of workers over their own columns, a clock with thirty workers, and all records, each
step's loss and norms among them.
"""

from __future__ import annotations

import copy

from amazon import RATE, erasurehead, problem, run
from common import interleave, ratio, report
from erasurehead.optimizers import Nesterov
from erasurehead.optimizers._base import Answer

STEPS = 50


def plain() -> None:
    """Take the steps with the full gradient, in one process, with no clock and no records."""
    whole = copy.copy(problem())  # shares the data, and nothing that was prepared: the run prepares its shards too
    optimizer = Nesterov(whole.initial(), RATE)
    for _ in range(STEPS):
        x = optimizer.ask().points[0]
        optimizer.tell(Answer(whole.gradient(x) + whole.penalty_gradient(x)))


def virtual() -> None:
    """Take the steps with ErasureHead's estimates, on the virtual clock, with every record."""
    run(erasurehead(), STEPS, "virtual")


def main() -> None:
    """Measure and report."""
    seconds = interleave({"virtual": virtual, "plain": plain}, repetitions=5)
    for name, values in seconds.items():
        print(f"{name:<10} {1e3 * min(values) / STEPS:6.2f} ms a step at best")
    report("virtual", {"virtual_over_plain": ratio(seconds, "virtual", "plain")}, {"virtual_over_plain": "<= 1.25"})


if __name__ == "__main__":
    main()

"""True wall time of whole runs against what the injected delays alone would cost.

The ideal is, summed over the steps, the wait rule applied to the injected delays plus the time of a step of the same
run without injected delays. Everything is measured on thirty real processes, in turn.
"""

from __future__ import annotations

import statistics

from amazon import DELAYS, WORKERS, erasurehead, run
from common import report
from erasurehead import schemes

REPETITIONS = 3
SIDES = {
    "uncoded": (schemes.uncoded(WORKERS), 12),
    "exact_load_3": (schemes.exact(WORKERS, load=3), 40),
    "erasurehead_load_3_first_11": (erasurehead(), 80),
}


def ideal_waits(scheme: schemes.Scheme, steps: int) -> float:
    """Return the seconds that the rule waits over all steps if messages take nothing but their injected delays."""
    assert (scheme.code.owner == range(WORKERS)).all()
    return float(scheme.rule.stop_times(DELAYS.rows(0, steps, WORKERS), scheme.decoder).sum())


def main() -> None:
    """Measure and report."""
    found: dict[str, list[float]] = {name: [] for name in SIDES}
    for repetition in range(REPETITIONS):
        for name, (scheme, steps) in SIDES.items():
            bare = run(scheme, 20, delays=None).steps
            bare_step = (bare[-1].end - bare[0].end) / (len(bare) - 1)  # the first step is cold; the real run's counts
            real = run(scheme, steps).seconds
            ideal = ideal_waits(scheme, steps) + steps * bare_step
            found[name].append(real / ideal)
            print(
                f"{repetition} {name:<28} {steps:3d} steps: wall {real:7.3f} s, ideal {ideal:7.3f} s, "
                f"step without delays {1e3 * bare_step:6.2f} ms",
                flush=True,
            )
    report(
        "wall_clock",
        {name: statistics.median(values) for name, values in found.items()},
        dict.fromkeys(SIDES, "<= 1.10"),
    )


if __name__ == "__main__":
    main()

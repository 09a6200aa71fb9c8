"""What Figure 3 of the ErasureHead paper comes to: speed-ups over uncoded training, and over exact codes.

Of `erasurehead reproduce erasurehead --figure 3`, on the virtual clock: ratios of the time to what all methods reach,
medians over the seeds of the delays. It needs the real data: set ERASUREHEAD_DATA to their folder.
"""

from __future__ import annotations

import statistics
import tempfile

from common import report
from erasurehead.papers import reproduce

DATA = {"3a": "Amazon", "3b": "Covertype", "3c": "KC Housing"}


def main() -> None:
    """Reproduce, and report."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = reproduce("erasurehead", ["3"], f"{folder}/made")
    for exhibit, _ in made.exhibits:
        columns, data = exhibit.numbers.columns, DATA[exhibit.id]
        seconds: dict[tuple[str, int], dict[int, float]] = {}
        for family, load, seed, time in zip(
            *(columns[name] for name in ("family", "load", "seed", "seconds_to_target")), strict=True
        ):
            seconds.setdefault((family, load), {})[seed] = time
        for family, load in seconds:
            for name, other in ((f"{family} over uncoded", ("uncoded", 1)), (f"{family} over exact", ("exact", load))):
                if other in seconds and other != (family, load):
                    ratios = [seconds[other][seed] / own for seed, own in seconds[family, load].items()]
                    found[f"{data}, c = {load}: {name}"] = statistics.median(ratios)
    report("reproduction", found, {})


if __name__ == "__main__":
    main()

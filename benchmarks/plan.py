"""How long a plan takes: the command as it is typed, and a search over 200 settings for 30 workers and for 10,000.

Commands are run five times, one after the other, and the median counts: start and pictures are in it. Those with data
need King County's house prices (set ERASUREHEAD_DATA to the folder that holds `kc_housing`). `--search` and `--typed`
measure one of both parts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

from common import interleave, report
from erasurehead import delays
from erasurehead.datasets._published.public import where
from erasurehead.planning import plan
from erasurehead.planning._settings import default_settings

MODEL = delays.Exponential(0.5, seed=0)
TYPED = 5
COMMAND = "from erasurehead.cli import main; main()"
SECONDS = {30: 20.0, 10_000: 120.0}


def settings(n_workers: int) -> tuple[str, ...]:
    """Return 200 settings: the default ones, and ErasureHead with further numbers of workers to wait for."""
    texts = list(default_settings(n_workers, max_load=20))
    more = (
        f"erasurehead(load={load}, wait_for={wait})"
        for wait in range(1, n_workers)
        for load in (2, 3, 4, 5, 6, 8, 10, 7, 9, 11)
        if wait + load <= n_workers
    )
    for text in more:
        if len(texts) >= 200:
            break
        if text not in texts:
            texts.append(text)
    return tuple(texts[:200])


def typed(ratios: dict[str, float], targets: dict[str, str]) -> None:
    """Time the command with either kind of late work."""
    kinds: dict[str, tuple[float, list[str]]] = {
        "30 workers": (5.0, ["--workers", "30"]),
        "1000 workers": (30.0, ["--workers", "1000"]),
    }
    if where("kc_housing").file is not None:
        kinds["30 workers, 5,000 rows of KC Housing"] = 20.0, ["--workers", "30", "--data", "kc_housing"]
    model = ["--delays", "exponential(mean=0.5)", "--seconds-per-task", "0.02"]
    for name, (allowed, options) in kinds.items():
        for late in ("preempt", "carry"):
            seconds: list[float] = []
            for _ in range(TYPED):
                with tempfile.TemporaryDirectory() as folder:
                    words = ["plan", *model, *options, "--late", late, "--out", f"{folder}/plan"]
                    begin = time.perf_counter()
                    subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True)
                    seconds.append(time.perf_counter() - begin)
            median = statistics.median(seconds)
            print(f"erasurehead plan, {name}, {late}: {median:.2f} s of {allowed:.0f} s allowed", flush=True)
            key = f"seconds over allowed, typed, {name}, {late}"
            ratios[key], targets[key] = median / allowed, "<= 1.00"


def main() -> None:
    """Measure and report; targets are in seconds, which the ratios are of the time allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", action="store_true", help="the search only")
    parser.add_argument("--typed", action="store_true", help="the commands only")
    options = parser.parse_args()
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    if not options.search:
        typed(ratios, targets)
    if not options.typed:
        search(ratios, targets)
    report("plan", ratios, targets)


def search(ratios: dict[str, float], targets: dict[str, str]) -> None:
    """Time the search, from a model and from a trace."""
    for n_workers, allowed in SECONDS.items():
        tried = settings(n_workers)
        assert len(tried) == 200
        trace = delays.Bootstrap(MODEL.rows(0, 100, n_workers))
        sides = {
            "a model": lambda n=n_workers, texts=tried: plan(MODEL, n, 0.01, texts),
            "a trace": lambda n=n_workers, texts=tried, drawn=trace: plan(drawn, n, 0.01, texts),
        }
        for side, seconds in interleave(sides, repetitions=3, warmup=0).items():
            median = statistics.median(seconds)
            print(f"200 settings, {n_workers} workers, {side}: {median:.2f} s of {allowed:.0f} s allowed")
            key = f"seconds over allowed, {n_workers} workers, {side}"
            ratios[key], targets[key] = median / allowed, "<= 1.00"


if __name__ == "__main__":
    main()
